//! Listeners: binding them, and accepting from them without busy loops.
//!
//! Owns the listening sockets (worker 0 has them all) and the Unix socket's file. TCP_NODELAY and SO_KEEPALIVE are set
//! on the listener; Linux copies them to each accepted socket, so that a login costs no calls for them. When
//! descriptors run out, accepting pauses until one is free or a second has passed.

use std::fmt;
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use mio::event::Source;
use mio::net::{TcpListener, UnixListener};
use mio::{Interest, Registry, Token};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd::Group;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, bind, listen, sockopt};
use weir_base::{ClientAddr, Span, Time};
use weir_config::Listen;
use weir_uring::defer_accept;

use crate::port_owner;
use crate::slots::WAKER;
use crate::socket::{Socket, socket_path, tune};
use crate::socket_file::{FileUsers, SocketFile, remove_stale, stream_socket, unix_address};
use crate::start_error::StartError;
use crate::upgrade::{ListenerKind, Offered, UpgradeSocket};

/// How long accepting rests when the system refuses, unless a descriptor is freed earlier.
const REST: Span = Span::from_secs(1);

/// The bound addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bound {
    /// Addresses and ports.
    pub tcp: Vec<SocketAddr>,
    /// The Unix socket's path.
    pub unix: Option<PathBuf>,
}

/// Listening sockets opened by another process, such as systemd (its socket activation, sd_listen_fds(3)).
#[derive(Debug, Default)]
pub struct Inherited {
    tcp: Vec<std::net::TcpListener>,
    unix: Vec<std::os::unix::net::UnixListener>,
    /// Paths whose files are ours, though another process made them.
    files: Vec<PathBuf>,
}

impl Inherited {
    /// Takes the sockets that the environment names (`LISTEN_PID`, `LISTEN_FDS`).
    pub fn from_environment() -> Inherited {
        let mut inherited = Inherited::default();
        let mut given = listenfd::ListenFd::from_env();
        for i in 0..given.len() {
            if let Ok(Some(listener)) = given.take_tcp_listener(i) {
                inherited.tcp.push(listener);
            } else if let Ok(Some(listener)) = given.take_unix_listener(i) {
                inherited.unix.push(listener);
            }
        }
        inherited
    }

    /// The sockets of a process that this one takes over from, and the socket of the next take-over.
    pub(crate) fn from_process(offered: Offered, users: &FileUsers) -> io::Result<(Inherited, Option<UpgradeSocket>)> {
        let (mut inherited, mut upgrade) = (Inherited::default(), None);
        for (kind, fd) in offered {
            match kind {
                ListenerKind::Tcp => inherited.tcp.push(fd.into()),
                ListenerKind::Unix(path, ours) => {
                    inherited.unix.push(fd.into());
                    inherited.files.extend(ours.then_some(path));
                }
                ListenerKind::Upgrade(path) => upgrade = Some(UpgradeSocket::inherited(fd.into(), &path, users)?),
                ListenerKind::Web | ListenerKind::Errors => {}
            }
        }
        Ok((inherited, upgrade))
    }

    /// Whether no socket was handed to us.
    pub fn is_empty(&self) -> bool {
        self.tcp.is_empty() && self.unix.is_empty()
    }

    fn take(self, plan: &Listen, users: &FileUsers) -> io::Result<(Vec<Listener>, Bound)> {
        let mut bound = Bound::default();
        let mut listeners = Vec::new();
        for listener in self.unix {
            listener.set_nonblocking(true)?;
            bound.unix = listener.local_addr()?.as_pathname().map(Path::to_owned);
            // The file belongs to the process that opened it, which may have left it to us.
            let ours = bound.unix.as_ref().filter(|path| self.files.contains(path));
            let file = ours.map(|path| SocketFile::of(path, users)).transpose()?;
            listeners.push(Listener::Unix(UnixListener::from_std(listener), file));
        }
        for listener in self.tcp {
            listener.set_nonblocking(true)?;
            tune(&listener, &plan.keepalive)?;
            defer_accept(&listener, plan.defer_accept)?;
            bound.tcp.push(listener.local_addr()?);
            listeners.push(Listener::Tcp(TcpListener::from_std(listener)));
        }
        Ok((listeners, bound))
    }
}

