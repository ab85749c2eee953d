//! A worker's load: its thread's share of CPU time, for the placement of clients.
//!
//! Costs a comparison a round, and a system call a second. Must not know the purpose of the figure.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use weir_base::{Span, Time};

/// The interval between measurements.
const PERIOD: Span = Span::from_secs(1);

/// The smallest change that is reported, in per cent.
const CHANGE: u8 = 5;

/// The load of the calling thread.
#[derive(Debug)]
pub(crate) struct Load {
    since: Time,
    due: Time,
    used: Duration,
    published: u8,
}

impl Load {
    /// `alone`: there is no other worker, so the load is never reported.
    pub(crate) fn new(alone: bool, now: Time) -> Load {
        Load { since: now, due: if alone { Time::NEVER } else { now + PERIOD }, used: Duration::ZERO, published: 0 }
    }

    /// Until when the loop may sleep: a worker that was busy must report that it no longer is.
    pub(crate) fn deadline(&self) -> Time {
        if self.published == 0 { Time::NEVER } else { self.due }
    }

    /// The load since the last measurement, in per cent, if it has changed.
    #[inline]
    pub(crate) fn changed(&mut self, now: Time) -> Option<u8> {
        if now < self.due { None } else { self.look(now, used()) }
    }

    #[cold]
    fn look(&mut self, now: Time, used: Duration) -> Option<u8> {
        let busy = used.saturating_sub(self.used).as_micros();
        let percent = (busy * 100 / u128::from((now - self.since).micros().max(1))).min(100) as u8;
        (self.since, self.due, self.used) = (now, now + PERIOD, used);
        let changed = percent.abs_diff(self.published) >= CHANGE || (percent == 0 && self.published > 0);
        if changed {
            self.published = percent;
        }
        changed.then_some(percent)
    }
}

/// The CPU time of this thread so far.
fn used() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_reported_when_it_has_changed() {
        let second = |n: u64| Time::START + Span::from_secs(n);
        let mut load = Load::new(false, Time::START);
        assert_eq!(load.deadline(), Time::NEVER);
        assert_eq!(load.look(second(1), Duration::from_millis(900)), Some(90));
        assert_eq!(load.deadline(), second(2));
        assert_eq!(load.look(second(2), Duration::from_millis(1_780)), None);
        assert_eq!(load.look(second(4), Duration::from_millis(1_780)), Some(0));
        assert_eq!(load.deadline(), Time::NEVER);
    }

    #[test]
    fn one_alone_is_not_asked() {
        assert_eq!(Load::new(true, Time::START).changed(Time::START + Span::from_secs(9)), None);
    }
}
