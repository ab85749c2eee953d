//! PAUSE, RESUME, KILL and SUSPEND on this worker.

use weir_admin::CommandError;
use weir_base::{ConnId, Time};
use weir_session::Refusal;

use crate::client::slot::{ClientPhase, ClientSlot};
use crate::common::{FollowUp, UnderWay, cx};
use crate::conns::ConnTable;
use crate::core::Core;
use crate::lending::messages;
use crate::link::leave;
use crate::pause::waiting_command::WaitingCommand;
use crate::pause::{hold, watch};
use crate::pools::create;
use crate::port::Io;
use crate::reading::Reason;
use crate::server::close;
use crate::server::slot::ServerSlot;
use crate::workers::messages::WorkerAnswer;
use crate::workers::send::answer;

/// Pauses or resumes the pools that `name` selects to match the operators' commands.
pub(crate) fn halt_pools<I: Io>(core: &mut Core, now: Time, name: Option<&str>, io: &mut I) {
    for ix in core.pools.named(name) {
        create::apply_pause(core, now, ix);
        if !core.common.is_under_way(UnderWay::SUSPEND) && core.pools.get(ix).pool.is_paused() {
            messages::recall(core, ix, io);
        }
    }
}

/// PAUSE: no server is handed out, and idle ones are closed.
pub(crate) fn pause_databases<I: Io>(core: &mut Core, now: Time, name: Option<&str>, io: &mut I) {
    core.pause.pause(&mut core.common, name);
    halt_pools(core, now, name, io);
}

/// RESUME of one database, or of all.
///
/// # Errors
/// The named database is not paused.
pub(crate) fn resume_databases<I: Io>(
    core: &mut Core,
    now: Time,
    name: Option<&str>,
    io: &mut I,
) -> Result<(), CommandError> {
    if core.pause.resume(&mut core.common, name)? {
        wake(core, now, io);
    }
    halt_pools(core, now, name, io);
    for watch in core.pause.take_lost(&mut core.common, name) {
        answer(watch.from, watch.id, WorkerAnswer::Failed(CommandError::NotPaused), io);
    }
    Ok(())
}

/// KILL: the clients and servers of a database are disconnected at once, and it stays paused.
pub(crate) fn kill_databases<I: Io>(core: &mut Core, now: Time, name: Option<&str>, io: &mut I) {
    let pools = core.pools.named(name);
    match name {
        Some(name) => core.pause.kill([name.to_owned()]),
        None => {
            let here = pools.iter().map(|ix| core.pools.get(*ix).name.to_string());
            core.pause.kill(core.common.config().pools.keys().cloned().chain(here));
        }
    }
    halt_pools(core, now, name, io);
    let clients: Vec<ConnId> =
        core.conns.all::<ClientSlot>().filter(|c| pools.contains(&c.pool)).map(|c| c.conn).collect();
    clients.into_iter().for_each(|client| leave::refuse_handle(core, now, client, Refusal::DatabaseKilled, io));
    let servers: Vec<ConnId> =
        core.conns.all::<ServerSlot>().filter(|s| pools.contains(&s.pool)).map(|s| s.conn).collect();
    servers.into_iter().for_each(|server| close::close(core, now, server, "database removed", io));
}

/// SUSPEND: reading stops.
pub(crate) fn suspend<I: Io>(core: &mut Core, now: Time, io: &mut I) {
    core.pause.suspend(&mut core.common);
    halt_pools(core, now, None, io);
    let conns: Vec<ConnId> =
        core.conns.all::<ClientSlot>().map(|c| c.conn).chain(core.conns.all::<ServerSlot>().map(|s| s.conn)).collect();
    conns.iter().for_each(|conn| hold::hold(core, *conn, io));
    let full = conns.into_iter().filter(|conn| is_full(&core.conns, *conn));
    core.pause.flush(cx!(core, now, io), full);
}

/// A SUSPEND has ended: all connections are read again, and deferred deadlines are handled now.
fn wake<I: Io>(core: &mut Core, now: Time, io: &mut I) {
    let clients: Vec<ConnId> =
        core.conns.all::<ClientSlot>().filter(|c| c.reading.has(Reason::Suspended)).map(|c| c.conn).collect();
    for conn in clients {
        let Some(client) = core.conns.get_mut::<ClientSlot>(conn) else { continue };
        client.resume(Reason::Suspended, io);
        if !client.waiting.is_empty() {
            // The client's turn may have come meanwhile.
            core.common.follow_up(FollowUp::Feed(conn));
        }
    }
    let servers: Vec<ConnId> =
        core.conns.all::<ServerSlot>().filter(|s| s.reading.has(Reason::Suspended)).map(|s| s.conn).collect();
    for conn in servers {
        let Some(server) = core.conns.get_mut::<ServerSlot>(conn) else { continue };
        server.resume(Reason::Suspended, io);
        server.clock_mut().excuse(now);
    }
    core.pause.wake(cx!(core, now, io));
}

/// An input during a SUSPEND has been handled: the sockets that the SUSPEND waits for may be flushed.
pub(crate) fn check_flushed<I: Io>(core: &mut Core, io: &mut I) {
    let conns = &core.conns;
    if core.pause.are_flushed(&mut core.common, |conn| is_full(conns, conn)) {
        watch::check_watches(core, io);
    }
}

/// Closes connections that were not flushed within suspend_timeout.
pub(crate) fn flush_due<I: Io>(core: &mut Core, now: Time, io: &mut I) {
    let cx = cx!(core, now, io);
    let Some(late) = core.pause.flush_due(cx) else { return };
    for conn in late {
        if !is_full(&core.conns, conn) {
            continue;
        }
        let client = match core.conns.get_mut::<ServerSlot>(conn) {
            Some(server) => server.link,
            None => Some(conn),
        };
        client.into_iter().for_each(|client| leave::refuse_handle(core, now, client, Refusal::SuspendTimeout, io));
        close::close(core, now, conn, "suspend_timeout", io);
    }
    watch::check_watches(core, io);
}

/// A command waits for a condition, which may hold already.
pub(crate) fn watch<I: Io>(core: &mut Core, command: WaitingCommand, io: &mut I) {
    core.pause.watch(&mut core.common, command);
    watch::check_watches(core, io);
}

/// The clients that wait for servers when a shutdown begins get an error.
pub(crate) fn dismiss_waiting<I: Io>(core: &mut Core, now: Time, io: &mut I) {
    core.shutdown.dismissed();
    let waiting: Vec<ConnId> =
        core.conns.all::<ClientSlot>().filter(|c| c.state() == "waiting").map(|c| c.conn).collect();
    waiting.into_iter().for_each(|conn| leave::refuse_handle(core, now, conn, Refusal::ServersShuttingDown, io));
    watch::check_drained(core, io);
}

/// Whether a connection's socket has a backlog.
fn is_full(conns: &ConnTable, conn: ConnId) -> bool {
    match conns.get::<ClientSlot>(conn) {
        Some(client) => client.reading.has(Reason::OwnFull) && !matches!(client.phase, ClientPhase::Console(_)),
        None => conns.get::<ServerSlot>(conn).is_some_and(|server| server.reading.has(Reason::OwnFull)),
    }
}
