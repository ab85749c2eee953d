//! SHOW POOLS, DATABASES and USERS: the configured limits, and their use.

use std::collections::{BTreeMap, BTreeSet};

use weir_base::{PoolMode, Span};
use weir_config::PoolConfig;

use super::table::{Column, Row, Snapshot, flag, int4, int8, text, text_column};
use crate::clock::timestamp;
use crate::console::CONSOLE_DATABASE;
use crate::health::Health;
use crate::records::PoolRecord;

/// The last four are Weir's own: a `pgbouncer.ini` has [`PGBOUNCERS_POOLS`] of them.
pub(super) const POOLS: &[Column] = &[
    text_column("database"),
    text_column("user"),
    int4("cl_active"),
    int4("cl_waiting"),
    int4("cl_active_cancel_req"),
    int4("cl_waiting_cancel_req"),
    int4("sv_active"),
    int4("sv_active_cancel"),
    int4("sv_being_canceled"),
    int4("sv_idle"),
    int4("sv_used"),
    int4("sv_tested"),
    int4("sv_login"),
    int4("maxwait"),
    int4("maxwait_us"),
    text_column("pool_mode"),
    text_column("load_balance_hosts"),
    text_column("health"),
    text_column("health_since"),
    int8("health_clients"),
    text_column("health_error"),
];

/// How many columns PgBouncer's SHOW POOLS has.
pub(super) const PGBOUNCERS_POOLS: usize = 17;

/// The last four are Weir's own: a `pgbouncer.ini` has [`PGBOUNCERS_DATABASES`] of them.
pub(super) const DATABASES: &[Column] = &[
    text_column("name"),
    text_column("host"),
    int4("port"),
    text_column("database"),
    text_column("force_user"),
    int4("pool_size"),
    int4("min_pool_size"),
    int4("reserve_pool_size"),
    int4("server_lifetime"),
    text_column("pool_mode"),
    text_column("load_balance_hosts"),
    int4("max_connections"),
    int4("current_connections"),
    int4("max_client_connections"),
    int4("current_client_connections"),
    int4("paused"),
    int4("disabled"),
    text_column("server"),
    int4("guaranteed_connections"),
    int4("weight"),
    int4("giving_back"),
];

/// How many of the columns of DATABASES PgBouncer has.
pub(super) const PGBOUNCERS_DATABASES: usize = 17;

/// The two sizes are texts, as PgBouncer sends them: empty for a user without its own.
pub(super) const USERS: &[Column] = &[
    text_column("name"),
    text_column("pool_size"),
    text_column("reserve_pool_size"),
    text_column("pool_mode"),
    int4("max_user_connections"),
    int4("current_connections"),
    int4("max_user_client_connections"),
    int4("current_client_connections"),
];

/// The user of the console's pool and database.
const CONSOLE_USER: &str = "pgbouncer";

/// PgBouncer's size of the console's pool.
const CONSOLE_POOL_SIZE: u32 = 2;

/// One row for each pool, by database and user, with the console's.
pub(super) fn pools(snapshot: &Snapshot<'_>) -> Vec<Row> {
    let mut console = PoolRecord::new(CONSOLE_DATABASE, CONSOLE_USER, PoolMode::Statement);
    console.cl_active = snapshot.report.console_clients;
    // The console needs no server.
    console.health.state = Health::Healthy;
    let mut all: Vec<&PoolRecord> = snapshot.report.pools.iter().collect();
    all.push(&console);
    all.sort_by(|a, b| a.key().cmp(&b.key()));
    all.into_iter().map(|of| pool(of, snapshot)).collect()
}

fn pool(of: &PoolRecord, snapshot: &Snapshot<'_>) -> Row {
    let maxwait = of.maxwait.micros();
    vec![
        text(&of.database),
        text(&of.user),
        text(of.cl_active),
        text(of.cl_waiting),
        text(of.cl_active_cancel_req),
        text(of.cl_waiting_cancel_req),
        text(of.sv_active),
        text(of.sv_active_cancel),
        text(of.sv_being_canceled),
        text(of.sv_idle),
        text(of.sv_used),
        text(of.sv_tested),
        text(of.sv_login),
        text(maxwait / 1_000_000),
        text(maxwait % 1_000_000),
        text(of.mode),
        snapshot.config.pool(&of.database).and_then(|pool| balance(&pool)),
        text(of.health.state),
        text(timestamp(of.health.since)).filter(|since| !since.is_empty()),
        text(of.health.clients()),
        of.health.reason_now(),
    ]
}

