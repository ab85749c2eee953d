//! The figures of a pool, and how each is computed from two states: one table for events, history and advice.
//!
//! Owns the names. Gauges are values of one state; counters are the difference to an earlier state, and unknown
//! without one. Times are in milliseconds where the name says so, rates are per second.

use std::collections::BTreeMap;

use weir_admin::{Errors, PoolCounters, PoolRecord, Report, Stats, Times};
use weir_base::PoolMode;
use weir_config::Config;

/// The state of one pool at a moment: all its users together.
#[derive(Clone, Debug)]
pub(crate) struct PoolState {
    pub(crate) record: PoolRecord,
    pub(crate) stats: Stats,
    pub(crate) counters: PoolCounters,
    pub(crate) refusals: u64,
}

impl PoolState {
    pub(super) fn new() -> PoolState {
        let record = PoolRecord::new("", "", PoolMode::Transaction);
        PoolState { record, stats: Stats::default(), counters: PoolCounters::default(), refusals: 0 }
    }

    fn add(&mut self, other: &PoolState) {
        self.record.add(&other.record);
        self.stats.add(&other.stats);
        self.counters.add(&other.counters);
        self.refusals += other.refusals;
    }

    /// The errors by SQLSTATE since the start.
    pub(crate) fn errors(&self) -> &Errors {
        &self.counters.errors
    }
}

/// All pools at a moment: those of the configuration, and those made on demand.
#[derive(Clone, Debug, Default)]
pub(crate) struct PoolStates(pub(crate) BTreeMap<String, PoolState>);

impl PoolStates {
    pub(crate) fn of(report: Report, config: &Config) -> PoolStates {
        let named = config.pools.keys().map(|name| (name.clone(), PoolState::new()));
        let mut states: BTreeMap<String, PoolState> = named.collect();
        for (name, health) in report.unused {
            states.entry(name).or_insert_with(PoolState::new).record.health = health;
        }
        for record in &report.pools {
            states.entry(record.database.clone()).or_insert_with(PoolState::new).record.add(record);
        }
        for refused in &report.refusals {
            let Some((name, _)) = &refused.pool else { continue };
            if let Some(state) = states.get_mut(name) {
                state.refusals += refused.refusals.total();
            }
        }
        for stats in report.stats {
            if let Some(state) = states.get_mut(&stats.database) {
                (state.stats, state.counters) = (stats.total, stats.counters);
            }
        }
        PoolStates(states)
    }

    /// All pools as one.
    pub(crate) fn sum(&self) -> PoolState {
        let mut sum = PoolState::new();
        self.0.values().for_each(|state| sum.add(state));
        sum
    }
}

/// What happened to a pool between two states.
struct Interval<'a> {
    now: &'a PoolState,
    /// None without an earlier state.
    passed: Option<Passed>,
}

struct Passed {
    seconds: f64,
    stats: Stats,
    times: Option<Times>,
    logins: u64,
    connects: u64,
    errors: u64,
    refusals: u64,
}

impl<'a> Interval<'a> {
    fn new(before: Option<(&PoolState, f64)>, now: &'a PoolState) -> Interval<'a> {
        let passed = before.filter(|(_, seconds)| *seconds > 0.0).map(|(before, seconds)| Passed {
            seconds,
            stats: now.stats.sub(&before.stats),
            times: now
                .counters
                .counted()
                .map(|times| before.counters.counted().map_or(times.clone(), |b| times.since(b))),
            logins: now.counters.logins.saturating_sub(before.counters.logins),
            connects: now.counters.connects.saturating_sub(before.counters.connects),
            errors: now.errors().total().saturating_sub(before.errors().total()),
            refusals: now.refusals.saturating_sub(before.refusals),
        });
        Interval { now, passed }
    }

    fn is(&self, count: fn(&PoolRecord) -> u32) -> Option<f64> {
        Some(f64::from(count(&self.now.record)))
    }

    fn rate(&self, count: fn(&Passed) -> u64) -> Option<f64> {
        self.passed.as_ref().map(|passed| count(passed) as f64 / passed.seconds)
    }

    /// A share of a whole; unknown if the whole is zero.
    fn share(&self, of: fn(&Stats) -> (u64, u64)) -> Option<f64> {
        let (part, whole) = of(&self.passed.as_ref()?.stats);
        (whole > 0).then(|| (part as f64 / whole as f64).clamp(0.0, 1.0))
    }

    fn quantile(&self, of: fn(&Times) -> &weir_admin::Histogram, share: f64) -> Option<f64> {
        of(self.passed.as_ref()?.times.as_ref()?).quantile(share).map(|micros| micros / 1e3)
    }

    fn mean(&self, of: fn(&Stats) -> (u64, u64)) -> Option<f64> {
        let (time, count) = of(&self.passed.as_ref()?.stats);
        (count > 0).then(|| time as f64 / count as f64 / 1e3)
    }
}

/// How values of several moments are merged into one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Merge {
    Mean,
    /// The maximum, which a mean would hide.
    Most,
}

