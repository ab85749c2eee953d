//! A TCP socket for who encrypts: bytes in and out, none of them after a moment that was agreed on.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// A socket whose reads and writes all end by a certain moment, however little each of them moves.
#[derive(Debug)]
pub struct Wire {
    socket: TcpStream,
    until: Option<Instant>,
}

impl Wire {
    pub(super) fn new(socket: TcpStream, until: Option<Instant>) -> Wire {
        Wire { socket, until }
    }
}

impl Read for Wire {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if let Some(until) = self.until {
            self.socket.set_read_timeout(Some(left(until)?))?;
        }
        self.socket.read(into)
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(until) = self.until {
            self.socket.set_write_timeout(Some(left(until)?))?;
        }
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

/// How long it is until then; never nothing, which a socket takes for ever.
pub(super) fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left.max(Duration::from_micros(1))) }
}
