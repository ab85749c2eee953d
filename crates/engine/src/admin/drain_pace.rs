//! The pace of a drain: how many of a worker's clients may be closed by now.
//!
//! The number of clients that may be left falls evenly, from all of them to none, over the drain's time: those that
//! replace this process do not get all clients at once. Those that hold a part of a session have the last places.
//! Knows no client.
//!
//! A client that has done nothing for some seconds can be closed: a request that is on its way then is rare, and libraries
//! look at a connection that was unused before they hand it out. In the first half of the time only such clients are
//! closed, since a busy one may still become idle; then also those that have done nothing for a moment. Those that never
//! do are left when the time is over.

use weir_base::{Span, Time};

/// How long a client has done nothing when it is closed; the long time is shorter where the drain is short.
const REST: Rest = Rest { long: Span::from_secs(2), short: Span::from_millis(20) };
/// The shortest and the longest time between two looks at the clients, in microseconds. Each look is at all of them.
const LOOKS: (u64, u64) = (50_000, 250_000);

/// See the head of the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    begun: Time,
    ends: Time,
    /// The most clients that were there at a time.
    most: u32,
}

/// How long a client must have done nothing: at any time, and where many are late.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Rest {
    pub(crate) long: Span,
    pub(crate) short: Span,
}

/// How many clients may be closed now.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Due {
    /// Of those that hold nothing, and have rested.
    pub(crate) free: u32,
    /// Of those that hold a part of a session, and have rested.
    pub(crate) holding: u32,
    /// Of all, those that have rested for a moment.
    pub(crate) late: u32,
}

impl Pace {
    /// A drain that begins now, and takes this time.
    pub(crate) fn new(now: Time, time: Span) -> Pace {
        Pace { begun: now, ends: now + time, most: 0 }
    }

    /// When the drain's time is over.
    pub(crate) fn ends(&self) -> Time {
        self.ends
    }

    /// Whether the drain's time is over.
    pub(crate) fn is_over(&self, now: Time) -> bool {
        now >= self.ends
    }

    /// How many clients may be closed, where so many are left that hold nothing, and that hold a part of a session.
    pub(crate) fn due(&mut self, now: Time, free: u32, holding: u32) -> Due {
        let left = free + holding;
        self.most = self.most.max(left);
        let may_stay = self.may_stay(self.begun, now);
        let half = self.begun + Span::from_micros(self.length() / 2);
        Due {
            free: free.saturating_sub(may_stay.saturating_sub(holding)),
            holding: holding.saturating_sub(may_stay),
            late: left.saturating_sub(self.may_stay(half, now)),
        }
    }

    /// How long a client must have done nothing.
    pub(crate) fn rest(&self) -> Rest {
        Rest { long: REST.long.min(Span::from_micros(self.length() / 4)).max(REST.short), ..REST }
    }

    /// The time until the next look at the clients.
    pub(crate) fn interval(&self, now: Time) -> Span {
        if self.is_over(now) {
            return Span::from_micros(LOOKS.0);
        }
        let each = self.length() / u64::from(self.most.max(1));
        Span::from_micros(each.clamp(LOOKS.0, LOOKS.1))
    }

    /// How many clients may be left now, where they leave evenly from `from` on.
    fn may_stay(&self, from: Time, now: Time) -> u32 {
        if self.is_over(now) {
            return 0;
        }
        let (all, left) = (self.ends.since(from).micros(), self.ends.since(now.max(from)).micros());
        (u64::from(self.most) * left).div_ceil(all.max(1)) as u32
    }

    fn length(&self) -> u64 {
        self.ends.since(self.begun).micros()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::START + Span::from_secs(seconds)
    }

    /// Closes what is due each second; returns how many are left that hold nothing, and that hold something.
    fn run(mut free: u32, mut holding: u32) -> Vec<(u32, u32)> {
        let mut pace = Pace::new(at(0), Span::from_secs(10));
        let second = |second| {
            let due = pace.due(at(second), free, holding);
            (free, holding) = (free - due.free, holding - due.holding);
            (free, holding)
        };
        (0..=10).map(second).collect()
    }

    #[test]
    fn clients_leave_evenly() {
        let left: Vec<u32> = run(100, 0).into_iter().map(|(free, _)| free).collect();
        assert_eq!(left, [100, 90, 80, 70, 60, 50, 40, 30, 20, 10, 0]);
        assert_eq!(run(0, 3).last(), Some(&(0, 0)));
    }

    #[test]
    fn those_that_hold_a_part_of_a_session_are_the_last() {
        let left = run(60, 40);
        assert_eq!(left[3], (30, 40));
        assert_eq!(left[6], (0, 40), "the first of them waits for the last of the others");
        assert_eq!(left[8], (0, 20));
        assert_eq!(left[10], (0, 0));
    }

    #[test]
    fn clients_that_are_never_idle_are_closed_after_a_moment_in_the_second_half() {
        let mut pace = Pace::new(at(0), Span::from_secs(10));
        let due = [0, 4, 5, 6, 9].map(|second| pace.due(at(second), 100, 0).late);
        assert_eq!(due, [0, 0, 0, 20, 80]);
        assert_eq!(pace.due(at(10), 100, 0).late, 100);
        assert_eq!(pace.due(at(9), 20, 0).late, 0, "those that are left are in time");
    }

    #[test]
    fn without_a_time_all_are_due_at_once() {
        let mut pace = Pace::new(at(7), Span::ZERO);
        assert!(pace.is_over(at(7)));
        assert_eq!(pace.rest().long, REST.short);
        assert_eq!(pace.due(at(7), 5, 6), Due { free: 5, holding: 6, late: 11 });
    }

    #[test]
    fn looks_are_neither_too_many_nor_too_few() {
        let mut pace = Pace::new(at(0), Span::from_secs(10));
        assert_eq!(pace.interval(at(0)), Span::from_millis(250));
        pace.due(at(0), 100, 0);
        assert_eq!(pace.interval(at(0)), Span::from_millis(100));
        pace.due(at(0), 1_000_000, 0);
        assert_eq!(pace.interval(at(0)), Span::from_millis(50));
    }
}
