//! The hosts of a pool, tried one after the other until one is fit.
//!
//! Owns the target of the next connect, with or without encryption, the errors of the attempts since the last success,
//! and what a server must report to be fit (`target_session_attrs`). Must not know when a server is wanted.
//!
//! A *round* tries each host once; `prefer-standby` makes it two, of which the second accepts any. Only a round that
//! failed as a whole is a failure for the pool, which then waits before the next.

use weir_base::Target;
use weir_config::{Balance, Encryption, PoolConfig, ServerCondition, SessionAttrs, SslMode};
use weir_pool::ConnectFailure;
use weir_session::{ReplicationRole, ServerError};

use crate::server::login_failure::LoginFailureKind;

/// Where a pool's next connect goes, and how its last ones went.
#[derive(Default)]
pub(crate) struct Hosts {
    /// The index of the next host.
    next: usize,
    /// A second attempt at the last host, in another way.
    again: Option<Attempt>,
    /// The hosts of the round that have failed, each once, and whether their role mattered: an attempt that was
    /// abandoned has not failed, and the same host may fail again before the next one is tried.
    failed: Vec<(usize, bool)>,
    /// The errors of failed tries; as many as servers at the most.
    errors: Vec<(Target, ServerError)>,
    /// What the errors say about the next try; none before the first error.
    kind: Option<LoginFailureKind>,
    /// Only the next host is tried.
    only: bool,
    /// Patroni has named the next host.
    hinted: bool,
}

/// One attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Attempt {
    host: usize,
    pub(crate) encryption: Encryption,
    /// Any role is accepted.
    pub(crate) any: bool,
    /// The attempt is the second way to try the same host.
    second: bool,
}

/// A server's choices of encryption, by their numbers in [`Attempt::parts`].
const ENCRYPTIONS: [Encryption; 3] = [Encryption::Off, Encryption::Preferred, Encryption::Required];

impl Attempt {
    /// What of a try that succeeded still counts: the choice of encryption, and whether any server would do.
    pub(crate) fn parts(self) -> (u8, bool) {
        (ENCRYPTIONS.iter().position(|one| *one == self.encryption).unwrap_or_default() as u8, self.any)
    }

    /// A try of another process, from its [`Attempt::parts`].
    pub(crate) fn of_parts((encryption, any): (u8, bool)) -> Attempt {
        let encryption = ENCRYPTIONS.get(usize::from(encryption)).copied().unwrap_or(Encryption::Required);
        Attempt { host: 0, encryption, any, second: false }
    }
}

/// What is known of a server's fitness for a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fitness {
    Fits,
    Unfit(Unfit),
    /// A query decides: the server is fit if the query returns a row (`row`), or no row.
    Ask {
        query: &'static str,
        row: bool,
        otherwise: Unfit,
    },
}

/// A server is not fit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Unfit {
    pub(crate) why: &'static str,
    /// Its host is in recovery: no user of the pool can write there. Otherwise the reason may be a setting of the user or
    /// the database, which says nothing about the host.
    pub(crate) is_standby: bool,
}

impl Hosts {
    /// The next attempt, and its target.
    pub(crate) fn begin(&mut self, pool: &PoolConfig, mode: SslMode) -> (Attempt, Target) {
        // A new configuration may have fewer servers.
        self.next %= pool.targets.len();
        let fresh = Attempt {
            host: self.next,
            encryption: Encryption::first(mode),
            any: self.failed.len() >= pool.targets.len(),
            second: false,
        };
        let attempt = self.again.take().filter(|again| again.host < pool.targets.len()).unwrap_or(fresh);
        if !attempt.second && rotates(pool) {
            self.next = (self.next + 1) % pool.targets.len();
        }
        (attempt, pool.targets[attempt.host].clone())
    }

