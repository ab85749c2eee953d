//! How long the control plane waits for its clients.

use std::time::Duration;

/// How long clients of the control plane may take.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// With a handshake, and with the head of a request; a connection that asks nothing is closed after it, too.
    pub head: Duration,
    /// With the body of a request.
    pub body: Duration,
    /// With a request, its body and its answer included: longer than any command may be waited for.
    pub request: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Timeouts { head: seconds(15), body: seconds(10), request: seconds(120) }
    }
}
