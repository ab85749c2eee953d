//! Client counts: how many clients this worker has, and of which kind, without looking at them.
//!
//! What a hundred thousand idle clients do not change must not cost more with them: tables of the console and the line of
//! figures in the log are made from these counts.

use crate::peers::ClientPhase;

/// The clients of a worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ClientCounts {
    all: u32,
    /// Operators at the console.
    consoles: u32,
    /// Those that came to cancel.
    cancellers: u32,
}

impl ClientCounts {
    /// A client has come.
    pub(crate) fn add(&mut self, phase: &ClientPhase) {
        self.all += 1;
        self.change(phase);
    }

    /// A client has become an operator, or one that cancels; none is both, or ceases to be it.
    pub(crate) fn change(&mut self, phase: &ClientPhase) {
        self.consoles += u32::from(matches!(phase, ClientPhase::Console(_)));
        self.cancellers += u32::from(matches!(phase, ClientPhase::Canceller));
    }

    /// A client has left, or gone to another worker.
    pub(crate) fn remove(&mut self, phase: &ClientPhase) {
        self.all -= 1;
        self.consoles -= u32::from(matches!(phase, ClientPhase::Console(_)));
        self.cancellers -= u32::from(matches!(phase, ClientPhase::Canceller));
    }

    /// All clients.
    pub(crate) fn all(self) -> u32 {
        self.all
    }

    /// Operators at the console.
    pub(crate) fn consoles(self) -> u32 {
        self.consoles
    }

    /// Clients that are not logged in yet: all that are in no pool, and are not here for something else. `pooled` is how
    /// many are in pools.
    pub(crate) fn logging_in(self, pooled: u32) -> u32 {
        self.all - self.consoles - self.cancellers - pooled
    }
}
