//! The pools of this worker, and what a new configuration changes.

use std::sync::Arc;

use weir_admin::{ALL_DATABASES, CommandError};
use weir_base::{PoolMode, Target, Time, WorkerId};
use weir_config::{Config, SslMode};
use weir_pool::Pool;
use weir_session::{Cause, Refusal};

use crate::backends::login::{self, own_error};
use crate::cluster::lending::LendingRole;
use crate::cluster::messages::Payload;
use crate::cluster::quota::servers::PoolQuota;
use crate::common::{FollowUp, cx};
use crate::engine::Engine;
use crate::handles::PoolIx;
use crate::peers::ClientSlot;
use crate::pools::{PoolSlot, adjust};
use crate::port::Io;

impl Engine {
    /// Creates the pools with a fixed user at the start, so that `min_size` holds without clients.
    pub(crate) fn create_forced_pools(&mut self, now: Time) {
        for (name, pool) in self.common.config().clone().pools.iter() {
            if let Some(user) = &pool.user
                && pool.limits.min_size > 0
                && self.owner_of(name, user) == self.common.worker()
            {
                let ix = self.pool_of(name, pool, user, now);
                self.pools.get_mut(ix).pool.set_demand(true);
                self.common.follow_up(FollowUp::PollPool(ix));
            }
        }
    }

    /// The worker that owns a pool.
    pub(crate) fn owner_of(&self, name: &str, user: &str) -> WorkerId {
        WorkerId((pool_hash(name, user) % u64::from(self.common.workers())) as u16)
    }

    /// The pool of a configured pool and a user; created when first needed.
    pub(crate) fn pool_of(&mut self, name: &str, config: &Arc<weir_config::Pool>, user: &str, now: Time) -> PoolIx {
        let key: (Arc<str>, Arc<str>) = (name.into(), user.into());
        if let Some(ix) = self.pools.find(&key.0, &key.1) {
            return ix;
        }
        let config = &self.common.config().pool_of_user(config, user);
        let lending = LendingRole::new(self.owner_of(name, user), self.common.worker());
        let limited = self.common.config().is_limited(name, user) && !lending.is_borrower();
        let mut pool = Pool::new(lending.settings(self.common.config(), config), self.common.random_number(), now);
        pool.set_elsewhere(self.takeover.held.of(&key));
        let accepted = self.sessions.interner.pool(name, user, config.limits.pool_share());
        let slot = PoolSlot::new(key, config.clone(), pool, accepted, PoolQuota::new(limited), lending, now);
        let ix = self.pools.insert(slot);
        self.halt_pool(now, ix);
        ix
    }

    /// A client of the pool was added (`1`) or removed (`-1`).
    pub(crate) fn count_client(&mut self, ix: PoolIx, change: i32) {
        let slot = self.pools.get_mut(ix);
        slot.clients = slot.clients.wrapping_add_signed(change);
        let elsewhere = matches!(&slot.lending, LendingRole::Owner(lender) if lender.has_clients());
        slot.pool.set_demand(slot.clients > 0 || elsewhere || slot.config.user.is_some());
        self.common.follow_up(FollowUp::PollPool(ix));
    }

    /// The error for a client that a pool refuses.
    pub(crate) fn refusal(&self, ix: PoolIx, why: weir_pool::RefuseReason) -> Refusal {
        let slot = self.pools.get(ix);
        match why {
            weir_pool::RefuseReason::WaitTimeout => {
                Refusal::QueryWaitTimeout { cause: Cause::PoolFull, detail: String::new() }
            }
            weir_pool::RefuseReason::ServerDown => match slot.failures.last() {
                Some((error, true)) => Refusal::ServerSlow { message: error.message.clone() },
                Some((error, false)) => login::refusal(slot, error.clone()),
                None => login::refusal(slot, own_error("server login failed".into())),
            },
            weir_pool::RefuseReason::TooManyWaiting => Refusal::TooManyClients,
            weir_pool::RefuseReason::ShuttingDown if slot.removed => Refusal::PoolGone,
            weir_pool::RefuseReason::ShuttingDown => Refusal::ShuttingDown,
        }
    }

