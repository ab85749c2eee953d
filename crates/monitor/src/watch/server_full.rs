//! Who has the connections of a server that has none left (53300): asked while a pool can't connect for that reason.
//!
//! Owns what was found last; one round of questions at a time, at most every [`EVERY`].

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use weir_admin::{Finding, Report, ServerCapacity, identifier, quoted};
use weir_config::Config;

use crate::activity_probe::ActivityProbe;
use crate::clock;
use crate::lock::lock;

/// Between two rounds.
const EVERY: Duration = Duration::from_secs(5);
/// The most pools that are asked about at once.
const POOLS: usize = 8;
/// What to do about it.
const ADVICE: &str = "Close connections of these applications, or raise the server's max_connections.";

/// Cheap to clone.
#[derive(Clone)]
pub(super) struct ServerFull {
    activity_probe: ActivityProbe,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    busy: bool,
    last: Option<Instant>,
    found: BTreeMap<String, Finding>,
}

impl ServerFull {
    pub(super) fn new(activity_probe: ActivityProbe) -> ServerFull {
        ServerFull { activity_probe, state: Arc::default() }
    }

    /// Begins a round if one is due; does not wait for it. What was found so far, by pool.
    pub(super) fn follow(&self, report: &Report, config: &Config) -> BTreeMap<String, Finding> {
        let pools: Vec<String> = full(report);
        let (is_due, found) = {
            let mut state = lock(&self.state);
            state.found.retain(|pool, _| pools.contains(pool));
            let is_due = !pools.is_empty() && !state.busy && state.last.is_none_or(|last| last.elapsed() >= EVERY);
            (state.busy, state.last) = (state.busy || is_due, if is_due { Some(Instant::now()) } else { state.last });
            (is_due, state.found.clone())
        };
        if is_due {
            let mut asked = JoinSet::new();
            for pool in pools.into_iter().take(POOLS) {
                let Some(server) = config.pool(&pool).and_then(|of| of.targets.first().cloned()) else { continue };
                let probe = self.activity_probe.clone();
                asked.spawn(async move { (pool.clone(), probe.capacity(pool, server).await.ok()) });
            }
            let watch = self.clone();
            tokio::spawn(async move {
                let answers = asked.join_all().await;
                let at = clock::now().as_micros() as u64;
                let finding = |(pool, of): (String, Option<ServerCapacity>)| {
                    Some((pool, Finding::new(at, None, &in_words(&of?)?, ADVICE)))
                };
                let mut state = lock(&watch.state);
                state.busy = false;
                state.found.extend(answers.into_iter().filter_map(finding));
            });
        }
        found
    }
}

/// Pools whose server has no connection left: not those whose role or database may have no more.
fn full(report: &Report) -> Vec<String> {
    let is_own = |message: &str| ["for role", "for database"].iter().any(|of| message.contains(of));
    let lacks = |pool: &&weir_admin::PoolRecord| {
        let error = pool.health.error.as_ref();
        pool.health.is_problem() && error.is_some_and(|it| it.sqlstate == "53300" && !is_own(&it.message))
    };
    report.pools.iter().filter(lacks).map(|pool| pool.database.clone()).collect()
}

/// `57 of 60 connections are open, 50 of them of "bi-tool" (app), 4 of "web" (app)`.
fn in_words(of: &ServerCapacity) -> Option<String> {
    let named = of.by_application.iter().map(|it| {
        let name = if it.application_name.is_empty() { "no name".to_owned() } else { quoted(&it.application_name) };
        format!("{} of {name} ({})", it.clients, identifier(&it.user))
    });
    let named = named.collect::<Vec<_>>().join(", ");
    (!named.is_empty()).then(|| format!("{} of {} connections are open: {named}", of.connections, of.max_connections))
}

#[cfg(test)]
mod tests {
    use weir_admin::{Health, LoginFailure, NamedClients, PoolRecord};
    use weir_base::PoolMode;

    use super::*;

    #[test]
    fn a_server_without_a_connection_left_is_asked_who_has_them() {
        let pool = |name: &str, sqlstate: &str| {
            let mut pool = PoolRecord::new(name, "app", PoolMode::Transaction);
            pool.health.state = Health::CannotGrow;
            pool.health.error = Some(LoginFailure::new(1, 1, sqlstate, "no"));
            pool
        };
        let report = Report { pools: vec![pool("full", "53300"), pool("gone", "08006")], ..Report::default() };
        assert_eq!(full(&report), ["full"]);
        let named =
            |name: &str, clients| NamedClients { user: "app".to_owned(), application_name: name.to_owned(), clients };
        let capacity = ServerCapacity {
            max_connections: 60,
            connections: 57,
            by_application: vec![named("bi-tool", 50), named("", 7)],
            ..ServerCapacity::default()
        };
        let words = "57 of 60 connections are open: 50 of \"bi-tool\" (app), 7 of no name (app)";
        assert_eq!(in_words(&capacity).as_deref(), Some(words));
    }
}
