//! Refused clients, counted by cause: a full pool, a slow or dead server, a limit, other causes.
//!
//! Owns the counters and how those of several workers are merged. Must not know which refusal has which class:
//! `crates/session` lists that.

/// The names of the classes.
pub(crate) const CLASSES: [&str; 5] = ["pool_full", "server_slow", "server_down", "limit_reached", "other"];

/// How many clients were refused or disconnected, by class.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Refusals {
    /// All servers of the pool were in use for too long.
    pub pool_full: u64,
    /// A server took too long: for a login, or for a query.
    pub server_slow: u64,
    /// No server could be opened, or the one in use was lost.
    pub server_down: u64,
    /// A limit of clients, of servers or of statements was reached.
    pub limit_reached: u64,
    /// Another cause: authentication, the client's behaviour, an operator's command.
    pub other: u64,
}

/// The refusals of one pool.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RefusalRecord {
    /// Database and user; `None` for clients without a pool, and for pools that were dropped: so a sum over all
    /// records never shrinks.
    pub pool: Option<(String, String)>,
    /// The counters.
    pub refusals: Refusals,
    /// The setting whose limit was reached last, by its name in a `weir.toml`.
    pub limit: Option<&'static str>,
}

impl Refusals {
    /// Adds the counts of another reading.
    pub fn add(&mut self, other: &Refusals) {
        self.pool_full += other.pool_full;
        self.server_slow += other.server_slow;
        self.server_down += other.server_down;
        self.limit_reached += other.limit_reached;
        self.other += other.other;
    }

    /// The sum over all classes.
    pub fn total(&self) -> u64 {
        self.named().iter().map(|(_, count)| count).sum()
    }

    /// The counters with the names of their classes in the console's columns, the API and the metrics.
    pub fn named(&self) -> [(&'static str, u64); 5] {
        let [full, slow, down, limit, other] = CLASSES;
        [
            (full, self.pool_full),
            (slow, self.server_slow),
            (down, self.server_down),
            (limit, self.limit_reached),
            (other, self.other),
        ]
    }
}

impl RefusalRecord {
    /// Merges the records that several workers have of the same pool; those without a pool come last.
    pub(crate) fn merge(records: &mut Vec<RefusalRecord>) {
        records.sort_by(|a, b| (a.pool.is_none(), &a.pool).cmp(&(b.pool.is_none(), &b.pool)));
        records.dedup_by(|b, a| {
            let same = a.pool == b.pool;
            if same {
                a.refusals.add(&b.refusals);
                a.limit = a.limit.or(b.limit);
            }
            same
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readings_of_several_workers_add_up_a_pool() {
        let record = |pool: Option<&str>, pool_full| RefusalRecord {
            pool: pool.map(|name| (name.to_owned(), "app".to_owned())),
            refusals: Refusals { pool_full, other: 1, ..Refusals::default() },
            limit: None,
        };
        let mut records = vec![record(None, 1), record(Some("b"), 2), record(Some("a"), 4), record(None, 8)];
        records.push(record(Some("b"), 16));
        RefusalRecord::merge(&mut records);
        let database = |r: &RefusalRecord| r.pool.as_ref().map(|(database, _)| database.clone());
        let by_database: Vec<_> = records.iter().map(|r| (database(r), r.refusals.pool_full)).collect();
        assert_eq!(by_database, [(Some("a".to_owned()), 4), (Some("b".to_owned()), 18), (None, 9)]);
        let mut sum = Refusals::default();
        records.iter().for_each(|record| sum.add(&record.refusals));
        assert_eq!((sum.pool_full, sum.other, sum.total()), (31, 5, 36));
    }
}
