//! What clients that listen get: notifications, and the warning that some may be missing.
//!
//! A client that is in no transaction gets them at once; another one before the ReadyForQuery that ends its transaction
//! (PostgreSQL's documentation, "NOTIFY").

use std::sync::Arc;

use weir_base::{ConnId, Time};
use weir_session::Refusal;
use weir_session::channels::SharedNotification;

use crate::client::slot::ClientSlot;
use crate::common::FollowUp;
use crate::core::Core;
use crate::handles::PoolIx;
use crate::link::leave;
use crate::listen::clients;
use crate::port::Io;
use crate::reading::Reason;
use crate::server::slot::{ServerPhase, ServerSlot};

/// A notification for all clients that listen on its channel.
pub(crate) fn deliver<I: Io>(core: &mut Core, now: Time, ix: PoolIx, notification: SharedNotification, io: &mut I) {
    let Some(table) = core.pools.get_mut(ix).listening.table() else { return };
    let clients = table.clients_of(&notification.channel);
    let notification = Arc::new(notification);
    for conn in clients {
        let channels = core.conns.get_mut::<ClientSlot>(conn).and_then(|client| client.ready()?.channels_mut());
        match channels.map(|channels| channels.received(notification.clone())) {
            Some(Ok(())) => flush(core, conn, io),
            Some(Err(_)) => leave::refuse_handle(core, now, conn, Refusal::TooManyNotifications, io),
            None => {}
        }
        clients::check(core, ix, conn);
    }
}

/// Clients may have missed something.
pub(crate) fn gap(core: &mut Core, ix: PoolIx) {
    let clients = clients::clients(core, ix);
    core.pools.get_mut(ix).counts.counters.notification_gaps += clients.len() as u64;
    for conn in clients {
        let channels = core.conns.get_mut::<ClientSlot>(conn).and_then(|client| client.ready()?.channels_mut());
        channels.into_iter().for_each(|channels| channels.gap());
        core.common.follow_up(FollowUp::Notify(conn));
    }
}

/// Sends a client what waits for it, if it is in no transaction and takes it.
pub(crate) fn flush<I: Io>(core: &mut Core, conn: ConnId, io: &mut I) {
    let Some(client) = core.conns.get::<ClientSlot>(conn) else { return };
    let rests = client.link.is_none_or(|server| core.conns.get::<ServerSlot>(server).is_some_and(rests));
    if !rests || client.cut || client.reading.has(Reason::OwnFull) {
        return;
    }
    let Some(client) = core.conns.get_mut::<ClientSlot>(conn) else { return };
    let own_pid = client.cancel.pid;
    let Some(channels) = client.ready().and_then(|session| session.channels_mut()) else { return };
    if channels.is_waiting() {
        core.sessions.scratch.clear();
        channels.write(own_pid, &mut core.sessions.scratch);
        io.send(conn, &core.sessions.scratch);
    }
}

/// Whether a server's client is between two transactions, and has its last ReadyForQuery.
fn rests(server: &ServerSlot) -> bool {
    let crate::server::slot::ServerState::Up(up, phase) = &server.state else { return true };
    match phase {
        ServerPhase::Linked => up.is_quiet(),
        ServerPhase::Checking | ServerPhase::SyncingParameters => true,
        _ => false,
    }
}
