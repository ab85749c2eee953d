//! Whether a server is paused, and whether its own socket is full. `stop` and `start` call the port.

/// Why a server is paused. Reading continues when no reason is left.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ServerReading {
    /// Its client's socket is full.
    paused: bool,
    /// Everything is suspended.
    suspended: bool,
    /// Its own socket is full: its client is paused.
    full: bool,
}

impl ServerReading {
    /// Its client's socket is full. Returns whether that is a change.
    pub(crate) fn pause(&mut self, stop: impl FnOnce()) -> bool {
        let change = !std::mem::replace(&mut self.paused, true);
        if change && !self.suspended {
            stop();
        }
        change
    }

    /// Its client's socket has room, or it has no client any more. Returns whether that is a change.
    #[inline]
    pub(crate) fn resume(&mut self, start: impl FnOnce()) -> bool {
        let change = std::mem::take(&mut self.paused);
        if change && !self.suspended {
            start();
        }
        change
    }

    /// Everything is suspended.
    pub(crate) fn suspend(&mut self, stop: impl FnOnce()) {
        if !std::mem::replace(&mut self.suspended, true) && !self.paused {
            stop();
        }
    }

    /// Nothing is suspended any more.
    pub(crate) fn wake(&mut self, start: impl FnOnce()) {
        if std::mem::take(&mut self.suspended) && !self.paused {
            start();
        }
    }

    /// Its own socket is full, or has room.
    pub(crate) fn set_full(&mut self, full: bool) {
        self.full = full;
    }

    /// Whether it is paused because its client's socket is full.
    #[inline]
    pub(crate) fn is_paused(&self) -> bool {
        self.paused
    }

    /// Whether it is paused because everything is suspended.
    pub(crate) fn is_suspended(&self) -> bool {
        self.suspended
    }

    /// Whether its own socket is full.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.full
    }
}
