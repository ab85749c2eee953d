//! The limits of the pooler's settings, checked from outside: the checker "limits hold" for servers and clients.
//!
//! Owns the history of settings. A reload never closes existing connections, so the widest limit of all settings so far
//! counts. Must not know how the pooler keeps its limits.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_base::ClientAddr;
use weir_config::{AuthLookup, Config, PoolConfig};

/// What all settings so far allow.
#[derive(Default)]
pub(crate) struct Allowed {
    history: Vec<Arc<Config>>,
    /// A cache of limits found in the history, by database and user on the server.
    found: BTreeMap<(String, String), Most>,
    /// A cache of the servers whose connections databases share.
    shares: BTreeMap<String, Option<Arc<str>>>,
    /// Operators may have shrunk pools.
    pub(crate) operated: bool,
}

/// The most server connections that a pool, its database and its user may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Most {
    pool: usize,
    database: usize,
    user: usize,
}

impl Allowed {
    /// The pooler gets these settings.
    pub(crate) fn note(&mut self, config: &Arc<Config>) {
        self.history.push(Arc::clone(config));
        self.found.clear();
        self.shares.clear();
    }

    /// The limit that these server connections break, if any; each comes with its database and user on the server.
    pub(crate) fn broken<'a>(&mut self, servers: impl Iterator<Item = (&'a str, &'a str)>) -> Option<String> {
        let (mut pools, mut databases, mut users) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let mut shared = BTreeMap::new();
        for (database, user) in servers {
            if let Some(server) = self.server_of(database) {
                *shared.entry(server).or_insert(0) += 1;
            }
            *pools.entry((database, user)).or_insert(0) += 1;
            *databases.entry(database).or_insert(0) += 1;
            *users.entry(user).or_insert(0) += 1;
        }
        let beyond = shared.into_iter().find(|(server, count)| *count > self.most_connections(server));
        if let Some((server, count)) = beyond {
            return Some(format!(
                "{count} connections to server {server}, with {} allowed",
                self.most_connections(&server)
            ));
        }
        pools.into_iter().find_map(|((database, user), of_pool)| {
            let most = self.most(database, user);
            let counts = [
                (of_pool, most.pool, format!("{database} as {user}")),
                (databases[database], most.database, format!("the database {database}")),
                (users[user], most.user, format!("the user {user}")),
            ];
            let (count, most, what) = counts.into_iter().find(|(count, most, _)| count > most)?;
            Some(format!("{count} server connections of {what}, with {most} allowed"))
        })
    }

    /// The section of `[servers]` whose connections a database has shared in all settings so far.
    fn server_of(&mut self, database: &str) -> Option<Arc<str>> {
        if let Some(server) = self.shares.get(database) {
            return server.clone();
        }
        let shares = self.history.iter().flat_map(|config| {
            let pools = pools_of(config, database);
            let none = pools.is_empty().then_some(None);
            pools.into_iter().map(|pool| config.share(&pool.name)?.server.clone()).chain(none).collect::<Vec<_>>()
        });
        let shares: std::collections::BTreeSet<Option<Arc<str>>> = shares.collect();
        let server = shares.first().filter(|_| shares.len() == 1).cloned().flatten();
        self.shares.insert(database.to_owned(), server.clone());
        server
    }

    fn most_connections(&self, server: &str) -> usize {
        let most = |config: &Arc<Config>| config.servers.get(server).map_or(usize::MAX, |s| s.max_connections as usize);
        self.history.iter().map(most).max().unwrap_or(usize::MAX)
    }

    /// `Some` if the pool that a client waited in can't have been full under any settings so far; `servers` counts the
    /// connections of a database and a user. That pool is the client's own, or the one of its auth_query.
    pub(crate) fn not_full(&self, database: &str, user: &str, servers: impl Fn(&str, &str) -> usize) -> Option<String> {
        let own = self.lacks(database, |pool| pool.user.clone().unwrap_or_else(|| user.to_owned()), &servers)?;
        let mut lookups = self.history.iter().filter_map(|config| config.auth_lookup(database));
        let full = |lookup: AuthLookup| self.lacks(&lookup.database, |_| lookup.user.clone(), &servers).is_none();
        (!lookups.any(full)).then_some(own)
    }

    fn lacks(
        &self,
        database: &str,
        user: impl Fn(&PoolConfig) -> String,
        servers: impl Fn(&str, &str) -> usize,
    ) -> Option<String> {
        let pools = self.history.iter().filter_map(|config| {
            let pool = config.pool(database)?;
            let user = user(&pool);
            let size = limited(config.pool_of_user(&pool, &user).limits.size);
            Some((servers(&pool.database, &user), size))
        });
        let (there, sizes): (Vec<usize>, Vec<usize>) = pools.unzip();
        let (there, size) = (there.into_iter().max()?, sizes.into_iter().min()?);
        let size = if self.operated { size.min(1) } else { size };
        (there < size).then(|| format!("it has {there} of {size} servers"))
    }

    /// The most concurrent logins of one worker at one target.
    pub(crate) fn logins(&self, workers: usize) -> usize {
        let most = self.history.iter().map(|config| limited(config.max_logins_per_host)).max().unwrap_or(usize::MAX);
        (most / workers).max(1)
    }

    fn most(&mut self, database: &str, user: &str) -> Most {
        let key = (database.to_owned(), user.to_owned());
        if let Some(most) = self.found.get(&key) {
            return *most;
        }
        let mut most = Most { pool: 0, database: 0, user: 0 };
        for config in &self.history {
            // A user's limit spans all its pools.
            most.user = most.user.max(limited(config.user_connections(user)));
            for pool in pools_of(config, database) {
                let limits = &config.pool_of_user(&pool, user).limits;
                let size = if limits.size == 0 { usize::MAX } else { (limits.size + limits.reserve_size) as usize };
                most.pool = most.pool.max(size);
                most.database = most.database.max(limited(config.db_connections(&pool.name)));
            }
        }
        self.found.insert(key, most);
        most
    }
}

