//! Pools that nodes share: servers beyond the share of this node are closed.

use weir_base::{ConnId, Time};
use weir_session::Refusal;

use crate::common::UnderWay;
use crate::core::Core;
use crate::link::leave;
use crate::port::Io;
use crate::server::close;
use crate::server::slot::ServerSlot;

/// A shared database has this many servers too many: those that idle ones don't cover are closed as they are
/// released.
pub(crate) fn close_released(core: &mut Core, now: Time, database: &str, excess: u32) {
    let pools = core.pools.named(Some(database));
    let idle: u32 = pools.iter().map(|ix| core.pools.get(*ix).pool.snapshot(now).idle).sum();
    let servers = || core.conns.all::<ServerSlot>().filter(|s| pools.contains(&s.pool) && s.link.is_some());
    let marked = servers().filter(|server| server.closes).count();
    let more = (excess.saturating_sub(idle) as usize).saturating_sub(marked);
    let found: Vec<ConnId> = servers().filter(|s| !s.closes).take(more).map(|s| s.conn).collect();
    for conn in found {
        if let Some(server) = core.conns.get_mut::<ServerSlot>(conn) {
            server.mark_for_close(true);
        }
    }
}

/// All servers of a database are closed, those in use too: another node may get their permits.
pub(crate) fn close_servers_of<I: Io>(core: &mut Core, now: Time, database: &str, io: &mut I) {
    let pools = core.pools.named(Some(database));
    let servers = || core.conns.all::<ServerSlot>().filter(|s| pools.contains(&s.pool));
    let found: Vec<(ConnId, Option<ConnId>)> = servers().map(|s| (s.conn, s.link)).collect();
    let (why, refusal) = match core.common.is_under_way(UnderWay::SHUTDOWN) {
        true => ("server shutting down", Refusal::ServersShuttingDown),
        false => ("the cluster's lease has ended", Refusal::ServerLost),
    };
    for (server, client) in found {
        if let Some(client) = client {
            leave::refuse_handle(core, now, client, refusal.clone(), io);
        }
        close::close(core, now, server, why, io);
    }
}
