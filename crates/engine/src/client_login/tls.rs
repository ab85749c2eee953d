//! Encryption of clients: which requests are allowed, their answers, and the result of a handshake.
//!
//! Clients on Unix sockets are never encrypted, and need not be (PgBouncer).

use weir_base::{ClientAddr, Origin};
use weir_config::{Config, SslMode};

use crate::client::slot::{ClientPhase, ClientSlot};
use crate::client_login::state::SslNegotiation;
use crate::client_login::step::EntryStep;
use crate::common::Cx;
use crate::log;
use crate::port::{Handshake, Io, Level};

/// The ALPN protocol that a client must offer with direct TLS: so a request for another kind of server can't be
/// misused for this one (PostgreSQL 17).
const ALPN: &[u8] = b"postgresql";

/// Whether this client can be encrypted.
fn is_offered(config: &Config, client: &ClientSlot) -> bool {
    config.tls.client.is_available() && matches!(client.addr, ClientAddr::Tcp(_))
}

/// Whether this client must use TLS, and does not.
pub(super) fn is_missing(config: &Config, client: &ClientSlot) -> bool {
    let required = match config.tls.client.mode {
        SslMode::Disable | SslMode::Allow | SslMode::Prefer => false,
        SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => true,
    };
    required && client.tls.is_none() && is_offered(config, client)
}

/// A client has sent an SSLRequest, and must wait for its answer.
pub(super) fn requested<I: Io>(cx: &mut Cx<'_, I>, client: &mut ClientSlot) -> EntryStep {
    let offered = is_offered(cx.common.config(), client);
    let answer = if offered { "P: SSL ack" } else { "P: nak" };
    for step in ["C: req SSL", answer] {
        log::log_client(Level::Noise, cx.common.config(), client, "", format_args!("{step}"), cx.io);
    }
    if offered {
        cx.io.send(client.conn, b"S");
        cx.io.start_tls(client.conn, Handshake::Accept { received: Vec::new(), from: Origin::of(&client.addr) });
        client.enter(ClientPhase::Handshake(SslNegotiation::Request));
    } else {
        cx.io.send(client.conn, b"N");
    }
    EntryStep::Read
}

/// A client begins with a TLS handshake.
pub(super) fn begun<I: Io>(cx: &mut Cx<'_, I>, client: &mut ClientSlot) -> EntryStep {
    if !is_offered(cx.common.config(), client) {
        return EntryStep::Drop("a TLS handshake, and there is no TLS for this client");
    }
    let received = client.take_waiting();
    cx.io.start_tls(client.conn, Handshake::Accept { received, from: Origin::of(&client.addr) });
    client.enter(ClientPhase::Handshake(SslNegotiation::Direct));
    EntryStep::Read
}

/// A client's handshake is done: its startup packet is next.
pub(crate) fn done(client: &mut ClientSlot) -> EntryStep {
    let alpn = client.tls.as_ref().and_then(|tls| tls.alpn.as_deref());
    if matches!(client.phase, ClientPhase::Handshake(SslNegotiation::Direct)) && alpn != Some(ALPN) {
        return EntryStep::Drop("received direct SSL connection request without ALPN protocol negotiation extension");
    }
    client.enter(ClientPhase::OPENING);
    EntryStep::Read
}
