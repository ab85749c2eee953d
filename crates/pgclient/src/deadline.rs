//! A TCP socket with a deadline: what TLS reads from and writes to. The deadline can be moved while TLS has the socket.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A socket whose reads and writes all end by the deadline, however few bytes each of them moves.
#[derive(Debug)]
pub struct DeadlineSocket {
    socket: Arc<TcpStream>,
    until: Deadline,
}

/// A deadline; none at first. All clones are the same one.
#[derive(Clone, Debug, Default)]
pub(super) struct Deadline(Arc<Mutex<Option<Instant>>>);

impl Deadline {
    pub(super) fn set(&self, until: Option<Instant>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = until;
    }

    fn get(&self) -> Option<Instant> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DeadlineSocket {
    pub(super) fn new(socket: Arc<TcpStream>, until: Deadline) -> DeadlineSocket {
        DeadlineSocket { socket, until }
    }
}

impl Read for DeadlineSocket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if let Some(until) = self.until.get() {
            self.socket.set_read_timeout(Some(left(until)?))?;
        }
        (&*self.socket).read(into)
    }
}

impl Write for DeadlineSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(until) = self.until.get() {
            self.socket.set_write_timeout(Some(left(until)?))?;
        }
        (&*self.socket).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&*self.socket).flush()
    }
}

/// The time until then; never zero, which a socket takes as no timeout.
pub(super) fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left.max(Duration::from_micros(1))) }
}
