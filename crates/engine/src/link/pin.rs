//! A client keeps its server for what it has left there (`mode = "auto"`), or is asked only for its channels.
//!
//! Behind a transaction that may have left something the server is asked what there is ([`weir_session::left_state`]),
//! before the client is sent the transaction's ReadyForQuery. Settings follow the client, and so do the channels on which
//! it listens (`listen`); for anything else it is *pinned*: it keeps the server until a later answer shows that nothing is
//! left, or until it disconnects, and then the server is cleaned.
//!
//! A pool's pinned servers are at most a share of its size (`PoolSlot::pin`), and none is kept for a kind that the pool
//! refuses. Why a server is kept is a part of it ([`Pinned`](crate::server::pinned::Pinned)).

use weir_base::{ConnId, StateKinds, Time};
use weir_pgwire::Dirty;
use weir_session::{Left, Refusal, state_name};

use crate::client::slot::{ClientPhase, ClientSlot};
use crate::common::{FollowUp, cx};
use crate::core::Core;
use crate::lines;
use crate::link::{acquire, leave, lost_state, release};
use crate::listen::follow::{self, Followed};
use crate::port::{Io, Level};
use crate::reading::Reason;
use crate::server::slot::{ServerPhase, ServerSlot};

/// A server has said what its client has left, or could not: the client keeps it, or it is free.
pub(crate) fn answered<I: Io>(core: &mut Core, now: Time, mut server: Box<ServerSlot>, answered: bool, io: &mut I) {
    let mut client = server.link.and_then(|client| core.conns.take::<ClientSlot>(client));
    let session = client.as_deref_mut().and_then(|client| match client.phase_mut() {
        ClientPhase::Ready(session) => Some(session),
        _ => None,
    });
    let slot = core.pools.get_mut(server.pool);
    let (may_be_untracked, texts) = (slot.config.connect_query.is_none(), &mut slot.accepted);
    let Some((up, phase)) = server.up() else { return core.conns.put_server(server) };
    if answered && session.is_some() && up.must_ask_again(texts) {
        return ask_again(core, now, server, client, io);
    }
    *phase = ServerPhase::Linked;
    let was_own = up.keeps().contains(Dirty::LISTEN);
    let left = up.left_is_known(session, &core.sessions.params, texts, answered, may_be_untracked);
    let Some(mut client) = client else {
        server.unpin();
        return release::finish_transaction(core, now, server, None, io);
    };
    if !left.late.is_empty() {
        lost_state::found_late(core, &left, &mut client, io);
    }
    match follow::follow(core, now, &mut server, &mut client, (&left, was_own), io) {
        Followed::Shared | Followed::Own => settle(core, now, server, client, left, io),
        Followed::Lost => {
            lost_state::lose_channels(core, &mut server, &mut client, io);
            settle(core, now, server, client, left, io);
        }
        Followed::Waits => {
            follow::wait(core, &mut server, &client, left);
            core.conns.put_client(client);
            core.conns.put_server(server);
        }
        Followed::Left => {
            release::send_withheld_ready(&mut core.sessions, &mut server, &mut client, io);
            let slot = core.pools.get(server.pool);
            release::unlink(cx!(core, now, io), slot, &mut client);
            core.conns.put_client(client);
            core.conns.put_server(server);
        }
    }
}

/// A question was cancelled, as by a time limit of the client's before it was off, or from outside: it is repeated.
#[cold]
pub(crate) fn cancelled<I: Io>(core: &mut Core, now: Time, mut server: Box<ServerSlot>, io: &mut I) {
    let again = server.up().is_some_and(|(up, _)| up.may_repeat_question());
    let client = server.link.filter(|_| again).and_then(|client| core.conns.take::<ClientSlot>(client));
    match client {
        Some(client) => ask_again(core, now, server, Some(client), io),
        None => answered(core, now, server, false, io),
    }
}

/// What the server was asked for was not all that functions may leave there.
#[cold]
fn ask_again<I: Io>(
    core: &mut Core,
    now: Time,
    mut server: Box<ServerSlot>,
    client: Option<Box<ClientSlot>>,
    io: &mut I,
) {
    if let Some(mut client) = client {
        let slot = core.pools.get_mut(server.pool);
        acquire::ask_left(cx!(core, now, io), slot, &mut client, &mut server);
        core.conns.put_client(client);
    }
    core.conns.put_server(server);
}

/// The server that listens for a pool's clients has done what a client was promised, whose own server has waited for it.
pub(crate) fn listens<I: Io>(core: &mut Core, now: Time, client: ConnId, left: Left, io: &mut I) {
    let Some((mut server, client)) = follow::server_of(core, client) else { return };
    server.up().into_iter().for_each(|(_, phase)| *phase = ServerPhase::Linked);
    settle(core, now, server, client, left, io);
}

/// The client keeps its server if something is left there that needs it.
fn settle<I: Io>(
    core: &mut Core,
    now: Time,
    mut server: Box<ServerSlot>,
    client: Box<ClientSlot>,
    mut left: Left,
    io: &mut I,
) {
    left.kept = server.up().map_or(Dirty::NONE, |(up, _)| up.keeps());
    if !left.kept.is_empty() {
        return pin(core, now, server, client, &left, io);
    }
    let_go(core, now, server, client, io);
}

/// Nothing keeps the client at its server.
fn let_go<I: Io>(core: &mut Core, now: Time, mut server: Box<ServerSlot>, mut client: Box<ClientSlot>, io: &mut I) {
    server.unpin();
    release::send_withheld_ready(&mut core.sessions, &mut server, &mut client, io);
    release::finish_transaction(core, now, server, Some(client), io);
}

fn pin<I: Io>(
    core: &mut Core,
    now: Time,
    mut server: Box<ServerSlot>,
    mut client: Box<ClientSlot>,
    left: &Left,
    io: &mut I,
) {
    let slot = core.pools.get_mut(server.pool);
    let refused = StateKinds::from_bits(slot.config.limits.pin_refuse.bits() & left.kept.bits());
    if let Some(kind) = refused.places().next() {
        slot.counts.counters.lost.of(kind).refused += 1;
        core.conns.put_server(server);
        return leave::refuse(core, now, client, Refusal::PinRefused(state_name(Dirty::KINDS[kind])), io);
    }
    if !server.is_pinned() {
        let reason = left.kept.kinds().next().map(state_name).unwrap_or_default();
        let is_kept = |conn| core.conns.get::<ServerSlot>(conn).is_some_and(|server| server.is_kept());
        if !slot.pin(server.conn, is_kept) {
            if left.kept == Dirty::SEQUENCES {
                // Whoever asks for lost values gets an error, and not another's.
                server.up().into_iter().for_each(|(up, _)| up.forgo_values());
                return let_go(core, now, server, client, io);
            }
            core.conns.put_server(server);
            return leave::refuse(core, now, client, Refusal::TooManyPinned(reason), io);
        }
        lines::about_client(core, Level::Debug, &client, format_args!("keeps its server: {reason}"), io);
    }
    server.pin(left, now);
    release::send_withheld_ready(&mut core.sessions, &mut server, &mut client, io);
    client.resume(Reason::Waits, io);
    core.common.follow_up(FollowUp::Feed(client.conn));
    core.conns.put_client(client);
    core.conns.put_server(server);
}