#[derive(Debug)]
enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, Option<SocketFile>),
}

impl Listener {
    fn source(&mut self) -> &mut dyn Source {
        match self {
            Listener::Tcp(l) => l,
            Listener::Unix(l, _) => l,
        }
    }

    /// Whether a client waits. accept(2) would show it, too, but makes a socket and a file first: ten times the cost of
    /// poll(2).
    fn has_client(&self) -> bool {
        let listener = match self {
            Listener::Tcp(l) => l.as_fd(),
            Listener::Unix(l, _) => l.as_fd(),
        };
        let waits = poll(&mut [PollFd::new(&listener, PollFlags::IN)], Some(&Timespec::default()));
        !matches!(waits, Ok(0))
    }

    fn accept(&self) -> io::Result<(Socket, ClientAddr)> {
        match self {
            Listener::Tcp(l) => {
                let (socket, from) = l.accept()?;
                Ok((Socket::Tcp(socket), ClientAddr::Tcp(from)))
            }
            Listener::Unix(l, _) => {
                let (socket, _) = l.accept()?;
                // A client with unknown credentials is refused.
                let who = getsockopt(&socket, PeerCredentials).map_err(|_| ErrorKind::ConnectionAborted)?;
                // The kernel returns 0 for a process in another namespace.
                let pid = u32::try_from(who.pid()).unwrap_or_default();
                Ok((Socket::Unix(socket), ClientAddr::Unix { pid, uid: who.uid() }))
            }
        }
    }
}

/// All listeners of the process, and which of them may have clients to accept.
#[derive(Debug)]
pub(crate) struct Listening {
    plan: Listen,
    bound: Bound,
    /// Why each address was left out that was.
    skipped: Vec<StartError>,
    /// Unix sockets first.
    listeners: Vec<Listener>,
    /// Whether each listener may have more clients to accept, by listener.
    ready: Vec<bool>,
    /// The listener that is tried first, so that listeners are served alternately.
    first: usize,
    /// The time until which accepting pauses.
    rests_until: Time,
    complained: bool,
}

impl Listening {
    /// Binds everything, or nothing; with [`Listen::skip_unusable`] at least one address. `users`: other users of the
    /// files.
    pub(crate) fn bind(plan: Listen, inherited: Inherited, users: &FileUsers) -> Result<Listening, StartError> {
        let (listeners, bound, skipped) = if inherited.is_empty() {
            let addresses: Vec<SocketAddr> = plan.addresses.iter().map(|ip| SocketAddr::new(*ip, plan.port)).collect();
            bind_all(&addresses, &plan, users)?
        } else {
            let taken = inherited.take(&plan, users);
            let (listeners, bound) =
                taken.map_err(|e| StartError::new(format!("an inherited socket can't be used: {e}")))?;
            (listeners, bound, Vec::new())
        };
        let ready = vec![false; listeners.len()];
        let (first, rests_until, complained) = (0, Time::START, false);
        Ok(Listening { plan, bound, skipped, listeners, ready, first, rests_until, complained })
    }

    /// Listens on TCP again, on the same ports as before, also where the system had chosen them.
    fn rebind(&mut self, registry: &Registry) -> Result<(), StartError> {
        let staying = self.local();
        let (bound, _) = bind_tcp_all(&self.bound.tcp, &self.plan)?;
        for listener in bound {
            self.listeners.push(Listener::Tcp(listener));
            self.ready.push(false);
        }
        self.register_from(staying, registry).map_err(|error| StartError::new(format!("can't listen: {error}")))
    }

