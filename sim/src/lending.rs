//! One pool over several workers, as those who wait feel it: the checkers "nobody waits beside an idle server" and "waits are
//! fair".
//!
//! Owns what each worker showed last of each of its pools. How servers get from one worker to another is not known here, only
//! how long a message may take: what holds between workers holds but for so many messages.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use weir_base::{Peer, Span, Time};
use weir_engine::Engine;

use crate::check::{Checker, Violation};

/// The longest that a message takes from one worker to another.
pub(crate) const MESSAGE_DELAY: Span = Span::from_millis(3);

/// For how long a client may be the oldest waiter of one worker while a server is idle at another. A request goes to the owner,
/// an update to the borrower that has the server, the server to the owner and on to the requester: four messages, each of
/// which may have been held back because the one before it was too recent, and sockets that take their time to leave.
pub(crate) const BESIDE_IDLE: Span = Span::from_millis(8 * 3);

/// For how long whoever is first in line at a worker may be passed over by those who came to another worker later than they by
/// more than [`SLACK`]; and anew for as long from the moment when the last who came earlier was served there. As above, and
/// the answer to a request may be on its way while the next one is not known of yet. Whoever is passed over while a server is on its
/// way to them is served within this time.
pub(crate) const PASSED_OVER: Span = Span::from_millis(10 * 3);

/// By how much longer one elsewhere has waited whom nobody has to let go first.
const SLACK: Span = Span::from_millis(2);

/// For how long nothing is asked of workers that have taken over new settings, or were stopped: the others hear of it later, and
/// who was told that there is no such pool pauses before asking again.
const UNSETTLED: Span = Span::from_millis(300);

/// What workers showed.
#[derive(Default)]
pub(crate) struct Queues {
    pools: BTreeMap<(Arc<str>, Arc<str>), Pool>,
    /// Until when nothing is asked of any pool.
    unsettled: Time,
}

#[derive(Default)]
struct Pool {
    at: Vec<At>,
    unsettled: Time,
    /// Those who were passed over and wait still.
    passed_over: Vec<PassedOver>,
}

/// Whoever was first in line at a worker when one who came later was served elsewhere.
struct PassedOver {
    worker: usize,
    when: Time,
    what: String,
}

/// A pool at one worker.
#[derive(Clone, Default)]
struct At {
    head: Option<Head>,
    /// Since when those waited who were first before, and until when they were that; of late.
    before: VecDeque<(Time, Time)>,
    /// Since when a server idles.
    idle: Option<Time>,
    /// It hands nothing out here, as far as is known.
    stopped: bool,
    seen: bool,
}

/// Whoever is first in line at a worker.
#[derive(Clone, Copy)]
struct Head {
    client: Peer,
    /// Since when they wait, and since when they are first.
    waits: Time,
    first: Time,
}

impl Queues {
    /// Settings change, or all is stopped.
    pub(crate) fn unsettle(&mut self, now: Time) {
        self.unsettled = now + UNSETTLED;
    }

    /// A worker has handled something.
    pub(crate) fn look(&mut self, worker: usize, engine: &Engine, now: Time) -> Option<Violation> {
        let mut found = None;
        self.at(worker).for_each(|at| at.seen = false);
        for queue in engine.pool_queues() {
            let pool = self.pools.entry((Arc::clone(queue.database), Arc::clone(queue.user))).or_default();
            if pool.at.len() <= worker {
                pool.at.resize(worker + 1, At::default());
            }
            pool.at[worker].stopped = queue.stopped;
            if pool.at.iter().any(|at| at.stopped) {
                pool.unsettled = now + UNSETTLED;
            }
            let settled = self.unsettled.max(pool.unsettled);
            (pool.at[worker].idle, pool.at[worker].seen) = (queue.idle, true);
            let head = pool.at[worker].head;
            if head.map(|head| head.client) != queue.head.map(|(client, _)| client) {
                pool.at[worker].follows(queue.head, now);
                pool.passed_over.retain(|passed| passed.worker != worker);
                if let Some(head) = head.filter(|head| engine.is_served(head.client)) {
                    pool.pass_over(worker, head, now);
                }
            }
            if settled <= now {
                found = found.or_else(|| pool.beside_idle(settled, now)).or_else(|| pool.unfair(now));
            } else {
                pool.passed_over.clear();
            }
        }
        // What a worker has forgotten it does not show any more.
        self.at(worker).filter(|at| !at.seen).for_each(|at| *at = At::default());
        found
    }

