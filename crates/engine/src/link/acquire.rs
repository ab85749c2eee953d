//! A client gets a server: from its pool, or as the next one in the queue.

use weir_base::{ConnId, PoolMode, Span, Time};
use weir_pgwire::{Dirty, HEAD};
use weir_pool::Acquire;
use weir_session::{Refusal, StopReason, param_sync, sequences};

use crate::client::slot::{ClientPhase, ClientSlot};
use crate::client::table;
use crate::common::{Cx, FollowUp, UnderWay, cx};
use crate::core::Core;
use crate::handles::Waiter;
use crate::lending::messages;
use crate::link::deadlines::watch_own_query;
use crate::link::leave;
use crate::link::wire::Wire;
use crate::log::{log_client, log_server};
use crate::pools::{PoolSlot, create, refuse};
use crate::port::{Io, Level};
use crate::reading::Reason;
use crate::server::slot::{ServerPhase, ServerSlot};
use crate::timers::Who;
use crate::workers::messages::Drain;

/// Links a server to a waiter. `waited`: how long it has waited, if it had to.
pub(crate) fn link_waiter<I: Io>(
    core: &mut Core,
    now: Time,
    (waiter, waited): (ConnId, Option<Span>),
    mut server: Box<ServerSlot>,
    check: bool,
    io: &mut I,
) {
    let conn = server.conn;
    let waiter_is = Waiter::of(waiter);
    // Waits of a borrower's clients are counted at the borrower.
    if let Some(waited) = waited.filter(|_| !matches!(waiter_is, Waiter::Borrower(_))) {
        core.pools.get_mut(server.pool).counts.waited(waited);
    }
    let client = match waiter_is {
        Waiter::Client(client) => core.conns.take::<ClientSlot>(client),
        Waiter::AuthQuery(_) | Waiter::Listener(_) => {
            core.conns.put_server(server);
            return core.common.follow_up(FollowUp::Granted { waiter, server: conn });
        }
        Waiter::Borrower(request) => {
            core.conns.put_server(server);
            return messages::lend(core, request, conn, check, io);
        }
    };
    let Some(mut client) = client else { return core.conns.put_server(server) };
    if let ClientPhase::Welcome(_) = client.phase {
        core.conns.put_client(client);
        core.conns.put_server(server);
        return core.common.follow_up(FollowUp::Granted { waiter, server: conn });
    }
    let slot = core.pools.get_mut(client.pool);
    if link(cx!(core, now, io), slot, &mut client, &mut server, check) {
        table::resume_waiting(core, &mut client, io);
    }
    core.conns.put_server(server);
    core.conns.put_client(client);
}

/// A pool gives a server to a waiter, by their handles.
pub(crate) fn grant<I: Io>(
    core: &mut Core,
    now: Time,
    waiter: (ConnId, Option<Span>),
    server: ConnId,
    check: bool,
    io: &mut I,
) {
    if let Some(server) = core.conns.take::<ServerSlot>(server) {
        link_waiter(core, now, waiter, server, check, io);
    }
}

/// A client waits on, at its old position in the queue: its server was lost before it got anything, or it has come from
/// another process.
pub(crate) fn requeue<I: Io>(core: &mut Core, now: Time, ix: u32, client: ConnId, since: Time, io: &mut I) {
    match core.pools.get_mut(ix).pool.requeue(client, since, now) {
        Acquire::Granted { server, check } => grant(core, now, (client, None), server, check, io),
        Acquire::Queued => core.common.follow_up(FollowUp::PollPool(ix)),
        Acquire::Refused(why) => {
            let refusal = refuse::refusal(core, ix, why);
            leave::refuse_handle(core, now, client, refusal, io);
        }
    }
}

/// A client needs a server now.
///
/// # Errors
/// The client waits for a server ([`StopReason::NeedServer`]), or gets none.
#[inline]
pub(crate) fn acquire<I: Io>(
    core: &mut Core,
    now: Time,
    client: &mut ClientSlot,
    io: &mut I,
) -> Result<Box<ServerSlot>, StopReason> {
    client.acts(now);
    let mut slot = core.pools.get_mut(client.pool);
    if slot.removed {
        create::move_to_successor(core, now, client);
        slot = core.pools.get_mut(client.pool);
    }
    if matches!(&client.phase, ClientPhase::Ready(session) if session.mode() == PoolMode::Auto) {
        slot.follow_functions();
    }
    match slot.pool.acquire(client.conn, now) {
        Acquire::Granted { server, check } => {
            slot.counts.counters.times().wait.count(0);
            let Some(mut server) = core.conns.take::<ServerSlot>(server) else { return Err(StopReason::NeedServer) };
            if link(cx!(core, now, io), slot, client, &mut server, check) {
                return Ok(server);
            }
            core.conns.put_server(server);
            Err(StopReason::NeedServer)
        }
        Acquire::Queued
            if core.common.is_under_way(UnderWay::SHUTDOWN) && core.shutdown.draining() == Some(Drain::Servers) =>
        {
            Err(StopReason::refuse(Refusal::ServersShuttingDown))
        }
        Acquire::Queued => {
            if slot.needs_poll() {
                let due = slot.pool.next_deadline();
                if slot.is_plain && due > now && core.common.is_under_way(UnderWay::HEALTH_CHECK) {
                    // Nothing is due yet, and it is known that clients wait.
                    core.common.arm(Who::Pool(client.pool), due, slot.armed_mut());
                } else {
                    core.common.follow_up(FollowUp::PollPool(client.pool));
                }
            }
            Err(StopReason::NeedServer)
        }
        Acquire::Refused(why) => Err(StopReason::refuse(refuse::refusal(core, client.pool, why))),
    }
}

