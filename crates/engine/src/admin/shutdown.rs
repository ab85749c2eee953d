//! Shutdowns that wait for clients to disconnect, or for servers to finish, or that close clients.
//!
//! Owns when the process may exit, and how many clients a drain may close now. Worker 0 sends the request to all workers,
//! each answers once when nothing is left, and the process exits with the last answer.

use std::collections::BTreeSet;

use weir_admin::{DrainPhase, DrainRecord};
use weir_base::{Span, Time, WorkerId};

use crate::admin::drain_pace::{Due, Pace, Rest};
use crate::common::{Cx, UnderWay};
use crate::port::Io;
use crate::timers::Who;
use crate::workers::messages::{Drain, WorkerCommand};

/// A shutdown, as seen by this worker.
pub(crate) struct Shutdown {
    draining: Option<Drain>,
    /// Clients are closed here at this pace.
    pace: Option<Pace>,
    /// The next look at all clients.
    armed: Time,
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

/// The time between two lines of the log about a drain.
const REPORTS: Span = Span::from_secs(5);

impl Default for Shutdown {
    fn default() -> Self {
        Shutdown {
            draining: None,
            pace: None,
            armed: Time::NEVER,
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
    /// When a drain reports how many clients are left.
    report_at: Time,
}

impl Default for DrainRequest {
    fn default() -> Self {
        DrainRequest {
            drain: None,
            drained: BTreeSet::new(),
            by: Time::NEVER,
            armed: Time::NEVER,
            report_at: Time::NEVER,
        }
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
        let (config, request) = (cx.common.config(), &mut self.request);
        let closes = drain == Drain::Transactions;
        let time = if closes { config.drain_time } else { Span::ZERO };
        request.by = (cx.now + time).deadline(config.shutdown_timeout);
        request.report_at = if closes { cx.now + REPORTS } else { Time::NEVER };
        cx.common.arm(Who::Shutdown, request.by, &mut request.armed);
        self.ask(cx, drain);
    }

    fn ask<I: Io>(&mut self, cx: &mut Cx<'_, I>, drain: Drain) {
        self.request.drained.clear();
        self.request.drain = Some(drain);
        let id = cx.common.next_id();
        cx.common.post_to_all(id, &WorkerCommand::Drain(drain), cx.io);
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

    /// The request has arrived at this worker. Clients are looked at when all input that has arrived is handled.
    pub(crate) fn drain<I: Io>(&mut self, cx: &mut Cx<'_, I>, drain: Drain) {
        self.draining = Some(drain);
        cx.common.set_under_way(UnderWay::SHUTDOWN, true);
        self.reported = false;
        self.pace = (drain == Drain::Transactions).then(|| Pace::new(cx.now, cx.common.config().drain_time));
        if self.pace.is_some() {
            cx.common.arm(Who::Drain, cx.now, &mut self.armed);
        }
    }

    /// The clients of this worker are looked at, of which so many hold nothing, and hold a part of a session: returns how
    /// many may be closed, and how long they must have rested.
    pub(crate) fn look<I: Io>(&mut self, cx: &mut Cx<'_, I>, free: u32, holding: u32) -> (Due, Rest) {
        self.armed = Time::NEVER;
        let Some(pace) = &mut self.pace else { return Default::default() };
        let due = pace.due(cx.now, free, holding);
        cx.common.arm(Who::Drain, cx.now + pace.interval(cx.now), &mut self.armed);
        (due, pace.rest())
    }

    /// Whether the time of a drain is over: all clients that are left are late.
    pub(crate) fn pace_is_over(&self, now: Time) -> bool {
        self.pace.is_some_and(|pace| pace.is_over(now))
    }

    /// How far a drain is, if there is one; worker 0 knows of one that is only announced, and of the end of the last wait.
    pub(crate) fn drain_record(&self, now: Time) -> Option<DrainRecord> {
        let record = |phase, until: Time| DrainRecord { phase, left: (until != Time::NEVER).then(|| until.since(now)) };
        match (self.announced, self.pace) {
            (Some(announced), _) if announced.drain == Drain::Transactions => {
                Some(record(DrainPhase::Announced, announced.begins))
            }
            (_, Some(pace)) if pace.is_over(now) => Some(record(DrainPhase::Ending, self.request.by)),
            (_, Some(pace)) => Some(record(DrainPhase::Closing, pace.ends())),
            _ => None,
        }
    }

    /// Worker 0: whether a line of the log about the drain is due.
    pub(crate) fn report_is_due(&mut self, now: Time) -> bool {
        let due = self.request.report_at <= now;
        if due {
            self.request.report_at = now + REPORTS;
        }
        due
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