/// One row for each database, by name: configured ones, automatic ones in use, and the console's.
pub(super) fn databases(snapshot: &Snapshot<'_>) -> Vec<Row> {
    let used = in_use(snapshot);
    let row =
        |name: &str, pool: &PoolConfig| database(name, pool, used.get(name).copied().unwrap_or_default(), snapshot);
    let mut rows: BTreeMap<&str, Row> =
        snapshot.config.pools.iter().map(|(name, pool)| (name.as_str(), row(name, pool))).collect();
    for name in used.keys().filter(|name| snapshot.config.is_on_demand(name)) {
        rows.extend(snapshot.config.pool(name).map(|pool| (*name, row(name, &pool))));
    }
    rows.insert(CONSOLE_DATABASE, console_database(snapshot));
    rows.into_values().collect()
}

/// The sums over the pools of one database.
#[derive(Clone, Copy, Default)]
struct InUse {
    servers: u32,
    clients: u32,
}

fn in_use<'a>(snapshot: &Snapshot<'a>) -> BTreeMap<&'a str, InUse> {
    let mut used: BTreeMap<&str, InUse> = BTreeMap::new();
    for pool in &snapshot.report.pools {
        let database = used.entry(&pool.database).or_default();
        database.servers += pool.servers();
        database.clients += pool.clients();
    }
    used
}

/// The balancing over several servers; NULL for one server.
fn balance(pool: &PoolConfig) -> Option<String> {
    if pool.targets.len() > 1 { text(pool.balance) } else { None }
}

/// The mode is NULL for a database without its own, as in PgBouncer.
fn database(name: &str, pool: &PoolConfig, used: InUse, snapshot: &Snapshot<'_>) -> Row {
    let limits = &pool.limits;
    vec![
        text(name),
        text(pool.targets.iter().map(|target| target.host.to_string()).collect::<Vec<_>>().join(",")),
        text(pool.target().port),
        text(&pool.database),
        pool.user.clone(),
        text(limits.size),
        text(limits.min_size),
        text(limits.reserve_size),
        seconds(limits.server_lifetime),
        if pool.policy.mode == snapshot.config.policy.mode { None } else { text(pool.policy.mode) },
        balance(pool),
        text(limits.max_db_connections),
        text(used.servers),
        text(limits.max_db_client_connections),
        text(used.clients),
        flag(snapshot.report.paused.contains(name)),
        flag(snapshot.report.disabled.contains(name)),
        pool.share.server.as_deref().map(str::to_owned),
        text(pool.share.guaranteed),
        text(pool.share.weight),
        text(snapshot.report.giving_back.get(name).copied().unwrap_or(0)),
    ]
}

fn console_database(snapshot: &Snapshot<'_>) -> Row {
    vec![
        text(CONSOLE_DATABASE),
        None,
        text(snapshot.config.listen.port),
        text(CONSOLE_DATABASE),
        text(CONSOLE_USER),
        text(CONSOLE_POOL_SIZE),
        text(0),
        text(0),
        seconds(snapshot.config.limits.server_lifetime),
        text(PoolMode::Statement),
        None,
        text(snapshot.config.limits.max_db_connections),
        text(0),
        text(snapshot.config.console_clients()),
        text(snapshot.report.console_clients),
        flag(false),
        flag(false),
        None,
        text(0),
        text(1),
        text(0),
    ]
}

/// One row for each user that may log in here, or that Weir uses on servers.
pub(super) fn users(snapshot: &Snapshot<'_>) -> Vec<Row> {
    let servers = snapshot.report.servers_by_user();
    let config = snapshot.config;
    let size = |size: Option<u32>| text(size.map(|size| format!("{size:9}")).unwrap_or_default());
    let row = |name: &str| {
        let rules = config.users.get(name).cloned().unwrap_or_default();
        vec![
            text(name),
            size(rules.pool_size),
            size(rules.reserve_size),
            rules.mode.map(|mode| mode.to_string()),
            text(config.user_connections(name)),
            text(servers.get(name).copied().unwrap_or(0)),
            text(config.user_clients(name)),
            text(snapshot.report.clients_of(name).clients),
        ]
    };
    user_names(snapshot).into_iter().map(row).collect()
}

/// The names of [`users`], sorted.
pub(super) fn user_names<'a>(snapshot: &Snapshot<'a>) -> BTreeSet<&'a str> {
    let config = snapshot.config;
    let listed = config.auth.users.iter().map(|(name, _)| name);
    let forced = config.pools.values().filter_map(|pool| pool.user.as_deref());
    let running = snapshot.report.pools.iter().map(|pool| pool.user.as_str());
    let ruled = config.users.keys().map(String::as_str);
    listed.chain(forced).chain(running).chain(ruled).chain([CONSOLE_USER]).collect()
}

/// Whole seconds, the unit of PgBouncer's settings.
fn seconds(span: Span) -> Option<String> {
    text(span.micros() / 1_000_000)
}
