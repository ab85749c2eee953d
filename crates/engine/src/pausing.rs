//! A connection is not read from, or read again: calls the port when the first reason comes, and when the last one has
//! gone.

use weir_base::ConnId;

use crate::port::Io;
use crate::reading::{Reading, Reason};

/// Adds a reason not to read from `conn`. Returns whether that is a change.
#[inline]
pub(crate) fn pause<I: Io>(reading: &mut Reading, reason: Reason, conn: ConnId, io: &mut I) -> bool {
    let was_paused = reading.is_paused();
    let change = reading.add(reason);
    if !was_paused && reading.is_paused() {
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
    let was_paused = reading.is_paused();
    reading.remove(reason);
    if was_paused && !reading.is_paused() {
        io.resume(conn);
    }
    true
}
