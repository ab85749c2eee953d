//! Listeners: binding them, and accepting from them without ever spinning.
//!
//! Owns the listening sockets (worker 0 has them all) and the Unix socket's file. TCP_NODELAY and SO_KEEPALIVE are set
//! on the listener, from which Linux hands them on to each accepted socket, so that a login costs no calls for them.
//! When descriptors run out, accepting rests until one is free or a second has passed.

use std::fmt;
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use mio::event::Source;
use mio::net::{TcpListener, UnixListener};
use mio::{Interest, Registry, Token};
use nix::sys::socket::{getsockopt, sockopt};
use socket2::{Domain, SockAddr, Socket as Raw, Type};
use weir_base::{ClientAddr, Peer, Span, Time};
use weir_config::Listen;
use weir_engine::port::Level;

use crate::connect::socket_path;
use crate::mailbox::BELL;
use crate::port::Port;
use crate::socket::Socket;
use crate::start::StartError;

/// How long accepting rests when the system refuses, unless a descriptor is freed earlier.
const REST: Span = Span::from_secs(1);

/// Where a pooler really listens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bound {
    /// Addresses and ports.
    pub tcp: Vec<SocketAddr>,
    /// The Unix socket's path.
    pub unix: Option<PathBuf>,
}

/// The Unix socket's file; removed with this value, if it is still ours.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|found| found == self.identity) {
            // The folder may have become unwritable; the next start removes the file then.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[derive(Debug)]
enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, #[expect(dead_code, reason = "held for its Drop")] SocketFile),
}

impl Listener {
    fn source(&mut self) -> &mut dyn Source {
        match self {
            Listener::Tcp(l) => l,
            Listener::Unix(l, _) => l,
        }
    }

    fn accept(&self) -> io::Result<(Socket, ClientAddr)> {
        match self {
            Listener::Tcp(l) => {
                let (socket, from) = l.accept()?;
                // Elsewhere the options are not inherited.
                #[cfg(not(target_os = "linux"))]
                Port::tune(&socket)?;
                Ok((Socket::Tcp(socket), ClientAddr::Tcp(from)))
            }
            Listener::Unix(l, _) => {
                let (socket, _) = l.accept()?;
                // Who can't be asked is sent away.
                let who = getsockopt(&socket, sockopt::PeerCredentials).map_err(|_| ErrorKind::ConnectionAborted)?;
                // The kernel says 0 where the process lives in another namespace.
                let pid = u32::try_from(who.pid()).unwrap_or_default();
                Ok((Socket::Unix(socket), ClientAddr::Unix { pid, uid: who.uid() }))
            }
        }
    }
}

/// All listeners of the process, and whether there is something to accept.
#[derive(Debug)]
pub(crate) struct Listening {
    plan: Listen,
    bound: Bound,
    listeners: Vec<Listener>,
    /// By listener: it may have more clients for us.
    ready: Vec<bool>,
    /// The listener to be asked first, so that each has its turn.
    first: usize,
    /// Accepting rests until then.
    rests_until: Time,
    complained: bool,
}

impl Listening {
    /// Binds everything, or nothing.
    pub(crate) fn bind(plan: Listen) -> Result<Listening, StartError> {
        let addresses: Vec<SocketAddr> = plan.addresses.iter().map(|ip| SocketAddr::new(*ip, plan.port)).collect();
        let (listeners, bound) = bind_all(&addresses, &plan)?;
        let ready = vec![false; listeners.len()];
        Ok(Listening { plan, bound, listeners, ready, first: 0, rests_until: Time::START, complained: false })
    }

    /// Binds everything again, on the ports of the first time also where the system had chosen them.
    fn rebind(&mut self, registry: &Registry) -> Result<(), StartError> {
        let (listeners, bound) = bind_all(&self.bound.tcp, &self.plan)?;
        self.ready = vec![false; listeners.len()];
        self.listeners = listeners;
        self.bound = bound;
        self.register(registry).map_err(|error| StartError::new(format!("can't listen: {error}")))
    }

    pub(crate) fn bound(&self) -> &Bound {
        &self.bound
    }

    /// Has all listeners watched.
    pub(crate) fn register(&mut self, registry: &Registry) -> io::Result<()> {
        for (i, listener) in self.listeners.iter_mut().enumerate() {
            registry.register(listener.source(), token(i), Interest::READABLE)?;
        }
        Ok(())
    }

    /// An event came under a token that is no peer's.
    pub(crate) fn event(&mut self, event: Token) {
        if let Some(ready) = self.ready.get_mut(BELL.0 - 1 - event.0) {
            *ready = true;
        }
    }

    /// The next listener that may have a client.
    fn next(&mut self) -> Option<usize> {
        let count = self.ready.len();
        let i = (self.first..self.first + count).map(|i| i % count).find(|i| self.ready[*i])?;
        self.first = i + 1;
        Some(i)
    }

    /// When to call again for what waits to be accepted: now, at the end of a rest, or not at all.
    pub(crate) fn deadline(&self) -> Time {
        if self.ready.contains(&true) { self.rests_until } else { Time::NEVER }
    }
}

/// Listeners have the tokens just below the bell's.
fn token(i: usize) -> Token {
    Token(BELL.0 - 1 - i)
}

