//! `/healthz` and `/readyz`, for supervisors and load balancers: whether the process is alive, and accepts clients.
//!
//! Any client may ask, as often as it likes. Concurrent requests share one question to the workers, and the rate of
//! questions is limited. An answer is never older than the request.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};
use weir_admin::ServiceState;

use crate::ask::Workers;

type Answer = (StatusCode, &'static str);

/// The minimum between two questions to the workers.
const PAUSE: Duration = Duration::from_millis(50);

/// The workers' state; cheap to clone.
#[derive(Clone)]
pub(crate) struct Probe {
    workers: Workers,
    last: Arc<Mutex<Option<Finding>>>,
}

/// When the workers were asked, and their answer; none if they gave none.
#[derive(Clone, Copy)]
struct Finding {
    asked: Instant,
    answer: Option<(ServiceState, bool)>,
}

impl Probe {
    pub(crate) fn new(workers: Workers) -> Probe {
        Probe { workers, last: Arc::default() }
    }

    /// Whether the workers serve, and whether they shut down.
    async fn ask(&self) -> Option<(ServiceState, bool)> {
        let came = Instant::now();
        let mut last = self.last.lock().await;
        if let Some(found) = *last {
            if found.asked >= came {
                return found.answer;
            }
            sleep_until(found.asked + PAUSE).await;
        }
        let asked = Instant::now();
        let answer = self.workers.report().await.ok().map(|(report, _)| (report.serving, report.draining));
        *last = Some(Finding { asked, answer });
        answer
    }
}

/// Alive: the workers answer.
pub(crate) async fn alive(State(probe): State<Probe>) -> Answer {
    match probe.ask().await {
        Some(_) => (StatusCode::OK, "alive\n"),
        None => (StatusCode::SERVICE_UNAVAILABLE, "the workers do not answer\n"),
    }
}

/// Ready: new clients are accepted and served.
pub(crate) async fn ready(State(probe): State<Probe>) -> Answer {
    let no = |why| (StatusCode::SERVICE_UNAVAILABLE, why);
    let Some((serving, draining)) = probe.ask().await else { return no("the workers do not answer\n") };
    match serving {
        _ if draining => no("shutting down\n"),
        ServiceState::Active => (StatusCode::OK, "ready\n"),
        ServiceState::Paused => no("paused\n"),
        ServiceState::Suspended => no("suspended\n"),
    }
}
