//! RECONNECT, and databases that must be free of other connections: servers are replaced.

use std::sync::Arc;

use weir_base::{PoolMode, Target, Time};

use crate::common::{FollowUp, cx};
use crate::core::Core;
use crate::handles::PoolIx;
use crate::lending::messages;
use crate::port::Io;
use crate::server::slot::ServerSlot;
use crate::workers::messages::Payload;

/// Servers of a pool were marked for close. With `server_fast_close`, those that sessions hold are checked now.
pub(crate) fn recheck_linked(core: &mut Core, ix: PoolIx) {
    if core.common.config().server_fast_close && core.pools.get(ix).config.policy.mode == PoolMode::Session {
        let linked = core.conns.all::<ServerSlot>().filter(|server| server.pool == ix && server.link.is_some());
        linked.for_each(|server| core.common.follow_up(FollowUp::Release(server.conn)));
    }
}

/// The same, for all pools: a configuration may have marked any.
pub(crate) fn recheck_all_linked(core: &mut Core) {
    if core.common.config().server_fast_close {
        let in_session = |server: &&ServerSlot| core.pools.get(server.pool).config.policy.mode == PoolMode::Session;
        let linked = core.conns.all::<ServerSlot>().filter(|server| server.link.is_some()).filter(in_session);
        linked.for_each(|server| core.common.follow_up(FollowUp::Release(server.conn)));
    }
}

fn pool<I: Io>(core: &mut Core, now: Time, ix: PoolIx, io: &mut I) {
    messages::recall(core, ix, io);
    core.pools.get_mut(ix).pool.reconnect(now);
    core.common.follow_up(FollowUp::PollPool(ix));
    recheck_linked(core, ix);
}

/// RECONNECT of the pools that `name` selects.
pub(crate) fn named<I: Io>(core: &mut Core, now: Time, name: Option<&str>, io: &mut I) {
    for ix in core.pools.named(name) {
        pool(core, now, ix, io);
    }
}

/// Closes the idle servers of the pools whose connections go to this database, as RECONNECT does, and the other servers
/// when they are released.
pub(crate) fn free_database<I: Io>(core: &mut Core, now: Time, server: &Target, database: &str, io: &mut I) {
    for ix in core.pools.indices() {
        let config = &core.pools.get(ix).config;
        if config.database == database && config.targets.contains(server) {
            pool(core, now, ix, io);
        }
    }
}

/// A client of a pool is about to drop, rename or copy a database, which PostgreSQL refuses while others are connected:
/// all workers free it. PostgreSQL waits five seconds for connections that are being closed.
pub(crate) fn free_everywhere<I: Io>(core: &mut Core, now: Time, ix: PoolIx, database: Box<str>, io: &mut I) {
    let (server, database) = (core.pools.get(ix).config.target().clone(), Arc::<str>::from(database));
    cx!(core, now, io).post_to_others(|| Payload::FreeDatabase(server.clone(), database.clone()));
    free_database(core, now, &server, &database, io);
}
