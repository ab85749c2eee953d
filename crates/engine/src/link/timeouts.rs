//! Clients and servers that have taken too long on a link, or between two.

use weir_base::{ConnId, Time};
use weir_session::Refusal;

use crate::client::slot::ClientSlot;
use crate::core::Core;
use crate::lines;
use crate::link::{deadlines, leave};
use crate::port::{Io, Level};
use crate::server::close;
use crate::server::slot::{ServerPhase, ServerSlot};
use crate::timers::Who;

/// Timeouts may have changed: sets the timers of linked servers again.
pub(crate) fn watch_linked(core: &mut Core) {
    let linked = core.conns.all::<ServerSlot>().filter(|server| server.phase() == Some(ServerPhase::Linked));
    let linked: Vec<ConnId> = linked.map(|server| server.conn).collect();
    for conn in linked {
        if let Some(server) = core.conns.get_mut::<ServerSlot>(conn) {
            deadlines::watch_server(&mut core.common, core.pools.get(server.pool), server);
        }
    }
}

/// The timer of a client that may send queries has fired.
pub(crate) fn client_due<I: Io>(core: &mut Core, now: Time, conn: ConnId, io: &mut I) {
    let Some(mut client) = core.conns.take::<ClientSlot>(conn) else { return };
    let deadline = deadlines::client_deadline(core, &client);
    if deadline > now {
        core.common.arm(Who::Conn(conn), deadline, client.armed_mut());
        return core.conns.put_client(client);
    }
    if client.link.is_none() {
        return leave::refuse(core, now, client, Refusal::ClientIdleTimeout, io);
    }
    // The client has closed its side, and its server has answered for long enough.
    io.close(conn);
    leave::client_gone(core, now, client, io);
}

/// The timer of a server that is logged in has fired. Returns a server that has not answered a query of Weir, whose
/// connection is closed: it is lost.
pub(crate) fn server_due<I: Io>(core: &mut Core, now: Time, conn: ConnId, io: &mut I) -> Option<Box<ServerSlot>> {
    let mut server = core.conns.take::<ServerSlot>(conn)?;
    let (deadline, refusal) = deadlines::server_deadline(core.pools.get(server.pool), &server);
    let client = server.link;
    if deadline > now {
        core.common.arm(Who::Conn(conn), deadline, server.armed_mut());
    }
    let ours = server.phase() != Some(ServerPhase::Linked);
    if deadline <= now && ours {
        // Nothing of a client's was sent: it may get another server.
        lines::about_server(core, Level::Warning, &server, format_args!("no answer to a query of ours"), io);
        close::drop_connection(core, &server, io);
        return Some(server);
    }
    core.conns.put_server(server);
    if deadline <= now
        && let Some(client) = client
    {
        // The server is closed with its client, not cancelled (PgBouncer's query_timeout).
        close::mark_for_close(core, conn);
        leave::refuse_handle(core, now, client, refusal, io);
    }
    None
}
