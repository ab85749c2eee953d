//! How far the log's thread has come, for a worker that is about to send a client an error that has just been logged.
//!
//! An operator or a test that reads the log when a client or a console command has failed must find the reason there.
//! So a worker waits for the lines of an error before it sends the error: for [`MOST`] at the longest, at most
//! [`A_SECOND`] times a second, and not at all for a second after a wait without success. So a log that can't be
//! written delays no client.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The longest wait for lines.
const MOST: Duration = Duration::from_millis(20);
/// The most waits a second.
const A_SECOND: u32 = 100;

/// How far the log's thread has come, see the head of the file.
pub(super) struct Progress {
    state: Mutex<State>,
    moved: Condvar,
}

struct State {
    /// Lines queued, and those of them that are written, or lost by their target.
    queued: u64,
    written: u64,
    /// The second in which waits are counted, and their number; it may begin in the future.
    second: Instant,
    waits: u32,
}

impl Progress {
    pub(super) fn new() -> Progress {
        let state = State { queued: 0, written: 0, second: Instant::now(), waits: 0 };
        Progress { state: Mutex::new(state), moved: Condvar::new() }
    }

    /// Counts a line as queued.
    pub(super) fn queued(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).queued += 1;
    }

    /// Counts lines as written.
    pub(super) fn written(&self, lines: u64) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).written += lines;
        self.moved.notify_all();
    }

    /// Waits until what has been queued is written, within the limits above.
    pub(super) fn wait(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if now < state.second {
            return;
        }
        if now.duration_since(state.second) >= Duration::from_secs(1) {
            (state.second, state.waits) = (now, 0);
        }
        if state.waits >= A_SECOND {
            return;
        }
        state.waits += 1;
        let line = state.queued;
        let waited = self.moved.wait_timeout_while(state, MOST, |state| state.written < line);
        let (mut state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() && state.written < line {
            (state.second, state.waits) = (Instant::now() + Duration::from_secs(1), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_with_the_line_and_a_log_that_hangs_costs_one_wait_a_second() {
        let progress = Progress::new();
        progress.queued();
        progress.written(1);
        let begin = Instant::now();
        progress.wait();
        assert!(begin.elapsed() < MOST, "all is written");
        progress.queued();
        for _ in 0..1_000 {
            progress.wait();
        }
        assert!(begin.elapsed() < Duration::from_millis(500), "{:?}", begin.elapsed());
    }
}
