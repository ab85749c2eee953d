//! A server that refuses to write.

use weir_admin::{Health, PoolRecord, Report};

use super::growth::{Counts, Growth};
use crate::faults::FaultView;

/// The SQLSTATE read_only_sql_transaction (PostgreSQL documentation, Appendix A).
const SQLSTATE: &str = "25006";
/// For this long after the last error it lasts, in seconds.
const LASTS: f64 = 10.0;

/// Its errors, by pool.
pub(super) struct ReadOnly(Growth);

impl Default for ReadOnly {
    fn default() -> ReadOnly {
        ReadOnly(Growth::new(LASTS, false))
    }
}

impl ReadOnly {
    pub(super) fn look(&mut self, report: &Report, now: f64) -> Option<FaultView> {
        self.0.take(counted(report), now);
        let count = self.0.total(now)?;
        if self.0.by().keys().all(|pool| is_said(report, pool)) {
            return None;
        }
        Some(FaultView {
            kind: "read_only",
            problem: true,
            summary: format!(
                "The server of {} refuses to write: {count} {} ({SQLSTATE}).",
                self.0.pools().unwrap_or_default(),
                if count == 1 { "error" } else { "errors" }
            ),
            advice: "It is a standby, or read-only. Point the pool at the primary, or name all hosts and set \
                     target_session_attrs = \"read-write\". A client that asked for a read-only transaction gets this error, too."
                .to_owned(),
            since: self.0.since(),
            not_seen_since: self.0.not_seen_since(now),
            pool: self.0.most().map(str::to_owned),
            ..FaultView::default()
        })
    }
}

/// Whether a pool's state says it already.
fn is_said(report: &Report, pool: &str) -> bool {
    let says = |of: &PoolRecord| {
        of.health.state == Health::Failing && of.health.error.as_ref().is_some_and(|error| error.sqlstate == SQLSTATE)
    };
    report.pools.iter().any(|of| of.database == pool && says(of))
}

fn counted(report: &Report) -> Counts {
    let errors = report.stats.iter().map(|stats| {
        let found = stats.counters.errors.by_code().into_iter().find(|(code, _)| code == SQLSTATE);
        (stats.database.clone(), found.map_or(0, |(_, count)| count))
    });
    errors.collect()
}

#[cfg(test)]
mod tests {
    use weir_admin::{DatabaseStats, LoginFailure};
    use weir_base::PoolMode;

    use super::*;

    #[test]
    fn writes_that_a_server_refuses_are_a_fault_until_no_more_come() {
        let refused = |count: u64| {
            let mut stats = DatabaseStats { database: "shop".to_owned(), ..DatabaseStats::default() };
            stats.counters.errors.count(*b"25006", count);
            Report { stats: vec![stats], ..Report::default() }
        };
        let mut read_only = ReadOnly::default();
        assert!(read_only.look(&refused(3), 100.0).is_none(), "that may be old");
        let found = read_only.look(&refused(4), 101.0).expect("a fault");
        assert_eq!((found.kind, found.since), ("read_only", 101.0));
        assert_eq!(found.summary, "The server of shop refuses to write: 1 error (25006).");
        assert!(weir_admin::FAULT_KINDS.contains(&found.kind));
        let mut failing = PoolRecord::new("shop", "app", PoolMode::Transaction);
        failing.health.state = Health::Failing;
        failing.health.error = Some(LoginFailure::new(1, 1, SQLSTATE, "3 of 4 queries"));
        let said = Report { pools: vec![failing], ..refused(4) };
        assert!(read_only.look(&said, 102.0).is_none(), "one cause is told once");
        assert!(read_only.look(&refused(4), 111.0).is_some() && read_only.look(&refused(4), 112.0).is_none());
    }
}
