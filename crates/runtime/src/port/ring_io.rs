//! The work of an io_uring besides epoll: it reads ahead, and it writes at the end of a round.
//!
//! With a ring, an open connection is received from before it is read, into buffers of the ring; a turn's output is
//! staged and submitted with everything else by the one system call that waits. All else stays with epoll, which the
//! ring watches: listeners, the waker, connects, full sockets. A connection returns to epoll, by [`Reader`], where
//! reading ahead does not fit: while it is paused and has sent much, while it detaches, and for a bulk transfer, which
//! is read in larger pieces than a buffer of the ring. A send that the socket takes whole has no completion unless
//! something waits for its end, so it does not end the wait.
//!
//! Owns the requests for the next wait, and bytes of paused connections (`held`). Invariants: bytes are delivered in
//! order: held ones first, and no socket is read while completions wait to be handled (the ring itself reads only
//! within its wait). A connection has at most one send in flight. No socket is closed while the kernel has not accepted
//! a request that names it (`unsubmitted`). Without a ring only `held` is used, for sockets from other workers.

use std::collections::HashMap;

use weir_base::{ConnId, Spares, shrink};
use weir_uring::{Key, Ring, RingError, RingSize};

use crate::slots::{ConnSlots, Outgoing, Ready, Slot};
use crate::socket::Socket;

/// The size of a worker's ring. A buffer is as long as most messages; there are as many as arrive in one wait.
pub(crate) const RING_SIZE: RingSize = RingSize { entries: 512, completions: 4096, buffers: 256, buffer_size: 4096 };
/// How a worker makes its ring, on its own thread: [`Ring::new`], or a test's.
pub type MakeRing = fn(RingSize) -> Result<Ring, RingError>;
/// The key of epoll's own descriptor; no connection has it.
pub(crate) const EPOLL: u64 = (1 << Key::BITS) - 1;
/// The bits of a key for a slot; the others are for its generation.
pub(super) const SLOT_BITS: u32 = 28;
/// A longer output is written at once, without a copy.
const STAGED: usize = 16 * 1024;
/// The limit of a connection's staged bytes; beyond it they become its backlog.
const MOST_STAGED: usize = 256 * 1024;
/// The bytes of spare vectors for the next sends, and of one.
const SPARES: usize = 512 * 1024;
const SPARE: usize = 64 * 1024;
/// A list or map of this many places keeps them.
const SMALL: usize = 256;
/// How many of the last cancels are searched for one that is not needed any more.
const LAST_CANCELS: usize = 32;
/// The vectors that are allocated in advance, and their size in bytes.
const FIRST_SPARES: usize = 32;
const FIRST_CAPACITY: usize = 1024;

/// Bytes of a paused connection; the first ones may have been taken.
#[derive(Debug)]
struct Held {
    bytes: Vec<u8>,
    taken: usize,
}

/// A worker's requests to its ring.
#[derive(Debug, Default)]
pub(crate) struct RingIo {
    /// Whether there is a ring.
    pub(crate) on: bool,
    /// ConnSlots to receive from.
    pub(super) receives: Vec<ConnId>,
    /// ConnSlots whose receives are cancelled; they may be closed already.
    pub(super) cancels: Vec<ConnId>,
    /// Bytes to send, one entry for each connection.
    pub(super) staged: Vec<(ConnId, Vec<u8>)>,
    spares: Spares<SPARES, SPARE>,
    /// The stored bytes of paused connections, by slot.
    held: HashMap<u32, Held>,
    /// The connection whose buffers were full last, and how many in a row.
    pub(super) full: Option<(ConnId, u32)>,
    /// Whether the kernel has not accepted all requests of the last round.
    pub(super) unsubmitted: bool,
    /// Sockets of connections that are gone: requests may name their descriptors, so no other connection may get these
    /// descriptors yet. There are at most as many as the process has descriptors.
    pub(super) parked: Vec<Socket>,
}

impl RingIo {
    /// Notes that a ring is used from now on. Allocates what a small worker needs for its sends.
    pub(crate) fn begin(&mut self) {
        self.on = true;
        self.receives.reserve(FIRST_SPARES);
        self.cancels.reserve(FIRST_SPARES);
        self.staged.reserve(FIRST_SPARES);
        (0..FIRST_SPARES).for_each(|_| self.spares.keep(Vec::with_capacity(FIRST_CAPACITY)));
    }

    /// A vector for the next send.
    fn spare(&mut self) -> Vec<u8> {
        self.spares.take()
    }

    /// Keeps a vector for a later send.
    pub(super) fn keep(&mut self, bytes: Vec<u8>) {
        self.spares.keep(bytes);
    }

