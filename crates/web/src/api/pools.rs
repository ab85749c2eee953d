//! Pools: their settings, their state, and commands for them.
//!
//! A pool here is one of the configuration, by the name that clients give as their database; it has servers for each
//! user that has connected. An automatic database has no entry in the configuration.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use weir_admin::{
    Command, DatabaseStats, LostState, PatroniRecord, PoolRecord, PrimaryRecord, PrimaryState, Refusals, Report, Stats,
};
use weir_config::{Config, PoolConfig};
use weir_http::ApiError;
use weir_monitor::{Affected, Clients, HealthView, Servers, Workers, seconds, seconds_of};

use super::page::{PageParams, PageRequest};
use super::params::{Name, within};

/// How long the handler waits for a command that waits for servers, by default and at most, in seconds.
const DEFAULT_TIMEOUT: u64 = 10;
const MAX_TIMEOUT: u64 = 60;

/// How long after a pool's `switch_timeout` a SWITCH has been answered for certain, in seconds.
const SWITCH_MARGIN: u64 = 5;

#[derive(Serialize)]
pub(crate) struct Page {
    pools: Vec<Pool>,
    /// The value of `after` for the next page; none on the last one.
    next: Option<String>,
}

#[derive(Serialize)]
pub(crate) struct Pool {
    name: String,
    /// Whether the pool is in the configuration; automatic databases are not.
    configured: bool,
    hosts: Vec<String>,
    database: String,
    user: Option<String>,
    mode: String,
    on_dirty: String,
    size: u32,
    min_size: u32,
    reserve_size: u32,
    paused: bool,
    disabled: bool,
    /// Of its users' parts the worst.
    health: HealthView,
    clients: Clients,
    servers: Servers,
    /// The clients that keep their servers between transactions.
    pinned: Pins,
    longest_wait_seconds: f64,
    totals: Totals,
    refusals: BTreeMap<&'static str, u64>,
    /// Session state that clients lost at the end of a transaction, by kind.
    lost_state: BTreeMap<&'static str, u64>,
    /// Where it writes, if it has looked for that.
    primary: Option<Primary>,
    /// What Patroni has said last of each host, if it is asked.
    patroni: Vec<PatroniAnswer>,
    users: Vec<PoolUser>,
}

/// Where a pool with `target_session_attrs` writes, and how it moved there.
#[derive(Serialize)]
struct Primary {
    host: Option<String>,
    state: &'static str,
    moves_to: Option<String>,
    moved_from: Option<String>,
    /// Seconds since 1970.
    moved_at: Option<f64>,
    clients_waited: u32,
    longest_wait_seconds: f64,
    moves: u64,
}

impl Primary {
    fn of(record: &PrimaryRecord) -> Primary {
        Primary {
            host: record.host.clone(),
            state: record.state.name(),
            moves_to: if let PrimaryState::Moving(to) = &record.state { Some(to.clone()) } else { None },
            moved_from: record.from.clone(),
            moved_at: record.moved_at.map(seconds_of),
            clients_waited: record.waits.clients,
            longest_wait_seconds: seconds(record.waits.longest),
            moves: record.moves,
        }
    }
}

/// What Patroni has said last of one host.
#[derive(Serialize)]
struct PatroniAnswer {
    host: String,
    url: String,
    status: Option<u16>,
    error: Option<String>,
    /// Seconds since 1970.
    answered_at: Option<f64>,
}

impl PatroniAnswer {
    fn of(record: &PatroniRecord) -> PatroniAnswer {
        PatroniAnswer {
            host: record.host.clone(),
            url: record.url.clone(),
            status: record.answer.as_ref().and_then(|answer| answer.as_ref().ok().copied()),
            error: record.answer.as_ref().and_then(|answer| answer.as_ref().err().cloned()),
            answered_at: record.answered_at.map(seconds_of),
        }
    }
}

/// Clients that keep their servers for what they have left there.
#[derive(Serialize)]
struct Pins {
    clients: u32,
    /// By kind of state: a client may count for several.
    by: BTreeMap<&'static str, u32>,
    applications: Vec<Affected>,
}

/// A user's part of a pool.
#[derive(Serialize)]
struct PoolUser {
    user: String,
    health: HealthView,
    clients: Clients,
    servers: Servers,
    longest_wait_seconds: f64,
}

/// Counters since the start.
#[derive(Serialize)]
struct Totals {
    transactions: u64,
    queries: u64,
    received_bytes: u64,
    sent_bytes: u64,
    transaction_seconds: f64,
    query_seconds: f64,
    wait_seconds: f64,
}

impl Totals {
    fn of(stats: &Stats) -> Totals {
        Totals {
            transactions: stats.xact_count,
            queries: stats.query_count,
            received_bytes: stats.received,
            sent_bytes: stats.sent,
            transaction_seconds: seconds_of(stats.xact_time),
            query_seconds: seconds_of(stats.query_time),
            wait_seconds: seconds_of(stats.wait_time),
        }
    }
}

