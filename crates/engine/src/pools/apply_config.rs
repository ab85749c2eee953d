//! A new configuration: which pools it ends, and which servers it replaces.

use std::sync::Arc;

use weir_base::Time;
use weir_config::{Config, SslMode};

use crate::common::FollowUp;
use crate::core::Core;
use crate::lending::messages;
use crate::pools::{adjust, create, reconnect};
use crate::port::Io;
use crate::server::permits;

/// Puts a configuration in force for the pools.
pub(crate) fn pools<I: Io>(core: &mut Core, now: Time, config: Arc<Config>, io: &mut I) {
    let listed = core.common.config().auth.users.clone();
    let servers = &core.common.config().tls.server;
    let other_tls = *servers != config.tls.server && servers.mode.max(config.tls.server.mode) > SslMode::Disable;
    core.common.set_config(config);
    for ix in core.pools.indices() {
        let slot = core.pools.get(ix);
        let config = core.common.config().pool(&slot.name).filter(|pool| create::fits(core, pool, &slot.user));
        let slot = core.pools.get_mut(ix);
        match config {
            None if slot.removed => {}
            None => {
                messages::recall(core, ix, io);
                core.pools.remove(ix);
            }
            // A pool that is shut stays shut: one that returns is a new pool, under the same name.
            Some(_) if slot.removed => {}
            Some(pool) => {
                let all = core.common.config();
                if listed.get(&slot.user) != all.auth.users.get(&slot.user) {
                    slot.secret_changed();
                }
                let config = all.pool_of_user(&pool, &slot.user);
                let recalls = adjust(slot, &core.common, config, now);
                if recalls {
                    messages::recall(core, ix, io);
                }
            }
        }
        if other_tls {
            // Servers under the old settings might be less secure than the new ones allow.
            core.pools.get_mut(ix).login_anew(now);
            messages::recall(core, ix, io);
        }
        permits::limit_pool(core, now, ix, io);
        core.common.follow_up(FollowUp::PollPool(ix));
        reconnect::recheck_linked(core, ix);
    }
}
