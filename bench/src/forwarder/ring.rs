//! The bare forwarder on one io_uring: what is received and sent goes through the ring, one system call a round.
//!
//! The same in all else. A piece is copied into a vector that the ring keeps until it is sent; that costs less than a
//! call for each send. A client's descriptor is closed when its receive has ended, so none is closed with an entry on
//! its way.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd;

use weir_uring::{Completion, Ended, Key, Ring, Shape};

use super::{GSS_REQUEST, Options, READY, SSL_REQUEST, log_in};
use crate::error::{Error, Outcome};

pub(super) const BUFFER: u32 = 4096;
pub(super) const BUFFERS: u16 = 256;
/// The listener's key; peers have their index.
const LISTENER: u64 = 1 << 40;

/// Forwards until it is ended.
pub(super) fn run(options: &Options) -> Outcome<bool> {
    let shape = Shape { entries: 1024, completions: 4096, buffers: options.buffers, buffer_size: options.buffer };
    let ring = Ring::new(shape).map_err(|e| Error::new(e.to_string()))?;
    let mut forwarder = Forwarder::new(options, ring).map_err(|e| Error::at("start the forwarder", e))?;
    forwarder.serve().map_err(|e| Error::at("forward", e))?;
    Ok(true)
}

struct Peer {
    stream: TcpStream,
    link: Option<usize>,
    side: Side,
}

enum Side {
    Server,
    /// Has not said yet who it is.
    Arriving,
    /// What it asked while all servers were taken.
    Client(Vec<u8>),
}

struct Forwarder {
    ring: Option<Ring>,
    listener: TcpListener,
    peers: Vec<Option<Peer>>,
    free: Vec<usize>,
    idle: Vec<usize>,
    waiting: VecDeque<usize>,
    greeting: Vec<u8>,
    /// What is to be sent at the end of the turn, and vectors for the next ones.
    sends: Vec<(usize, Vec<u8>)>,
    spares: Vec<Vec<u8>>,
}

