//! The control plane's probes of database servers, with the configuration in force.
//!
//! Owns which pool a name means, and when a connection is one of the node's share.

use std::sync::Arc;

use weir_admin::{
    Activity, BackendKey, BackendSignal, LookedAt, PlannedPool, PoolTestResult, ProbeError, ServerCapacity,
    ServerProbes, UserTestError, UserTestResult,
};
use weir_base::Target;
use weir_config::{Config, PoolConfig};

use crate::looks::Looks;
use crate::permit::{Permit, Permits};
use crate::{activity, capacity, pool_test, user_test};

/// See the head of the file.
pub struct Probes {
    in_force: Box<dyn Fn() -> Arc<Config> + Send + Sync>,
    permits: Permits,
    looks: Looks,
}

impl Probes {
    /// `permits`: connections of this node's share of a pool. `in_force`: the configuration in force; called for each
    /// probe.
    pub fn new(permits: Permits, in_force: impl Fn() -> Arc<Config> + Send + Sync + 'static) -> Probes {
        Probes { in_force: Box::new(in_force), permits, looks: Looks::default() }
    }

    /// A connection beside a pool's servers, if nodes share that pool.
    fn permit(&self, config: &Config, pool: &str) -> Result<Option<Permit>, ProbeError> {
        let is_shared = config.shared_budget(pool).is_some();
        is_shared.then(|| self.permits.take(pool)).transpose()
    }
}

impl ServerProbes for Probes {
    fn test_pool(&self, PlannedPool { config, pool }: &PlannedPool) -> Result<PoolTestResult, ProbeError> {
        let permit = self.permit(&(self.in_force)(), &pool.name)?;
        let tested = pool_test::test_pool(config, pool, permit.as_ref());
        permit.filter(|_| tested.is_ok()).into_iter().for_each(Permit::ended);
        tested
    }

    fn test_user(&self, user: &str, pool: &str, password: &str) -> Result<UserTestResult, UserTestError> {
        user_test::test_user(&(self.in_force)(), user, password, pool)
    }

    fn activity(&self, pool: &str) -> Result<Activity, ProbeError> {
        let config = (self.in_force)();
        activity::read(&self.looks, &config, &served(&config, pool)?, || self.permit(&config, pool))
    }

    fn keep_looks(&self, pools: &[LookedAt]) {
        let config = (self.in_force)();
        // A connection beside a shared pool's servers would be one of the node's share for all time.
        let own = pools.iter().filter(|of| config.shared_budget(&of.pool).is_none());
        self.looks.keep(&config, own.filter_map(|of| Some((served(&config, &of.pool).ok()?, of))));
    }

    fn capacity(&self, pool: &str, server: &Target) -> Result<ServerCapacity, ProbeError> {
        let config = (self.in_force)();
        let at = PoolConfig { targets: vec![server.clone()], ..served(&config, pool)? };
        capacity::read(&self.looks, &config, &at, || self.permit(&config, pool))
    }

    fn signal(&self, pool: &str, backend: BackendKey, signal: BackendSignal) -> Result<bool, ProbeError> {
        let config = (self.in_force)();
        let served = served(&config, pool)?;
        activity::signal(&self.looks, &config, &served, || self.permit(&config, pool), backend, signal)
    }
}

/// The pool that serves clients of this name.
fn served(config: &Config, name: &str) -> Result<PoolConfig, ProbeError> {
    config.pool(name).map(|pool| PoolConfig::clone(&pool)).ok_or_else(|| ProbeError::NoSuchPool(name.to_owned()))
}