    /// Whether TCP clients are accepted when they have sent something.
    pub(crate) fn defers(&self) -> bool {
        self.plan.defer_accept
    }

    /// The number of listeners that are not TCP listeners; these are first in the list.
    fn local(&self) -> usize {
        self.listeners.iter().take_while(|listener| matches!(listener, Listener::Unix(..))).count()
    }

    pub(crate) fn bound(&self) -> &Bound {
        &self.bound
    }

    /// Why an address is not listened on, for each that was left out.
    pub(crate) fn skipped(&self) -> &[StartError] {
        &self.skipped
    }

    /// Registers all listeners with epoll.
    pub(crate) fn register(&mut self, registry: &Registry) -> io::Result<()> {
        self.register_from(0, registry)
    }

    fn register_from(&mut self, first: usize, registry: &Registry) -> io::Result<()> {
        for (i, listener) in self.listeners.iter_mut().enumerate().skip(first) {
            registry.register(listener.source(), token(i), Interest::READABLE)?;
        }
        Ok(())
    }

    /// Handles an event whose token is not a connection's.
    pub(crate) fn event(&mut self, event: Token) {
        if let Some(ready) = self.ready.get_mut(WAKER.0 - 1 - event.0) {
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

    /// Accepts a client, if one waits and accepting is not paused. An error means that the system accepts no client at
    /// all.
    pub(crate) fn accept(&mut self, now: Time) -> io::Result<Option<(Socket, ClientAddr)>> {
        if now < self.rests_until {
            return Ok(None);
        }
        while let Some(i) = self.next() {
            match self.listeners[i].accept() {
                Ok(accepted) => {
                    self.ready[i] = self.listeners[i].has_client();
                    self.complained &= self.ready[i];
                    return Ok(Some(accepted));
                }
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => {
                        self.ready[i] = false;
                        self.complained = false;
                    }
                    // This client has disconnected already; the next one may wait.
                    ErrorKind::Interrupted | ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset => {}
                    ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable | ErrorKind::NetworkDown => {}
                    _ => return Err(error),
                },
            }
        }
        Ok(None)
    }

    /// Pauses accepting for [`REST`] after a refusal of the system. Returns whether it is the first one since a client
    /// was accepted.
    pub(crate) fn rest(&mut self, now: Time) -> bool {
        self.rests_until = now + REST;
        !std::mem::replace(&mut self.complained, true)
    }

    /// Ends the pause: a descriptor has become free.
    pub(crate) fn end_rest(&mut self, now: Time) {
        self.rests_until = now;
    }

    /// Closes the TCP listeners, or binds them again. The Unix socket stays, since operators use it for the console.
    pub(crate) fn set_accepting(&mut self, on: bool, registry: &Registry) -> Result<(), StartError> {
        let local = self.local();
        if !on {
            self.listeners.truncate(local);
            self.ready.truncate(local);
        } else if self.listeners.len() == local {
            self.rebind(registry)?;
        }
        Ok(())
    }

    /// Applies a configuration to the TCP listeners.
    pub(crate) fn apply_config(&mut self, plan: &Listen) -> io::Result<()> {
        if std::mem::replace(&mut self.plan.defer_accept, plan.defer_accept) == plan.defer_accept {
            return Ok(());
        }
        let tcp = |listener: &Listener| match listener {
            Listener::Tcp(tcp) => defer_accept(tcp, plan.defer_accept),
            Listener::Unix(..) => Ok(()),
        };
        self.listeners.iter().try_for_each(tcp)
    }

    /// Accepts, or leaves that to another process, which has the same sockets.
    pub(crate) fn listen(&mut self, on: bool, registry: &Registry) -> io::Result<()> {
        self.ready.fill(false);
        if on {
            return self.register(registry);
        }
        self.listeners.iter_mut().try_for_each(|listener| registry.deregister(listener.source()))
    }

    /// The sockets, for a process that takes over. One that can't be duplicated is not offered.
    pub(crate) fn offer(&self) -> Offered {
        let offer = |listener: &Listener| match listener {
            Listener::Tcp(tcp) => Some((ListenerKind::Tcp, tcp.as_fd().try_clone_to_owned().ok()?)),
            Listener::Unix(unix, file) => {
                let path = self.bound.unix.clone().unwrap_or_default();
                Some((ListenerKind::Unix(path, file.is_some()), unix.as_fd().try_clone_to_owned().ok()?))
            }
        };
        self.listeners.iter().filter_map(offer).collect()
    }

    /// When to call again for what waits to be accepted: now, at the end of a rest, or not at all.
    pub(crate) fn deadline(&self) -> Time {
        if self.ready.contains(&true) { self.rests_until } else { Time::NEVER }
    }
}

/// The tokens of listeners are just below the waker's.
fn token(i: usize) -> Token {
    Token(WAKER.0 - 1 - i)
}

/// The listeners, where they are, and why an address was left out.
type AllBound = (Vec<Listener>, Bound, Vec<StartError>);

fn bind_all(addresses: &[SocketAddr], plan: &Listen, users: &FileUsers) -> Result<AllBound, StartError> {
    let mut listeners = Vec::new();
    let mut bound = Bound::default();
    if let Some(dir) = &plan.unix_socket_dir {
        let path = socket_path(dir, plan.port);
        let listener = bind_unix(&path, plan, users).map_err(|e| refused(&path.display(), &e))?;
        bound.unix = Some(path);
        listeners.push(listener);
    }
    let (tcp, skipped) = bind_tcp_all(addresses, plan)?;
    for listener in tcp {
        let address = listener.local_addr().map_err(StartError::because("can't listen"))?;
        bound.tcp.push(address);
        listeners.push(Listener::Tcp(listener));
    }
    Ok((listeners, bound, skipped))
}

/// Binds all addresses; with [`Listen::skip_unusable`] those that can be, if there is one.
fn bind_tcp_all(addresses: &[SocketAddr], plan: &Listen) -> Result<(Vec<TcpListener>, Vec<StartError>), StartError> {
    let (mut bound, mut skipped) = (Vec::new(), Vec::new());
    for address in addresses {
        match bind_tcp(*address, plan) {
            Ok(listener) => bound.push(listener),
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                skipped.push(StartError::in_use(address, "[listen] port; listen_port in an ini"));
            }
            Err(error) => skipped.push(refused(address, &error)),
        }
    }
    let may_skip = plan.skip_unusable && !bound.is_empty();
    if may_skip || skipped.is_empty() { Ok((bound, skipped)) } else { Err(skipped.swap_remove(0)) }
}

