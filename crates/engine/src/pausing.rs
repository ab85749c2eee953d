//! A connection is not read from, or read again: calls the port when the first reason comes, and when the last one has
//! gone.

use weir_base::ConnId;

use crate::port::Io;
use crate::reading::{Reading, Reason};
use crate::server::slot::{ServerPhase, ServerSlot};

/// Adds a reason not to read from `conn`. Returns whether that is a change.
#[inline]
pub(crate) fn pause<I: Io>(reading: &mut Reading, reason: Reason, conn: ConnId, io: &mut I) -> bool {
    let (change, stops) = reading.add(reason);
    if stops {
        io.pause(conn);
    }
    change
}

/// Removes a reason not to read from `conn`. Returns whether that is a change.
#[inline]
pub(crate) fn resume<I: Io>(reading: &mut Reading, reason: Reason, conn: ConnId, io: &mut I) -> bool {
    if !reading.has(reason) {
        return false;
    }
    if reading.remove(reason) {
        io.resume(conn);
    }
    true
}

/// Not beside the slot: the port's messages hold servers.
impl ServerSlot {
    /// The server is not read from, for this reason too. Returns whether that is a change.
    #[inline]
    pub(crate) fn pause<I: Io>(&mut self, reason: Reason, io: &mut I) -> bool {
        let conn = self.conn;
        pause(self.reading_mut(), reason, conn, io)
    }

    /// This reason not to read from the server is gone. Returns whether that is a change.
    #[inline]
    pub(crate) fn resume<I: Io>(&mut self, reason: Reason, io: &mut I) -> bool {
        let conn = self.conn;
        resume(self.reading_mut(), reason, conn, io)
    }

    /// Reads no more from a server whose client's socket is full. The answers to queries of Weir are not for that
    /// client. Returns whether that is a change.
    pub(crate) fn pause_for_client<I: Io>(&mut self, io: &mut I) -> bool {
        matches!(self.phase(), Some(ServerPhase::Linked | ServerPhase::Streaming)) && self.pause(Reason::OtherFull, io)
    }
}
