//! The request to stop: set by a signal, by the end of the terminal, or by who waits for threads.

use std::io::{IsTerminal, stderr, stdin, stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use weir_pglocal::Signal;

use crate::failure::Failure;

/// A sleep that a signal should end is cut into pieces of this length.
const SLICE: Duration = Duration::from_millis(50);

/// Set by the first Ctrl-C (or TERM, or HUP); a second one ends the process at once, and the reaper clears up.
#[derive(Clone, Debug, Default)]
pub(super) struct Stop {
    requested: Arc<AtomicBool>,
    /// Which of the standard streams were terminals at first, if their end is to end the demo.
    ///
    /// The kernel sends HUP to the leader of the session, and to others only when that has ended. A leader such as
    /// `make` waits for the demo instead.
    terminals: [bool; 3],
}

impl Stop {
    /// One that signals set.
    pub(super) fn on_signals() -> Result<Self, Failure> {
        // Started under nohup, it continues when its terminal is gone.
        let hup = (!weir_pglocal::is_ignored(Signal::SIGHUP)).then_some(SIGHUP);
        let terminals = hup.map_or([false; 3], |_| are_terminals());
        let stop = Stop { requested: Arc::default(), terminals };
        for signal in [SIGINT, SIGTERM].into_iter().chain(hup) {
            // In this order: the first signal finds the flag unset, and sets it.
            signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&stop.requested))
                .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop.requested)))
                .map_err(|e| Failure::at("listen for signals", e))?;
        }
        Ok(stop)
    }

    pub(super) fn is_requested(&self) -> bool {
        self.requested.load(Ordering::Relaxed) || self.terminal_is_gone()
    }

    pub(super) fn request(&self) {
        self.requested.store(true, Ordering::Relaxed);
    }

    /// A terminal that was closed is none any more.
    fn terminal_is_gone(&self) -> bool {
        self.terminals.contains(&true) && self.terminals.into_iter().zip(are_terminals()).any(|(was, is)| was && !is)
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

fn are_terminals() -> [bool; 3] {
    [stdin().is_terminal(), stdout().is_terminal(), stderr().is_terminal()]
}
