//! Encryption of clients: what they may ask for and get, and what a handshake leads to.
//!
//! Clients on Unix sockets are never encrypted and never asked to be (PgBouncer).

use weir_base::ClientAddr;
use weir_config::{Config, SslMode};

use crate::common::Cx;
use crate::entry::state::SslNegotiation;
use crate::entry::step::EntryStep;
use crate::peers::{ClientPhase, ClientSlot};
use crate::port::{Handshake, Io};

/// The protocol that a client must name (ALPN) when it begins with a handshake: so a request meant for another server can't
/// be taken for one to us (PostgreSQL 17).
const ALPN: &[u8] = b"postgresql";

/// Whether this client can be encrypted.
fn is_offered(config: &Config, client: &ClientSlot) -> bool {
    config.tls.client.is_available() && matches!(client.addr, ClientAddr::Tcp(_))
}

/// Whether this client had to be encrypted, and is not.
pub(super) fn is_missing(config: &Config, client: &ClientSlot) -> bool {
    let required = match config.tls.client.mode {
        SslMode::Disable | SslMode::Allow | SslMode::Prefer => false,
        SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => true,
    };
    required && client.tls.is_none() && is_offered(config, client)
}

/// A client asks for encryption, and sends nothing more before it is answered.
pub(super) fn requested<I: Io>(cx: &mut Cx<'_, I>, client: &mut ClientSlot) -> EntryStep {
    if is_offered(cx.common.config(), client) {
        cx.io.send(client.peer, b"S");
        cx.io.start_tls(client.peer, Handshake::Accept { received: Vec::new() });
        client.phase = ClientPhase::Handshake(SslNegotiation::Request);
    } else {
        cx.io.send(client.peer, b"N");
    }
    EntryStep::Read
}

/// A client begins with a handshake.
pub(super) fn begun<I: Io>(cx: &mut Cx<'_, I>, client: &mut ClientSlot) -> EntryStep {
    if !is_offered(cx.common.config(), client) {
        return EntryStep::Drop("a TLS handshake, and there is no TLS for this client");
    }
    let received = std::mem::take(&mut client.waiting);
    cx.io.start_tls(client.peer, Handshake::Accept { received });
    client.phase = ClientPhase::Handshake(SslNegotiation::Direct);
    EntryStep::Read
}

/// A client's handshake is done: its startup packet may come.
pub(crate) fn done(client: &mut ClientSlot) -> EntryStep {
    let alpn = client.tls.as_ref().and_then(|tls| tls.alpn.as_deref());
    if matches!(client.phase, ClientPhase::Handshake(SslNegotiation::Direct)) && alpn != Some(ALPN) {
        return EntryStep::Drop("received direct SSL connection request without ALPN protocol negotiation extension");
    }
    client.phase = ClientPhase::OPENING;
    EntryStep::Read
}
