//! Session state that clients lost with their server or were refused, or that was found late, counted by kind.
//!
//! Owns the counters. Must not know how such state is detected.

use weir_base::STATE_KINDS;

/// Counts of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LostCounts {
    /// Transactions that left such state on a server, which their client then lost.
    pub lost: u64,
    /// Requests that were refused because of it (`on_dirty = refuse`, `pin_refuse`).
    pub refused: u64,
    /// Texts that left it, and had been executed before without a question about what they leave (`mode = "auto"`).
    pub late: u64,
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
            own.late += other.late;
        }
    }

    /// The counters with the names of their kinds.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, LostCounts)> {
        STATE_KINDS.into_iter().zip(self.0)
    }
}
