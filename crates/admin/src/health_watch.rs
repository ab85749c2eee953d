//! Since when each pool is in its state of health, and which changes the log is to have.
//!
//! Owns what was last seen of each pool. Reads no clock, and computes no state: [`Health::of`] does. One worker owns
//! the one watch of the process; it sees the merged reports of all workers, at each SHOW, request of the control plane
//! and scrape, and once a second while a pool is not healthy.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use weir_base::Target;
use weir_config::Config;

use crate::client_names::ClientNames;
use crate::clock::timestamp;
use crate::failing::FailingQueries;
use crate::finding::Finding;
use crate::health::{Health, LoginFailure, PoolHealth, Symptoms, UnresponsiveHost};
use crate::health_rule::{LONG_WAIT, is_kept_waiting};
use crate::records::{PoolRecord, Report, ServiceState};

/// The shortest interval between two lines of a pool in the log, in microseconds.
const LOG_EVERY: u64 = 10_000_000;

/// A look after a longer interval, in microseconds, does not know which clients were refused since a state began.
const RECENT: u64 = 5_000_000;

/// A problem ends when the figures have not shown it for so long, in microseconds: waits, errors and answers come and go
/// while their cause lasts, and whoever reads the state, or has an alert on it, wants that.
const LASTS: u64 = 10_000_000;

/// What was last seen no longer ago, in microseconds, is there now: queries fail, and clients wait, now and then.
const SEEN_NOW: u64 = 2_000_000;

/// What was seen of each pool, by database and user.
#[derive(Debug, Default)]
pub struct HealthWatch {
    /// The time of the last look.
    seen_at: u64,
    pools: BTreeMap<(String, String), Seen>,
    /// Configured pools that nobody has used, by their names.
    unused: HashMap<String, Seen>,
}

#[derive(Debug)]
struct Seen {
    state: Health,
    since: u64,
    /// Refusals at the last look before the state began, and when that was.
    refused_before: u64,
    refused_since: u64,
    /// Refusals at the last look, and when that was: 0 before the first.
    refused: u64,
    looked_at: u64,
    /// When the pool's figures last showed the state.
    shown_at: u64,
    /// Since when clients wait for the end of a pause, if that is too long, and when the figures last showed that.
    kept_waiting: Option<(u64, u64)>,
    /// The last error and the last cause that was found, while the state lasts.
    error: Option<LoginFailure>,
    finding: Option<Finding>,
    /// The state that the log last had, whether it was a problem only because clients waited, and when.
    logged: Health,
    logged_waits: bool,
    logged_at: u64,
}

/// A change of a pool's health for the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HealthChange {
    pool: (String, String),
    from: Health,
    health: PoolHealth,
}

impl HealthChange {
    /// Whether the new state is a problem.
    pub fn is_problem(&self) -> bool {
        self.health.is_problem()
    }
}

impl fmt::Display for HealthChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((database, user), PoolHealth { state, since, .. }) = (&self.pool, &self.health);
        write!(f, "{database}/{user}: health: {state} since {}", timestamp(*since))?;
        if self.from != *state {
            write!(f, " (was {})", self.from)?;
        }
        if self.health.clients() > 0 {
            write!(f, ", clients affected: {}", self.health.clients())?;
        }
        if self.health.refused > 0 {
            write!(f, ", refusals: {}", self.health.refused)?;
        }
        self.health.reason().map_or(Ok(()), |reason| write!(f, ": {reason}"))
    }
}

impl HealthWatch {
    /// Computes the health of each pool of a report of all workers, and writes it there. `now`: microseconds since
    /// 1970. Returns the changes for the log. Costs a look at each pool.
    pub fn observe(&mut self, report: &mut Report, config: &Config, now: u64) -> Vec<HealthChange> {
        let all_paused = report.serving != ServiceState::Active;
        let before = std::mem::replace(&mut self.seen_at, now);
        if now < before {
            self.set_back(now);
        }
        let recent = now.saturating_sub(before) <= RECENT;
        let mut changes = Vec::new();
        let mut before = std::mem::take(&mut self.pools);
        for pool in &mut report.pools {
            let paused = all_paused || report.paused.contains(&pool.database);
            suspect(&report.unresponsive, config, &pool.database, &mut pool.symptoms);
            pool.symptoms.finding = report.findings.get(&pool.database).and_then(|finding| applies(finding, pool, now));
            let state = Health::of(pool, paused, report.disabled.contains(&pool.database));
            let key = (pool.database.clone(), pool.user.clone());
            let mut seen = before.remove(&key).unwrap_or_else(Seen::new);
            if !recent {
                (seen.refused, seen.looked_at) = (pool.symptoms.refused, now);
            }
            pool.health = seen.health(state, pool, now);
            changes.extend(seen.change(&key, &pool.health, now));
            self.pools.insert(key, seen);
        }
        let used: HashSet<&str> = report.pools.iter().map(|pool| &*pool.database).collect();
        let mut before = std::mem::take(&mut self.unused);
        // One for all of them: there may be thousands.
        let mut record = PoolRecord::new("", "", config.policy.mode);
        for name in config.pools.keys().filter(|name| !used.contains(name.as_str())) {
            record.symptoms = Symptoms::default();
            suspect(&report.unresponsive, config, name, &mut record.symptoms);
            let paused = all_paused || report.paused.contains(name);
            let state = Health::of(&record, paused, report.disabled.contains(name));
            let (key, mut seen) = before.remove_entry(name).unwrap_or_else(|| (name.clone(), Seen::new()));
            report.unused.insert(name.clone(), seen.health(state, &record, now));
            self.unused.insert(key, seen);
        }
        changes
    }