/// One figure.
pub struct Series {
    /// The figure's name; events join series that differ only after the last `_` into one object (`wait_ms`: `p95`).
    pub name: &'static str,
    pub(crate) merge: Merge,
    /// Whether the figure is the difference of two states rather than a value of one.
    pub(crate) flows: bool,
    of: fn(&Interval<'_>) -> Option<f64>,
}

const fn level(name: &'static str, merge: Merge, of: fn(&Interval<'_>) -> Option<f64>) -> Series {
    Series { name, merge, flows: false, of }
}

const fn flow(name: &'static str, merge: Merge, of: fn(&Interval<'_>) -> Option<f64>) -> Series {
    Series { name, merge, flows: true, of }
}

/// The number of series.
pub(crate) const COUNT: usize = 29;

/// All series. Add new ones at the end: files of history store them by index.
pub static SERIES: [Series; COUNT] = [
    level("clients_active", Merge::Mean, |i| i.is(linked)),
    level("clients_idle", Merge::Mean, |i| i.is(|pool| pool.cl_active - linked(pool))),
    level("clients_waiting", Merge::Most, |i| i.is(|pool| pool.cl_waiting)),
    level("servers_active", Merge::Mean, |i| i.is(|pool| pool.sv_active)),
    level("servers_idle", Merge::Mean, |i| i.is(|pool| pool.sv_idle + pool.sv_used)),
    level("servers_login", Merge::Most, |i| i.is(|pool| pool.sv_login)),
    level("servers_idle_in_transaction", Merge::Mean, |i| i.is(|pool| pool.sv_idle_in_transaction)),
    level("oldest_wait_seconds", Merge::Most, |i| Some(crate::figures::seconds(i.now.record.maxwait))),
    flow("transactions_per_second", Merge::Mean, |i| i.rate(|passed| passed.stats.xact_count)),
    flow("queries_per_second", Merge::Mean, |i| i.rate(|passed| passed.stats.query_count)),
    flow("logins_per_second", Merge::Mean, |i| i.rate(|passed| passed.logins)),
    flow("connects_per_second", Merge::Mean, |i| i.rate(|passed| passed.connects)),
    flow("errors_per_second", Merge::Mean, |i| i.rate(|passed| passed.errors)),
    flow("refusals_per_second", Merge::Mean, |i| i.rate(|passed| passed.refusals)),
    flow("received_bytes_per_second", Merge::Mean, |i| i.rate(|passed| passed.stats.received)),
    flow("sent_bytes_per_second", Merge::Mean, |i| i.rate(|passed| passed.stats.sent)),
    flow("idle_in_transaction_share", Merge::Mean, |i| {
        i.share(|stats| (stats.xact_time.saturating_sub(stats.query_time), stats.xact_time))
    }),
    flow("statement_hit_share", Merge::Mean, |i| {
        i.share(|stats| (stats.bind_count.saturating_sub(stats.server_parse_count), stats.bind_count))
    }),
    flow("wait_ms_p50", Merge::Most, |i| i.quantile(|times| &times.wait, 0.50)),
    flow("wait_ms_p95", Merge::Most, |i| i.quantile(|times| &times.wait, 0.95)),
    flow("wait_ms_p99", Merge::Most, |i| i.quantile(|times| &times.wait, 0.99)),
    flow("query_ms_p50", Merge::Most, |i| i.quantile(|times| &times.query, 0.50)),
    flow("query_ms_p95", Merge::Most, |i| i.quantile(|times| &times.query, 0.95)),
    flow("query_ms_p99", Merge::Most, |i| i.quantile(|times| &times.query, 0.99)),
    flow("transaction_ms_p50", Merge::Most, |i| i.quantile(|times| &times.transaction, 0.50)),
    flow("transaction_ms_p95", Merge::Most, |i| i.quantile(|times| &times.transaction, 0.95)),
    flow("transaction_ms_p99", Merge::Most, |i| i.quantile(|times| &times.transaction, 0.99)),
    flow("transaction_ms_mean", Merge::Mean, |i| i.mean(|stats| (stats.xact_time, stats.xact_count))),
    level("servers_pinned", Merge::Mean, |i| i.is(|pool| pool.pinned.clients)),
];

