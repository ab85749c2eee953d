//! Another process takes over: connections between two transactions leave with their sockets, and the rest when they
//! reach that state.
//!
//! Idle servers leave before clients, so that the new process need not open as many of its own. A client that waits for
//! a server leaves with its request, and keeps its age in the queue: the servers that are left here may be in
//! transactions for long. During the take-over, a server is opened only for logins and other waits that can't leave,
//! and only instead of one that the pool has had: the process that takes over leaves those to this one.

use std::collections::BTreeMap;

use weir_base::{ConnId, Time, WorkerId};
use weir_session::{Refusal, frozen, frozen_server};

use crate::cancel::home;
use crate::client::slot::{ClientPhase, ClientSlot, Ended};
use crate::client::table;
use crate::client_login::state::Handoff;
use crate::common::{FollowUp, UnderWay};
use crate::conns::Conn;
use crate::core::Core;
use crate::handles::PoolIx;
use crate::lending::messages;
use crate::link::leave;
use crate::listen::clients;
use crate::pause::watch;
use crate::pools::create::pool_hash;
use crate::pools::{PoolSlot, create};
use crate::port::{Io, OfferedState, UpgradeStep};
use crate::reading::Reason;
use crate::server::ending::EndingSlot;
use crate::server::slot::{ServerPhase, ServerSlot, ServerState};
use crate::upgrade::HandOver;
use crate::upgrade::held::PoolName;
use crate::upgrade::moved::{Held, Moved, MovedClient, MovedPool, MovedServer};
use crate::workers::client_counts;
use crate::workers::messages::{Message, Payload};

/// Why another process may not take over: operators have stopped something, or are about to.
pub(crate) const PAUSED: &str = "it is paused or suspended: RESUME first";
pub(crate) const MOVES: &str = "a pool moves to another primary: try again in a moment";

/// What another process begins with, or why it may not take over now.
pub(crate) fn may_export(core: &Core) -> Result<OfferedState, &'static str> {
    if core.shutdown.is_under_way() {
        return Err("it is shutting down");
    }
    if core.pause.is_stopped() {
        return Err(PAUSED);
    }
    if core.primaries.is_moving() {
        return Err(MOVES);
    }
    Ok(OfferedState { last_id: core.common.last_id(), ..OfferedState::default() })
}

/// How many connections the new process has to wait for. Operators do not count; nor do unused servers, except in pools
/// that nodes share: there a connection counts until the server has ended it.
fn left_to_export(core: &Core) -> usize {
    let clients = core.conns.all::<ClientSlot>().filter(|client| !matches!(client.phase, ClientPhase::Console(_)));
    let is_shared = |name: &str| core.common.config().shared_budget(name).is_some();
    let counts = |server: &&ServerSlot| {
        server.phase().is_some_and(|phase| phase != ServerPhase::Idle) || is_shared(&core.pools.get(server.pool).name)
    };
    clients.count() + core.conns.all::<ServerSlot>().filter(counts).count() + core.conns.all::<EndingSlot>().count()
}

/// The pools in use are given first, so that no client waits for thousands of others.
fn export_used_pools<I: Io>(core: &mut Core, io: &mut I) {
    let (used, unused): (Vec<_>, Vec<_>) = core.pools.indices().into_iter().partition(|ix| {
        let slot = core.pools.get(*ix);
        slot.clients > 0 || !slot.pool.is_empty()
    });
    used.into_iter().for_each(|ix| export_own_pool(core, ix, io));
    core.upgrade.unused = unused;
}

/// A few of the others in each round. The take-over goes on as long as a round gives something.
fn export_unused_pools<I: Io>(core: &mut Core, io: &mut I) {
    let first = core.upgrade.unused.len().saturating_sub(core.common.pools_per_turn());
    core.upgrade.unused.split_off(first).into_iter().for_each(|ix| export_own_pool(core, ix, io));
}

fn export_own_pool<I: Io>(core: &mut Core, ix: PoolIx, io: &mut I) {
    if let Some(slot) = core.pools.find_mut(ix).filter(|slot| !slot.removed && !slot.lending.is_borrower()) {
        export_pool(slot, io);
    }
}

/// Gives what is known of a pool, before its servers: what they have reported, and credentials.
pub(crate) fn export_pool<I: Io>(slot: &PoolSlot, io: &mut I) {
    let captured = slot.credentials.captured();
    let moved = MovedPool {
        database: slot.name.to_string(),
        user: slot.user.to_string(),
        reported: slot.welcome.as_ref().map(|welcome| welcome.reported.list()),
        password: captured.password.as_deref().map(str::to_owned),
        keys: captured.keys.clone(),
        looked_up: slot.credentials.looked_up().cloned(),
        schema: slot.accepted.schema_changes(),
    };
    io.export(route_of(&slot.name, &slot.user), Moved::Pool(Box::new(moved)).write(), None);
}

