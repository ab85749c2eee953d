//! `GET /api/v1/incidents`: why pools are slow now; and the signals for backends that hold them up.

use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use weir_admin::BackendSignal;
use weir_http::ApiError;
use weir_monitor::{ActivityProbe, Incident, PastIncident, ProcessKey, Watch, Workers, current};

use super::page::page_limit;

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
    State(activity_probe): State<ActivityProbe>,
    wanted: Result<Query<IncidentsQuery>, QueryRejection>,
) -> Result<Json<All>, ApiError> {
    let Query(IncidentsQuery { pool }) = wanted?;
    let (report, config) = workers.report().await?;
    let wanted = |name: &str| pool.as_deref().is_none_or(|pool| pool == name);
    let incidents = current(&workers, &activity_probe, &report, &config, wanted).await?;
    Ok(Json(All { incidents }))
}

/// How many past incidents are listed, unless fewer are wanted.
const LISTED: usize = 200;

#[derive(Serialize)]
pub(crate) struct PastIncidents {
    incidents: Vec<PastIncident>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PastQuery {
    pool: Option<String>,
    limit: Option<usize>,
}

/// `GET /api/v1/incidents/past`.
pub(crate) async fn past(
    State(watch): State<Watch>,
    wanted: Result<Query<PastQuery>, QueryRejection>,
) -> Result<Json<PastIncidents>, ApiError> {
    let Query(PastQuery { pool, limit }) = wanted?;
    let most = page_limit(limit.or(Some(LISTED)))?;
    Ok(Json(PastIncidents { incidents: watch.incidents().newest(pool.as_deref(), most) }))
}

type Backend = Result<Path<(String, u32)>, PathRejection>;
type Body = Result<Json<ProcessKey>, JsonRejection>;

/// `POST /api/v1/pools/{name}/backends/{process_id}/cancel`.
pub(crate) async fn cancel(
    activity_probe: State<ActivityProbe>,
    backend: Backend,
    body: Body,
) -> Result<StatusCode, ApiError> {
    signal(activity_probe, backend, body, BackendSignal::Cancel).await
}

/// `POST /api/v1/pools/{name}/backends/{process_id}/terminate`.
pub(crate) async fn terminate(
    activity_probe: State<ActivityProbe>,
    backend: Backend,
    body: Body,
) -> Result<StatusCode, ApiError> {
    signal(activity_probe, backend, body, BackendSignal::Terminate).await
}

async fn signal(
    State(activity_probe): State<ActivityProbe>,
    backend: Backend,
    body: Body,
    signal: BackendSignal,
) -> Result<StatusCode, ApiError> {
    let Path((pool, process_id)) = backend?;
    let Json(key) = body.map_err(ApiError::BadBody)?;
    activity_probe.signal(pool, key.of(process_id), signal).await?;
    Ok(StatusCode::NO_CONTENT)
}
