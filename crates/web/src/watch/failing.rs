//! What fails though pools are healthy: a limit of Weir that refuses clients, logins that are refused, a server that
//! refuses to write, a configuration that can't be read again.
//!
//! Owns the counts of the last second, and since when they grow. A fault is over when nothing was counted for a while.

use std::collections::{BTreeMap, BTreeSet};

use weir_admin::{ClusterView, Health, PoolRecord, RefusedLogin, Report};
use weir_base::plural;

use crate::faults::Fault;

/// For this long after the last count a fault lasts, in seconds.
const LASTS: f64 = 10.0;
/// The same for logins: a program that is refused may try again once in a while.
const LOGINS_LAST: f64 = 60.0;
/// From this many refused logins on it is a program, and not somebody's typing error.
const LOGINS: u64 = 3;
/// A cluster's fault has to last for this long, in seconds: a node may miss etcd for a moment.
const CLUSTER_AFTER: f64 = 2.0;
/// The SQLSTATE read_only_sql_transaction (PostgreSQL documentation, Appendix A).
const READ_ONLY: &str = "25006";
/// The most pools, or kinds of refused logins, that are counted.
const NAMES: usize = 1_000;
/// The most pools that are named.
const NAMED: usize = 3;

/// What was counted, for each kind of fault.
pub(super) struct Failing {
    /// None before the first look: what was counted until then may be old.
    before: Option<Counted>,
    limit: Growth,
    read_only: Growth,
    login: Growth,
    /// Since when something is wrong with the cluster, in seconds since 1970.
    cluster_since: Option<f64>,
}

/// Refused clients and failed writes, by pool; refused ones without a pool have an empty name.
#[derive(Default)]
struct Counted {
    limit: BTreeMap<String, u64>,
    read_only: BTreeMap<String, u64>,
    /// Refused logins, by who and why in words.
    login: BTreeMap<String, u64>,
}

/// Counts that grow: since when, when last, and by how much for each pool.
struct Growth {
    /// How long it lasts after the last count, in seconds.
    lasts: f64,
    /// Whether what was not counted before counts from zero; otherwise it says nothing yet.
    from_zero: bool,
    since: f64,
    last: f64,
    by: BTreeMap<String, u64>,
}

impl Default for Failing {
    fn default() -> Failing {
        let growth = |lasts, from_zero| Growth { lasts, from_zero, since: 0.0, last: 0.0, by: BTreeMap::new() };
        Failing {
            before: None,
            limit: growth(LASTS, false),
            read_only: growth(LASTS, false),
            login: growth(LOGINS_LAST, true),
            cluster_since: None,
        }
    }
}

