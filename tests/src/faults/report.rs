//! The results: figures, a line of a table, a timeline of the goodput.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use super::Trial;
use super::load::Event;
use super::pooler::Kind;

/// The resolution of the timelines.
const BUCKET: Duration = Duration::from_millis(100);
/// Recovery: this share of the goodput before the fault, over five buckets.
const RECOVERED: f64 = 0.9;

/// Times and counts of one run.
pub(super) struct Figures {
    pub(super) began: Instant,
    pub(super) struck: Instant,
    pub(super) over: Instant,
    pub(super) stopped: Instant,
    pub(super) logins: Vec<f64>,
    pub(super) errors: BTreeMap<String, usize>,
    pub(super) note: String,
}

/// The effect of one fault on one pooler.
#[derive(Clone, Debug)]
pub struct Report {
    fault: &'static str,
    kind: Kind,
    /// Transactions per second before, during and after.
    goodput: [f64; 3],
    lasted: Duration,
    /// From the fault's end to the first success.
    first: Option<Duration>,
    /// From the fault's end until [`RECOVERED`].
    recovered: Option<Duration>,
    /// The longest time without any success, from the start of the fault on.
    gap: Duration,
    errors: BTreeMap<String, usize>,
    /// Logins at the server from the start of the fault on, and the most of them within one second.
    logins: (usize, usize),
    buckets: Vec<u32>,
    struck: usize,
    over: usize,
    note: String,
}

impl Report {
    pub(super) fn of(trial: &Trial, events: &[Event], figures: Figures) -> Report {
        let Figures { began, struck, over, stopped, logins, errors, note } = figures;
        let good: Vec<Instant> = events.iter().filter(|event| event.failed.is_none()).map(|event| event.at).collect();
        let bucket = |at: Instant| (at.saturating_duration_since(began).as_micros() / BUCKET.as_micros()) as usize;
        let mut buckets = vec![0; bucket(stopped)];
        for at in &good {
            if let Some(count) = buckets.get_mut(bucket(*at)) {
                *count += 1;
            }
        }
        // The first moments are the clients' logins.
        let warm = began + (struck - began).mul_f64(0.3);
        let before = rate(&good, warm, struck);
        let mean = |buckets: &[u32]| f64::from(buckets.iter().sum::<u32>()) / buckets.len() as f64 * 10.0;
        let back = |from: &[u32]| from.windows(5).position(|window| mean(window) >= RECOVERED * before);
        let recovered = buckets.get(bucket(over)..).and_then(back).map(|at| BUCKET * at as u32);
        let first = good.iter().filter(|at| **at > over).min().map(|at| *at - over);
        let calm_again = over + recovered.unwrap_or_default();
        let seconds = (struck - began).as_secs_f64();
        let since: Vec<f64> = logins.into_iter().filter(|at| *at >= seconds).collect();
        let peak = since.iter().map(|from| since.iter().filter(|at| (*from..*from + 1.0).contains(*at)).count()).max();
        Report {
            fault: trial.fault,
            kind: trial.kind,
            goodput: [before, rate(&good, struck, over), rate(&good, calm_again, stopped)],
            lasted: over - struck,
            first,
            recovered,
            gap: gap(good, struck, stopped),
            errors,
            logins: (since.len(), peak.unwrap_or(0)),
            struck: bucket(struck),
            over: bucket(over),
            buckets,
            note,
        }
    }

    /// The line of the table: fault, pooler, goodput before, during and after, recovery, gap, errors, logins.
    pub fn row(&self) -> String {
        let [before, during, after] = self.goodput.map(|rate| format!("{rate:.0}"));
        // A fault without a duration has no goodput of its own.
        let during = if self.lasted < BUCKET * 2 { "—".to_owned() } else { during };
        let errors: Vec<_> = self.errors.iter().map(|(code, count)| format!("{code} × {count}")).collect();
        let errors = if errors.is_empty() { "none".to_owned() } else { errors.join(", ") };
        let note = if self.note.is_empty() { String::new() } else { format!("; {}", self.note) };
        format!(
            "| `{}` | {} | {} | {before} | {during} | {after} | {} | {} | {} | {errors}{note} | {}, {} |",
            self.fault,
            self.kind.name(),
            shown(Some(self.lasted)),
            shown(self.first),
            shown(self.recovered),
            shown(Some(self.gap)),
            self.logins.0,
            self.logins.1,
        )
    }

