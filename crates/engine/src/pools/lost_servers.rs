//! Servers of a pool that the database server ends, again and again (docs/health.md).
//!
//! Owns two windows of [`WINDOW`] each. Costs nothing but when a server is lost.

use weir_admin::{ClientNames, FailingOf, FailingQueries, SqlState, is_grave};
use weir_base::{Span, Time};

use crate::pools::error_codes::ErrorCodes;

/// The length of a window: the older one ends where the newer begins.
const WINDOW: Span = Span::from_secs(15);
/// How long a pool counts as failing after the last time that too many servers were lost.
const HOLD: Span = Span::from_secs(10);
/// So many are lost, and as many as the pool has ...
const LEAST: u32 = 3;
/// ... not at once: a restart, or an operator who ends all sessions, does that.
const APART: Span = Span::from_secs(2);

/// See the head of the file.
#[derive(Default)]
pub(crate) struct LostServers(Option<Box<Windows>>);

#[derive(Default)]
struct Windows {
    now: Window,
    before: Window,
    failing: Option<Failing>,
}

#[derive(Clone, Copy)]
struct Failing {
    since: Time,
    until: Time,
}

#[derive(Default)]
struct Window {
    since: Time,
    first: Time,
    last: Time,
    lost: u32,
    codes: ErrorCodes,
}

impl LostServers {
    /// A server was ended, with this error; the pool has so many others.
    pub(crate) fn count(&mut self, code: SqlState, others: u32, now: Time) {
        if is_grave(&code) {
            let windows = self.0.get_or_insert_with(|| Box::new(Windows::new(now)));
            windows.advance(now);
            windows.now.count(code, now);
            windows.note(others, now);
        }
    }

    /// Whether the pool is failing by its losses.
    pub(crate) fn is_failing(&self, now: Time) -> bool {
        self.0.as_ref().is_some_and(|windows| windows.failing_since(now).is_some())
    }

    /// The losses, if the pool is failing by them; `wall` converts a time to microseconds since 1970.
    pub(crate) fn failing(&self, now: Time, wall: impl Fn(Time) -> u64) -> Option<FailingQueries> {
        let windows = self.0.as_ref()?;
        Some(FailingQueries {
            since: wall(windows.failing_since(now)?),
            last: wall(windows.last()),
            of: FailingOf::Servers,
            sqlstate: windows.now.codes.most_frequent(&windows.before.codes),
            errors: windows.lost().into(),
            queries: 0,
            clients: 0,
            by: ClientNames::default(),
        })
    }
}

impl Windows {
    fn new(now: Time) -> Windows {
        Windows { now: Window::begin(now), ..Windows::default() }
    }

    fn advance(&mut self, now: Time) {
        let end = self.now.since + WINDOW;
        if now >= end {
            let present = std::mem::replace(&mut self.now, Window::begin(now));
            self.before = if now < end + WINDOW { present } else { Window::default() };
        }
    }

    fn lost(&self) -> u32 {
        self.now.lost + self.before.lost
    }

    fn first(&self) -> Time {
        if self.before.lost > 0 { self.before.first } else { self.now.first }
    }

    fn last(&self) -> Time {
        self.now.last.max(self.before.last)
    }

    fn failing_since(&self, now: Time) -> Option<Time> {
        self.failing.filter(|failing| now < failing.until).map(|failing| failing.since)
    }

    fn note(&mut self, others: u32, now: Time) {
        if self.lost() >= LEAST.max(others + 1) && self.last().since(self.first()) >= APART {
            let since = self.failing_since(now).unwrap_or_else(|| self.first());
            self.failing = Some(Failing { since, until: now + HOLD });
        }
    }
}

impl Window {
    fn begin(now: Time) -> Window {
        Window { since: now, ..Window::default() }
    }

    fn count(&mut self, code: SqlState, now: Time) {
        if self.lost == 0 {
            self.first = now;
        }
        self.lost += 1;
        self.last = now;
        self.codes.count(code);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::from_micros((1_000 + seconds) * 1_000_000)
    }

    #[test]
    fn servers_that_are_ended_again_and_again_are_a_failure_and_all_at_once_are_none() {
        let mut lost = LostServers::default();
        (0..8).for_each(|number| lost.count(*b"57P01", 7 - number, at(0)));
        assert!(!lost.is_failing(at(0)));
        (0..8).for_each(|number| lost.count(*b"57P01", 7 - number, at(9)));
        let failing = lost.failing(at(18), Time::micros).expect("twice within seconds");
        assert_eq!((failing.of, failing.errors, failing.since), (FailingOf::Servers, 16, at(0).micros()));
        assert_eq!(lost.failing(at(19), Time::micros), None);
        (20..40).for_each(|second| lost.count(*b"57P05", 0, at(second)));
        assert!(!lost.is_failing(at(40)), "idle sessions that have lasted too long");
    }

    #[test]
    fn a_few_of_many_are_none() {
        let mut lost = LostServers::default();
        (0..60).for_each(|second| lost.count(*b"57P01", 39, at(second)));
        assert!(!lost.is_failing(at(60)));
    }
}
