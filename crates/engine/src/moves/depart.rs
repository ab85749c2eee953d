//! The worker that gives clients to another one.

use weir_base::{ConnId, Span, Time, WorkerId};
use weir_session::frozen;

use crate::cancel::key::CancelSecret;
use crate::cancel::pids::worker_of;
use crate::cancel::request;
use crate::client::slot::{ClientPhase, ClientSlot};
use crate::client::table;
use crate::client_login::state::Handoff;
use crate::common::UnderWay;
use crate::core::Core;
use crate::moves::batch::ParkedCancel;
use crate::moves::{ClientMove, MoveOrder};
use crate::pools::create;
use crate::port::Io;
use crate::upgrade::export;
use crate::upgrade::moved::MovedClient;
use crate::workers::messages::{Message, Payload};

/// Of the active clients that a batch finds, it takes one in so many: the load is measured again before the next batch.
const PART: usize = 8;
/// Clients that have sent nothing for this long stay: they are no load.
const ACTIVE: Span = Span::from_secs(2);
/// The most clients of a batch.
const MOST: usize = 16;
/// The most slots of the table that a batch looks at.
const SLOTS: u32 = 4096;

/// Whether a client may go to this worker now.
fn may_move(core: &Core, client: &ClientSlot, to: WorkerId) -> bool {
    let (here, home) = (core.common.worker(), worker_of(client.cancel.pid, core.common.workers()));
    let ClientPhase::Ready(session) = &client.phase else { return false };
    let stays = core.pools.get(client.pool).removed;
    !stays && (home == here || home == to) && export::is_free(client) && session.may_move()
}

/// The clients of the next batch.
fn pick(core: &mut Core, order: MoveOrder, now: Time) -> Vec<ConnId> {
    let (slots, mut active, mut picked) = (core.conns.slots(), 0, Vec::new());
    for _ in 0..slots.min(SLOTS) {
        let slot = core.moves.next_slot % slots;
        core.moves.next_slot = slot + 1;
        let Some(client) = core.conns.at::<ClientSlot>(slot) else { continue };
        if client.is_ready() && (order.any || now.since(client.request_at) <= ACTIVE) {
            active += 1;
            let rested = order.any || client.rests_until <= now;
            if picked.len() < MOST && rested && may_move(core, client, order.to) {
                picked.push(client.conn);
            }
        }
    }
    // One alone would take the whole load along.
    picked.truncate(if active < 2 && !order.any { 0 } else { (active / PART).max(1) });
    picked
}

/// Worker 0 orders a batch.
pub(crate) fn begin<I: Io>(core: &mut Core, now: Time, order: MoveOrder, io: &mut I) {
    core.moves.begin(order.batch);
    let elsewhere = order.to != core.common.worker();
    // A shutdown's request has come before this order, if worker 0 had sent it.
    let ends = core.common.is_under_way(UnderWay::EXPORT) || core.common.is_under_way(UnderWay::SHUTDOWN);
    let may = elsewhere && core.moves.looks == 0 && !ends;
    for conn in if may { pick(core, order, now) } else { Vec::new() } {
        let Some(mut client) = core.conns.take::<ClientSlot>(conn) else { continue };
        if let Some(moved) = freeze(core, &client) {
            client.enter(ClientPhase::Moving(Box::new(Handoff::Move(order.to, Box::new(moved)))));
            io.detach(conn);
            core.moves.detaches(conn);
        }
        core.conns.put_client(client);
    }
    core.moves.begun(&mut core.common, io);
}

fn freeze(core: &Core, client: &ClientSlot) -> Option<MovedClient> {
    let ClientPhase::Ready(session) = &client.phase else { return None };
    let session = frozen::freeze(session, &core.sessions.params)?;
    Some(export::moved_client(core, client, session, None))
}

/// A client's socket is free: the client goes to the other worker, or stays, if its batch did not wait for it.
pub(crate) fn detached<I: Io>(
    core: &mut Core,
    now: Time,
    mut client: Box<ClientSlot>,
    (to, moved): (WorkerId, MovedClient),
    io: &mut I,
) {
    let (conn, id, here) = (client.conn, client.id, core.common.worker());
    let to = if core.moves.detached(conn) { to } else { here };
    let counts_for = client.counts_no_more();
    let home = worker_of(moved.pid, core.common.workers());
    if home == here {
        core.away.leaves((moved.pid, id), CancelSecret::of_parts((moved.secret, moved.issued), moved.pid), to);
    }
    if let Some(key) = client.cancel.peer_key() {
        core.peering.forget(key);
    }
    core.upgrade.keys.remove(conn);
    table::forget_timer(core, &client);
    if core.sessions.statements.traffic().is_on() {
        core.sessions.statements.traffic_mut().client_left(client.pool, id, now);
    }
    core.pools.get_mut(client.pool).pool.leave(conn, now);
    create::count_client(core, client.pool, -1);
    io.post(to, Message(Payload::Moved(Box::new(ClientMove { client: moved, counts_for }))), Some(conn));
    for ParkedCancel { requester, pid, secret, .. } in core.moves.unpark(conn) {
        // Behind the client.
        request::pass_on(core, requester, to, (pid, &secret), io);
    }
}