/// Links a client to a server from the pool. Returns whether the client may go on at once; otherwise a prelude is
/// under way.
pub(crate) fn link<I: Io>(
    cx: &mut Cx<'_, I>,
    slot: &mut PoolSlot,
    client: &mut ClientSlot,
    server: &mut ServerSlot,
    check: bool,
) -> bool {
    slot.counts.stats.server_assignment_count += 1;
    client.linked(server.conn);
    if cx.common.silence.is_on() && !slot.is_watched {
        slot.set_watched(true);
        cx.common.watch_silence(client.pool);
    }
    server.serves(client.conn, cx.now);
    if cx.io.logs(Level::Noise) {
        let text = format_args!("linking client to S-{:#x}", server.id);
        log_client(Level::Noise, cx.common.config(), client, &slot.name, text, cx.io);
    }
    if server.reading.has(Reason::OwnFull) {
        // The bytes of the server's last client still wait for the server's socket.
        client.pause(Reason::OtherFull, cx.io);
    }
    if let (ClientPhase::Ready(session), Some((up, _))) = (client.phase_mut(), server.up()) {
        sequences::linked(session, up, &slot.accepted, &cx.sessions.params);
        if session.mode() == PoolMode::Auto {
            up.note_functions_found(&slot.accepted);
            slot.auto_client_linked(cx.now);
        }
    }
    if check {
        let query = slot.config.policy.check_query.as_deref().unwrap_or_default();
        own_query(cx, slot, server, query, ServerPhase::Checking);
        return false;
    }
    if sync_parameters(cx, slot, client, server) {
        return false;
    }
    if client.reading.has(Reason::OwnFull) {
        server.pause_for_client(cx.io);
    }
    true
}

/// Sends a client's server the parameters in which the two differ. Returns whether there were any: then they are
/// answered first.
#[inline(always)]
pub(crate) fn sync_parameters<I: Io>(
    cx: &mut Cx<'_, I>,
    slot: &PoolSlot,
    client: &mut ClientSlot,
    server: &mut ServerSlot,
) -> bool {
    if let (ClientPhase::Ready(session), Some((up, phase))) = (&client.phase, server.up())
        && param_sync::are_shared(up, session)
    {
        *phase = ServerPhase::Linked;
        return false;
    }
    send_parameters(cx, slot, client, server)
}

/// Sends a client's server the parameters in which the two differ, where the two do not share their parameters.
fn send_parameters<I: Io>(
    cx: &mut Cx<'_, I>,
    slot: &PoolSlot,
    client: &mut ClientSlot,
    server: &mut ServerSlot,
) -> bool {
    let (to, conn) = (client.conn, server.conn);
    if let ClientPhase::Ready(session) = client.phase_mut() {
        slot.listening.note_heard(session, server.connection.target());
    }
    let (ClientPhase::Ready(session), Some((up, phase))) = (client.phase_mut(), server.up()) else { return false };
    let mut wire = Wire::new(cx.io, to, conn, &[], None);
    let differ = param_sync::start(up, session, &cx.sessions.params, &mut cx.sessions.scratch, &mut wire);
    *phase = if differ { ServerPhase::SyncingParameters } else { ServerPhase::Linked };
    if differ {
        watch_own_query(cx, slot, server);
        if cx.io.logs(Level::Debug) {
            // The query has just been written there, as a message.
            let query = cx.sessions.scratch.get(HEAD..).and_then(|text| text.strip_suffix(&[0])).unwrap_or_default();
            let query = String::from_utf8_lossy(query);
            let pool = (&*slot.name, &*slot.user);
            log_server(Level::Debug, server, pool, format_args!("varcache_apply: {query}"), cx.io);
        }
    }
    differ
}

/// Asks a server what its client has left; the client waits for the answer.
#[cold]
pub(crate) fn ask_left<I: Io>(
    cx: &mut Cx<'_, I>,
    slot: &mut PoolSlot,
    client: &mut ClientSlot,
    server: &mut ServerSlot,
) {
    let (conn, kinds) = (server.conn, client.ready().map_or(Dirty::NONE, |session| session.asks()));
    let Some((up, phase)) = server.up() else { return };
    *phase = ServerPhase::Asking;
    up.ask_left(
        kinds,
        &cx.sessions.params,
        &mut slot.accepted,
        &mut cx.sessions.scratch,
        &mut Wire::new(cx.io, ConnId::NONE, conn, &[], None),
    );
    watch_own_query(cx, slot, server);
    client.pause(Reason::Waits, cx.io);
}

/// Sends a query of Weir to a server of the pool; `next` is the phase until its reply.
pub(crate) fn own_query<I: Io>(
    cx: &mut Cx<'_, I>,
    slot: &PoolSlot,
    server: &mut ServerSlot,
    query: &str,
    next: ServerPhase,
) {
    let conn = server.conn;
    let Some((up, phase)) = server.up() else { return };
    *phase = next;
    up.own_query(query, &mut cx.sessions.scratch, &mut Wire::new(cx.io, ConnId::NONE, conn, &[], None));
    watch_own_query(cx, slot, server);
}
