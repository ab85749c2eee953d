//! Is it alive, and may clients be sent to it: `/healthz` and `/readyz`, for supervisors and balancers.
//!
//! Anybody may ask, as often as they like, and the workers answer for all who ask at once: one question at a time, and
//! so many a second. Nobody hears what was found before they asked.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};
use weir_admin::ServiceState;

use crate::ask::Workers;

type Answer = (StatusCode, &'static str);

/// From one question to the workers to the next, at least.
const PAUSE: Duration = Duration::from_millis(50);

/// How the workers are; cheap to clone.
#[derive(Clone)]
pub(crate) struct Probe {
    workers: Workers,
    last: Arc<Mutex<Option<Finding>>>,
}

/// When they were asked, and what they said; nothing if they said nothing.
#[derive(Clone, Copy)]
struct Finding {
    asked: Instant,
    said: Option<(ServiceState, bool)>,
}

impl Probe {
    pub(crate) fn new(workers: Workers) -> Probe {
        Probe { workers, last: Arc::default() }
    }

    /// Whether they serve, and whether they shut down.
    async fn ask(&self) -> Option<(ServiceState, bool)> {
        let came = Instant::now();
        let mut last = self.last.lock().await;
        if let Some(found) = *last {
            if found.asked >= came {
                return found.said;
            }
            sleep_until(found.asked + PAUSE).await;
        }
        let asked = Instant::now();
        let said = self.workers.report().await.ok().map(|(report, _)| (report.serving, report.draining));
        *last = Some(Finding { asked, said });
        said
    }
}

/// Alive: the workers answer.
pub(crate) async fn alive(State(probe): State<Probe>) -> Answer {
    match probe.ask().await {
        Some(_) => (StatusCode::OK, "alive\n"),
        None => (StatusCode::SERVICE_UNAVAILABLE, "the workers do not answer\n"),
    }
}

/// Ready: clients who come now are let in and served.
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
