//! Which figures of a pool are watched, and how each is made of two readings: one table for events, history and advice.
//!
//! Owns the names. What a reading has at its moment is taken as it is; what is counted is the difference to an earlier
//! reading, and unknown without one. Times are in milliseconds where the name says so, rates are a second.

use std::collections::BTreeMap;

use weir_admin::{Errors, PoolRecord, Refusals, Report, Stats, Tally, Times};
use weir_base::Mode;
use weir_config::Config;

/// One pool, as it was at a moment: all its users together.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    pub(crate) record: PoolRecord,
    pub(crate) stats: Stats,
    pub(crate) tally: Tally,
    pub(crate) refusals: u64,
}

impl Reading {
    fn new() -> Reading {
        let record = PoolRecord::new("", "", Mode::Transaction);
        Reading { record, stats: Stats::default(), tally: Tally::default(), refusals: 0 }
    }

    fn add(&mut self, other: &Reading) {
        self.record.add(&other.record);
        self.stats.add(&other.stats);
        self.tally.add(&other.tally);
        self.refusals += other.refusals;
    }

    /// The errors by SQLSTATE so far.
    pub(crate) fn errors(&self) -> &Errors {
        &self.tally.errors
    }
}

/// All pools at a moment: those of the configuration, and those made on demand.
#[derive(Clone, Debug, Default)]
pub(crate) struct Readings(pub(crate) BTreeMap<String, Reading>);

impl Readings {
    pub(crate) fn of(report: Report, config: &Config) -> Readings {
        let named = config.pools.keys().map(|name| (name.clone(), Reading::new()));
        let mut readings: BTreeMap<String, Reading> = named.collect();
        for record in &report.pools {
            readings.entry(record.database.clone()).or_insert_with(Reading::new).record.add(record);
        }
        for refused in &report.refusals {
            let Some((name, _)) = &refused.pool else { continue };
            if let Some(reading) = readings.get_mut(name) {
                reading.refusals += total(&refused.refusals);
            }
        }
        for stats in report.stats {
            if let Some(reading) = readings.get_mut(&stats.database) {
                (reading.stats, reading.tally) = (stats.total, stats.tally);
            }
        }
        Readings(readings)
    }

    /// All pools as one.
    pub(crate) fn sum(&self) -> Reading {
        let mut sum = Reading::new();
        self.0.values().for_each(|reading| sum.add(reading));
        sum
    }
}

fn total(refusals: &Refusals) -> u64 {
    refusals.named().iter().map(|(_, count)| count).sum()
}

