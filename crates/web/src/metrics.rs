//! `/metrics`, for Prometheus and other readers of OpenMetrics: the format of an answer is the client's choice.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::response::IntoResponse;
use weir_http::ApiError;
use weir_monitor::{AlertWatch, ExportCounter, LastFigures, MetricsFormat, Workers};

/// Answers a scrape.
pub(crate) async fn metrics(
    State(workers): State<Workers>,
    State(last): State<LastFigures>,
    State(version): State<&'static str>,
    State(exports): State<ExportCounter>,
    State(alerts): State<AlertWatch>,
    headers: HeaderMap,
) -> Result<impl IntoResponse, ApiError> {
    let accepts = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let format = MetricsFormat::wanted(accepts);
    let text = last.scrape(&workers, version, &exports, &alerts, format).await?;
    Ok(([(CONTENT_TYPE, format.content_type())], text))
}