    /// The clock was set back: what lies ahead would last until then.
    fn set_back(&mut self, now: u64) {
        for seen in self.pools.values_mut().chain(self.unused.values_mut()) {
            for at in
                [&mut seen.since, &mut seen.shown_at, &mut seen.looked_at, &mut seen.refused_since, &mut seen.logged_at]
            {
                *at = now.min(*at);
            }
            seen.kept_waiting = seen.kept_waiting.map(|(since, shown)| (since.min(now), shown.min(now)));
        }
    }

    /// Whether a pool must be looked at again soon: it is not healthy, or the log does not have its state yet.
    pub fn is_alert(&self) -> bool {
        let calm = |seen: &Seen| matches!(seen.state, Health::Untried | Health::Healthy | Health::Disabled);
        self.pools.values().chain(self.unused.values()).any(|seen| !calm(seen) || seen.owes_line())
    }
}

impl Seen {
    fn new() -> Seen {
        let (state, logged) = (Health::Untried, Health::Untried);
        let (since, refused_before, refused, shown_at, logged_at) = (0, 0, 0, 0, 0);
        let (refused_since, looked_at) = (0, 0);
        let (kept_waiting, error, finding, logged_waits) = Default::default();
        Seen {
            state,
            since,
            refused_before,
            refused_since,
            refused,
            looked_at,
            shown_at,
            kept_waiting,
            error,
            finding,
            logged,
            logged_waits,
            logged_at,
        }
    }

    /// The pool's health, now that it is in this state.
    fn health(&mut self, computed: Health, pool: &PoolRecord, now: u64) -> PoolHealth {
        let is_held = self.is_held(computed, now);
        let state = if is_held { self.state } else { computed };
        if !is_held {
            self.shown_at = last_shown(state, pool, now);
        }
        if self.state != state || self.since == 0 {
            (self.state, self.since) = (state, began(state, pool, now));
            (self.refused_before, self.refused_since) = (self.refused, self.looked_at);
        }
        (self.refused, self.looked_at) = (pool.symptoms.refused, now);
        if self.logged == Health::Untried && pool.symptoms.logged_in {
            self.logged = Health::Healthy;
        }
        let symptoms = &pool.symptoms;
        if !is_held {
            self.error = error_of(state, symptoms);
        }
        let explains = is_explained(state) || self.error.as_ref().is_some_and(|error| error.sqlstate == "53300");
        let finding = symptoms.finding.clone().or(self.finding.take()).filter(|_| explains);
        self.finding.clone_from(&finding);
        let kept_waiting = self.kept_waiting(pool, now);
        let is_problem = state.is_problem() || kept_waiting > 0;
        let (mut affected, mut refused_clients) = (ClientNames::default(), 0);
        if is_problem {
            let (clients, names) = symptoms.refused_by.since(self.refused_since);
            affected.clone_from(&symptoms.waiting);
            affected.add(&names);
            refused_clients = clients;
        }
        let unanswered = if state == Health::NotAnswering { symptoms.unanswered } else { 0 };
        if unanswered > 0 {
            affected.add(&symptoms.unanswered_by);
        }
        let failing = symptoms.failing.as_ref().filter(|_| state == Health::Failing);
        if let Some(failing) = failing {
            affected.add(&failing.by);
        }
        let slow = finding.as_ref().filter(|_| state == Health::Slow).and_then(|finding| finding.slow.as_ref());
        let slowed = slow.map_or(0, |slow| slow.clients);
        if let Some(slow) = slow {
            affected.add(&slow.names);
        }
        let lock = finding.as_ref().and_then(|finding| finding.lock.as_ref());
        let blocked = lock.map_or(0, |lock| lock.clients);
        if let Some(lock) = lock {
            affected.add(&lock.names);
        }
        PoolHealth {
            state,
            since: self.since,
            waiting: pool.cl_waiting,
            kept_waiting,
            refused_clients,
            refused: if is_problem { self.refused.saturating_sub(self.refused_before) } else { 0 },
            unanswered,
            blocked,
            slowed,
            failed: failing.map_or(0, |failing| failing.clients),
            affected,
            error: self.error.clone(),
            finding,
            not_seen_since: if now.saturating_sub(self.shown_at) > SEEN_NOW { self.shown_at } else { 0 },
        }
    }

