//! One step of a handshake, run by a helper: processes the input, produces the output.
//!
//! The whole connection moves with the request and back; no part of it is shared.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::{ServerName, UnixTime};
use rustls::server::UnbufferedServerConnection;
use rustls::server::danger::ClientCertVerifier;
use rustls::{ClientConfig, CommonState, HandshakeKind};
use weir_base::{Host, Origin};
use weir_config::SslMode;
use weir_engine::port::{Certificate, Secured};

use super::contexts::{Accept, verifies};
use super::reason::{With, reason};
use super::session::Session;
use super::{suites, x509};

/// The header of a record: its type, a version, its length.
const HEADER: usize = 5;

/// A handshake under way.
#[derive(Debug)]
pub(crate) struct HandshakeStep {
    side: Side,
    state: StepState,
    /// Received bytes that are not processed yet.
    pub(crate) received: Vec<u8>,
    /// The bytes to send to the other side.
    pub(crate) reply: Vec<u8>,
    /// Where a client comes from.
    from: Option<Origin>,
    /// Whether the step waits for a helper.
    pub(crate) waits: bool,
}

/// The role in a handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    /// The other side is a client.
    Accept,
    /// The other side is a server.
    Connect,
}

impl Side {
    /// The other side.
    pub(crate) fn with(self) -> With {
        match self {
            Side::Accept => With::Client,
            Side::Connect => With::Server,
        }
    }
}

#[derive(Debug)]
enum StepState {
    Accept(Arc<Accept>),
    Connect { config: Arc<ClientConfig>, host: Host, mode: SslMode },
    Going(Box<Session>, SessionRole),
    Over,
}

/// Results of the handshake that come from the context.
#[derive(Debug)]
pub(super) enum SessionRole {
    Accepted(Arc<Accept>),
    Connected { mode: SslMode },
}

/// The result of a step.
#[derive(Debug)]
pub(crate) enum StepOutcome {
    /// More input is needed.
    More,
    /// The handshake is done.
    Done(Box<Secured>),
    /// The handshake failed; the text is for the log.
    Failed(String),
}

impl HandshakeStep {
    pub(crate) fn accept(accept: Arc<Accept>, received: Vec<u8>, from: Origin) -> HandshakeStep {
        let (state, reply) = (StepState::Accept(accept), Vec::new());
        HandshakeStep { side: Side::Accept, state, received, reply, from: Some(from), waits: false }
    }

    pub(crate) fn connect(config: Arc<ClientConfig>, host: Host, mode: SslMode) -> HandshakeStep {
        let state = StepState::Connect { config, host, mode };
        HandshakeStep { side: Side::Connect, state, received: Vec::new(), reply: Vec::new(), from: None, waits: false }
    }

    pub(crate) fn side(&self) -> Side {
        self.side
    }

    /// Where a client comes from; none for a server.
    pub(crate) fn from(&self) -> Option<Origin> {
        self.from
    }

    /// How many received bytes the step stores.
    pub(crate) fn stored(&self) -> usize {
        let held = if let StepState::Going(session, _) = &self.state { session.held().len() } else { 0 };
        self.received.len() + held
    }

    /// Whether there is a whole record to process, or an invalid one. The session may have seen its beginning in the
    /// last step.
    pub(crate) fn is_due(&self) -> bool {
        let held = match &self.state {
            StepState::Going(session, _) => session.held(),
            StepState::Connect { .. } if self.received.is_empty() => return true,
            StepState::Accept(_) | StepState::Connect { .. } | StepState::Over => &[],
        };
        if self.received.is_empty() {
            return false;
        }
        let mut bytes = held.iter().chain(&self.received).copied();
        match [(); HEADER].map(|()| bytes.next()) {
            [Some(20..=23), _, _, Some(high), Some(low)] => {
                held.len() + self.received.len() - HEADER >= usize::from(u16::from_be_bytes([high, low]))
            }
            [Some(20..=23), ..] => false,
            _ => true,
        }
    }

    /// Runs the step.
    pub(crate) fn take(&mut self) -> StepOutcome {
        let (mut session, role) = match std::mem::replace(&mut self.state, StepState::Over) {
            StepState::Going(session, role) => (session, role),
            StepState::Over => return StepOutcome::Failed("the handshake is over".into()),
            begin => match begin_session(begin) {
                Ok((session, role)) => (Box::new(session), role),
                Err(error) => return StepOutcome::Failed(error),
            },
        };
        let received = std::mem::take(&mut self.received);
        if let Err(error) = session.take_in_more(&received, &mut self.reply) {
            return StepOutcome::Failed(reason(&error, self.side.with()));
        }
        let outcome = match session.common().filter(|common| !common.is_handshaking()) {
            Some(common) => match check_resumed(common, &role) {
                Ok(()) => StepOutcome::Done(Box::new(secured(common, &role))),
                Err(error) => StepOutcome::Failed(reason(&error, self.side.with())),
            },
            None => StepOutcome::More,
        };
        self.state = StepState::Going(session, role);
        outcome
    }

