//! Client counts: how many clients this worker has, and of which kind, without a walk over them.
//!
//! Tables of the console and the statistics line of the log use these counts, so that their cost does not grow with
//! the number of idle clients.

use crate::client::slot::ClientPhase;

/// The clients of a worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ClientCounts {
    all: u32,
    /// Operators at the console.
    consoles: u32,
    /// Connections that sent a cancel request.
    cancellers: u32,
}

impl ClientCounts {
    /// Counts a new client.
    pub(crate) fn add(&mut self, phase: &ClientPhase) {
        self.all += 1;
        self.change(phase);
    }

    /// A client has become an operator, or sent a cancel request; no client is both, or stops being it.
    pub(crate) fn change(&mut self, phase: &ClientPhase) {
        self.consoles += u32::from(matches!(phase, ClientPhase::Console(_)));
        self.cancellers += u32::from(matches!(phase, ClientPhase::Canceller));
    }

    /// A client has disconnected, or moved to another worker.
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

    /// Clients that are not logged in yet: all that are in no pool and are neither operators nor cancelling. `pooled`
    /// is the number of clients in pools.
    pub(crate) fn logging_in(self, pooled: u32) -> u32 {
        self.all - self.consoles - self.cancellers - pooled
    }
}
