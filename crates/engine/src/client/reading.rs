//! Whether a client is read from.

use crate::client::slot::ClientSlot;
use crate::pausing;
use crate::port::Io;
use crate::reading::Reason;

impl ClientSlot {
    /// The client is not read from, for this reason too.
    #[inline]
    pub(crate) fn pause<I: Io>(&mut self, reason: Reason, io: &mut I) {
        let peer = self.peer;
        pausing::pause(self.reading_mut(), reason, peer, io);
    }

    /// This reason not to read from the client is gone.
    #[inline]
    pub(crate) fn resume<I: Io>(&mut self, reason: Reason, io: &mut I) {
        let peer = self.peer;
        pausing::resume(self.reading_mut(), reason, peer, io);
    }
}
