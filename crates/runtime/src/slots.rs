//! The table of a worker's connections: the runtime's state of each socket, in a few bytes.
//!
//! Owns the handles: a slot's generation grows with each use, so that a late event or call for a closed connection
//! finds no slot. Slots are in chunks that never move and are reused last-in first-out; an idle connection has no
//! buffer. Knows nothing of the content of connections.

use mio::Token;

use weir_base::ConnId;

use crate::socket::Socket;

/// Slots of a chunk; a power of two.
const CHUNK: usize = 256;
/// Generations stay below this, so that a token's highest bit marks tokens that are not connections'.
const GENERATIONS: u32 = 1 << 31;
/// The index that stands for none.
pub(crate) const NONE: u32 = u32::MAX;

const _: () = assert!(usize::BITS == 64, "a token holds a slot and its generation");
// In debug builds mio stores more with each socket, to check its use.
const _: () = assert!(cfg!(debug_assertions) || size_of::<Slot>() <= 32, "a slot is what every idle client costs");

/// The state of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// Free for another use.
    Vacant,
    /// A name is looked up, or a connect is under way.
    Connecting,
    /// Connected.
    Open,
    /// The connection detaches as soon as its backlog is empty.
    Detaching,
    /// Detached from the loop, ready to move to another worker.
    Detached,
    /// Closed; the connection's output is still sent, and its input dropped.
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
    /// A write failed: the socket is read as long as there are bytes, then the connection is closed.
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

/// How a connection's bytes are received.
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