/// A report, by the names of pools.
struct Index<'a> {
    config: &'a Config,
    report: &'a Report,
    records: BTreeMap<&'a str, Vec<&'a PoolRecord>>,
    stats: BTreeMap<&'a str, &'a DatabaseStats>,
    refusals: BTreeMap<&'a str, Refusals>,
}

impl<'a> Index<'a> {
    fn new(report: &'a Report, config: &'a Config) -> Index<'a> {
        let mut refusals: BTreeMap<&str, Refusals> = BTreeMap::new();
        for record in &report.refusals {
            let Some((database, _)) = &record.pool else { continue };
            refusals.entry(database).or_default().add(&record.refusals);
        }
        let stats = report.stats.iter().map(|stats| (stats.database.as_str(), stats)).collect();
        Index { config, report, records: report.by_database(), stats, refusals }
    }

    /// All names, sorted.
    fn names(&self) -> impl Iterator<Item = &'a str> {
        let mut names: Vec<&str> = self.config.pools.keys().map(String::as_str).collect();
        names.extend(self.records.keys());
        names.sort_unstable();
        names.dedup();
        names.into_iter()
    }

    fn pool(&self, name: &str) -> Option<Pool> {
        let records = self.records.get(name).map_or(&[][..], Vec::as_slice);
        let own = self.config.pools.get(name);
        if own.is_none() && records.is_empty() {
            return None;
        }
        let pattern = own.or(self.config.fallback.as_ref())?;
        let mut all = PoolRecord::new(name, "", pattern.policy.mode);
        records.iter().for_each(|record| all.add(record));
        let unused = self.report.unused.get(name).unwrap_or(&all.health);
        Some(Pool {
            name: name.to_owned(),
            configured: own.is_some(),
            hosts: pattern.targets.iter().map(ToString::to_string).collect(),
            database: if own.is_some() { pattern.database.clone() } else { name.to_owned() },
            user: pattern.user.clone(),
            mode: pattern.policy.mode.to_string(),
            on_dirty: pattern.policy.on_dirty.to_string(),
            size: pattern.limits.size,
            min_size: pattern.limits.min_size,
            reserve_size: pattern.limits.reserve_size,
            paused: self.report.paused.contains(name),
            disabled: self.report.disabled.contains(name),
            health: HealthView::from(if records.is_empty() { unused } else { &all.health }),
            clients: Clients::of(&all),
            servers: Servers::of(&all),
            pinned: Pins {
                clients: all.pinned.clients,
                by: all.pinned.named().into_iter().filter(|(_, count)| *count > 0).collect(),
                applications: Affected::most(&all.symptoms.pinned_by),
            },
            longest_wait_seconds: seconds(all.maxwait),
            totals: Totals::of(self.stats.get(name).map_or(&Stats::default(), |stats| &stats.total)),
            refusals: self.refusals.get(name).copied().unwrap_or_default().named().into(),
            lost_state: self
                .stats
                .get(name)
                .map_or(LostState::default(), |stats| stats.counters.lost)
                .named()
                .map(|(kind, count)| (kind, count.lost))
                .collect(),
            primary: self.report.primaries.iter().find(|it| it.database == name).map(Primary::of),
            patroni: self.report.patroni.iter().filter(|it| it.database == name).map(PatroniAnswer::of).collect(),
            users: records.iter().map(|record| PoolUser::of(record)).collect(),
        })
    }
}

impl PoolUser {
    fn of(record: &PoolRecord) -> PoolUser {
        PoolUser {
            user: record.user.clone(),
            health: HealthView::from(&record.health),
            clients: Clients::of(record),
            servers: Servers::of(record),
            longest_wait_seconds: seconds(record.maxwait),
        }
    }
}

/// `GET /api/v1/pools`.
pub(crate) async fn list(State(workers): State<Workers>, asked: PageParams) -> Result<Json<Page>, ApiError> {
    let page_request = PageRequest::of(asked)?;
    let (report, config) = workers.report().await?;
    let index = Index::new(&report, &config);
    let (names, next) = page_request.cut(index.names(), |name| name);
    let pools = names.into_iter().filter_map(|name| index.pool(name)).collect();
    Ok(Json(Page { pools, next }))
}

/// `GET /api/v1/pools/{name}`.
pub(crate) async fn one(State(workers): State<Workers>, Name(name): Name) -> Result<Json<Pool>, ApiError> {
    find(&workers, &name).await.map(Json)
}