    /// Stages a turn's output for a connection, behind what is staged already. `false` if the caller must write it.
    #[inline]
    pub(crate) fn stage<'a>(
        &mut self,
        conn: ConnId,
        slot: &mut Slot,
        pieces: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> bool {
        let length: usize = pieces.clone().map(<[u8]>::len).sum();
        let mut bytes = match slot.outgoing {
            Outgoing::Nothing if length <= STAGED => self.spare(),
            Outgoing::Staged => return self.add(conn, length, pieces),
            Outgoing::Nothing | Outgoing::InFlight => return false,
        };
        pieces.for_each(|piece| bytes.extend_from_slice(piece));
        slot.outgoing = Outgoing::Staged;
        self.staged.push((conn, bytes));
        true
    }

    fn add<'a>(&mut self, conn: ConnId, length: usize, pieces: impl Iterator<Item = &'a [u8]>) -> bool {
        // Most often the entry is among the last ones.
        let Some((_, bytes)) = self.staged.iter_mut().rev().find(|(to, _)| *to == conn) else { return false };
        if bytes.len() + length > MOST_STAGED {
            return false;
        }
        pieces.for_each(|piece| bytes.extend_from_slice(piece));
        true
    }

    /// Stores bytes of a paused connection; returns how many are stored.
    pub(crate) fn hold(&mut self, conn: ConnId, slot: &mut Slot, bytes: &[u8]) -> usize {
        slot.held = true;
        slot.ready = slot.ready.max(Ready::Bytes);
        let RingIo { held, spares, .. } = self;
        let held = held.entry(conn.slot);
        let held = held.or_insert_with(|| Held { bytes: spares.take(), taken: 0 });
        held.bytes.extend_from_slice(bytes);
        held.bytes.len() - held.taken
    }

    /// Moves stored bytes of a connection to `into`, as many as fit; returns how many.
    pub(crate) fn portion(&mut self, conn: ConnId, slot: &mut Slot, into: &mut [u8]) -> usize {
        let Some(held) = self.held.get_mut(&conn.slot) else { return 0 };
        let rest = &held.bytes[held.taken..];
        let length = rest.len().min(into.len());
        into[..length].copy_from_slice(&rest[..length]);
        held.taken += length;
        slot.held = held.taken < held.bytes.len();
        if !slot.held {
            self.forget_held(conn.slot);
        }
        length
    }

    /// Takes all stored bytes of this slot's connection.
    pub(crate) fn take_held(&mut self, slot: u32) -> Vec<u8> {
        let Some(Held { mut bytes, taken }) = self.held.remove(&slot) else { return Vec::new() };
        shrink(&mut self.held, SMALL);
        bytes.drain(..taken);
        bytes
    }

    pub(super) fn forget_held(&mut self, slot: u32) {
        if let Some(Held { bytes, .. }) = self.held.remove(&slot) {
            shrink(&mut self.held, SMALL);
            self.keep(bytes);
        }
    }

    /// The receive of a connection that is gone has ended: one of the last cancels may be for it.
    pub(super) fn needs_no_cancel(&mut self, conn: ConnId) {
        let last = self.cancels.len().saturating_sub(LAST_CANCELS);
        if let Some(at) = self.cancels[last..].iter().position(|p| *p == conn) {
            self.cancels.swap_remove(last + at);
        }
    }

    /// The number of sends that have not been submitted.
    pub(crate) fn unsent(&self) -> usize {
        self.staged.len()
    }

    /// Removes requests of closed connections, while the kernel accepts none.
    #[cold]
    pub(super) fn forget_gone(&mut self, conns: &mut ConnSlots) {
        self.receives.retain(|conn| conns.get(*conn).is_some());
        let staged = std::mem::take(&mut self.staged);
        let (kept, gone): (Vec<_>, Vec<_>) = staged.into_iter().partition(|(conn, _)| conns.get(*conn).is_some());
        self.staged = kept;
        gone.into_iter().for_each(|(_, bytes)| self.keep(bytes));
    }
}

/// The key of a connection's requests.
pub(super) fn key(conn: ConnId) -> Key {
    Key::new(u64::from(conn.generation) << SLOT_BITS | u64::from(conn.slot))
}

/// The connection behind a key.
#[inline]
pub(crate) fn conn_of(key: Key) -> ConnId {
    let value = key.value();
    ConnId::new((value & ((1 << SLOT_BITS) - 1)) as u32, (value >> SLOT_BITS) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_one_use_of_one_slot() {
        let last = ConnId::new((1 << SLOT_BITS) - 1, (1 << 31) - 1);
        for conn in [ConnId::new(0, 0), ConnId::new(0, 1), ConnId::new(1, 0), ConnId::new(7, 70_000), last] {
            assert_eq!(conn_of(key(conn)), conn);
            assert_ne!(key(conn).value(), EPOLL);
        }
    }
}
