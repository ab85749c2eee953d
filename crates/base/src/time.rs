//! Time as a value: functions get the present time as an argument. Only the runtime and the simulator own a clock.

use std::ops::{Add, Sub};

/// A length of time in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Span(u64);

impl Span {
    /// Zero. As a limit it means "no limit", as in PgBouncer's settings.
    pub const ZERO: Span = Span(0);

    /// A span of whole seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Span(secs * 1_000_000)
    }

    /// A span of whole milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Span(millis * 1_000)
    }

    /// A span of microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Span(micros)
    }

    /// The whole span in microseconds.
    pub const fn micros(self) -> u64 {
        self.0
    }

    /// Whether this is [`Span::ZERO`].
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

/// A moment on the monotonic clock: microseconds since the process (or the simulated world) began.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Time(u64);

impl Time {
    /// The beginning of the process.
    pub const START: Time = Time(0);
    /// A moment that is never reached: the value of an unset deadline.
    pub const NEVER: Time = Time(u64::MAX);

    /// The moment `micros` microseconds after the beginning.
    pub const fn from_micros(micros: u64) -> Self {
        Time(micros)
    }

    /// Microseconds since the beginning.
    pub const fn micros(self) -> u64 {
        self.0
    }

    /// The time that passed since `earlier`; zero if `earlier` is in the future.
    pub const fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// `self + limit`, where a limit of zero means that the moment never comes.
    pub const fn deadline(self, limit: Span) -> Time {
        if limit.0 == 0 { Time::NEVER } else { Time(self.0.saturating_add(limit.0)) }
    }
}

impl Add<Span> for Time {
    type Output = Time;
    fn add(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }
}

impl Sub<Time> for Time {
    type Output = Span;
    fn sub(self, earlier: Time) -> Span {
        self.since(earlier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_zero_never_expires() {
        assert_eq!(Time::from_micros(5).deadline(Span::ZERO), Time::NEVER);
        assert_eq!(Time::from_micros(5).deadline(Span::from_micros(2)), Time::from_micros(7));
    }

    #[test]
    fn time_does_not_run_backwards() {
        assert_eq!(Time::from_micros(5).since(Time::from_micros(9)), Span::ZERO);
    }
}
