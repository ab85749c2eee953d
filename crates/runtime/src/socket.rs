//! One stream socket, TCP or Unix.
//!
//! Invariant: the socket is non-blocking; no call here blocks. Reads and writes, which every query uses, call the
//! kernel without libc's cancellation points, which cost time in a process with threads.

use std::io::{self, IoSlice, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, connect, recv, send, sockopt};
use weir_base::Span;
use weir_config::Keepalive;

use crate::socket_file::stream_socket;

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

    /// The kernel's pending error of this socket, if any; reading clears it.
    pub(crate) fn take_error(&self) -> io::Result<Option<io::Error>> {
        match self {
            Socket::Tcp(s) => s.take_error(),
            Socket::Unix(s) => s.take_error(),
        }
    }

    /// Whether a connect has ended: fails with `NotConnected` while it has not.
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

    /// Shuts down both directions; the descriptor stays open.
    pub(crate) fn shutdown(&self) -> io::Result<()> {
        match self {
            Socket::Tcp(s) => s.shutdown(Shutdown::Both),
            Socket::Unix(s) => s.shutdown(Shutdown::Both),
        }
    }

    /// Sends the end of the stream; reading continues.
    pub(crate) fn end_stream(&self) -> io::Result<()> {
        match self {
            Socket::Tcp(s) => s.shutdown(Shutdown::Write),
            Socket::Unix(s) => s.shutdown(Shutdown::Write),
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

/// Begins to connect. The socket is tuned before: a receive buffer that is made smaller once the window has been
/// announced makes the other end wait for its retransmission timer, again and again.
pub(crate) fn connect_tcp(address: SocketAddr, keepalive: &Keepalive) -> io::Result<Socket> {
    let socket = stream_socket(if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET })?;
    tune(&socket, keepalive)?;
    match connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(Socket::Tcp(TcpStream::from_std(socket.into()))),
        Err(error) => Err(error.into()),
    }
}

/// The path of PostgreSQL's socket in `dir` (libpq's and the server's rule).
pub(crate) fn socket_path(dir: &Path, port: u16) -> PathBuf {
    dir.join(format!(".s.PGSQL.{port}"))
}

/// Sets the options of all TCP sockets: TCP_NODELAY and keepalive.
pub(crate) fn tune(socket: impl AsFd, keepalive: &Keepalive) -> io::Result<()> {
    let socket = socket.as_fd();
    let time = |span: Span| Duration::from_micros(span.micros());
    sockopt::set_tcp_nodelay(socket, true)?;
    sockopt::set_socket_keepalive(socket, keepalive.on)?;
    if keepalive.on && !keepalive.idle.is_zero() {
        sockopt::set_tcp_keepidle(socket, time(keepalive.idle))?;
    }
    if keepalive.on && !keepalive.interval.is_zero() {
        sockopt::set_tcp_keepintvl(socket, time(keepalive.interval))?;
    }
    if keepalive.on && keepalive.count > 0 {
        sockopt::set_tcp_keepcnt(socket, keepalive.count)?;
    }
    #[cfg(target_os = "linux")]
    if !keepalive.user_timeout.is_zero() {
        let milliseconds = keepalive.user_timeout.micros() / 1_000;
        sockopt::set_tcp_user_timeout(socket, u32::try_from(milliseconds).unwrap_or(u32::MAX))?;
    }
    if keepalive.buffer > 0 {
        sockopt::set_socket_send_buffer_size(socket, keepalive.buffer as usize)?;
        sockopt::set_socket_recv_buffer_size(socket, keepalive.buffer as usize)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use socket2::{Domain, Socket as Raw, Type};

    use super::*;

    /// What a small window costs: with it announced from the start, a bulk transfer continues at the reader's pace.
    #[test]
    fn a_small_buffer_does_not_stall_a_bulk_transfer() {
        use std::io::Read;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let keepalive = Keepalive { buffer: 4096, ..Keepalive::default() };
        let mut reader = connect_tcp(listener.local_addr().unwrap(), &keepalive).unwrap();
        let (mut writer, _) = listener.accept().unwrap();
        const BYTES: usize = 2 << 20;
        let sending =
            std::thread::spawn(move || writer.write_all(&vec![1; BYTES]).and_then(|()| writer.read(&mut [0])));
        let (began, mut got, mut buffer) = (std::time::Instant::now(), 0, vec![0; 16 << 10]);
        while got < BYTES {
            match reader.read(&mut buffer) {
                Ok(read) => got += read,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    std::thread::sleep(Duration::from_micros(50))
                }
                Err(error) => panic!("{error}"),
            }
            assert!(began.elapsed() < Duration::from_secs(20), "{got} bytes came");
        }
        drop(reader);
        let _ = sending.join();
    }

    #[test]
    fn what_is_asked_of_a_socket_is_what_the_system_answers() {
        let socket = Raw::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let keepalive = Keepalive {
            on: true,
            idle: Span::from_secs(77),
            interval: Span::from_secs(7),
            count: 3,
            user_timeout: Span::from_millis(1_234),
            server: Span::ZERO,
            buffer: 32_768,
        };
        let usual = socket.recv_buffer_size().unwrap();
        tune(&socket, &keepalive).unwrap();
        assert!(socket.keepalive().unwrap() && socket.tcp_nodelay().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), Duration::from_secs(77));
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), Duration::from_secs(7));
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), 3);
        #[cfg(target_os = "linux")]
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(Duration::from_millis(1_234)));
        // Linux doubles the requested size, for its own overhead.
        let buffer = socket.recv_buffer_size().unwrap();
        assert!(buffer != usual && [32_768, 65_536].contains(&buffer), "{buffer}, {usual} before");

        let plain = Raw::new(Domain::IPV4, Type::STREAM, None).unwrap();
        tune(&plain, &Keepalive::default()).unwrap();
        assert!(!plain.keepalive().unwrap());
        assert_eq!(plain.recv_buffer_size().unwrap(), usual);
    }
}
