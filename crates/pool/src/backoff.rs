//! When the next connect may begin: after a failure not too soon, and never too many a second.

use weir_base::{Span, Time};

use crate::types::ConnectFailure;

/// The pause after the first failed login, if `server_login_retry` allows it, and while a server starts up.
const FIRST_RETRY: Span = Span::from_secs(1);

/// The shortest pause after a failed login, whatever `server_login_retry` says: a dead server must not cost a busy
/// loop.
const SHORTEST_RETRY: Span = Span::from_millis(100);

/// What the logins so far say about the server.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Health {
    /// The last login succeeded, or there was none.
    Fine,
    /// The last login failed because the server was starting up.
    StartingUp,
    /// This many logins in a row have failed.
    Down(u32),
}

/// The pause after a failed login.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    health: Health,
    opens: Time,
}

impl Backoff {
    pub(crate) fn new() -> Self {
        Backoff { health: Health::Fine, opens: Time::START }
    }

    /// When the next login may begin.
    pub(crate) fn opens(&self) -> Time {
        self.opens
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
        *self = Backoff { health: Health::Down(1), opens: until };
    }

    pub(crate) fn succeeded(&mut self) {
        *self = Backoff::new();
    }

    /// Closes the backoff for a while: a second for a server that starts up; otherwise a second, doubled with each
    /// failure in a row, up to `longest`. Up to an eighth less, so that pools do not come back together. A failure that
    /// leaves another way open closes nothing.
    pub(crate) fn failed(&mut self, failure: ConnectFailure, longest: Span, jitter: &mut Jitter, now: Time) {
        let longest = longest.max(SHORTEST_RETRY);
        let pause = match (failure, self.health) {
            (ConnectFailure::Elsewhere, _) => return,
            (ConnectFailure::StartingUp, _) => {
                self.health = Health::StartingUp;
                FIRST_RETRY
            }
            (ConnectFailure::Refused, Health::Down(failures)) => {
                self.health = Health::Down(failures.saturating_add(1));
                Span::from_micros(FIRST_RETRY.micros() << failures.min(20)).min(longest)
            }
            (ConnectFailure::Refused, _) => {
                self.health = Health::Down(1);
                FIRST_RETRY.min(longest)
            }
        };
        let less = jitter.up_to(Span::from_micros(pause.micros() / 8));
        self.opens = now + Span::from_micros(pause.micros() - less.micros());
    }
}

/// At most so many connects a second, with bursts of a second's worth.
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
            let pause = backoff.opens() - now;
            assert!(pause <= Span::from_secs(secs) && pause >= Span::from_millis(secs * 875), "{pause:?} of {secs} s");
            assert!(backoff.is_down(now));
            assert!(!backoff.is_down(backoff.opens()));
        }
        backoff.succeeded();
        assert_eq!(backoff.opens(), Time::START);
        assert_eq!(backoff.health(), Health::Fine);
    }

    #[test]
    fn a_retry_setting_of_zero_is_no_busy_loop() {
        let (mut backoff, mut jitter) = (Backoff::new(), Jitter::new(1));
        for _ in 0..100 {
            backoff.failed(ConnectFailure::Refused, Span::ZERO, &mut jitter, Time::START);
            assert!(backoff.opens() >= Time::START + Span::from_millis(87));
        }
    }

    #[test]
    fn a_server_that_starts_up_is_not_down() {
        let (mut backoff, mut jitter) = (Backoff::new(), Jitter::new(1));
        backoff.failed(ConnectFailure::Refused, Span::from_secs(15), &mut jitter, Time::START);
        backoff.failed(ConnectFailure::StartingUp, Span::from_secs(15), &mut jitter, Time::START);
        assert!(!backoff.is_down(Time::START));
        assert!(backoff.opens() <= Time::START + Span::from_secs(1));
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
