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

use super::end::End;
use super::reason::With;
use super::records::{Records, SealedState};

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
    /// This side accepted the connection.
    Server(UnbufferedServerConnection),
    /// This side connected.
    Client(UnbufferedClientConnection),
    /// Another process did the handshake.
    Moved(Box<Records>),
}

impl fmt::Debug for Side {
    // Keys are in there.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Side::Server(_) => "Server",
            Side::Client(_) => "Client",
            Side::Moved(_) => "Moved",
        })
    }
}

/// The two kinds of connections of the library, as one.
trait RustlsConnection {
    type Data;
    fn next<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;
}

impl RustlsConnection for UnbufferedServerConnection {
    type Data = ServerConnectionData;
    #[inline]
    fn next<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }
}

impl RustlsConnection for UnbufferedClientConnection {
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

    /// What both sides have agreed on; `None` where another process did the handshake.
    pub(crate) fn common(&self) -> Option<&CommonState> {
        match &self.side {
            Side::Server(connection) => Some(connection),
            Side::Client(connection) => Some(connection),
            Side::Moved(_) => None,
        }
    }

    /// The other side.
    pub(crate) fn with(&self) -> With {
        match &self.side {
            Side::Server(_) => With::Client,
            Side::Client(_) => With::Server,
            Side::Moved(_) => With::Either,
        }
    }

    /// A connection of another process.
    pub(crate) fn moved(mut state: SealedState) -> Option<Session> {
        let (held, early) = (std::mem::take(&mut state.held), std::mem::take(&mut state.early));
        let side = Side::Moved(Box::new(Records::new(&state)?));
        Some(Session { side, held, early, end: End::Open })
    }

    /// Takes the connection apart for another process; `None` if it is not open, or can't go on elsewhere.
    pub(crate) fn into_state(self) -> Option<SealedState> {
        if self.end != End::Open || !is_one_beginning(&self.held) {
            return None;
        }
        let version = self.common().and_then(|common| common.protocol_version());
        let extracted = |secrets| SealedState::extracted(version, secrets);
        let mut state = match self.side {
            Side::Server(connection) => extracted(connection.dangerous_into_kernel_connection().ok()?.0)?,
            Side::Client(connection) => extracted(connection.dangerous_into_kernel_connection().ok()?.0)?,
            Side::Moved(records) => records.state(),
        };
        (state.held, state.early) = (self.held, self.early);
        Some(state)
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
            Side::Moved(records) => records.take_in(incoming, plain),
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
            (Side::Moved(records), _) => records.seal(plain, sealed),
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
            (Side::Moved(records), _) => records.close(sealed),
        };
        self.end = End::Broken;
    }
}

/// Whether these bytes are less than a record, so that the library has processed none of them.
fn is_one_beginning(held: &[u8]) -> bool {
    let length = held.get(3..5).map_or(0, |length| usize::from(u16::from_be_bytes([length[0], length[1]])));
    held.len() < 5 + length
}

