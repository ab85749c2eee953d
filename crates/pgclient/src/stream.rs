//! The socket, TCP or Unix, encrypted or not, and the cutting of what it delivers into messages.
//!
//! Invariant: bytes are taken out of `incoming` in whole messages only, so a read that ran out of time can be repeated.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use weir_pgwire::Head;

use crate::deadline::{Deadline, DeadlineSocket, left};
use crate::error::Error;
use crate::frame::Frame;
use crate::params::{Address, Bounds};

/// How much is read at once.
const CHUNK: usize = 16 * 1024;

#[derive(Debug)]
enum Socket {
    Tcp(Arc<TcpStream>),
    Unix(UnixStream),
    /// What encrypts, and the socket below it, which both have.
    Encrypted(Encrypted, Arc<TcpStream>),
}

/// Bytes through an encryption.
pub trait Transport: Read + Write + Send {}

impl<T: Read + Write + Send> Transport for T {}

struct Encrypted(Box<dyn Transport>);

impl fmt::Debug for Encrypted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Encrypted")
    }
}

#[derive(Debug)]
pub(super) struct Stream {
    socket: Socket,
    incoming: Vec<u8>,
    /// How far `incoming` has been taken.
    at: usize,
    /// The limit of one read, where the caller names none.
    timeout: Duration,
    /// The read timeout that is set on the socket.
    socket_timeout: Option<Duration>,
    /// The deadline, and the bytes that may still come.
    bounds: Option<Bounds>,
    /// The same deadline, for what encrypts.
    deadline: Deadline,
}

impl Stream {
    pub(super) fn connect(address: &Address, timeout: Duration, bounds: Option<Bounds>) -> Result<Self, Error> {
        let socket = match address {
            Address::Tcp { host, port } => Socket::Tcp(Arc::new(connect_tcp(host, *port, timeout, bounds)?)),
            Address::Unix(path) => Socket::Unix(UnixStream::connect(path)?),
        };
        let deadline = Deadline::default();
        deadline.set(bounds.map(|bounds| bounds.until));
        let mut stream =
            Stream { socket, incoming: Vec::new(), at: 0, timeout, socket_timeout: None, bounds, deadline };
        match &stream.socket {
            Socket::Tcp(socket) | Socket::Encrypted(_, socket) => socket.set_write_timeout(Some(timeout))?,
            Socket::Unix(socket) => socket.set_write_timeout(Some(timeout))?,
        }
        stream.set_timeout(timeout)?;
        Ok(stream)
    }

    /// Whether the server is on this machine: a Unix socket, or a loopback address.
    pub(super) fn is_local(&self) -> bool {
        match &self.socket {
            Socket::Tcp(socket) | Socket::Encrypted(_, socket) => {
                socket.peer_addr().is_ok_and(|address| address.ip().to_canonical().is_loopback())
            }
            Socket::Unix(_) => true,
        }
    }

    /// Other bounds from here on.
    pub(super) fn renew(&mut self, bounds: Bounds) {
        self.bounds = Some(bounds);
        self.deadline.set(Some(bounds.until));
    }

    /// The stream with its socket behind TLS, which `handshake` makes. A Unix socket stays as it is.
    pub(super) fn encrypt(
        self,
        handshake: impl FnOnce(DeadlineSocket) -> io::Result<Box<dyn Transport>>,
    ) -> Result<Self, Error> {
        let Socket::Tcp(socket) = self.socket else { return Ok(self) };
        let below_tls = DeadlineSocket::new(socket.clone(), self.deadline.clone());
        let socket = Socket::Encrypted(Encrypted(handshake(below_tls)?), socket);
        Ok(Stream { socket, ..self })
    }

