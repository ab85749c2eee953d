//! The clients that listen: they come and go, and wait for what they have been promised.

use std::collections::BTreeSet;

use weir_base::{ConnId, Target};
use weir_session::Client;

use crate::client::slot::{ClientPhase, ClientSlot};
use crate::common::FollowUp;
use crate::core::Core;
use crate::listen::state::{By, Table};
use crate::server::slot::ServerSlot;

/// Whether all that the client has been promised has arrived: its channels are heard, and what it sent itself was
/// received. Where no server listens there is nothing to wait for. No request of the client's is under way; `at`: where
/// its server is.
pub(crate) fn is_ready(session: &mut Client, table: Option<&Table>, at: Option<&Target>) -> bool {
    let (Some(channels), Some(table)) = (session.channels_mut(), table) else { return true };
    channels.set_hearing(table.hearing(channels.names(), at));
    !matches!(table.by, By::Server(_)) || (table.hears(channels.names()) && !channels.awaits_own())
}

/// Something has happened for which clients of a pool wait: those that have waited for enough continue.
pub(crate) fn check_all(core: &mut Core, ix: u32) {
    let Some(table) = core.pools.get_mut(ix).listening.table() else { return };
    let waiting: Vec<ConnId> = table.waiting.keys().copied().collect();
    waiting.into_iter().for_each(|client| check(core, ix, client));
}

/// Something has happened for which a client may wait: it continues if it has waited for enough.
pub(crate) fn check(core: &mut Core, ix: u32, conn: ConnId) {
    let Some(table) = core.pools.get_mut(ix).listening.table() else { return };
    let Some(left) = table.waiting.remove(&conn) else { return };
    let server = core.conns.get::<ClientSlot>(conn).and_then(|client| client.link);
    let server = server.and_then(|server| core.conns.get::<ServerSlot>(server));
    let at = server.map(|server| server.connection.target().clone());
    let Some(client) = core.conns.get_mut::<ClientSlot>(conn) else { return };
    if client.ready().is_none_or(|session| is_ready(session, Some(&*table), at.as_ref())) {
        core.common.follow_up(FollowUp::Listens(conn, left));
    } else {
        table.waiting.insert(conn, left);
    }
}

/// A client leaves its pool, or this process.
pub(crate) fn client_leaves(core: &mut Core, client: &ClientSlot) {
    let ClientPhase::Ready(session) = &client.phase else { return };
    let Some(channels) = session.channels() else { return };
    if let Some(table) = core.pools.get_mut(client.pool).listening.table() {
        channels.names().iter().for_each(|name| table.remove(name, client.conn));
        table.waiting.remove(&client.conn);
    }
    core.common.follow_up(FollowUp::PollPool(client.pool));
}

/// A client that listens has come from another process: what was sent meanwhile is missing.
pub(crate) fn client_came(core: &mut Core, client: &mut ClientSlot) {
    let (conn, pool) = (client.conn, client.pool);
    let Some(channels) = client.ready().and_then(|session| session.channels_mut()) else { return };
    core.pools.get_mut(pool).counts.counters.notification_gaps += 1;
    let table = core.pools.get_mut(pool).listening.table_or_new();
    channels.names().iter().for_each(|name| table.add(name, conn));
    channels.gap();
    core.common.follow_up(FollowUp::PollPool(pool));
    core.common.follow_up(FollowUp::Notify(conn));
}

/// All clients that listen in a pool.
pub(crate) fn clients(core: &mut Core, ix: u32) -> BTreeSet<ConnId> {
    core.pools.get_mut(ix).listening.table().map(|table| table.clients()).unwrap_or_default()
}
