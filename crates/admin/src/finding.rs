//! What the control plane has found out about a slow pool: it asks the pool's server who waits for whose lock, and
//! compares the times of queries with those before, which the workers can't know.
//!
//! Plain data, without a value of a query.

use weir_base::Span;

use crate::client_names::ClientNames;
use crate::one_line::one_line;

/// A finding is out of date after this time without another look.
const LASTS: Span = Span::from_secs(12);

/// Why a pool is slow.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Finding {
    /// When the reason was found: microseconds since 1970.
    pub at: u64,
    /// The lock that queries of the pool wait for, if that is the cause.
    pub lock: Option<LockWait>,
    /// That queries take far longer than before, if they do.
    pub slow: Option<SlowQueries>,
    /// The cause in a sentence.
    pub cause: String,
    /// What to do.
    pub advice: &'static str,
}

/// Queries of a pool that wait for a lock.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LockWait {
    /// Since when the first one waits: microseconds since 1970.
    pub since: u64,
    /// The pool's clients among those that wait, and who they are.
    pub clients: u32,
    /// See `clients`.
    pub names: ClientNames,
}

/// Queries of a pool that take far longer than before.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SlowQueries {
    /// Since when: microseconds since 1970.
    pub since: u64,
    /// The clients whose query runs at the moment, at least, and who they are, by the user on the server; without names it
    /// is not known which user's queries are slow.
    pub clients: u32,
    /// See `clients`.
    pub names: ClientNames,
}

impl Finding {
    /// A finding of this time; the cause becomes one line, which is shortened if it is long.
    pub fn new(at: u64, lock: Option<LockWait>, cause: &str, advice: &'static str) -> Finding {
        Finding { at, lock, slow: None, cause: one_line(cause), advice }
    }

    /// A finding of this time that queries are slow.
    pub fn of_slow(at: u64, slow: SlowQueries, cause: &str, advice: &'static str) -> Finding {
        Finding { slow: Some(slow), ..Finding::new(at, None, cause, advice) }
    }

    /// This finding, with what another one says of slow queries.
    #[must_use]
    pub fn with_slow(self, of: &Finding) -> Finding {
        let cause = one_line(&format!("{} {}", self.cause, of.cause));
        Finding { at: self.at.max(of.at), slow: of.slow.clone(), cause, ..self }
    }

    /// The part of this finding that says of the queries of this user on the server that they are slow.
    pub(crate) fn slow_of(&self, user: &str) -> Option<&SlowQueries> {
        self.slow.as_ref().filter(|slow| slow.names.is_empty() || slow.names.has_user(user))
    }

    /// Whether the finding still counts.
    pub(crate) fn is_fresh(&self, now: u64) -> bool {
        now.saturating_sub(self.at) <= LASTS.micros()
    }
}
