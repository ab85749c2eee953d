//! `GET /api/v1/incidents`: why pools are slow now; and the signals for backends that hold them up.

use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use weir_admin::Signal;

use crate::ask::Workers;
use crate::error::ApiError;
use crate::incident::{Incident, Key, current};
use crate::looks::Looks;

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
    let wanted = |name: &str| pool.as_deref().is_none_or(|pool| pool == name);
    current(&workers, &looks, &report, &config, wanted).await.map(|incidents| Json(All { incidents }))
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
