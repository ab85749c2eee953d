//! Connecting to servers: look-ups, addresses in order, Unix sockets.
//!
//! Each attempt ends in exactly one `Connected` or `ConnectFailed`, or in the engine's `close`. The engine owns the
//! timeout of an attempt.

use std::cmp::Reverse;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use mio::net::UnixStream;
use weir_base::{ConnId, Host, Span, Target};

use super::Port;
use super::connects::{Attempt, Connects, KnownName, MOST_KNOWN, tcp};
use super::pending::PendingInput;
use crate::dns::{Found, Query};
use crate::slots::{NONE, Stage, Watch};
use crate::socket::{Socket, connect_tcp, socket_path};

/// A Unix socket whose queue is full refuses at once; we come back after this time, as a waiting connect would.
const FULL_QUEUE: Span = Span::from_millis(10);

impl Port {
    /// Begins a connect.
    pub(crate) fn begin_connect(&mut self, to: &Target) -> ConnId {
        let conn = self.conns.insert(None, Stage::Connecting);
        let attempt = match &to.host {
            Host::Ip(ip) => tcp(vec![SocketAddr::new(*ip, to.port)], false),
            Host::Name(name) => self.by_name(conn, name, to.port),
            Host::SocketDir(dir) => Attempt::Unix(socket_path(dir, to.port)),
        };
        self.connects.attempts.insert(conn.slot, attempt);
        self.try_connect(conn, None);
        conn
    }

    /// A connect by name: at once if the addresses are cached, otherwise after a look-up.
    fn by_name(&mut self, conn: ConnId, name: &str, port: u16) -> Attempt {
        let now = self.now;
        if let Some(known) = self.connects.known.get_mut(name).filter(|known| known.until > now) {
            match known.attempt(port) {
                Ok(attempt) => return attempt,
                Err(error) => self.pending.push_back(PendingInput::ConnectFailed(conn, error)),
            }
            return Attempt::LookUp;
        }
        self.ask_for(name.into(), Some((conn, port)));
        Attempt::LookUp
    }

    /// Starts a look-up, for a connection that waits, or for the engine alone.
    pub(crate) fn ask_for(&mut self, name: Arc<str>, waiting: Option<(ConnId, u16)>) {
        let asked = &mut self.connects.asked;
        if let Some((_, others)) = asked.iter_mut().find(|(asked, _)| *asked == name) {
            return others.extend(waiting);
        }
        asked.push((name.clone(), waiting.into_iter().collect()));
        let dns = self.connects.dns.clone();
        self.asking.look_up(Query { name, dns });
    }

    /// A look-up has ended; continues all connects that wait for it.
    pub(crate) fn found(&mut self, found: Found) {
        self.asking.found();
        let Connects { asked, known, .. } = &mut self.connects;
        let Some(at) = asked.iter().position(|(asked, _)| *asked == found.name) else { return };
        let (name, waiting) = asked.swap_remove(at);
        let now = self.now;
        if known.len() >= MOST_KNOWN {
            known.retain(|_, known| known.until > now);
        }
        let turn = known.get(&name).map_or(0, |known| known.turn);
        let addresses = found.addresses.as_ref().map_or_else(|_| Vec::new(), Clone::clone);
        let mut answer = KnownName { addresses: found.addresses, until: now + found.ttl, turn };
        // The engine receives the answer before the results of the connects.
        self.pending.push_back(PendingInput::Resolved(name.clone(), addresses, found.ttl));
        for (conn, port) in waiting {
            // Some may have been closed meanwhile.
            if self.conns.live(conn).is_none() {
                continue;
            }
            match answer.attempt(port) {
                Ok(attempt) => {
                    self.connects.attempts.insert(conn.slot, attempt);
                    self.try_connect(conn, None);
                }
                Err(error) => self.pending.push_back(PendingInput::ConnectFailed(conn, error)),
            }
        }
        self.connects.known.insert(name, answer);
    }

    /// The next step of a connect: the next address, or the Unix socket again. `error` is that of the last step.
    pub(crate) fn try_connect(&mut self, conn: ConnId, mut error: Option<io::Error>) {
        if self.conns.live(conn).is_none() {
            return;
        }
        let Some(attempt) = self.connects.attempts.get_mut(&conn.slot) else { return };
        let mut failed = None;
        let keepalive = self.keepalive;
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
                    match connect_tcp(address, &keepalive) {
                        Ok(socket) => break Ok(socket),
                        Err(refused) => error = Some(refused),
                    }
                }
            }
        };
        match opened {
            Ok(socket) => self.connecting(conn, socket),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.later.push(Reverse((self.now + FULL_QUEUE, conn)));
            }
            Err(error) => {
                let error = failed.unwrap_or_else(|| error.to_string());
                self.pending.push_back(PendingInput::ConnectFailed(conn, error));
            }
        }
    }

    fn connecting(&mut self, conn: ConnId, socket: Socket) {
        let Some(slot) = self.conns.live(conn) else { return };
        slot.socket = Some(socket);
        slot.watch = Watch::Nothing;
        self.watch(conn, Watch::Both);
    }

    /// Handles an event of a connection that connects: it has succeeded, failed, or the event means nothing yet.
    pub(crate) fn connect_progress(&mut self, conn: ConnId) {
        let Some(slot) = self.conns.live(conn) else { return };
        let Some(socket) = slot.socket.as_mut() else { return };
        match outcome(socket) {
            Ok(()) => {
                let remote = remote_address(socket);
                let local = local_name(socket, self.connects.attempts.remove(&conn.slot));
                slot.stage = Stage::Open;
                let waits = slot.backlog != NONE;
                self.begin_reading(conn);
                self.pending.push_back(PendingInput::Connected(conn, local, remote));
                if waits {
                    self.drain(conn);
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::NotConnected | ErrorKind::WouldBlock) => {}
            Err(error) => {
                slot.socket = None;
                self.try_connect(conn, Some(error));
            }
        }
    }
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

fn remote_address(socket: &Socket) -> Option<std::net::IpAddr> {
    if let Socket::Tcp(stream) = socket { stream.peer_addr().ok().map(|a| a.ip()) } else { None }
}

fn local_name(socket: &Socket, attempt: Option<Attempt>) -> String {
    match (socket, attempt) {
        (Socket::Tcp(stream), _) => stream.local_addr().map_or_else(|_| String::new(), |a| a.to_string()),
        (_, Some(Attempt::Unix(path))) => path.display().to_string(),
        _ => String::new(),
    }
}
