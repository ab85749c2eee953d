//! `GET /api/v1/events`: the figures of pools, once a second, as long as the client reads them.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use hyper::body::Frame;
use serde::Deserialize;

use weir_admin::LogQuery;
use weir_http::ApiError;
use weir_monitor::{Events, Selection, Watch};

use super::log::rank;
use super::page::page_limit;

/// Lines of the log in one event: of more, the last ones.
const LINES_A_SECOND: usize = 200;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventsQuery {
    pool: Option<String>,
    limit: Option<usize>,
    /// The least level of the log's lines that are sent too, with further conditions, and the last line that is known.
    log: Option<String>,
    log_pool: Option<String>,
    log_client: Option<u64>,
    log_search: Option<String>,
    log_after: Option<u64>,
}

impl EventsQuery {
    /// The wanted lines of the log.
    fn log(&self) -> Result<Option<LogQuery>, ApiError> {
        let Some(level) = &self.log else { return Ok(None) };
        Ok(Some(LogQuery {
            rank: rank(Some(level))?,
            pool: self.log_pool.clone(),
            client: self.log_client,
            search: self.log_search.clone().unwrap_or_default(),
            after: self.log_after.unwrap_or(0),
            before: None,
            most: LINES_A_SECOND,
        }))
    }
}

/// `GET /api/v1/events`.
pub(crate) async fn events(
    State(watch): State<Watch>,
    wanted: Result<Query<EventsQuery>, QueryRejection>,
) -> Result<impl IntoResponse, ApiError> {
    let Query(wanted) = wanted?;
    let (limit, log) = (page_limit(wanted.limit)?, wanted.log()?);
    let events = watch.listen(wanted.pool.map_or(Selection::Busiest(limit), Selection::One), log)?;
    Ok(([(CONTENT_TYPE, "text/event-stream")], Body::new(EventBody(events))))
}

/// The body of a stream.
struct EventBody(Events);

impl HttpBody for EventBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_next(cx).map(|text| text.map(|text| Ok(Frame::data(Bytes::from_owner(text)))))
    }
}