/// Has a connection process what came. Returns how much of it is not needed any more, and what became of the
/// connection.
fn take_in<R: RustlsConnection>(
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
fn seal<R: RustlsConnection>(
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rcgen::{CertifiedKey, generate_simple_self_signed};
    use rustls::client::UnbufferedClientConnection;
    use rustls::crypto::CryptoProvider;
    use rustls::pki_types::{PrivateKeyDer, ServerName};
    use rustls::version::{TLS12, TLS13};
    use rustls::{ClientConfig, RootCertStore, ServerConfig, SupportedCipherSuite};

    use super::*;

    /// Two sessions that have shaken hands with this suite.
    fn pair(suite: SupportedCipherSuite) -> (Session, Session) {
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let provider = Arc::new(CryptoProvider { cipher_suites: vec![suite], ..provider });
        let versions = if suite.tls13().is_some() { &[&TLS13][..] } else { &[&TLS12] };
        let key = PrivateKeyDer::Pkcs8(signing_key.serialize_der().into());
        let server = ServerConfig::builder_with_provider(provider.clone()).with_protocol_versions(versions).unwrap();
        let mut server = server.with_no_client_auth().with_single_cert(vec![cert.der().clone()], key).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(cert.der().clone()).unwrap();
        let client = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions).unwrap();
        let mut client = client.with_root_certificates(roots).with_no_client_auth();
        (server.enable_secret_extraction, client.enable_secret_extraction) = (true, true);
        let name = ServerName::try_from("localhost").unwrap();
        let mut ours = Session::accepted(UnbufferedServerConnection::new(server.into()).unwrap());
        let mut theirs = Session::connected(UnbufferedClientConnection::new(client.into(), name).unwrap());
        let mut to_ours = Vec::new();
        theirs.take_in_more(&[], &mut to_ours).unwrap();
        for _ in 0..4 {
            let mut to_theirs = Vec::new();
            ours.take_in_more(&std::mem::take(&mut to_ours), &mut to_theirs).unwrap();
            theirs.take_in_more(&to_theirs, &mut to_ours).unwrap();
        }
        (ours, theirs)
    }

    /// Passes bytes from one session to the other, `cut` of which come later.
    fn say(from: &mut Session, to: &mut Session, text: &[u8], cut: usize) -> Vec<u8> {
        let (mut sealed, mut plain) = (Vec::new(), Vec::new());
        from.seal(text, &mut sealed).unwrap();
        let rest = sealed.split_off(sealed.len() - cut);
        let mut incoming = [to.held(), &sealed].concat();
        to.take_in(&mut incoming, &mut plain, &mut Vec::new()).unwrap();
        assert!(cut == 0 || plain.len() < text.len());
        let mut incoming = [to.held(), &rest].concat();
        to.take_in(&mut incoming, &mut plain, &mut Vec::new()).unwrap();
        plain
    }

    fn moved(session: Session) -> Session {
        let bytes = postcard::to_stdvec(&session.into_state().expect("it can move")).unwrap();
        Session::moved(postcard::from_bytes(&bytes).unwrap()).expect("it is known here")
    }

    #[test]
    fn a_connection_goes_on_in_another_process_with_every_suite_and_from_there_in_a_third() {
        // The suites for RSA certificates protect records as those for ECDSA do.
        let with_ecdsa = |suite: &&SupportedCipherSuite| !format!("{suite:?}").contains("_RSA_");
        for suite in rustls::crypto::aws_lc_rs::ALL_CIPHER_SUITES.iter().filter(with_ecdsa) {
            let (mut ours, mut theirs) = pair(*suite);
            let long: Vec<u8> = (0..70_000_u32).map(|i| i as u8).collect();
            for round in 0..3 {
                for text in [b"select 1".as_slice(), b"x", &long] {
                    assert_eq!(say(&mut theirs, &mut ours, text, 3), text, "{suite:?} {round}");
                    assert_eq!(say(&mut ours, &mut theirs, text, 9), text, "{suite:?} {round}");
                }
                ours = moved(ours);
            }
            // A record whose first part came before.
            let (mut sealed, mut plain) = (Vec::new(), Vec::new());
            theirs.seal(b"in two parts", &mut sealed).unwrap();
            ours.take_in(&mut sealed[..11].to_vec(), &mut plain, &mut Vec::new()).unwrap();
            let mut ours = moved(ours);
            let mut incoming = [ours.held(), &sealed[11..]].concat();
            ours.take_in(&mut incoming, &mut plain, &mut Vec::new()).unwrap();
            assert_eq!(plain, b"in two parts");
            // One that was changed on the way.
            sealed.clear();
            theirs.seal(b"changed", &mut sealed).unwrap();
            let last = sealed.len() - 1;
            let mut other = moved(ours);
            sealed[last] ^= 1;
            assert!(other.take_in(&mut sealed, &mut plain, &mut Vec::new()).is_err());
            assert!(other.end() == End::Broken && other.into_state().is_none());
        }
    }

    #[test]
    fn the_end_is_sent_and_received_after_a_move() {
        let suite = rustls::crypto::aws_lc_rs::ALL_CIPHER_SUITES[0];
        let (ours, mut theirs) = pair(suite);
        let (mut ours, mut sealed) = (moved(ours), Vec::new());
        ours.close(&mut sealed);
        theirs.take_in(&mut sealed, &mut Vec::new(), &mut Vec::new()).unwrap();
        assert_eq!(theirs.end(), End::Closed);
        let (ours, mut theirs) = pair(suite);
        let (mut ours, mut sealed) = (moved(ours), Vec::new());
        theirs.close(&mut sealed);
        ours.take_in(&mut sealed, &mut Vec::new(), &mut Vec::new()).unwrap();
        assert_eq!(ours.end(), End::Closed);
    }
}
