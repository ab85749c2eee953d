//! `GET /api/v1/log`: the last lines of the log, by level, pool, client and text.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use serde::{Deserialize, Serialize};
use weir_admin::{LOG_LEVELS, LogQuery};
use weir_http::ApiError;
use weir_monitor::{Line, Workers};

use super::page::page_limit;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    level: Option<String>,
    pool: Option<String>,
    client: Option<u64>,
    search: Option<String>,
    after: Option<u64>,
    before: Option<u64>,
    limit: Option<usize>,
}

#[derive(Serialize)]
pub(crate) struct Page {
    /// The oldest first.
    lines: Vec<Line>,
    last: u64,
    oldest: u64,
}

/// `GET /api/v1/log`.
pub(crate) async fn list(
    State(workers): State<Workers>,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Result<Json<Page>, ApiError> {
    let Query(Wanted { level, pool, client, search, after, before, limit }) = wanted?;
    let query = LogQuery {
        rank: rank(level.as_deref())?,
        pool,
        client,
        search: search.unwrap_or_default(),
        after: after.unwrap_or(0),
        before,
        most: page_limit(limit)?,
    };
    let page = workers.log_lines(&query);
    Ok(Json(Page { lines: page.lines.into_iter().map(Line::from).collect(), last: page.last, oldest: page.oldest }))
}

/// The rank of a level by its name; without one, of all lines.
pub(super) fn rank(level: Option<&str>) -> Result<u8, ApiError> {
    let Some(level) = level else { return Ok(0) };
    let rank = LOG_LEVELS.iter().position(|name| *name == level);
    rank.map(|rank| rank as u8).ok_or_else(|| ApiError::Bad(format!("level must be one of {}", LOG_LEVELS.join(", "))))
}
