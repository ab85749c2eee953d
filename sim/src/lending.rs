//! Waits in a pool that spans several workers: the checkers "no client waits while a server idles" and "waits are
//! fair".
//!
//! Owns the last observed state of each pool at each worker. Must not know how servers get from one worker to another,
//! only how long a message may take: each rule may be broken for as long as a given number of messages takes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use weir_base::{ConnId, Span, Time};
use weir_engine::Engine;

use crate::check::{Checker, Violation};

/// The longest time that a message between workers takes.
pub(crate) const LONGEST_DELIVERY: Span = Span::from_millis(3);

/// How long a client may be the first waiter at one worker while a server idles at another. The request goes to the
/// owner worker, news of it to the borrower, the server back to the owner and on to the requesting worker: four
/// messages. Each may be delayed because the previous one was too recent, and a socket takes time to leave its worker.
pub(crate) const BESIDE_IDLE: Span = Span::from_millis(8 * 3);

/// How long the first waiter at a worker may be passed over by clients that came to another worker later by more than
/// [`SLACK`]; the time starts anew when the last client that came earlier was served there. As above; also, the reply
/// to one request may be in transit while the next request is not known yet. A client that is passed over while a
/// server is in transit to it is served within this time.
pub(crate) const PASSED_OVER: Span = Span::from_millis(10 * 3);

/// A client that has waited longer at another worker by no more than this has no priority.
const SLACK: Span = Span::from_millis(2);

/// How long nothing is checked after workers adopted new settings or were stopped: the other workers learn it later,
/// and a worker whose request fails because the pool does not exist pauses before the next one.
const UNSETTLED: Span = Span::from_millis(300);

/// The observed state of all pools.
#[derive(Default)]
pub(crate) struct Waits {
    pools: BTreeMap<(Arc<str>, Arc<str>), Pool>,
    /// Until when no pool is checked.
    unsettled: Time,
}

#[derive(Default)]
struct Pool {
    at: Vec<AtWorker>,
    unsettled: Time,
    /// Waiters that were passed over and still wait.
    passed_over: Vec<PassedOver>,
}

/// The first waiter at a worker when a client that came later was served at another.
struct PassedOver {
    worker: usize,
    when: Time,
    what: String,
}

/// A pool at one worker.
#[derive(Clone, Default)]
struct AtWorker {
    head: Option<Head>,
    /// Earlier first waiters, recent ones only: since when each waited, and until when it was first.
    before: VecDeque<(Time, Time)>,
    /// Since when a server is idle.
    idle: Option<Time>,
    /// The pool hands out no servers here, as far as is known.
    stopped: bool,
    seen: bool,
}

/// The first waiter at a worker.
#[derive(Clone, Copy)]
struct Head {
    client: ConnId,
    /// Since when the client waits, and since when it is first.
    waits: Time,
    first: Time,
}

impl Waits {
    /// Settings change, or all pools are stopped.
    pub(crate) fn unsettle(&mut self, now: Time) {
        self.unsettled = now + UNSETTLED;
    }

    /// A worker has handled an input.
    pub(crate) fn observe(&mut self, worker: usize, engine: &Engine, now: Time) -> Option<Violation> {
        let mut found = None;
        self.at(worker).for_each(|at| at.seen = false);
        for queue in engine.inspect().pool_queues() {
            let pool = self.pools.entry((Arc::clone(queue.database), Arc::clone(queue.user))).or_default();
            if pool.at.len() <= worker {
                pool.at.resize(worker + 1, AtWorker::default());
            }
            pool.at[worker].stopped = queue.stopped;
            if pool.at.iter().any(|at| at.stopped) {
                pool.unsettled = now + UNSETTLED;
            }
            let settled = self.unsettled.max(pool.unsettled);
            (pool.at[worker].idle, pool.at[worker].seen) = (queue.idle, true);
            let head = pool.at[worker].head;
            // A client whose request was cancelled may wait again at once.
            if head.map(|head| (head.client, head.waits)) != queue.head {
                pool.at[worker].follows(queue.head, now);
                pool.passed_over.retain(|passed| passed.worker != worker);
                if let Some(head) = head.filter(|head| engine.inspect().is_served(head.client)) {
                    pool.pass_over(worker, head, now);
                }
            }
            if settled <= now {
                found = found.or_else(|| pool.beside_idle(settled, now)).or_else(|| pool.unfair(now));
            } else {
                pool.passed_over.clear();
            }
        }
        // Pools that the worker does not show any more are gone there.
        self.at(worker).filter(|at| !at.seen).for_each(|at| *at = AtWorker::default());
        found
    }