/// Output of a connection in the worker's ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outgoing {
    /// No output.
    Nothing,
    /// Bytes that are submitted at the end of the round.
    Staged,
    /// Bytes that were submitted, without a completion yet.
    InFlight,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Slot {
    /// The socket; none during the look-up of a name.
    pub(crate) socket: Option<Socket>,
    /// Index of the connection's backlog, or [`NONE`]. In a vacant slot: the next vacant one.
    pub(crate) backlog: u32,
    /// Index into the turn's list of connections with output, or [`NONE`].
    pub(crate) touched: u32,
    /// Index of the connection's TLS state, or [`NONE`].
    pub(crate) tls: u32,
    generation: u32,
    pub(crate) stage: Stage,
    pub(crate) ready: Ready,
    pub(crate) watch: Watch,
    /// Whether the engine has paused reading.
    pub(crate) paused: bool,
    /// Whether the connection is in the run queue.
    pub(crate) queued: bool,
    /// Whether bytes are stored that were received while the connection was paused.
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

    /// Whether the connection has output of this turn.
    #[inline]
    pub(crate) fn has_output(&self) -> bool {
        self.touched != NONE
    }

    /// Whether the connection has output that is not sent yet: then it can't be closed or detached.
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

/// The state of a removed connection.
#[derive(Debug)]
pub(crate) struct Removed {
    pub(crate) socket: Option<Socket>,
    /// Index of the connection's backlog, or [`NONE`].
    pub(crate) backlog: u32,
    /// Index of the connection's TLS state, or [`NONE`].
    pub(crate) tls: u32,
    /// Whether bytes of the connection are stored.
    pub(crate) held: bool,
    pub(crate) reader: Reader,
}

/// All connections of a worker.
#[derive(Debug)]
pub(crate) struct ConnSlots {
    chunks: Vec<Box<[Slot; CHUNK]>>,
    free: u32,
}

impl ConnSlots {
    pub(crate) fn new() -> Self {
        ConnSlots { chunks: Vec::new(), free: NONE }
    }

    /// Allocates a slot.
    pub(crate) fn insert(&mut self, socket: Option<Socket>, stage: Stage) -> ConnId {
        if self.free == NONE {
            self.grow();
        }
        let index = self.free;
        let slot = self.cell(index).expect("a free index lies in a chunk");
        let generation = slot.generation;
        let next = slot.backlog;
        *slot = Slot { socket, generation, stage, ..Slot::vacant(NONE) };
        self.free = next;
        ConnId::new(index, generation)
    }

    /// The slot of `conn` in any stage, unless it is vacant.
    #[inline]
    pub(crate) fn get(&mut self, conn: ConnId) -> Option<&mut Slot> {
        let slot = self.cell(conn.slot)?;
        (slot.generation == conn.generation && slot.stage != Stage::Vacant).then_some(slot)
    }

    /// The slot of `conn` if the engine may still name it.
    #[inline]
    pub(crate) fn live(&mut self, conn: ConnId) -> Option<&mut Slot> {
        self.get(conn).filter(|slot| slot.stage != Stage::Lingering)
    }

    /// Whether the engine has closed `conn`, and its socket is open.
    pub(crate) fn is_lingering(&self, conn: ConnId) -> bool {
        self.peek(conn).is_some_and(|slot| slot.stage == Stage::Lingering)
    }

    /// The socket of `conn`.
    pub(crate) fn socket(&self, conn: ConnId) -> Option<&Socket> {
        self.peek(conn)?.socket.as_ref()
    }

    fn peek(&self, conn: ConnId) -> Option<&Slot> {
        let index = conn.slot as usize;
        let slot = self.chunks.get(index / CHUNK).map(|chunk| &chunk[index % CHUNK]);
        slot.filter(|slot| slot.generation == conn.generation && slot.stage != Stage::Vacant)
    }

    /// Frees a slot; returns its state.
    pub(crate) fn remove(&mut self, conn: ConnId) -> Option<Removed> {
        let free = self.free;
        let slot = self.get(conn)?;
        let socket = slot.socket.take();
        let (backlog, tls, held, reader) = (slot.backlog, slot.tls, slot.held, slot.reader);
        slot.generation = (slot.generation + 1) % GENERATIONS;
        slot.stage = Stage::Vacant;
        slot.backlog = free;
        self.free = conn.slot;
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

/// The token under which `conn` is registered.
#[inline]
pub(crate) fn token(conn: ConnId) -> Token {
    Token(((conn.generation as usize) << 32) | conn.slot as usize)
}

/// The connection behind a token; tokens with the highest bit set name none.
#[inline]
pub(crate) fn conn_of(token: Token) -> Option<ConnId> {
    let generation = (token.0 >> 32) as u32;
    (generation < GENERATIONS).then_some(ConnId::new(token.0 as u32, generation))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_of_an_earlier_use_finds_nothing() {
        let mut conns = ConnSlots::new();
        let first = conns.insert(None, Stage::Open);
        assert!(conns.get(first).is_some());
        conns.remove(first).unwrap();
        assert!(conns.get(first).is_none());
        let second = conns.insert(None, Stage::Open);
        assert_eq!(second.slot, first.slot);
        assert_ne!(second, first);
        assert!(conns.get(first).is_none() && conns.remove(first).is_none());
        assert!(conns.get(second).is_some());
    }

    #[test]
    fn slots_are_dense_and_survive_growth() {
        let mut conns = ConnSlots::new();
        let handles: Vec<ConnId> = (0..3 * CHUNK).map(|_| conns.insert(None, Stage::Open)).collect();
        assert!(handles.iter().enumerate().all(|(i, p)| p.slot as usize == i));
        assert!(handles.iter().all(|p| conns.get(*p).is_some()));
        assert!(conns.get(ConnId::NONE).is_none());
    }

    #[test]
    fn a_closed_peer_is_out_of_the_engines_reach() {
        let mut conns = ConnSlots::new();
        let conn = conns.insert(None, Stage::Open);
        conns.get(conn).unwrap().stage = Stage::Lingering;
        assert!(conns.live(conn).is_none());
        assert!(conns.get(conn).is_some());
    }

    #[test]
    fn tokens_name_their_peer_or_none() {
        let conn = ConnId::new(77, GENERATIONS - 1);
        assert_eq!(conn_of(token(conn)), Some(conn));
        assert_eq!(conn_of(Token(usize::MAX)), None);
    }
}
