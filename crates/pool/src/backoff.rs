//! When the next connect may begin: after a failure not too soon, and never too many a second.

use weir_base::{Span, Time};

use crate::types::ConnectFailure;

/// The pause after the first failed login that no client waits for, or that waiting can't change, if
/// `server_login_retry` allows it.
pub(crate) const FIRST_RETRY: Span = Span::from_secs(1);

/// The shortest of these pauses, whatever `server_login_retry` says: a dead server must not cost a busy loop.
const SHORTEST_RETRY: Span = Span::from_millis(100);

/// The pauses while clients wait for a server that is away: short, so that they are served within a tenth of a second
/// after it is back. An attempt without an answer costs little.
const AWAY: (Span, Span) = (Span::from_millis(20), Span::from_millis(50));

/// The pauses for servers that answer and do not serve yet: each attempt costs them a login.
const NOT_READY: (Span, Span) = (Span::from_millis(100), Span::from_secs(1));

/// What the logins so far say about the server.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Health {
    /// The last login succeeded, or there was none.
    Fine,
    /// This many logins in a row have failed, and clients wait: the server is away, or not ready.
    Away(u32),
    /// This many logins in a row have failed, and clients are refused.
    Down(u32),
}

/// The pause after a failed login.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    health: Health,
    opens: Time,
    opens_unwanted: Time,
}

impl Backoff {
    pub(crate) fn new() -> Self {
        Backoff { health: Health::Fine, opens: Time::START, opens_unwanted: Time::START }
    }

    /// When the next login may begin; `wanted`: a client waits for it.
    pub(crate) fn opens(&self, wanted: bool) -> Time {
        if wanted { self.opens } else { self.opens_unwanted }
    }

    pub(crate) fn health(&self) -> Health {
        self.health
    }

    /// Whether the server is known to be down and is not to be tried yet.
    pub(crate) fn is_down(&self, now: Time) -> bool {
        matches!(self.health, Health::Down(_)) && now < self.opens
    }

    /// Another worker tries the logins, and reports that the server is down until then.
    pub(crate) fn mark_down(&mut self, until: Time) {
        *self = Backoff { health: Health::Down(1), opens: until, opens_unwanted: until };
    }

    pub(crate) fn succeeded(&mut self) {
        *self = Backoff::new();
    }

    /// Closes the backoff for a while: a second, doubled with each failure in a row, up to `longest`. While clients
    /// wait for a server that is away or not ready, the pauses are shorter ([`ConnectFailure`] says how long), also
    /// capped by `longest`. Reduced by up to an eighth, so that pools do not retry together. A failure that leaves
    /// another way open closes nothing.
    pub(crate) fn failed(&mut self, failure: ConnectFailure, longest: Span, jitter: &mut Jitter, now: Time) {
        let before = match self.health {
            Health::Fine => 0,
            Health::Away(failures) | Health::Down(failures) => failures,
        };
        let failures = before.saturating_add(1);
        let slow = doubled(FIRST_RETRY, before, longest.max(SHORTEST_RETRY));
        let fast = |(first, most): (Span, Span)| doubled(first, before, most.min(longest.max(first)));
        let (health, pause) = match failure {
            ConnectFailure::Elsewhere => return,
            ConnectFailure::Away => (Health::Away(failures), fast(AWAY)),
            ConnectFailure::NotReady => (Health::Away(failures), fast(NOT_READY)),
            ConnectFailure::Refused => (Health::Down(failures), slow),
        };
        let mut after = |pause: Span| {
            let less = jitter.up_to(Span::from_micros(pause.micros() / 8));
            now + Span::from_micros(pause.micros() - less.micros())
        };
        self.health = health;
        self.opens = after(pause);
        self.opens_unwanted = if pause == slow { self.opens } else { after(slow).max(self.opens) };
    }
}

/// `first`, doubled this many times, capped by `most`.
fn doubled(first: Span, times: u32, most: Span) -> Span {
    Span::from_micros(first.micros() << times.min(20)).min(most)
}

/// At most this many connects a second, with bursts of a second's worth.
///
/// A bucket of tokens kept as one moment: when it will be full again (the generic cell rate algorithm).
#[derive(Clone, Debug)]
pub(crate) struct ConnectRate {
    full_at: Time,
}

impl ConnectRate {
    pub(crate) fn new() -> Self {
        ConnectRate { full_at: Time::START }
    }

    /// When there is a token.
    pub(crate) fn ready(&self, per_second: u32) -> Time {
        if per_second == 0 {
            return Time::START;
        }
        let room = 1_000_000 - token(per_second);
        Time::from_micros(self.full_at.micros().saturating_sub(room))
    }