    fn at(&mut self, worker: usize) -> impl Iterator<Item = &mut AtWorker> {
        self.pools.values_mut().filter_map(move |pool| pool.at.get_mut(worker))
    }
}

impl AtWorker {
    /// The first waiter has changed.
    fn follows(&mut self, head: Option<(ConnId, Time)>, now: Time) {
        self.before.retain(|(_, until)| *until + PASSED_OVER >= now);
        self.before.extend(self.head.map(|head| (head.waits, now)));
        self.head = head.map(|(client, waits)| Head { client, waits, first: now });
    }
}

impl Pool {
    /// A client that waits at one worker while a server idles at another.
    fn beside_idle(&self, settled: Time, now: Time) -> Option<Violation> {
        for (waits, head) in self.at.iter().enumerate().filter_map(|(worker, at)| Some((worker, at.head?))) {
            for (idles, since) in self.at.iter().enumerate().filter_map(|(worker, at)| Some((worker, at.idle?))) {
                // A client whose server was lost has an old wait, but needs another server only since it is first.
                let both = head.first.max(since).max(settled);
                if both + BESIDE_IDLE < now {
                    let time = now.since(both).micros();
                    let what =
                        format!("for {time} µs a client has waited at w{waits} while a server was idle at w{idles}");
                    return Some(Violation { checker: Checker::NoWaitBesideIdle, what });
                }
            }
        }
        None
    }

    /// A client was served at a worker: records the waiters that it passed over.
    fn pass_over(&mut self, served_at: usize, served: Head, now: Time) {
        let oldest = self.at[served_at].before.iter().map(|(waits, _)| *waits).fold(served.waits, Time::min);
        for (worker, head) in self.at.iter().enumerate().filter_map(|(worker, at)| Some((worker, at.head?))) {
            if worker != served_at && head.first + PASSED_OVER < now && head.waits + SLACK < oldest {
                let (longer, first) = (served.waits.since(head.waits).micros(), now.since(head.first).micros());
                let what = format!(
                    "w{served_at} served a client that came {longer} µs later than the one that had been first at w{worker} \
                     for {first} µs"
                );
                self.passed_over.push(PassedOver { worker, when: now, what });
            }
        }
    }

    /// A client that was passed over and still waits.
    fn unfair(&self, now: Time) -> Option<Violation> {
        let passed = self.passed_over.iter().find(|passed| passed.when + PASSED_OVER < now)?;
        let what = format!("{}, and which still waits {} µs later", passed.what, now.since(passed.when).micros());
        Some(Violation { checker: Checker::WaitsAreFair, what })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::START + Span::from_millis(millis)
    }

    fn head(slot: u32, waits: u64) -> Head {
        Head { client: ConnId::new(slot, 1), waits: at(waits), first: at(waits) }
    }

    fn pool(first: Option<Head>, second: AtWorker) -> Pool {
        Pool { at: vec![AtWorker { head: first, ..AtWorker::default() }, second], ..Pool::default() }
    }

    #[test]
    fn a_client_that_waits_while_a_server_idles_is_found() {
        let pool = pool(Some(head(1, 100)), AtWorker { idle: Some(at(90)), ..AtWorker::default() });
        let found = |settled, now| pool.beside_idle(at(settled), at(now)).map(|violation| violation.checker);
        assert_eq!(found(0, 124), None);
        assert_eq!(found(0, 125), Some(Checker::NoWaitBesideIdle));
        assert_eq!(found(110, 125), None);
    }

    /// Whether a client that waits since 100 counts as passed over when one that waits since `waits` is served
    /// elsewhere at `now`.
    fn passes_over(waits: u64, now: u64, before: Option<Time>) -> bool {
        let before = before.map(|waits| (waits, at(now))).into_iter().collect();
        let mut pool = pool(Some(head(1, 100)), AtWorker { before, ..AtWorker::default() });
        pool.pass_over(1, head(2, waits), at(now));
        assert_eq!(pool.unfair(at(now + 30)), None, "a server may be in transit");
        pool.unfair(at(now + 31)).is_some()
    }

    #[test]
    fn a_client_that_is_passed_over_is_found() {
        assert!(passes_over(200, 231, None));
        assert!(!passes_over(105, 130, None), "the wait may not be known yet");
        assert!(!passes_over(102, 231, None), "the difference is within SLACK");
        assert!(!passes_over(200, 231, Some(at(99))), "an earlier client was served before");
        let mut pool = pool(Some(head(1, 100)), AtWorker::default());
        pool.pass_over(0, head(2, 200), at(231));
        assert!(pool.unfair(at(300)).is_none(), "within a worker the pool itself checks the order");
    }
}
