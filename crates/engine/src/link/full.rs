//! Full sockets, and paused clients that close their side: which connections are not read from.

use weir_base::{ConnId, Time};

use crate::client::slot::{ClientPhase, ClientSlot, Ended};
use crate::common::{FollowUp, cx};
use crate::conns::Conn;
use crate::core::Core;
use crate::link::deadlines::Progress;
use crate::link::{deadlines, leave};
use crate::port::Io;
use crate::reading::Reason;
use crate::server::slot::ServerSlot;
use crate::timers::Who;

/// A socket of a link is full, or has room again: updates which side must act next.
pub(crate) fn follow_link<I: Io>(core: &mut Core, server: ConnId, io: &mut I) {
    let Some(client) = core.conns.get::<ServerSlot>(server).and_then(|server| server.link) else { return };
    let Some(client) = core.conns.get::<ClientSlot>(client) else { return };
    let ClientPhase::Ready(session) = &client.phase else { return };
    let mid_message = session.is_mid_message();
    let Some(server) = core.conns.get_mut::<ServerSlot>(server) else { return };
    let rests = !mid_message && server.up().is_some_and(|(up, _)| up.is_quiet());
    let slot = core.pools.get(server.pool);
    let now = core.common.now();
    deadlines::follow(cx!(core, now, io), slot, server, rests, Progress::default());
}

/// Pauses a server whose client's socket is full.
fn pause_server<I: Io>(core: &mut Core, server: ConnId, io: &mut I) {
    if core.conns.get_mut::<ServerSlot>(server).is_some_and(|server| server.pause_for_client(io)) {
        follow_link(core, server, io);
    }
}

fn resume_server<I: Io>(core: &mut Core, server: ConnId, io: &mut I) {
    if core.conns.get_mut::<ServerSlot>(server).is_some_and(|slot| slot.resume(Reason::OtherFull, io)) {
        follow_link(core, server, io);
    }
}

/// A client's server accepts bytes again, or the client has none any more: its buffered input continues.
fn other_end_has_room<I: Io>(core: &mut Core, client: ConnId, io: &mut I) {
    core.conns.get_mut::<ClientSlot>(client).into_iter().for_each(|client| client.resume(Reason::OtherFull, io));
    if core.conns.get_mut::<ClientSlot>(client).is_some_and(|client| !client.waiting.is_empty()) {
        core.common.follow_up(FollowUp::Feed(client));
    }
}

/// A client's or a server's socket is full: the other end of the link is paused.
pub(crate) fn blocked<I: Io>(core: &mut Core, conn: ConnId, io: &mut I) {
    if let Some(link) = core.conns.get_mut::<ClientSlot>(conn).map(|c| c.link) {
        core.conns.get_mut::<ClientSlot>(conn).into_iter().for_each(|client| client.pause(Reason::OwnFull, io));
        link.into_iter().for_each(|server| pause_server(core, server, io));
    } else if let Some(server) = core.conns.get_mut::<ServerSlot>(conn) {
        server.pause(Reason::OwnFull, io);
        let link = server.link;
        link.into_iter().for_each(|client| {
            core.conns.get_mut::<ClientSlot>(client).into_iter().for_each(|client| client.pause(Reason::OtherFull, io))
        });
        follow_link(core, conn, io);
    }
}

/// A socket has room again.
pub(crate) fn drained<I: Io>(core: &mut Core, conn: ConnId, io: &mut I) {
    if let Some(link) = core.conns.get_mut::<ClientSlot>(conn).map(|c| c.link) {
        core.conns.get_mut::<ClientSlot>(conn).into_iter().for_each(|client| client.resume(Reason::OwnFull, io));
        link.into_iter().for_each(|server| resume_server(core, server, io));
    } else if let Some(server) = core.conns.get_mut::<ServerSlot>(conn) {
        server.resume(Reason::OwnFull, io);
        let link = server.link;
        link.into_iter().for_each(|client| other_end_has_room(core, client, io));
        follow_link(core, conn, io);
    }
}

/// A paused client has closed its side. If it waits for a server, it is removed: it would not read the answer, and
/// would lose the server that it would get; after a stall longer than the clients' timeouts a pool would never
/// recover. Others are read to their end: those whose server answers, as long as it does
/// ([`LAST_ANSWERS`](deadlines::LAST_ANSWERS)).
pub(crate) fn ending<I: Io>(core: &mut Core, now: Time, conn: ConnId, io: &mut I) {
    let Some(mut client) = core.conns.take::<ClientSlot>(conn) else { return };
    let waits = client.link.is_none() && client.reading.has(Reason::Waits) && !client.reading.has(Reason::Suspended);
    if waits && matches!(client.phase, ClientPhase::Ready(_) | ClientPhase::Welcome(_)) {
        io.close(conn);
        return leave::client_gone(core, now, client, io);
    }
    if client.link.is_some() && client.ended == Ended::No {
        client.ends(Ended::Paused, now);
        let deadline = deadlines::client_deadline(core, &client);
        core.common.arm(Who::Conn(conn), deadline, client.armed_mut());
    }
    core.conns.put_at(conn, Conn::Client(client));
}
