//! The server that listens for a pool's clients: it begins, speaks, and ends.
//!
//! It counts among the pool's servers, and among those that are kept (`max_pinned`). It is given back when nobody
//! listens any more, when the pool is paused, and when it is to be replaced.

use weir_base::{ConnId, Span, Time};
use weir_pool::Acquire;
use weir_session::Refusal;
use weir_session::listener::Heard;

use crate::client::slot::ClientSlot;
use crate::common::{Cx, FollowUp, cx};
use crate::conns::ConnTable;
use crate::core::Core;
use crate::handles::{PoolIx, listener_handle};
use crate::lines;
use crate::link::wire::Wire;
use crate::link::{leave, lost};
use crate::listen::state::By;
use crate::listen::{clients, deliver};
use crate::pools::{PoolSlot, has_listener_room};
use crate::port::{Io, Level};
use crate::server::close;
use crate::server::slot::{ServerPhase, ServerSlot};

/// When a server is requested again after a refusal, or after one that could not listen: a standby refuses LISTEN.
const AGAIN: Span = Span::from_secs(1);

/// Whether a client's server, on which nothing else is left, may listen for all clients; it is counted as kept then.
pub(crate) fn may_listen(core: &mut Core, server: &ServerSlot) -> bool {
    let slot = core.pools.get_mut(server.pool);
    let stays = !server.closes && !slot.pool.is_outdated(server.conn) && !slot.pool.is_paused();
    let is_kept = |conn| core.conns.get::<ServerSlot>(conn).is_some_and(|server| server.is_kept());
    stays && slot.pin(server.conn, is_kept)
}

/// A client's server listens for all clients from now on. The client has none.
pub(crate) fn becomes<I: Io>(core: &mut Core, now: Time, server: &mut ServerSlot, io: &mut I) {
    server.unlinked();
    server.clock_mut().unlinked();
    let slot = core.pools.get_mut(server.pool);
    let table = slot.listening.table_or_new();
    if let By::Requested(handle) = std::mem::replace(&mut table.by, By::Server(server.conn)) {
        slot.pool.leave(handle, now);
    }
    listens(core, now, server, io);
}

/// A server listens from now on.
fn listens<I: Io>(core: &mut Core, now: Time, server: &mut ServerSlot, io: &mut I) {
    let Some((up, phase)) = server.up() else { return };
    *phase = ServerPhase::Listening;
    up.listens_for_client();
    lines::about_server(core, Level::Debug, server, format_args!("listens for all clients of the pool"), io);
    let slot = core.pools.get_mut(server.pool);
    slot.listening.table().into_iter().for_each(|table| table.at = Some(server.connection.target().clone()));
    commands(cx!(core, now, io), slot, server);
}

/// Sends a server that listens what it is to do.
fn commands<I: Io>(cx: &mut Cx<'_, I>, slot: &mut PoolSlot, server: &mut ServerSlot) {
    let conn = server.conn;
    let (Some(table), Some((up, ServerPhase::Listening))) = (slot.listening.table(), server.up()) else { return };
    let Some(mut query) = table.next_commands() else { return };
    let encoding =
        table.encoding.as_deref().filter(|it| cx.sessions.params.get(up.params(), "client_encoding") != Some(it));
    if let Some(encoding) = encoding {
        query = format!("SET client_encoding = '{}';{query}", encoding.replace('\'', "''"));
    }
    let mut wire = Wire::new(&mut *cx.io, ConnId::NONE, conn, &[], None);
    table.exchange.send(up, &query, &mut cx.sessions.scratch, &mut wire);
}

/// Sends the server that listens what it is to do.
pub(crate) fn send_commands<I: Io>(cx: &mut Cx<'_, I>, slot: &mut PoolSlot, conns: &mut ConnTable, server: ConnId) {
    if let Some(server) = conns.get_mut::<ServerSlot>(server) {
        commands(cx, slot, server);
    }
}

/// The pool has given a server that was requested.
pub(crate) fn granted<I: Io>(core: &mut Core, now: Time, handle: ConnId, server: ConnId, io: &mut I) {
    let Some(mut server) = core.conns.take::<ServerSlot>(server) else { return };
    let table = core.pools.get_mut(server.pool).listening.table();
    match table.filter(|table| table.by == By::Requested(handle)) {
        Some(table) => {
            table.by = By::Server(server.conn);
            listens(core, now, &mut server, io);
        }
        None => {
            // It is not wanted any more.
            if let Some((_, phase)) = server.up() {
                *phase = ServerPhase::Linked;
            }
            core.common.follow_up(FollowUp::Release(server.conn));
        }
    }
    core.conns.put_server(server);
}

/// The pool refuses a server.
pub(crate) fn refused(core: &mut Core, now: Time, ix: PoolIx) {
    if let Some(table) = core.pools.get_mut(ix).listening.table() {
        table.by = By::Nobody;
        table.again = now + AGAIN;
    }
}

