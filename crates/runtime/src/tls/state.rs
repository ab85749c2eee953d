//! What a worker keeps for encrypted sockets: each one's handshake or session, and who waits for a helper.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use weir_base::Peer;
use weir_engine::port::Handshake;

use super::session::Session;
use super::step::HandshakeStep;

/// The encryption of one socket.
#[derive(Debug)]
pub(crate) enum Tls {
    /// In its handshake; without a step while that is with a helper.
    Handshaking(Option<Box<HandshakeStep>>),
    /// Done.
    Open(Box<Session>),
}

impl Tls {
    /// Whether decrypted bytes wait to be delivered, although the socket has none.
    pub(crate) fn has_early(&self) -> bool {
        matches!(self, Tls::Open(session) if session.has_early())
    }
}

/// What a worker keeps for encryption: buffers, and who waits for a helper.
#[derive(Debug, Default)]
pub(crate) struct TlsState {
    /// Handshakes that the turn asked for.
    pub(crate) asked: Vec<(Peer, Handshake)>,
    /// Peers whose step waits until a helper has room: servers, and clients.
    pub(crate) due_servers: VecDeque<Peer>,
    pub(crate) due_clients: VecDeque<Peer>,
    /// What handshakes of clients keep beyond [`OWN_SHARE`].
    pub(crate) kept: Arc<AtomicUsize>,
    pub(crate) gather: Vec<u8>,
    pub(crate) sealed: Vec<u8>,
}
