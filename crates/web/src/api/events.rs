//! `GET /api/v1/events`: the figures of pools, once a second, as long as the client reads them.

use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use serde::Deserialize;

use super::page::page_limit;
use crate::error::ApiError;
use crate::watch::{Selection, Watch};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventsQuery {
    pool: Option<String>,
    limit: Option<usize>,
}

/// `GET /api/v1/events`.
pub(crate) async fn events(
    State(watch): State<Watch>,
    wanted: Result<Query<EventsQuery>, QueryRejection>,
) -> Result<impl IntoResponse, ApiError> {
    let Query(wanted) = wanted?;
    let limit = page_limit(wanted.limit)?;
    let events = watch.listen(wanted.pool.map_or(Selection::Busiest(limit), Selection::One))?;
    Ok(([(CONTENT_TYPE, "text/event-stream")], Body::new(events)))
}