    /// Adopts a configuration. No client is disconnected; servers whose address or login changed are replaced as they
    /// are released.
    pub(crate) fn adopt<I: Io>(&mut self, now: Time, config: Arc<Config>, io: &mut I) {
        self.sessions.adopt(&config);
        self.entry.adopt(&config);
        let listed = self.common.config().auth.users.clone();
        let servers = &self.common.config().tls.server;
        let other_tls = *servers != config.tls.server && servers.mode.max(config.tls.server.mode) > SslMode::Disable;
        self.common.set_config(config);
        for ix in self.pools.indices() {
            let slot = self.pools.get(ix);
            let config = self.common.config().pool(&slot.name).filter(|pool| self.fits(pool, &slot.user));
            let slot = self.pools.get_mut(ix);
            match config {
                None if slot.removed => {}
                None => {
                    self.recall(ix, io);
                    self.pools.remove(ix);
                }
                // A pool that is shut stays shut: one that returns is a new pool, under the same name.
                Some(_) if slot.removed => {}
                Some(pool) => {
                    let all = self.common.config();
                    if listed.get(&slot.user) != all.auth.users.get(&slot.user) {
                        slot.secret_changed();
                    }
                    if adjust(slot, all, all.pool_of_user(&pool, &slot.user), now) {
                        self.recall(ix, io);
                    }
                }
            }
            if other_tls {
                // Servers under the old settings might be less secure than the new ones allow.
                self.pools.get_mut(ix).login_anew(now);
                self.recall(ix, io);
            }
            self.limit_pool(now, ix, io);
            self.common.follow_up(FollowUp::PollPool(ix));
            self.recheck_linked(ix);
        }
        self.watch_linked();
        self.create_forced_pools(now);
        self.recheck_logins(now, io);
        self.limits_changed(now, io);
        self.cluster.peering.adopt(self.common.config());
    }

    /// Whether a configured pool has servers of this user's.
    pub(crate) fn fits(&self, pool: &weir_config::Pool, user: &str) -> bool {
        self.common.config().asks_as(user) || pool.user.as_deref().is_none_or(|forced| forced == user)
    }

    /// Moves a client to the new pool, if the configuration has replaced its pool (another user).
    pub(crate) fn move_to_successor(&mut self, now: Time, client: &mut ClientSlot) {
        let name = self.pools.get(client.pool).name.clone();
        let Some(config) = self.common.config().pool(&name) else { return };
        let user = config.user.clone().unwrap_or_else(|| client.user.to_string());
        self.count_client(client.pool, -1);
        client.pool = self.pool_of(&name, &config, &user, now);
        self.count_client(client.pool, 1);
    }

    /// Clients are about to drop, rename or copy databases, which PostgreSQL refuses while others are connected. It waits five
    /// seconds for connections that are being closed.
    pub(crate) fn free_databases<I: Io>(&mut self, now: Time, io: &mut I) {
        while let Some((ix, database)) = self.common.next_needed_alone() {
            let (server, database) = (self.pools.get(ix).config.target().clone(), Arc::<str>::from(database));
            cx!(self, now, io).post_to_others(|| Payload::FreeDatabase(server.clone(), database.clone()));
            self.free_database(now, &server, &database, io);
        }
    }

    /// Closes what is idle of the pools whose connections go to this database, as RECONNECT does, and the rest when it is released.
    pub(crate) fn free_database<I: Io>(&mut self, now: Time, server: &Target, database: &str, io: &mut I) {
        for ix in self.pools.indices() {
            let config = &self.pools.get(ix).config;
            if config.database == database && config.targets.contains(server) {
                self.reconnect_pool(now, ix, io);
            }
        }
    }

    /// RECONNECT of the pools that `name` selects.
    pub(crate) fn pools_reconnect<I: Io>(&mut self, now: Time, name: Option<&str>, io: &mut I) {
        for ix in self.pools.named(name) {
            self.reconnect_pool(now, ix, io);
        }
    }

    fn reconnect_pool<I: Io>(&mut self, now: Time, ix: PoolIx, io: &mut I) {
        self.recall(ix, io);
        self.pools.get_mut(ix).pool.reconnect(now);
        self.common.follow_up(FollowUp::PollPool(ix));
        self.recheck_linked(ix);
    }

    /// Servers of a pool were marked for close. With `server_fast_close`, those that sessions hold are checked now.
    pub(crate) fn recheck_linked(&mut self, ix: PoolIx) {
        if self.common.config().server_fast_close && self.pools.get(ix).mode() == PoolMode::Session {
            let linked = self.peers.servers().filter(|server| server.pool == ix && server.link.is_some());
            linked.for_each(|server| self.common.follow_up(FollowUp::Release(server.peer)));
        }
    }

    /// Whether a configured pool has this name. `*` is none, though it stands for databases in a file, and the fallback would
    /// have any name.
    pub(crate) fn check_name(&self, name: Option<&str>) -> Result<(), CommandError> {
        match name {
            Some(name) if name == ALL_DATABASES || self.common.config().pool(name).is_none() => {
                Err(CommandError::NoSuchDatabase(name.to_owned()))
            }
            _ => Ok(()),
        }
    }
}

/// A pool's names as a number, from which its owner follows: 32 bits.
pub(crate) fn pool_hash(name: &str, user: &str) -> u64 {
    // FNV-1a: the same on every worker, and in every run of a seed. The last letters reach only its lower half, so that is
    // spread over the upper one: or all users whose names differ at the end would share a worker.
    let bytes = name.bytes().chain([0]).chain(user.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    (hash ^ hash >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}
