//! A new configuration: which pools it ends, and which servers it replaces.
//!
//! A configuration is in force at once for all that comes; pools that exist adopt it in slices, so that thousands of them do not delay clients, and before that where something is wanted of them:
//! a login, or a poll, finds no pool under an older one.

use std::sync::Arc;

use weir_base::{Time, WorkerId};
use weir_config::{Config, PoolConfig, SslMode};

use crate::common::FollowUp;
use crate::core::Core;
use crate::handles::PoolIx;
use crate::lending::messages;
use crate::pools::adoption::Adoption;
use crate::pools::{adjust, create};
use crate::port::Io;
use crate::server::permits;

/// Puts a configuration in force. The pools adopt it by [`turn`]; none is adopting another one.
pub(crate) fn begin(core: &mut Core, config: Arc<Config>, command: (WorkerId, u64)) {
    let before = core.common.config();
    let servers = &before.tls.server;
    let other_tls = *servers != config.tls.server && servers.mode.max(config.tls.server.mode) > SslMode::Disable;
    let listed = before.auth.users.clone();
    core.common.set_config(config);
    let (left, forced) = (core.pools.indices(), create::forced(core));
    left.iter().for_each(|ix| core.pools.get_mut(*ix).is_stale = true);
    core.pools.adoption = Some(Adoption { command, left, forced, listed, other_tls });
}

/// At most this many pools adopt the configuration in force. Returns the command when all have.
pub(crate) fn turn<I: Io>(core: &mut Core, now: Time, most: usize, io: &mut I) -> Option<(WorkerId, u64)> {
    for _ in 0..most {
        let adoption = core.pools.adoption.as_mut()?;
        if let Some(ix) = adoption.left.pop() {
            catch_up(core, now, ix, io);
        } else if let Some(pool) = adoption.forced.pop() {
            create::create_forced(core, now, &pool);
        } else {
            return core.pools.adoption.take().map(|adoption| adoption.command);
        }
    }
    None
}

/// A pool adopts the configuration in force, unless it has or is gone.
pub(crate) fn catch_up<I: Io>(core: &mut Core, now: Time, ix: PoolIx, io: &mut I) {
    let Some(slot) = core.pools.find_mut(ix).filter(|slot| slot.is_stale) else { return };
    slot.is_stale = false;
    let name = slot.name.clone();
    let config = core.common.config().pool(&name);
    let config = config.filter(|pool| create::fits(core, pool, &core.pools.get(ix).user));
    let Some(Adoption { listed, other_tls, .. }) = &core.pools.adoption else { return };
    let (listed, other_tls) = (listed.clone(), *other_tls);
    let slot = core.pools.get_mut(ix);
    match config {
        // A pool that is shut stays shut: one that returns is a new pool, under the same name.
        _ if slot.removed => {}
        None => {
            messages::recall(core, ix, io);
            core.pools.remove(ix);
        }
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
        core.pools.get_mut(ix).login_anew(now);
        messages::recall(core, ix, io);
    }
    permits::limit_pool(core, now, ix, io);
    core.common.follow_up(FollowUp::PollPool(ix));
}

/// The pool of a configured pool and a user, under the configuration in force; created when first needed.
pub(crate) fn pool_of<I: Io>(
    core: &mut Core,
    now: Time,
    name: &str,
    config: &Arc<PoolConfig>,
    user: &str,
    io: &mut I,
) -> PoolIx {
    if core.pools.adoption.is_some()
        && let Some(ix) = core.pools.find(&name.into(), &user.into())
    {
        catch_up(core, now, ix, io);
    }
    create::pool_of(core, name, config, user, now)
}
