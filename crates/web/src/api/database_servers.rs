//! Database servers, and how their connections are shared: what the pools may open, have open, what others have open,
//! and what is free. What a server takes is asked from it ([`Capacities`]); the rest is known here.

use std::collections::{BTreeMap, BTreeSet};

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use weir_admin::{PoolRecord, Report, ServerCapacity, shared_servers};
use weir_base::{Target, plural};
use weir_config::{Config, PoolConfig, ServerRules};
use weir_http::ApiError;
use weir_monitor::{Answered, Capacities, Question, Workers};

use super::page::{PageParams, PageRequest};

/// The most pools of a server that are listed.
const LISTED: usize = 200;

#[derive(Serialize)]
pub(crate) struct Page {
    servers: Vec<DatabaseServer>,
    /// The value of `after` for the next page; none on the last one.
    next: Option<String>,
}

/// A database server.
#[derive(Serialize)]
struct DatabaseServer {
    /// The server's host and port.
    address: String,
    /// The server's pools, those with the most connections first.
    pools: Vec<Share>,
    /// How many pools there are, listed or not.
    pools_total: usize,
    /// The most connections that these pools may open; none if one has no limit.
    most: Option<u64>,
    /// The connections that these pools have open.
    open: u64,
    /// The limits under which pools of the server share connections (`[servers]`), by name.
    limits: Vec<SharedLimit>,
    capacity: Option<Capacity>,
    /// Why `capacity` is not known.
    unknown: Option<String>,
    /// What does not fit, as a sentence.
    warning: Option<String>,
}

/// A limit that pools share.
#[derive(Clone, Serialize)]
struct SharedLimit {
    /// The name of its section in `[servers]`.
    name: String,
    max_connections: u32,
    /// The sum of what its pools are guaranteed.
    guaranteed: u32,
    /// The connections that its pools have open, at whatever server.
    open: u32,
}

/// A pool's share of a server.
#[derive(Serialize)]
struct Share {
    name: String,
    database: String,
    /// The user of its logins; none if each client's own is used, with servers for each of them.
    user: Option<String>,
    mode: String,
    /// The most connections, over its users; none without a limit.
    most: Option<u64>,
    open: u32,
    /// The limit that it shares with other pools, if there is one.
    limit: Option<String>,
    /// How many connections of that limit it gets back from others whenever it needs them.
    guaranteed: u32,
    /// Its part of the rest, in proportion to the weights of others.
    weight: u32,
    /// How many servers it gives back to other pools, as they become free.
    giving_back: u32,
    clients: u32,
    waiting: u32,
    /// How many servers the pool has; `most` and `open` are about all of them.
    hosts: usize,
    health: &'static str,
}

/// What the server takes and has.
#[derive(Serialize)]
struct Capacity {
    max_connections: u32,
    reserved: u32,
    connections: u32,
    /// Connections that are not of this Weir.
    others: u64,
    /// Connections that this Weir keeps to look at the server.
    looks: u32,
    /// Connections that ordinary users may still open.
    free: u32,
    /// Seconds since 1970.
    asked_at: f64,
    /// The user that asked.
    asked_by: String,
    /// The server's databases and users with the most connections.
    top: Vec<Role>,
}

#[derive(Serialize)]
struct Role {
    database: String,
    user: String,
    connections: u32,
}

/// `GET /api/v1/database-servers`.
pub(crate) async fn list(
    State(workers): State<Workers>,
    State(capacities): State<Capacities>,
    asked: PageParams,
) -> Result<Json<Page>, ApiError> {
    let page_request = PageRequest::of(asked)?;
    let (report, config) = workers.report().await?;
    let (found, next) = page_request.cut(by_server(&report, &config), |(address, _)| address);
    let answers = capacities.of(found.iter().map(|(_, of)| of.question()).collect()).await;
    let limits = limits(&report, &config);
    let servers = found.into_iter().map(|(address, of)| {
        let answered = answers.get(&address);
        of.server(address, answered, &limits)
    });
    Ok(Json(Page { servers: servers.collect(), next }))
}

/// The limits that pools share, by name, with what their pools have open.
fn limits(report: &Report, config: &Config) -> BTreeMap<String, SharedLimit> {
    let limit = |(name, (server, open)): (&str, (ServerRules, u32))| {
        let ServerRules { max_connections, guaranteed } = server;
        (name.to_owned(), SharedLimit { name: name.to_owned(), max_connections, guaranteed, open })
    };
    shared_servers(&report.pools, config).into_iter().map(limit).collect()
}