/// Clients with a server: as many as there are servers with a client.
fn linked(pool: &PoolRecord) -> u32 {
    pool.sv_active.min(pool.cl_active)
}

/// One value for each of [`SERIES`]; NaN where it is unknown.
pub type Sample = [f32; COUNT];

/// All values are unknown.
pub(crate) const UNKNOWN: Sample = [f32::NAN; COUNT];

/// A pool's figures: of `now`, and of the time since an earlier state, with the seconds between them.
pub(crate) fn sample(before: Option<(&PoolState, f64)>, now: &PoolState) -> Sample {
    let interval = Interval::new(before, now);
    std::array::from_fn(|index| (SERIES[index].of)(&interval).map_or(f32::NAN, |value| value as f32))
}

/// The index of a figure in a sample.
pub fn place(name: &str) -> Option<usize> {
    SERIES.iter().position(|series| series.name == name)
}

/// Merges samples of several moments.
#[derive(Clone, Debug)]
pub(crate) struct Merged {
    sum: [f64; COUNT],
    most: Sample,
    known: [u32; COUNT],
}

impl Default for Merged {
    fn default() -> Merged {
        Merged { sum: [0.0; COUNT], most: UNKNOWN, known: [0; COUNT] }
    }
}

impl Merged {
    pub(crate) fn add(&mut self, sample: &Sample) {
        for (index, value) in sample.iter().enumerate().filter(|(_, value)| !value.is_nan()) {
            self.sum[index] += f64::from(*value);
            self.most[index] = self.most[index].max(*value);
            self.known[index] += 1;
        }
    }

    pub(crate) fn sample(&self) -> Sample {
        std::array::from_fn(|index| match (self.known[index], SERIES[index].merge) {
            (0, _) => f32::NAN,
            (_, Merge::Most) => self.most[index],
            (known, Merge::Mean) => (self.sum[index] / f64::from(known)) as f32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(transactions: u64) -> PoolState {
        let mut state = PoolState::new();
        (state.record.cl_active, state.record.cl_waiting, state.record.sv_active) = (5, 3, 2);
        state.stats.xact_count = transactions;
        state.stats.xact_time = transactions * 4_000;
        state.stats.query_time = transactions * 1_000;
        state.counters.times().transaction.count_many(4_000, transactions);
        state
    }

    fn value(sample: &Sample, name: &str) -> f32 {
        sample[place(name).expect("a figure")]
    }

    #[test]
    fn what_is_looked_at_is_known_at_once_and_what_flows_with_the_second_reading() {
        let (first, second) = (state(100), state(150));
        let at_once = sample(None, &first);
        assert_eq!((value(&at_once, "clients_active"), value(&at_once, "clients_idle")), (2.0, 3.0));
        assert_eq!(value(&at_once, "clients_waiting"), 3.0);
        assert!(SERIES.iter().zip(at_once).all(|(series, value)| series.flows == value.is_nan()));
        let later = sample(Some((&first, 2.0)), &second);
        assert_eq!(value(&later, "transactions_per_second"), 25.0);
        assert_eq!(value(&later, "idle_in_transaction_share"), 0.75);
        assert_eq!(value(&later, "transaction_ms_mean"), 4.0);
        let p95 = value(&later, "transaction_ms_p95");
        assert!((3.5..5.0).contains(&p95), "{p95}");
        assert!(value(&later, "wait_ms_p95").is_nan(), "nobody came");
    }

    #[test]
    fn counters_that_began_anew_are_no_negative_rate() {
        let later = sample(Some((&state(100), 1.0)), &state(3));
        assert_eq!(value(&later, "transactions_per_second"), 0.0);
    }

    #[test]
    fn several_moments_are_one_by_their_mean_or_by_the_most_and_what_is_unknown_does_not_count() {
        let mut merged = Merged::default();
        assert!(merged.sample().iter().all(|value| value.is_nan()));
        for (active, waiting) in [(1.0, 0.0), (2.0, 7.0), (f32::NAN, f32::NAN)] {
            let mut sample = UNKNOWN;
            (sample[0], sample[2]) = (active, waiting);
            merged.add(&sample);
        }
        let sample = merged.sample();
        assert_eq!((sample[0], sample[2], sample[3].is_nan()), (1.5, 7.0, true));
    }
}