/// The other process opens as many less as are here, and here no more are opened.
fn report_held<I: Io>(core: &mut Core, io: &mut I) {
    let mut own = BTreeMap::<PoolName, u32>::new();
    for ix in core.pools.indices() {
        let slot = core.pools.get_mut(ix);
        if slot.lending.is_borrower() {
            continue;
        }
        let (kept, differs) = slot.pool.keep_servers();
        if kept > 0 {
            own.insert((slot.name.clone(), slot.user.clone()), kept);
        }
        if differs {
            core.common.follow_up(FollowUp::PollPool(ix));
        }
    }
    let leaving = core.conns.all::<ServerSlot>().filter(|server| server.phase() == Some(ServerPhase::Leaving));
    for slot in leaving.map(|server| core.pools.get(server.pool)) {
        // The server counts until it has arrived there.
        *own.entry((slot.name.clone(), slot.user.clone())).or_default() += 1;
    }
    for ((database, user), servers) in core.upgrade.held.changes(own) {
        let route = route_of(&database, &user);
        let held = Held { database: database.to_string(), user: user.to_string(), servers };
        io.export(route, Moved::Held(held).write(), None);
    }
}

/// `upgrade_timeout` is over: the clients that did not become free are not served any more.
fn refuse_rest<I: Io>(core: &mut Core, now: Time, io: &mut I) {
    let waited_for = core.conns.all::<ClientSlot>().filter(|client| client.is_waited_for());
    let rest: Vec<ConnId> = waited_for.map(|client| client.conn).collect();
    rest.into_iter().for_each(|client| leave::refuse_handle(core, now, client, Refusal::UpgradeTimeout, io));
}

/// A client as a value, with its frozen session; `waits_with`: what it waits with for a server, if it does.
pub(crate) fn moved_client(
    core: &Core,
    client: &ClientSlot,
    session: Vec<u8>,
    waits_with: Option<Vec<u8>>,
) -> MovedClient {
    let slot = core.pools.get(client.pool);
    let (secret, issued) = client.cancel.parts();
    MovedClient {
        id: client.id,
        database: slot.name.to_string(),
        pool_user: slot.user.to_string(),
        user: client.user.to_string(),
        addr: client.addr.clone(),
        connected_at: client.connected_at.micros(),
        request_at: client.request_at.micros(),
        tls: client.tls.as_deref().cloned(),
        pid: client.cancel.pid,
        secret,
        issued,
        session,
        waits_with,
    }
}

fn export_client<I: Io>(core: &mut Core, now: Time, mut client: Box<ClientSlot>, io: &mut I) {
    let waits = waits_for_server(&client);
    let session = match &client.phase {
        ClientPhase::Ready(session) if waits || is_free(&client) => frozen::freeze(session, &core.sessions.params),
        _ => None,
    };
    let Some(session) = session else { return core.conns.put_client(client) };
    let waits_with = waits.then(|| std::mem::take(client.waiting_mut()));
    let (pid, moved) = (client.cancel.pid, moved_client(core, &client, session, waits_with));
    clients::client_leaves(core, &client);
    if waits {
        core.pools.get_mut(client.pool).pool.leave(client.conn, now);
        core.common.follow_up(FollowUp::PollPool(client.pool));
    }
    core.upgrade.leave(client.conn, u64::from(pid >> 24), Moved::Client(Box::new(moved)).write());
    client.enter(ClientPhase::Moving(Box::new(Handoff::Upgrade)));
    io.detach(client.conn);
    core.conns.put_client(client);
}

fn export_server<I: Io>(core: &mut Core, now: Time, mut server: Box<ServerSlot>, io: &mut I) {
    let free = server.link.is_none() && server.cancels == 0 && !server.closes;
    let session = match &server.state {
        ServerState::Up(up, ServerPhase::Idle) if free => frozen_server::freeze(up, &core.sessions.params),
        _ => None,
    };
    let (conn, ix) = (server.conn, server.pool);
    let slot = core.pools.get_mut(ix);
    let stays = slot.removed || !slot.pool.contains(conn) || slot.pool.is_unwanted(conn);
    let Some(session) = session.filter(|_| !stays && slot.pool.free_since(conn).is_some()) else {
        return core.conns.put_server(server);
    };
    let (ages, connection) = (slot.pool.ages(conn), &server.connection);
    let moved = MovedServer {
        id: server.id,
        database: slot.name.to_string(),
        user: slot.user.to_string(),
        made_for: made_for(slot),
        target: connection.target().clone(),
        attempt: connection.attempt().parts(),
        local: connection.local().to_owned(),
        remote: connection.remote(),
        tls: connection.tls().cloned(),
        connected_at: ages.connected_at.micros(),
        expires: ages.expires.micros(),
        session,
    };
    slot.pool.given(conn, now);
    if core.common.config().shared_budget(&slot.name).is_some() {
        // Before the server's count is released.
        io.post(WorkerId(0), Message(Payload::ServerGoes(slot.name.clone())), None);
    }
    core.upgrade.leave(conn, route_of(&slot.name, &slot.user), Moved::Server(Box::new(moved)).write());
    messages::untie(core, &mut server);
    server.up().into_iter().for_each(|(_, phase)| *phase = ServerPhase::Leaving);
    core.conns.put_server(server);
    core.common.follow_up(FollowUp::PollPool(ix));
    io.detach(conn);
}

