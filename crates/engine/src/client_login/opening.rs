//! From a client's first byte to its startup packet: PROXY header, encryption, cancel requests.
//!
//! Owns what was read from the last few startup packets, which have no secrets. Clients on Unix sockets are never
//! encrypted, and need not be (PgBouncer).

use std::net::SocketAddr;
use std::sync::Arc;

use weir_base::{ClientAddr, Origin};
use weir_config::{Config, SslMode};
use weir_pgwire::proxy::{self, Proxied};
use weir_session::Refusal;
use weir_session::startup::{self, EncryptionRequests, FirstPacket, StartupRequest};

use crate::client::slot::{ClientPhase, ClientSlot};
use crate::client_login::state::SslNegotiation;
use crate::client_login::step::EntryStep;
use crate::common::Cx;
use crate::log;
use crate::port::{Handshake, Io, Level};

/// The ALPN protocol that a client must offer with direct TLS: so a request for another kind of server can't be
/// misused for this one (PostgreSQL 17).
const ALPN: &[u8] = b"postgresql";

/// How many different packets are remembered.
const MAX_PACKETS: usize = 8;
/// A longer packet is not remembered.
const MAX_LENGTH: usize = 512;

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
            if let Proxied::Client(from) = proxied
                && may_come_from(&client.addr, from)
            {
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

/// Whether a client may have an address that a balancer tells: the loopback of another machine is not this one's, by which rules
/// of an HBA file and logins without TLS go.
fn may_come_from(balancer: &ClientAddr, from: SocketAddr) -> bool {
    match balancer {
        ClientAddr::Tcp(balancer) => {
            let is_loopback = |address: &SocketAddr| address.ip().to_canonical().is_loopback();
            !is_loopback(&from) || is_loopback(balancer)
        }
        ClientAddr::Unix { .. } => true,
    }
}

/// Reads a client's first packet, if it is complete.
pub(crate) fn opening<I: Io>(cx: &mut Cx<'_, I>, packets: &mut StartupPackets, client: &mut ClientSlot) -> EntryStep {
    let ClientPhase::Opening { asks_left, .. } = client.phase else { return EntryStep::Read };
    if let Some((request, user)) = packets.find(&client.waiting) {
        client.waiting_mut().clear();
        return opened(cx, client, user, request);
    }
    match startup::read(&client.waiting, asking(client, asks_left)) {
        FirstPacket::More => EntryStep::Read,
        FirstPacket::NoPacket(what) => EntryStep::Drop(what),
        FirstPacket::Tls { used } => {
            client.waiting_mut().drain(..used);
            tls_requested(cx, client, asks_left - 1)
        }
        FirstPacket::DirectTls => tls_begun(cx, client),
        FirstPacket::Gss { used } => {
            client.waiting_mut().drain(..used);
            client.enter(ClientPhase::Opening { asks_left: asks_left - 1, declined: false });
            cx.io.send(client.conn, b"N");
            EntryStep::Read
        }
        FirstPacket::Cancel { pid, secret } => EntryStep::Cancel { pid, secret },
        FirstPacket::Refuse(refusal) => EntryStep::Refuse(refusal),
        FirstPacket::Startup { request, used } => {
            let user = packets.remember(&client.waiting[..used], &request);
            client.waiting_mut().drain(..used);
            opened(cx, client, user, request)
        }
    }
}

/// A client's startup packet has been read.
fn opened<I: Io>(
    cx: &mut Cx<'_, I>,
    client: &mut ClientSlot,
    user: Arc<str>,
    request: Arc<StartupRequest>,
) -> EntryStep {
    let must_use_tls = must_use_tls(cx.common.config(), client);
    client.named(user);
    if must_use_tls { EntryStep::Refuse(Refusal::EncryptionRequired) } else { EntryStep::Startup(request) }
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
fn tls_requested<I: Io>(cx: &mut Cx<'_, I>, client: &mut ClientSlot, asks_left: u8) -> EntryStep {
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
        client.enter(ClientPhase::Opening { asks_left, declined: true });
    }
    EntryStep::Read
}

/// A client begins with a TLS handshake.
fn tls_begun<I: Io>(cx: &mut Cx<'_, I>, client: &mut ClientSlot) -> EntryStep {
    if !is_tls_offered(cx.common.config(), client) {
        return EntryStep::NoTls;
    }
    let received = std::mem::take(client.waiting_mut());
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

/// Startup packets that were read lately: a program's connections all begin with the same bytes, so the next client with
/// them costs no reading and no allocation, and what its requests have in common is found by comparing pointers.
#[derive(Default)]
pub(crate) struct StartupPackets {
    known: Recent<KnownPacket, MAX_PACKETS>,
}

struct KnownPacket {
    bytes: Box<[u8]>,
    request: Arc<StartupRequest>,
    user: Arc<str>,
}

impl StartupPackets {
    /// What these bytes request, and the user in it, if they are a packet that was read before and nothing else.
    pub(crate) fn find(&self, bytes: &[u8]) -> Option<(Arc<StartupRequest>, Arc<str>)> {
        let known = self.known.iter().find(|known| *known.bytes == *bytes)?;
        Some((known.request.clone(), known.user.clone()))
    }

    /// Remembers a packet that was read; returns its user.
    pub(crate) fn remember(&mut self, bytes: &[u8], request: &Arc<StartupRequest>) -> Arc<str> {
        let user: Arc<str> = request.user.as_str().into();
        if bytes.len() <= MAX_LENGTH {
            self.known.push(KnownPacket { bytes: bytes.into(), request: request.clone(), user: user.clone() });
        }
        user
    }
}

/// The last few values of something, at most `MOST`, where a new one replaces the oldest. A lookup costs a look at each, so `MOST` is small.
pub(super) struct Recent<T, const MOST: usize> {
    values: Vec<T>,
    /// The next to be replaced.
    next: usize,
}

impl<T, const MOST: usize> Default for Recent<T, MOST> {
    fn default() -> Self {
        Recent { values: Vec::new(), next: 0 }
    }
}

impl<T, const MOST: usize> Recent<T, MOST> {
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.values.iter()
    }

    /// Adds a value, in the place of the oldest if there is no room.
    pub(super) fn push(&mut self, value: T) {
        match self.values.get_mut(self.next) {
            Some(oldest) => *oldest = value,
            None => self.values.push(value),
        }
        self.next = (self.next + 1) % MOST;
    }

    pub(super) fn clear(&mut self) {
        *self = Recent::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_pgwire::put_front;
    use weir_session::startup::{EncryptionRequests, FirstPacket, read};

    fn packet(user: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        put_front::startup(&mut bytes, &[("user", user), ("database", "db")], 0);
        bytes
    }

    #[test]
    fn a_packet_is_found_by_all_of_its_bytes_and_the_oldest_is_forgotten() {
        let mut packets = StartupPackets::default();
        for i in 0..=MAX_PACKETS {
            let bytes = packet(&format!("u{i}"));
            let FirstPacket::Startup { request, .. } = read(&bytes, EncryptionRequests::Allowed) else { panic!() };
            assert_eq!(*packets.remember(&bytes, &request), *request.user);
        }
        let found = |bytes: &[u8]| packets.find(bytes).map(|(request, user)| (request.user.clone(), user.to_string()));
        assert_eq!(found(&packet("u0")), None);
        assert_eq!(found(&packet("u8")), Some(("u8".to_owned(), "u8".to_owned())));
        let mut longer = packet("u8");
        longer.push(0);
        assert_eq!((found(&longer), found(&packet("u8")[1..])), (None, None));
        assert_eq!(packets.known.iter().count(), MAX_PACKETS);
    }
}
