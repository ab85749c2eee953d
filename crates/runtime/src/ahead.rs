//! What an io_uring does for a worker besides epoll: it reads ahead, and it writes at the round's end.
//!
//! With a ring, an open peer is received from before anybody asks, into buffers of the ring; what a turn writes is staged and
//! handed in with everything else by the one system call that waits. All else stays with epoll, which the ring watches:
//! listeners, the bell, connects, sockets that were full. A peer goes back to epoll, by [`Reader`], where reading ahead
//! does not fit: while it is paused and has sent much, while it leaves, and for a bulk transfer, which is read in larger
//! pieces than a buffer of the ring.
//!
//! Owns the wishes for the next wait, and bytes that came for who was not read (`held`). Invariants: bytes are delivered
//! in order: held ones first, and none is read from a socket while completions wait to be told (the ring itself reads
//! only within its wait). A peer has one send in flight at most. No socket is closed while the kernel has yet to take a
//! request that names it (`owed`). Without a ring nothing here is used but `held`, by a socket that travelled.

use std::collections::HashMap;
use std::io::{self, ErrorKind};

use weir_base::Peer;
use weir_uring::{Ended, Key, Ring, RingError, RingSize};

use crate::port::Port;
use crate::slots::{NONE, Outgoing, Peers, Reader, Ready, Slot, Stage, Watch};
use crate::socket::Socket;

/// How a worker's ring is made. The buffers are as long as most messages; as many as come at one wait.
pub(crate) const SHAPE: RingSize = RingSize { entries: 512, completions: 4096, buffers: 256, buffer_size: 4096 };
/// How a worker comes by its ring, on its own thread: [`Ring::new`], or a test's.
pub type MakeRing = fn(RingSize) -> Result<Ring, RingError>;
/// The key under which epoll itself is watched; no peer has it.
pub(crate) const EPOLL: u64 = (1 << Key::BITS) - 1;
/// A key has this many bits for a slot, and the others for its generation.
const SLOT_BITS: u32 = 28;
/// Bytes that a peer may send while it is not read, before the ring leaves it alone. What comes with one wait may add to
/// it, for all peers together as much as the buffers hold.
const HELD: usize = 4096;
/// So many buffers that come full from one peer, one after the other, are a bulk transfer.
const BULK: u32 = 4;
/// Sends handed in at once, by which the completions of a round stay within what the kernel keeps room for.
const MOST_SENDS: usize = 2048;
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
pub(crate) struct Ahead {
    /// Whether there is a ring.
    pub(crate) on: bool,
    /// Whom to receive from.
    receives: Vec<Peer>,
    /// Whom not to receive from any more; they may be gone already.
    cancels: Vec<Peer>,
    /// What to send, one entry a peer.
    staged: Vec<(Peer, Vec<u8>)>,
    spares: Vec<Vec<u8>>,
    /// By slot: bytes that came while nobody read them.
    held: HashMap<u32, Held>,
    /// Whose buffers came full last, and how many of them.
    full: Option<(Peer, u32)>,
    /// Whether the kernel has yet to take requests of the last round.
    owed: bool,
    /// Sockets of peers that are gone: requests may name their numbers, so nobody else may get these yet. No more than the
    /// process has descriptors.
    parked: Vec<Socket>,
}

impl Ahead {
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
    fn keep(&mut self, mut bytes: Vec<u8>) {
        if self.spares.len() < SPARES && bytes.capacity() <= KEEP {
            bytes.clear();
            self.spares.push(bytes);
        }
    }

    /// Stages what a turn writes to a peer, behind what it has staged already. `false` if it is to be written otherwise.
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
        let Ahead { held, spares, .. } = self;
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

    fn forget_held(&mut self, slot: u32) {
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
    fn forget_gone(&mut self, peers: &mut Peers) {
        self.receives.retain(|peer| peers.get(*peer).is_some());
        let staged = std::mem::take(&mut self.staged);
        let (kept, gone): (Vec<_>, Vec<_>) = staged.into_iter().partition(|(peer, _)| peers.get(*peer).is_some());
        self.staged = kept;
        gone.into_iter().for_each(|(_, bytes)| self.keep(bytes));
    }
}

/// How many more requests a ring takes, asked for only when those it promised are used up.
struct Room<'r> {
    ring: &'r mut Ring,
    left: u32,
}

impl Room<'_> {
    /// The ring, if it takes one more.
    #[inline]
    fn ring(&mut self) -> io::Result<Option<&mut Ring>> {
        if self.left == 0 {
            self.left = self.ring.room()?;
        }
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        Ok(Some(self.ring))
    }
}

/// The key of a peer's requests.
fn key(peer: Peer) -> Key {
    Key::new(u64::from(peer.generation) << SLOT_BITS | u64::from(peer.slot))
}

/// The peer behind a key.
#[inline]
pub(crate) fn peer_of(key: Key) -> Peer {
    let value = key.value();
    Peer::new((value & ((1 << SLOT_BITS) - 1)) as u32, (value >> SLOT_BITS) as u32)
}

