//! A worker's TLS state: each socket's handshake or session, and the peers that wait for a helper.

use std::collections::VecDeque;

use weir_base::{ConnId, FairQueue};
use weir_engine::port::Handshake;

use super::charge::StoredBytes;
use super::session::Session;
use super::step::HandshakeStep;

/// The TLS state of one socket.
#[derive(Debug)]
pub(crate) enum Tls {
    /// The socket is in its handshake; `None` while a helper has the step.
    Handshaking(Option<Box<HandshakeStep>>),
    /// The handshake is done.
    Open(Box<Session>),
}

impl Tls {
    /// Whether decrypted bytes wait, although the socket has none.
    pub(crate) fn has_early(&self) -> bool {
        matches!(self, Tls::Open(session) if session.has_early())
    }
}

/// A worker's TLS state: buffers, and the peers that wait for a helper.
#[derive(Debug, Default)]
pub(crate) struct TlsState {
    /// Handshakes requested in the turn.
    pub(crate) asked: Vec<(ConnId, Handshake)>,
    /// ConnSlots whose step waits until a helper has room: servers, and clients in turn by origin.
    pub(crate) due_servers: VecDeque<ConnId>,
    pub(crate) due_clients: FairQueue<()>,
    /// The stored bytes of handshakes.
    pub(crate) stored: StoredBytes,
    pub(crate) gather: Vec<u8>,
    pub(crate) sealed: Vec<u8>,
}