/// In settings 0 means no limit.
fn limited(limit: u32) -> usize {
    if limit == 0 { usize::MAX } else { limit as usize }
}

/// The pools with this database on the server.
fn pools_of(config: &Config, database: &str) -> Vec<Arc<PoolConfig>> {
    let mut pools: Vec<Arc<PoolConfig>> =
        config.pools.values().filter(|pool| pool.database == database).map(Arc::clone).collect();
    if pools.is_empty() {
        pools.extend(config.pool(database));
    }
    pools
}

/// The client limit that the logged-in clients of all workers break, if any.
pub(crate) fn broken_client_limit<'a>(
    inside: impl Iterator<Item = (&'a str, &'a str, &'a ClientAddr)>,
    config: &Config,
) -> Option<String> {
    let (mut databases, mut users, mut addresses) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for (database, user, from) in inside {
        *databases.entry(database).or_insert(0) += 1;
        *users.entry(user).or_insert(0) += 1;
        if let ClientAddr::Tcp(from) = from {
            *addresses.entry(from.ip()).or_insert(0) += 1;
        }
    }
    let beyond = |count: u32, most: u32| most > 0 && count > most;
    let of_database = |name: &str| config.pool(name).map_or(0, |pool| pool.limits.max_db_client_connections);
    let database = databases.into_iter().find(|(name, count)| beyond(*count, of_database(name)));
    let user = users.into_iter().find(|(name, count)| beyond(*count, config.user_clients(name)));
    let address = addresses.into_iter().find(|(_, count)| beyond(*count, config.max_address_connections));
    database
        .map(|(name, count)| format!("{count} clients of the database {name}"))
        .or_else(|| user.map(|(name, count)| format!("{count} clients of the user {name}")))
        .or_else(|| address.map(|(ip, count)| format!("{count} clients from {ip}")))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use weir_config::{Limits, ServerRules};

    use super::*;

    #[test]
    fn one_client_too_many_is_caught() {
        let from = ClientAddr::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 1)));
        let local = ClientAddr::Unix { pid: 1, uid: 1 };
        let mut config = Config { max_user_client_connections: 2, ..Config::default() };
        let inside = [("db", "ann", &from), ("db", "ann", &local), ("db", "bob", &from)];
        assert_eq!(broken_client_limit(inside.into_iter(), &config), None);
        let more = inside.into_iter().chain([("other", "ann", &local)]);
        assert_eq!(broken_client_limit(more, &config).as_deref(), Some("3 clients of the user ann"));
        config.max_address_connections = 1;
        assert_eq!(broken_client_limit(inside.into_iter(), &config).as_deref(), Some("2 clients from 127.0.0.1"));
    }

    /// Pools `pool0` and `pool1`, whose databases are `db0` and `db1`.
    fn allowed(size: u32, of_database: u32, of_user: u32) -> Allowed {
        let pool = |number: u32| {
            let limits = Limits { size, reserve_size: 0, max_db_connections: of_database, ..Limits::default() };
            let (name, database) = (format!("pool{number}"), format!("db{number}"));
            (name.clone(), Arc::new(PoolConfig { name, database, limits, ..PoolConfig::default() }))
        };
        let pools = (0..2).map(pool).collect();
        let mut allowed = Allowed::default();
        allowed.note(&Arc::new(Config { pools, max_user_connections: of_user, ..Config::default() }));
        allowed
    }

    #[test]
    fn one_server_connection_of_a_pool_too_many_is_caught() {
        let mut allowed = allowed(2, 0, 0);
        let fine = [("db0", "ann"), ("db0", "bob"), ("db0", "ann"), ("db1", "ann")];
        assert_eq!(allowed.broken(fine.into_iter()), None);
        let beyond = [("db0", "ann"), ("db0", "ann"), ("db0", "ann")];
        let found = allowed.broken(beyond.into_iter());
        assert_eq!(found.as_deref(), Some("3 server connections of db0 as ann, with 2 allowed"));
        assert!(allowed.broken([("db9", "ann")].into_iter()).is_some(), "there is no such pool");
    }

    #[test]
    fn one_server_connection_of_a_database_or_a_user_too_many_is_caught() {
        let servers = [("db0", "ann"), ("db0", "bob"), ("db1", "ann"), ("db0", "eve")];
        let found = allowed(9, 2, 0).broken(servers.into_iter());
        assert_eq!(found.as_deref(), Some("3 server connections of the database db0, with 2 allowed"));
        let found = allowed(9, 0, 1).broken(servers.into_iter());
        assert_eq!(found.as_deref(), Some("2 server connections of the user ann, with 1 allowed"));
        assert_eq!(allowed(9, 3, 2).broken(servers.into_iter()), None);
    }

    #[test]
    fn one_connection_of_a_shared_server_too_many_is_caught() {
        let mut config = (**allowed(9, 0, 0).history.last().unwrap()).clone();
        config.servers.insert("s".to_owned(), ServerRules { max_connections: 2, guaranteed: 0 });
        for pool in config.pools.values_mut() {
            Arc::make_mut(pool).share.server = Some("s".into());
        }
        let mut allowed = Allowed::default();
        allowed.note(&Arc::new(config.clone()));
        let servers = [("db0", "ann"), ("db1", "ann"), ("db0", "bob")];
        assert_eq!(allowed.broken(servers[1..].iter().copied()), None);
        let found = allowed.broken(servers.into_iter());
        assert_eq!(found.as_deref(), Some("3 connections to server s, with 2 allowed"));
        Arc::make_mut(config.pools.get_mut("pool1").expect("it is there")).share.server = None;
        allowed.note(&Arc::new(config));
        assert_eq!(allowed.broken(servers.into_iter()), None, "what db1 has had since then may stay");
    }

    #[test]
    fn a_pool_that_is_reported_full_and_is_not_is_caught() {
        let mut allowed = allowed(2, 0, 0);
        assert_eq!(allowed.not_full("pool0", "ann", |_, _| 2), None);
        let found = allowed.not_full("pool0", "ann", |database, user| usize::from((database, user) == ("db0", "ann")));
        assert_eq!(found.as_deref(), Some("it has 1 of 2 servers"));
        let mut config = (**allowed.history.last().unwrap()).clone();
        config.auth.query_user = Some("asker".to_owned());
        allowed.note(&Arc::new(config));
        let asked = |database: &str, user: &str| 2 * usize::from((database, user) == ("db0", "asker"));
        assert_eq!(allowed.not_full("pool0", "ann", asked), None, "auth_query was waiting for that pool");
        allowed.operated = true;
        assert_eq!(allowed.not_full("pool0", "ann", |_, _| 1), None);
        assert!(allowed.not_full("pool0", "ann", |_, _| 0).is_some());
    }

    #[test]
    fn what_earlier_settings_allowed_may_stay() {
        let mut allowed = allowed(9, 0, 2);
        let servers = [("db0", "ann"), ("db1", "ann")];
        allowed.note(&Arc::new(Config { max_user_connections: 1, ..(**allowed.history.last().unwrap()).clone() }));
        assert_eq!(allowed.broken(servers.into_iter()), None);
    }
}