    /// The head of the table.
    pub fn head() -> &'static str {
        "| fault | pooler | lasted | before | during | after | first | 90 % | gap | errors seen | logins |\n\
         |---|---|---|---|---|---|---|---|---|---|---|"
    }

    /// The goodput as a timeline, one character per 100 ms; under it, where the fault began (`^`) and ended (`$`).
    pub fn timeline(&self) -> String {
        const STEPS: [char; 9] = ['·', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        let most = f64::from(self.buckets.iter().copied().max().unwrap_or(1).max(1));
        let step = |count: &u32| STEPS[(f64::from(*count) / most * 8.0).ceil() as usize];
        let bars: String = self.buckets.iter().map(step).collect();
        let mut marks = vec![' '; self.buckets.len().max(self.over + 1)];
        marks[self.struck] = '^';
        if self.over > self.struck {
            marks[self.struck + 1..self.over].fill('-');
            marks[self.over] = '$';
        }
        let title = format!("{} {}", self.fault, self.kind.name());
        let mut text = String::new();
        let _ = writeln!(text, "{title:<34} {bars}");
        let _ = writeln!(text, "{:<34} {}", "", marks.into_iter().collect::<String>().trim_end());
        text
    }
}

/// Successes per second.
fn rate(good: &[Instant], from: Instant, to: Instant) -> f64 {
    let seconds = to.saturating_duration_since(from).as_secs_f64();
    let count = good.iter().filter(|at| (from..to).contains(*at)).count();
    if seconds == 0.0 { 0.0 } else { count as f64 / seconds }
}

fn gap(mut good: Vec<Instant>, from: Instant, to: Instant) -> Duration {
    good.retain(|at| (from..to).contains(at));
    good.sort();
    let ends = good.iter().copied().chain([to]);
    let begins = [from].into_iter().chain(good.iter().copied());
    begins.zip(ends).map(|(begin, end)| end - begin).max().unwrap_or_default()
}

fn shown(time: Option<Duration>) -> String {
    match time {
        None => "never".to_owned(),
        Some(time) if time < Duration::from_secs(1) => format!("{} ms", time.as_millis()),
        Some(time) => format!("{:.1} s", time.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::Form;

    /// Ten successes per bucket for a second, a second of only errors, then four per bucket, then ten.
    fn report() -> Report {
        let began = Instant::now();
        let at = |bucket: u32, within: u32| began + BUCKET * bucket + Duration::from_millis(u64::from(within));
        let event = |at, failed: Option<&str>| Event { at, client: 0, failed: failed.map(str::to_owned) };
        let mut events = Vec::new();
        for bucket in 0..40 {
            let (count, failed) = match bucket {
                10..20 => (2, Some("08006")),
                20..25 => (4, None),
                _ => (10, None),
            };
            events.extend((0..count).map(|within| event(at(bucket, within), failed)));
        }
        let trial = Trial { fault: "made-up", kind: Kind::Weir, form: Form::Full };
        let figures = Figures {
            began,
            struck: at(10, 0),
            over: at(20, 0),
            stopped: at(40, 0),
            logins: vec![0.2, 1.1, 2.0, 2.5, 2.6],
            errors: BTreeMap::from([("08006".to_owned(), 20)]),
            note: String::new(),
        };
        Report::of(&trial, &events, figures)
    }

    #[test]
    fn figures_are_counted_from_the_start_of_the_fault_and_from_its_end() {
        let report = report();
        assert_eq!(report.goodput.map(f64::round), [100.0, 0.0, 100.0]);
        assert_eq!(report.recovered, Some(Duration::from_millis(500)));
        assert!(report.first.unwrap() < Duration::from_millis(20), "{:?}", report.first);
        assert!(report.gap >= Duration::from_millis(990) && report.gap < Duration::from_millis(1_100));
        assert_eq!(report.logins, (4, 3));
    }

    #[test]
    fn a_timeline_has_a_character_for_each_bucket_and_marks_below() {
        let text = report().timeline();
        let (bars, marks) = text.split_once('\n').unwrap();
        assert!(bars.ends_with(&format!("{}{}{}{}", "█".repeat(10), "·".repeat(10), "▄".repeat(5), "█".repeat(15))));
        assert!(marks.trim_end().ends_with("^---------$"));
    }
}