impl Port {
    /// Has an open peer read: ahead where that can be, otherwise when epoll tells of bytes.
    pub(crate) fn begin_reading(&mut self, peer: Peer) {
        let on = self.ahead.on && peer.slot >> SLOT_BITS == 0;
        let Some(slot) = self.peers.get(peer) else { return };
        if on && slot.reader == Reader::Epoll && slot.stage == Stage::Open && !slot.held {
            slot.reader = Reader::Ring;
            self.ahead.receives.push(peer);
        }
        self.watch_by_epoll(peer);
    }

    /// Has epoll tell of a peer's bytes, unless the ring does, and of room where it waits for that.
    fn watch_by_epoll(&mut self, peer: Peer) {
        let blocked = self.peers.get(peer).is_some_and(|slot| slot.backlog != NONE);
        self.watch(peer, if blocked { Watch::Both } else { Watch::Reads });
    }

    /// Has a peer not read ahead any more. It is epoll's when its receive has ended.
    pub(crate) fn leave_ring(&mut self, peer: Peer) {
        let Some(slot) = self.peers.get(peer) else { return };
        if slot.reader == Reader::Ring {
            slot.reader = Reader::Leaving;
            self.ahead.cancels.push(peer);
        }
    }

    /// A peer is forgotten: its receive is cancelled, its bytes are dropped.
    pub(crate) fn forget_ahead(&mut self, peer: Peer, reader: Reader, held: bool) {
        if reader == Reader::Ring {
            // What could not be handed in for long needs no cancel, however many come and go meanwhile.
            let at = self.ahead.receives.iter().position(|p| self.ahead.owed && *p == peer);
            match at {
                Some(at) => drop(self.ahead.receives.swap_remove(at)),
                None => self.ahead.cancels.push(peer),
            }
        }
        if held {
            self.ahead.forget_held(peer.slot);
        }
    }

    /// Closes the socket of a peer that is forgotten, or parks it as long as requests of the ring may name it: for its
    /// peer it is closed either way. Returns whether it is closed.
    pub(crate) fn close_socket(&mut self, mut socket: Socket) -> bool {
        if !self.ahead.owed {
            return true;
        }
        // It may never have been registered, or be broken: it is only its number that is kept.
        let _ = socket.deregister(self.poll.registry());
        let _ = socket.shutdown();
        self.ahead.parked.push(socket);
        false
    }

    /// After each wait of the ring: whether the kernel has yet to take requests. As soon as it has taken all, what is
    /// parked is closed.
    #[inline]
    pub(crate) fn note_owed(&mut self, owed: bool) {
        self.ahead.owed = owed;
        if !owed && !self.ahead.parked.is_empty() {
            self.ahead.parked = Vec::new();
            self.room();
        }
    }

    /// Tells the ring of the wishes, of many sends only so many at once, and only as many as it takes. They are looked up
    /// now, so none is for a socket that was closed meanwhile.
    pub(crate) fn hand_in(&mut self, ring: &mut Ring) -> io::Result<()> {
        let mut room = Room { ring, left: 0 };
        let all =
            self.hand_in_receives(&mut room)? && self.hand_in_cancels(&mut room)? && self.hand_in_sends(&mut room)?;
        if !all {
            self.ahead.forget_gone(&mut self.peers);
        }
        Ok(())
    }

    /// Returns whether the ring had room for all, as do its siblings.
    fn hand_in_receives(&mut self, room: &mut Room<'_>) -> io::Result<bool> {
        let Port { ahead, peers, .. } = self;
        let mut handed = 0;
        for peer in &ahead.receives {
            if let Some(slot) = peers.get(*peer)
                && let (Some(socket), Reader::Ring | Reader::Leaving) = (&slot.socket, slot.reader)
            {
                let Some(ring) = room.ring()? else { break };
                ring.receive(socket.fd(), key(*peer))?;
            }
            handed += 1;
        }
        ahead.receives.drain(..handed);
        Ok(ahead.receives.is_empty())
    }

    fn hand_in_cancels(&mut self, room: &mut Room<'_>) -> io::Result<bool> {
        let mut handed = 0;
        for peer in &self.ahead.cancels {
            let Some(ring) = room.ring()? else { break };
            ring.cancel_receive(key(*peer))?;
            handed += 1;
        }
        self.ahead.cancels.drain(..handed);
        Ok(self.ahead.cancels.is_empty())
    }

    fn hand_in_sends(&mut self, room: &mut Room<'_>) -> io::Result<bool> {
        let Port { ahead, peers, .. } = self;
        let mut staged = std::mem::take(&mut ahead.staged);
        let (most, mut handed) = (staged.len().min(MOST_SENDS), 0);
        for (peer, bytes) in &mut staged[..most] {
            match peers.get(*peer) {
                Some(slot) if slot.ready != Ready::Broken && slot.socket.is_some() => {
                    let Some(ring) = room.ring()? else { break };
                    slot.outgoing = Outgoing::InFlight;
                    let socket = slot.socket.as_ref().expect("just seen");
                    ring.send(socket.fd(), key(*peer), std::mem::take(bytes))?;
                }
                Some(slot) => {
                    slot.outgoing = Outgoing::Nothing;
                    ahead.keep(std::mem::take(bytes));
                }
                None => ahead.keep(std::mem::take(bytes)),
            }
            handed += 1;
        }
        staged.drain(..handed);
        ahead.staged = staged;
        Ok(handed == most)
    }

