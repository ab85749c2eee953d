//! What fails for clients though their pool is healthy: a limit of Weir that refuses them, and a server that refuses to
//! write.
//!
//! Owns the counts of the last second, and since when they grow. A fault is over when nothing was counted for a while.

use std::collections::{BTreeMap, BTreeSet};

use weir_admin::{Health, PoolRecord, Report};
use weir_base::plural;

use crate::faults::Fault;

/// For this long after the last count a fault lasts, in seconds.
const LASTS: f64 = 10.0;
/// The SQLSTATE read_only_sql_transaction (PostgreSQL documentation, Appendix A).
const READ_ONLY: &str = "25006";
/// The most pools that are named.
const NAMED: usize = 3;

/// What was counted, for each kind of fault.
#[derive(Default)]
pub(super) struct Failing {
    /// None before the first look: what was counted until then may be old.
    before: Option<Counted>,
    limit: Growth,
    read_only: Growth,
}

/// Refused clients and failed writes, by pool; refused ones without a pool have an empty name.
#[derive(Default)]
struct Counted {
    limit: BTreeMap<String, u64>,
    read_only: BTreeMap<String, u64>,
}

/// Counts that grow: since when, when last, and by how much for each pool.
#[derive(Default)]
struct Growth {
    since: f64,
    last: f64,
    by: BTreeMap<String, u64>,
}

impl Failing {
    /// The faults now, in seconds since 1970.
    pub(super) fn look(&mut self, report: &Report, now: f64) -> Vec<Fault> {
        let counted = Counted::of(report);
        if let Some(before) = &self.before {
            self.limit.add(&before.limit, &counted.limit, now);
            self.read_only.add(&before.read_only, &counted.read_only, now);
        }
        self.before = Some(counted);
        let pins = pins(report, &self.limit.by).unwrap_or_default();
        let limit = self.limit.total(now).map(|count| Fault {
            kind: "limit",
            problem: true,
            summary: format!(
                "A limit refuses clients or their requests{}: {count} so far.",
                self.limit.names().map(|names| format!(" of {names}")).unwrap_or_default()
            ),
            advice: format!(
                "The log names the limit, such as max_clients or max_user_client_connections. Find what connects so \
                 often, or raise it.{pins}"
            ),
            since: self.limit.since,
        });
        let read_only = self.read_only.total(now).map(|count| Fault {
            kind: "read_only",
            problem: true,
            summary: format!(
                "The server of {} refuses to write: {count} {} (25006).",
                self.read_only.names().unwrap_or_default(),
                if count == 1 { "error" } else { "errors" }
            ),
            advice: "It is a standby, or read-only. Point the pool at the primary, or name all hosts and set \
                     target_session_attrs = \"read-write\". A client that asked for a read-only transaction gets this error, too."
                .to_owned(),
            since: self.read_only.since,
        });
        limit.into_iter().chain(read_only).collect()
    }
}

/// What is added for a pool that refuses clients, and whose servers clients keep for what they have left there.
fn pins(report: &Report, by: &BTreeMap<String, u64>) -> Option<String> {
    let refuses = |pool: &&PoolRecord| by.contains_key(&pool.database) && pool.pinned.clients > 0;
    let pool = report.pools.iter().filter(refuses).max_by_key(|pool| pool.pinned.clients)?;
    let most = pool.symptoms.pinned_by.most(1).pop()?;
    let application = if most.application_name.is_empty() { "no name" } else { &most.application_name };
    Some(format!(
        " If it is max_pinned: {} of {} keep servers for what they have left there ({}), most of them by {application} of \
         {} ({}). Let it remove such state, or give it a pool of its own in session mode.",
        plural(pool.pinned.clients.into(), "client", "clients"),
        pool.database,
        pool.pinned.in_words(),
        most.user,
        most.clients
    ))
}

impl Counted {
    fn of(report: &Report) -> Counted {
        let mut counted = Counted::default();
        // A server that is at its limit is a state of the pool.
        let is_away = |pool: &&PoolRecord| matches!(pool.health.state, Health::CannotConnect | Health::LoginRejected);
        let away: BTreeSet<&str> = report.pools.iter().filter(is_away).map(|pool| pool.database.as_str()).collect();
        for refused in &report.refusals {
            let name = refused.pool.as_ref().map_or("", |(database, _)| database.as_str());
            if !away.contains(name) {
                *counted.limit.entry(name.to_owned()).or_default() += refused.refusals.limit_reached;
            }
        }
        for stats in &report.stats {
            let count = stats.counters.errors.by_code().into_iter().find(|(code, _)| code == READ_ONLY);
            counted.read_only.insert(stats.database.clone(), count.map_or(0, |(_, count)| count));
        }
        counted
    }
}

