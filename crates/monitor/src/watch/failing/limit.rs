//! A limit of Weir that refuses clients or their requests.

use std::collections::BTreeSet;

use weir_admin::{Health, PoolRecord, RefusedLogin, Report, identifier, quoted};
use weir_base::plural;

use super::growth::{Counts, Growth};
use super::login::who;
use crate::faults::FaultView;

/// For this long after the last refusal it lasts, in seconds.
const LASTS: f64 = 10.0;

/// What was refused, by pool.
pub(super) struct Limit(Growth);

impl Default for Limit {
    fn default() -> Limit {
        Limit(Growth::new(LASTS, false))
    }
}

impl Limit {
    pub(super) fn look(&mut self, report: &Report, now: f64) -> Option<FaultView> {
        self.0.take(counted(report), now);
        let count = self.0.total(now)?;
        let pins = pins(report, self.0.by()).unwrap_or_default();
        Some(FaultView {
            kind: "limit",
            problem: true,
            summary: format!(
                "A limit refuses clients or their requests{}: {count} so far.{}",
                self.0.pools().map(|pools| format!(" of {pools}")).unwrap_or_default(),
                limited(report, self.0.since()).unwrap_or_default()
            ),
            advice: format!(
                "The log names the limit, such as max_clients or max_user_client_connections. Find what connects so \
                 often, or raise it.{pins}"
            ),
            since: self.0.since(),
        })
    }
}

/// Refused clients by pool. A server that is at its limit is a state of the pool.
fn counted(report: &Report) -> Counts {
    let is_away = |pool: &&PoolRecord| {
        matches!(pool.health.state, Health::CannotGrow | Health::CannotConnect | Health::LoginRejected)
    };
    let away: BTreeSet<&str> = report.pools.iter().filter(is_away).map(|pool| pool.database.as_str()).collect();
    let mut counts = Counts::new();
    for refused in &report.refusals {
        let name = refused.pool.as_ref().map_or("", |(database, _)| database.as_str());
        if !away.contains(name) {
            *counts.entry(name.to_owned()).or_default() += refused.refusals.limit_reached;
        }
    }
    counts
}

/// Which limit refuses logins, and whose: the most frequent since then.
fn limited(report: &Report, since: f64) -> Option<String> {
    let is_new = |login: &&RefusedLogin| login.is_limit && login.last as f64 / 1e6 >= since - 1.0;
    let login = report.refused_logins.list().iter().find(is_new)?;
    Some(format!(" Most are logins of {}: {}.", who(login), login.why))
}

/// What is added for a pool that refuses clients, and whose servers clients keep for what they have left there.
fn pins(report: &Report, by: &Counts) -> Option<String> {
    let refuses = |pool: &&PoolRecord| by.contains_key(&pool.database) && pool.pinned.clients > 0;
    let pool = report.pools.iter().filter(refuses).max_by_key(|pool| pool.pinned.clients)?;
    let most = pool.symptoms.pinned_by.most(1).pop()?;
    let application =
        if most.application_name.is_empty() { "no name".to_owned() } else { quoted(&most.application_name) };
    Some(format!(
        " If it is max_pinned: {} of {} keep servers for what they have left there ({}), most of them by {application} of \
         {} ({}). Let it remove such state, or give it a pool of its own in session mode.",
        plural(pool.pinned.clients.into(), "client", "clients"),
        identifier(&pool.database),
        pool.pinned.in_words(),
        quoted(&most.user),
        most.clients
    ))
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
        let mut limit = Limit::default();
        assert!(limit.look(&report(7, Health::Healthy), 100.0).is_none(), "that may be old");
        assert!(limit.look(&report(7, Health::Healthy), 101.0).is_none());
        let found = limit.look(&report(9, Health::Healthy), 102.0).expect("a fault");
        assert_eq!((found.kind, found.since), ("limit", 102.0));
        assert!(found.summary.contains("of shop: 2 so far"), "{}", found.summary);
        let found = limit.look(&report(10, Health::Healthy), 110.0).expect("a fault");
        assert!(found.since == 102.0 && found.summary.contains("3 so far"));
        assert!(limit.look(&report(10, Health::Healthy), 121.0).is_none());
        let found = limit.look(&report(11, Health::Healthy), 122.0).expect("a fault");
        assert!(found.since == 122.0 && found.summary.contains("1 so far"));
        assert!(weir_admin::FAULT_KINDS.contains(&found.kind));
    }

    #[test]
    fn the_logins_that_a_limit_refuses_most_are_named() {
        let mut limit = Limit::default();
        limit.look(&report(0, Health::Healthy), 100.0);
        let mut limited = report(2, Health::Healthy);
        limited.refused_logins.add(RefusedLogin {
            user: "ann".to_owned(),
            database: "shop".to_owned(),
            origin: weir_base::Origin::Local(7),
            why: "no more connections allowed".to_owned(),
            hint: None,
            is_limit: true,
            count: 2,
            last: 101_000_000,
        });
        let found = limit.look(&limited, 101.0).expect("a fault");
        assert!(found.summary.contains("Most are logins of \"ann\" to \"shop\" from user 7"), "{found:?}");
    }

    #[test]
    fn a_limit_of_a_pool_whose_servers_clients_keep_names_who_keeps_them() {
        let mut limit = Limit::default();
        limit.look(&report(0, Health::Healthy), 100.0);
        let mut pinned = report(3, Health::Healthy);
        (0..4).for_each(|_| pinned.pools[0].pinned.count(weir_base::StateKinds::from_bits(2)));
        pinned.pools[0].symptoms.pinned_by.count("joe", "jobs", 4);
        let found = limit.look(&pinned, 101.0).expect("a fault");
        let words = "4 clients of shop keep servers for what they have left there (listen: 4), most of them by \"jobs\" of \"joe\" (4)";
        assert!(found.advice.contains(words), "{}", found.advice);
    }

    #[test]
    fn a_server_that_is_at_its_limit_is_no_limit_of_weir() {
        let mut limit = Limit::default();
        limit.look(&report(0, Health::CannotConnect), 100.0);
        assert!(limit.look(&report(50, Health::CannotConnect), 101.0).is_none());
        assert!(limit.look(&report(50, Health::Healthy), 102.0).is_none(), "nor what was refused then");
    }
}
