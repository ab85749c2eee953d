//! How a server's connection is closed. Where nodes share the server's pool, the connection counts until the server has
//! ended it, too.

use std::sync::Arc;

use weir_base::{ConnId, Time, WorkerId};

use crate::common::{FollowUp, cx};
use crate::conns::Conn;
use crate::core::Core;
use crate::handles::PoolIx;
use crate::lending::messages;
use crate::lines;
use crate::log::log;
use crate::port::{Io, Level};
use crate::server::ending::EndingSlot;
use crate::server::login_steps;
use crate::server::slot::{ServerPhase, ServerSlot, ServerState};
use crate::timers::Who;
use crate::workers::messages::{Message, Payload};

fn await_end<I: Io>(core: &mut Core, now: Time, conn: ConnId, database: Arc<str>, busy: bool, io: &mut I) {
    io.post(WorkerId(0), Message(Payload::ServerEnding(database.clone())), None);
    let mut slot = Box::new(EndingSlot::new(database, busy, now));
    core.common.arm(Who::Conn(conn), slot.deadline, &mut slot.armed);
    core.conns.put_at(conn, Conn::Ending(slot));
}

fn end_conn<I: Io>(core: &mut Core, conn: ConnId, server: &ServerSlot, database: Arc<str>, notice: bool, io: &mut I) {
    let now = core.common.now();
    let is_shared = core.common.config().shared_budget(&database).is_some();
    let busy = match &server.state {
        ServerState::Up(up, phase) => up.is_busy() || *phase == ServerPhase::Streaming,
        // PostgreSQL does not count a connection that has not sent its startup packet.
        ServerState::Login(_) if is_shared => false,
        _ => return io.close(conn),
    };
    if notice || is_shared {
        login_steps::terminate(cx!(core, now, io), conn);
    }
    if !is_shared {
        return io.close(conn);
    }
    await_end(core, now, conn, database, busy, io);
    if server.reading.is_paused() {
        io.resume(conn);
    }
}

/// Closes the connection of a server that is out of the table, with a notice to the server if it is logged in.
pub(crate) fn end_connection<I: Io>(core: &mut Core, server: &ServerSlot, io: &mut I) {
    end_conn(core, server.conn, server, core.pools.get(server.pool).name.clone(), true, io);
}

/// Closes the connection of a server that is out of the table without a notice: it can't be trusted, or does not
/// answer.
pub(crate) fn drop_connection<I: Io>(core: &mut Core, server: &ServerSlot, io: &mut I) {
    end_conn(core, server.conn, server, core.pools.get(server.pool).name.clone(), false, io);
}

/// Closes, without a notice, the connection of a server of this database that has moved here, as `conn`, and is not
/// taken.
pub(crate) fn drop_moved<I: Io>(core: &mut Core, conn: ConnId, server: &ServerSlot, database: &Arc<str>, io: &mut I) {
    end_conn(core, conn, server, database.clone(), false, io);
}

/// A server has come from another process, and is not taken.
pub(crate) fn close_imported<I: Io>(core: &mut Core, now: Time, database: &str, conn: ConnId, io: &mut I) {
    if core.common.config().shared_budget(database).is_none() {
        return io.close(conn);
    }
    login_steps::terminate(cx!(core, now, io), conn);
    await_end(core, now, conn, database.into(), false, io);
    io.post(WorkerId(0), Message(Payload::ServerCame(database.into())), None);
}

/// The server has ended a connection that was closed here, or the connection is given up.
pub(crate) fn server_ended<I: Io>(ending: &EndingSlot, io: &mut I) {
    io.post(WorkerId(0), Message(Payload::ServerEnded(ending.database.clone())), None);
}

/// The server does not end a connection.
pub(crate) fn ending_due<I: Io>(core: &mut Core, now: Time, conn: ConnId, io: &mut I) {
    let Conn::Ending(mut ending) = core.conns.take_any(conn) else { return };
    ending.armed = Time::NEVER;
    if ending.deadline > now {
        core.common.arm(Who::Conn(conn), ending.deadline, &mut ending.armed);
        return core.conns.put_at(conn, Conn::Ending(ending));
    }
    let text = format_args!("{}: a server has not ended a closed connection: it counts no more", ending.database);
    log(Level::Warning, text, io);
    io.close(conn);
    server_ended(&ending, io);
}

/// Closes a server that the pool no longer has.
pub(crate) fn disconnect<I: Io>(core: &mut Core, server: Box<ServerSlot>, why: &str, io: &mut I) {
    let now = core.common.now();
    end_connection(core, &server, io);
    if core.common.config().log.disconnections {
        let age = now.since(server.connection.connected_at()).micros() / 1_000_000;
        lines::about_server(core, Level::Info, &server, format_args!("closing because: {why} (age={age}s)"), io);
    }
}

/// Closes a server that is out of the table, and reports it to the pool as lost.
pub(crate) fn close_slot<I: Io>(core: &mut Core, now: Time, server: Box<ServerSlot>, why: &str, io: &mut I) {
    let ix = server.pool;
    core.pools.get_mut(ix).pool.lost(server.conn, now);
    core.upgrade.left(server.conn);
    core.common.follow_up(FollowUp::PollPool(ix));
    let phase = server.phase();
    disconnect(core, server, why, io);
    match phase {
        Some(ServerPhase::AuthQuery(query)) => core.common.follow_up(FollowUp::AuthQueryLost { query, error: None }),
        Some(ServerPhase::Lending { request, .. }) => messages::lending_failed(core, ix, request, io),
        _ => {}
    }
}

/// Closes a server that is up and has no client to notify, and reports it to the pool.
pub(crate) fn close<I: Io>(core: &mut Core, now: Time, server: ConnId, why: &str, io: &mut I) {
    if let Some(server) = core.conns.take::<ServerSlot>(server) {
        close_slot(core, now, server, why, io);
    }
}

/// Marks a server to be closed at its release.
pub(crate) fn mark_for_close(core: &mut Core, server: ConnId) {
    if let Some(server) = core.conns.get_mut::<ServerSlot>(server) {
        server.mark_for_close(true);
    }
}

/// Whether a pool's server was granted under a lease that has ended: other nodes may have a server in its place.
pub(crate) fn grant_is_void(core: &Core, now: Time, ix: PoolIx, granted_at: Time) -> bool {
    let is_shared = || core.common.config().shared_budget(&core.pools.get(ix).name).is_some();
    core.lease.voids(granted_at, now) && is_shared()
}

/// A login under a lease that has ended is given up; its pool may ask for another.
pub(crate) fn login_lapsed<I: Io>(core: &mut Core, now: Time, server: Box<ServerSlot>, io: &mut I) {
    close_slot(core, now, server, "the cluster's lease has ended during the login", io);
}