    pub(super) fn into_tcp(self) -> Option<TcpStream> {
        match self.socket {
            Socket::Tcp(socket) if self.at == self.incoming.len() => Arc::into_inner(socket),
            _ => None,
        }
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<(), Error> {
        match &mut self.socket {
            Socket::Tcp(socket) => (&**socket).write_all(bytes)?,
            Socket::Unix(socket) => socket.write_all(bytes)?,
            Socket::Encrypted(through, _) => {
                through.0.write_all(bytes)?;
                through.0.flush()?;
            }
        }
        Ok(())
    }

    pub(super) fn shutdown_write(&mut self) -> Result<(), Error> {
        match &self.socket {
            Socket::Tcp(socket) | Socket::Encrypted(_, socket) => socket.shutdown(Shutdown::Write)?,
            Socket::Unix(socket) => socket.shutdown(Shutdown::Write)?,
        }
        Ok(())
    }

    /// The next whole message; each read within `timeout`, or within the stream's own.
    pub(super) fn frame(&mut self, timeout: Option<Duration>) -> Result<Frame, Error> {
        self.set_timeout(timeout.unwrap_or(self.timeout))?;
        loop {
            let ready = &self.incoming[self.at..];
            let needed = match Head::parse(ready)? {
                Some(head) if ready.len() >= head.total() => {
                    let body = ready[weir_pgwire::HEAD..head.total()].to_vec();
                    self.at += head.total();
                    return Ok(Frame { tag: head.tag, body });
                }
                Some(head) if self.is_too_much(head.total() - ready.len()) => return Err(too_much()),
                Some(head) => head.total() - ready.len(),
                None => 1,
            };
            self.more(needed)?;
        }
    }

    /// What there is, or what comes next, within the stream's own timeout.
    pub(super) fn answer(&mut self) -> Result<Vec<u8>, Error> {
        self.bytes(self.timeout)
    }

    /// What there is, or what comes next.
    pub(super) fn bytes(&mut self, timeout: Duration) -> Result<Vec<u8>, Error> {
        self.set_timeout(timeout)?;
        if self.at == self.incoming.len() {
            self.more(1)?;
        }
        let bytes = self.incoming[self.at..].to_vec();
        self.at = self.incoming.len();
        Ok(bytes)
    }

    /// Whether the server may not send this many bytes more.
    fn is_too_much(&self, bytes: usize) -> bool {
        self.bounds.is_some_and(|bounds| bytes > bounds.bytes)
    }

    /// One read, of as much as is missing or a chunk.
    fn more(&mut self, needed: usize) -> Result<(), Error> {
        if let Some(until) = self.bounds.map(|bounds| bounds.until) {
            self.set_timeout(left(until)?.min(self.timeout))?;
        }
        self.incoming.drain(..self.at);
        self.at = 0;
        let have = self.incoming.len();
        self.incoming.resize(have + needed.clamp(CHUNK, 64 * CHUNK), 0);
        let outcome = self.read_at(have);
        self.incoming.truncate(have + *outcome.as_ref().unwrap_or(&0));
        match outcome {
            Ok(0) if have == 0 => Err(Error::Closed),
            Ok(0) => Err(Error::Io(io::ErrorKind::UnexpectedEof.into())),
            Ok(count) if self.is_too_much(count) => Err(too_much()),
            Ok(count) => {
                self.bounds.iter_mut().for_each(|bounds| bounds.bytes -= count);
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    fn read_at(&mut self, at: usize) -> io::Result<usize> {
        loop {
            let outcome = match &mut self.socket {
                Socket::Tcp(socket) => (&**socket).read(&mut self.incoming[at..]),
                Socket::Unix(socket) => socket.read(&mut self.incoming[at..]),
                Socket::Encrypted(through, _) => through.0.read(&mut self.incoming[at..]),
            };
            match outcome {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                outcome => return outcome,
            }
        }
    }

    fn set_timeout(&mut self, timeout: Duration) -> io::Result<()> {
        // Zero would mean for ever.
        let timeout = timeout.max(Duration::from_micros(1));
        if self.socket_timeout != Some(timeout) {
            match &self.socket {
                Socket::Tcp(socket) | Socket::Encrypted(_, socket) => socket.set_read_timeout(Some(timeout))?,
                Socket::Unix(socket) => socket.set_read_timeout(Some(timeout))?,
            }
            self.socket_timeout = Some(timeout);
        }
        Ok(())
    }
}

fn too_much() -> Error {
    Error::Protocol("the server sends more than belongs to an answer".to_owned())
}

/// Tries each address that the name has, as libpq does.
fn connect_tcp(host: &str, port: u16, timeout: Duration, bounds: Option<Bounds>) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host's name has no address");
    for address in (host, port).to_socket_addrs()? {
        let timeout = bounds.map_or(Ok(timeout), |bounds| left(bounds.until).map(|left| left.min(timeout)))?;
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(socket) => {
                socket.set_nodelay(true)?;
                return Ok(socket);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}