impl Growth {
    /// Takes in two successive counts; a pool that was not counted before says nothing yet.
    fn add(&mut self, before: &BTreeMap<String, u64>, now_counted: &BTreeMap<String, u64>, now: f64) {
        if now - self.last > LASTS {
            self.by.clear();
        }
        for (name, count) in now_counted {
            let more = before.get(name).map_or(0, |before| count.saturating_sub(*before));
            if more > 0 {
                if self.by.is_empty() {
                    self.since = now;
                }
                *self.by.entry(name.clone()).or_default() += more;
                self.last = now;
            }
        }
    }

    /// How much was counted, while the fault lasts.
    fn total(&self, now: f64) -> Option<u64> {
        (now - self.last <= LASTS && !self.by.is_empty()).then(|| self.by.values().sum())
    }

    /// The pools with the most, and how many more there are; none where no pool is known.
    fn names(&self) -> Option<String> {
        let mut pools: Vec<(&String, &u64)> = self.by.iter().filter(|(name, _)| !name.is_empty()).collect();
        pools.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
        let more = pools.len().saturating_sub(NAMED);
        let names: Vec<&str> = pools.iter().take(NAMED).map(|(name, _)| name.as_str()).collect();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        (!names.is_empty()).then(|| format!("{}{more}", names.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use weir_admin::{RefusalRecord, Refusals};
    use weir_base::PoolMode;

    use super::*;

    fn report(limit_reached: u64, state: Health) -> Report {
        let mut pool = PoolRecord::new("shop", "joe", PoolMode::Transaction);
        pool.health.state = state;
        let refusals = Refusals { limit_reached, ..Refusals::default() };
        let record = RefusalRecord { pool: Some(("shop".into(), "joe".into())), refusals };
        Report { pools: vec![pool], refusals: vec![record], ..Report::default() }
    }

    #[test]
    fn a_limit_that_refuses_clients_is_a_fault_from_the_first_one_until_no_more_come() {
        let mut failing = Failing::default();
        assert!(failing.look(&report(7, Health::Healthy), 100.0).is_empty(), "that may be old");
        assert!(failing.look(&report(7, Health::Healthy), 101.0).is_empty());
        let found = failing.look(&report(9, Health::Healthy), 102.0);
        assert_eq!((found.len(), found[0].kind, found[0].since), (1, "limit", 102.0));
        assert!(found[0].summary.contains("of shop: 2 so far"), "{}", found[0].summary);
        let found = failing.look(&report(10, Health::Healthy), 110.0);
        assert!(found[0].since == 102.0 && found[0].summary.contains("3 so far"));
        assert!(failing.look(&report(10, Health::Healthy), 121.0).is_empty());
        let found = failing.look(&report(11, Health::Healthy), 122.0);
        assert!(found[0].since == 122.0 && found[0].summary.contains("1 so far"));
        assert!(weir_admin::FAULT_KINDS.contains(&found[0].kind) && weir_admin::FAULT_KINDS.contains(&"read_only"));
    }

    #[test]
    fn a_limit_of_a_pool_whose_servers_clients_keep_names_who_keeps_them() {
        let mut failing = Failing::default();
        failing.look(&report(0, Health::Healthy), 100.0);
        let mut pinned = report(3, Health::Healthy);
        (0..4).for_each(|_| pinned.pools[0].pinned.count(weir_base::StateKinds::from_bits(2)));
        pinned.pools[0].symptoms.pinned_by.count("joe", "jobs", 4);
        let found = failing.look(&pinned, 101.0);
        let words =
            "4 clients of shop keep servers for what they have left there (listen: 4), most of them by jobs of joe (4)";
        assert!(found[0].advice.contains(words), "{}", found[0].advice);
    }

    #[test]
    fn a_server_that_is_at_its_limit_is_no_limit_of_weir() {
        let mut failing = Failing::default();
        failing.look(&report(0, Health::CannotConnect), 100.0);
        assert!(failing.look(&report(50, Health::CannotConnect), 101.0).is_empty());
        assert!(failing.look(&report(50, Health::Healthy), 102.0).is_empty(), "nor what was refused then");
    }
}
