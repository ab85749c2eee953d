//! A moment by both clocks: one that nobody sets, and the calendar's, by which services say how long something is
//! valid.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use weir_config::moment_text;

/// Clocks that differ by more have been set meanwhile, or the machine has slept. A clock that is slewed for an hour
/// differs by less (adjtimex(2): 500 ppm).
const JUMP: Duration = Duration::from_secs(5);

/// What both clocks show at a moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockReading {
    /// By the clock that only goes on.
    pub steady: Instant,
    /// By the calendar's clock.
    pub calendar: SystemTime,
}

impl ClockReading {
    /// This moment.
    pub fn now() -> ClockReading {
        ClockReading { steady: Instant::now(), calendar: SystemTime::now() }
    }

    /// The time since an earlier moment, however the calendar's clock was set meanwhile.
    pub fn age_of(self, earlier: ClockReading) -> Duration {
        self.steady.saturating_duration_since(earlier.steady)
    }

    /// Whether the calendar's clock was set since an earlier moment, or the machine has slept.
    pub fn has_jumped_since(self, earlier: ClockReading) -> bool {
        let expected = earlier.calendar + self.age_of(earlier);
        self.calendar.duration_since(expected).unwrap_or_else(|behind| behind.duration()) > JUMP
    }

    /// Seconds since 1970.
    pub fn seconds(self) -> u64 {
        self.calendar.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
    }

    /// How long it is until a moment of the calendar, in seconds since 1970; `None` if that is over.
    pub(crate) fn until(self, seconds: u64) -> Option<Duration> {
        seconds.checked_sub(self.seconds()).filter(|left| *left > 0).map(Duration::from_secs)
    }

    /// The calendar's time, as in `2026-07-01T12:00:00Z`.
    pub(crate) fn text(self) -> String {
        moment_text(self.seconds())
    }

    /// The moment after some time.
    pub fn after(self, time: Duration) -> ClockReading {
        ClockReading { steady: self.steady + time, calendar: self.calendar + time }
    }
}
