//! A connection is not read from, or read again: tells the port when the first reason comes, and when the last one has
//! gone.

use weir_base::Peer;

use crate::port::Io;
use crate::reading::{Reading, Reason};

/// Adds a reason not to read from `peer`. Returns whether that is a change.
#[inline]
pub(crate) fn pause<I: Io>(reading: &mut Reading, reason: Reason, peer: Peer, io: &mut I) -> bool {
    let was_paused = reading.is_paused();
    let change = reading.add(reason);
    if !was_paused && reading.is_paused() {
        io.pause(peer);
    }
    change
}

/// Removes a reason not to read from `peer`. Returns whether that is a change.
#[inline]
pub(crate) fn resume<I: Io>(reading: &mut Reading, reason: Reason, peer: Peer, io: &mut I) -> bool {
    let was_paused = reading.is_paused();
    let change = reading.remove(reason);
    if was_paused && !reading.is_paused() {
        io.resume(peer);
    }
    change
}
