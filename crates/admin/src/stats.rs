//! The counters of a database: how much it did, and how fast of late.
//!
//! Owns the arithmetic of SHOW STATS and nothing else. The counters only grow; an average is made of two readings and
//! the time between them, exactly as PgBouncer makes it.

use weir_base::Span;

use crate::pool_counters::PoolCounters;

/// How many counters there are.
pub(crate) const COUNT: usize = 12;

/// The counters of one database, since the process began. Times are in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Times that a server was given to a client.
    pub server_assignment_count: u64,
    /// Transactions; a query outside of one counts as one.
    pub xact_count: u64,
    /// Queries: simple ones, and groups up to a Sync.
    pub query_count: u64,
    /// Bytes received from clients.
    pub received: u64,
    /// Bytes sent to clients.
    pub sent: u64,
    /// Time spent in transactions, idle ones too, in microseconds.
    pub xact_time: u64,
    /// Time spent on queries, in microseconds.
    pub query_time: u64,
    /// Time that clients waited for a server, in microseconds.
    pub wait_time: u64,
    /// Named statements that clients prepared.
    pub client_parse_count: u64,
    /// Named statements that we prepared on servers.
    pub server_parse_count: u64,
    /// Binds of prepared statements.
    pub bind_count: u64,
    /// Clients that have logged in.
    pub client_login_count: u64,
}

impl Stats {
    /// Adds what another reading counted.
    pub fn add(&mut self, other: &Stats) {
        *self = self.zip(other, u64::saturating_add);
    }

    /// What was counted since an `earlier` reading; never below zero.
    #[must_use]
    pub fn sub(&self, earlier: &Stats) -> Stats {
        self.zip(earlier, u64::saturating_sub)
    }

    /// Averages of what was counted within `period`, by PgBouncer's rules: `xact_time` a transaction, `query_time` a
    /// query and `wait_time` an assignment of a server, in microseconds; all others a second. Without any time the
    /// averages are zero.
    #[must_use]
    pub fn averages(&self, period: Span) -> Stats {
        if period.is_zero() {
            return Stats::default();
        }
        let each = |time: u64, count: u64| time.checked_div(count).unwrap_or(0);
        let mut rates = Stats::from_array(self.to_array().map(|count| per_second(count, period)));
        rates.xact_time = each(self.xact_time, self.xact_count);
        rates.query_time = each(self.query_time, self.query_count);
        rates.wait_time = each(self.wait_time, self.server_assignment_count);
        rates
    }

    /// The line of the log with these averages, once a `stats_period`.
    pub fn line(&self) -> String {
        format!(
            "stats: {} xacts/s, {} queries/s, {} client parses/s, {} server parses/s, {} binds/s, in {} B/s, out {} B/s, \
             xact {} us, query {} us, wait {} us",
            self.xact_count,
            self.query_count,
            self.client_parse_count,
            self.server_parse_count,
            self.bind_count,
            self.received,
            self.sent,
            self.xact_time,
            self.query_time,
            self.wait_time
        )
    }

    /// The counters in the order of the console's columns.
    pub(crate) const fn to_array(self) -> [u64; COUNT] {
        [
            self.server_assignment_count,
            self.xact_count,
            self.query_count,
            self.received,
            self.sent,
            self.xact_time,
            self.query_time,
            self.wait_time,
            self.client_parse_count,
            self.server_parse_count,
            self.bind_count,
            self.client_login_count,
        ]
    }

    const fn from_array(values: [u64; COUNT]) -> Stats {
        let [
            server_assignment_count,
            xact_count,
            query_count,
            received,
            sent,
            xact_time,
            query_time,
            wait_time,
            client_parse_count,
            server_parse_count,
            bind_count,
            client_login_count,
        ] = values;
        Stats {
            server_assignment_count,
            xact_count,
            query_count,
            received,
            sent,
            xact_time,
            query_time,
            wait_time,
            client_parse_count,
            server_parse_count,
            bind_count,
            client_login_count,
        }
    }

