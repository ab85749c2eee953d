//! Whether a server is read from.

use crate::pausing;
use crate::port::Io;
use crate::reading::Reason;
use crate::server::slot::{ServerPhase, ServerSlot};

impl ServerSlot {
    /// The server is not read from, for this reason too. Returns whether that is a change.
    #[inline]
    pub(crate) fn pause<I: Io>(&mut self, reason: Reason, io: &mut I) -> bool {
        let conn = self.conn;
        pausing::pause(self.reading_mut(), reason, conn, io)
    }

    /// This reason not to read from the server is gone. Returns whether that is a change.
    #[inline]
    pub(crate) fn resume<I: Io>(&mut self, reason: Reason, io: &mut I) -> bool {
        let conn = self.conn;
        pausing::resume(self.reading_mut(), reason, conn, io)
    }

    /// Reads no more from a server whose client's socket is full. The answers to queries of Weir are not for that
    /// client. Returns whether that is a change.
    pub(crate) fn pause_for_client<I: Io>(&mut self, io: &mut I) -> bool {
        matches!(self.phase(), Some(ServerPhase::Linked | ServerPhase::Streaming)) && self.pause(Reason::OtherFull, io)
    }
}
