//! How far the log's thread has come, for a worker that is about to send a client an error that has just been logged.
//!
//! An operator or a test that reads the log when a client or a console command has failed must find the reason there.
//! So a worker waits for the lines of an error before it sends the error: for [`MOST`] at the longest, [`FEW`] times a
//! second and on as long as that has taken less than [`A_SECOND`], and not at all for a second after a wait without
//! success. So a log that can't be written delays no client, and a client whose every request fails delays the others
//! by a small part of the time.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The longest wait for lines.
const MOST: Duration = Duration::from_millis(20);
/// So many waits there are in each second, however long they take: errors come one by one where somebody looks.
const FEW: u32 = 8;
/// How long one may have waited in a second for there to be more waits than these few: so far below a hundredth of the
/// time that the 99th percentile of others stays what it is.
const A_SECOND: Duration = Duration::from_millis(4);

/// How far the log's thread has come, see the head of the file.
pub(super) struct Progress {
    state: Mutex<State>,
    moved: Condvar,
}

struct State {
    /// Lines queued, and those of them that are written, or lost by their target.
    queued: u64,
    written: u64,
    waits: Waits,
}

/// How long workers have waited in a second, which may begin in the future.
struct Waits {
    second: Instant,
    number: u32,
    spent: Duration,
}

impl Waits {
    fn beginning(second: Instant) -> Waits {
        Waits { second, number: 0, spent: Duration::ZERO }
    }

    /// Whether one may wait now.
    fn is_allowed(&mut self, now: Instant) -> bool {
        if now.saturating_duration_since(self.second) >= Duration::from_secs(1) {
            *self = Waits::beginning(now);
        }
        now >= self.second && (self.number < FEW || self.spent < A_SECOND)
    }

    /// A wait ends now.
    fn note(&mut self, began: Instant, now: Instant, in_vain: bool) {
        self.number += 1;
        self.spent += now.duration_since(began);
        if in_vain {
            *self = Waits::beginning(now + Duration::from_secs(1));
        }
    }
}

impl Progress {
    pub(super) fn new() -> Progress {
        let waits = Waits::beginning(Instant::now());
        let state = State { queued: 0, written: 0, waits };
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
        let line = state.queued;
        if state.written >= line || !state.waits.is_allowed(now) {
            return;
        }
        let waited = self.moved.wait_timeout_while(state, MOST, |state| state.written < line);
        let (mut state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        let in_vain = waited.timed_out() && state.written < line;
        state.waits.note(now, Instant::now(), in_vain);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_take_a_small_part_of_each_second_and_none_follows_one_in_vain() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut waits = Waits::beginning(start);
        let mut waited = |second: u64, takes: Duration| {
            let moments = (second..second + 990).step_by(10).map(at);
            let mut allowed = 0;
            for moment in moments {
                if waits.is_allowed(moment) {
                    waits.note(moment, moment + takes, false);
                    allowed += 1;
                }
            }
            allowed
        };
        for second in [0, 1000] {
            assert_eq!(waited(second, Duration::from_millis(3)), FEW, "in the second from {second} ms on");
        }
        assert_eq!(waited(2000, Duration::from_micros(100)), 40, "short ones");
        assert!(waits.is_allowed(at(3000)));
        waits.note(at(3000), at(3020), true);
        assert!(!waits.is_allowed(at(3020)) && !waits.is_allowed(at(4010)));
        assert!(waits.is_allowed(at(4020)));
    }

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
