//! The rules for a client: the pool of its database, with the rules of its user.
//!
//! Precedence is PgBouncer's (its documentation, "Section [users]"): the user's rule, then the pool's setting, which
//! is the global one where the pool has none of its own.

use std::sync::Arc;

use weir_base::PoolMode;

use crate::model::{Config, PoolConfig, PoolShare, UserRules};
use crate::names::RESERVED_DATABASES;
use crate::origin::FileFormat;

/// The query about users that `auth_file` does not list, unless `auth_query` has another one.
///
/// Every name is schema-qualified, operators included, so the catalogue of the server answers whatever the search_path
/// is. An expired password (VALID UNTIL) is NULL, and no user can log in with NULL.
pub const AUTH_QUERY: &str = "SELECT rolname, CASE WHEN rolvaliduntil OPERATOR(pg_catalog.<) pg_catalog.now() THEN NULL \
     ELSE rolpassword END FROM pg_catalog.pg_authid WHERE rolname OPERATOR(pg_catalog.=) $1 AND rolcanlogin";

/// How the secret of a user who is not in `auth_file` is queried.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct AuthLookup {
    /// The pool in which the query runs.
    pub database: String,
    /// The user who runs the query.
    pub user: String,
    /// The query; its one parameter is the user's name.
    pub query: String,
}

impl Config {
    /// The value of `workers` for `auto`.
    pub const AUTO_WORKERS: u16 = 0;

    /// More workers than this are not made unless the configuration has their number.
    const MOST_AUTO_WORKERS: usize = 64;

    /// Replaces `workers = "auto"` by the number of cores that the process may use, which is 1 to 64 here.
    pub fn set_workers(&mut self, cores: usize) {
        if self.workers == Config::AUTO_WORKERS {
            self.workers = cores.clamp(1, Config::MOST_AUTO_WORKERS) as u16;
        }
    }

    /// How to query the secret of an unlisted user who connects to `database`; `None`: no query, unlisted users are
    /// refused. The console has no database of its own to query.
    pub fn auth_lookup(&self, database: &str) -> Option<AuthLookup> {
        let auth = &self.auth;
        let pool = if RESERVED_DATABASES.contains(&database) { None } else { self.pool(database) };
        let own = |get: fn(&PoolConfig) -> &Option<String>| pool.as_deref().and_then(|pool| get(pool).clone());
        let user = own(|pool| &pool.auth_user).or_else(|| auth.query_user.clone()).filter(|user| !user.is_empty())?;
        let place = own(|pool| &pool.auth_database).or_else(|| auth.query_database.clone());
        let place = place.filter(|name| !name.is_empty());
        if pool.is_none() && place.is_none() && !RESERVED_DATABASES.contains(&database) {
            // The database of the query does not exist; only known users may learn that.
            return None;
        }
        let query = own(|pool| &pool.auth_query).unwrap_or_else(|| auth.query.clone());
        Some(AuthLookup {
            database: place.unwrap_or_else(|| database.to_owned()),
            user,
            query: if query.is_empty() { AUTH_QUERY.to_owned() } else { query },
        })
    }

    /// Whether secrets are queried as this user.
    pub fn asks_as(&self, user: &str) -> bool {
        let of_pools = self.pools.values().chain(&self.fallback).filter_map(|pool| pool.auth_user.as_deref());
        of_pools.chain(self.auth.query_user.as_deref()).any(|asker| asker == user)
    }

    /// The pool for clients that name `database`: the one of that name, or one made from the fallback (`*`), whose
    /// database on the server is the one that the client named unless the fallback names one.
    pub fn pool(&self, database: &str) -> Option<Arc<PoolConfig>> {
        if let Some(pool) = self.pools.get(database) {
            return Some(pool.clone());
        }
        let pattern = self.fallback.as_ref()?;
        let mut pool = PoolConfig::clone(pattern);
        pool.name = database.to_owned();
        if pool.database.is_empty() {
            pool.database = database.to_owned();
        }
        Some(Arc::new(pool))
    }

    /// Whether the pool of this name is made from the fallback.
    pub fn is_on_demand(&self, database: &str) -> bool {
        self.fallback.is_some() && !self.pools.contains_key(database)
    }

    /// A pool with the rules of `user`, the user on the server.
    pub fn pool_of_user(&self, pool: &Arc<PoolConfig>, user: &str) -> Arc<PoolConfig> {
        let Some(rules) = self.users.get(user) else { return pool.clone() };
        let mut pool = PoolConfig::clone(pool);
        apply(rules, &mut pool);
        Arc::new(pool)
    }

    /// Whether a user is listed, or has rules.
    pub fn has_user(&self, name: &str) -> bool {
        self.auth.users.get(name).is_some() || self.users.contains_key(name)
    }

    /// Whether clients of this user may log in at all.
    pub fn is_disabled(&self, user: &str) -> bool {
        self.users.get(user).is_some_and(|rules| rules.disabled)
    }

    /// Whether clients of this user may use a pool, which is none of the console's databases.
    pub fn may_use(&self, user: &str, pool: &str) -> bool {
        let pools = self.users.get(user).map_or(&[][..], |rules| &rules.pools);
        pools.is_empty() || pools.iter().any(|name| name == pool)
    }

