//! The work of an io_uring besides epoll: it reads ahead, and it writes at the end of a round.
//!
//! With a ring, an open peer is received from before it is read, into buffers of the ring; a turn's output is staged
//! and submitted with everything else by the one system call that waits. All else stays with epoll, which the ring
//! watches: listeners, the waker, connects, full sockets. A peer returns to epoll, by [`Reader`], where reading ahead
//! does not fit: while it is paused and has sent much, while it detaches, and for a bulk transfer, which is read in
//! larger pieces than a buffer of the ring. A send that the socket takes whole has no completion unless something waits
//! for its end, so it does not end the wait.
//!
//! Owns the requests for the next wait, and bytes of paused peers (`held`). Invariants: bytes are delivered in order:
//! held ones first, and no socket is read while completions wait to be handled (the ring itself reads only within its
//! wait). A peer has at most one send in flight. No socket is closed while the kernel has not accepted a request that
//! names it (`unsubmitted`). Without a ring only `held` is used, for sockets from other workers.

use std::collections::HashMap;

use weir_base::Peer;
use weir_uring::{Key, Ring, RingError, RingSize};

use crate::slots::{Outgoing, Peers, Ready, Slot};
use crate::socket::Socket;

/// The size of a worker's ring. A buffer is as long as most messages; there are as many as arrive in one wait.
pub(crate) const RING_SIZE: RingSize = RingSize { entries: 512, completions: 4096, buffers: 256, buffer_size: 4096 };
/// How a worker makes its ring, on its own thread: [`Ring::new`], or a test's.
pub type MakeRing = fn(RingSize) -> Result<Ring, RingError>;
/// The key of epoll's own descriptor; no peer has it.
pub(crate) const EPOLL: u64 = (1 << Key::BITS) - 1;
/// The bits of a key for a slot; the others are for its generation.
pub(super) const SLOT_BITS: u32 = 28;
/// A longer output is written at once, without a copy.
const STAGED: usize = 16 * 1024;
/// The limit of a peer's staged bytes; beyond it they become its backlog.
const MOST_STAGED: usize = 256 * 1024;
/// Spare vectors for the next sends, and the largest capacity of one.
const SPARES: usize = 1024;
const KEEP: usize = 64 * 1024;
/// How many of the last cancels are searched for one that is not needed any more.
const LAST_CANCELS: usize = 32;
/// The vectors that are allocated in advance, and their size in bytes.
const FIRST_SPARES: usize = 32;
const FIRST_CAPACITY: usize = 1024;

/// Bytes of a paused peer; the first ones may have been taken.
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
    /// Peers to receive from.
    pub(super) receives: Vec<Peer>,
    /// Peers whose receives are cancelled; they may be closed already.
    pub(super) cancels: Vec<Peer>,
    /// Bytes to send, one entry for each peer.
    pub(super) staged: Vec<(Peer, Vec<u8>)>,
    spares: Vec<Vec<u8>>,
    /// The stored bytes of paused peers, by slot.
    held: HashMap<u32, Held>,
    /// The peer whose buffers were full last, and how many in a row.
    pub(super) full: Option<(Peer, u32)>,
    /// Whether the kernel has not accepted all requests of the last round.
    pub(super) unsubmitted: bool,
    /// Sockets of peers that are gone: requests may name their descriptors, so no other peer may get these descriptors
    /// yet. There are at most as many as the process has descriptors.
    pub(super) parked: Vec<Socket>,
}

impl RingIo {
    /// Notes that a ring is used from now on. Allocates what a small worker needs for its sends.
    pub(crate) fn begin(&mut self) {
        self.on = true;
        self.receives.reserve(FIRST_SPARES);
        self.cancels.reserve(FIRST_SPARES);
        self.staged.reserve(FIRST_SPARES);
        self.spares.extend((0..FIRST_SPARES).map(|_| Vec::with_capacity(FIRST_CAPACITY)));
    }

    /// A vector for the next send.
    fn spare(&mut self) -> Vec<u8> {
        self.spares.pop().unwrap_or_default()
    }

    /// Keeps a vector for a later send.
    pub(super) fn keep(&mut self, mut bytes: Vec<u8>) {
        if self.spares.len() < SPARES && bytes.capacity() <= KEEP {
            bytes.clear();
            self.spares.push(bytes);
        }
    }