/// A pool's current state.
pub(super) async fn find(workers: &Workers, name: &str) -> Result<Pool, ApiError> {
    let (report, config) = workers.report().await?;
    Index::new(&report, &config).pool(name).ok_or_else(|| ApiError::Unknown("pool", name.to_owned()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TimeoutQuery {
    timeout: Option<u64>,
}

type TimeoutParam = Result<Query<TimeoutQuery>, QueryRejection>;
type Done = Result<StatusCode, ApiError>;

const DONE: StatusCode = StatusCode::NO_CONTENT;

/// Runs a command that waits until servers are free, up to the client's timeout.
async fn wait_for(workers: &Workers, command: Command, timeout: TimeoutParam) -> Done {
    let Query(TimeoutQuery { timeout }) = timeout?;
    let seconds = within("timeout", timeout.unwrap_or(DEFAULT_TIMEOUT), MAX_TIMEOUT)?;
    workers.run_within(command, Duration::from_secs(seconds)).await?;
    Ok(DONE)
}

/// `POST /api/v1/pools/{name}/pause`.
pub(crate) async fn pause(State(workers): State<Workers>, Name(name): Name, timeout: TimeoutParam) -> Done {
    wait_for(&workers, Command::Pause(Some(name)), timeout).await
}

/// `POST /api/v1/pools/{name}/resume`.
pub(crate) async fn resume(State(workers): State<Workers>, Name(name): Name) -> Done {
    workers.run(Command::Resume(Some(name))).await?;
    Ok(DONE)
}

/// `POST /api/v1/pools/{name}/reconnect`.
pub(crate) async fn reconnect(State(workers): State<Workers>, Name(name): Name) -> Done {
    workers.run(Command::Reconnect(Some(name))).await?;
    Ok(DONE)
}

/// `POST /api/v1/pools/{name}/retry`.
pub(crate) async fn retry(State(workers): State<Workers>, Name(name): Name) -> Done {
    workers.run(Command::Retry(Some(name))).await?;
    Ok(DONE)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SwitchQuery {
    host: String,
    timeout: Option<u64>,
}

/// `POST /api/v1/pools/{name}/switch`.
pub(crate) async fn switch(
    State(workers): State<Workers>,
    Name(name): Name,
    query: Result<Query<SwitchQuery>, QueryRejection>,
) -> Done {
    let Query(SwitchQuery { host, timeout }) = query?;
    let (_, config) = workers.report().await?;
    let longest = longest_switch(config.pool(&name).as_deref(), timeout)?;
    let command = Command::Switch { database: name, host };
    workers.run_within(command, longest).await?;
    Ok(DONE)
}

/// How long the handler waits for a SWITCH: the pool goes back by itself after its `switch_timeout`, and says why.
fn longest_switch(pool: Option<&PoolConfig>, timeout: Option<u64>) -> Result<Duration, ApiError> {
    let own = pool.map_or(0, |pool| pool.limits.switch_timeout.micros().div_ceil(1_000_000));
    let longest = own.saturating_add(SWITCH_MARGIN);
    within("timeout", timeout.unwrap_or(longest), longest.max(MAX_TIMEOUT)).map(Duration::from_secs)
}

/// `POST /api/v1/pools/{name}/kill`.
pub(crate) async fn kill(State(workers): State<Workers>, Name(name): Name) -> Done {
    workers.run(Command::Kill(Some(name))).await?;
    Ok(DONE)
}

/// `POST /api/v1/pools/{name}/disable`.
pub(crate) async fn disable(State(workers): State<Workers>, Name(name): Name) -> Done {
    workers.run(Command::Disable(name)).await?;
    Ok(DONE)
}

/// `POST /api/v1/pools/{name}/enable`.
pub(crate) async fn enable(State(workers): State<Workers>, Name(name): Name) -> Done {
    workers.run(Command::Enable(name)).await?;
    Ok(DONE)
}

/// `POST /api/v1/pause`.
pub(crate) async fn pause_all(State(workers): State<Workers>, timeout: TimeoutParam) -> Done {
    wait_for(&workers, Command::Pause(None), timeout).await
}

/// `POST /api/v1/resume`.
pub(crate) async fn resume_all(State(workers): State<Workers>) -> Done {
    workers.run(Command::Resume(None)).await?;
    Ok(DONE)
}

/// `POST /api/v1/reconnect`.
pub(crate) async fn reconnect_all(State(workers): State<Workers>) -> Done {
    workers.run(Command::Reconnect(None)).await?;
    Ok(DONE)
}

#[cfg(test)]
mod tests {
    use weir_base::Span;

    use super::*;

    #[test]
    fn a_switch_is_waited_for_until_the_pool_has_gone_back_by_itself() {
        let mut pool = PoolConfig::default();
        for (switch_timeout, asked, waits) in [
            (30, None, Some(35)),
            (600, None, Some(605)),
            (30, Some(3), Some(3)),
            (30, Some(60), Some(60)),
            (30, Some(61), None),
            (600, Some(605), Some(605)),
            (600, Some(606), None),
            (30, Some(0), None),
        ] {
            pool.limits.switch_timeout = Span::from_secs(switch_timeout);
            let longest = longest_switch(Some(&pool), asked).ok();
            assert_eq!(longest, waits.map(Duration::from_secs), "{switch_timeout} s, {asked:?}");
        }
    }
}
