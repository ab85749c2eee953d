//! Latencies: their quantiles, and pgbench's log of them.
//!
//! Source of the log's format: PostgreSQL's documentation of pgbench, "Per-Transaction Logging".

use std::fs;
use std::path::Path;

use crate::error::{Error, Outcome};
use crate::stats::histogram;

/// What is shown of many latencies, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Quantiles {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
}

impl Quantiles {
    /// Of latencies in microseconds; `None` when there are none.
    pub(crate) fn of(micros: impl IntoIterator<Item = u32>) -> Option<Quantiles> {
        let histogram = histogram(micros)?;
        #[allow(clippy::cast_precision_loss)]
        let at = |q: f64| histogram.value_at_quantile(q) as f64 / 1000.0;
        Some(Quantiles { p50: at(0.5), p99: at(0.99), p999: at(0.999), max: at(1.0) })
    }
}

/// One transaction of pgbench's log: whose it was, when it ended, how long it took. In microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) client: u32,
    pub(crate) end: u64,
    pub(crate) took: u32,
}

/// All transactions in the logs of a folder, in the order of their ends.
pub(crate) fn read_logs(folder: &Path) -> Outcome<Vec<Entry>> {
    let files = fs::read_dir(folder).map_err(|e| Error::at(folder.display(), e))?;
    let mut all = Vec::new();
    for file in files.flatten() {
        let text = fs::read_to_string(file.path()).map_err(|e| Error::at(file.path().display(), e))?;
        all.extend(text.lines().filter_map(entry));
    }
    all.sort_by_key(|entry| entry.end);
    Ok(all)
}

/// A line is `client transaction latency script seconds microseconds …`; one that was skipped has no latency.
fn entry(line: &str) -> Option<Entry> {
    let mut fields = line.split(' ');
    let client = fields.next()?.parse().ok()?;
    let took = fields.nth(1)?.parse().ok()?;
    let seconds: u64 = fields.nth(1)?.parse().ok()?;
    let micros: u64 = fields.next()?.parse().ok()?;
    Some(Entry { client, end: seconds * 1_000_000 + micros, took })
}

/// From one end to the next of the same client: with `-C`, a whole visit. pgbench's own latency begins after the login.
pub(crate) fn visits(entries: &[Entry]) -> Vec<u32> {
    let clients = entries.iter().map(|entry| entry.client as usize + 1).max().unwrap_or(0);
    let mut last = vec![None; clients];
    let mut all = Vec::with_capacity(entries.len());
    for entry in entries {
        if let Some(before) = last[entry.client as usize].replace(entry.end) {
            all.push(u32::try_from(entry.end - before).unwrap_or(u32::MAX));
        }
    }
    all
}

/// How many others were served between the beginning and the end of each transaction.
///
/// Where the queue is fair, the number is the same for all, give or take one or two, however the pace of the machine
/// changes meanwhile: this tells an unfair queue from an unsteady machine.
pub(crate) fn places(entries: &[Entry]) -> Vec<u32> {
    let begun_before = |at: usize| {
        let begin = entries[at].end - u64::from(entries[at].took);
        at - entries[..at].partition_point(|other| other.end <= begin)
    };
    (0..entries.len()).map(|at| u32::try_from(begun_before(at)).unwrap_or(u32::MAX)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(client: u32, end: u64, took: u32) -> Entry {
        Entry { client, end, took }
    }

    #[test]
    fn a_line_tells_client_latency_and_end_and_a_skipped_one_nothing() {
        assert_eq!(entry("7 199 2241 0 1175850568 995598"), Some(of(7, 1_175_850_568_995_598, 2241)));
        assert_eq!(entry("0 199 2241 0 1175850568 995598 50"), Some(of(0, 1_175_850_568_995_598, 2241)));
        assert_eq!(entry("0 199 skipped 0 1175850568 995598"), None);
        assert_eq!(entry(""), None);
    }

    #[test]
    fn a_visit_lasts_from_one_end_to_the_next() {
        let entries = [of(0, 100, 5), of(1, 150, 5), of(0, 300, 5), of(0, 350, 5), of(1, 900, 5)];
        assert_eq!(visits(&entries), [200, 50, 750]);
        assert!(visits(&[]).is_empty());
    }

    #[test]
    fn the_place_in_the_queue_does_not_depend_on_the_pace() {
        // Three clients in rotation; the machine stands still in the middle.
        let ends = [10, 20, 30, 1040, 1050, 1060];
        let took = [10, 20, 30, 1030, 1030, 1030];
        let entries: Vec<_> = (0..6).map(|at| of(at % 3, ends[at as usize], took[at as usize])).collect();
        assert_eq!(places(&entries)[3..], [2, 2, 2]);
        // The last one overtook both.
        let entries = [of(0, 10, 10), of(1, 20, 20), of(2, 30, 30), of(0, 40, 10)];
        assert_eq!(places(&entries), [0, 1, 2, 0]);
    }

    #[test]
    fn quantiles_are_in_milliseconds() {
        let quantiles = Quantiles::of((1..=1000).rev().map(|micros| micros * 1000)).unwrap();
        let found = [quantiles.p50, quantiles.p99, quantiles.p999, quantiles.max].map(f64::round);
        assert_eq!(found, [500.0, 990.0, 999.0, 1000.0]);
        assert_eq!(Quantiles::of([]), None);
    }
}