impl Port {
    /// Accepts one client, if one waits.
    pub(crate) fn accept_one(&mut self) -> Option<(Peer, ClientAddr)> {
        let listening = self.listening.as_mut()?;
        if self.now < listening.rests_until {
            return None;
        }
        let (socket, from) = loop {
            let i = listening.next()?;
            match listening.listeners[i].accept() {
                Ok(accepted) => break accepted,
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => {
                        listening.ready[i] = false;
                        listening.complained = false;
                    }
                    // This client is gone already; the next one may wait.
                    ErrorKind::Interrupted | ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset => {}
                    ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable | ErrorKind::NetworkDown => {}
                    _ => {
                        self.rest(&error);
                        return None;
                    }
                },
            }
        };
        Some((self.adopt(socket), from))
    }

    fn rest(&mut self, error: &io::Error) {
        let Some(listening) = self.listening.as_mut() else { return };
        listening.rests_until = self.now + REST;
        self.shared.starved.store(true, std::sync::atomic::Ordering::Relaxed);
        if !std::mem::replace(&mut listening.complained, true) {
            let text = format_args!("could not accept a client: {error}; clients wait until it is possible again");
            self.shared.log.line(Level::Warning, text);
        }
    }

    /// A descriptor has become free.
    pub(crate) fn end_rest(&mut self) {
        if let Some(listening) = self.listening.as_mut() {
            listening.rests_until = self.now;
        }
    }

    /// Closes the listeners, or binds them again.
    pub(crate) fn set_accepting(&mut self, on: bool) {
        let Some(listening) = self.listening.as_mut() else { return };
        if !on {
            listening.listeners.clear();
            listening.ready.clear();
        } else if listening.listeners.is_empty()
            && let Err(error) = listening.rebind(self.poll.registry())
        {
            self.shared.log.line(Level::Error, format_args!("{error}"));
        }
    }
}

fn bind_all(addresses: &[SocketAddr], plan: &Listen) -> Result<(Vec<Listener>, Bound), StartError> {
    let mut listeners = Vec::new();
    let mut bound = Bound::default();
    for address in addresses {
        let listener = bind_tcp(*address, plan.backlog).map_err(|e| refused(address, &e))?;
        bound.tcp.push(listener.local_addr().unwrap_or(*address));
        listeners.push(Listener::Tcp(listener));
    }
    if let Some(dir) = &plan.unix_socket_dir {
        let path = socket_path(dir, plan.port);
        let listener = bind_unix(&path, plan).map_err(|e| refused(&path.display(), &e))?;
        bound.unix = Some(path);
        listeners.push(listener);
    }
    Ok((listeners, bound))
}

fn bind_tcp(address: SocketAddr, backlog: u32) -> io::Result<TcpListener> {
    let socket = Raw::new(Domain::for_address(address), Type::STREAM.cloexec().nonblocking(), None)?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_tcp_nodelay(true)?;
    socket.set_keepalive(true)?;
    socket.bind(&address.into())?;
    socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
    Ok(TcpListener::from_std(socket.into()))
}

/// Binds the Unix socket. Its permissions are in place before it listens, so nobody slips in between.
fn bind_unix(path: &Path, plan: &Listen) -> io::Result<Listener> {
    remove_stale(path)?;
    let socket = Raw::new(Domain::UNIX, Type::STREAM.cloexec().nonblocking(), None)?;
    socket.bind(&SockAddr::unix(path)?)?;
    let file = SocketFile { path: path.to_owned(), identity: identity(path)? };
    fs::set_permissions(path, Permissions::from_mode(plan.unix_socket_mode))?;
    socket.listen(i32::try_from(plan.backlog).unwrap_or(i32::MAX))?;
    Ok(Listener::Unix(UnixListener::from_std(socket.into()), file))
}

/// Removes a socket that a process left behind: only a socket, and only if nothing answers on it.
fn remove_stale(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(io::Error::new(ErrorKind::AlreadyExists, "a file of this name exists and is no socket"));
        }
        Ok(_) => {}
    }
    // Without blocking: one whose queue is full is alive, too.
    let probe = Raw::new(Domain::UNIX, Type::STREAM.cloexec().nonblocking(), None)?;
    match probe.connect(&SockAddr::unix(path)?).map_err(|error| error.kind()) {
        Err(ErrorKind::ConnectionRefused) => fs::remove_file(path),
        Err(ErrorKind::NotFound) => Ok(()),
        Ok(()) | Err(ErrorKind::WouldBlock) => Err(ErrorKind::AddrInUse.into()),
        Err(kind) => Err(kind.into()),
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|m| (m.dev(), m.ino()))
}

/// One line that says what could not be listened on, why, and what to do.
fn refused(what: &dyn fmt::Display, error: &io::Error) -> StartError {
    let advice = match error.kind() {
        ErrorKind::AddrInUse => {
            "the address is in use; stop the program that listens there, or set another port".into()
        }
        ErrorKind::AddrNotAvailable => "no interface of this machine has this address; set another one".into(),
        ErrorKind::PermissionDenied => "permission denied; set a port above 1023, or a folder we may write to".into(),
        ErrorKind::NotFound => "the folder does not exist; create it, or set another one".into(),
        _ => error.to_string(),
    };
    StartError::new(format!("can't listen on {what}: {advice}"))
}
