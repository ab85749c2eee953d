//! The table of a worker's peers: the runtime's state of each socket, in a few bytes.
//!
//! Owns the handles: a slot's generation grows with each use, so that a late event or call for a closed peer finds no
//! slot. Slots are in chunks that never move and are reused last-in first-out; an idle peer has no buffer. Knows
//! nothing of the content of connections.

use mio::Token;

use weir_base::Peer;

use crate::socket::Socket;

/// Slots of a chunk; a power of two.
const CHUNK: usize = 256;
/// Generations stay below this, so that a token's highest bit marks tokens that are not peers'.
const GENERATIONS: u32 = 1 << 31;
/// The index that stands for none.
pub(crate) const NONE: u32 = u32::MAX;

const _: () = assert!(usize::BITS == 64, "a token holds a slot and its generation");
// In debug builds mio stores more with each socket, to check its use.
const _: () = assert!(cfg!(debug_assertions) || size_of::<Slot>() <= 32, "a slot is what every idle client costs");

/// The state of a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// Free for another use.
    Vacant,
    /// A name is looked up, or a connect is under way.
    Connecting,
    /// Connected.
    Open,
    /// The peer detaches as soon as its backlog is empty.
    Detaching,
    /// Detached from the loop, ready to move to another worker.
    Detached,
    /// Closed; the peer's output is still sent, and its input dropped.
    Lingering,
}

/// The state of a socket's input, from the last events and reads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Ready {
    /// Nothing to read, until an event says otherwise.
    Nothing,
    /// There may be bytes.
    Bytes,
    /// The other end has shut down: the socket is read to the end.
    Ending,
    /// A write failed: the socket is read as long as there are bytes, then the peer is closed.
    Broken,
}

/// What epoll watches a socket for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Watch {
    /// The socket is not registered.
    Nothing,
    /// Readable.
    Reads,
    /// Writable.
    Room,
    /// Readable and writable.
    Both,
}

impl Watch {
    /// What to watch for: bytes, room, both, or neither.
    pub(crate) fn of(reads: bool, room: bool) -> Watch {
        match (reads, room) {
            (false, false) => Watch::Nothing,
            (true, false) => Watch::Reads,
            (false, true) => Watch::Room,
            (true, true) => Watch::Both,
        }
    }

    /// Whether epoll watches for room.
    pub(crate) fn has_room(self) -> bool {
        matches!(self, Watch::Room | Watch::Both)
    }
}

/// How a peer's bytes are received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reader {
    /// epoll reports bytes, which are read from the socket.
    Epoll,
    /// The worker's ring receives bytes ahead.
    Ring,
    /// The ring's receive is being cancelled.
    Leaving,
    /// The worker reads the socket at intervals; nothing reports its bytes (see `pace`).
    Paced,
}

/// Output of a peer in the worker's ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outgoing {
    /// No output.
    Nothing,
    /// Bytes that are submitted at the end of the round.
    Staged,
    /// Bytes that were submitted, without a completion yet.
    InFlight,
}

/// One peer.
#[derive(Debug)]
pub(crate) struct Slot {
    /// The socket; none during the look-up of a name.
    pub(crate) socket: Option<Socket>,
    /// Index of the peer's backlog, or [`NONE`]. In a vacant slot: the next vacant one.
    pub(crate) backlog: u32,
    /// Index into the turn's list of peers with output, or [`NONE`].
    pub(crate) touched: u32,
    /// Index of the peer's TLS state, or [`NONE`].
    pub(crate) tls: u32,
    generation: u32,
    pub(crate) stage: Stage,
    pub(crate) ready: Ready,
    pub(crate) watch: Watch,
    /// Whether the engine has paused reading.
    pub(crate) paused: bool,
    /// Whether the peer is in the run queue.
    pub(crate) queued: bool,
    /// Whether bytes are stored that were received while the peer was paused.
    pub(crate) held: bool,
    pub(crate) reader: Reader,
    pub(crate) outgoing: Outgoing,
}

impl Slot {
    fn vacant(next: u32) -> Self {
        Slot {
            socket: None,
            backlog: next,
            touched: NONE,
            tls: NONE,
            generation: 0,
            stage: Stage::Vacant,
            ready: Ready::Nothing,
            watch: Watch::Nothing,
            paused: false,
            queued: false,
            held: false,
            reader: Reader::Epoll,
            outgoing: Outgoing::Nothing,
        }
    }

    /// Whether the peer has output of this turn.
    #[inline]
    pub(crate) fn has_output(&self) -> bool {
        self.touched != NONE
    }

    /// Whether the peer has output that is not sent yet: then it can't be closed or detached.
    #[inline]
    pub(crate) fn owes(&self) -> bool {
        self.backlog != NONE || self.outgoing != Outgoing::Nothing
    }

    /// Whether there is more to read after a portion of stored bytes: further ones, an end, or bytes that only this
    /// worker reads.
    pub(crate) fn has_more_than_held(&self) -> bool {
        self.held || self.ready > Ready::Bytes || self.reader != Reader::Ring
    }

    /// Whether received bytes go to the engine now.
    #[inline]
    pub(crate) fn reads(&self) -> bool {
        self.stage == Stage::Open && !self.paused
    }
}

/// The state of a removed peer.
#[derive(Debug)]
pub(crate) struct Removed {
    pub(crate) socket: Option<Socket>,
    /// Index of the peer's backlog, or [`NONE`].
    pub(crate) backlog: u32,
    /// Index of the peer's TLS state, or [`NONE`].
    pub(crate) tls: u32,
    /// Whether bytes of the peer are stored.
    pub(crate) held: bool,
    pub(crate) reader: Reader,
}

