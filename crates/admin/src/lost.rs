//! Session state that clients lost with their server, or were refused, counted by kind.
//!
//! Owns the counters and the names of the kinds. Must not know how such state is detected.

/// The names of the kinds, in the order of the counters.
pub const STATE_KINDS: [&str; 6] =
    ["settings", "listen", "statements", "cursors", "temporary_objects", "advisory_locks"];

/// Counts of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LostCounts {
    /// Transactions that left such state on a server, which their client then lost.
    pub lost: u64,
    /// Requests that were refused because of it (`on_dirty = refuse`).
    pub refused: u64,
}

/// One counter for each of [`STATE_KINDS`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LostState([LostCounts; STATE_KINDS.len()]);

impl LostState {
    /// The counter of a kind, by its index in [`STATE_KINDS`]; a larger index counts as the last.
    pub fn of(&mut self, kind: usize) -> &mut LostCounts {
        &mut self.0[kind.min(STATE_KINDS.len() - 1)]
    }

    /// Adds the counts of another reading.
    pub fn add(&mut self, other: &LostState) {
        for (own, other) in self.0.iter_mut().zip(other.0) {
            own.lost += other.lost;
            own.refused += other.refused;
        }
    }

    /// The counters with the names of their kinds.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, LostCounts)> {
        STATE_KINDS.into_iter().zip(self.0)
    }
}
