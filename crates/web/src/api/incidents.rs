//! `GET /api/v1/incidents`: why pools are slow now; and the signals for backends that hold them up.
//!
//! Reads from the workers only what the question needs, and asks the servers of the pools that are worst.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use weir_admin::{Connections, Cursor, Health, Report, Signal, SocketRecord};
use weir_config::Config;

use crate::ask::Workers;
use crate::clock;
use crate::error::ApiError;
use crate::incident::{Incident, Key, LONG, PoolNow, incident};
use crate::looks::Looks;

/// Worker pages that are read of each kind of connection.
const PAGES: usize = 64;
/// The most pools whose servers are queried for one answer.
const POOLS: usize = 8;

#[derive(Serialize)]
pub(crate) struct All {
    incidents: Vec<Incident>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct IncidentsQuery {
    pool: Option<String>,
}

/// `GET /api/v1/incidents`.
pub(crate) async fn list(
    State(workers): State<Workers>,
    State(looks): State<Looks>,
    wanted: Result<Query<IncidentsQuery>, QueryRejection>,
) -> Result<Json<All>, ApiError> {
    let Query(IncidentsQuery { pool }) = wanted?;
    let (report, config) = workers.report().await?;
    current(&workers, &looks, &report, &config, pool.as_deref()).await.map(|incidents| Json(All { incidents }))
}

/// The incidents of all pools, or of one; the longest first.
pub(super) async fn current(
    workers: &Workers,
    looks: &Looks,
    report: &Report,
    config: &Config,
    only: Option<&str>,
) -> Result<Vec<Incident>, ApiError> {
    let mut pools = suspects(workers, report, config, only).await?;
    if pools.is_empty() {
        return Ok(Vec::new());
    }
    read(workers, Connections::Clients, |client| {
        if let Some(pool) = pools.get_mut(&client.database)
            && (client.state == "waiting" || client.link.is_some())
        {
            pool.clients.push(client);
        }
    })
    .await?;
    let mut pools: Vec<PoolNow> = pools.into_values().collect();
    pools.sort_by(|a, b| b.oldest_wait().total_cmp(&a.oldest_wait()));
    let mut asked = JoinSet::new();
    for (number, pool) in pools.into_iter().enumerate() {
        let looks = looks.clone();
        asked.spawn(async move {
            // A server that is down has nothing to show, and would be waited for.
            let looks = (number < POOLS && pool.down.is_none()).then_some(looks);
            let look = if let Some(looks) = looks { Some(looks.look(&pool.name).await) } else { None };
            incident(&pool, look.as_ref())
        });
    }
    let mut found: Vec<Incident> = asked.join_all().await.into_iter().flatten().collect();
    found.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    Ok(found)
}

/// The pools in which something lasts long, with their servers in use.
async fn suspects(
    workers: &Workers,
    report: &Report,
    config: &Config,
    only: Option<&str>,
) -> Result<BTreeMap<String, PoolNow>, ApiError> {
    let (mut pools, mut waits) = (BTreeMap::new(), BTreeMap::<&str, f64>::new());
    for record in report.pools.iter().filter(|record| only.is_none_or(|only| only == record.database)) {
        let Some(pool) = config.pools.get(&record.database).or(config.fallback.as_ref()) else { continue };
        if record.cl_waiting + record.sv_active > 0 && !report.paused.contains(&record.database) {
            let wait = waits.entry(&record.database).or_default();
            *wait = wait.max(record.maxwait.micros() as f64 / 1e6);
            pools.entry(record.database.clone()).or_insert_with(|| PoolNow {
                name: record.database.clone(),
                size: pool.limits.size,
                mode: pool.mode,
                ..PoolNow::default()
            });
        }
    }
    if !pools.is_empty() {
        let add = |server: SocketRecord| {
            if let Some(pool) = pools.get_mut(&server.database)
                && server.link.is_some()
            {
                pool.servers.push(server);
            }
        };
        read(workers, Connections::Servers, add).await?;
    }
    for (name, pool) in &mut pools {
        let of_pool = report.pools.iter().filter(|record| record.database == *name);
        let worst = of_pool.max_by_key(|record| record.health.state).map(|record| &record.health);
        pool.down = worst.filter(|health| is_down(health.state, pool.servers.is_empty())).cloned();
    }
    let at = clock::now().as_micros() as u64;
    pools.values_mut().for_each(|pool| pool.at = at);
    pools.retain(|name, pool| pool.is_suspect() || waits.get(name.as_str()).is_some_and(|wait| *wait >= LONG));
    Ok(pools)
}

/// Whether a state of health is the cause by itself. A pool whose last login failed may have servers that work: `none` of them is
/// in use.
fn is_down(state: Health, none: bool) -> bool {
    state == Health::NotAnswering || (none && matches!(state, Health::CannotConnect | Health::LoginRejected))
}

/// Reads connections of all workers, up to a bound.
async fn read(workers: &Workers, of: Connections, mut take: impl FnMut(SocketRecord)) -> Result<(), ApiError> {
    let mut from = Cursor::START;
    for _ in 0..PAGES {
        let (records, next) = workers.connections(of, from).await?;
        records.into_iter().for_each(&mut take);
        match next {
            Some(next) => from = next,
            None => break,
        }
    }
    Ok(())
}

type Backend = Result<Path<(String, u32)>, PathRejection>;
type Body = Result<Json<Key>, JsonRejection>;

/// `POST /api/v1/pools/{name}/backends/{process_id}/cancel`.
pub(crate) async fn cancel(looks: State<Looks>, backend: Backend, body: Body) -> Result<StatusCode, ApiError> {
    signal(looks, backend, body, Signal::Cancel).await
}

/// `POST /api/v1/pools/{name}/backends/{process_id}/terminate`.
pub(crate) async fn terminate(looks: State<Looks>, backend: Backend, body: Body) -> Result<StatusCode, ApiError> {
    signal(looks, backend, body, Signal::Terminate).await
}

async fn signal(
    State(looks): State<Looks>,
    backend: Backend,
    body: Body,
    signal: Signal,
) -> Result<StatusCode, ApiError> {
    let Path((pool, process_id)) = backend?;
    let Json(key) = body.map_err(ApiError::BadBody)?;
    looks.signal(pool, key.of(process_id), signal).await.map(|()| StatusCode::NO_CONTENT)
}