/// The pools of a server, before it is asked.
struct Found {
    target: Target,
    shares: Vec<Share>,
}

/// All servers, by their addresses.
fn by_server(report: &Report, config: &Config) -> BTreeMap<String, Found> {
    let records = report.by_database();
    let mut servers: BTreeMap<String, Found> = BTreeMap::new();
    let mut add = |pool: &PoolConfig, name: &str, records: &[&PoolRecord]| {
        for target in &pool.targets {
            let found = servers.entry(target.to_string());
            let found = found.or_insert_with(|| Found { target: target.clone(), shares: Vec::new() });
            found.shares.push(Share::of(pool, name, records, report, config));
        }
    };
    for (name, pool) in &config.pools {
        add(pool, name, records.get(name.as_str()).map_or(&[][..], Vec::as_slice));
    }
    if let Some(fallback) = &config.fallback {
        let automatic = records.iter().filter(|(name, _)| !config.pools.contains_key(**name));
        automatic.for_each(|(name, records)| add(fallback, name, records));
    }
    servers
}

impl Share {
    fn of(pool: &PoolConfig, name: &str, records: &[&PoolRecord], report: &Report, config: &Config) -> Share {
        let mut all = PoolRecord::new(name, "", pool.policy.mode);
        records.iter().for_each(|record| all.add(record));
        Share {
            name: name.to_owned(),
            database: if pool.database.is_empty() { name.to_owned() } else { pool.database.clone() },
            user: pool.user.clone(),
            mode: pool.policy.mode.to_string(),
            most: most(pool, records, config),
            open: all.servers(),
            limit: config.server_of(name).map(str::to_owned),
            guaranteed: pool.share.guaranteed,
            weight: pool.share.weight,
            giving_back: report.giving_back.get(name).copied().unwrap_or(0),
            clients: all.clients(),
            waiting: all.cl_waiting,
            hosts: pool.targets.len(),
            health: all.health.state.name(),
        }
    }
}

/// The most connections of a pool: those of each of its users, of one if there is none yet, within the limits that
/// these share.
fn most(pool: &PoolConfig, records: &[&PoolRecord], config: &Config) -> Option<u64> {
    let of_user = |user: &str| {
        let rules = config.users.get(user);
        let size = rules.and_then(|rules| rules.pool_size).unwrap_or(pool.limits.size);
        let reserve = rules.and_then(|rules| rules.reserve_size).unwrap_or(pool.limits.reserve_size);
        let own = (size > 0).then(|| u64::from(size) + u64::from(reserve));
        least(own, config.user_connections(user))
    };
    let sum = match &pool.user {
        Some(user) => of_user(user),
        None if records.is_empty() => pool.limits.max_servers(),
        None => records.iter().map(|record| of_user(&record.user)).sum(),
    };
    least(sum, pool.limits.max_db_connections)
}

/// The most connections of all pools of a server: those that share a limit have no more than that together.
fn most_of(shares: &[Share], limits: &[SharedLimit]) -> Option<u64> {
    let sum = |limit: Option<&str>| {
        let of_limit = shares.iter().filter(|share| share.limit.as_deref() == limit);
        of_limit.map(|share| share.most).sum::<Option<u64>>()
    };
    let shared = limits.iter().map(|limit| least(sum(Some(&limit.name)), limit.max_connections));
    shared.chain([sum(None)]).sum()
}

/// The smaller of two limits; 0 is none.
fn least(limit: Option<u64>, other: u32) -> Option<u64> {
    let other = (other > 0).then_some(u64::from(other));
    match (limit, other) {
        (Some(limit), Some(other)) => Some(limit.min(other)),
        (limit, other) => limit.or(other),
    }
}

impl Found {
    /// The pools whose own login is known may ask best.
    fn question(&self) -> Question {
        let (own, others): (Vec<&Share>, Vec<&Share>) = self.shares.iter().partition(|share| share.user.is_some());
        // A pool that works is asked before one whose login fails.
        let (well, ill): (Vec<&Share>, Vec<&Share>) = own.into_iter().partition(|share| share.open > 0);
        let pools = well.into_iter().chain(ill).chain(others).take(LISTED).map(|share| share.name.clone()).collect();
        Question { server: self.target.clone(), pools }
    }

