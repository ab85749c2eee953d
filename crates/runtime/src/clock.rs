//! The process's clock: the only place where the data plane reads the time. It counts the time in which the machine is
//! suspended, so that timeouts, and leases of a cluster, end in time then.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::time::{ClockId, clock_gettime};

use weir_base::Time;

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
