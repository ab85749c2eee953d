//! `/healthz` and `/readyz`, for supervisors and load balancers: whether the process is alive, and accepts clients.
//!
//! Any client may ask, as often as it likes. Concurrent requests share one question to the workers, and the rate of
//! questions is limited. An answer is never older than the request.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};
use weir_admin::ServiceState;

use crate::ask::Workers;

type Answer = (StatusCode, Cow<'static, str>);

/// The minimum between two questions to the workers.
const PAUSE: Duration = Duration::from_millis(50);

/// The workers' state; cheap to clone.
#[derive(Clone)]
pub(crate) struct Probe {
    workers: Workers,
    last: Arc<Mutex<Option<Finding>>>,
}

/// When the workers were asked, and their answer; none if they gave none.
#[derive(Clone)]
struct Finding {
    asked: Instant,
    answer: Option<Service>,
}

/// What the process does.
#[derive(Clone)]
struct Service {
    serving: ServiceState,
    draining: bool,
    /// Why it can't open a server connection.
    obstacle: Option<String>,
}

impl Probe {
    pub(crate) fn new(workers: Workers) -> Probe {
        Probe { workers, last: Arc::default() }
    }

    async fn ask(&self) -> Option<Service> {
        let came = Instant::now();
        let mut last = self.last.lock().await;
        if let Some(found) = &*last {
            if found.asked >= came {
                return found.answer.clone();
            }
            sleep_until(found.asked + PAUSE).await;
        }
        let asked = Instant::now();
        let answer = self.workers.report().await.ok().map(|(report, _)| Service {
            serving: report.serving,
            draining: report.draining,
            obstacle: report.cluster.as_ref().and_then(|view| view.obstacle()),
        });
        *last = Some(Finding { asked, answer: answer.clone() });
        answer
    }
}

/// Alive: the workers answer.
pub(crate) async fn alive(State(probe): State<Probe>) -> Answer {
    match probe.ask().await {
        Some(_) => (StatusCode::OK, "alive\n".into()),
        None => (StatusCode::SERVICE_UNAVAILABLE, "the workers do not answer\n".into()),
    }
}

/// Ready: new clients are accepted and served.
pub(crate) async fn ready(State(probe): State<Probe>) -> Answer {
    let no = |why: &'static str| (StatusCode::SERVICE_UNAVAILABLE, why.into());
    let Some(service) = probe.ask().await else { return no("the workers do not answer\n") };
    match service.serving {
        _ if service.draining => no("shutting down\n"),
        ServiceState::Active => match service.obstacle {
            Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n").into()),
            None => (StatusCode::OK, "ready\n".into()),
        },
        ServiceState::Paused => no("paused\n"),
        ServiceState::Suspended => no("suspended\n"),
    }
}
