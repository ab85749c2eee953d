//! What is answered while a worker is busy, and answers nothing itself.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use weir_admin::{BusyWorker, Control, ControlReply, ControlRequest, Deliver, Report, ServiceState};
use weir_base::{Span, WorkerId};
use weir_config::Config;
use weir_web::WebServer;

use crate::common::{options, request};

/// Workers one of which may be busy; then no request is answered.
#[derive(Default)]
struct Workers {
    /// For how long one has been busy, in microseconds; 0: none is.
    busy: AtomicU64,
    unanswered: Mutex<Vec<Deliver>>,
    asked: AtomicU64,
}

impl Control for Workers {
    fn ask(&self, _: ControlRequest, deliver: Deliver) -> u64 {
        if self.busiest().is_some() {
            self.unanswered.lock().unwrap().push(deliver);
        } else {
            let report = Report { serving: ServiceState::Active, ..Report::default() };
            deliver(Ok(ControlReply::Report(Box::new(report), Arc::new(Config::default()))));
        }
        self.asked.fetch_add(1, Ordering::Relaxed)
    }

    fn forget(&self, _: u64) {}

    fn busiest(&self) -> Option<BusyWorker> {
        let busy = self.busy.load(Ordering::Relaxed);
        (busy > 0).then(|| BusyWorker { worker: WorkerId(1), busy: Span::from_micros(busy) })
    }
}

fn start() -> (Arc<Workers>, WebServer) {
    let workers = Arc::new(Workers::default());
    let options = options(SocketAddr::from(([127, 0, 0, 1], 0)));
    let web = WebServer::start(weir_web::WebOptions { control: workers.clone(), ..options }).expect("a free port");
    (workers, web)
}

fn get(web: &WebServer, path: &str) -> (u16, String) {
    let (status, _, body) = request(web, "GET", path, "", "");
    (status, body)
}

#[test]
fn while_a_worker_is_busy_probes_and_scrapes_are_answered_and_name_it() {
    let (workers, web) = start();
    assert_eq!(get(&web, "/readyz"), (200, "ready\n".to_owned()));
    let (status, calm) = get(&web, "/metrics");
    assert!(status == 200 && calm.contains("\nweir_worker_busy_seconds 0"), "{calm}");
    workers.busy.store(3_200_000, Ordering::Relaxed);
    assert_eq!(get(&web, "/healthz"), (200, "alive; worker 1 has been busy for 3.2 s\n".to_owned()));
    assert_eq!(get(&web, "/readyz"), (200, "ready\n".to_owned()), "the answer before counts");
    let (status, busy) = get(&web, "/metrics");
    assert!(status == 200 && busy.contains("\nweir_worker_busy_seconds 3.2"), "{busy}");
    workers.busy.store(61_000_000, Ordering::Relaxed);
    let gone = (503, "worker 1 has been busy for 61.0 s\n".to_owned());
    assert_eq!((get(&web, "/healthz"), get(&web, "/readyz")), (gone.clone(), gone));
    workers.busy.store(0, Ordering::Relaxed);
    assert_eq!((get(&web, "/healthz").0, get(&web, "/readyz").0), (200, 200));
}

#[test]
fn probes_send_a_busy_worker_no_requests_that_it_would_have_to_work_off() {
    let (workers, web) = start();
    assert_eq!(get(&web, "/healthz").0, 200);
    workers.busy.store(1_000_000, Ordering::Relaxed);
    let before = workers.unanswered.lock().unwrap().len();
    (0..20).for_each(|_| assert_eq!(get(&web, "/healthz").0, 200));
    // The panel's own figures ask once a second.
    assert!(workers.unanswered.lock().unwrap().len() < before + 20);
    // Without an answer before, nobody knows whether it is ready.
    let (workers, web) = start();
    workers.busy.store(1_000_000, Ordering::Relaxed);
    assert_eq!(get(&web, "/readyz"), (503, "worker 1 has been busy for 1.0 s\n".to_owned()));
}
