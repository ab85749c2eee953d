//! Is it alive, and may clients be sent to it: `/healthz` and `/readyz`, for supervisors and balancers.
//!
//! Anybody may ask, as often as they like, and the workers answer for all who ask at once: one question at a time, and so
//! many a second. Nobody hears what was found before they asked.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};
use weir_admin::Serving;

use crate::ask::Workers;

type Answer = (StatusCode, &'static str);

/// From one question to the workers to the next, at least.
const PAUSE: Duration = Duration::from_millis(50);

/// How the workers are; cheap to clone.
#[derive(Clone)]
pub(crate) struct Pulse {
    workers: Workers,
    last: Arc<Mutex<Option<Beat>>>,
}

/// When they were asked, and what they said; nothing if they said nothing.
#[derive(Clone, Copy)]
struct Beat {
    asked: Instant,
    said: Option<(Serving, bool)>,
}

impl Pulse {
    pub(crate) fn new(workers: Workers) -> Pulse {
        Pulse { workers, last: Arc::default() }
    }

    /// Whether they serve, and whether they shut down.
    async fn feel(&self) -> Option<(Serving, bool)> {
        let came = Instant::now();
        let mut last = self.last.lock().await;
        if let Some(beat) = *last {
            if beat.asked >= came {
                return beat.said;
            }
            sleep_until(beat.asked + PAUSE).await;
        }
        let asked = Instant::now();
        let said = self.workers.report().await.ok().map(|(report, _)| (report.serving, report.draining));
        *last = Some(Beat { asked, said });
        said
    }
}

/// Alive: the workers answer.
pub(crate) async fn alive(State(pulse): State<Pulse>) -> Answer {
    match pulse.feel().await {
        Some(_) => (StatusCode::OK, "alive\n"),
        None => (StatusCode::SERVICE_UNAVAILABLE, "the workers do not answer\n"),
    }
}

/// Ready: clients who come now are let in and served.
pub(crate) async fn ready(State(pulse): State<Pulse>) -> Answer {
    let no = |why| (StatusCode::SERVICE_UNAVAILABLE, why);
    let Some((serving, draining)) = pulse.feel().await else { return no("the workers do not answer\n") };
    match serving {
        _ if draining => no("shutting down\n"),
        Serving::Active => (StatusCode::OK, "ready\n"),
        Serving::Paused => no("paused\n"),
        Serving::Suspended => no("suspended\n"),
    }
}
