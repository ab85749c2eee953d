//! How long the control plane waits for its clients.

use std::time::Duration;

/// The time limits of clients of the control plane.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// For a handshake, and for the head of a request; an idle connection is closed after it, too.
    pub head: Duration,
    /// For the body of a request.
    pub body: Duration,
    /// For a request, its body and its answer included: longer than the longest wait of a command, apart from a
    /// SWITCH, which has a limit of its own.
    pub request: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Timeouts { head: seconds(15), body: seconds(10), request: seconds(120) }
    }
}
