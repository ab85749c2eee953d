//! A client that has proven who it is gets its login messages, and is ready for queries.
//!
//! The login messages are what the servers of the client's pool have reported last; a free server is asked again when
//! that is too long ago.

use weir_base::{ConnId, Time};
use weir_session::{Client, Refusal};

use crate::cancel::overdue;
use crate::client::slot::{ClientPhase, ClientSlot};
use crate::client::table;
use crate::client_login::auth_query;
use crate::client_login::reported::Welcome;
use crate::client_login::state::LoginPhase;
use crate::client_login::welcome;
use crate::common::{FollowUp, cx};
use crate::core::Core;
use crate::link::{acquire, deadlines, leave};
use crate::pools::refuse;
use crate::port::Io;
use crate::replication;
use crate::server::slot::{ServerPhase, ServerSlot};
use crate::server::{close, login_steps};
use crate::timers::Who;

/// A server reports changed parameters when it answers a query; this query does nothing.
const CONFIRMING: &str = ";";

/// Why a server is closed for which no login messages are known.
const UNKNOWN: &str = "its parameters are not known";

/// A client has a pool whose servers' parameters are known: it is ready for queries.
pub(crate) fn ready<I: Io>(
    core: &mut Core,
    now: Time,
    mut client: Box<ClientSlot>,
    phase: Box<LoginPhase>,
    welcome: &Welcome,
    io: &mut I,
) {
    let request = &phase.request;
    let key = table::issue_cancel_key(core, &mut client, request.minor);
    let wall = core.common.wall(now);
    let cx = cx!(core, now, io);
    let slot = core.pools.get_mut(client.pool);
    let start = match welcome::send(cx, (&client, &key), request, welcome, &mut slot.last_welcome) {
        Ok(start) => start,
        Err(refusal) => return leave::refuse(core, now, client, refusal, io),
    };
    slot.counts.counters.logins += 1;
    slot.counts.stats.client_login_count += 1;
    slot.counts.note_application(request.param("application_name").unwrap_or_default(), wall);
    let mut session = Client::logged_in(client.id, slot.config.policy.mode, start.params, start.asked);
    session.share_channels(slot.rules.shares_listen);
    client.acts(now);
    table::insert_ready(core, client, ClientPhase::Ready(session), io);
}

/// A client that waited for its pool's first server completes its login, and the server is free again.
fn finish_welcome<I: Io>(core: &mut Core, now: Time, mut client: Box<ClientSlot>, io: &mut I) {
    if let Some(server) = client.unlinked() {
        if let Some(server) = core.conns.get_mut::<ServerSlot>(server) {
            server.unlinked();
        }
        core.common.follow_up(FollowUp::Release(server));
    }
    let Some(welcome) = core.pools.get(client.pool).welcome.clone() else {
        return leave::refuse(core, now, client, Refusal::Broken("a server without a welcome"), io);
    };
    let ClientPhase::Welcome(phase) = client.take_phase() else { return };
    ready(core, now, client, phase, &welcome, io);
}

/// A client that logs in is given a server: one of its own, or one that says what its pool's login messages are now.
pub(crate) fn granted<I: Io>(core: &mut Core, now: Time, client: ConnId, server: ConnId, io: &mut I) {
    let Some(mut server) = core.conns.take::<ServerSlot>(server) else {
        // The server was lost meanwhile.
        let Some(client) = core.conns.get::<ClientSlot>(client) else { return };
        return acquire::requeue(core, now, client.pool, client.conn, client.request_at, io);
    };
    let Some(mut client) = core.conns.take::<ClientSlot>(client) else {
        core.common.follow_up(FollowUp::Release(server.conn));
        return core.conns.put_server(server);
    };
    if server.dedicated.is_some() {
        return replication::begin_stream(core, now, client, server, io);
    }
    if core.pools.get(server.pool).welcome.is_none() {
        // The server came from another process, which did not know what the server had reported.
        let (pool, conn, since) = (server.pool, client.conn, client.request_at);
        core.conns.put_client(client);
        close::close_slot(core, now, server, UNKNOWN, io);
        return acquire::requeue(core, now, pool, conn, since, io);
    }
    client.linked(server.conn);
    server.welcomes(client.conn);
    let slot = core.pools.get(server.pool);
    if slot.may_confirm_welcome(now) {
        acquire::own_query(cx!(core, now, io), slot, &mut server, CONFIRMING, ServerPhase::Checking);
        core.conns.put_server(server);
        return table::insert_waiting(core, client, io);
    }
    server.up().into_iter().for_each(|(_, phase)| *phase = ServerPhase::Linked);
    core.conns.put_server(server);
    finish_welcome(core, now, client, io);
}

/// A server has answered the query that asks for its changed parameters.
pub(crate) fn confirmed<I: Io>(core: &mut Core, now: Time, client: ConnId, io: &mut I) {
    let Some(client) = core.conns.take::<ClientSlot>(client) else { return };
    if let Some(server) = client.link.and_then(|server| core.conns.get_mut::<ServerSlot>(server)) {
        server.up().into_iter().for_each(|(_, phase)| *phase = ServerPhase::Linked);
        core.pools.get_mut(client.pool).welcome_confirmed(now);
    }
    finish_welcome(core, now, client, io);
}

/// A client without a login, or one that asked to cancel something, may have taken too long.
pub(crate) fn due<I: Io>(core: &mut Core, now: Time, conn: ConnId, io: &mut I) {
    let Some(mut client) = core.conns.take::<ClientSlot>(conn) else { return };
    if let Some(refusal) = refuse::never_reached(core, now, &client) {
        return leave::refuse(core, now, client, refusal, io);
    }
    let deadline = deadlines::client_deadline(core, &client);
    if deadline > now {
        core.common.arm(Who::Conn(conn), deadline, client.armed_mut());
        return core.conns.put_client(client);
    }
    let refusal = match &client.phase {
        ClientPhase::Delayed(delayed) => delayed.refusal.clone(),
        ClientPhase::Canceller => return overdue::sender_due(core, now, client, io),
        ClientPhase::Welcome(_)
            if deadlines::may_take_last_welcome(&core.pools, &client)
                && deadlines::login_due(&core.common, &client) > now =>
        {
            return take_last_welcome(core, now, client, io);
        }
        ClientPhase::Welcome(_) => {
            let (_, why) = refuse::cause_of_wait(core, now, client.pool);
            let detail = format!("{} {why}", login_steps::failed_for(core.pools.get(client.pool)));
            Refusal::LoginTimeoutServerDown { detail }
        }
        ClientPhase::AuthLookup(request) => auth_query::not_answered(core, now, &request.database),
        _ => Refusal::LoginTimeout,
    };
    leave::refuse(core, now, client, refusal, io);
}

/// No new server has logged in for some time: the client is sent the login messages of the last one.
fn take_last_welcome<I: Io>(core: &mut Core, now: Time, client: Box<ClientSlot>, io: &mut I) {
    core.pools.get_mut(client.pool).pool.leave(client.conn, now);
    core.common.follow_up(FollowUp::PollPool(client.pool));
    finish_welcome(core, now, client, io);
}
