//! How long each worker's present round has lasted: the control plane can say that a worker is busy without asking it.
//!
//! Costs a worker two stores a round. Must not know what a round does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_admin::BusyWorker;
use weir_base::{Time, WorkerId};

/// The rounds of all workers; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Rounds(Arc<[Round]>);

/// When a worker's round began, in microseconds of the process's clock; [`WAITS`]: it waits for events. A cache line of
/// its own.
#[derive(Debug)]
#[repr(align(64))]
struct Round(AtomicU64);

const WAITS: u64 = u64::MAX;

impl Rounds {
    pub(crate) fn new(workers: usize) -> Rounds {
        Rounds((0..workers).map(|_| Round(AtomicU64::new(WAITS))).collect())
    }

    /// A worker has events to handle.
    #[inline]
    pub(crate) fn begins(&self, worker: WorkerId, now: Time) {
        self.set(worker, now.micros());
    }

    /// A worker is about to wait for events.
    #[inline]
    pub(crate) fn ends(&self, worker: WorkerId) {
        self.set(worker, WAITS);
    }

    #[inline]
    fn set(&self, worker: WorkerId, value: u64) {
        if let Some(round) = self.0.get(usize::from(worker.0)) {
            round.0.store(value, Ordering::Relaxed);
        }
    }

    /// The worker whose present round has lasted longest; `None` if all wait for events.
    pub(crate) fn longest(&self, now: Time) -> Option<BusyWorker> {
        let began = self.0.iter().map(|round| round.0.load(Ordering::Relaxed)).enumerate();
        let (worker, began) = began.filter(|(_, began)| *began != WAITS).min_by_key(|(_, began)| *began)?;
        Some(BusyWorker { worker: WorkerId(worker as u16), busy: now.since(Time::from_micros(began)) })
    }
}

#[cfg(test)]
mod tests {
    use weir_base::Span;

    use super::*;

    #[test]
    fn the_longest_round_is_named_until_its_worker_waits_again() {
        let rounds = Rounds::new(3);
        let at = Time::from_micros;
        assert_eq!(rounds.longest(at(9)), None);
        rounds.begins(WorkerId(2), at(10));
        rounds.begins(WorkerId(1), at(20));
        let busy = |worker, micros| Some(BusyWorker { worker: WorkerId(worker), busy: Span::from_micros(micros) });
        assert_eq!(rounds.longest(at(50)), busy(2, 40));
        rounds.ends(WorkerId(2));
        assert_eq!(rounds.longest(at(50)), busy(1, 30));
    }
}
