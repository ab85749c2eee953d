//! Why a client or a server is not read from: one set of reasons for both.

/// A reason not to read from a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reason {
    /// The connection waits: a client for a server, a query of Weir, a helper.
    Waits = 1,
    /// The socket at the other end of its link is full.
    OtherFull = 2,
    /// The connection's own socket is full. A client does not read its replies then, so it may not request more; a
    /// server is still read from.
    OwnFull = 4,
    /// Everything is suspended.
    Suspended = 8,
    /// A client has sent so many messages that the rest of them waits for the worker's next round.
    NextTurn = 16,
}

/// See the head of the file. Reading continues when no reason is left that stops it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reading {
    reasons: u8,
    /// The reasons that stop reading.
    stopping: u8,
}

impl Reading {
    /// A client is read from. Every reason stops that.
    pub(crate) const OF_CLIENT: Reading = Reading { reasons: 0, stopping: u8::MAX };
    /// A server is read from. Every reason but [`Reason::OwnFull`] stops that.
    pub(crate) const OF_SERVER: Reading = Reading { reasons: 0, stopping: !(Reason::OwnFull as u8) };

    /// Whether there is this reason.
    #[inline]
    pub(crate) fn has(self, reason: Reason) -> bool {
        self.reasons & reason as u8 != 0
    }

    /// Whether there is any reason.
    #[inline]
    pub(crate) fn has_any(self) -> bool {
        self.reasons != 0
    }

    /// Whether this is the only reason.
    pub(crate) fn has_only(self, reason: Reason) -> bool {
        self.reasons == reason as u8
    }

    /// Whether reading is stopped.
    #[inline]
    pub(crate) fn is_paused(self) -> bool {
        self.reasons & self.stopping != 0
    }

    /// Adds a reason. Returns whether reading stops with it.
    #[inline]
    pub(crate) fn add(&mut self, reason: Reason) -> bool {
        let stopping = self.reasons & self.stopping;
        self.reasons |= reason as u8;
        stopping == 0 && reason as u8 & self.stopping != 0
    }

    /// Removes a reason. Returns whether reading continues with it.
    #[inline]
    pub(crate) fn remove(&mut self, reason: Reason) -> bool {
        let stopping = self.reasons & self.stopping;
        self.reasons &= !(reason as u8);
        stopping != 0 && stopping & !(reason as u8) == 0
    }
}