    fn zip(&self, other: &Stats, op: fn(u64, u64) -> u64) -> Stats {
        let mut values = self.to_array();
        for (value, other) in values.iter_mut().zip(other.to_array()) {
            *value = op(*value, other);
        }
        Stats::from_array(values)
    }
}

/// A count a second, computed in 128 bits: a count of bytes times a million exceeds 64 bits after 18 TB.
fn per_second(count: u64, period: Span) -> u64 {
    let rate = u128::from(count) * 1_000_000 / u128::from(period.micros());
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// One database's counters now and at an earlier moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DatabaseStats {
    /// The database as clients name it.
    pub database: String,
    /// The counters now.
    pub total: Stats,
    /// The counters at the start of the last complete `stats_period`; zeros in the first one.
    pub previous: Stats,
    /// The time from `previous` to now.
    pub period: Span,
    /// The other counters of the database.
    pub counters: PoolCounters,
}

impl DatabaseStats {
    /// The averages since `previous`.
    #[must_use]
    pub fn averages(&self) -> Stats {
        self.total.sub(&self.previous).averages(self.period)
    }

    /// All databases together.
    #[must_use]
    pub fn sum(all: &[DatabaseStats]) -> DatabaseStats {
        let mut sum = DatabaseStats::default();
        for of in all {
            sum.merge(of);
        }
        sum
    }

    /// Adds another worker's counters of the same database. Workers begin their periods at the same moments, except for
    /// the time that a message takes, so the longest period stands for all. Returns true, so that `dedup_by` drops the
    /// other.
    pub(crate) fn merge(&mut self, other: &DatabaseStats) -> bool {
        self.total.add(&other.total);
        self.previous.add(&other.previous);
        self.period = self.period.max(other.period);
        self.counters.add(&other.counters);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_array_and_the_fields_agree() {
        let values: [u64; COUNT] = std::array::from_fn(|i| i as u64 + 1);
        let stats = Stats::from_array(values);
        assert_eq!(stats.to_array(), values);
        assert_eq!((stats.server_assignment_count, stats.sent, stats.bind_count), (1, 5, 11));
    }

    #[test]
    fn times_are_averaged_over_what_took_them_and_counts_over_seconds() {
        let stats = Stats {
            server_assignment_count: 4,
            xact_count: 10,
            query_count: 20,
            received: 2_000,
            xact_time: 5_000,
            query_time: 4_000,
            wait_time: 100,
            ..Stats::default()
        };
        let avg = stats.averages(Span::from_secs(2));
        assert_eq!(avg.xact_count, 5);
        assert_eq!(avg.query_count, 10);
        assert_eq!(avg.received, 1_000);
        assert_eq!(avg.xact_time, 500);
        assert_eq!(avg.query_time, 200);
        assert_eq!(avg.wait_time, 25);
        assert_eq!(avg.server_assignment_count, 2);
    }

    #[test]
    fn the_line_of_the_log_has_pgbouncers_words() {
        let stats = Stats { xact_count: 921, query_count: 1992, bind_count: 3, sent: 7, ..Stats::default() };
        let expected = "stats: 921 xacts/s, 1992 queries/s, 0 client parses/s, 0 server parses/s, 3 binds/s, in 0 B/s, \
                        out 7 B/s, xact 0 us, query 0 us, wait 0 us";
        assert_eq!(stats.line(), expected);
    }

    #[test]
    fn nothing_counted_and_no_time_are_zero() {
        assert_eq!(Stats::default().averages(Span::from_secs(1)), Stats::default());
        let some = Stats { xact_count: 1, xact_time: 9, ..Stats::default() };
        assert_eq!(some.averages(Span::ZERO), Stats::default());
        assert_eq!(Stats::default().sub(&some), Stats::default());
    }

    #[test]
    fn a_rate_of_many_bytes_does_not_overflow() {
        let stats = Stats { sent: u64::MAX, ..Stats::default() };
        assert_eq!(stats.averages(Span::from_secs(2)).sent, u64::MAX / 2);
        assert_eq!(stats.averages(Span::from_micros(1)).sent, u64::MAX);
    }
}