    /// Since when clients wait too long for the end of a pause; 0 if they do not. Those whose wait ends by its limit are
    /// followed by others.
    fn kept_waiting(&mut self, pool: &PoolRecord, now: u64) -> u64 {
        if is_kept_waiting(self.state, pool) {
            let began = self.kept_waiting.map_or(now.saturating_sub(pool.maxwait.micros()), |(since, _)| since);
            self.kept_waiting = Some((began, now));
        }
        let is_over = |shown: u64| self.state != Health::Paused || now.saturating_sub(shown) >= LASTS;
        self.kept_waiting = self.kept_waiting.filter(|(_, shown)| !is_over(*shown));
        self.kept_waiting.map_or(0, |(since, _)| since)
    }

    /// Whether the state before this one still lasts: a pause does not end a problem, and what an operator did does.
    fn is_held(&self, computed: Health, now: u64) -> bool {
        let pauses = matches!(computed, Health::Healthy | Health::Waiting) || computed.is_problem();
        let recent = now.saturating_sub(self.shown_at) < LASTS;
        self.state.is_problem() && computed < self.state && pauses && recent
    }

    /// The change for the log, if it is due.
    fn change(&mut self, pool: &(String, String), health: &PoolHealth, now: u64) -> Option<HealthChange> {
        if !self.owes_line() || (self.logged_at > 0 && now.saturating_sub(self.logged_at) < LOG_EVERY) {
            return None;
        }
        let from = std::mem::replace(&mut self.logged, self.state);
        (self.logged_waits, self.logged_at) = (self.kept_waiting.is_some(), now);
        Some(HealthChange { pool: pool.clone(), from, health: health.clone() })
    }

    /// Whether the log has another state. That clients wait for a moment, or that a first login succeeds, is ordinary,
    /// and is not logged.
    fn owes_line(&self) -> bool {
        let ordinary = |state| match state {
            Health::Untried | Health::Waiting => Health::Healthy,
            state => state,
        };
        // The end of a pause says that nobody waits for it any more.
        let waits = self.kept_waiting.is_some() && !self.logged_waits;
        ordinary(self.logged) != ordinary(self.state) || waits
    }
}

/// The error that belongs to a state that the figures show.
fn error_of(state: Health, symptoms: &Symptoms) -> Option<LoginFailure> {
    match state {
        Health::NotAnswering => symptoms.unresponsive.clone(),
        Health::CannotConnect | Health::LoginRejected => {
            symptoms.failure.as_ref().or(symptoms.barred.as_ref()).cloned()
        }
        Health::CannotGrow => symptoms.barred.clone(),
        Health::Failing => symptoms.failing.as_ref().map(failure),
        _ => None,
    }
}

/// When a state that the figures show was last seen: errors of queries count for some time.
fn last_shown(state: Health, pool: &PoolRecord, now: u64) -> u64 {
    let failing = pool.symptoms.failing.as_ref().filter(|_| state == Health::Failing);
    failing.map_or(now, |failing| failing.last.min(now))
}

/// Whether findings are about such a state: one that follows from clients that wait, or from times.
fn is_explained(state: Health) -> bool {
    matches!(state, Health::Slow | Health::Saturated | Health::Stalled | Health::Blocked)
}

/// Whether the server of a pool gives no answer, or is suspected of that: all its hosts, or the one where all its
/// servers are. What the pool itself has received since then is better evidence.
fn suspect(unresponsive: &HashMap<Target, UnresponsiveHost>, config: &Config, database: &str, symptoms: &mut Symptoms) {
    if unresponsive.is_empty() {
        return;
    }
    let Some(pool) = config.pool(database) else { return };
    let targets = symptoms.only_at.as_ref().map_or(&pool.targets[..], std::slice::from_ref);
    let found: Option<Vec<_>> =
        targets.iter().map(|target| unresponsive.get(target).map(|host| (target, host))).collect();
    let hosts = found.unwrap_or_default();
    let Some((target, last)) = hosts.iter().max_by_key(|(_, host)| host.since) else { return };
    if symptoms.heard > last.since {
        return;
    }
    match hosts.iter().all(|(_, host)| host.proved) {
        true => symptoms.unresponsive = Some(last.failure(target)),
        false => symptoms.suspected = true,
    }
}

/// What was found out about a pool, as far as it still explains something: a lock that is waited for only for a moment,
/// or no more, does not. That queries are slow needs no client that waits.
fn applies(finding: &Finding, pool: &PoolRecord, now: u64) -> Option<Finding> {
    let felt = pool.cl_waiting > 0 || pool.symptoms.unanswered > 0 || pool.symptoms.failure.is_some();
    let lasts = finding.lock.as_ref().is_none_or(|lock| now.saturating_sub(lock.since) >= LONG_WAIT.micros());
    let slow = finding.lock.is_none() && finding.slow_of(&pool.user).is_some();
    ((felt || slow) && lasts && finding.is_fresh(now)).then(|| finding.clone())
}

