//! Whether this worker has left the hosts that a pool must not write to any more. Reads only.

use weir_base::ConnId;

use crate::conns::ConnTable;
use crate::pools::Pools;
use crate::primary::view::Primaries;
use crate::server::slot::{ServerPhase, ServerSlot, ServerState};

/// The servers of a pool that are at other hosts than the one it moves to, and whose clients may still write there.
pub(crate) fn holdouts(conns: &ConnTable, pools: &Pools, primaries: &Primaries, pool: &str) -> Vec<ConnId> {
    let own = pools.named(Some(pool));
    let left = |server: &&ServerSlot| {
        own.contains(&server.pool)
            && server.dedicated.is_none()
            && !primaries.may_stay(pool, pools.get(server.pool).config.session_attrs, server.connection.target())
            && may_write(server)
    };
    conns.all::<ServerSlot>().filter(left).map(|server| server.conn).collect()
}

/// Whether the client of this server may still write at a host that its pool leaves.
pub(crate) fn holds_out(conns: &ConnTable, server: ConnId) -> bool {
    conns.get::<ServerSlot>(server).is_some_and(|server| server.left && may_write(server))
}

/// Whether a server's client may write there. A server in recovery takes no writes, until it is promoted.
fn may_write(server: &ServerSlot) -> bool {
    let ServerState::Up(up, phase) = &server.state else { return false };
    let in_use = matches!(
        phase,
        ServerPhase::Linked
            | ServerPhase::Checking
            | ServerPhase::SyncingParameters
            | ServerPhase::Asking
            | ServerPhase::Subscribing
    );
    in_use && server.link.is_some() && up.role().standby != Some(true)
}