    fn server(
        mut self,
        address: String,
        answered: Option<&Answered>,
        limits: &BTreeMap<String, SharedLimit>,
    ) -> DatabaseServer {
        let names: BTreeSet<&String> = self.shares.iter().filter_map(|share| share.limit.as_ref()).collect();
        let limits: Vec<SharedLimit> = names.into_iter().filter_map(|name| limits.get(name).cloned()).collect();
        let most = most_of(&self.shares, &limits);
        let open = self.shares.iter().map(|share| u64::from(share.open)).sum();
        let capacity = answered.and_then(|of| Some(Capacity::of(of.capacity.as_ref().ok()?, open, of.at)));
        let unknown = match answered {
            None => Some("the server has not answered yet".to_owned()),
            Some(of) => of.capacity.as_ref().err().cloned(),
        };
        let warning = capacity.as_ref().and_then(|capacity| capacity.warning(most));
        let pools_total = self.shares.len();
        self.shares.sort_by(|a, b| (b.open, b.most, &a.name).cmp(&(a.open, a.most, &b.name)));
        self.shares.truncate(LISTED);
        DatabaseServer { address, pools: self.shares, pools_total, most, open, limits, capacity, unknown, warning }
    }
}

impl Capacity {
    fn of(server: &ServerCapacity, open: u64, asked_at: f64) -> Capacity {
        let for_all = server.max_connections.saturating_sub(server.reserved);
        let role = |of: &weir_admin::RoleConnections| Role {
            database: of.database.clone(),
            user: of.user.clone(),
            connections: of.connections,
        };
        Capacity {
            max_connections: server.max_connections,
            reserved: server.reserved,
            connections: server.connections,
            others: u64::from(server.connections).saturating_sub(open + u64::from(server.looks)),
            looks: server.looks,
            free: for_all.saturating_sub(server.connections),
            asked_at,
            asked_by: server.user.clone(),
            top: server.by_role.iter().take(10).map(role).collect(),
        }
    }

