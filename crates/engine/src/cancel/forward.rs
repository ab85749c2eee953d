//! Requests to cancel that mean a client of another process: they are passed on to that one.

use weir_admin::PeerPoolRecord;
use weir_base::{ConnId, Time};
use weir_pgwire::put_front;

use crate::cancel::finish;
use crate::cancel::peering::{Forward, ForwardSlot, take_hop};
use crate::client::slot::{ClientPhase, ClientSlot};
use crate::client::table;
use crate::conns::Conn;
use crate::core::Core;
use crate::lines;
use crate::link::leave;
use crate::port::{Io, Level};
use crate::timers::Who;

/// Begins as many of the requests for a peer as may be under way.
fn next_forwards<I: Io>(core: &mut Core, now: Time, to: u16, io: &mut I) {
    while let Some(forward) = core.peering.next(to, core.common.config()) {
        let Some(target) = core.peering.target(to, core.common.config()) else {
            // A reload has removed the peer, or the node has left.
            finish::finish_canceller(core, forward.requester, io);
            continue;
        };
        if forward.requester.is_some_and(|requester| core.conns.get_mut::<ClientSlot>(requester).is_none()) {
            continue;
        }
        let conn = io.connect(&target);
        let deadline = now.deadline(core.common.config().limits.cancel_wait_timeout);
        let mut slot = Box::new(ForwardSlot { conn, to, forward, sent: false, armed: Time::NEVER, deadline });
        core.common.arm(Who::Conn(conn), deadline, &mut slot.armed);
        core.conns.put_at(conn, Conn::Forward(slot));
        core.peering.begin(to, conn);
    }
}

/// A request means a client of peer `to`.
pub(crate) fn begin<I: Io>(
    core: &mut Core,
    now: Time,
    mut client: Box<ClientSlot>,
    to: u16,
    (pid, mut secret): (u32, Vec<u8>),
    io: &mut I,
) {
    let why = if core.peering.target(to, core.common.config()).is_none() {
        Some("could not find peer to forward request to")
    } else if !take_hop(&mut secret) {
        Some("failed to forward cancel request because its TTL was exhausted")
    } else {
        None
    };
    if let Some(why) = why {
        lines::about_client(core, Level::Info, &client, format_args!("closing because: {why} (age=0s)"), io);
        return leave::client_leaves(core, now, client, io);
    }
    let requester = client.conn;
    client.enter(ClientPhase::Canceller);
    core.client_counts.change(&client.phase);
    table::insert(core, client);
    core.peering.wait(to, Forward { requester: Some(requester), pid, secret });
    next_forwards(core, now, to, io);
}

/// The connection to a peer is there.
pub(crate) fn connected<I: Io>(core: &mut Core, conn: ConnId, io: &mut I) {
    let Some(slot) = core.conns.get_mut::<ForwardSlot>(conn) else { return };
    let mut buffer = Vec::new();
    put_front::cancel_request(&mut buffer, slot.forward.pid, &slot.forward.secret);
    slot.sent = true;
    let to = slot.to;
    io.send(conn, &buffer);
    core.peering.sent(to);
}

/// The peers that were passed a request, for the tables. Only worker 0, which accepts, passes any on.
pub(crate) fn peer_pools(core: &Core) -> Vec<PeerPoolRecord> {
    let record =
        |(peer_id, [active, waiting, sent]): (u16, [u32; 3])| PeerPoolRecord { peer_id, active, waiting, sent };
    core.peering.figures().map(record).collect()
}

/// A connection to a peer is over, whatever came of it; it is out of the table.
pub(crate) fn over<I: Io>(core: &mut Core, slot: &ForwardSlot, io: &mut I) {
    core.peering.end(slot);
    finish::finish_canceller(core, slot.forward.requester, io);
    next_forwards(core, core.common.now(), slot.to, io);
}

/// A peer can't be reached.
pub(crate) fn failed<I: Io>(core: &mut Core, slot: &ForwardSlot, error: &str, io: &mut I) {
    crate::log::log(Level::Debug, format_args!("peer {} can't be reached: {error}", slot.to), io);
    over(core, slot, io);
}

/// A peer takes too long to answer by closing the connection.
pub(crate) fn due<I: Io>(core: &mut Core, now: Time, conn: ConnId, io: &mut I) {
    if core.conns.get_mut::<ForwardSlot>(conn).is_none_or(|slot| slot.deadline > now) {
        return;
    }
    if let Conn::Forward(slot) = core.conns.take_any(conn) {
        io.close(conn);
        over(core, &slot, io);
    }
}
