//! Moments of quiet: all actors come to rest between two acts, so that counters can be compared exactly.
//!
//! Invariant: while the gate is closed and all actors rest, no actor has anything outstanding.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    Closed,
    Over,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    resting: usize,
}

/// What all actors pass between two acts.
#[derive(Debug)]
pub(super) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

impl Gate {
    pub(super) fn new() -> Gate {
        Gate { state: Mutex::new(State { phase: Phase::Open, resting: 0 }), changed: Condvar::new() }
    }

    /// Whether an actor should come to rest soon.
    pub(super) fn is_closing(&self) -> bool {
        self.lock().phase != Phase::Open
    }

    /// Rests as long as the gate is closed, after `leave` has released what others may wait for. `false` when the run
    /// is over.
    pub(super) fn pass(&self, mut leave: impl FnMut()) -> bool {
        let mut state = self.lock();
        while state.phase == Phase::Closed {
            drop(state);
            leave();
            state = self.lock();
            state.resting += 1;
            self.changed.notify_all();
            while state.phase == Phase::Closed {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            state.resting -= 1;
        }
        state.phase == Phase::Open
    }

    /// Closes, and waits for this many actors to rest. Returns how many did not rest in time.
    pub(super) fn close(&self, everybody: usize, timeout: Duration) -> usize {
        let end = Instant::now() + timeout;
        let mut state = self.lock();
        state.phase = Phase::Closed;
        self.changed.notify_all();
        while state.resting < everybody {
            let Some(left) = end.checked_duration_since(Instant::now()) else { break };
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        everybody - state.resting
    }

    pub(super) fn open(&self) {
        self.set(Phase::Open);
    }

    pub(super) fn end(&self) {
        self.set(Phase::Over);
    }

    /// Sleeps, but not past the moment when the gate closes.
    pub(super) fn nap(&self, length: Duration) {
        let end = Instant::now() + length;
        let mut state = self.lock();
        while state.phase == Phase::Open {
            let Some(left) = end.checked_duration_since(Instant::now()) else { break };
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn set(&self, phase: Phase) {
        self.lock().phase = phase;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    use super::*;

    #[test]
    fn a_closed_gate_brings_all_actors_to_rest_and_an_open_one_lets_them_continue() {
        let (gate, acts) = (Gate::new(), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while gate.pass(|| ()) {
                        acts.fetch_add(1, SeqCst);
                    }
                });
            }
            assert_eq!(gate.close(3, Duration::from_secs(5)), 0);
            let quiet = acts.load(SeqCst);
            std::thread::sleep(Duration::from_millis(30));
            assert_eq!(acts.load(SeqCst), quiet, "no actor acts in a moment of quiet");
            gate.open();
            while acts.load(SeqCst) == quiet {
                std::thread::yield_now();
            }
            gate.end();
        });
    }

    #[test]
    fn who_does_not_come_is_counted() {
        let gate = Gate::new();
        assert_eq!(gate.close(2, Duration::from_millis(10)), 2);
    }

    #[test]
    fn a_nap_ends_when_the_gate_closes() {
        let gate = Gate::new();
        let begin = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| gate.nap(Duration::from_secs(60)));
            gate.close(0, Duration::ZERO);
        });
        assert!(begin.elapsed() < Duration::from_secs(30));
    }
}