/// The errors of a pool's queries as the error of the pool.
fn failure(of: &FailingQueries) -> LoginFailure {
    LoginFailure::new(of.since, of.last, &of.code(), &of.message())
}

/// When a state that is seen now began, as far as the figures show.
fn began(state: Health, pool: &PoolRecord, now: u64) -> u64 {
    match state {
        Health::Untried | Health::Healthy | Health::Disabled | Health::Paused => now,
        Health::Waiting | Health::Saturated | Health::Stalled => now.saturating_sub(pool.maxwait.micros()),
        Health::Blocked => {
            let lock = pool.symptoms.finding.as_ref().and_then(|finding| finding.lock.as_ref());
            lock.map_or(now, |lock| lock.since.min(now))
        }
        Health::Slow => {
            let slow = pool.symptoms.finding.as_ref().and_then(|finding| finding.slow.as_ref());
            slow.map_or(now, |slow| slow.since.min(now))
        }
        Health::NotAnswering => {
            pool.symptoms.unresponsive.as_ref().map_or(now, |unresponsive| unresponsive.since.min(now))
        }
        Health::Failing => pool.symptoms.failing.as_ref().map_or(now, |failing| failing.since.min(now)),
        Health::CannotGrow => pool.symptoms.barred.as_ref().map_or(now, |barred| barred.since.min(now)),
        Health::CannotConnect | Health::LoginRejected => match &pool.symptoms.failure {
            Some(failure) => failure.since.min(now),
            None => now.saturating_sub(pool.symptoms.login_age.micros()),
        },
    }
}

#[cfg(test)]
mod tests {
    use weir_base::{PoolMode, Span};

    use super::*;
    use crate::finding::{LockWait, SlowQueries};

    fn report(change: impl FnOnce(&mut PoolRecord)) -> Report {
        let mut pool = PoolRecord::new("app", "owner", PoolMode::Transaction);
        pool.symptoms.logged_in = true;
        change(&mut pool);
        Report { pools: vec![pool], ..Report::default() }
    }

    fn down(pool: &mut PoolRecord, refused: u64) {
        pool.symptoms.failure = Some(LoginFailure::new(5_000_000, 9_000_000, "08006", "Connection refused"));
        pool.symptoms.refused = refused;
    }

    const SECOND: u64 = 1_000_000;

    #[test]
    fn pools_of_a_host_that_gives_no_answer_have_its_state_and_a_pool_that_has_heard_more_has_not() {
        let target = |port| Target { host: weir_base::Host::parse("db"), port };
        let mut config = Config::default();
        for (name, ports) in [("app", &[1][..]), ("both", &[1, 2]), ("other", &[2])] {
            let targets = ports.iter().map(|port| target(*port)).collect();
            config.pools.insert(
                name.to_owned(),
                std::sync::Arc::new(weir_config::PoolConfig { targets, ..Default::default() }),
            );
        }
        let look_at = |proved, change: &dyn Fn(&mut PoolRecord)| {
            let host = UnresponsiveHost { since: 5 * SECOND, accepts: true, proved };
            let mut report = report(change);
            report.unresponsive.insert(target(1), host);
            HealthWatch::default().observe(&mut report, &config, 9 * SECOND);
            report
        };
        let look = |change: &dyn Fn(&mut PoolRecord)| look_at(true, change);
        let seen = look(&|pool| (pool.cl_waiting, pool.symptoms.unanswered, pool.symptoms.heard) = (2, 3, 5 * SECOND));
        let health = &seen.pools[0].health;
        assert_eq!((health.state, health.since, health.clients()), (Health::NotAnswering, 5 * SECOND, 5));
        let message = health.error.as_ref().map(|error| error.message.as_str());
        let since = "server db:1 accepts connections but has not answered since 1970-01-01 00:00:05 UTC";
        assert_eq!(message, Some(since));
        assert!(!health.advice().contains("nlarge"));
        assert_eq!(seen.unused["both"].state, Health::Untried, "its other host may answer");
        assert_eq!(seen.unused["other"].state, Health::Untried);
        assert_eq!(look(&|pool| pool.symptoms.heard = 6 * SECOND).pools[0].health.state, Health::Healthy);
        let only = |pool: &mut PoolRecord| {
            pool.database = "both".to_owned();
            pool.symptoms.only_at = Some(target(1));
        };
        assert_eq!(look(&only).pools[0].health.state, Health::NotAnswering, "all its servers are there");
        let full = |pool: &mut PoolRecord| {
            (pool.cl_waiting, pool.sv_active, pool.maxwait) = (2, 1, Span::from_secs(2));
            pool.symptoms.heard = 5 * SECOND;
        };
        assert_eq!(look_at(false, &full).pools[0].health.state, Health::Waiting, "until it is known");
        let answers = |pool: &mut PoolRecord| {
            full(pool);
            pool.symptoms.heard = 6 * SECOND;
        };
        assert_eq!(look_at(false, &answers).pools[0].health.state, Health::Saturated);
    }

