//! Replication connections: a client that gets a server of its own, opened with its startup parameters and closed with
//! it.
//!
//! The client waits in its pool for such a server (`weir-pool`, `dedicated`), receives what that server has reported,
//! and from then on the two are a link whose bytes are forwarded unchanged.

use weir_base::Time;
use weir_pool::Acquire;
use weir_session::{Refusal, ServerError};

use crate::client::slot::{ClientPhase, ClientSlot};
use crate::client::table;
use crate::client_login::state::LoginPhase;
use crate::client_login::welcome;
use crate::common::{FollowUp, cx};
use crate::core::Core;
use crate::lines;
use crate::link::leave;
use crate::link::stream::Stream;
use crate::pools::refuse;
use crate::port::Io;
use crate::server::login_steps;
use crate::server::slot::{ServerPhase, ServerSlot};

/// Why a client and its server are closed if the server has refused the login (PgBouncer's words).
const LOGIN_FAILED: &str = "login failed";

/// A client that requests replication has a pool: it waits for a server of its own.
pub(crate) fn await_own_server<I: Io>(
    core: &mut Core,
    now: Time,
    mut client: Box<ClientSlot>,
    phase: Box<LoginPhase>,
    io: &mut I,
) {
    let ix = client.pool;
    client.acts(now);
    client.enter(ClientPhase::Welcome(phase));
    match core.pools.get_mut(ix).pool.acquire_dedicated(client.conn, now) {
        Acquire::Refused(why) => {
            let refusal = refuse::refusal(core, ix, why);
            leave::refuse(core, now, client, refusal, io);
        }
        Acquire::Granted { .. } | Acquire::Queued => table::insert_waiting(core, client, io),
    }
    core.common.follow_up(FollowUp::PollPool(ix));
}

/// The additional startup parameters of a client's own server.
pub(crate) fn own_startup(core: &Core, server: &ServerSlot) -> Vec<(String, String)> {
    let owner = server.dedicated.as_ref().and_then(|dedicated| core.conns.get::<ClientSlot>(dedicated.owner));
    let Some((client, ClientPhase::Welcome(phase))) = owner.map(|client| (client, &client.phase)) else {
        return Vec::new();
    };
    let (table, request) = (&core.sessions.params, phase.request());
    let wanted = welcome::wanted(&core.common, table, client, request);
    wanted.map(|wanted| request.for_own_server(table, &wanted)).unwrap_or_default()
}

/// A client's own server has logged in: from now on bytes are forwarded between the two.
pub(crate) fn begin_stream<I: Io>(
    core: &mut Core,
    now: Time,
    mut client: Box<ClientSlot>,
    mut server: Box<ServerSlot>,
    io: &mut I,
) {
    client.linked(server.conn);
    server.linked(client.conn);
    server.clock_mut().linked(now);
    server.up().into_iter().for_each(|(_, phase)| *phase = ServerPhase::Streaming);
    let known = server.dedicated_mut().and_then(|dedicated| dedicated.welcome.take());
    let conn = server.conn;
    core.conns.put_server(server);
    let ClientPhase::Welcome(phase) = client.take_phase() else {
        return leave::refuse(
            core,
            now,
            client,
            Refusal::Broken("a server of its own for a client that is not new"),
            io,
        );
    };
    let Some(known) = known else {
        return leave::refuse(core, now, client, Refusal::Broken("a server without a welcome"), io);
    };
    let key = table::issue_cancel_key(core, &mut client, phase.request().minor);
    welcome::greet(cx!(core, now, io), client.conn, &key, &known.reported, &known.params);
    let slot = core.pools.get_mut(client.pool);
    slot.counts.counters.logins += 1;
    slot.counts.stats.server_assignment_count += 1;
    let mut stream = Stream::new(phase.request().replication, known.params);
    let ahead = std::mem::take(client.waiting_mut());
    let terminated = stream.client_sent(&ahead);
    let owner = client.conn;
    table::insert_ready(core, client, ClientPhase::Streaming(Box::new(stream)), io);
    if !ahead.is_empty() {
        io.send(conn, &ahead);
    }
    core.sessions.recycle(ahead);
    if let Some(client) = terminated.then(|| core.conns.take::<ClientSlot>(owner)).flatten() {
        leave::client_leaves(core, now, client, io);
    }
}

/// A client that replicates sent something.
pub(crate) fn stream_to_server<I: Io>(
    core: &mut Core,
    now: Time,
    mut client: Box<ClientSlot>,
    bytes: &[u8],
    io: &mut I,
) {
    let ClientPhase::Streaming(stream) = client.phase_mut() else { return core.conns.put_client(client) };
    let terminated = stream.client_sent(bytes);
    core.pools.get_mut(client.pool).counts.stats.received += bytes.len() as u64;
    // All input is sent on, also what arrived with Terminate: the position up to which a standby has written may be in
    // it.
    if let Some(server) = client.link.and_then(|server| core.conns.get_mut::<ServerSlot>(server)) {
        server.clock_mut().request_sent(now);
        io.forward(server.conn, 0..bytes.len());
    }
    if terminated {
        return leave::client_leaves(core, now, client, io);
    }
    core.conns.put_client(client);
}

/// The server of a client that replicates sent something.
pub(crate) fn stream_to_client<I: Io>(
    core: &mut Core,
    now: Time,
    mut server: Box<ServerSlot>,
    bytes: &[u8],
    io: &mut I,
) {
    let slot = core.pools.get_mut(server.pool);
    slot.counts.stats.sent += bytes.len() as u64;
    if let Some(client) = server.link.and_then(|client| core.conns.get_mut::<ClientSlot>(client)) {
        io.forward(client.conn, 0..bytes.len());
        if let ClientPhase::Streaming(stream) = client.phase_mut() {
            let ended = stream.server_sent(bytes);
            if ended.queries > 0 {
                let took = server.clock_mut().queries_ended(now, ended.transactions, false, Time::NEVER);
                let stats = &mut slot.counts.stats;
                stats.query_count += u64::from(ended.queries);
                stats.xact_count += u64::from(ended.transactions);
                stats.query_time += took.query.unwrap_or(0);
                stats.xact_time += took.transaction.unwrap_or(0);
            }
        }
    }
    core.conns.put_server(server);
}

/// A server has refused the login for the one client that it was for. No conclusion about other logins of the pool
/// is drawn: a role may lack REPLICATION, or `pg_hba.conf` a line for it.
pub(crate) fn own_login_refused<I: Io>(
    core: &mut Core,
    now: Time,
    server: &ServerSlot,
    error: ServerError,
    io: &mut I,
) {
    let Some(owner) = server.dedicated.as_ref().map(|dedicated| dedicated.owner) else { return };
    core.pools.get_mut(server.pool).pool.dedicated_refused(server.conn);
    core.common.follow_up(FollowUp::PollPool(server.pool));
    lines::server_ends(core, now, server, LOGIN_FAILED, io);
    let Some(client) = core.conns.take::<ClientSlot>(owner) else { return };
    let refusal = login_steps::refusal(core.pools.get(server.pool), error.of_own_login());
    leave::refuse_because(core, now, client, refusal, LOGIN_FAILED, io);
}
