//! Connections that we begin: look-ups, addresses in order, Unix sockets.
//!
//! Owns the attempts under way, by slot. Each ends in exactly one notice, `Connected` or `ConnectFailed`, or in the engine's
//! `close`. How long an attempt may take is the engine's business.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::PathBuf;

use mio::net::{TcpStream, UnixStream};
use weir_base::{Host, Peer, Span, Target};

use crate::helpers::{Found, Query};
use crate::port::{Due, Notice, Port};
use crate::slots::{NONE, Stage, Watch};
use crate::socket::Socket;

/// A Unix socket whose queue is full refuses at once; we come back after this time, as a waiting connect would.
const FULL_QUEUE: Span = Span::from_millis(10);

/// A connect under way.
#[derive(Debug)]
enum Attempt {
    /// The addresses are not known yet.
    LookUp,
    /// One address after the other is tried.
    Tcp { left: std::vec::IntoIter<SocketAddr>, named: bool, now: Option<SocketAddr> },
    /// PostgreSQL's socket at this path.
    Unix(PathBuf),
}

/// All connects under way in a worker.
#[derive(Debug, Default)]
pub(crate) struct Connects {
    attempts: HashMap<u32, Attempt>,
    /// Who waits for which name. Connects to the same name share one look-up.
    names: Vec<(Query, Vec<Peer>)>,
}

impl Connects {
    /// A peer is gone; nothing is under way for it any more.
    #[inline]
    pub(crate) fn forget(&mut self, peer: Peer) {
        if !self.attempts.is_empty() {
            self.attempts.remove(&peer.slot);
        }
    }
}

impl Port {
    /// Begins a connection.
    pub(crate) fn begin_connect(&mut self, to: &Target) -> Peer {
        let peer = self.peers.insert(None, Stage::Connecting);
        let attempt = match &to.host {
            Host::Ip(ip) => tcp(vec![SocketAddr::new(*ip, to.port)], false),
            Host::Name(name) => {
                self.look_up(peer, Query { name: name.clone(), port: to.port });
                Attempt::LookUp
            }
            Host::SocketDir(dir) => Attempt::Unix(socket_path(dir, to.port)),
        };
        self.connects.attempts.insert(peer.slot, attempt);
        self.try_connect(peer, None);
        peer
    }

    fn look_up(&mut self, peer: Peer, query: Query) {
        let names = &mut self.connects.names;
        if let Some((_, waiting)) = names.iter_mut().find(|(asked, _)| *asked == query) {
            return waiting.push(peer);
        }
        names.push((query.clone(), vec![peer]));
        self.asking.look_up(query);
    }

    /// A look-up has ended; goes on with all connects that waited for it.
    pub(crate) fn found(&mut self, found: Found) {
        self.asking.found();
        let names = &mut self.connects.names;
        let Some(at) = names.iter().position(|(asked, _)| *asked == found.query) else { return };
        let (_, waiting) = names.swap_remove(at);
        for peer in waiting {
            // Some may have been closed meanwhile.
            if self.peers.live(peer).is_none() {
                continue;
            }
            match &found.addresses {
                Ok(addresses) => {
                    self.connects.attempts.insert(peer.slot, tcp(addresses.clone(), true));
                    self.try_connect(peer, None);
                }
                Err(error) => self.notices.push_back(Notice::ConnectFailed(peer, error.clone())),
            }
        }
    }

    /// Takes the next step of a connect: the next address, or the Unix socket once more. `error` is how the last one ended.
    pub(crate) fn try_connect(&mut self, peer: Peer, mut error: Option<io::Error>) {
        if self.peers.live(peer).is_none() {
            return;
        }
        let Some(attempt) = self.connects.attempts.get_mut(&peer.slot) else { return };
        let mut failed = None;
        let opened = loop {
            match attempt {
                Attempt::LookUp => return,
                Attempt::Unix(path) => break error.map_or_else(|| open_unix(path), Err),
                Attempt::Tcp { left, named, now } => {
                    if let (Some(error), Some(address)) = (&error, *now) {
                        failed = Some(if *named { format!("{address}: {error}") } else { error.to_string() });
                    }
                    *now = left.next();
                    let Some(address) = *now else { break Err(io::Error::other("the name has no address")) };
                    match open_tcp(address) {
                        Ok(socket) => break Ok(socket),
                        Err(refused) => error = Some(refused),
                    }
                }
            }
        };
        match opened {
            Ok(socket) => self.connecting(peer, socket),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.later.push(Reverse((self.now + FULL_QUEUE, peer, Due::Connect)));
            }
            Err(error) => {
                let error = failed.unwrap_or_else(|| error.to_string());
                self.notices.push_back(Notice::ConnectFailed(peer, error));
            }
        }
    }

    fn connecting(&mut self, peer: Peer, socket: Socket) {
        let Some(slot) = self.peers.live(peer) else { return };
        slot.socket = Some(socket);
        slot.watch = Watch::Nothing;
        self.watch(peer, Watch::Both);
    }

    /// An event came for a peer that connects: it has succeeded, or failed, or the event means nothing yet.
    pub(crate) fn connect_progress(&mut self, peer: Peer) {
        let Some(slot) = self.peers.live(peer) else { return };
        let Some(socket) = slot.socket.as_mut() else { return };
        match outcome(socket) {
            Ok(()) => {
                let local = local_name(socket, self.connects.attempts.remove(&peer.slot));
                slot.stage = Stage::Open;
                let waits = slot.backlog != NONE;
                self.watch(peer, Watch::Reads);
                self.notices.push_back(Notice::Connected(peer, local));
                if waits {
                    self.drain(peer);
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::NotConnected | ErrorKind::WouldBlock) => {}
            Err(error) => {
                slot.socket = None;
                self.try_connect(peer, Some(error));
            }
        }
    }
}

/// The path of PostgreSQL's socket in `dir` (libpq's and the server's rule).
pub(crate) fn socket_path(dir: &std::path::Path, port: u16) -> PathBuf {
    dir.join(format!(".s.PGSQL.{port}"))
}

fn tcp(addresses: Vec<SocketAddr>, named: bool) -> Attempt {
    Attempt::Tcp { left: addresses.into_iter(), named, now: None }
}

fn open_tcp(address: SocketAddr) -> io::Result<Socket> {
    let socket = TcpStream::connect(address)?;
    Port::tune(&socket)?;
    Ok(Socket::Tcp(socket))
}

fn open_unix(path: &PathBuf) -> io::Result<Socket> {
    Ok(Socket::Unix(UnixStream::connect(path)?))
}

fn outcome(socket: &Socket) -> io::Result<()> {
    match socket.take_error()? {
        Some(error) => Err(error),
        None => socket.check_connected(),
    }
}

fn local_name(socket: &Socket, attempt: Option<Attempt>) -> String {
    match (socket, attempt) {
        (Socket::Tcp(stream), _) => stream.local_addr().map_or_else(|_| String::new(), |a| a.to_string()),
        (_, Some(Attempt::Unix(path))) => path.display().to_string(),
        _ => String::new(),
    }
}
