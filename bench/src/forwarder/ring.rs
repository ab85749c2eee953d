//! The bare forwarder on one io_uring: what is received and sent goes through the ring, one system call a round.
//!
//! All else is as in `forwarder`. A piece is copied into a vector that the ring keeps until it is sent; that costs less
//! than a call for each send. A client's descriptor is closed when its receive has ended, so none is closed with an
//! entry on its way.

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd;

use weir_uring::{Completion, Ended, Key, Ring, RingSize, SendReport};

use super::links::{Links, Side, is_free, wants_encryption};
use super::{Options, log_in};
use crate::error::{Error, Outcome};

pub(super) const BUFFER: u32 = 4096;
pub(super) const BUFFERS: u16 = 256;
/// The listener's key; peers have their index.
const LISTENER: u64 = 1 << 40;

/// Forwards until it is ended.
pub(super) fn run(options: &Options) -> Outcome<bool> {
    let shape = RingSize { entries: 1024, completions: 4096, buffers: options.buffers, buffer_size: options.buffer };
    let ring = Ring::new(shape).map_err(|e| Error::new(e.to_string()))?;
    let mut forwarder = Forwarder::new(options, ring).map_err(|e| Error::at("start the forwarder", e))?;
    forwarder.serve().map_err(|e| Error::at("forward", e))?;
    Ok(true)
}

struct Forwarder {
    ring: Option<Ring>,
    listener: TcpListener,
    links: Links<TcpStream>,
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
            links: Links::new(),
            greeting: Vec::new(),
            sends: Vec::new(),
            spares: Vec::new(),
        };
        for _ in 0..options.servers {
            let (stream, greeting) = log_in(options.server_port)?;
            forwarder.greeting = greeting;
            forwarder.admit(&mut ring, stream, Side::Server)?;
        }
        forwarder.ring = Some(ring);
        Ok(forwarder)
    }

    fn admit(&mut self, ring: &mut Ring, stream: TcpStream, side: Side) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let id = self.links.place();
        ring.receive(stream.as_fd(), Key::new(id as u64))?;
        self.links.seat(id, stream, side);
        Ok(())
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
                    Completion::ReceiveEnded { key, .. } => self.links.leave(key.value() as usize)?,
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
                let Some(peer) = self.links.get(to) else { continue };
                ring.send(peer.stream.as_fd(), Key::new(to as u64), bytes, SendReport::Later)?;
            }
        }
    }

    fn receive_again(&mut self, ring: &mut Ring, id: usize) -> io::Result<()> {
        ring.receive(self.links.peer(id).stream.as_fd(), Key::new(id as u64))
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
        match &self.links.peer(id).side {
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
        if wants_encryption(piece)? {
            self.send(id, b"N");
        } else {
            self.links.peer(id).side = Side::Client(Vec::new());
            let greeting = std::mem::take(&mut self.greeting);
            self.send(id, &greeting);
            self.greeting = greeting;
        }
        Ok(())
    }

    fn ask(&mut self, id: usize, piece: &[u8]) {
        if let Some(server) = self.links.ask(id, piece) {
            self.send(server, piece);
        }
    }

    fn answer(&mut self, server: usize, piece: &[u8]) -> io::Result<()> {
        let client = self.links.asker(server)?;
        self.send(client, piece);
        if is_free(piece)
            && let Some((next, asked)) = self.links.release(client, server)
        {
            self.send(server, &asked);
            self.links.sent(next, asked);
        }
        Ok(())
    }
}
