//! When it may be looked whether a pool's host takes writes, after errors or reports that may say that it does not.
//!
//! A client can cause such an error whenever it likes: looks that find nothing become rare.

use weir_base::{Span, Time};

/// The shortest and the longest time between two looks.
const SHORTEST: Span = Span::from_secs(1);
const LONGEST: Span = Span::from_secs(64);

/// The last look at a pool's host.
#[derive(Default)]
pub(crate) struct Looks {
    last: Option<Time>,
    /// The time until the next one at the least.
    pause: Span,
}

impl Looks {
    /// Whether a look may be taken now; then it is.
    pub(crate) fn may_look(&mut self, now: Time) -> bool {
        let may = self.next(now) <= now;
        if may {
            self.taken(now);
        }
        may
    }

    /// When to look, where there must be a look; none: one that comes is planned already.
    pub(crate) fn plan(&mut self, now: Time) -> Option<Time> {
        if self.last.is_some_and(|last| last > now) {
            return None;
        }
        let next = self.next(now);
        self.taken(next);
        Some(next)
    }

    fn next(&self, now: Time) -> Time {
        self.last.map_or(now, |last| (last + self.pause).max(now))
    }

    fn taken(&mut self, at: Time) {
        let quiet = self.last.is_none_or(|last| at.since(last).micros() > 2 * self.pause.micros());
        self.pause = if quiet { SHORTEST } else { Span::from_micros(2 * self.pause.micros()).min(LONGEST) };
        self.last = Some(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::START + Span::from_millis(millis)
    }

    #[test]
    fn looks_that_follow_each_other_become_rare() {
        let mut looks = Looks::default();
        let taken: Vec<u64> = (0..300_000).step_by(10).filter(|millis| looks.may_look(at(*millis))).collect();
        assert_eq!(taken, [0, 1_000, 3_000, 7_000, 15_000, 31_000, 63_000, 127_000, 191_000, 255_000]);
        assert!(looks.may_look(at(500_000)), "it was quiet");
        assert!(looks.may_look(at(501_000)));
    }

    #[test]
    fn a_look_that_must_be_is_taken_later_and_once() {
        let mut looks = Looks::default();
        assert_eq!(looks.plan(at(0)), Some(at(0)));
        assert_eq!(looks.plan(at(100)), Some(at(1_000)));
        assert_eq!(looks.plan(at(200)), None);
        assert!(!looks.may_look(at(200)));
        assert_eq!(looks.plan(at(1_500)), Some(at(3_000)));
    }
}
