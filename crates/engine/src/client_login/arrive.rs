//! From a client's first byte to its startup packet: PROXY header, encryption, cancel requests.
//!
//! Owns no state. Also decides whether a connection may be accepted at all.

use std::ops::RangeInclusive;
use std::sync::Arc;

use weir_base::ClientAddr;
use weir_config::Config;
use weir_pgwire::proxy::{self, Proxied};
use weir_session::Refusal;
use weir_session::startup::{self, EncryptionRequests, FirstPacket, StartupRequest};

use crate::client::slot::{ClientPhase, ClientSlot};
use crate::client_login::startup_packets::StartupPackets;
use crate::client_login::step::EntryStep;
use crate::client_login::tls;
use crate::common::Cx;
use crate::log;
use crate::port::{Io, Level};

/// Connections beyond `max_clients`, so that clients can be refused with a reason, or cancel: this fraction of
/// `max_clients`, within these bounds.
const SURPLUS: (u32, RangeInclusive<u32>) = (8, 10..=100);
/// Further connections for clients of the Unix socket, and as many again for root and the user that this process runs
/// as: so operators can log in under any load.
const LOCAL_SURPLUS: (u32, RangeInclusive<u32>) = (32, 4..=20);

/// The limit of connections that applies to this one.
pub(crate) fn max_connections(max_clients: u32, local: bool, privileged: bool) -> u32 {
    let part = |(part, bounds): (u32, RangeInclusive<u32>)| (max_clients / part).clamp(*bounds.start(), *bounds.end());
    let locals = if privileged { 2 } else { u32::from(local) };
    max_clients.saturating_add(part(SURPLUS)).saturating_add(locals * part(LOCAL_SURPLUS))
}

/// The first phase of a new client: load balancers send a PROXY header.
pub(crate) fn first_phase(config: &Config, from: &ClientAddr) -> ClientPhase {
    let balancer = |from: &ClientAddr| {
        let ClientAddr::Tcp(from) = from else { return false };
        config.listen.proxy_from.iter().any(|network| network.contains(from.ip()))
    };
    if balancer(from) { ClientPhase::Header } else { ClientPhase::OPENING }
}

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
            tls::requested(cx, client)
        }
        FirstPacket::DirectTls => tls::begun(cx, client),
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
    if tls::is_missing(cx.common.config(), client) {
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