/// What happened to a pool from one reading to another.
struct Interval<'a> {
    now: &'a Reading,
    /// Nothing without an earlier reading.
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
    fn new(before: Option<(&Reading, f64)>, now: &'a Reading) -> Interval<'a> {
        let passed = before.filter(|(_, seconds)| *seconds > 0.0).map(|(before, seconds)| Passed {
            seconds,
            stats: now.stats.sub(&before.stats),
            times: now.tally.counted().map(|times| before.tally.counted().map_or(times.clone(), |b| times.since(b))),
            logins: now.tally.logins.saturating_sub(before.tally.logins),
            connects: now.tally.connects.saturating_sub(before.tally.connects),
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

    /// A share of a whole; unknown if there was nothing.
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

/// One figure.
pub(crate) struct Series {
    /// Its name; of several that differ by the part behind the last `_`, events make one with parts (`wait_ms`: `p95`).
    pub(crate) name: &'static str,
    of: fn(&Interval<'_>) -> Option<f64>,
}

const fn figure(name: &'static str, of: fn(&Interval<'_>) -> Option<f64>) -> Series {
    Series { name, of }
}

/// How many there are.
pub(crate) const COUNT: usize = 28;

/// All of them. New ones go to the end: files of history hold them by their place.
pub(crate) static SERIES: [Series; COUNT] = [
    figure("clients_active", |i| i.is(linked)),
    figure("clients_idle", |i| i.is(|pool| pool.cl_active - linked(pool))),
    figure("clients_waiting", |i| i.is(|pool| pool.cl_waiting)),
    figure("servers_active", |i| i.is(|pool| pool.sv_active)),
    figure("servers_idle", |i| i.is(|pool| pool.sv_idle + pool.sv_used)),
    figure("servers_login", |i| i.is(|pool| pool.sv_login)),
    figure("servers_idle_in_transaction", |i| i.is(|pool| pool.sv_idle_in_transaction)),
    figure("oldest_wait_seconds", |i| Some(crate::figures::seconds(i.now.record.maxwait))),
    figure("transactions_per_second", |i| i.rate(|passed| passed.stats.xact_count)),
    figure("queries_per_second", |i| i.rate(|passed| passed.stats.query_count)),
    figure("logins_per_second", |i| i.rate(|passed| passed.logins)),
    figure("connects_per_second", |i| i.rate(|passed| passed.connects)),
    figure("errors_per_second", |i| i.rate(|passed| passed.errors)),
    figure("refusals_per_second", |i| i.rate(|passed| passed.refusals)),
    figure("received_bytes_per_second", |i| i.rate(|passed| passed.stats.received)),
    figure("sent_bytes_per_second", |i| i.rate(|passed| passed.stats.sent)),
    figure("idle_in_transaction_share", |i| {
        i.share(|stats| (stats.xact_time.saturating_sub(stats.query_time), stats.xact_time))
    }),
    figure("statement_hit_share", |i| {
        i.share(|stats| (stats.bind_count.saturating_sub(stats.server_parse_count), stats.bind_count))
    }),
    figure("wait_ms_p50", |i| i.quantile(|times| &times.wait, 0.50)),
    figure("wait_ms_p95", |i| i.quantile(|times| &times.wait, 0.95)),
    figure("wait_ms_p99", |i| i.quantile(|times| &times.wait, 0.99)),
    figure("query_ms_p50", |i| i.quantile(|times| &times.query, 0.50)),
    figure("query_ms_p95", |i| i.quantile(|times| &times.query, 0.95)),
    figure("query_ms_p99", |i| i.quantile(|times| &times.query, 0.99)),
    figure("transaction_ms_p50", |i| i.quantile(|times| &times.transaction, 0.50)),
    figure("transaction_ms_p95", |i| i.quantile(|times| &times.transaction, 0.95)),
    figure("transaction_ms_p99", |i| i.quantile(|times| &times.transaction, 0.99)),
    figure("transaction_ms_mean", |i| i.mean(|stats| (stats.xact_time, stats.xact_count))),
];

/// Clients with a server: as many as there are servers with a client.
fn linked(pool: &PoolRecord) -> u32 {
    pool.sv_active.min(pool.cl_active)
}

/// One value for each of [`SERIES`]; not a number where nothing is known.
pub(crate) type Sample = [f32; COUNT];

/// What is known of a pool at a reading, and of the time since an earlier one, which was so many seconds before.
pub(crate) fn sample(before: Option<(&Reading, f64)>, now: &Reading) -> Sample {
    let interval = Interval::new(before, now);
    std::array::from_fn(|index| (SERIES[index].of)(&interval).map_or(f32::NAN, |value| value as f32))
}

/// The place of a figure in a sample.
pub(crate) fn place(name: &str) -> Option<usize> {
    SERIES.iter().position(|series| series.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(transactions: u64) -> Reading {
        let mut reading = Reading::new();
        (reading.record.cl_active, reading.record.cl_waiting, reading.record.sv_active) = (5, 3, 2);
        reading.stats.xact_count = transactions;
        reading.stats.xact_time = transactions * 4_000;
        reading.stats.query_time = transactions * 1_000;
        reading.tally.times().transaction.count_many(4_000, transactions);
        reading
    }

    fn value(sample: &Sample, name: &str) -> f32 {
        sample[place(name).expect("a figure")]
    }

    #[test]
    fn what_is_looked_at_is_known_at_once_and_what_flows_with_the_second_reading() {
        let (first, second) = (reading(100), reading(150));
        let at_once = sample(None, &first);
        assert_eq!((value(&at_once, "clients_active"), value(&at_once, "clients_idle")), (2.0, 3.0));
        assert_eq!(value(&at_once, "clients_waiting"), 3.0);
        assert!(value(&at_once, "transactions_per_second").is_nan());
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
        let later = sample(Some((&reading(100), 1.0)), &reading(3));
        assert_eq!(value(&later, "transactions_per_second"), 0.0);
    }
}
