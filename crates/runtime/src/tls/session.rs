//! An encrypted connection: bytes in, bytes out.
//!
//! Invariant: `held` is exactly what rustls has seen and not discarded. It must be passed again, from its first byte,
//! at every call: rustls stores positions in it. It is less than a record and normally empty between two messages, so
//! an idle connection has no buffers of ours.

use std::fmt;

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, InsufficientSizeError, UnbufferedStatus,
};
use rustls::{CommonState, Error};

/// What a record adds to its bytes, with room to spare: the header, the explicit nonce of TLS 1.2, the tag.
const RECORD_OVERHEAD: usize = 64;
/// The most content bytes of a record.
const RECORD: usize = 16 * 1024;

/// An encrypted connection, during or after its handshake.
#[derive(Debug)]
pub(crate) struct Session {
    side: Side,
    /// Bytes of a record that is not complete, or of a message of several records.
    held: Vec<u8>,
    /// Bytes decrypted with the end of the handshake, and not delivered yet.
    early: Vec<u8>,
    end: End,
}

enum Side {
    /// We accepted.
    Server(UnbufferedServerConnection),
    /// We connected.
    Client(UnbufferedClientConnection),
}

impl fmt::Debug for Side {
    // Keys are in there.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if matches!(self, Side::Server(_)) { "Server" } else { "Client" })
    }
}

/// How far a connection has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// It goes on.
    Open,
    /// The other side has said that nothing more will come (close_notify).
    Closed,
    /// It is not to be used any more.
    Broken,
}

/// The two kinds of connections of the library, as one.
trait Records {
    type Data;
    fn next<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;
}

impl Records for UnbufferedServerConnection {
    type Data = ServerConnectionData;
    #[inline]
    fn next<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }
}

impl Records for UnbufferedClientConnection {
    type Data = ClientConnectionData;
    #[inline]
    fn next<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }
}

impl Session {
    pub(crate) fn accepted(connection: UnbufferedServerConnection) -> Session {
        Session { side: Side::Server(connection), held: Vec::new(), early: Vec::new(), end: End::Open }
    }

    pub(crate) fn connected(connection: UnbufferedClientConnection) -> Session {
        Session { side: Side::Client(connection), held: Vec::new(), early: Vec::new(), end: End::Open }
    }

    /// What both sides have agreed on.
    pub(crate) fn common(&self) -> &CommonState {
        match &self.side {
            Side::Server(connection) => connection,
            Side::Client(connection) => connection,
        }
    }

    pub(crate) fn end(&self) -> End {
        self.end
    }

    /// The bytes that the library has seen and still needs.
    pub(crate) fn held(&self) -> &[u8] {
        &self.held
    }

    /// Copies the held bytes to the front of `buffer`, before the caller reads behind them. Returns where; `None` if
    /// there is no room for more.
    pub(crate) fn put_held(&self, buffer: &mut [u8]) -> Option<usize> {
        buffer.get_mut(..self.held.len())?.copy_from_slice(&self.held);
        (self.held.len() < buffer.len()).then_some(self.held.len())
    }

