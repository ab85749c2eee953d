//! Creating, changing, deleting and testing pools: a body's keys are those of a pool's section in the file.

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::StatusCode;
use serde::Serialize;
use serde_json::{Map, Value, json};
use weir_config::{Edit, EntryKind, Operation};
use weir_http::{ApiError, Reader};
use weir_monitor::Workers;

use super::body::{self, Body, PersistedBody};
use super::params::{Changer, Name};
use super::pools::{self, Pool};
use crate::pool_tests::PoolTests;

/// The answer to a change.
#[derive(Serialize)]
pub(crate) struct ChangedPool {
    #[serde(skip_serializing_if = "Option::is_none")]
    pool: Option<Pool>,
    #[serde(flatten)]
    outcome: PersistedBody,
}

impl ChangedPool {
    fn of(kept: PersistedBody, pool: Option<Pool>) -> Json<ChangedPool> {
        Json(ChangedPool { pool, outcome: kept })
    }
}

/// `POST /api/v1/pools`.
pub(crate) async fn make(changer: Changer, body: Body) -> Result<(StatusCode, Json<ChangedPool>), ApiError> {
    let (pool, keys) = body::named(EntryKind::Pool, body)?;
    let kept = changer.change(Edit::Pool(pool.clone(), Operation::Create(keys))).await?;
    Ok((StatusCode::CREATED, ChangedPool::of(kept, shown(&changer.workers, &pool).await?)))
}

/// `PATCH /api/v1/pools/{name}`.
pub(crate) async fn alter(changer: Changer, Name(pool): Name, body: Body) -> Result<Json<ChangedPool>, ApiError> {
    let Json(body) = body.map_err(ApiError::BadBody)?;
    let kept = changer.change(Edit::Pool(pool.clone(), Operation::Alter(body::keys(EntryKind::Pool, body)?))).await?;
    Ok(ChangedPool::of(kept, shown(&changer.workers, &pool).await?))
}

/// `DELETE /api/v1/pools/{name}`.
pub(crate) async fn delete(changer: Changer, Name(pool): Name) -> Result<Json<ChangedPool>, ApiError> {
    let kept = changer.change(Edit::Pool(pool, Operation::Drop)).await?;
    Ok(ChangedPool::of(kept, None))
}

/// `GET /api/v1/pools/{name}/config`.
pub(crate) async fn config(
    State(workers): State<Workers>,
    Extension(reader): Extension<Reader>,
    Name(name): Name,
) -> Result<Json<Map<String, Value>>, ApiError> {
    let (_, config) = workers.report().await?;
    let written = weir_config::pool_keys(&config, &name).ok_or(ApiError::Unknown("pool", name))?;
    Ok(Json(body::written(written, reader)))
}

/// The pool by its name; none for the catch-all pool, which the list does not show.
async fn shown(workers: &Workers, name: &str) -> Result<Option<Pool>, ApiError> {
    match pools::find(workers, name).await {
        Err(ApiError::Unknown(..)) => Ok(None),
        found => found.map(Some),
    }
}

/// `POST /api/v1/pools/test`.
pub(crate) async fn test(State(pool_tests): State<PoolTests>, body: Body) -> Result<Json<Value>, ApiError> {
    let (pool, keys) = body::named(EntryKind::Pool, body)?;
    Ok(Json(match pool_tests.login(pool, keys).await? {
        Ok(server) => json!({
            "ok": true,
            "encrypted": server.encrypted,
            "version": server.version,
            "milliseconds": server.milliseconds,
            "max_connections": server.max_connections,
            "superuser_reserved_connections": server.superuser_reserved_connections,
            "server": server.server,
            "notes": server.notes,
            "connections": server.connections,
        }),
        Err(error) => json!({ "ok": false, "error": error }),
    }))
}
