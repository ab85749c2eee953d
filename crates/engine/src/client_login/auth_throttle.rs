//! The throttle of failed logins.
//!
//! The refusal of a wrong password is delayed by `auth_failure_delay`, and twice as long with each further failure of
//! the same origin, up to 32 times as long; after a minute without failures the origin is dropped. Only the client
//! that failed waits. All workers receive each failure, and each counts for itself.
//!
//! Bounds: [`MAX_ORIGINS`] origins, and [`MAX_DELAYED`] delayed refusals; beyond that a failure counts as the first of
//! its origin, or is refused at once.

use std::collections::HashMap;

use weir_base::{ClientAddr, Origin, Span, Time, shrink};
use weir_session::Refusal;

use crate::common::Cx;
use crate::port::Io;
use crate::workers::messages::Payload;

/// The limit of origins.
const MAX_ORIGINS: usize = 10_000;
/// The limit of delayed refusals.
const MAX_DELAYED: u32 = 1_000;
/// How often the delay doubles: five times make 32.
const DOUBLINGS: u32 = 5;
/// An origin is dropped after this time without failures.
const FORGET_AFTER: Span = Span::from_secs(60);

#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    last: Time,
}

/// The failures of the last minute, and the number of delayed refusals.
#[derive(Default)]
pub(crate) struct AuthThrottle {
    origins: HashMap<Origin, Failures>,
    delayed: u32,
    /// When origins without failures were last dropped.
    swept_at: Time,
}

impl AuthThrottle {
    /// A client of this worker has failed to log in: notifies the other workers, and returns the delay of its refusal.
    /// `None`: it is refused at once. Each delay ends with [`AuthThrottle::delay_over`].
    pub(crate) fn delay<I: Io>(&mut self, cx: &mut Cx<'_, I>, from: &ClientAddr, refusal: &Refusal) -> Option<Span> {
        let first = cx.common.config().auth.failure_delay;
        let guessed = matches!(
            refusal,
            Refusal::PasswordFailed
                | Refusal::SaslFailed
                | Refusal::NoSuchUser
                | Refusal::LdapFailed
                | Refusal::PamFailed
                | Refusal::OauthFailed { asked: false, .. }
        );
        if first.is_zero() || !guessed {
            return None;
        }
        let origin = Origin::of(from);
        let delay = self.note(origin, first, cx.now);
        let delay = longer_by_chance(delay, u32::from_be_bytes(cx.common.random_bytes()));
        cx.post_to_others(|| Payload::Failed(origin));
        self.hold().then_some(delay)
    }

    /// Adds a delayed refusal, if there is room.
    fn hold(&mut self) -> bool {
        let room = self.delayed < MAX_DELAYED;
        self.delayed += u32::from(room);
        room
    }

    /// A client with a delayed refusal has been closed.
    pub(crate) fn delay_over(&mut self) {
        self.delayed = self.delayed.saturating_sub(1);
    }

    /// A login has failed at another worker.
    pub(crate) fn failed_elsewhere<I: Io>(&mut self, cx: &mut Cx<'_, I>, origin: Origin) {
        self.note(origin, cx.common.config().auth.failure_delay, cx.now);
    }

    /// Counts a failure; returns its delay.
    fn note(&mut self, origin: Origin, first: Span, now: Time) -> Span {
        if self.origins.len() >= MAX_ORIGINS && now.since(self.swept_at) >= Span::from_secs(1) {
            self.swept_at = now;
            self.origins.retain(|_, failures| now.since(failures.last) < FORGET_AFTER);
            shrink(&mut self.origins, 64);
        }
        if self.origins.len() >= MAX_ORIGINS && !self.origins.contains_key(&origin) {
            return first;
        }
        let failures = self.origins.entry(origin).or_insert(Failures { count: 0, last: now });
        if now.since(failures.last) >= FORGET_AFTER {
            failures.count = 0;
        }
        let doublings = failures.count.min(DOUBLINGS);
        *failures = Failures { count: failures.count.saturating_add(1), last: now };
        Span::from_micros(first.micros().saturating_mul(1 << doublings))
    }
}

/// A delay, longer by up to a quarter at random, which hides how long the check of the password took.
fn longer_by_chance(delay: Span, chance: u32) -> Span {
    let more = (u128::from(delay.micros() / 4) * u128::from(chance)) >> 32;
    Span::from_micros(delay.micros().saturating_add(more as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Span = Span::from_secs(1);

    fn at(secs: u64) -> Time {
        Time::START + Span::from_secs(secs)
    }

    #[test]
    fn the_delay_doubles_up_to_32_times_and_a_minute_without_failures_ends_it() {
        let (mut throttle, origin) = (AuthThrottle::default(), Origin::V4(1));
        let delays: Vec<u64> =
            (0..8).map(|second| throttle.note(origin, FIRST, at(second)).micros() / 1_000_000).collect();
        assert_eq!(delays, [1, 2, 4, 8, 16, 32, 32, 32]);
        assert_eq!(throttle.note(origin, FIRST, at(7 + 59)), Span::from_secs(32));
        assert_eq!(throttle.note(origin, FIRST, at(66 + 60)), FIRST);
    }

    #[test]
    fn neither_what_is_remembered_nor_what_is_delayed_grows_without_bound() {
        let mut throttle = AuthThrottle::default();
        for host in 0..2 * MAX_ORIGINS as u32 {
            throttle.note(Origin::V4(host), FIRST, at(1));
        }
        assert_eq!(throttle.origins.len(), MAX_ORIGINS);
        assert_eq!(throttle.note(Origin::Local(1), FIRST, at(2)), FIRST);
        assert_eq!(throttle.note(Origin::Local(1), FIRST, at(2)), FIRST, "there was no room to remember it");
        throttle.note(Origin::Local(1), FIRST, at(100));
        assert_eq!(throttle.origins.len(), 1, "those without failures are forgotten");
        assert_eq!((0..2 * MAX_DELAYED).filter(|_| throttle.hold()).count(), MAX_DELAYED as usize);
        throttle.delay_over();
        assert!(throttle.hold() && !throttle.hold());
    }

    #[test]
    fn a_delay_grows_by_less_than_a_quarter() {
        assert_eq!(longer_by_chance(FIRST, 0), FIRST);
        let longest = longer_by_chance(FIRST, u32::MAX);
        assert!(longest > FIRST && longest < Span::from_millis(1250));
    }
}