/// All peers of a worker.
#[derive(Debug)]
pub(crate) struct Peers {
    chunks: Vec<Box<[Slot; CHUNK]>>,
    free: u32,
}

impl Peers {
    pub(crate) fn new() -> Self {
        Peers { chunks: Vec::new(), free: NONE }
    }

    /// Allocates a slot.
    pub(crate) fn insert(&mut self, socket: Option<Socket>, stage: Stage) -> Peer {
        if self.free == NONE {
            self.grow();
        }
        let index = self.free;
        let slot = self.cell(index).expect("a free index lies in a chunk");
        let generation = slot.generation;
        let next = slot.backlog;
        *slot = Slot { socket, generation, stage, ..Slot::vacant(NONE) };
        self.free = next;
        Peer::new(index, generation)
    }

    /// The slot of `peer` in any stage, unless it is vacant.
    #[inline]
    pub(crate) fn get(&mut self, peer: Peer) -> Option<&mut Slot> {
        let slot = self.cell(peer.slot)?;
        (slot.generation == peer.generation && slot.stage != Stage::Vacant).then_some(slot)
    }

    /// The slot of `peer` if the engine may still name it.
    #[inline]
    pub(crate) fn live(&mut self, peer: Peer) -> Option<&mut Slot> {
        self.get(peer).filter(|slot| slot.stage != Stage::Lingering)
    }

    /// Whether the engine has closed `peer`, and its socket is open.
    pub(crate) fn is_lingering(&self, peer: Peer) -> bool {
        self.peek(peer).is_some_and(|slot| slot.stage == Stage::Lingering)
    }

    /// The socket of `peer`.
    pub(crate) fn socket(&self, peer: Peer) -> Option<&Socket> {
        self.peek(peer)?.socket.as_ref()
    }

    fn peek(&self, peer: Peer) -> Option<&Slot> {
        let index = peer.slot as usize;
        let slot = self.chunks.get(index / CHUNK).map(|chunk| &chunk[index % CHUNK]);
        slot.filter(|slot| slot.generation == peer.generation && slot.stage != Stage::Vacant)
    }

    /// Frees a slot; returns its state.
    pub(crate) fn remove(&mut self, peer: Peer) -> Option<Removed> {
        let free = self.free;
        let slot = self.get(peer)?;
        let socket = slot.socket.take();
        let (backlog, tls, held, reader) = (slot.backlog, slot.tls, slot.held, slot.reader);
        slot.generation = (slot.generation + 1) % GENERATIONS;
        slot.stage = Stage::Vacant;
        slot.backlog = free;
        self.free = peer.slot;
        Some(Removed { socket, backlog, tls, held, reader })
    }

    #[inline]
    fn cell(&mut self, index: u32) -> Option<&mut Slot> {
        let index = index as usize;
        Some(&mut self.chunks.get_mut(index / CHUNK)?[index % CHUNK])
    }

    fn grow(&mut self) {
        let first = (self.chunks.len() * CHUNK) as u32;
        let last = first + CHUNK as u32 - 1;
        // Each vacant slot has the index of the next; the last one ends the list.
        let slots: Vec<Slot> = (first..=last).map(|i| Slot::vacant(if i == last { NONE } else { i + 1 })).collect();
        self.chunks.push(slots.into_boxed_slice().try_into().expect("a chunk's length"));
        self.free = first;
    }
}

/// The token of a worker's waker.
pub(crate) const WAKER: Token = Token(usize::MAX);

/// The token under which `peer` is registered.
#[inline]
pub(crate) fn token(peer: Peer) -> Token {
    Token(((peer.generation as usize) << 32) | peer.slot as usize)
}

/// The peer behind a token; tokens with the highest bit set name none.
#[inline]
pub(crate) fn peer_of(token: Token) -> Option<Peer> {
    let generation = (token.0 >> 32) as u32;
    (generation < GENERATIONS).then_some(Peer::new(token.0 as u32, generation))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_of_an_earlier_use_finds_nothing() {
        let mut peers = Peers::new();
        let first = peers.insert(None, Stage::Open);
        assert!(peers.get(first).is_some());
        peers.remove(first).unwrap();
        assert!(peers.get(first).is_none());
        let second = peers.insert(None, Stage::Open);
        assert_eq!(second.slot, first.slot);
        assert_ne!(second, first);
        assert!(peers.get(first).is_none() && peers.remove(first).is_none());
        assert!(peers.get(second).is_some());
    }

    #[test]
    fn slots_are_dense_and_survive_growth() {
        let mut peers = Peers::new();
        let handles: Vec<Peer> = (0..3 * CHUNK).map(|_| peers.insert(None, Stage::Open)).collect();
        assert!(handles.iter().enumerate().all(|(i, p)| p.slot as usize == i));
        assert!(handles.iter().all(|p| peers.get(*p).is_some()));
        assert!(peers.get(Peer::NONE).is_none());
    }

    #[test]
    fn a_closed_peer_is_out_of_the_engines_reach() {
        let mut peers = Peers::new();
        let peer = peers.insert(None, Stage::Open);
        peers.get(peer).unwrap().stage = Stage::Lingering;
        assert!(peers.live(peer).is_none());
        assert!(peers.get(peer).is_some());
    }

    #[test]
    fn tokens_name_their_peer_or_none() {
        let peer = Peer::new(77, GENERATIONS - 1);
        assert_eq!(peer_of(token(peer)), Some(peer));
        assert_eq!(peer_of(Token(usize::MAX)), None);
    }
}