    /// Processes the bytes at the front of `incoming`, which begin with the held ones: appends decrypted bytes to
    /// `plain`, and bytes to send to `reply`.
    pub(crate) fn take_in(
        &mut self,
        incoming: &mut [u8],
        plain: &mut Vec<u8>,
        reply: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let (used, end) = match &mut self.side {
            Side::Server(connection) => take_in(connection, incoming, plain, reply),
            Side::Client(connection) => take_in(connection, incoming, plain, reply),
        };
        self.held.clear();
        match incoming.get(used..) {
            Some(rest) if !rest.is_empty() => self.held.extend_from_slice(rest),
            _ => self.held = Vec::new(),
        }
        match end {
            Ok(Some(End::Closed)) if self.end == End::Open => self.end = End::Closed,
            Ok(_) => {}
            Err(error) => {
                self.end = End::Broken;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Processes bytes that follow the held ones; for handshakes.
    pub(crate) fn take_in_more(&mut self, more: &[u8], reply: &mut Vec<u8>) -> Result<(), Error> {
        let mut incoming = std::mem::take(&mut self.held);
        incoming.extend_from_slice(more);
        let mut plain = std::mem::take(&mut self.early);
        let result = self.take_in(&mut incoming, &mut plain, reply);
        self.early = plain;
        result
    }

    /// Whether decrypted bytes wait to be delivered.
    pub(crate) fn has_early(&self) -> bool {
        !self.early.is_empty()
    }

    /// Takes the decrypted bytes that wait.
    pub(crate) fn take_early(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.early)
    }

    /// Encrypts `plain` and appends the records to `sealed`. After an error the connection is broken.
    pub(crate) fn seal(&mut self, plain: &[u8], sealed: &mut Vec<u8>) -> Result<(), Error> {
        let result = match (&mut self.side, self.end) {
            (_, End::Broken) => Err(Error::General("the connection is broken".into())),
            (Side::Server(connection), _) => seal(connection, &mut self.held, Some(plain), sealed),
            (Side::Client(connection), _) => seal(connection, &mut self.held, Some(plain), sealed),
        };
        result.inspect_err(|_| self.end = End::Broken)
    }

    /// Appends the close_notify record.
    pub(crate) fn close(&mut self, sealed: &mut Vec<u8>) {
        // A broken connection has sent its alert already.
        let _ = match (&mut self.side, self.end) {
            (_, End::Broken) => Ok(()),
            (Side::Server(connection), _) => seal(connection, &mut self.held, None, sealed),
            (Side::Client(connection), _) => seal(connection, &mut self.held, None, sealed),
        };
        self.end = End::Broken;
    }
}

/// Has a connection process what came. Returns how much of it is not needed any more, and what became of the
/// connection.
fn take_in<R: Records>(
    connection: &mut R,
    incoming: &mut [u8],
    plain: &mut Vec<u8>,
    reply: &mut Vec<u8>,
) -> (usize, Result<Option<End>, Error>) {
    let (mut used, mut end) = (0, None);
    loop {
        let UnbufferedStatus { mut discard, state } = connection.next(&mut incoming[used..]);
        let done = match state {
            Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                while let Some(Ok(record)) = traffic.next_record() {
                    discard += record.discard;
                    plain.extend_from_slice(record.payload);
                }
                false
            }
            Ok(ConnectionState::EncodeTlsData(mut data)) => {
                encode(&mut data, reply);
                false
            }
            Ok(ConnectionState::TransmitTlsData(data)) => {
                data.done();
                false
            }
            Ok(ConnectionState::PeerClosed) => {
                end = Some(End::Closed);
                false
            }
            // Early data is never offered or accepted; other states are of later versions of the library.
            Ok(ConnectionState::ReadEarlyData(_)) => true,
            Ok(_) => true,
            Err(error) => {
                // The alert for the other side comes from exactly one more call: a further call would process the same
                // bytes again.
                if let Ok(ConnectionState::EncodeTlsData(mut data)) =
                    connection.next(&mut incoming[used + discard..]).state
                {
                    encode(&mut data, reply);
                }
                return (used + discard, Err(error));
            }
        };
        used += discard;
        if done {
            return (used, Ok(end));
        }
    }
}

fn encode<D>(data: &mut EncodeTlsData<'_, D>, reply: &mut Vec<u8>) {
    let start = reply.len();
    let mut room = RECORD_OVERHEAD;
    loop {
        reply.resize(start + room, 0);
        match data.encode(&mut reply[start..]) {
            Ok(written) => return reply.truncate(start + written),
            Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) => room = required_size,
            Err(EncodeError::AlreadyEncoded) => return reply.truncate(start),
        }
    }
}

/// Encrypts `plain`, or the end of the connection where there is none.
fn seal<R: Records>(
    connection: &mut R,
    held: &mut [u8],
    plain: Option<&[u8]>,
    sealed: &mut Vec<u8>,
) -> Result<(), Error> {
    loop {
        // There is no new input, so none of the held bytes is finished.
        match connection.next(held).state? {
            ConnectionState::EncodeTlsData(mut data) => encode(&mut data, sealed),
            ConnectionState::TransmitTlsData(data) => data.done(),
            ConnectionState::PeerClosed => {}
            ConnectionState::WriteTraffic(mut traffic) => {
                let length = plain.map_or(0, <[u8]>::len);
                let start = sealed.len();
                let mut room = length + (length / RECORD + 1) * RECORD_OVERHEAD;
                loop {
                    sealed.resize(start + room, 0);
                    let written = match plain {
                        Some(plain) => traffic.encrypt(plain, &mut sealed[start..]),
                        None => traffic.queue_close_notify(&mut sealed[start..]),
                    };
                    match written {
                        Ok(written) => {
                            sealed.truncate(start + written);
                            return Ok(());
                        }
                        Err(EncryptError::InsufficientSize(InsufficientSizeError { required_size })) => {
                            room = required_size;
                        }
                        Err(EncryptError::EncryptExhausted) => {
                            sealed.truncate(start);
                            return Err(Error::General("the key has been used for as long as it may be".into()));
                        }
                    }
                }
            }
            _ => return Err(Error::General("the connection takes no bytes".into())),
        }
    }
}
