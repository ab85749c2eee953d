//! Handles: small values that identify a socket or a worker; a handle is never a pointer.

use std::fmt;

/// One socket of one worker, as engine and runtime both name it.
///
/// The runtime chooses the slot when a socket is accepted or a connect begins. `generation` differs each time a slot is
/// used again, so a late event of a closed socket can't reach the socket that reuses its slot.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnId {
    /// Index into the tables of the worker; small, and reused.
    pub slot: u32,
    /// Counts the uses of the slot.
    pub generation: u32,
}

impl ConnId {
    /// A connection that no runtime hands out: a placeholder for fields that are set later.
    pub const NONE: ConnId = ConnId { slot: u32::MAX, generation: u32::MAX };

    /// The socket in `slot`, at its `generation`th use.
    pub const fn new(slot: u32, generation: u32) -> Self {
        ConnId { slot, generation }
    }
}

impl fmt::Debug for ConnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}.{}", self.slot, self.generation)
    }
}

/// One worker thread (in the simulator: one engine) of this process, counted from 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct WorkerId(pub u16);
