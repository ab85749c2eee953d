//! The request to stop: set by a signal, or by who waits for threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use weir_pglocal::Signal;

use crate::failure::Failure;

/// A sleep that a signal should end is cut into pieces of this length.
const SLICE: Duration = Duration::from_millis(50);

/// Set by the first Ctrl-C (or TERM, or HUP); a second one ends the process at once, and the caretaker clears up.
#[derive(Clone, Debug, Default)]
pub(super) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// One that signals set.
    pub(super) fn on_signals() -> Result<Self, Failure> {
        let stop = Stop::default();
        // Started under nohup, it continues when its terminal is gone.
        let hup = (!weir_pglocal::is_ignored(Signal::SIGHUP)).then_some(SIGHUP);
        for signal in [SIGINT, SIGTERM].into_iter().chain(hup) {
            // In this order: the first signal finds the flag unset, and sets it.
            signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&stop.0))
                .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop.0)))
                .map_err(|e| Failure::at("listen for signals", e))?;
        }
        Ok(stop)
    }

    pub(super) fn is_requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Sleeps until the time is over or the stop is requested. Returns whether to go on.
    pub(super) fn sleep(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        while !self.is_requested() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            thread::sleep(left.min(SLICE));
        }
        false
    }
}