    /// A buffer came from an open peer. Where many come full, one after the other, larger pieces cost less.
    #[inline]
    pub(crate) fn note_length(&mut self, peer: Peer, length: usize) {
        if length < SHAPE.buffer_size as usize {
            self.ahead.full = None;
            return;
        }
        let before = self.ahead.full.filter(|(last, _)| *last == peer).map_or(0, |(_, count)| count);
        self.ahead.full = Some((peer, before + 1));
        if before + 1 == BULK {
            self.read_in_bulk(peer);
        }
    }

    fn read_in_bulk(&mut self, peer: Peer) {
        let Some(slot) = self.peers.get(peer) else { return };
        if slot.reader == Reader::Ring && slot.stage == Stage::Open {
            slot.ready = slot.ready.max(Ready::Bytes);
            self.leave_ring(peer);
            self.enqueue(peer);
        }
    }

    /// A read has emptied a socket. Unless that was much, it is worth reading ahead again.
    #[inline]
    pub(crate) fn emptied(&mut self, peer: Peer, length: usize) {
        if !self.ahead.on || length >= SHAPE.buffer_size as usize {
            return;
        }
        let Some(slot) = self.peers.get(peer) else { return };
        if slot.reader == Reader::Epoll && slot.reads() && slot.ready == Ready::Nothing {
            self.begin_reading(peer);
        }
    }

    /// A receive has told its last bytes without having been asked to end.
    pub(crate) fn receive_stopped(&mut self, peer: Peer) {
        let Some(slot) = self.peers.get(peer) else { return };
        match slot.reader {
            Reader::Ring => self.ahead.receives.push(peer),
            Reader::Leaving => self.left_ring(peer),
            Reader::Epoll => {}
        }
    }

    /// A receive has ended.
    pub(crate) fn receive_ended(&mut self, peer: Peer, ended: &Ended) {
        let Some(slot) = self.peers.get(peer) else { return };
        match ended {
            Ended::NoBuffers | Ended::Cancelled => return self.receive_stopped(peer),
            Ended::Eof => slot.ready = slot.ready.max(Ready::Ending),
            // What arrived before is read first, as after a write that failed.
            Ended::Error(_) => slot.ready = Ready::Broken,
        }
        slot.reader = Reader::Epoll;
        match slot.stage {
            Stage::Lingering if slot.ready == Ready::Broken => self.drop_peer(peer),
            Stage::Open if !slot.paused => self.enqueue(peer),
            Stage::Open | Stage::Detaching if slot.ready == Ready::Broken => self.break_off(peer),
            Stage::Open => {
                self.enqueue(peer);
                // A reset may follow.
                self.watch_by_epoll(peer);
            }
            Stage::Detaching => self.take_out(peer),
            _ => {}
        }
    }

    /// The ring has nothing more to do with a peer: it leaves, or is epoll's, or has become worth reading ahead again.
    fn left_ring(&mut self, peer: Peer) {
        let Some(slot) = self.peers.get(peer) else { return };
        slot.reader = Reader::Epoll;
        match slot.stage {
            Stage::Detaching => self.take_out(peer),
            Stage::Open if !slot.paused && slot.ready == Ready::Nothing => self.begin_reading(peer),
            Stage::Open => self.watch_by_epoll(peer),
            _ => {}
        }
    }

    /// A send has ended: all was taken, or the rest becomes a backlog before what already is one.
    pub(crate) fn sent(&mut self, peer: Peer, bytes: Vec<u8>, taken: io::Result<usize>) {
        let Some(slot) = self.peers.get(peer) else { return self.ahead.keep(bytes) };
        slot.outgoing = Outgoing::Nothing;
        let taken = match taken {
            Ok(taken) => taken,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => 0,
            Err(_) => {
                self.ahead.keep(bytes);
                return self.break_off(peer);
            }
        };
        if taken == bytes.len() {
            self.ahead.keep(bytes);
            return self.sent_all(peer);
        }
        if slot.ready == Ready::Broken {
            return self.ahead.keep(bytes);
        }
        let first = slot.backlog == NONE;
        let kept = self.backlogs.keep_first(slot, &bytes[taken..]);
        self.ahead.keep(bytes);
        self.kept(peer, first, kept);
    }

    #[inline]
    fn sent_all(&mut self, peer: Peer) {
        let Some(slot) = self.peers.get(peer) else { return };
        match slot.stage {
            _ if slot.backlog != NONE => self.drain(peer),
            Stage::Lingering => self.drop_peer(peer),
            Stage::Detaching => self.take_out(peer),
            _ => {}
        }
    }

    /// Bytes came for a peer that is not read now.
    pub(crate) fn hold(&mut self, peer: Peer, bytes: &[u8]) {
        let Some(slot) = self.peers.get(peer) else { return };
        if slot.stage == Stage::Lingering {
            return;
        }
        if self.ahead.hold(peer, slot, bytes) > HELD {
            self.leave_ring(peer);
        }
    }
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