/// The server that listens has sent something.
pub(crate) fn bytes<I: Io>(core: &mut Core, now: Time, mut server: Box<ServerSlot>, bytes: &[u8], io: &mut I) {
    let ix = server.pool;
    let mut heard = Vec::new();
    let slot = core.pools.get_mut(ix);
    let (Some(table), Some((up, _))) = (slot.listening.table(), server.up()) else {
        close::drop_connection(core, &server, io);
        return lost::server_lost(core, now, server, io);
    };
    let fed = table.exchange.feed(up, bytes, &core.sessions.params, &mut heard);
    let failed = heard.iter().any(|heard| matches!(heard, Heard::Done(Err(_))));
    let unusable = up.is_unusable();
    if let Err(violation) = fed {
        lines::about_server(
            core,
            Level::Warning,
            &server,
            format_args!("unexpected response from server: {}", violation.0),
            io,
        );
    }
    for heard in heard {
        match heard {
            Heard::Notification(notification) => deliver::deliver(core, now, ix, notification, io),
            Heard::Done(Ok(())) => {
                core.pools.get_mut(ix).listening.table().into_iter().for_each(|table| table.commands_done());
                let slot = core.pools.get_mut(ix);
                commands(cx!(core, now, io), slot, &mut server);
                clients::check_all(core, ix);
                core.common.follow_up(FollowUp::PollPool(ix));
            }
            Heard::Done(Err(error)) => {
                lines::about_server(core, Level::Warning, &server, format_args!("can't listen: {}", error.message), io);
                core.pools.get_mut(ix).listening.table().into_iter().for_each(|table| table.again = now + AGAIN);
            }
        }
    }
    if fed.is_err() || failed || unusable {
        close::drop_connection(core, &server, io);
        return lost::server_lost(core, now, server, io);
    }
    core.conns.put_server(server);
}

/// What is due for those who listen in a pool; returns when more is.
pub(crate) fn settle<I: Io>(core: &mut Core, now: Time, ix: PoolIx, io: &mut I) -> Time {
    let slot = core.pools.get_mut(ix);
    let Some(table) = slot.listening.table() else { return Time::NEVER };
    let has_room = has_listener_room(&core.common, (&slot.name, &slot.user), &slot.config);
    let ended = match (slot.removed, has_room) {
        // They would hear nothing in another pool.
        (true, _) => Some(Refusal::PoolGone),
        // Or queries would find no server.
        (false, false) => Some(Refusal::NoListener),
        (false, true) => None,
    };
    let stopped = slot.pool.is_paused() || ended.is_some();
    let (by, unused) = (table.by, table.is_empty());
    match by {
        By::Server(server) => {
            let state = core.conns.get::<ServerSlot>(server).filter(|it| it.phase() == Some(ServerPhase::Listening));
            let present = state.is_some() && slot.pool.contains(server);
            let replaced = state.is_some_and(|server| server.closes) || slot.pool.is_unwanted(server);
            if present && table.exchange.is_busy() {
                // Its answer comes first.
            } else if !present || unused || stopped || replaced {
                give_back(core, server, present);
                let missed = core.pools.get_mut(ix).listening.table();
                if missed.is_some_and(|table| table.is_lost()) {
                    deliver::gap(core, ix);
                }
                clients::check_all(core, ix);
            }
        }
        By::Requested(handle) if unused || stopped => {
            slot.pool.leave(handle, now);
            slot.listening.table().into_iter().for_each(|table| _ = table.is_lost());
        }
        By::Requested(_) | By::Nobody => {}
    }
    let busy = ended.is_some_and(|refusal| refuse_idle(core, now, ix, &refusal, io));
    let next = request(core, now, ix, stopped, io);
    if busy { next.min(now + AGAIN) } else { next }
}

/// Disconnects the clients that listen in a pool, except those that have a server: they may be in a transaction. Returns
/// whether there are any.
fn refuse_idle<I: Io>(core: &mut Core, now: Time, ix: PoolIx, refusal: &Refusal, io: &mut I) -> bool {
    let clients = clients::clients(core, ix).into_iter();
    let (busy, idle): (Vec<_>, Vec<_>) =
        clients.partition(|client| core.conns.get::<ClientSlot>(*client).is_some_and(|client| client.link.is_some()));
    idle.into_iter().for_each(|client| leave::refuse_handle(core, now, client, refusal.clone(), io));
    !busy.is_empty()
}

fn give_back(core: &mut Core, server: ConnId, present: bool) {
    let slot = core.conns.get_mut::<ServerSlot>(server).filter(|_| present);
    if let Some((_, phase)) = slot.and_then(|server| server.up()) {
        *phase = ServerPhase::Linked;
        core.common.follow_up(FollowUp::Release(server));
    }
}

/// Requests a server, where clients listen and none listens for them.
fn request<I: Io>(core: &mut Core, now: Time, ix: PoolIx, stopped: bool, io: &mut I) -> Time {
    let slot = core.pools.get_mut(ix);
    slot.listening.drop_if_unused();
    let Some(table) = slot.listening.table() else { return Time::NEVER };
    if table.by != By::Nobody || table.is_empty() || stopped {
        return Time::NEVER;
    }
    if table.again > now {
        return table.again;
    }
    let handle = listener_handle(ix, table.next_generation());
    table.by = By::Requested(handle);
    match slot.pool.acquire(handle, now) {
        Acquire::Granted { server, .. } => granted(core, now, handle, server, io),
        Acquire::Queued => core.common.follow_up(FollowUp::PollPool(ix)),
        Acquire::Refused(_) => {
            refused(core, now, ix);
            return now + AGAIN;
        }
    }
    Time::NEVER
}