    #[test]
    fn a_lock_that_queries_wait_for_blocks_the_pool_while_clients_feel_it() {
        let (mut watch, config) = (HealthWatch::default(), Config::default());
        let mut names = ClientNames::default();
        names.count("joe", "web", 3);
        let lock = LockWait { since: 5 * SECOND, clients: 3, names };
        let mut at = |seconds: u64, found: u64, lock: Option<&LockWait>, change: &dyn Fn(&mut PoolRecord)| {
            let mut report = report(change);
            let finding = Finding::new(found * SECOND, lock.cloned(), "Blocked by\nprocess 7", "End it.");
            report.findings = std::sync::Arc::new([("app".to_owned(), finding)].into());
            let changes = watch.observe(&mut report, &config, seconds * SECOND);
            (report.pools[0].health.clone(), changes.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        let held = |pool: &mut PoolRecord| (pool.sv_active, pool.symptoms.unanswered) = (4, 3);
        assert_eq!(at(6, 6, Some(&lock), &held).0.state, Health::Healthy, "a wait of a moment");
        let (health, lines) = at(7, 6, Some(&lock), &held);
        assert_eq!((health.state, health.since, health.clients()), (Health::Blocked, 5 * SECOND, 3));
        assert_eq!((health.advice(), health.affected.most(9).len()), ("End it.", 1));
        assert!(lines[0].ends_with("(was healthy), clients affected: 3: Blocked by process 7"), "{lines:?}");
        assert_eq!(at(60, 6, Some(&lock), &held).0.state, Health::Healthy, "nobody has looked again");
        assert_eq!(at(61, 61, Some(&lock), &|pool| pool.sv_active = 4).0.state, Health::Healthy, "nobody feels it");
        // What was found without a lock explains a state, and makes none.
        assert_eq!(at(62, 62, None, &held).0.state, Health::Healthy);
        let full = |pool: &mut PoolRecord| (pool.sv_active, pool.cl_waiting, pool.maxwait) = (4, 2, Span::from_secs(9));
        let (health, _) = at(63, 62, None, &full);
        assert_eq!((health.state, health.advice()), (Health::Saturated, "End it."));
        assert_eq!(health.reason().as_deref(), Some("Blocked by process 7"));
    }

    #[test]
    fn a_pool_whose_queries_are_slow_is_so_for_their_user_and_the_cause_explains_its_queue_too() {
        let (mut watch, config) = (HealthWatch::default(), Config::default());
        let mut at = |seconds: u64, user: Option<&str>, waits: bool| {
            let mut report = report(|pool| {
                pool.sv_active = 4;
                if waits {
                    (pool.cl_waiting, pool.maxwait) = (2, Span::from_secs(9));
                }
            });
            if let Some(user) = user {
                let mut slow = SlowQueries { since: 95 * SECOND, clients: 3, ..SlowQueries::default() };
                slow.names.count(user, "web", 3);
                let finding = Finding::of_slow(seconds * SECOND, slow, "Queries take 9 s", "Look.");
                report.findings = std::sync::Arc::new([("app".to_owned(), finding)].into());
            }
            watch.observe(&mut report, &config, seconds * SECOND);
            report.pools.remove(0).health
        };
        assert_eq!(at(100, Some("another"), false).state, Health::Healthy);
        let slow = at(101, Some("owner"), false);
        assert_eq!((slow.state, slow.since, slow.clients(), slow.advice()), (Health::Slow, 95 * SECOND, 3, "Look."));
        assert_eq!((slow.reason().as_deref(), slow.affected.most(9).len()), (Some("Queries take 9 s"), 1));
        let full = at(102, Some("owner"), true);
        assert_eq!(
            (full.state, full.slowed, full.reason().as_deref()),
            (Health::Saturated, 0, Some("Queries take 9 s"))
        );
        let slow = at(112, Some("owner"), false);
        assert_eq!((slow.state, slow.since), (Health::Slow, 95 * SECOND));
        assert_eq!((at(121, None, false).state, at(122, None, false).state), (Health::Slow, Health::Healthy));
    }

    #[test]
    fn a_pool_whose_clients_wait_again_and_again_is_in_one_state_with_one_cause() {
        let (mut watch, config) = (HealthWatch::default(), Config::default());
        let mut at = |seconds: u64, found: bool, maxwait: u64| {
            let mut report = report(|pool| {
                (pool.sv_active, pool.maxwait) = (4, Span::from_secs(maxwait));
                pool.cl_waiting = u32::from(maxwait > 0);
            });
            if found {
                let finding = Finding::new(seconds * SECOND, None, "jobs holds 4 of 4 servers", "End it.");
                report.findings = std::sync::Arc::new([("app".to_owned(), finding)].into());
            }
            let lines = watch.observe(&mut report, &config, seconds * SECOND).len();
            let health = &report.pools[0].health;
            (health.state, health.since / SECOND, health.reason().is_some(), lines)
        };
        assert_eq!(at(20, true, 2), (Health::Saturated, 18, true, 1));
        // One slow application: a wait ends, and the next one is short as yet.
        for second in 21..50 {
            let maxwait = second % 4;
            assert_eq!(at(second, false, maxwait), (Health::Saturated, 18, true, 0), "second {second}");
        }
        assert_eq!(at(60, false, 1), (Health::Waiting, 59, false, 1), "10 s without a long wait");
        assert_eq!(at(61, false, 2).0, Health::Saturated);
        assert_eq!(at(70, false, 0).0, Health::Saturated);
        assert_eq!(at(71, false, 0).0, Health::Healthy);
    }

    #[test]
    fn those_who_were_refused_since_a_state_began_are_named() {
        let (mut watch, config) = (HealthWatch::default(), Config::default());
        let refused = |web: u32, jobs: u32, at: u64| {
            move |pool: &mut PoolRecord| {
                down(pool, (web + jobs).into());
                pool.symptoms.refused_by.note(("joe", "web", true), weir_base::Origin::V4(1), SECOND / 2);
                for address in 0..2 {
                    pool.symptoms.refused_by.note(("joe", "jobs", true), weir_base::Origin::V4(address), at);
                }
            }
        };
        let healthy = |pool: &mut PoolRecord| {
            refused(9, 1, SECOND / 2)(pool);
            pool.symptoms.failure = None;
        };
        watch.observe(&mut report(healthy), &config, SECOND);
        let mut broken = report(refused(9, 413, 2 * SECOND));
        let lines = watch.observe(&mut broken, &config, 2 * SECOND);
        let health = &broken.pools[0].health;
        let named: Vec<_> =
            health.affected.most(9).iter().map(|it| (it.application_name.clone(), it.clients)).collect();
        assert_eq!((health.refused, named), (412, vec![("jobs".to_owned(), 2)]));
        assert_eq!((health.refused_clients, health.clients()), (2, 2), "each tries again and again");
        assert!(lines[0].to_string().contains(", clients affected: 2, refusals: 412: "), "{}", lines[0]);
    }

    #[test]
    fn a_state_lasts_from_when_it_began_and_counts_those_who_were_refused_since() {
        let (mut watch, config) = (HealthWatch::default(), Config::default());
        watch.observe(&mut report(|pool| pool.symptoms.refused = 7), &config, 4 * SECOND);
        assert!(!watch.is_alert());
        let mut broken = report(|pool| {
            down(pool, 9);
            pool.cl_waiting = 2;
        });
        let changes = watch.observe(&mut broken, &config, 6 * SECOND);
        let health = &broken.pools[0].health;
        assert_eq!((health.state, health.since, health.clients()), (Health::CannotConnect, 5 * SECOND, 2));
        assert_eq!(
            changes.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["app/owner: health: cannot connect since 1970-01-01 00:00:05 UTC (was healthy), clients affected: 2, \
              refusals: 2: Connection refused (08006)"]
        );
        assert!(watch.is_alert() && changes[0].is_problem());
        let mut later = report(|pool| down(pool, 12));
        assert_eq!(watch.observe(&mut later, &config, 60 * SECOND), []);
        assert_eq!((later.pools[0].health.since, later.pools[0].health.refused), (5 * SECOND, 5));
    }

    #[test]
    fn a_pool_that_came_with_its_problem_counts_all_who_were_refused_and_an_old_one_only_those_since_the_look() {
        let (mut watch, config) = (HealthWatch::default(), Config::default());
        watch.observe(&mut Report::default(), &config, 8 * SECOND);
        let mut new = report(|pool| down(pool, 1));
        watch.observe(&mut new, &config, 9 * SECOND);
        assert_eq!(new.pools[0].health.refused, 1);
        let (mut watch, mut old) = (HealthWatch::default(), report(|pool| down(pool, 100)));
        watch.observe(&mut old, &config, 9 * SECOND);
        assert_eq!(old.pools[0].health.refused, 0);
    }

    #[test]
    fn the_log_has_a_pools_changes_at_most_every_ten_seconds_and_the_last_one_always() {
        let (mut watch, config) = (HealthWatch::default(), Config::default());
        let mut lines = 0;
        for second in 1..=30 {
            let mut report = report(|pool| {
                if second % 2 == 0 {
                    down(pool, 0)
                }
            });
            lines += watch.observe(&mut report, &config, second * SECOND).len();
        }
        assert_eq!(lines, 1, "it is one problem");
        let last = (31..=50).flat_map(|second| watch.observe(&mut report(|_| {}), &config, second * SECOND)).last();
        assert_eq!(last.map(|change| change.health.state), Some(Health::Healthy));
        assert!(!watch.is_alert());
    }

    #[test]
    fn a_pool_whose_server_answers_again_is_not_called_too_small_at_once() {
        let (mut watch, mut config) = (HealthWatch::default(), Config::default());
        let target = Target { host: weir_base::Host::parse("db"), port: 1 };
        let pool = weir_config::PoolConfig { targets: vec![target.clone()], ..Default::default() };
        config.pools.insert("app".to_owned(), std::sync::Arc::new(pool));
        let mut at = |seconds: u64, unresponsive: bool| {
            let mut report = report(|pool| {
                (pool.cl_waiting, pool.sv_active, pool.maxwait) = (2, 1, Span::from_secs(30));
            });
            if unresponsive {
                report
                    .unresponsive
                    .insert(target.clone(), UnresponsiveHost { since: SECOND, accepts: true, proved: true });
            }
            watch.observe(&mut report, &config, seconds * SECOND);
            report.pools[0].health.state
        };
        assert_eq!(at(30, true), Health::NotAnswering);
        assert_eq!(at(31, false), Health::NotAnswering);
        assert_eq!(at(39, false), Health::NotAnswering);
        assert_eq!(at(40, false), Health::Saturated, "they still wait");
    }

    #[test]
    fn every_problem_that_comes_and_goes_is_one_with_its_start_and_its_error_and_says_when_it_was_last_seen() {
        let mut config = Config::default();
        let target = Target { host: weir_base::Host::parse("db"), port: 1 };
        let pool = weir_config::PoolConfig { targets: vec![target.clone()], ..Default::default() };
        config.pools.insert("app".to_owned(), std::sync::Arc::new(pool));
        let failing = |second: u64| FailingQueries {
            of: crate::failing::FailingOf::Pool,
            since: second * SECOND,
            last: second * SECOND,
            sqlstate: *b"53100",
            errors: 9,
            queries: 9,
            clients: 3,
            by: ClientNames::default(),
        };
        for state in
            [Health::CannotGrow, Health::Failing, Health::NotAnswering, Health::CannotConnect, Health::LoginRejected]
        {
            let mut watch = HealthWatch::default();
            let mut at = |second: u64, broken: bool| {
                let mut report = report(|pool| match state {
                    Health::Failing if broken => pool.symptoms.failing = Some(failing(second)),
                    Health::CannotGrow if broken => {
                        let target = Target { host: weir_base::Host::parse("db"), port: 5432 };
                        pool.symptoms.barred = Some(LoginFailure::no_answer(second * SECOND, second * SECOND, &target));
                    }
                    Health::CannotConnect if broken => down(pool, 0),
                    Health::LoginRejected if broken => {
                        pool.symptoms.failure =
                            Some(LoginFailure::new(second * SECOND, second * SECOND, "28P01", "no"));
                    }
                    _ => {}
                });
                if state == Health::NotAnswering && broken {
                    let host = UnresponsiveHost { since: second * SECOND, accepts: true, proved: true };
                    report.unresponsive.insert(target.clone(), host);
                }
                watch.observe(&mut report, &config, second * SECOND);
                let health = report.pools.remove(0).health;
                assert_eq!(health.error.is_some(), health.state.is_problem(), "{state}, second {second}");
                health
            };
            let since = at(99, true).since;
            for second in 100..160 {
                // Four seconds of eight.
                let health = at(second, second % 8 < 4);
                assert_eq!((health.state, health.since), (state, since), "second {second}");
                let last_seen = if second % 8 > 5 { second - second % 8 + 3 } else { 0 };
                assert_eq!(health.not_seen_since / SECOND, last_seen, "second {second}");
            }
            let ended = at(164, false);
            assert_eq!((ended.state, ended.not_seen_since), (state, 155 * SECOND));
            let over = at(165, false);
            assert_eq!((over.state, over.not_seen_since), (Health::Healthy, 0), "{state}");
        }
    }

    #[test]
    fn a_problem_that_is_over_ends_also_when_the_clock_was_set_back() {
        let (mut watch, config) = (HealthWatch::default(), Config::default());
        let mut at = |seconds: u64, broken: bool| {
            let mut report = report(|pool| {
                if broken {
                    down(pool, 0)
                }
            });
            watch.observe(&mut report, &config, seconds * SECOND);
            report.pools[0].health.state
        };
        assert_eq!((at(7_000, false), at(7_200, true)), (Health::Healthy, Health::CannotConnect));
        assert_eq!(
            (at(10, false), at(19, false)),
            (Health::CannotConnect, Health::CannotConnect),
            "it may come and go"
        );
        assert_eq!(at(21, false), Health::Healthy);
    }

    #[test]
    fn what_an_operator_does_ends_a_problem_at_once() {
        let (mut watch, config) = (HealthWatch::default(), Config::default());
        let broken = |pool: &mut PoolRecord| down(pool, 0);
        watch.observe(&mut report(broken), &config, 100 * SECOND);
        let mut paused = report(|_| {});
        paused.paused = ["app".to_owned()].into();
        watch.observe(&mut paused, &config, 101 * SECOND);
        assert_eq!(paused.pools[0].health.state, Health::Paused);
        watch.observe(&mut report(broken), &config, 102 * SECOND);
        let mut untried = report(|pool| pool.symptoms.logged_in = false);
        watch.observe(&mut untried, &config, 103 * SECOND);
        assert_eq!(untried.pools[0].health.state, Health::Untried, "its address is another one");
    }

    #[test]
    fn a_pause_is_a_problem_when_clients_wait_too_long_for_its_end() {
        let (mut watch, config) = (HealthWatch::default(), Config::default());
        let mut at = |second: u64, waiting: u32, waited: u64| {
            let mut paused = report(|pool| {
                (pool.cl_waiting, pool.maxwait) = (waiting, Span::from_secs(waited));
                pool.symptoms.waiting.count("joe", "web", waiting);
            });
            paused.paused = ["app".to_owned()].into();
            let lines = watch.observe(&mut paused, &config, second * SECOND);
            (paused.pools.remove(0).health, lines)
        };
        let (health, lines) = at(100, 0, 0);
        assert!(!health.is_problem() && !lines[0].is_problem());
        assert!(!at(104, 2, 4).0.is_problem(), "a pause of a moment");
        let (health, lines) = at(110, 2, 5);
        assert_eq!((health.state, health.since, health.problem_since()), (Health::Paused, 100 * SECOND, 105 * SECOND));
        assert_eq!((health.is_problem(), health.clients(), health.affected.most(1)[0].clients), (true, 2, 2));
        assert!(lines[0].is_problem());
        assert_eq!(
            lines[0].to_string(),
            "app/owner: health: paused since 1970-01-01 00:01:40 UTC, clients affected: 2: clients wait since 1970-01-01 \
             00:01:45 UTC"
        );
        // Their time is over, and the next ones wait.
        let (health, lines) = at(119, 1, 1);
        assert!(health.is_problem() && health.problem_since() == 105 * SECOND && lines.is_empty());
        assert!(!at(121, 0, 0).0.is_problem(), "nobody waits");
        assert!(at(140, 1, 9).0.is_problem());
        let mut over = report(|pool| (pool.cl_waiting, pool.maxwait) = (1, Span::from_secs(1)));
        watch.observe(&mut over, &config, 141 * SECOND);
        assert!(!over.pools[0].health.is_problem() && over.pools[0].health.kept_waiting == 0);
    }

    #[test]
    fn a_pool_that_never_logged_in_was_not_tried_and_its_first_success_is_no_line() {
        let (mut watch, config) = (HealthWatch::default(), Config::default());
        let untried = |pool: &mut PoolRecord| pool.symptoms.logged_in = false;
        let mut first = report(untried);
        assert_eq!(watch.observe(&mut first, &config, SECOND), []);
        assert_eq!((first.pools[0].health.state, first.pools[0].health.since), (Health::Untried, SECOND));
        assert!(!watch.is_alert());
        let broken = |logged_in| {
            move |pool: &mut PoolRecord| {
                down(pool, 0);
                pool.symptoms.logged_in = logged_in;
            }
        };
        let changes = watch.observe(&mut report(broken(false)), &config, 9 * SECOND);
        assert!(changes[0].to_string().contains("(was not tried yet)"), "{}", changes[0]);
        let mut watch = HealthWatch::default();
        watch.observe(&mut report(untried), &config, SECOND);
        assert_eq!(watch.observe(&mut report(|_| {}), &config, 2 * SECOND), []);
        let changes = watch.observe(&mut report(broken(true)), &config, 9 * SECOND);
        assert!(changes[0].to_string().contains("(was healthy)"), "{}", changes[0]);
    }

    #[test]
    fn a_client_that_waits_is_no_line_and_a_wait_began_when_it_began() {
        let (mut watch, config) = (HealthWatch::default(), Config::default());
        let mut waits = report(|pool| {
            (pool.cl_waiting, pool.sv_active, pool.maxwait) = (1, 1, Span::from_millis(500));
        });
        assert_eq!(watch.observe(&mut waits, &config, 3 * SECOND), []);
        assert_eq!((waits.pools[0].health.state, waits.pools[0].health.since), (Health::Waiting, 2_500_000));
        assert!(watch.is_alert());
    }

    #[test]
    fn a_configured_pool_that_was_never_used_has_a_state_too() {
        let (mut watch, mut config) = (HealthWatch::default(), Config::default());
        config.pools.insert("zoo".to_owned(), std::sync::Arc::default());
        let mut report = Report { disabled: ["zoo".to_owned()].into(), ..Report::default() };
        watch.observe(&mut report, &config, SECOND);
        assert_eq!(report.unused["zoo"].state, Health::Disabled);
    }
}
