//! The process's clock: the only place where the data plane reads the time.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use weir_base::Time;

/// Microseconds since the start of the process, the same for all workers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
    wall: u64,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Clock { start: Instant::now(), wall: unix_micros() }
    }

    /// Goes on where another process's clock, which began at `wall`, stands at `now`.
    pub(crate) fn continuing((wall, now): (u64, u64)) -> Self {
        let start = Instant::now();
        Clock { start: start.checked_sub(Duration::from_micros(now)).unwrap_or(start), wall }
    }

    #[inline]
    pub(crate) fn now(&self) -> Time {
        Time::from_micros(self.start.elapsed().as_micros() as u64)
    }

    /// The wall clock at [`Time::START`], in microseconds since 1970.
    pub(crate) fn wall_at_start(&self) -> u64 {
        self.wall
    }
}

/// The wall clock, in microseconds since 1970.
pub(crate) fn unix_micros() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_micros() as u64
}