    /// Takes a token.
    pub(crate) fn take(&mut self, per_second: u32, now: Time) {
        if per_second > 0 {
            self.full_at = self.full_at.max(now) + Span::from_micros(token(per_second));
        }
    }
}

/// The time in which the bucket gains a token, in microseconds.
fn token(per_second: u32) -> u64 {
    (1_000_000 / u64::from(per_second)).max(1)
}

/// Small random differences (the splitmix64 sequence), so that what began together does not end together.
#[derive(Clone, Debug)]
pub(crate) struct Jitter(u64);

impl Jitter {
    pub(crate) fn new(seed: u64) -> Self {
        Jitter(seed)
    }

    /// A span between zero and `most`, both included.
    pub(crate) fn up_to(&mut self, most: Span) -> Span {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^= word >> 31;
        Span::from_micros(word % most.micros().saturating_add(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_back_off_from_a_second_to_the_setting() {
        let (mut backoff, mut jitter) = (Backoff::new(), Jitter::new(1));
        let now = Time::from_micros(5_000_000);
        for secs in [1, 2, 4, 8, 15, 15, 15] {
            backoff.failed(ConnectFailure::Refused, Span::from_secs(15), &mut jitter, now);
            let pause = backoff.opens(true) - now;
            assert!(pause <= Span::from_secs(secs) && pause >= Span::from_millis(secs * 875), "{pause:?} of {secs} s");
            assert_eq!(backoff.opens(false), backoff.opens(true), "also while a client waits");
            assert!(backoff.is_down(now));
            assert!(!backoff.is_down(backoff.opens(true)));
        }
        backoff.succeeded();
        assert_eq!(backoff.opens(true), Time::START);
        assert_eq!(backoff.health(), Health::Fine);
    }

    #[test]
    fn a_retry_setting_of_zero_is_no_busy_loop() {
        let (mut backoff, mut jitter) = (Backoff::new(), Jitter::new(1));
        for _ in 0..100 {
            backoff.failed(ConnectFailure::Refused, Span::ZERO, &mut jitter, Time::START);
            assert!(backoff.opens(true) >= Time::START + Span::from_millis(87));
            backoff.failed(ConnectFailure::Away, Span::ZERO, &mut jitter, Time::START);
            assert!(backoff.opens(true) >= Time::START + Span::from_millis(17));
            assert!(backoff.opens(false) >= Time::START + Span::from_millis(87));
        }
    }

    #[test]
    fn a_server_that_is_away_is_not_down_and_tried_often_while_a_client_waits() {
        let (mut backoff, mut jitter) = (Backoff::new(), Jitter::new(1));
        for (failure, waited, alone) in
            [(1, 20, 1_000), (2, 40, 2_000), (3, 50, 4_000), (4, 50, 8_000), (5, 50, 15_000), (6, 50, 15_000)]
        {
            backoff.failed(ConnectFailure::Away, Span::from_secs(15), &mut jitter, Time::START);
            assert!(!backoff.is_down(Time::START));
            for (wanted, millis) in [(true, waited), (false, alone)] {
                let pause = backoff.opens(wanted) - Time::START;
                assert!(pause <= Span::from_millis(millis), "failure {failure}: {pause:?} of {millis} ms");
                assert!(pause.micros() >= millis * 875, "failure {failure}: {pause:?} of {millis} ms");
            }
        }
    }

    #[test]
    fn a_server_that_is_not_ready_is_tried_up_to_once_a_second() {
        let (mut backoff, mut jitter) = (Backoff::new(), Jitter::new(1));
        for millis in [100, 200, 400, 800, 1_000, 1_000] {
            backoff.failed(ConnectFailure::NotReady, Span::from_secs(15), &mut jitter, Time::START);
            assert!(!backoff.is_down(Time::START));
            let pause = backoff.opens(true) - Time::START;
            assert!(pause <= Span::from_millis(millis) && pause.micros() >= millis * 875, "{pause:?} of {millis} ms");
        }
    }

    #[test]
    fn connects_come_in_a_burst_and_then_at_their_rate() {
        let mut rate = ConnectRate::new();
        let mut now = Time::from_micros(9_000_000);
        let mut burst = 0;
        while rate.ready(10) <= now {
            rate.take(10, now);
            burst += 1;
        }
        assert_eq!(burst, 10);
        assert_eq!(rate.ready(10), now + Span::from_millis(100));
        now = rate.ready(10);
        rate.take(10, now);
        assert_eq!(rate.ready(10), now + Span::from_millis(100));
    }

    #[test]
    fn a_rate_of_zero_is_no_limit() {
        let mut rate = ConnectRate::new();
        rate.take(0, Time::START);
        assert_eq!(rate.ready(0), Time::START);
    }
}