/// Why a start could not listen on an address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AddressProblem {
    /// Another program listens there: which, if it can be seen.
    InUse(Option<String>),
    /// No interface of this machine has the address.
    NoInterface,
}

/// The addresses on which a start could not listen; each is tried once. A Weir that serves `file` is not another program.
pub fn address_problems(addresses: &[SocketAddr], reuse_port: bool, file: &Path) -> Vec<(SocketAddr, AddressProblem)> {
    let tried =
        addresses.iter().filter_map(|address| Some((*address, bound_socket(*address, reuse_port).err()?.kind())));
    let failed: Vec<(SocketAddr, ErrorKind)> = tried.collect();
    let is_ours = failed.iter().any(|(_, kind)| *kind == ErrorKind::AddrInUse) && port_owner::is_served(file);
    let problem = |(address, kind): (SocketAddr, ErrorKind)| match kind {
        ErrorKind::AddrInUse if is_ours => None,
        ErrorKind::AddrInUse => Some((address, AddressProblem::InUse(port_owner::owner(address.port())))),
        ErrorKind::AddrNotAvailable => Some((address, AddressProblem::NoInterface)),
        _ => None,
    };
    failed.into_iter().filter_map(problem).collect()
}

/// A socket with this address, which does not listen yet.
fn bound_socket(address: SocketAddr, reuse_port: bool) -> io::Result<OwnedFd> {
    let socket = stream_socket(if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET })?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    if reuse_port {
        sockopt::set_socket_reuseport(&socket, true)?;
    }
    bind(&socket, &address)?;
    Ok(socket)
}

