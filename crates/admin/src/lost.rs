//! Session state that clients lost with their server, or were refused, counted by kind.
//!
//! Owns the counters and the kinds' names. Must not know how such state is seen.

/// What the kinds are called, in the order of the counters.
pub const STATE_KINDS: [&str; 6] =
    ["settings", "listen", "statements", "cursors", "temporary_objects", "advisory_locks"];

/// Counts of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LostCounts {
    /// Transactions that left such state, which their client lost at their end.
    pub lost: u64,
    /// Requests that were refused for it (`on_dirty = refuse`).
    pub refused: u64,
}

/// One counter for each of [`STATE_KINDS`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LostState([LostCounts; STATE_KINDS.len()]);

impl LostState {
    /// The counter of a kind, by its place in [`STATE_KINDS`]; a place beyond them counts as the last.
    pub fn of(&mut self, kind: usize) -> &mut LostCounts {
        &mut self.0[kind.min(STATE_KINDS.len() - 1)]
    }

    /// Adds what another reading counted.
    pub fn add(&mut self, other: &LostState) {
        for (own, other) in self.0.iter_mut().zip(other.0) {
            own.lost += other.lost;
            own.refused += other.refused;
        }
    }

    /// The counters by their kinds' names.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, LostCounts)> {
        STATE_KINDS.into_iter().zip(self.0)
    }
}
