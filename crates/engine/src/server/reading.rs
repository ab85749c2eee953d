//! Whether a server is read from. Not beside the slot: the port's messages hold servers.

use crate::port::Io;
use crate::reading::Reason;
use crate::server::slot::{ServerPhase, ServerSlot};

impl ServerSlot {
    /// The server is not read from, for this reason too. Returns whether that is a change.
    #[inline]
    pub(crate) fn pause<I: Io>(&mut self, reason: Reason, io: &mut I) -> bool {
        let change = !self.reading.has(reason);
        if self.reading_mut().add(reason) {
            io.pause(self.conn);
        }
        change
    }

    /// This reason not to read from the server is gone. Returns whether that is a change.
    #[inline]
    pub(crate) fn resume<I: Io>(&mut self, reason: Reason, io: &mut I) -> bool {
        let change = self.reading.has(reason);
        if change && self.reading_mut().remove(reason) {
            io.resume(self.conn);
        }
        change
    }

    /// Reads no more from a server whose client's socket is full. The answers to queries of Weir are not for that
    /// client. Returns whether that is a change.
    pub(crate) fn pause_for_client<I: Io>(&mut self, io: &mut I) -> bool {
        matches!(self.phase(), Some(ServerPhase::Linked | ServerPhase::Streaming)) && self.pause(Reason::OtherFull, io)
    }
}
