//! What an io_uring does for a worker besides epoll: it reads ahead, and it writes at the round's end.
//!
//! With a ring, an open peer is received from before anybody asks, into buffers of the ring; what a turn writes is
//! staged and handed in with everything else by the one system call that waits. All else stays with epoll, which the
//! ring watches: listeners, the waker, connects, sockets that were full. A peer goes back to epoll, by [`Reader`],
//! where reading ahead does not fit: while it is paused and has sent much, while it leaves, and for a bulk transfer,
//! which is read in larger pieces than a buffer of the ring.
//!
//! Owns the wishes for the next wait, and bytes that came for who was not read (`held`). Invariants: bytes are
//! delivered in order: held ones first, and none is read from a socket while completions wait to be told (the ring
//! itself reads only within its wait). A peer has one send in flight at most. No socket is closed while the kernel has
//! yet to take a request that names it (`owed`). Without a ring nothing here is used but `held`, by a socket that came
//! from another worker.

use std::collections::HashMap;

use weir_base::Peer;
use weir_uring::{Key, Ring, RingError, RingSize};

use crate::slots::{Outgoing, Peers, Ready, Slot};
use crate::socket::Socket;

/// How a worker's ring is made. The buffers are as long as most messages; as many as come at one wait.
pub(crate) const RING_SIZE: RingSize = RingSize { entries: 512, completions: 4096, buffers: 256, buffer_size: 4096 };
/// How a worker makes its ring, on its own thread: [`Ring::new`], or a test's.
pub type MakeRing = fn(RingSize) -> Result<Ring, RingError>;
/// The key under which epoll itself is watched; no peer has it.
pub(crate) const EPOLL: u64 = (1 << Key::BITS) - 1;
/// A key has this many bits for a slot, and the others for its generation.
pub(super) const SLOT_BITS: u32 = 28;
/// A longer output is written at once, from where it is, instead of being copied.
const STAGED: usize = 16 * 1024;
/// More than this is not staged for one peer; it waits as bytes do that a socket refused.
const MOST_STAGED: usize = 256 * 1024;
/// Vectors kept for the next sends, and the capacity beyond which none is.
const SPARES: usize = 1024;
const KEEP: usize = 64 * 1024;
/// So many are made in advance, of so many bytes.
const FIRST_SPARES: usize = 32;
const FIRST_CAPACITY: usize = 1024;

/// Bytes that came for who was not read; the first ones may have been taken.
#[derive(Debug)]
struct Held {
    bytes: Vec<u8>,
    taken: usize,
}

/// A worker's wishes of its ring.
#[derive(Debug, Default)]
pub(crate) struct RingIo {
    /// Whether there is a ring.
    pub(crate) on: bool,
    /// Whom to receive from.
    pub(super) receives: Vec<Peer>,
    /// Whom not to receive from any more; they may be gone already.
    pub(super) cancels: Vec<Peer>,
    /// What to send, one entry a peer.
    pub(super) staged: Vec<(Peer, Vec<u8>)>,
    spares: Vec<Vec<u8>>,
    /// By slot: bytes that came while nobody read them.
    held: HashMap<u32, Held>,
    /// Whose buffers came full last, and how many of them.
    pub(super) full: Option<(Peer, u32)>,
    /// Whether the kernel has yet to take requests of the last round.
    pub(super) owed: bool,
    /// Sockets of peers that are gone: requests may name their numbers, so nobody else may get these yet. No more than
    /// the process has descriptors.
    pub(super) parked: Vec<Socket>,
}

impl RingIo {
    /// There is a ring from now on. What a small worker needs for its sends is there before the first one.
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

    /// Keeps a vector for the next sends.
    pub(super) fn keep(&mut self, mut bytes: Vec<u8>) {
        if self.spares.len() < SPARES && bytes.capacity() <= KEEP {
            bytes.clear();
            self.spares.push(bytes);
        }
    }

    /// Stages what a turn writes to a peer, behind what it has staged already. `false` if it is to be written
    /// otherwise.
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
        // Most often that of the last turns.
        let Some((_, bytes)) = self.staged.iter_mut().rev().find(|(to, _)| *to == peer) else { return false };
        if bytes.len() + length > MOST_STAGED {
            return false;
        }
        pieces.for_each(|piece| bytes.extend_from_slice(piece));
        true
    }

    /// Keeps bytes of a peer that is not read; returns how many it has now.
    pub(crate) fn hold(&mut self, peer: Peer, slot: &mut Slot, bytes: &[u8]) -> usize {
        slot.held = true;
        slot.ready = slot.ready.max(Ready::Bytes);
        let RingIo { held, spares, .. } = self;
        let held = held.entry(peer.slot);
        let held = held.or_insert_with(|| Held { bytes: spares.pop().unwrap_or_default(), taken: 0 });
        held.bytes.extend_from_slice(bytes);
        held.bytes.len() - held.taken
    }

    /// Moves what is held for a peer to the front of `into`, as much as fits; returns how much that is.
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

    /// Takes all that is held for the peer of this slot.
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

    /// How many sends have not been handed in.
    pub(crate) fn unsent(&self) -> usize {
        self.staged.len()
    }

    /// Forgets what concerns peers that are gone, while nothing can be handed in for anybody.
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
