//! Shutdowns that wait for clients to disconnect, or for servers to finish.
//!
//! Owns when the process may exit. Worker 0 sends the request to all workers, each answers once when nothing is left,
//! and the process exits with the last answer.

use std::collections::BTreeSet;

use weir_base::{Span, Time, WorkerId};

use crate::common::{Common, Cx, UnderWay};
use crate::port::Io;
use crate::timers::Who;
use crate::workers::messages::{Drain, Message, Payload, WorkerCommand};

/// A shutdown, as seen by this worker.
pub(crate) struct Shutdown {
    draining: Option<Drain>,
    /// Worker 0 has been informed that nothing is left here.
    reported: bool,
    /// When clients that wait for servers are dismissed; never, if there are none.
    dismissal: Time,
    request: DrainRequest,
    /// Worker 0: the process exits when the servers of pools that nodes share have ended; holds whether all workers
    /// have closed theirs.
    shared_server_wait: Option<bool>,
    announced: Option<Announced>,
}

/// Worker 0: a shutdown that has not begun; health checks see it already.
#[derive(Clone, Copy)]
struct Announced {
    drain: Drain,
    begins: Time,
}

/// A shutdown that waits for servers dismisses its waiting clients only after this time, as PgBouncer's maintenance
/// does: the operator's next look still finds them.
const DISMISSAL: Span = Span::from_millis(300);

/// How long a process waits for the end of its servers' connections, so that other nodes need not look for them.
const SHARED_SERVER_WAIT: Span = Span::from_secs(1);

impl Default for Shutdown {
    fn default() -> Self {
        Shutdown {
            draining: None,
            reported: false,
            dismissal: Time::NEVER,
            request: DrainRequest::default(),
            shared_server_wait: None,
            announced: None,
        }
    }
}

/// The request that worker 0 sent to all workers: its own message may arrive last.
struct DrainRequest {
    drain: Option<Drain>,
    drained: BTreeSet<WorkerId>,
    by: Time,
    armed: Time,
}

impl Default for DrainRequest {
    fn default() -> Self {
        DrainRequest { drain: None, drained: BTreeSet::new(), by: Time::NEVER, armed: Time::NEVER }
    }
}

impl Shutdown {
    /// What this worker waits for.
    pub(crate) fn draining(&self) -> Option<Drain> {
        self.draining
    }

    /// Worker 0: whether a shutdown is announced, and has not begun.
    pub(crate) fn is_announced(&self) -> bool {
        self.announced.is_some()
    }

    /// Worker 0: whether a shutdown is announced or has begun.
    pub(crate) fn is_under_way(&self) -> bool {
        self.is_announced() || self.draining.is_some()
    }

    /// Worker 0: what a shutdown that is announced or has begun waits for.
    pub(crate) fn target(&self) -> Option<Drain> {
        self.announced.map(|announced| announced.drain).or(self.draining)
    }

    /// Worker 0: announces a shutdown, which begins after `delay`.
    pub(crate) fn announce<I: Io>(&mut self, cx: &mut Cx<'_, I>, drain: Drain, delay: Span) {
        let begins = cx.now + delay;
        self.announced = Some(Announced { drain, begins });
        // One timer for each announcement; one that fires too early finds that `begins` is later.
        cx.common.arm(Who::Announcement, begins, &mut { Time::NEVER });
    }

    /// Worker 0: a timer has fired: returns what the shutdown waits for that begins now.
    pub(crate) fn announcement_over(&mut self, now: Time) -> Option<Drain> {
        self.announced.take_if(|announced| announced.begins <= now).map(|announced| announced.drain)
    }

    /// Worker 0: sends the request to all workers.
    pub(crate) fn begin<I: Io>(&mut self, cx: &mut Cx<'_, I>, drain: Drain) {
        self.announced = None;
        let request = &mut self.request;
        request.by = cx.now.deadline(cx.common.config().shutdown_timeout);
        cx.common.arm(Who::Shutdown, request.by, &mut request.armed);
        self.ask(cx, drain);
    }

    fn ask<I: Io>(&mut self, cx: &mut Cx<'_, I>, drain: Drain) {
        self.request.drained.clear();
        self.request.drain = Some(drain);
        for worker in 0..cx.common.workers() {
            let id = cx.common.next_id();
            cx.io.post(WorkerId(worker), Message(Payload::Command { id, command: WorkerCommand::Drain(drain) }), None);
        }
    }

    /// Worker 0: the process exits when servers have ended, or soon. `closed`: all workers have closed theirs.
    pub(crate) fn await_shared_servers<I: Io>(&mut self, cx: &mut Cx<'_, I>, closed: bool) {
        self.shared_server_wait = Some(closed);
        self.request.by = cx.now + SHARED_SERVER_WAIT;
        cx.common.arm(Who::Shutdown, self.request.by, &mut self.request.armed);
        if !closed {
            self.ask(cx, Drain::Servers);
        }
    }

    /// Worker 0: whether the process exits when servers have ended; holds whether all workers have closed theirs.
    pub(crate) fn shared_server_wait(&self) -> Option<bool> {
        self.shared_server_wait
    }

    /// Worker 0: all workers have closed their servers.
    pub(crate) fn all_closed(&mut self) {
        self.shared_server_wait = Some(true);
    }

    /// The request has arrived at this worker.
    pub(crate) fn drain(&mut self, common: &mut Common, drain: Drain) {
        self.draining = Some(drain);
        common.set_under_way(UnderWay::SHUTDOWN, true);
        self.reported = false;
    }

    /// Clients wait for servers here: they are to be dismissed soon.
    pub(crate) fn dismiss_soon<I: Io>(&mut self, cx: &mut Cx<'_, I>) {
        cx.common.arm(Who::Dismissal, cx.now + DISMISSAL, &mut self.dismissal);
    }

    /// The clients that wait for servers are dismissed now.
    pub(crate) fn dismissed(&mut self) {
        self.dismissal = Time::NEVER;
    }

    /// Whether clients wait to be dismissed.
    pub(crate) fn is_dismissing(&self) -> bool {
        self.dismissal != Time::NEVER
    }

    /// Nothing is left here that a shutdown waits for: returns the report for worker 0, once.
    pub(crate) fn finished_here(&mut self) -> Option<Drain> {
        let drain = self.draining?;
        (!std::mem::replace(&mut self.reported, true)).then_some(drain)
    }

    /// Worker 0: a worker has nothing left. Returns whether none has, so that the process may exit.
    pub(crate) fn worker_finished(&mut self, worker: WorkerId, drain: Drain, workers: u16) -> bool {
        if self.request.drain == Some(drain) {
            self.request.drained.insert(worker);
        }
        self.request.drained.len() == usize::from(workers)
    }

    /// A timer has fired: returns whether `shutdown_timeout` is over, or the wait for servers' ends.
    pub(crate) fn is_over<I: Io>(&mut self, cx: &mut Cx<'_, I>) -> bool {
        self.request.armed = Time::NEVER;
        if self.request.by <= cx.now {
            return true;
        }
        cx.common.arm(Who::Shutdown, self.request.by, &mut self.request.armed);
        false
    }
}
