//! The statistics of statements: what a worker reports of each, and how those of several workers become one.
//!
//! A statement is known by its pool and its fingerprint, which never holds a value. Figures are exact since `since`;
//! what passed before that, or between two of its entries in a table, is at most `missed`.

use std::sync::Arc;

use crate::histogram::Histogram;

/// The most applications that are distinguished for one statement; the rest is one count without a name.
pub const MAX_APPLICATIONS: usize = 5;

/// One statement of one pool.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StatementRecord {
    /// The database as clients name it.
    pub database: String,
    /// The user on the server.
    pub user: String,
    /// A hash of the statement's fingerprint, the same in every process.
    pub id: u64,
    /// The fingerprint; a very long one is cut.
    pub text: String,
    /// What was counted.
    pub counts: StatementCounts,
    /// How long executions ran.
    pub times: Histogram,
    /// By application_name, at most [`MAX_APPLICATIONS`]; those beyond have the name `None`.
    pub applications: Vec<ApplicationUse>,
    /// The most time of executions that was not counted here, in microseconds: the bound of the table.
    pub missed: u64,
    /// Since when the statement is counted: microseconds since 1970.
    pub since: u64,
}

/// What is counted of a statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StatementCounts {
    /// Executions that were answered, well or with an error.
    pub calls: u64,
    /// Executions that were answered with an error.
    pub errors: u64,
    /// Rows that were returned or changed.
    pub rows: u64,
    /// Bytes that servers sent.
    pub bytes: u64,
    /// Time from the request, or the end of the one before it, to the end of the answer, in microseconds.
    pub run: u64,
    /// Time from the request to its server, in microseconds.
    pub wait: u64,
}

/// What one application did of a statement.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ApplicationUse {
    /// The application's application_name; `None` stands for several.
    pub name: Option<String>,
    /// Executions.
    pub calls: u64,
    /// The time of the executions, in microseconds.
    pub run: u64,
}

/// Figures of the table of statements, in every report.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StatementTotals {
    /// Statements in the table, and the most that it holds, on all workers together.
    pub tracked: u64,
    /// See `tracked`.
    pub capacity: u64,
    /// Executions, of all statements.
    pub calls: u64,
    /// The time of the executions, in microseconds.
    pub run: u64,
    /// Statements that made room for others.
    pub evicted: u64,
}

impl StatementCounts {
    /// Adds other counts.
    pub fn add(&mut self, other: &StatementCounts) {
        self.calls += other.calls;
        self.errors += other.errors;
        self.rows = self.rows.saturating_add(other.rows);
        self.bytes += other.bytes;
        self.run += other.run;
        self.wait += other.wait;
    }
}

impl StatementTotals {
    /// Adds the figures of another worker.
    pub fn add(&mut self, other: &StatementTotals) {
        self.tracked += other.tracked;
        self.capacity += other.capacity;
        self.calls += other.calls;
        self.run += other.run;
        self.evicted += other.evicted;
    }
}

impl StatementRecord {
    fn key(&self) -> (&str, &str, u64) {
        (&self.database, &self.user, self.id)
    }

    /// Merges the records of several workers: one for each pool and statement, those with the most time first.
    pub fn merge(records: &mut Vec<StatementRecord>) {
        records.sort_by(|a, b| a.key().cmp(&b.key()));
        records.dedup_by(|other, kept| {
            let same = kept.key() == other.key();
            if same {
                kept.add(other);
            }
            same
        });
        records.sort_by_key(|record| std::cmp::Reverse(record.counts.run));
    }

    fn add(&mut self, other: &StatementRecord) {
        self.counts.add(&other.counts);
        self.times.add(&other.times);
        self.missed += other.missed;
        self.since = self.since.min(other.since);
        for used in &other.applications {
            let known = self.applications.iter_mut().find(|known| known.name == used.name);
            match known {
                Some(known) => {
                    known.calls += used.calls;
                    known.run += used.run;
                }
                None => self.applications.push(used.clone()),
            }
        }
        self.applications.sort_by_key(|used| (used.name.is_none(), std::cmp::Reverse(used.calls)));
    }

    /// The quantile of the time of an execution, in microseconds.
    pub fn quantile(&self, share: f64) -> u64 {
        self.times.quantile(share).unwrap_or_default() as u64
    }
}

/// A query with a sampled `traceparent` that has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpanRecord {
    /// The trace.
    pub trace: u128,
    /// The span of the client.
    pub parent: u64,
    /// When the query was sent to its server, in microseconds since 1970.
    pub sent_at: u64,
    /// How long the query waited for the server before that, in microseconds.
    pub waited: u64,
    /// How long the query ran, in microseconds.
    pub run: u64,
    /// The database as clients name it.
    pub database: Arc<str>,
    /// The user of the pool.
    pub user: Arc<str>,
    /// The number of the query's fingerprint; 0 if it has none.
    pub fingerprint: u64,
    /// The query's fingerprint, without values, where statements are tracked.
    pub text: Option<Box<str>>,
    /// Whether the server answered with an error.
    pub failed: bool,
    /// Rows that were returned or changed.
    pub rows: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(user: &str, id: u64, run: u64) -> StatementRecord {
        let mut times = Histogram::default();
        times.count(run);
        StatementRecord {
            database: "app".into(),
            user: user.into(),
            id,
            counts: StatementCounts { calls: 1, run, rows: u64::MAX / 2 + 1, ..StatementCounts::default() },
            times,
            applications: vec![ApplicationUse { name: Some(user.into()), calls: 1, run }],
            since: run,
            missed: 5,
            ..StatementRecord::default()
        }
    }

    #[test]
    fn a_statement_of_several_workers_is_one_and_the_one_with_the_most_time_is_first() {
        let mut all = vec![record("ann", 1, 10), record("joe", 2, 30), record("joe", 1, 15), record("joe", 1, 16)];
        StatementRecord::merge(&mut all);
        let shown: Vec<_> = all.iter().map(|record| (&*record.user, record.id, record.counts.run)).collect();
        assert_eq!(shown, [("joe", 1, 31), ("joe", 2, 30), ("ann", 1, 10)]);
        assert_eq!((all[0].counts.calls, all[0].missed, all[0].since, all[0].times.total()), (2, 10, 15, 2));
        assert_eq!(all[0].counts.rows, u64::MAX);
        assert_eq!(all[0].applications, [ApplicationUse { name: Some("joe".into()), calls: 2, run: 31 }]);
    }
}
