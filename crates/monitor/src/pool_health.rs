//! A pool's health in JSON: the same object in the API and in events.

use serde::{Deserialize, Serialize};
use weir_admin::{ClientNames, PoolHealth};

use crate::figures::seconds_of;

/// The most names of affected clients that are listed.
const NAMED: usize = 3;

/// A pool's state, since when, who feels it, and what to do.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct HealthView {
    state: &'static str,
    /// Whether something is broken, and no operator wants it so.
    problem: bool,
    /// Seconds since 1970; none while unknown.
    since: Option<f64>,
    /// When the figures last showed the state, which lasts for some seconds more; none while they show it.
    not_seen_since: Option<f64>,
    /// Clients that feel it, at least.
    clients: u64,
    waiting: u32,
    /// Refusals since then, and of how many clients at least.
    refused: u64,
    refused_clients: u32,
    /// Clients that have a server which gives no answer.
    unanswered: u32,
    /// Clients whose query waits for a lock.
    blocked: u32,
    /// Clients whose queries ended in an error, of a pool that is failing.
    failed: u32,
    /// Clients whose query runs at the moment, of a pool that is slow.
    slowed: u32,
    /// Clients that wait, were refused or get no answer, by user and application, while something is broken: the most
    /// first.
    affected: Vec<Affected>,
    /// The last error of a pool that can't connect, or whose login is rejected; the errors of one that is failing.
    error: Option<LoginError>,
    /// Why a pool is slow, blocked, stalled or saturated, in a sentence, where that was found out; since when clients of a paused
    /// one wait, where that is too long.
    cause: Option<String>,
    /// What to do, as a sentence; empty where nothing is to be done.
    advice: &'static str,
}

/// Clients of one user and application.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Affected {
    user: String,
    application_name: String,
    clients: u32,
}

impl Affected {
    /// The names with the most clients.
    pub fn most(of: &ClientNames) -> Vec<Affected> {
        let named = of.most(NAMED).into_iter();
        named.map(|it| Affected { user: it.user, application_name: it.application_name, clients: it.clients }).collect()
    }
}

#[derive(Clone, PartialEq, Serialize, Debug)]
struct LoginError {
    sqlstate: String,
    message: String,
    /// Seconds since 1970.
    at: f64,
}

impl From<&PoolHealth> for HealthView {
    fn from(of: &PoolHealth) -> HealthView {
        let error = of.error.as_ref().map(|error| LoginError {
            sqlstate: error.sqlstate.clone(),
            message: error.message.clone(),
            at: seconds_of(error.last),
        });
        HealthView {
            state: of.state.name(),
            problem: of.is_problem(),
            since: (of.since > 0).then(|| seconds_of(of.since)),
            not_seen_since: (of.not_seen_since > 0).then(|| seconds_of(of.not_seen_since)),
            clients: of.clients(),
            waiting: of.waiting,
            refused: of.refused,
            refused_clients: of.refused_clients,
            unanswered: of.unanswered,
            blocked: of.blocked,
            failed: of.failed,
            slowed: of.slowed,
            affected: Affected::most(&of.affected),
            error,
            cause: of.cause(),
            advice: of.advice(),
        }
    }
}
