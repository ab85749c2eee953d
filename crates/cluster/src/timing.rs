//! The times of the protocol, and the bound on clocks that they depend on.

use weir_base::{Span, Time};

/// The times of a cluster. All nodes of a cluster must have the same lease and the same drift.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timing {
    /// How long a heartbeat is valid.
    pub lease: Span,
    /// The bound on the drift of a node's clock, in thousandths: a second of a node's clock takes between `1 - drift`
    /// and `1 + drift` seconds.
    pub drift: u64,
    /// The shortest time between two writes of a node while clients wait.
    pub round: Span,
    /// The time between two looks at pools' records while no client waits.
    pub idle_round: Span,
}

impl Default for Timing {
    fn default() -> Timing {
        Timing {
            lease: Span::from_secs(10),
            drift: 50,
            round: Span::from_millis(200),
            idle_round: Span::from_millis(400),
        }
    }
}

impl Timing {
    /// The end of a lease whose heartbeat was sent then: no other node believes that it ends earlier.
    pub fn lease_end(&self, sent: Time) -> Time {
        sent + Span::from_micros(self.lease.micros() * (1000 - self.drift) / 1000)
    }

    /// When a node whose last successful heartbeat was sent then uses its floor only, and begins to close the rest. The
    /// rest of the lease is for closing.
    pub fn shrink_at(&self, sent: Time) -> Time {
        sent + Span::from_micros(self.lease.micros() * 6 / 10)
    }

    /// The time between two heartbeats.
    pub fn beat(&self) -> Span {
        Span::from_micros(self.lease.micros() / 5)
    }

    /// A node whose heartbeat another one has seen unchanged for so long has no lease any more.
    pub fn lost_after(&self) -> Span {
        Span::from_micros(self.lease.micros() * (1000 + self.drift) / 1000)
    }

    /// How long the connections of a killed process count for the one that is started with its name, if they can't be
    /// counted at the server meanwhile: its queries may still run.
    pub fn orphans(&self) -> Span {
        Span::from_micros(self.lease.micros() * 2)
    }
}
