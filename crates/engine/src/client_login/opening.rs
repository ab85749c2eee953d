//! From a client's first byte to its startup packet: PROXY header, encryption, cancel requests.
//!
//! Owns no state. Clients on Unix sockets are never encrypted, and need not be (PgBouncer).

use std::sync::Arc;

use weir_base::{ClientAddr, Origin};
use weir_config::{Config, SslMode};
use weir_pgwire::proxy::{self, Proxied};
use weir_session::Refusal;
use weir_session::startup::{self, EncryptionRequests, FirstPacket, StartupRequest};

use crate::client::slot::{ClientPhase, ClientSlot};
use crate::client_login::startup_packets::StartupPackets;
use crate::client_login::state::SslNegotiation;
use crate::client_login::step::EntryStep;
use crate::common::Cx;
use crate::log;
use crate::port::{Handshake, Io, Level};

/// The ALPN protocol that a client must offer with direct TLS: so a request for another kind of server can't be
/// misused for this one (PostgreSQL 17).
const ALPN: &[u8] = b"postgresql";

/// Reads the PROXY header of a load balancer: its address replaces the client's.
pub(crate) fn proxy_header<I: Io>(
    cx: &mut Cx<'_, I>,
    packets: &mut StartupPackets,
    client: &mut ClientSlot,
) -> EntryStep {
    match proxy::header(&client.waiting) {
        Ok(None) => EntryStep::Read,
        Ok(Some((proxied, used))) => {
            client.waiting_mut().drain(..used);
            if let Proxied::Client(from) = proxied {
                client.comes_from(ClientAddr::Tcp(from));
            }
            client.enter(ClientPhase::OPENING);
            opening(cx, packets, client)
        }
        Err(malformed) => {
            let text = format_args!("{malformed}, but its address is in listen.proxy_from");
            log::log_client(Level::Warning, cx.common.config(), client, "", text, cx.io);
            EntryStep::Close("PROXY header expected")
        }
    }
}

/// Reads a client's first packet, if it is complete.
pub(crate) fn opening<I: Io>(cx: &mut Cx<'_, I>, packets: &mut StartupPackets, client: &mut ClientSlot) -> EntryStep {
    let ClientPhase::Opening { asks_left } = client.phase else { return EntryStep::Read };
    if let Some((request, user)) = packets.find(&client.waiting) {
        client.waiting_mut().clear();
        client.named(user);
        return opened(cx, client, request);
    }
    match startup::read(&client.waiting, asking(client, asks_left)) {
        FirstPacket::More => EntryStep::Read,
        FirstPacket::NoPacket(what) => EntryStep::Drop(what),
        FirstPacket::Tls { used } => {
            client.waiting_mut().drain(..used);
            client.enter(ClientPhase::Opening { asks_left: asks_left - 1 });
            tls_requested(cx, client)
        }
        FirstPacket::DirectTls => tls_begun(cx, client),
        FirstPacket::Gss { used } => {
            client.waiting_mut().drain(..used);
            client.enter(ClientPhase::Opening { asks_left: asks_left - 1 });
            cx.io.send(client.conn, b"N");
            EntryStep::Read
        }
        FirstPacket::Cancel { pid, secret } => EntryStep::Cancel { pid, secret },
        FirstPacket::Refuse(refusal) => EntryStep::Refuse(refusal),
        FirstPacket::Startup { request, used } => {
            client.named(packets.remember(&client.waiting[..used], &request));
            client.waiting_mut().drain(..used);
            opened(cx, client, request)
        }
    }
}

/// A client's startup packet has been read.
fn opened<I: Io>(cx: &mut Cx<'_, I>, client: &ClientSlot, request: Arc<StartupRequest>) -> EntryStep {
    if must_use_tls(cx.common.config(), client) {
        return EntryStep::Refuse(Refusal::EncryptionRequired);
    }
    EntryStep::Startup(request)
}

/// Which requests for encryption a client may still send.
fn asking(client: &ClientSlot, asks_left: u8) -> EncryptionRequests {
    match (&client.tls, asks_left) {
        (Some(_), _) => EncryptionRequests::Encrypted,
        (None, 0) => EncryptionRequests::Exhausted,
        _ => EncryptionRequests::Allowed,
    }
}

/// Whether this client can be encrypted.
fn is_tls_offered(config: &Config, client: &ClientSlot) -> bool {
    config.tls.client.is_available() && matches!(client.addr, ClientAddr::Tcp(_))
}

/// Whether this client must use TLS, and does not.
fn must_use_tls(config: &Config, client: &ClientSlot) -> bool {
    let required = match config.tls.client.mode {
        SslMode::Disable | SslMode::Allow | SslMode::Prefer => false,
        SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => true,
    };
    required && client.tls.is_none() && is_tls_offered(config, client)
}

/// A client has sent an SSLRequest, and must wait for its answer.
fn tls_requested<I: Io>(cx: &mut Cx<'_, I>, client: &mut ClientSlot) -> EntryStep {
    let offered = is_tls_offered(cx.common.config(), client);
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
fn tls_begun<I: Io>(cx: &mut Cx<'_, I>, client: &mut ClientSlot) -> EntryStep {
    if !is_tls_offered(cx.common.config(), client) {
        return EntryStep::Drop("a TLS handshake, and there is no TLS for this client");
    }
    let received = client.take_waiting();
    cx.io.start_tls(client.conn, Handshake::Accept { received, from: Origin::of(&client.addr) });
    client.enter(ClientPhase::Handshake(SslNegotiation::Direct));
    EntryStep::Read
}

/// A client's handshake is done: its startup packet is next.
pub(crate) fn tls_done(client: &mut ClientSlot) -> EntryStep {
    let alpn = client.tls.as_ref().and_then(|tls| tls.alpn.as_deref());
    if matches!(client.phase, ClientPhase::Handshake(SslNegotiation::Direct)) && alpn != Some(ALPN) {
        return EntryStep::Drop("received direct SSL connection request without ALPN protocol negotiation extension");
    }
    client.enter(ClientPhase::OPENING);
    EntryStep::Read
}