    /// The secret of a user before the present one, while it is valid too. `now`: seconds since 1970.
    pub fn former_secret(&self, user: &str, now: u64) -> Option<&str> {
        let rules = self.users.get(user).filter(|rules| now < rules.former_secret_until)?;
        rules.former_secret.0.as_deref()
    }

    /// The most server connections that `user` may have, over all pools; 0 is unlimited.
    pub fn user_connections(&self, user: &str) -> u32 {
        let own = self.users.get(user).and_then(|rules| rules.max_connections);
        own.unwrap_or(self.max_user_connections)
    }

    /// The most clients of the console, administrators aside; 0 is unlimited, which it always is but for an ini.
    pub fn console_clients(&self) -> u32 {
        if self.format == FileFormat::Ini { self.limits.max_db_client_connections } else { 0 }
    }

    /// The most server connections of a database, over all users; 0 is unlimited.
    pub fn db_connections(&self, database: &str) -> u32 {
        let pool = self.pools.get(database).or(self.fallback.as_ref());
        pool.map_or(0, |pool| pool.limits.max_db_connections)
    }

    /// The most server connections of a database at all nodes of a cluster; none if nodes do not share it: without a
    /// cluster, without a limit, and for a pool made from the fallback.
    pub fn shared_budget(&self, database: &str) -> Option<u32> {
        let pool = if self.cluster.etcd.is_empty() { None } else { self.pools.get(database) }?;
        let limits = &pool.limits;
        let budget = if limits.max_db_connections > 0 { limits.max_db_connections } else { limits.size };
        (budget > 0).then_some(budget)
    }

    /// The share that a database has of a database server's connections; `None` if it shares with no other.
    pub fn share(&self, database: &str) -> Option<&PoolShare> {
        if self.servers.is_empty() {
            return None;
        }
        let share = &self.pools.get(database).or(self.fallback.as_ref())?.share;
        share.server.as_deref().is_some_and(|server| self.servers.contains_key(server)).then_some(share)
    }

    /// Whether other processes may serve clients that use the same address.
    pub fn has_siblings(&self) -> bool {
        self.listen.reuse_port || !self.peers.is_empty() || !self.cluster.etcd.is_empty()
    }

    /// The name of the section of `[servers]` whose connections a database shares.
    pub fn server_of(&self, database: &str) -> Option<&str> {
        self.share(database)?.server.as_deref()
    }

    /// Whether clients of a user keep their servers, in the pool of a database.
    pub fn keeps_servers(&self, database: &str, user: &str) -> bool {
        let of_user = self.users.get(user).and_then(|rules| rules.mode);
        let mode = of_user.or_else(|| Some(self.pools.get(database).or(self.fallback.as_ref())?.policy.mode));
        mode == Some(PoolMode::Session)
    }

    /// Sums up what the pools of each database server are guaranteed; for who makes a configuration, after its pools.
    pub fn sum_guarantees(&mut self) {
        self.servers.values_mut().for_each(|server| server.guaranteed = 0);
        for share in self.pools.values().map(|pool| &pool.share).filter(|share| share.guaranteed > 0) {
            if let Some(server) = share.server.as_deref().and_then(|name| self.servers.get_mut(name)) {
                server.guaranteed = server.guaranteed.saturating_add(share.guaranteed);
            }
        }
    }

    /// Whether a limit that several pools share applies to the servers of a database and a user.
    pub fn is_limited(&self, database: &str, user: &str) -> bool {
        self.db_connections(database) > 0
            || self.user_connections(user) > 0
            || self.shared_budget(database).is_some()
            || self.share(database).is_some()
    }

    /// Whether TERM closes clients, rather than wait for them: a time is set for that, which PgBouncer does not have.
    pub fn drains_on_term(&self) -> bool {
        !self.drain_time.is_zero() || !self.shutdown_delay.is_zero()
    }

    /// Whether any limit of clients is set, so that they need admission.
    pub fn limits_clients(&self) -> bool {
        self.max_user_client_connections > 0
            || self.console_clients() > 0
            || self.max_address_connections > 0
            || self.users.values().any(|rules| rules.max_client_connections.is_some_and(|most| most > 0))
            || self.pools.values().chain(&self.fallback).any(|pool| pool.limits.max_db_client_connections > 0)
    }

    /// The most clients that `user` may have, over all pools; 0 is unlimited.
    pub fn user_clients(&self, user: &str) -> u32 {
        let own = self.users.get(user).and_then(|rules| rules.max_client_connections);
        own.unwrap_or(self.max_user_client_connections)
    }
}

fn apply(rules: &UserRules, pool: &mut PoolConfig) {
    fn set<T: Clone>(field: &mut T, rule: &Option<T>) {
        if let Some(value) = rule {
            field.clone_from(value);
        }
    }
    set(&mut pool.policy.mode, &rules.mode);
    let limits = &mut pool.limits;
    set(&mut limits.size, &rules.pool_size);
    set(&mut limits.reserve_size, &rules.reserve_size);
    set(&mut limits.query_timeout, &rules.query_timeout);
    set(&mut limits.query_wait_timeout, &rules.query_wait_timeout);
    set(&mut limits.idle_transaction_timeout, &rules.idle_transaction_timeout);
    set(&mut limits.transaction_timeout, &rules.transaction_timeout);
    set(&mut limits.client_idle_timeout, &rules.client_idle_timeout);
}