    /// The connection, after the last step.
    pub(crate) fn into_session(self) -> Option<Box<Session>> {
        if let StepState::Going(session, _) = self.state { Some(session) } else { None }
    }
}

fn begin_session(state: StepState) -> Result<(Session, SessionRole), String> {
    let failed = |with| move |error: rustls::Error| reason(&error, with);
    match state {
        StepState::Accept(accept) => {
            let connection = UnbufferedServerConnection::new(accept.config.clone()).map_err(failed(With::Client))?;
            Ok((Session::accepted(connection), SessionRole::Accepted(accept)))
        }
        StepState::Connect { config, host, mode } => {
            let name = server_name(&host, mode)?;
            let connection = UnbufferedClientConnection::new(config, name).map_err(failed(With::Server))?;
            Ok((Session::connected(connection), SessionRole::Connected { mode }))
        }
        StepState::Going(..) | StepState::Over => Err("the handshake has begun already".into()),
    }
}

/// The name for a server's certificate, which is also sent to the server (SNI) if it is not an address.
pub(crate) fn server_name(host: &Host, mode: SslMode) -> Result<ServerName<'static>, String> {
    // A placeholder, which is neither sent nor compared.
    let none = ServerName::from(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    match host {
        Host::Ip(ip) => Ok(ServerName::from(*ip)),
        Host::Name(name) => match ServerName::try_from(name.to_string()) {
            Ok(name) => Ok(name),
            Err(_) if mode == SslMode::VerifyFull => Err(format!("no certificate can be for the name \"{name}\"")),
            Err(_) => Ok(none),
        },
        Host::SocketDir(_) => Ok(none),
    }
}

/// Checks the client's certificate of a resumed session, as a whole handshake does.
fn check_resumed(common: &CommonState, role: &SessionRole) -> Result<(), rustls::Error> {
    let SessionRole::Accepted(accept) = role else { return Ok(()) };
    let Some(verifier) = &accept.verifier else { return Ok(()) };
    if common.handshake_kind() != Some(HandshakeKind::Resumed) {
        return Ok(());
    }
    match common.peer_certificates() {
        Some([first, others @ ..]) => verifier.verify_client_cert(first, others, UnixTime::now()).map(drop),
        _ if verifier.client_auth_mandatory() => Err(rustls::Error::NoCertificatesPresented),
        _ => Ok(()),
    }
}

pub(super) fn secured(common: &CommonState, role: &SessionRole) -> Secured {
    let theirs = common.peer_certificates().and_then(<[_]>::first).and_then(|first| x509::Certificate::read(first));
    let (binding, is_verified) = match role {
        SessionRole::Accepted(accept) => (accept.binding.clone(), true),
        SessionRole::Connected { mode } => (theirs.as_ref().and_then(x509::Certificate::binding), verifies(*mode)),
    };
    let certificate = theirs.filter(|_| is_verified);
    Secured {
        description: suites::description(common.protocol_version(), common.negotiated_cipher_suite()),
        certificate: certificate.map(|read| Certificate { common_name: read.common_name.unwrap_or_default() }),
        alpn: common.alpn_protocol().map(<[u8]>::to_vec),
        binding,
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};
    use rustls::pki_types::PrivateKeyDer;
    use rustls::{RootCertStore, ServerConfig, ServerConnection};

    use super::*;

    fn configs() -> (Arc<ClientConfig>, Arc<ServerConfig>) {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec!["localhost".into()]).unwrap().self_signed(&key).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate.der().clone()).unwrap();
        let client = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let server =
            ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate.der().clone()], key);
        (Arc::new(client), Arc::new(server.unwrap()))
    }

    /// A step that has sent its ClientHello, and the server's whole answer.
    fn answered((client, server): &(Arc<ClientConfig>, Arc<ServerConfig>)) -> (HandshakeStep, Vec<u8>) {
        let mut step = HandshakeStep::connect(client.clone(), Host::Name("localhost".into()), SslMode::VerifyFull);
        assert!(step.is_due() && matches!(step.take(), StepOutcome::More));
        let mut server = ServerConnection::new(server.clone()).unwrap();
        server.read_tls(&mut step.reply.as_slice()).unwrap();
        server.process_new_packets().unwrap();
        let mut answer = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut answer).unwrap();
        }
        step.reply.clear();
        (step, answer)
    }

    #[test]
    fn an_answer_cut_anywhere_is_taken_in_as_soon_as_all_of_it_is_there() {
        let configs = configs();
        let length = answered(&configs).1.len();
        for cut in 0..length {
            let (mut step, answer) = answered(&configs);
            let cut = cut.min(answer.len() - 1);
            step.received.extend_from_slice(&answer[..cut]);
            if step.is_due() {
                assert!(matches!(step.take(), StepOutcome::More), "cut at {cut}");
                assert!(!step.is_due(), "nothing has come since, cut at {cut}");
            }
            // The next bytes may look like the beginning of a record, but are the middle of one.
            step.received.extend_from_slice(&answer[cut..]);
            assert!(step.is_due(), "cut at {cut}");
            assert!(matches!(step.take(), StepOutcome::Done(_)), "cut at {cut}");
        }
    }
}