    /// The target of the next attempt.
    pub(crate) fn peek<'p>(&self, pool: &'p PoolConfig) -> &'p Target {
        let again = self.again.map(|again| again.host).filter(|host| *host < pool.targets.len());
        again.map_or_else(|| self.next_of(pool), |again| &pool.targets[again])
    }

    /// The host of the next first attempt.
    fn next_of<'p>(&self, pool: &'p PoolConfig) -> &'p Target {
        &pool.targets[self.next % pool.targets.len()]
    }

    /// The next host has no room for a login now: skips it, unless it is due for a second attempt.
    pub(crate) fn pass(&mut self, pool: &PoolConfig) {
        if self.again.is_none() {
            self.next = (self.next + 1) % pool.targets.len();
        }
    }

    /// What the failure counts as for the pool if the try that has just begun fails with this kind: whether another try
    /// of the round is left; `stays`: the failure says nothing about the host, and the pool stays there.
    pub(crate) fn failure(
        &self,
        pool: &PoolConfig,
        attempt: Attempt,
        kind: LoginFailureKind,
        stays: bool,
    ) -> ConnectFailure {
        let failed = self.failed.len() + usize::from(!self.has_failed(attempt));
        if failed < tries(pool) && !self.only && !stays {
            return ConnectFailure::Elsewhere;
        }
        match self.kind.map_or(kind, |others| others.and(kind)) {
            LoginFailureKind::Down => ConnectFailure::Away,
            LoginFailureKind::NotReady => ConnectFailure::NotReady,
            LoginFailureKind::Lasting => ConnectFailure::Refused,
        }
    }

    fn has_failed(&self, attempt: Attempt) -> bool {
        self.failed.contains(&(attempt.host, attempt.any))
    }

    /// The pool leaves a host: the next attempt is at another one.
    pub(crate) fn leave(&mut self, pool: &PoolConfig, host: &Target) {
        self.again = None;
        if self.next_of(pool) == host {
            self.next = (self.next + 1) % pool.targets.len();
        }
    }

    /// The pool has a primary, or moves to one: a round begins there; `only`: it is tried, and no other.
    pub(crate) fn begin_at(&mut self, pool: &PoolConfig, host: Option<&Target>, only: bool) {
        self.only = only;
        let hinted = std::mem::take(&mut self.hinted);
        if let Some(host) = host.filter(|_| only || (!hinted && self.failed.is_empty() && self.again.is_none())) {
            self.turn_to(pool, host);
        }
    }

    /// Patroni has named a host: a round begins there, also if the pool has another one.
    pub(crate) fn hint(&mut self, pool: &PoolConfig, host: &Target) {
        *self = self.anew();
        self.hinted = self.turn_to(pool, host);
    }

    /// A round of a pool that may have several hosts begins at the next one of these, if there is one.
    pub(crate) fn prefer(&mut self, pool: &PoolConfig, hosts: &[&Target]) {
        if self.failed.is_empty() && self.again.is_none() {
            let mut turn = (0..pool.targets.len()).map(|ahead| (self.next + ahead) % pool.targets.len());
            self.next = turn.find(|host| hosts.contains(&&pool.targets[*host])).unwrap_or(self.next);
        }
    }

    /// The round is over.
    fn anew(&self) -> Hosts {
        Hosts { next: self.next, only: self.only, hinted: self.hinted, ..Hosts::default() }
    }

    /// A host has room for a login now: the next attempt is at that host, if it is one of the pool's, and a second
    /// attempt that was due elsewhere is dropped. Returns whether it is one of the pool's.
    pub(crate) fn turn_to(&mut self, pool: &PoolConfig, target: &Target) -> bool {
        if self.peek(pool) == target {
            return true;
        }
        let Some(host) = pool.targets.iter().position(|other| other == target) else { return false };
        (self.next, self.again) = (host, None);
        true
    }

    /// An attempt has failed. Returns what that counts as for the pool, as [`Hosts::failure`] does, and the error for
    /// clients.
    pub(crate) fn failed(
        &mut self,
        pool: &PoolConfig,
        attempt: Attempt,
        error: ServerError,
        (kind, stays): (LoginFailureKind, bool),
        again: Option<Encryption>,
    ) -> (ConnectFailure, ServerError) {
        if let Some(encryption) = again.filter(|_| !attempt.second) {
            self.again = Some(Attempt { encryption, second: true, ..attempt });
            return (ConnectFailure::Elsewhere, error);
        }
        let verdict = self.failure(pool, attempt, kind, stays);
        self.kind = Some(self.kind.map_or(kind, |others| others.and(kind)));
        if !rotates(pool) && self.next == attempt.host {
            self.next += 1;
        }
        if let Some(target) = pool.targets.get(attempt.host) {
            self.errors.retain(|(host, _)| host != target);
            self.errors.push((target.clone(), error.clone()));
        }
        if !self.has_failed(attempt) {
            self.failed.push((attempt.host, attempt.any));
        }
        let error = self.all_errors(error);
        if verdict != ConnectFailure::Elsewhere {
            *self = self.anew();
        }
        (verdict, error)
    }

    /// It is known how the server that is next fails: it counts as tried, and failed. Returns what that means for the
    /// pool, and the error for clients.
    pub(crate) fn skip(
        &mut self,
        pool: &PoolConfig,
        mode: SslMode,
        (error, kind): (&ServerError, LoginFailureKind),
    ) -> (ConnectFailure, ServerError) {
        let (attempt, _) = self.begin(pool, mode);
        let kind = kind.under(pool.limits.on_server_down, error);
        self.failed(pool, attempt, error.clone(), (kind, false), None)
    }

    /// A server is up: the round is over, and well.
    pub(crate) fn succeeded(&mut self) {
        *self = self.anew();
    }

    /// The errors of all hosts of the round; of a single one, only that.
    fn all_errors(&self, last: ServerError) -> ServerError {
        if self.errors.len() < 2 {
            return last;
        }
        let each = self.errors.iter().map(|(host, error)| format!("{host}: {}", error.message));
        ServerError { sqlstate: last.sqlstate, message: each.collect::<Vec<_>>().join("; ") }
    }
}