impl Forwarder {
    fn new(options: &Options, mut ring: Ring) -> io::Result<Forwarder> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, options.port))?;
        ring.accept(listener.as_fd(), Key::new(LISTENER))?;
        let mut forwarder = Forwarder {
            ring: None,
            listener,
            peers: Vec::new(),
            free: Vec::new(),
            idle: Vec::new(),
            waiting: VecDeque::new(),
            greeting: Vec::new(),
            sends: Vec::new(),
            spares: Vec::new(),
        };
        for _ in 0..options.servers {
            let (stream, greeting) = log_in(options.server_port)?;
            forwarder.greeting = greeting;
            let server = forwarder.admit(&mut ring, stream, Side::Server)?;
            forwarder.idle.push(server);
        }
        forwarder.ring = Some(ring);
        Ok(forwarder)
    }

    fn admit(&mut self, ring: &mut Ring, stream: TcpStream, side: Side) -> io::Result<usize> {
        stream.set_nodelay(true)?;
        let id = self.free.pop().unwrap_or_else(|| {
            self.peers.push(None);
            self.peers.len() - 1
        });
        ring.receive(stream.as_fd(), Key::new(id as u64))?;
        self.peers[id] = Some(Peer { stream, link: None, side });
        Ok(id)
    }

    fn peer(&mut self, id: usize) -> &mut Peer {
        self.peers[id].as_mut().expect("a link's other end, or who has just been read from")
    }

    fn serve(&mut self) -> io::Result<()> {
        let mut ring = self.ring.take().expect("made with the forwarder");
        loop {
            ring.wait(None)?;
            while let Some(completion) = ring.next() {
                match completion {
                    Completion::Received { key, bytes, more } => {
                        let id = key.value() as usize;
                        self.turn(id, bytes)?;
                        if !more {
                            self.receive_again(&mut ring, id)?;
                        }
                    }
                    Completion::ReceiveEnded { key, ended: Ended::NoBuffers } => {
                        self.receive_again(&mut ring, key.value() as usize)?;
                    }
                    Completion::ReceiveEnded { key, .. } => self.leave(key.value() as usize)?,
                    Completion::Sent { bytes, taken, .. } => self.sent(bytes, &taken)?,
                    Completion::Accepted { socket, more, .. } => {
                        self.admit(&mut ring, socket.into(), Side::Arriving)?;
                        if !more {
                            ring.accept(self.listener.as_fd(), Key::new(LISTENER))?;
                        }
                    }
                    Completion::AcceptEnded { error, .. } => return Err(error),
                    Completion::Readable { .. } => {}
                }
            }
            for (to, bytes) in self.sends.drain(..) {
                let Some(peer) = &self.peers[to] else { continue };
                ring.send(peer.stream.as_fd(), Key::new(to as u64), bytes)?;
            }
        }
    }

    fn receive_again(&mut self, ring: &mut Ring, id: usize) -> io::Result<()> {
        ring.receive(self.peer(id).stream.as_fd(), Key::new(id as u64))
    }

    fn sent(&mut self, mut bytes: Vec<u8>, taken: &io::Result<usize>) -> io::Result<()> {
        // A client that has left in the meantime takes nothing; one that is full is not what this was made for.
        if taken.as_ref().is_ok_and(|taken| *taken < bytes.len()) {
            return Err(io::Error::other("a socket is full: not what a bare forwarder is for"));
        }
        bytes.clear();
        self.spares.push(bytes);
        Ok(())
    }

    fn send(&mut self, to: usize, piece: &[u8]) {
        let mut bytes = self.spares.pop().unwrap_or_default();
        bytes.extend_from_slice(piece);
        self.sends.push((to, bytes));
    }

    fn turn(&mut self, id: usize, piece: &[u8]) -> io::Result<()> {
        match &self.peer(id).side {
            Side::Server => self.answer(id, piece),
            Side::Arriving => self.arrive(id, piece),
            // A Terminate: its end follows.
            Side::Client(_) if piece[0] == b'X' => Ok(()),
            Side::Client(_) => {
                self.ask(id, piece);
                Ok(())
            }
        }
    }

    fn arrive(&mut self, id: usize, piece: &[u8]) -> io::Result<()> {
        let Some(code) = piece.get(4..8) else { return Err(io::Error::other("a startup in pieces")) };
        if code == SSL_REQUEST || code == GSS_REQUEST {
            self.send(id, b"N");
        } else {
            self.peer(id).side = Side::Client(Vec::new());
            let greeting = std::mem::take(&mut self.greeting);
            self.send(id, &greeting);
            self.greeting = greeting;
        }
        Ok(())
    }

    fn ask(&mut self, id: usize, piece: &[u8]) {
        let linked = self.peer(id).link;
        let Some(server) = linked.or_else(|| self.idle.pop()) else { return self.wait(id, piece) };
        self.link(id, server);
        self.send(server, piece);
    }

    fn wait(&mut self, id: usize, piece: &[u8]) {
        let Side::Client(asked) = &mut self.peer(id).side else { return };
        let first = asked.is_empty();
        asked.extend_from_slice(piece);
        if first {
            self.waiting.push_back(id);
        }
    }

    fn link(&mut self, client: usize, server: usize) {
        self.peer(client).link = Some(server);
        self.peer(server).link = Some(client);
    }

    fn answer(&mut self, server: usize, piece: &[u8]) -> io::Result<()> {
        let Some(client) = self.peer(server).link else {
            return Err(io::Error::other("a server speaks unasked"));
        };
        self.send(client, piece);
        let free = piece.len() >= 6 && piece[piece.len() - 6..piece.len() - 1] == READY && piece.ends_with(b"I");
        if free {
            self.release(client, server);
        }
        Ok(())
    }

    fn release(&mut self, client: usize, server: usize) {
        self.peer(client).link = None;
        self.peer(server).link = None;
        while let Some(next) = self.waiting.pop_front() {
            let Some(Peer { side: Side::Client(asked), .. }) = &mut self.peers[next] else { continue };
            let mut asked = std::mem::take(asked);
            self.link(next, server);
            self.send(server, &asked);
            asked.clear();
            // The same room for its next wait.
            self.peer(next).side = Side::Client(asked);
            return;
        }
        self.idle.push(server);
    }

    fn leave(&mut self, id: usize) -> io::Result<()> {
        self.free.push(id);
        match self.peers[id].take() {
            Some(Peer { side: Side::Server, .. }) => Err(io::Error::other("a server has ended")),
            Some(Peer { link: Some(_), .. }) => Err(io::Error::other("a client left in the middle of its transaction")),
            _ => Ok(()),
        }
    }
}