    /// What does not fit: now, if all pools were full, or with what others have open.
    fn warning(&self, most: Option<u64>) -> Option<String> {
        let takes = u64::from(self.max_connections.saturating_sub(self.reserved));
        let others = self.others;
        if self.free == 0 {
            return Some(format!(
                "All {takes} connections of the server are in use, {others} of them by others: new logins fail \
                 (SQLSTATE 53300). Close connections of others, make pools smaller, or raise max_connections."
            ));
        }
        let connections = |number: u64| plural(number, "connection", "connections");
        match most {
            None => Some(format!(
                "A pool has no limit, so only the server's {takes} connections bound it: give each pool a size."
            )),
            Some(most) if most > takes => Some(format!(
                "The pools may open {}, and the server takes {takes}: under load logins will fail \
                 (SQLSTATE 53300). Make pools smaller, or raise max_connections.",
                connections(most)
            )),
            Some(most) if most + others > takes => Some(format!(
                "The pools may open {}, and others have {others}, but the server takes {takes}: under \
                 load logins will fail (SQLSTATE 53300). Make pools smaller, or see what the others are.",
                connections(most)
            )),
            Some(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capacity(max_connections: u32, connections: u32, open: u64) -> Capacity {
        let server = ServerCapacity { max_connections, reserved: 3, connections, ..ServerCapacity::default() };
        Capacity::of(&server, open, 0.0)
    }

    #[test]
    fn what_is_not_ours_is_of_others_and_the_reserved_are_not_free() {
        let shared = capacity(100, 40, 15);
        assert_eq!((shared.others, shared.free), (25, 57));
        // A pool of several servers counts at each of them.
        assert_eq!(capacity(100, 10, 15).others, 0);
        assert_eq!(capacity(100, 99, 15).free, 0);
        let kept = ServerCapacity { max_connections: 100, connections: 40, looks: 1, ..ServerCapacity::default() };
        let kept = Capacity::of(&kept, 15, 0.0);
        assert_eq!((kept.others, kept.looks, kept.free), (24, 1, 60), "one that is kept for looks is ours");
    }

    #[test]
    fn a_warning_says_what_does_not_fit() {
        let table = [
            (capacity(100, 40, 15), Some(20), None),
            (capacity(100, 40, 15), Some(72), None),
            (capacity(100, 40, 15), Some(73), Some("others have 25, but the server takes 97")),
            (capacity(100, 10, 10), Some(97), None),
            (capacity(100, 10, 10), Some(98), Some("may open 98 connections, and the server takes 97:")),
            (capacity(100, 10, 10), None, Some("A pool has no limit")),
            (
                capacity(100, 97, 10),
                Some(20),
                Some("All 97 connections of the server are in use, 87 of them by others"),
            ),
        ];
        for (capacity, most, expected) in table {
            let warning = capacity.warning(most);
            let fits =
                expected.map_or(warning.is_none(), |part| warning.as_ref().is_some_and(|text| text.contains(part)));
            assert!(fits, "{most:?}: {warning:?}");
        }
    }

    #[test]
    fn pools_that_share_a_limit_may_open_no_more_than_that_together() {
        let text = "[auth]\ntype = \"trust\"\n[servers.main]\nmax_connections = 12\n\
                    [pools.a]\nhost = \"db1\"\nuser = \"app\"\nsize = 10\nserver = \"main\"\nguaranteed_connections = 3\n\
                    [pools.b]\nhost = \"db1\"\nuser = \"app\"\nsize = 10\nserver = \"main\"\nweight = 2\n\
                    [pools.c]\nhost = \"db1\"\nuser = \"app\"\nsize = 4\n";
        let config = weir_config::load(std::path::Path::new("weir.toml"), &|_| Ok(text.to_owned()), &|_| None);
        let config = config.unwrap_or_else(|errors| panic!("{errors}"));
        let mut record = PoolRecord::new("a", "app", weir_base::PoolMode::Transaction);
        record.sv_active = 5;
        let giving_back = [("a".to_owned(), 2)].into();
        let report = Report { pools: vec![record], giving_back, ..Report::default() };
        let found = by_server(&report, &config).remove("db1:5432").expect("a server");
        let server = found.server("db1:5432".to_owned(), None, &limits(&report, &config));
        assert_eq!(server.most, Some(16));
        let limit = &server.limits[0];
        assert_eq!((limit.name.as_str(), limit.max_connections, limit.guaranteed, limit.open), ("main", 12, 3, 5));
        let share = &server.pools[0];
        assert_eq!((share.name.as_str(), share.guaranteed, share.weight, share.giving_back), ("a", 3, 1, 2));
        assert_eq!(server.pools.iter().find(|share| share.name == "c").map(|share| share.limit.clone()), Some(None));
    }

    #[test]
    fn a_pool_may_open_its_size_for_each_user_within_the_limits_that_they_share() {
        let text = "[auth]\ntype = \"trust\"\n[users.ann]\npool_size = 7\n[users.bob]\nmax_user_connections = 2\n\
                    [pools.own]\nhost = \"db1\"\nuser = \"app\"\nsize = 10\nreserve_size = 5\n\
                    [pools.each]\nhost = \"db1,db2\"\nsize = 4\nmax_db_connections = 12\n";
        let config = weir_config::load(std::path::Path::new("weir.toml"), &|_| Ok(text.to_owned()), &|_| None);
        let config = config.unwrap_or_else(|errors| panic!("{errors}"));
        let record = |user: &str| PoolRecord::new("each", user, weir_base::PoolMode::Transaction);
        let report =
            |users: &[&str]| Report { pools: users.iter().map(|user| record(user)).collect(), ..Report::default() };
        let most = |users: &[&str], server: &str| {
            let found = by_server(&report(users), &config).remove(server).expect("a server");
            found.shares.iter().map(|share| (share.name.clone(), share.most)).collect::<Vec<_>>()
        };
        let both = |each| vec![("each".to_owned(), Some(each)), ("own".to_owned(), Some(15))];
        assert_eq!(most(&[], "db1:5432"), both(4));
        assert_eq!(most(&["ann"], "db1:5432"), both(7));
        assert_eq!(most(&["ann", "bob"], "db1:5432"), both(9));
        assert_eq!(most(&["ann", "bob", "joe"], "db1:5432"), both(12));
        assert_eq!(most(&["joe"], "db2:5432"), [("each".to_owned(), Some(4))]);
    }
}
