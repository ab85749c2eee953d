//! The servers of a pool, one after the other, until one is good for it.
//!
//! Owns where the next connect goes, with or without encryption, the errors of the tries since the last success, and
//! what a server must report to be taken (`target_session_attrs`). Must not know when a server is wanted.
//!
//! A *round* is each server once; `prefer-standby` makes it two, of which the second takes any. Only a round that failed as
//! a whole is a failure for the pool, which then waits before the next.

use weir_base::Target;
use weir_config::{Balance, Encryption, Pool, SessionAttrs, SslMode};
use weir_pool::ConnectFailure;
use weir_session::{Role, ServerError};

/// Where a pool's next connect goes, and how its last ones went.
#[derive(Default)]
pub(crate) struct Hosts {
    /// The server that is next.
    next: usize,
    /// The last one once more, in another way.
    again: Option<Attempt>,
    /// Which servers of the round have failed, and whether their part in replication mattered, each once: a try that was
    /// called off has not, and the same server may fail again before its turn comes.
    failed: Vec<(usize, bool)>,
    /// Their errors; as many as servers at the most.
    errors: Vec<(Target, ServerError)>,
    /// One of them is starting up.
    starting: bool,
}

/// One try.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Attempt {
    host: usize,
    pub(crate) encryption: Encryption,
    /// Its part in replication does not matter.
    pub(crate) any: bool,
    /// It is what is left to try after another way with the same server.
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
    /// It does not, for this reason.
    Unfit(&'static str),
    /// It is fit if this query finds a row, or if it finds none; otherwise it is unfit for this reason.
    Ask {
        query: &'static str,
        row: bool,
        why: &'static str,
    },
}

impl Hosts {
    /// The next try, and where it goes.
    pub(crate) fn begin(&mut self, pool: &Pool, mode: SslMode) -> (Attempt, Target) {
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

    /// Where the next try goes.
    pub(crate) fn peek<'p>(&self, pool: &'p Pool) -> &'p Target {
        let again = self.again.map(|again| again.host).filter(|host| *host < pool.targets.len());
        &pool.targets[again.unwrap_or(self.next % pool.targets.len())]
    }

    /// The host that is next has no room for now: the one after it comes first, unless one is to be tried once more.
    pub(crate) fn pass(&mut self, pool: &Pool) {
        if self.again.is_none() {
            self.next = (self.next + 1) % pool.targets.len();
        }
    }

    /// What it counts as if the try that has just begun fails: whether another of the round is left.
    pub(crate) fn failure(&self, pool: &Pool, attempt: Attempt) -> ConnectFailure {
        let failed = self.failed.len() + usize::from(!self.has_failed(attempt));
        match (failed < tries(pool), self.starting) {
            (true, _) => ConnectFailure::Elsewhere,
            (false, true) => ConnectFailure::StartingUp,
            (false, false) => ConnectFailure::Refused,
        }
    }

    fn has_failed(&self, attempt: Attempt) -> bool {
        self.failed.contains(&(attempt.host, attempt.any))
    }

    /// A try has failed. What it counts as for the pool, and the error for clients.
    pub(crate) fn failed(
        &mut self,
        pool: &Pool,
        attempt: Attempt,
        error: ServerError,
        again: Option<Encryption>,
    ) -> (ConnectFailure, ServerError) {
        if let Some(encryption) = again.filter(|_| !attempt.second) {
            self.again = Some(Attempt { encryption, second: true, ..attempt });
            return (ConnectFailure::Elsewhere, error);
        }
        self.starting |= error.sqlstate == "57P03";
        let verdict = self.failure(pool, attempt);
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
            *self = Hosts { next: self.next, ..Hosts::default() };
        }
        (verdict, error)
    }

    /// A server is up: the round is over, and well.
    pub(crate) fn succeeded(&mut self) {
        *self = Hosts { next: self.next, ..Hosts::default() };
    }

    /// The errors of all the round's servers; of a single one, that alone.
    fn all_errors(&self, last: ServerError) -> ServerError {
        if self.errors.len() < 2 {
            return last;
        }
        let each = self.errors.iter().map(|(host, error)| format!("{host}: {}", error.message));
        ServerError { sqlstate: last.sqlstate, message: each.collect::<Vec<_>>().join("; ") }
    }
}

/// Whether a server of this role is good for a pool (PostgreSQL documentation, libpq, `target_session_attrs`).
pub(crate) fn fitness(attrs: SessionAttrs, any: bool, role: Role) -> Fitness {
    const RECOVERY: &str = "SELECT 1 WHERE pg_catalog.pg_is_in_recovery()";
    const READ_ONLY: &str = "SELECT 1 WHERE pg_catalog.current_setting('transaction_read_only') = 'on'";
    let read_only = match (role.standby, role.read_only) {
        (Some(standby), Some(read_only)) => Some(standby || read_only),
        _ => None,
    };
    let (known, query, row, why) = match attrs {
        SessionAttrs::Any => return Fitness::Fits,
        SessionAttrs::PreferStandby if any => return Fitness::Fits,
        SessionAttrs::ReadWrite => (read_only, READ_ONLY, false, "session is read-only"),
        SessionAttrs::ReadOnly => (read_only, READ_ONLY, true, "session is not read-only"),
        SessionAttrs::Primary => (role.standby, RECOVERY, false, "server is in hot standby mode"),
        SessionAttrs::Standby | SessionAttrs::PreferStandby => {
            (role.standby, RECOVERY, true, "server is not in hot standby mode")
        }
    };
    match known {
        None => Fitness::Ask { query, row, why },
        Some(known) if known == row => Fitness::Fits,
        Some(_) => Fitness::Unfit(why),
    }
}

/// Whether each connect goes to the next server. Where the operator does not want it, or only one can be good, it goes to
/// the one that was good last.
fn rotates(pool: &Pool) -> bool {
    pool.balance == Balance::RoundRobin
        && !matches!(pool.session_attrs, SessionAttrs::ReadWrite | SessionAttrs::Primary)
}

fn tries(pool: &Pool) -> usize {
    let rounds = if pool.session_attrs == SessionAttrs::PreferStandby { 2 } else { 1 };
    pool.targets.len() * rounds
}
