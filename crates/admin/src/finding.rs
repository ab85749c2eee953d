//! What the control plane has found out about a slow pool: it asks the pool's server who waits for whose lock, which
//! the workers can't know.
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

impl Finding {
    /// A finding of this time; the cause becomes one line, which is shortened if it is long.
    pub fn new(at: u64, lock: Option<LockWait>, cause: &str, advice: &'static str) -> Finding {
        Finding { at, lock, cause: one_line(cause), advice }
    }

    /// Whether the finding still counts.
    pub(crate) fn is_fresh(&self, now: u64) -> bool {
        now.saturating_sub(self.at) <= LASTS.micros()
    }
}
