//! A command of an operator that waits on a worker.

use weir_base::WorkerId;

/// A command that waits for a condition.
pub(crate) struct WaitingCommand {
    pub(crate) from: WorkerId,
    pub(crate) id: u64,
    /// The database of the command; `None`: all.
    pub(crate) name: Option<String>,
    pub(crate) until: Condition,
}

/// The condition of a waiting command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Condition {
    /// No server works for a client (PAUSE).
    Quiet,
    /// No client writes to a host that its pool has left.
    Fenced,
    /// No socket has a backlog (SUSPEND).
    Flushed,
    /// The servers to be replaced are closed (WAIT_CLOSE).
    Closed,
}