    /// Stages a turn's output for a peer, behind what is staged already. `false` if the caller must write it.
    #[inline]
    pub(crate) fn stage<'a>(
        &mut self,
        peer: Peer,
        slot: &mut Slot,
        pieces: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> bool {
        let length: usize = pieces.clone().map(<[u8]>::len).sum();
        let mut bytes = match slot.outgoing {
            Outgoing::Nothing if length <= STAGED => self.spare(),
            Outgoing::Staged => return self.add(peer, length, pieces),
            Outgoing::Nothing | Outgoing::InFlight => return false,
        };
        pieces.for_each(|piece| bytes.extend_from_slice(piece));
        slot.outgoing = Outgoing::Staged;
        self.staged.push((peer, bytes));
        true
    }

    fn add<'a>(&mut self, peer: Peer, length: usize, pieces: impl Iterator<Item = &'a [u8]>) -> bool {
        // Most often the entry is among the last ones.
        let Some((_, bytes)) = self.staged.iter_mut().rev().find(|(to, _)| *to == peer) else { return false };
        if bytes.len() + length > MOST_STAGED {
            return false;
        }
        pieces.for_each(|piece| bytes.extend_from_slice(piece));
        true
    }

    /// Stores bytes of a paused peer; returns how many are stored.
    pub(crate) fn hold(&mut self, peer: Peer, slot: &mut Slot, bytes: &[u8]) -> usize {
        slot.held = true;
        slot.ready = slot.ready.max(Ready::Bytes);
        let RingIo { held, spares, .. } = self;
        let held = held.entry(peer.slot);
        let held = held.or_insert_with(|| Held { bytes: spares.pop().unwrap_or_default(), taken: 0 });
        held.bytes.extend_from_slice(bytes);
        held.bytes.len() - held.taken
    }

    /// Moves stored bytes of a peer to `into`, as many as fit; returns how many.
    pub(crate) fn portion(&mut self, peer: Peer, slot: &mut Slot, into: &mut [u8]) -> usize {
        let Some(held) = self.held.get_mut(&peer.slot) else { return 0 };
        let rest = &held.bytes[held.taken..];
        let length = rest.len().min(into.len());
        into[..length].copy_from_slice(&rest[..length]);
        held.taken += length;
        slot.held = held.taken < held.bytes.len();
        if !slot.held {
            self.forget_held(peer.slot);
        }
        length
    }

    /// Takes all stored bytes of this slot's peer.
    pub(crate) fn take_held(&mut self, slot: u32) -> Vec<u8> {
        let Some(Held { mut bytes, taken }) = self.held.remove(&slot) else { return Vec::new() };
        bytes.drain(..taken);
        bytes
    }

    pub(super) fn forget_held(&mut self, slot: u32) {
        if let Some(Held { bytes, .. }) = self.held.remove(&slot) {
            self.keep(bytes);
        }
    }

    /// The receive of a peer that is gone has ended: one of the last cancels may be for it.
    pub(super) fn needs_no_cancel(&mut self, peer: Peer) {
        let last = self.cancels.len().saturating_sub(LAST_CANCELS);
        if let Some(at) = self.cancels[last..].iter().position(|p| *p == peer) {
            self.cancels.swap_remove(last + at);
        }
    }

    /// The number of sends that have not been submitted.
    pub(crate) fn unsent(&self) -> usize {
        self.staged.len()
    }

    /// Removes requests of closed peers, while the kernel accepts none.
    #[cold]
    pub(super) fn forget_gone(&mut self, peers: &mut Peers) {
        self.receives.retain(|peer| peers.get(*peer).is_some());
        let staged = std::mem::take(&mut self.staged);
        let (kept, gone): (Vec<_>, Vec<_>) = staged.into_iter().partition(|(peer, _)| peers.get(*peer).is_some());
        self.staged = kept;
        gone.into_iter().for_each(|(_, bytes)| self.keep(bytes));
    }
}

/// The key of a peer's requests.
pub(super) fn key(peer: Peer) -> Key {
    Key::new(u64::from(peer.generation) << SLOT_BITS | u64::from(peer.slot))
}

/// The peer behind a key.
#[inline]
pub(crate) fn peer_of(key: Key) -> Peer {
    let value = key.value();
    Peer::new((value & ((1 << SLOT_BITS) - 1)) as u32, (value >> SLOT_BITS) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_one_use_of_one_slot() {
        let last = Peer::new((1 << SLOT_BITS) - 1, (1 << 31) - 1);
        for peer in [Peer::new(0, 0), Peer::new(0, 1), Peer::new(1, 0), Peer::new(7, 70_000), last] {
            assert_eq!(peer_of(key(peer)), peer);
            assert_ne!(key(peer).value(), EPOLL);
        }
    }
}
