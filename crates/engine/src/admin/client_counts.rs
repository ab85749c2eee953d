//! How many clients this worker has, and of which kind, without looking at them.
//!
//! Owns the counts. What a hundred thousand idle clients do not change must not cost more with them: tables of the console
//! and the line of figures in the log are made from these counts.

use crate::peers::ClientPhase;

/// The clients of a worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ClientCounts {
    /// All of them.
    pub(crate) clients: u32,
    /// Operators at the console.
    pub(crate) consoles: u32,
    /// Those that came to cancel.
    pub(crate) cancellers: u32,
}

impl ClientCounts {
    /// A client has come.
    pub(crate) fn came(&mut self, phase: &ClientPhase) {
        self.clients += 1;
        self.became(phase);
    }

    /// A client has become an operator, or somebody who cancels; nobody is both, or ceases to be it.
    pub(crate) fn became(&mut self, phase: &ClientPhase) {
        self.consoles += u32::from(matches!(phase, ClientPhase::Console(_)));
        self.cancellers += u32::from(matches!(phase, ClientPhase::Canceller));
    }

    /// A client has left, or gone to another worker.
    pub(crate) fn left(&mut self, phase: &ClientPhase) {
        self.clients -= 1;
        self.consoles -= u32::from(matches!(phase, ClientPhase::Console(_)));
        self.cancellers -= u32::from(matches!(phase, ClientPhase::Canceller));
    }
}
