//! Pools of this worker: made when first needed; and the count of each pool's clients.
//!
//! Each configured pool and user on the server has one owner among the workers; the others borrow from it.

use std::sync::Arc;

use weir_admin::{ServiceState, is_rejection};
use weir_base::{Time, WorkerId};
use weir_config::FileFormat;
use weir_pool::{ConnectFailure, Pool};

use crate::client::slot::ClientSlot;
use crate::common::FollowUp;
use crate::core::Core;
use crate::handles::PoolIx;
use crate::lending::state::LendingRole;
use crate::pools::{PoolSlot, rules};
use crate::workers::messages::Drain;
use crate::workers::quota::servers::PoolQuota;

/// The worker that owns a pool.
pub(crate) fn owner_of(core: &Core, name: &str, user: &str) -> WorkerId {
    WorkerId((pool_hash(name, user) % u64::from(core.common.workers())) as u16)
}

/// Whether a configured pool has servers of this user's.
pub(crate) fn fits(core: &Core, pool: &weir_config::PoolConfig, user: &str) -> bool {
    // The second one looks at all pools.
    pool.user.as_deref().is_none_or(|forced| forced == user) || core.common.config().asks_as(user)
}

/// Pauses or resumes a pool to match the operator's commands.
pub(crate) fn apply_pause(core: &mut Core, now: Time, ix: PoolIx) {
    let draining = core.shutdown.draining() == Some(Drain::Servers);
    let pool = &mut core.pools.get_mut(ix);
    let state = match core.primaries.holds(&pool.name) {
        true => ServiceState::Paused,
        false => core.pause.of_pool(&pool.name, draining),
    };
    match state {
        ServiceState::Paused => pool.pool.pause(),
        ServiceState::Suspended => pool.pool.suspend(),
        ServiceState::Active => pool.pool.resume(now),
    }
    core.common.follow_up(FollowUp::PollPool(ix));
}

/// The pool of a configured pool and a user; created when first needed.
pub(crate) fn pool_of(
    core: &mut Core,
    name: &str,
    config: &Arc<weir_config::PoolConfig>,
    user: &str,
    now: Time,
) -> PoolIx {
    let key: (Arc<str>, Arc<str>) = (name.into(), user.into());
    if let Some(ix) = core.pools.find(&key.0, &key.1) {
        return ix;
    }
    let config = &core.common.config().pool_of_user(config, user);
    let lending = LendingRole::new(owner_of(core, name, user), core.common.worker());
    let limited = core.common.config().is_limited(name, user) && !lending.is_borrower();
    let mut pool = Pool::new(lending.settings(core.common.config(), config), core.common.random_number(), now);
    pool.set_elsewhere(core.upgrade.held.of(&key));
    let accepted = core.sessions.interner.pool(name, user, config.limits.pool_share());
    let config = (config.clone(), rules(&core.common, (name, user), config));
    let slot = PoolSlot::new(key, config, pool, accepted, PoolQuota::new(limited), lending, now);
    let ix = core.pools.insert(slot);
    apply_pause(core, now, ix);
    ix
}

/// The configured pools with a fixed user and servers that are open without clients, of this worker.
pub(crate) fn forced(core: &Core) -> Vec<Arc<weir_config::PoolConfig>> {
    let is_own = |pool: &&Arc<weir_config::PoolConfig>| {
        let user = pool.user.as_deref().filter(|_| pool.limits.min_size > 0);
        user.is_some_and(|user| owner_of(core, &pool.name, user) == core.common.worker())
    };
    core.common.config().pools.values().filter(is_own).cloned().collect()
}

/// Creates such a pool, so that `min_size` holds without clients.
pub(crate) fn create_forced(core: &mut Core, now: Time, pool: &Arc<weir_config::PoolConfig>) {
    let Some(user) = &pool.user else { return };
    let ix = pool_of(core, &pool.name, pool, user, now);
    core.pools.get_mut(ix).pool.set_demand(true);
    core.common.follow_up(FollowUp::PollPool(ix));
}

/// A client of the pool was added (`1`) or removed (`-1`).
pub(crate) fn count_client(core: &mut Core, ix: PoolIx, change: i32) {
    let slot = core.pools.get_mut(ix);
    slot.clients = slot.clients.wrapping_add_signed(change);
    let elsewhere = matches!(&slot.lending, LendingRole::Owner(lender) if lender.has_clients());
    slot.pool.set_demand(slot.clients > 0 || elsewhere || slot.config.user.is_some());
    // The first client and the last one decide whether the pool is in use.
    if slot.clients <= 1 || slot.needs_poll() {
        core.common.follow_up(FollowUp::PollPool(ix));
    }
}

/// A client has this pool from now on.
pub(crate) fn join(core: &mut Core, ix: PoolIx, client: &mut ClientSlot) {
    count_client(core, ix, 1);
    client.joined(ix);
}

/// Moves a client to the new pool, if the configuration has replaced its pool (another user).
pub(crate) fn move_to_successor(core: &mut Core, now: Time, client: &mut ClientSlot) {
    let name = core.pools.get(client.pool).name.clone();
    let Some(config) = core.common.config().pool(&name) else { return };
    let user = config.user.clone().unwrap_or_else(|| client.user.to_string());
    count_client(core, client.pool, -1);
    let ix = pool_of(core, &name, &config, &user, now);
    join(core, ix, client);
}

/// A server was lost, and was the last one: the pool tries until it is back.
pub(crate) fn server_lost(core: &mut Core, now: Time, ix: PoolIx) {
    if core.pools.get(ix).pool.is_empty() {
        keep_trying(core, now, ix);
    }
}

/// A login has failed: the pool tries until a server that is away is back. Beside servers that work it tries unless it was
/// rejected: whether it can grow again is not known otherwise.
pub(crate) fn login_failed(core: &mut Core, now: Time, ix: PoolIx, failure: ConnectFailure) {
    let slot = core.pools.get(ix);
    let is_rejected = || slot.failures.last().is_some_and(|(error, _)| is_rejection(&error.sqlstate));
    let tries = match failure {
        ConnectFailure::Elsewhere => false,
        _ if slot.pool.is_empty() => failure == ConnectFailure::Away,
        _ => !is_rejected(),
    };
    if tries {
        keep_trying(core, now, ix);
    }
}

/// With a `weir.toml` a pool tries even if no client waits, so that its health is known. With a `pgbouncer.ini` only clients
/// and min_pool_size open servers, as in PgBouncer.
fn keep_trying(core: &mut Core, now: Time, ix: PoolIx) {
    let slot = core.pools.get_mut(ix);
    if core.common.config().format == FileFormat::Toml && !slot.lending.is_borrower() {
        slot.pool.keep_trying(now);
    }
}

/// A pool's names as a number, from which its owner follows: 32 bits.
pub(crate) fn pool_hash(name: &str, user: &str) -> u64 {
    // FNV-1a: the same on every worker, and in every run of a seed. The last letters reach only its lower half, so that
    // is spread over the upper one: or all users whose names differ at the end would share a worker.
    let bytes = name.bytes().chain([0]).chain(user.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    (hash ^ hash >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}