fn bind_tcp(address: SocketAddr, plan: &Listen) -> io::Result<TcpListener> {
    let socket = bound_socket(address, plan.reuse_port)?;
    tune(&socket, &plan.keepalive)?;
    defer_accept(&socket, plan.defer_accept)?;
    listen(&socket, i32::try_from(plan.backlog).unwrap_or(i32::MAX))?;
    Ok(TcpListener::from_std(socket.into()))
}

/// Binds the Unix socket. Its permissions are set before it listens, so no client can connect earlier.
fn bind_unix(path: &Path, plan: &Listen, users: &FileUsers) -> io::Result<Listener> {
    remove_stale(path)?;
    let socket = stream_socket(AddressFamily::UNIX)?;
    bind(&socket, &unix_address(path)?)?;
    let file = SocketFile::of(path, users)?;
    if let Some(group) = &plan.unix_socket_group {
        let found = Group::from_name(group)?.ok_or_else(|| io::Error::other(format!("there is no group {group}")))?;
        nix::unistd::chown(path, None, Some(found.gid))?;
    }
    fs::set_permissions(path, Permissions::from_mode(plan.unix_socket_mode))?;
    listen(&socket, i32::try_from(plan.backlog).unwrap_or(i32::MAX))?;
    Ok(Listener::Unix(UnixListener::from_std(socket.into()), Some(file)))
}

impl StartError {
    /// Another program listens on an address: one line, with that program where /proc shows it. `settings`: what sets the
    /// port.
    pub fn in_use(address: &SocketAddr, settings: &str) -> StartError {
        let by = port_owner::owner(address.port());
        let stop = if by.is_some() { "it" } else { "the program that listens there" };
        let by = by.map_or_else(String::new, |by| format!(" by {by}"));
        StartError::new(format!(
            "can't listen on {address}: the address is in use{by}; stop {stop}, or set another port ({settings})"
        ))
    }
}

/// One line that says what could not be listened on, why, and what to do.
fn refused(what: &dyn fmt::Display, error: &io::Error) -> StartError {
    let advice = match error.kind() {
        // Of a Unix socket.
        ErrorKind::AddrInUse => {
            "the address is in use; stop the program that listens there, or set another port".into()
        }
        ErrorKind::AddrNotAvailable => "no interface of this machine has this address; set another one ([listen] address; listen_addr in an ini)".into(),
        ErrorKind::PermissionDenied => {
            "permission denied; set a port above 1023 ([listen] port; listen_port in an ini), or a folder that this process may write to (unix_socket_dir)".into()
        }
        ErrorKind::NotFound => "the folder does not exist; create it, or set another one".into(),
        ErrorKind::NotADirectory => "that is no folder; set another one".into(),
        // For a path, before the system has seen it.
        ErrorKind::InvalidInput => "the path is too long for a socket; set a folder with a shorter one".into(),
        _ => error.to_string(),
    };
    StartError::new(format!("can't listen on {what}: {advice}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unusable_address_is_reported_with_what_to_do() {
        let refused = |path: String| {
            let folder = Path::new(&path);
            let error = std::os::unix::net::UnixListener::bind(folder.join("s")).unwrap_err();
            refused(&path, &error).to_string()
        };
        assert!(refused("/no/such".into()).ends_with("the folder does not exist; create it, or set another one"));
        assert!(refused("/etc/passwd".into()).ends_with("that is no folder; set another one"));
        assert!(refused(format!("/tmp/{}", "x".repeat(200))).ends_with("set a folder with a shorter one"));
    }
}