    fn at(&mut self, worker: usize) -> impl Iterator<Item = &mut At> {
        self.pools.values_mut().filter_map(move |pool| pool.at.get_mut(worker))
    }
}

impl At {
    /// Somebody is first in line, who was not.
    fn follows(&mut self, head: Option<(Peer, Time)>, now: Time) {
        self.before.retain(|(_, until)| *until + PASSED_OVER >= now);
        self.before.extend(self.head.map(|head| (head.waits, now)));
        self.head = head.map(|(client, waits)| Head { client, waits, first: now });
    }
}

impl Pool {
    /// Whoever waits at one worker while a server idles at another.
    fn beside_idle(&self, settled: Time, now: Time) -> Option<Violation> {
        for (waits, head) in self.at.iter().enumerate().filter_map(|(worker, at)| Some((worker, at.head?))) {
            for (idles, since) in self.at.iter().enumerate().filter_map(|(worker, at)| Some((worker, at.idle?))) {
                // Whoever had a server that was lost has waited for long, but wants another one only now.
                let both = head.first.max(since).max(settled);
                if both + BESIDE_IDLE < now {
                    let time = now.since(both).micros();
                    let what = format!("for {time} µs a client has waited at w{waits} and a server idled at w{idles}");
                    return Some(Violation { checker: Checker::NobodyWaitsBesideIdle, what });
                }
            }
        }
        None
    }

    /// Somebody was served at a worker: whom that has passed over.
    fn pass_over(&mut self, served_at: usize, served: Head, now: Time) {
        let oldest = self.at[served_at].before.iter().map(|(waits, _)| *waits).fold(served.waits, Time::min);
        for (worker, head) in self.at.iter().enumerate().filter_map(|(worker, at)| Some((worker, at.head?))) {
            if worker != served_at && head.first + PASSED_OVER < now && head.waits + SLACK < oldest {
                let (longer, first) = (served.waits.since(head.waits).micros(), now.since(head.first).micros());
                let what = format!(
                    "w{served_at} served one who came {longer} µs later than one who had been first in line at w{worker} \
                     for {first} µs"
                );
                self.passed_over.push(PassedOver { worker, when: now, what });
            }
        }
    }

    /// Whoever was passed over and waits still.
    fn unfair(&self, now: Time) -> Option<Violation> {
        let passed = self.passed_over.iter().find(|passed| passed.when + PASSED_OVER < now)?;
        let what = format!("{}, who still waits {} µs later", passed.what, now.since(passed.when).micros());
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
        Head { client: Peer::new(slot, 1), waits: at(waits), first: at(waits) }
    }

    fn pool(first: Option<Head>, second: At) -> Pool {
        Pool { at: vec![At { head: first, ..At::default() }, second], ..Pool::default() }
    }

    #[test]
    fn one_who_waits_beside_an_idle_server_is_found() {
        let pool = pool(Some(head(1, 100)), At { idle: Some(at(90)), ..At::default() });
        let found = |settled, now| pool.beside_idle(at(settled), at(now)).map(|violation| violation.checker);
        assert_eq!(found(0, 124), None);
        assert_eq!(found(0, 125), Some(Checker::NobodyWaitsBesideIdle));
        assert_eq!(found(110, 125), None);
    }

    /// Whether one who has waited since 100 is passed over when one who has waited since `waits` is served elsewhere at `now`.
    fn passes_over(waits: u64, now: u64, before: Option<Time>) -> bool {
        let before = before.map(|waits| (waits, at(now))).into_iter().collect();
        let mut pool = pool(Some(head(1, 100)), At { before, ..At::default() });
        pool.pass_over(1, head(2, waits), at(now));
        assert_eq!(pool.unfair(at(now + 30)), None, "a server may be on its way");
        pool.unfair(at(now + 31)).is_some()
    }

    #[test]
    fn one_who_is_passed_over_is_found() {
        assert!(passes_over(200, 231, None));
        assert!(!passes_over(105, 130, None), "it may not be known yet");
        assert!(!passes_over(102, 231, None), "as good as the same age");
        assert!(!passes_over(200, 231, Some(at(99))), "there was one who came earlier");
        let mut pool = pool(Some(head(1, 100)), At::default());
        pool.pass_over(0, head(2, 200), at(231));
        assert!(pool.unfair(at(300)).is_none(), "within a worker it is the pool that is asked");
    }
}
