//! A server that was up is lost: what its client and its pool get.

use weir_base::{ConnId, Span, Time};
use weir_session::Refusal;

use crate::client::slot::{ClientPhase, ClientSlot};
use crate::client::table;
use crate::common::FollowUp;
use crate::conns::Conn;
use crate::core::Core;
use crate::lending::messages;
use crate::lines;
use crate::link::{acquire, leave};
use crate::pools::create;
use crate::port::{Io, Level};
use crate::server::slot::{ServerPhase, ServerSlot};

/// The client of a server that is closed is closed with it: no other server can serve it.
pub(crate) fn end_stream<I: Io>(core: &mut Core, now: Time, client: ConnId, why: &str, io: &mut I) {
    let Some(mut client) = core.conns.take::<ClientSlot>(client) else { return };
    client.unlinked();
    io.close(client.conn);
    leave::remove_client(core, now, client, why, io);
}

/// A server that had not sent anything for so long may have been ended by a network device, or a proxy, as idle.
const LONG_IDLE: Span = Span::from_secs(10);

/// Counts a server that the database server has ended: with its reason, or without one while a client had it or shortly
/// after; one that crashes gives none.
fn count_lost(core: &mut Core, now: Time, server: &ServerSlot) {
    let code = match &server.fatal_error {
        Some(Refusal::ServerDown { sqlstate, .. }) => sqlstate.as_bytes().try_into().ok(),
        None => {
            let is_recent = server.link.is_some() || now.since(server.clock.received_at()) < LONG_IDLE;
            is_recent.then_some(*b"08006")
        }
        Some(_) => None,
    };
    let slot = core.pools.get_mut(server.pool);
    let others = slot.pool.len() as u32;
    if let Some(code) = code {
        slot.lost_servers.count(code, others, now);
    }
}

/// A server's connection has ended, or is closed because the server can't be trusted; it is out of the table.
pub(crate) fn server_lost<I: Io>(core: &mut Core, now: Time, mut server: Box<ServerSlot>, io: &mut I) {
    let (conn, ix) = (server.conn, server.pool);
    let Some(phase) = server.phase() else { return };
    if core.common.config().log.disconnections {
        let age = now.since(server.connection.connected_at()).micros() / 1_000_000;
        let text = format_args!("closing because: server conn crashed? (age={age}s)");
        lines::about_server(core, Level::Info, &server, text, io);
    }
    core.pools.get_mut(ix).pool.lost(conn, now);
    create::server_lost(core, now, ix);
    count_lost(core, now, &server);
    core.upgrade.left(conn);
    core.common.follow_up(FollowUp::PollPool(ix));
    match phase {
        ServerPhase::AuthQuery(query) => {
            return core
                .common
                .follow_up(FollowUp::AuthQueryLost { query, error: server.take_fatal_error().map(Box::new) });
        }
        ServerPhase::Lending { request, .. } => return messages::lending_failed(core, ix, request, io),
        _ => {}
    }
    let Some(client) = server.link else { return };
    let Some(mut client) = core.conns.take::<ClientSlot>(client) else { return };
    client.lost_server(server.up().is_some_and(|(up, _)| up.is_mid_message()));
    if matches!(phase, ServerPhase::Checking | ServerPhase::SyncingParameters)
        && matches!(client.phase, ClientPhase::Ready(_) | ClientPhase::Welcome(_))
    {
        // Nothing of the client's was sent yet: it may get another server, at its old position in the queue.
        let (conn, since) = (client.conn, client.request_at);
        let cancelled = client.ready().is_some_and(|session| session.is_cancelled());
        core.conns.put_at(conn, Conn::Client(client));
        if cancelled {
            return table::resume_client(core, conn, io);
        }
        return acquire::requeue(core, now, ix, conn, since, io);
    }
    if phase == ServerPhase::Streaming {
        let conn = client.conn;
        core.conns.put_client(client);
        return end_stream(core, now, conn, "server conn crashed?", io);
    }
    let seen = !matches!(phase, ServerPhase::Asking | ServerPhase::Subscribing)
        && server.fatal_error.as_ref().is_some_and(|error| !matches!(error, Refusal::ServerUnexpected));
    if seen {
        // The client has received the server's own error.
        io.close_after_error(client.conn);
        return leave::remove_client(core, now, client, "server conn crashed?", io);
    }
    let refusal = server.take_fatal_error().unwrap_or(Refusal::ServerLost);
    leave::refuse(core, now, client, refusal, io);
}
