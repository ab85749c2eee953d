//! `/healthz` and `/readyz`, for supervisors and load balancers: whether the process is alive, and accepts clients.
//!
//! Any client may ask, as often as it likes. Concurrent requests share one question to the workers, and the rate of
//! questions is limited. An answer is never older than the request, but where a worker is busy: then the process is
//! alive, and what the workers said before still counts, both for a limited time ([`MOST_BUSY`]).

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};
use weir_admin::{BusyWorker, ServiceState};
use weir_base::Span;
use weir_monitor::{MonitorError, Workers};

type Answer = (StatusCode, String);

/// The minimum between two questions to the workers.
const PAUSE: Duration = Duration::from_millis(50);

/// A worker that is busy for longer without a break will not come back.
const MOST_BUSY: Span = Span::from_secs(60);

/// The workers' state; cheap to clone.
#[derive(Clone)]
pub(crate) struct Probe {
    workers: Workers,
    known: Arc<Mutex<Known>>,
}

/// What is known of the workers.
#[derive(Default)]
struct Known {
    /// When the workers were asked last, and what came of it.
    last: Option<(Instant, Finding)>,
    /// Their last answer.
    answer: Option<Service>,
}

/// The workers' own answer.
#[derive(Clone)]
struct Service {
    serving: ServiceState,
    draining: bool,
    /// Why the process can't open a server connection.
    obstacle: Option<String>,
}

/// What came of a question to the workers.
#[derive(Clone)]
enum Finding {
    Answered(Service),
    /// A worker is busy; the answer before, if there was one.
    Busy(BusyWorker, Option<Service>),
    /// A worker has been busy for too long.
    Stuck(BusyWorker),
    NoAnswer,
}

impl Probe {
    pub(crate) fn new(workers: Workers) -> Probe {
        Probe { workers, known: Arc::default() }
    }

    async fn ask(&self) -> Finding {
        let came = Instant::now();
        let mut known = self.known.lock().await;
        if let Some((asked, finding)) = &known.last {
            if *asked >= came {
                return finding.clone();
            }
            sleep_until(*asked + PAUSE).await;
        }
        let asked = Instant::now();
        let finding = match self.workers.prompt_report().await {
            Ok((report, _)) => Finding::Answered(Service {
                serving: report.serving,
                draining: report.draining,
                obstacle: report.cluster.as_ref().and_then(|view| view.obstacle()),
            }),
            Err(MonitorError::Busy(busy)) if busy.busy < MOST_BUSY => Finding::Busy(busy, known.answer.clone()),
            Err(MonitorError::Busy(busy)) => Finding::Stuck(busy),
            Err(_) => Finding::NoAnswer,
        };
        if let Finding::Answered(answer) = &finding {
            known.answer = Some(answer.clone());
        }
        known.last = Some((asked, finding.clone()));
        finding
    }
}

/// Alive: the workers answer, or are busy.
pub(crate) async fn alive(State(probe): State<Probe>) -> Answer {
    match probe.ask().await {
        Finding::Answered(_) => ok("alive"),
        Finding::Busy(busy, _) => ok(&format!("alive; {busy}")),
        Finding::Stuck(busy) => no(&busy.to_string()),
        Finding::NoAnswer => no("the workers do not answer"),
    }
}

/// Ready: new clients are accepted and served.
pub(crate) async fn ready(State(probe): State<Probe>) -> Answer {
    let service = match probe.ask().await {
        Finding::Answered(answer) | Finding::Busy(_, Some(answer)) => answer,
        Finding::Busy(busy, None) | Finding::Stuck(busy) => return no(&busy.to_string()),
        Finding::NoAnswer => return no("the workers do not answer"),
    };
    match service.serving {
        _ if service.draining => no("shutting down"),
        ServiceState::Active => service.obstacle.map_or_else(|| ok("ready"), |why| no(&why)),
        ServiceState::Paused => no("paused"),
        ServiceState::Suspended => no("suspended"),
    }
}

fn ok(what: &str) -> Answer {
    (StatusCode::OK, format!("{what}\n"))
}

fn no(why: &str) -> Answer {
    (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n"))
}