/// Whether a server of this role is fit for a pool (PostgreSQL documentation, libpq, `target_session_attrs`).
pub(crate) fn fitness(attrs: SessionAttrs, any: bool, role: ReplicationRole) -> Fitness {
    let Some(condition) = attrs.condition().filter(|_| !(any && attrs == SessionAttrs::PreferStandby)) else {
        return Fitness::Fits;
    };
    let ServerCondition { about_writes, query, row, why } = condition;
    let known = match (role.standby, role.read_only) {
        (standby, _) if !about_writes => standby,
        (Some(standby), Some(read_only)) => Some(standby || read_only),
        _ => None,
    };
    let recovers = attrs.wants_primary() && (!about_writes || role.standby == Some(true));
    let otherwise = Unfit { why, is_standby: recovers };
    match known {
        None => Fitness::Ask { query, row, otherwise },
        Some(known) if known == row => Fitness::Fits,
        Some(_) => Fitness::Unfit(otherwise),
    }
}

/// Why a server is left whose host takes no writes, as it says when it is asked.
pub(crate) const READ_ONLY: &str = "session is read-only";

/// The query that returns a row if the host of a server does not take the writes that its pool wants; none: it wants
/// none. What clients have set does not count, nor what is set for the user or the database.
pub(crate) fn still_takes_writes(attrs: SessionAttrs) -> Option<&'static str> {
    match attrs {
        SessionAttrs::ReadWrite => Some(
            "SELECT 1 WHERE pg_catalog.pg_is_in_recovery() OR EXISTS(SELECT FROM pg_catalog.pg_settings WHERE name \
             OPERATOR(pg_catalog.=) 'default_transaction_read_only' AND reset_val OPERATOR(pg_catalog.=) 'on' AND \
             source OPERATOR(pg_catalog.=) ANY('{configuration file,command line,environment variable}'))",
        ),
        SessionAttrs::Primary => attrs.condition().map(|condition| condition.query),
        _ => None,
    }
}

/// Whether each connect tries the next host. If the operator turned that off, or only one host can be fit, it tries
/// the last one that was fit.
fn rotates(pool: &PoolConfig) -> bool {
    pool.balance == Balance::RoundRobin
        && !matches!(pool.session_attrs, SessionAttrs::ReadWrite | SessionAttrs::Primary)
}

fn tries(pool: &PoolConfig) -> usize {
    let rounds = if pool.session_attrs == SessionAttrs::PreferStandby { 2 } else { 1 };
    pool.targets.len() * rounds
}
