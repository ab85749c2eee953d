//! The process's clock: the only place where the data plane reads the time. It counts the time in which the machine is
//! suspended, so that timeouts, and leases of a cluster, end in time then.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::time::{ClockId, clock_gettime};

use weir_base::{Span, Time};

/// Microseconds since the start of the process, the same for all workers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// The start of the process on the system's clock, in microseconds.
    start: u64,
    wall: u64,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Clock { start: boot_micros(), wall: unix_micros() }
    }

    /// A clock that continues the clock of another process, which began at `wall` and stands at `now`.
    pub(crate) fn continuing((wall, now): (u64, u64)) -> Self {
        Clock { start: boot_micros().saturating_sub(now), wall }
    }

    #[inline]
    pub(crate) fn now(&self) -> Time {
        Time::from_micros(boot_micros().saturating_sub(self.start))
    }

    /// The wall clock at [`Time::START`], in microseconds since 1970.
    pub(crate) fn wall_at_start(&self) -> u64 {
        self.wall
    }
}

/// Between two looks at the wall clock.
const LOOKS: Span = Span::from_secs(1);
/// The wall clock was set if it has moved by more than this against the process's clock, in microseconds.
const MOVED: u64 = 500_000;

/// Notices that the system's wall clock was set, as by NTP after the start of a machine. Everything that compares times of
/// workers with the present would otherwise be wrong until the process ends.
#[derive(Debug)]
pub(crate) struct WallWatch {
    at_start: u64,
    looked: Time,
}

impl WallWatch {
    pub(crate) fn new(clock: &Clock) -> WallWatch {
        WallWatch { at_start: clock.wall, looked: Time::START }
    }

    /// The wall clock at [`Time::START`], if that has changed; looked at once a second.
    #[inline]
    pub(crate) fn changed(&mut self, now: Time) -> Option<u64> {
        if now < self.looked + LOOKS {
            return None;
        }
        self.looked = now;
        self.moved(unix_micros().saturating_sub(now.micros()))
    }

    fn moved(&mut self, at_start: u64) -> Option<u64> {
        if at_start.abs_diff(self.at_start) <= MOVED {
            return None;
        }
        self.at_start = at_start;
        Some(at_start)
    }
}

/// The time since the machine was started, in microseconds. By the C library: rustix reads the vDSO itself, which is
/// not there under valgrind.
#[inline]
fn boot_micros() -> u64 {
    // Linux has had this clock since 2.6.39, so the call can't fail.
    clock_gettime(ClockId::CLOCK_BOOTTIME)
        .map_or(0, |time| time.tv_sec() as u64 * 1_000_000 + time.tv_nsec() as u64 / 1_000)
}

/// The wall clock, in microseconds since 1970.
pub(crate) fn unix_micros() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_micros() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_clock_that_is_set_is_noticed_once_and_one_that_goes_on_is_not() {
        let clock = Clock { start: 0, wall: 1_000_000_000 };
        let mut watch = WallWatch::new(&clock);
        assert_eq!(watch.moved(1_000_400_000), None);
        let hours = 7_200_000_000;
        assert_eq!(
            (watch.moved(1_000_000_000 + hours), watch.moved(1_000_000_100 + hours)),
            (Some(8_200_000_000), None)
        );
        assert_eq!(watch.moved(1_000_000_000), Some(1_000_000_000));
        assert_eq!(WallWatch::new(&Clock::start()).changed(Time::START), None, "it was looked at");
    }
}
