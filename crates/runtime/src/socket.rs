//! One stream socket, TCP or Unix, as the worker's loop uses it.
//!
//! Invariant: the socket is non-blocking; no call here ever waits. Reading and writing, which every query pays for, go to
//! the kernel without libc's cancellation points, which a process with threads pays for at each call.

use std::io::{self, IoSlice, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use rustix::net::{RecvFlags, SendFlags, recv, send};

/// A connected (or connecting) stream socket.
#[derive(Debug)]
pub(crate) enum Socket {
    /// Over TCP.
    Tcp(TcpStream),
    /// Over a Unix socket.
    Unix(UnixStream),
}

impl Socket {
    #[inline]
    pub(crate) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let (read, _) = recv(self.fd(), into, RecvFlags::empty())?;
        Ok(read)
    }

    #[inline]
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(self.fd(), bytes, SendFlags::NOSIGNAL)?)
    }

    pub(crate) fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Socket::Tcp(s) => s.write_vectored(pieces),
            Socket::Unix(s) => s.write_vectored(pieces),
        }
    }

    /// The error that the system keeps for this socket, if any; asking clears it.
    pub(crate) fn take_error(&self) -> io::Result<Option<io::Error>> {
        match self {
            Socket::Tcp(s) => s.take_error(),
            Socket::Unix(s) => s.take_error(),
        }
    }

    /// Whether a connect has ended: fails with `NotConnected` as long as it has not.
    pub(crate) fn check_connected(&self) -> io::Result<()> {
        match self {
            Socket::Tcp(s) => s.peer_addr().map(drop),
            Socket::Unix(s) => s.peer_addr().map(drop),
        }
    }

    #[inline]
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Tcp(s) => s.as_fd(),
            Socket::Unix(s) => s.as_fd(),
        }
    }

    /// Ends both directions; the number stays ours.
    pub(crate) fn shutdown(&self) -> io::Result<()> {
        match self {
            Socket::Tcp(s) => s.shutdown(Shutdown::Both),
            Socket::Unix(s) => s.shutdown(Shutdown::Both),
        }
    }

    pub(crate) fn is_tcp(&self) -> bool {
        matches!(self, Socket::Tcp(_))
    }

    pub(crate) fn register(&mut self, registry: &Registry, token: Token, interest: Interest) -> io::Result<()> {
        match self {
            Socket::Tcp(s) => s.register(registry, token, interest),
            Socket::Unix(s) => s.register(registry, token, interest),
        }
    }

    pub(crate) fn reregister(&mut self, registry: &Registry, token: Token, interest: Interest) -> io::Result<()> {
        match self {
            Socket::Tcp(s) => s.reregister(registry, token, interest),
            Socket::Unix(s) => s.reregister(registry, token, interest),
        }
    }

    pub(crate) fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match self {
            Socket::Tcp(s) => s.deregister(registry),
            Socket::Unix(s) => s.deregister(registry),
        }
    }
}
