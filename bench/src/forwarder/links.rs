//! A bare forwarder's connections, and which client has which server: all that does not depend on how sockets are
//! waited for.

use std::collections::VecDeque;
use std::io;

/// ReadyForQuery up to its status.
const READY: [u8; 5] = [b'Z', 0, 0, 0, 5];
const SSL_REQUEST: [u8; 4] = 80_877_103_u32.to_be_bytes();
const GSS_REQUEST: [u8; 4] = 80_877_104_u32.to_be_bytes();

/// A connection and its other end: the client of a server, the server of a client.
pub(super) struct Peer<S> {
    pub(super) stream: S,
    link: Option<usize>,
    pub(super) side: Side,
}

pub(super) enum Side {
    Server,
    /// Has not sent its startup packet yet.
    Arriving,
    /// The client's request, if all servers were taken.
    Client(Vec<u8>),
}

/// All connections, by their places.
pub(super) struct Links<S> {
    peers: Vec<Option<Peer<S>>>,
    free: Vec<usize>,
    idle: Vec<usize>,
    waiting: VecDeque<usize>,
}

impl<S> Links<S> {
    pub(super) fn new() -> Links<S> {
        Links { peers: Vec::new(), free: Vec::new(), idle: Vec::new(), waiting: VecDeque::new() }
    }

    /// A place for a new connection, to be filled by `seat`.
    pub(super) fn place(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.peers.push(None);
            self.peers.len() - 1
        })
    }

    pub(super) fn seat(&mut self, id: usize, stream: S, side: Side) {
        if matches!(side, Side::Server) {
            self.idle.push(id);
        }
        self.peers[id] = Some(Peer { stream, link: None, side });
    }

    pub(super) fn get(&mut self, id: usize) -> Option<&mut Peer<S>> {
        self.peers[id].as_mut()
    }

    pub(super) fn peer(&mut self, id: usize) -> &mut Peer<S> {
        self.get(id).expect("a link's other end, or who has just been read from")
    }

    /// The server for a client's piece; without one the piece waits here.
    pub(super) fn ask(&mut self, client: usize, piece: &[u8]) -> Option<usize> {
        let linked = self.peer(client).link;
        let Some(server) = linked.or_else(|| self.idle.pop()) else {
            self.wait(client, piece);
            return None;
        };
        self.link(client, server);
        Some(server)
    }

    fn wait(&mut self, client: usize, piece: &[u8]) {
        let Side::Client(asked) = &mut self.peer(client).side else { return };
        let first = asked.is_empty();
        asked.extend_from_slice(piece);
        if first {
            self.waiting.push_back(client);
        }
    }

    fn link(&mut self, client: usize, server: usize) {
        self.peer(client).link = Some(server);
        self.peer(server).link = Some(client);
    }

    /// The client that a server's piece is for.
    pub(super) fn asker(&mut self, server: usize) -> io::Result<usize> {
        self.peer(server).link.ok_or_else(|| io::Error::other("a server sent data without a request"))
    }

    /// A server has answered: returns the next waiting client and its request, if there is one.
    pub(super) fn release(&mut self, client: usize, server: usize) -> Option<(usize, Vec<u8>)> {
        self.peer(client).link = None;
        self.peer(server).link = None;
        while let Some(next) = self.waiting.pop_front() {
            let Some(Peer { side: Side::Client(asked), .. }) = self.get(next) else { continue };
            let asked = std::mem::take(asked);
            self.link(next, server);
            return Some((next, asked));
        }
        self.idle.push(server);
        None
    }

    /// A client's request has been sent; its buffer is kept for its next wait.
    pub(super) fn sent(&mut self, client: usize, mut asked: Vec<u8>) {
        asked.clear();
        self.peer(client).side = Side::Client(asked);
    }

    pub(super) fn leave(&mut self, id: usize) -> io::Result<()> {
        self.free.push(id);
        match self.peers[id].take() {
            Some(Peer { side: Side::Server, .. }) => Err(io::Error::other("a server has ended")),
            Some(Peer { link: Some(_), .. }) => Err(io::Error::other("a client left in the middle of its transaction")),
            _ => Ok(()),
        }
    }
}

/// Whether a startup asks for encryption, instead of naming a user.
pub(super) fn wants_encryption(startup: &[u8]) -> io::Result<bool> {
    let code = startup.get(4..8).ok_or_else(|| io::Error::other("a startup in pieces"))?;
    Ok(code == SSL_REQUEST || code == GSS_REQUEST)
}

/// Whether a server's piece ends with a ReadyForQuery.
pub(super) fn is_ready(piece: &[u8]) -> bool {
    piece.len() >= 6 && piece[piece.len() - 6..piece.len() - 1] == READY
}

/// Whether the server is free for another client then.
pub(super) fn is_free(piece: &[u8]) -> bool {
    is_ready(piece) && piece.ends_with(b"I")
}
