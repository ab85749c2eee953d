//! Durations as Prometheus histograms: `_bucket`, `_sum` and `_count` of each database.
//!
//! Owns the bounds that are shown: each twice the one before, from 64 µs to more than a minute, so that a query can
//! compute quantiles from a tenth of a millisecond to many seconds; the workers' buckets are finer. A histogram has
//! some seventy lines, so only [`MOST_TIMED`] databases have their own; the rest is one sum.

use std::collections::BTreeMap;

use weir_admin::{DatabaseStats, Histogram, Stats, Times};

use super::family::{Buckets, Family, Sink, Value};
use crate::figures::seconds_of;

/// The label of the sum of all that have no label of their own.
pub(super) const OTHERS: &str = "(others)";
/// Databases that have histograms of their own.
const MOST_TIMED: usize = 250;
/// The powers of two of microseconds that bound the buckets: 64 µs to 67 s.
const BOUNDS: std::ops::RangeInclusive<u32> = 6..=26;

/// The durations of each database.
#[derive(Debug, Default)]
pub(super) struct Timed(BTreeMap<String, (Stats, Times)>);

/// One kind of duration: its name, its help, its counts and its sum in microseconds.
struct Time {
    name: &'static str,
    help: &'static str,
    counts: fn(&Times) -> &Histogram,
    sum: fn(&Stats) -> u64,
}

const TIMES: [Time; 3] = [
    Time {
        name: "weir_client_wait",
        help: "How long clients waited for a server, 0 for who did not",
        counts: |times| &times.wait,
        sum: |stats| stats.wait_time,
    },
    Time {
        name: "weir_query",
        help: "How long queries took",
        counts: |times| &times.query,
        sum: |stats| stats.query_time,
    },
    Time {
        name: "weir_transaction",
        help: "How long transactions took, idle times in them too",
        counts: |times| &times.transaction,
        sum: |stats| stats.xact_time,
    },
];

impl Timed {
    pub(super) fn add(&mut self, of: &DatabaseStats) {
        let name = if self.0.len() < MOST_TIMED { of.database.clone() } else { OTHERS.to_owned() };
        let (stats, times) = self.0.entry(name).or_default();
        stats.add(&of.total);
        of.counters.counted().into_iter().for_each(|counted| times.add(counted));
    }

    pub(super) fn write(&self, to: &mut dyn Sink) {
        for Time { name, help, counts, sum } in &TIMES {
            to.family(Family::histogram(name, help).in_seconds());
            for (database, (stats, times)) in &self.0 {
                let counts = counts(times);
                let (sum, count) = (seconds_of(sum(stats)), counts.total());
                to.point(&[("database", database)], Value::Histogram(Buckets { sum, count, counts: &buckets(counts) }));
            }
        }
    }
}

/// Each bound in seconds, and the count between it and the one before; the last is open.
fn buckets(counts: &Histogram) -> Vec<(f64, u64)> {
    let mut before = 0;
    let mut buckets = Vec::with_capacity(BOUNDS.count() + 1);
    for bound in BOUNDS {
        let below = counts.below(1 << bound);
        buckets.push((seconds_of(1 << bound), below - before));
        before = below;
    }
    buckets.push((f64::INFINITY, counts.total() - before));
    buckets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_have_all_that_was_counted_each_once() {
        let mut counts = Histogram::default();
        [0, 63, 64, 1_000, 67_108_863, 67_108_864, u64::MAX].iter().for_each(|micros| counts.count(*micros));
        let buckets = buckets(&counts);
        assert_eq!((buckets[0], buckets[1]), ((0.000_064, 2), (0.000_128, 1)));
        assert_eq!((buckets[buckets.len() - 2].1, buckets[buckets.len() - 1].1), (1, 2));
        assert_eq!(buckets.iter().map(|(_, count)| count).sum::<u64>(), counts.total());
    }
}
