//! `GET /api/v1/lab` and `/lab/…`: the lab's reports, in a browser.

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use tokio::task::spawn_blocking;
use weir_http::ApiError;
use weir_monitor::MonitorError;

use crate::lab::{Lab, ReportList};

/// A report is a page without scripts that fetches nothing; this policy makes the browser enforce it.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'";

/// The names of a report and of a file.
type Parts = Result<Path<(String, String)>, PathRejection>;

/// `GET /api/v1/lab`.
pub(crate) async fn list(State(lab): State<Lab>) -> Result<Json<ReportList>, ApiError> {
    spawn_blocking(move || lab.list()).await.map(Json).map_err(|_| MonitorError::Ending.into())
}

/// `GET /lab/{report}/{file}`.
pub(crate) async fn file(State(lab): State<Lab>, parts: Parts) -> Result<Response, ApiError> {
    let Path((report, file)) = parts?;
    page(lab, report, file).await
}

/// `GET /lab/{report}/raw/{file}`.
pub(crate) async fn raw(State(lab): State<Lab>, parts: Parts) -> Result<Response, ApiError> {
    let Path((report, file)) = parts?;
    page(lab, report, format!("raw/{file}")).await
}

async fn page(lab: Lab, report: String, file: String) -> Result<Response, ApiError> {
    let missing = ApiError::Unknown("report", format!("{report}/{file}"));
    let page = spawn_blocking(move || lab.page(&report, &file)).await.map_err(|_| MonitorError::Ending)?;
    let page = page.ok_or(missing)?;
    Ok(([(CONTENT_TYPE, page.kind), (CONTENT_SECURITY_POLICY, POLICY)], page.bytes).into_response())
}
