//! Is it alive, and may clients be sent to it: `/healthz` and `/readyz`, for supervisors and balancers.

use axum::extract::State;
use axum::http::StatusCode;
use weir_admin::Serving;

use crate::ask::Workers;

type Answer = (StatusCode, &'static str);

/// Alive: the workers answer.
pub(crate) async fn alive(State(workers): State<Workers>) -> Answer {
    match workers.report().await {
        Ok(_) => (StatusCode::OK, "alive\n"),
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the workers do not answer\n"),
    }
}

/// Ready: clients who come now are let in and served.
pub(crate) async fn ready(State(workers): State<Workers>) -> Answer {
    let no = |why| (StatusCode::SERVICE_UNAVAILABLE, why);
    let Ok((report, _)) = workers.report().await else { return no("the workers do not answer\n") };
    match report.serving {
        _ if report.draining => no("shutting down\n"),
        Serving::Active => (StatusCode::OK, "ready\n"),
        Serving::Paused => no("paused\n"),
        Serving::Suspended => no("suspended\n"),
    }
}