impl Failing {
    /// The faults now, in seconds since 1970.
    pub(super) fn look(&mut self, report: &Report, now: f64) -> Vec<Fault> {
        let counted = Counted::of(report);
        if let Some(before) = &self.before {
            self.limit.add(&before.limit, &counted.limit, now);
            self.read_only.add(&before.read_only, &counted.read_only, now);
            self.login.add(&before.login, &counted.login, now);
        }
        self.before = Some(counted);
        let pins = pins(report, &self.limit.by).unwrap_or_default();
        let limit = self.limit.total(now).map(|count| Fault {
            kind: "limit",
            problem: true,
            summary: format!(
                "A limit refuses clients or their requests{}: {count} so far.{}",
                self.limit.names().map(|names| format!(" of {names}")).unwrap_or_default(),
                limited(report, self.limit.since).unwrap_or_default()
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
        let here = [self.login(report, now), reload(report)].into_iter().flatten();
        limit.into_iter().chain(read_only).chain(here).chain(self.cluster(report, now)).collect()
    }

    /// What is wrong with the cluster, as this node sees it: with itself, or with the others.
    fn cluster(&mut self, report: &Report, now: f64) -> Option<Fault> {
        let Some((summary, advice)) = report.cluster.as_deref().and_then(of_cluster) else {
            self.cluster_since = None;
            return None;
        };
        let since = *self.cluster_since.get_or_insert(now);
        let fault = Fault { kind: "cluster", problem: true, summary, advice, since };
        (now - since >= CLUSTER_AFTER).then_some(fault)
    }

    /// Clients that can't log in for another reason than a limit.
    fn login(&self, report: &Report, now: f64) -> Option<Fault> {
        let count = self.login.total(now).filter(|count| *count >= LOGINS)?;
        let most = self.login.most()?;
        let hint = report.refused_logins.list().iter().find(|login| words(login) == most).and_then(|login| login.hint);
        Some(Fault {
            kind: "login",
            problem: true,
            summary: format!("Clients can't log in: {count} refused. {}.", self.login.names().unwrap_or_default()),
            advice: hint.unwrap_or("The log has each of them with its reason.").to_owned(),
            since: self.login.since,
        })
    }
}

/// What is wrong with a cluster, the worst first, and what to do about it.
fn of_cluster(view: &ClusterView) -> Option<(String, String)> {
    let ClusterView { cluster, member_state, refused, .. } = view;
    if let Some(obstacle) = view.obstacle() {
        return Some((
            format!("This node serves no shared pool: {obstacle}."),
            "Give each process a name of its own.".to_owned(),
        ));
    }
    if *member_state == "floor" {
        return Some((
            format!(
                "This node has no lease in the cluster {cluster}: etcd does not answer it. It opens no more than its floor."
            ),
            "Check etcd and the network to it: `etcdctl endpoint health`. The log has each attempt.".to_owned(),
        ));
    }
    let lost: Vec<&str> =
        view.nodes.iter().filter(|node| node.state == "lost").map(|node| node.name.as_str()).collect();
    if !lost.is_empty() {
        return Some((
            format!(
                "{} of the cluster {cluster} {} lost: {}.",
                plural(lost.len() as u64, "node", "nodes"),
                is_or_are(lost.len()),
                lost.join(", ")
            ),
            "The others take over its share of the budgets. Start it again; clients that connect to it by name can't."
                .to_owned(),
        ));
    }
    (!refused.is_empty()).then(|| {
        (
            format!("This node does not run the newest configuration of the cluster {cluster}: {refused}."),
            "Correct the shared configuration, or what this node lacks for it.".to_owned(),
        )
    })
}

fn is_or_are(count: usize) -> &'static str {
    if count == 1 { "is" } else { "are" }
}

/// A kind of refused logins: `ann to shop from 10.0.0.7 (password authentication failed)`.
fn words(login: &RefusedLogin) -> String {
    format!("{} ({})", who(login), login.why)
}

/// Which limit refuses logins, and whose: the most frequent since then.
fn limited(report: &Report, since: f64) -> Option<String> {
    let is_new = |login: &&RefusedLogin| login.is_limit && login.last as f64 / 1e6 >= since - 1.0;
    let login = report.refused_logins.list().iter().find(is_new)?;
    Some(format!(" Most are logins of {}: {}.", who(login), login.why))
}

/// A file that can't be read again.
fn reload(report: &Report) -> Option<Fault> {
    let last = report.last_reload.as_ref()?;
    let mut lines = last.error.as_ref()?.lines();
    let (first, more) = (lines.next().unwrap_or_default(), lines.count());
    let more =
        if more > 0 { format!(" ({})", plural(more as u64, "more mistake", "more mistakes")) } else { String::new() };
    Some(Fault {
        kind: "reload",
        problem: true,
        summary: format!(
            "The last reload failed, and the old configuration is still in force: {first}{more}. A restart would fail, too."
        ),
        advice: "Correct the file, which `weir check` does not accept either, and reload.".to_owned(),
        since: last.at as f64 / 1e6,
    })
}

/// Who was refused: the user, the pool and the origin.
fn who(login: &RefusedLogin) -> String {
    let RefusedLogin { user, database, origin, .. } = login;
    match (user.as_str(), database.as_str()) {
        ("", "") => format!("several users from {origin}"),
        (user, "") => format!("{user} from {origin}"),
        (user, database) => format!("{user} to {database} from {origin}"),
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
        for login in report.refused_logins.list().iter().filter(|login| !login.is_limit) {
            *counted.login.entry(words(login)).or_default() += login.count;
        }
        for stats in &report.stats {
            let count = stats.counters.errors.by_code().into_iter().find(|(code, _)| code == READ_ONLY);
            counted.read_only.insert(stats.database.clone(), count.map_or(0, |(_, count)| count));
        }
        counted
    }
}

impl Growth {
    /// Takes in two successive counts.
    fn add(&mut self, before: &BTreeMap<String, u64>, now_counted: &BTreeMap<String, u64>, now: f64) {
        if now - self.last > self.lasts {
            self.by.clear();
        }
        for (name, count) in now_counted {
            let more =
                count.saturating_sub(before.get(name).copied().unwrap_or(if self.from_zero { 0 } else { *count }));
            let has_room = self.by.len() < NAMES || self.by.contains_key(name);
            if more > 0 && has_room {
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
        (now - self.last <= self.lasts && !self.by.is_empty()).then(|| self.by.values().sum())
    }

    /// The name with the most.
    fn most(&self) -> Option<&str> {
        self.by.iter().max_by_key(|(_, count)| **count).map(|(name, _)| name.as_str())
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
    fn logins_that_a_program_repeats_are_a_fault_and_one_of_a_person_is_none() {
        let refused = |count, is_limit| {
            let mut report = report(0, Health::Healthy);
            report.refused_logins.add(RefusedLogin {
                user: "ann".to_owned(),
                database: "shop".to_owned(),
                origin: weir_base::Origin::Local(7),
                why: "password authentication failed".to_owned(),
                hint: Some("See the auth file."),
                is_limit,
                count,
                last: 101_000_000,
            });
            report
        };
        let mut failing = Failing::default();
        failing.look(&report(0, Health::Healthy), 100.0);
        assert!(failing.look(&refused(1, false), 101.0).is_empty());
        let found = failing.look(&refused(4, false), 131.0);
        assert_eq!((found.len(), found[0].kind, found[0].since), (1, "login", 101.0));
        let words = "4 refused. ann to shop from user 7 of this machine (password authentication failed).";
        assert!(found[0].summary.contains(words) && found[0].advice == "See the auth file.", "{found:?}");
        assert_eq!(failing.look(&refused(4, false), 191.0).len(), 1);
        assert!(failing.look(&refused(4, false), 192.0).is_empty());

        let mut failing = Failing::default();
        failing.look(&report(0, Health::Healthy), 100.0);
        let mut limited = refused(2, true);
        limited.refusals[0].refusals.limit_reached = 2;
        let found = failing.look(&limited, 101.0);
        assert_eq!((found.len(), found[0].kind), (1, "limit"));
        assert!(found[0].summary.contains("Most are logins of ann to shop from user 7"), "{found:?}");
    }

    #[test]
    fn a_node_or_etcd_that_is_lost_is_a_fault_once_it_lasts() {
        let mut failing = Failing::default();
        let seen = |member_state, other| {
            let nodes = vec![weir_admin::ClusterNode { name: "b".to_owned(), state: other, ..Default::default() }];
            let view = ClusterView { cluster: "shop".to_owned(), member_state, nodes, ..Default::default() };
            Report { cluster: Some(std::sync::Arc::new(view)), ..Report::default() }
        };
        assert!(failing.look(&seen("member", "member"), 100.0).is_empty());
        assert!(failing.look(&seen("floor", "member"), 101.0).is_empty(), "for a moment");
        let found = failing.look(&seen("floor", "member"), 104.0);
        assert_eq!((found.len(), found[0].kind, found[0].since), (1, "cluster", 101.0));
        assert!(found[0].summary.contains("etcd does not answer"), "{found:?}");
        assert!(failing.look(&seen("member", "late"), 105.0).is_empty());
        failing.look(&seen("member", "lost"), 106.0);
        let found = failing.look(&seen("member", "lost"), 109.0);
        assert!(found[0].summary.contains("1 node of the cluster shop is lost: b."), "{found:?}");
    }

    #[test]
    fn a_file_that_can_not_be_read_again_is_a_fault_until_it_can() {
        let mut failing = Failing::default();
        let ended = |error: Option<&str>| Report {
            last_reload: Some(weir_admin::LastReload { at: 5_000_000, error: error.map(str::to_owned) }),
            ..Report::default()
        };
        let found = failing.look(&ended(Some("weir.toml: line 3: no number\nline 4: no host")), 6.0);
        assert_eq!((found.len(), found[0].kind, found[0].since), (1, "reload", 5.0));
        assert!(found[0].summary.contains("line 3: no number (1 more mistake)"), "{found:?}");
        assert!(failing.look(&ended(None), 7.0).is_empty());
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
