//! `weir-bench forwarder`: the limit. A bare forwarder between many clients and a few servers, without a pool's logic.
//!
//! One thread and one epoll. What a client sends in one piece goes to a free server as it is, what the server sends
//! comes back as it is, and the server is free when its last bytes are a ReadyForQuery outside a transaction. No
//! message is looked at, no login checked, nothing counted or timed, no statement followed: what it costs is what any
//! pooler costs that makes a read and a write of each piece. Fit for pgbench's small queries only, and it ends at the
//! first thing that it was not made for. A large result or COPY of one client at a time passes, too: where a socket is
//! full, it waits for that one.
//!
//! With `--io io-uring` it does the same on one io_uring instead of epoll (`ring`): the limit of another kind of loop.
//!
//! Source of what little it knows: PostgreSQL's documentation, section 55.2, Message Flow.

mod links;
mod ring;

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener as Listener, TcpStream as Blocking};

use clap::Args;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use socket2::SockRef;

use self::links::{Links, Side, is_free, is_ready, wants_encryption};
use crate::error::{Error, Outcome};
use crate::setup::USER;

const LISTENER: Token = Token(usize::MAX);
/// As much as is read at once.
const PIECE: usize = 64 * 1024;

/// The options of `forwarder`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Where it listens, on 127.0.0.1
    #[arg(long)]
    port: u16,
    /// Where PostgreSQL listens, on 127.0.0.1
    #[arg(long)]
    server_port: u16,
    /// How many servers it opens
    #[arg(long, default_value_t = 20)]
    servers: usize,
    /// What waits for its sockets
    #[arg(long, value_enum, default_value_t = Loop::Epoll)]
    io: Loop,
    /// With io_uring, the bytes of a buffer to receive into
    #[arg(long, default_value_t = ring::BUFFER)]
    buffer: u32,
    /// With io_uring, how many of them there are; a power of two
    #[arg(long, default_value_t = ring::BUFFERS)]
    buffers: u16,
}

/// What the loop is built on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Loop {
    Epoll,
    IoUring,
}

/// Forwards until it is ended.
pub(crate) fn run(options: &Options) -> Outcome<bool> {
    if options.io == Loop::IoUring {
        return ring::run(options);
    }
    let mut forwarder = Forwarder::new(options).map_err(|e| Error::at("start the forwarder", e))?;
    forwarder.serve().map_err(|e| Error::at("forward", e))?;
    Ok(true)
}

struct Forwarder {
    poll: Poll,
    listener: TcpListener,
    links: Links<TcpStream>,
    /// What a server said at its login, from the Authentication's end to ReadyForQuery: every client gets the same.
    greeting: Vec<u8>,
    piece: Vec<u8>,
}

impl Forwarder {
    fn new(options: &Options) -> io::Result<Forwarder> {
        let poll = Poll::new()?;
        let listener = Listener::bind((Ipv4Addr::LOCALHOST, options.port))?;
        listener.set_nonblocking(true)?;
        let mut listener = TcpListener::from_std(listener);
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let mut forwarder =
            Forwarder { poll, listener, links: Links::new(), greeting: Vec::new(), piece: vec![0; PIECE] };
        for _ in 0..options.servers {
            let (stream, greeting) = log_in(options.server_port)?;
            forwarder.greeting = greeting;
            forwarder.admit(TcpStream::from_std(stream), Side::Server)?;
        }
        Ok(forwarder)
    }

    fn admit(&mut self, mut stream: TcpStream, side: Side) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let id = self.links.place();
        self.poll.registry().register(&mut stream, Token(id), Interest::READABLE)?;
        self.links.seat(id, stream, side);
        Ok(())
    }

    fn serve(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(256);
        loop {
            match self.poll.poll(&mut events, None) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                polled => polled?,
            }
            for event in &events {
                match event.token() {
                    LISTENER => self.accept()?,
                    Token(id) => self.turn(id)?,
                }
            }
        }
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => self.admit(stream, Side::Arriving)?,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads a socket until it is empty, and does what follows from it. A read that did not fill its room has emptied
    /// the socket (epoll(7)).
    fn turn(&mut self, id: usize) -> io::Result<()> {
        let mut piece = std::mem::take(&mut self.piece);
        let mut outcome = Ok(PIECE);
        while matches!(outcome, Ok(PIECE)) {
            outcome = self.read(id, &mut piece);
        }
        self.piece = piece;
        outcome.map(drop)
    }

    /// One read; returns how much it was.
    fn read(&mut self, id: usize, piece: &mut [u8]) -> io::Result<usize> {
        let Some(peer) = self.links.get(id) else { return Ok(0) };
        let length = match peer.stream.read(piece) {
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
            Err(_) => 0,
        };
        match (&peer.side, length) {
            (_, 0) => self.links.leave(id)?,
            (Side::Server, length) => self.answer(id, &piece[..length])?,
            (Side::Arriving, length) => self.arrive(id, &piece[..length])?,
            (Side::Client(_), length) => self.ask(id, &piece[..length])?,
        }
        Ok(length)
    }

    fn arrive(&mut self, id: usize, piece: &[u8]) -> io::Result<()> {
        let peer = self.links.peer(id);
        if wants_encryption(piece)? {
            return peer.stream.write_all(b"N");
        }
        peer.side = Side::Client(Vec::new());
        peer.stream.write_all(&self.greeting)
    }

    fn ask(&mut self, id: usize, piece: &[u8]) -> io::Result<()> {
        if piece[0] == b'X' {
            return self.links.leave(id);
        }
        let Some(server) = self.links.ask(id, piece) else { return Ok(()) };
        write_whole(&mut self.links.peer(server).stream, piece)
    }

    fn answer(&mut self, server: usize, piece: &[u8]) -> io::Result<()> {
        let client = self.links.asker(server)?;
        write_whole(&mut self.links.peer(client).stream, piece)?;
        if is_free(piece)
            && let Some((next, asked)) = self.links.release(client, server)
        {
            self.links.peer(server).stream.write_all(&asked)?;
            self.links.sent(next, asked);
        }
        Ok(())
    }
}

/// Writes all bytes, and waits where the socket is full.
fn write_whole(stream: &mut TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(taken) => bytes = &bytes[taken..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let socket = SockRef::from(&*stream);
                socket.set_nonblocking(false)?;
                let written = (&*socket).write(bytes);
                socket.set_nonblocking(true)?;
                bytes = &bytes[written?..];
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Opens a server, whose HBA trusts us; also what it said from AuthenticationOk on.
fn log_in(port: u16) -> io::Result<(Blocking, Vec<u8>)> {
    let mut stream = Blocking::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    let body = format!("user\0{USER}\0database\0{USER}\0\0");
    let mut startup = u32::try_from(body.len() + 8).expect("a short name").to_be_bytes().to_vec();
    startup.extend_from_slice(&[0, 3, 0, 0]);
    startup.extend_from_slice(body.as_bytes());
    stream.write_all(&startup)?;
    let mut greeting = Vec::new();
    let mut piece = [0; 4096];
    while !is_ready(&greeting) {
        match stream.read(&mut piece)? {
            0 => return Err(io::Error::other("PostgreSQL does not let the forwarder in; it needs trust")),
            length => greeting.extend_from_slice(&piece[..length]),
        }
    }
    stream.set_nonblocking(true)?;
    Ok((stream, greeting))
}
