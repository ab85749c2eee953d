//! What the backends of a pool's server do, and signals for them.
//!
//! Owns the queries. Each has limits on time, rows and bytes; texts of queries leave this file as fingerprints only.

use weir_admin::{Activity, Backend, BackendKey, BackendSignal, ProbeError};
use weir_config::{Config, PoolConfig};
use weir_pgclient::{Answer, Connection};
use weir_pgwire::sql;

use crate::look::Look;
use crate::looks::Looks;
use crate::permit::Permit;

/// The most backends that are read.
const ROWS: usize = 500;
/// The longest fingerprint, in bytes.
const FINGERPRINT: usize = 300;
/// The name by which a connection for it is recognised at the server.
const APPLICATION: &str = "weir incident view";

/// Who waits for whom, from the lock table, which every user may read; then what each of them does, of which a user
/// sees the own role's, unless it is a member of `pg_read_all_stats`. Besides these, the backends of `database`.
fn activity_query(database: &str) -> String {
    let database = literal(database);
    format!(
        "with blocked as (select pid, pg_catalog.pg_blocking_pids(pid) as holders from \
         (select distinct pid from pg_catalog.pg_locks where not granted and pid is not null limit {ROWS}) as waits), \
         involved as (select pid from blocked union select unnest(holders) from blocked) \
         select a.pid, a.datname, a.usename, a.application_name, pg_catalog.host(a.client_addr) as address, a.state, \
         a.wait_event_type, a.wait_event, pg_catalog.array_to_string(b.holders, ' ') as holders, \
         extract(epoch from clock_timestamp() - a.xact_start) as transaction_seconds, \
         extract(epoch from clock_timestamp() - a.state_change) as state_seconds, \
         (extract(epoch from a.backend_start) * 1000000)::bigint as started, \
         (extract(epoch from a.xact_start) * 1000000)::bigint as transaction, \
         (extract(epoch from a.query_start) * 1000000)::bigint as query_began, \
         a.backend_start is null and a.usename is not null as hidden, pg_catalog.left(a.query, 4096) as query \
         from pg_catalog.pg_stat_activity as a left join blocked as b on b.pid = a.pid \
         where a.pid <> pg_catalog.pg_backend_pid() and (a.pid in (select pid from involved) \
         or a.datname = {database} and coalesce(a.state, '') <> 'idle') \
         order by a.pid in (select pid from involved) desc, a.xact_start nulls last limit {}",
        ROWS + 1
    )
}

/// Reads what the backends of a pool's server do.
pub(crate) fn read(
    looks: &Looks,
    config: &Config,
    pool: &PoolConfig,
    permit: impl FnOnce() -> Result<Option<Permit>, ProbeError>,
) -> Result<Activity, ProbeError> {
    let text = activity_query(&pool.database);
    let read = |look: &mut Look| look.query(&text).map(|answer| (answer, look.user.clone()));
    let (answer, user) = looks.ask(config, pool, APPLICATION, permit, read)?;
    let mut backends: Vec<Backend> = (0..answer.rows.len()).filter_map(|row| backend(&answer, row)).collect();
    let cut = backends.len() > ROWS;
    backends.truncate(ROWS);
    let hidden = (0..answer.rows.len()).any(|row| answer.get(row, "hidden") == Some("t"));
    Ok(Activity { backends, hidden, cut, user: user.into() })
}

/// Sends a signal to a backend that still does what the key says.
pub(crate) fn signal(
    looks: &Looks,
    config: &Config,
    pool: &PoolConfig,
    permit: impl FnOnce() -> Result<Option<Permit>, ProbeError>,
    backend: BackendKey,
    signal: BackendSignal,
) -> Result<bool, ProbeError> {
    let BackendKey { process_id, started: Some(started), transaction, query } = backend else {
        return Err(ProbeError::Hidden);
    };
    let function = match signal {
        BackendSignal::Cancel => "pg_cancel_backend",
        BackendSignal::Terminate => "pg_terminate_backend",
    };
    let same = |column: &str, moment: Option<u64>| match moment {
        Some(moment) => format!("(extract(epoch from {column}) * 1000000)::bigint = {moment}"),
        None => format!("{column} is null"),
    };
    let (began, transacts) = (same("backend_start", Some(started)), same("xact_start", transaction));
    // A query that has ended must not lead to the cancel of the next one.
    let runs = match signal {
        BackendSignal::Cancel => format!("{} and state = 'active'", same("query_start", query)),
        BackendSignal::Terminate => "true".to_owned(),
    };
    // The conditions are evaluated before the function is called.
    let text = format!(
        "with found as materialized (select pid from pg_catalog.pg_stat_activity where pid = {process_id} and {began} \
         and {transacts} and {runs}) select pg_catalog.{function}(pid) from found"
    );
    let send = |look: &mut Look| {
        let text = text.replace(" as materialized", materialized(&look.connection));
        look.connection.value(&text)
    };
    looks.ask(config, pool, APPLICATION, permit, send).map(|value| value.as_deref() == Some("t"))
}

/// A text as a constant of SQL, whatever `standard_conforming_strings` is.
fn literal(text: &str) -> String {
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// PostgreSQL 12 and later merge a WITH into its query unless it is MATERIALIZED; earlier ones never do.
fn materialized(connection: &Connection) -> &'static str {
    let version = connection.parameter("server_version").and_then(|version| {
        version.split(|c: char| !c.is_ascii_digit()).next().and_then(|major| major.parse::<u32>().ok())
    });
    if version.is_some_and(|major| major < 12) { " as" } else { " as materialized" }
}

/// A backend; none if the row is incomplete.
fn backend(answer: &Answer, row: usize) -> Option<Backend> {
    let text = |column: &str| answer.get(row, column).map(str::to_owned);
    let number = |column: &str| answer.get(row, column)?.parse::<u64>().ok();
    let seconds = |column: &str| answer.get(row, column)?.parse::<f64>().ok().map(|seconds| seconds.max(0.0));
    let hidden = answer.get(row, "hidden") == Some("t");
    let key = BackendKey {
        process_id: answer.get(row, "pid")?.parse().ok()?,
        started: number("started"),
        transaction: number("transaction"),
        query: number("query_began"),
    };
    let waits_for = text("wait_event_type").zip(text("wait_event"));
    let statement = answer.get(row, "query").filter(|text| !hidden && !text.is_empty());
    let holders = answer.get(row, "holders").unwrap_or_default();
    Some(Backend {
        key,
        database: text("datname").unwrap_or_default(),
        user: text("usename").unwrap_or_default(),
        application_name: text("application_name").unwrap_or_default(),
        address: text("address"),
        state: text("state"),
        // A client that does not speak is what an idle backend waits for; one that does not read holds a server.
        waits_for: waits_for.filter(|(_, event)| event != "ClientRead").map(|(kind, event)| format!("{kind}: {event}")),
        blocked_by: unique(holders.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()),
        transaction_seconds: seconds("transaction_seconds"),
        state_seconds: seconds("state_seconds"),
        statement: statement.map(|text| sql::fingerprint(text.as_bytes(), FINGERPRINT)),
    })
}

/// A backend is named once for each of its workers that holds the lock.
fn unique(mut pids: Vec<u32>) -> Vec<u32> {
    pids.sort_unstable();
    pids.dedup();
    pids
}