/// A connection leaves, if it is free.
pub(crate) fn export<I: Io>(core: &mut Core, now: Time, conn: ConnId, io: &mut I) {
    if !core.common.is_under_way(UnderWay::EXPORT) {
        return;
    }
    match core.conns.take_any(conn) {
        Conn::Client(client) => export_client(core, now, client, io),
        Conn::Server(server) => export_server(core, now, server, io),
        Conn::Free => {}
        other => core.conns.put_at(conn, other),
    }
}

/// All free connections leave, those that wait in the order of their waits.
fn export_all<I: Io>(core: &mut Core, now: Time, io: &mut I) {
    let servers: Vec<ConnId> = core.conns.all::<ServerSlot>().map(|server| server.conn).collect();
    let mut clients: Vec<(Time, ConnId)> =
        core.conns.all::<ClientSlot>().map(|client| (client.request_at, client.conn)).collect();
    clients.sort_unstable();
    let clients = clients.into_iter().map(|(_, conn)| conn);
    servers.into_iter().chain(clients).for_each(|conn| export(core, now, conn, io));
}

/// A step of the take-over is due.
pub(crate) fn step<I: Io>(core: &mut Core, now: Time, step: UpgradeStep, io: &mut I) {
    match step {
        UpgradeStep::Prepare => io.upgrade_prepared(may_export(core)),
        UpgradeStep::Export => {
            match core.upgrade.begin(&mut core.common) {
                true => export_used_pools(core, io),
                false => export_unused_pools(core, io),
            }
            export_all(core, now, io);
            report_held(core, io);
            if core.upgrade.is_over(&core.common) {
                refuse_rest(core, now, io);
            }
            io.exports_left(left_to_export(core));
        }
        UpgradeStep::Abort => {
            core.common.set_under_way(UnderWay::EXPORT, false);
            core.upgrade.hand_over = HandOver::None;
            core.upgrade.held.forget_reports();
            for ix in core.pools.indices() {
                core.pools.get_mut(ix).pool.keep_no_more();
                core.common.follow_up(FollowUp::PollPool(ix));
            }
        }
    }
}

/// A client's socket is free to leave.
pub(crate) fn client_leaves_process<I: Io>(core: &mut Core, now: Time, mut client: Box<ClientSlot>, io: &mut I) {
    let leaves = core.upgrade.left(client.conn);
    table::forget_timer(core, &client);
    core.upgrade.keys.remove(client.conn);
    home::forget(core, &client, io);
    client_counts::uncount(core, &mut client, io);
    core.pools.get_mut(client.pool).pool.leave(client.conn, now);
    create::count_client(core, client.pool, -1);
    match leaves {
        Some((route, value)) => io.export(route, value, Some(client.conn)),
        None => io.close(client.conn),
    }
    watch::check_drained(core, io);
}

/// A server's socket is free to leave.
pub(crate) fn server_leaves<I: Io>(core: &mut Core, server: Box<ServerSlot>, io: &mut I) {
    match core.upgrade.left(server.conn) {
        Some((route, value)) => {
            let slot = core.pools.get(server.pool);
            core.upgrade.held.gave(&(slot.name.clone(), slot.user.clone()));
            io.export(route, value, Some(server.conn));
        }
        None => io.close(server.conn),
    }
}

/// Whether a client that has logged in is between two requests, and nothing waits for the client or because of it.
pub(crate) fn is_free(client: &ClientSlot) -> bool {
    may_leave(client) && !client.reading.has_any() && client.waiting.is_empty()
}

/// Whether a client that has logged in waits in its pool's queue, and nothing else keeps it here.
fn waits_for_server(client: &ClientSlot) -> bool {
    may_leave(client) && client.reading.has_only(Reason::Waits)
}

/// Whether a client has no server, and its stream goes on.
fn may_leave(client: &ClientSlot) -> bool {
    client.link.is_none() && !client.cut && client.ended == Ended::No
}

/// The number by which another process, maybe with another number of workers, finds the worker of a pool.
fn route_of(database: &str, user: &str) -> u64 {
    pool_hash(database, user)
}

/// A hash of the part of its pool's configuration that a server depends on: FNV-1a over its debug output, so that
/// another version, whose output may differ, opens new servers instead.
pub(crate) fn made_for(slot: &PoolSlot) -> u64 {
    let text = format!("{:?}", slot.config.connects_to());
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
