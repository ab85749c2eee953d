//! A pool's counters beyond SHOW STATS: histograms of durations, logins, and the server's errors.
//!
//! Owns the size of these counters: an unused pool costs a pointer, and at most [`MOST_CODES`] kinds of errors are
//! counted separately.

use crate::histogram::Times;
use crate::lost::LostState;

/// Kinds of errors that are counted separately; the rest is one count.
const MOST_CODES: usize = 32;

/// The five characters of an SQLSTATE.
pub type SqlState = [u8; 5];

/// The counters of one pool, or of all pools of a database.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PoolCounters {
    /// Clients that logged in.
    pub logins: u64,
    /// Clients that came from another worker, connected.
    pub clients_moved: u64,
    /// Connects to servers that were begun.
    pub connects: u64,
    /// Errors that servers sent to clients.
    pub errors: Errors,
    /// Session state that clients lost, or were refused.
    pub lost: LostState,
    /// How often clients that listen may have missed notifications.
    pub notification_gaps: u64,
    /// The histograms; none until something was counted.
    times: Option<Box<Times>>,
}

/// Errors by SQLSTATE.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Errors {
    codes: Vec<(SqlState, u64)>,
    others: u64,
}

impl PoolCounters {
    /// The histograms, to count a duration.
    #[inline]
    pub fn times(&mut self) -> &mut Times {
        self.times.get_or_insert_with(Box::default)
    }

    /// The histograms, if anything was counted.
    #[must_use]
    pub fn counted(&self) -> Option<&Times> {
        self.times.as_deref()
    }

    /// Adds the counters of another, without its histograms.
    pub fn add_counts(&mut self, other: &PoolCounters) {
        self.logins += other.logins;
        self.clients_moved += other.clients_moved;
        self.connects += other.connects;
        self.errors.add(&other.errors);
        self.lost.add(&other.lost);
        self.notification_gaps += other.notification_gaps;
    }

    /// Adds the counters of another.
    pub fn add(&mut self, other: &PoolCounters) {
        self.add_counts(other);
        if let Some(times) = other.counted() {
            self.times().add(times);
        }
    }
}

impl Errors {
    /// Counts errors of a kind.
    pub fn count(&mut self, code: SqlState, times: u64) {
        if let Some((_, count)) = self.codes.iter_mut().find(|(known, _)| *known == code) {
            *count += times;
        } else if self.codes.len() < MOST_CODES {
            self.codes.push((code, times));
        } else {
            self.others += times;
        }
    }

    /// Adds the counts of another.
    pub fn add(&mut self, other: &Errors) {
        other.codes.iter().for_each(|(code, times)| self.count(*code, *times));
        self.others += other.others;
    }

    /// The sum over all kinds.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.codes.iter().map(|(_, count)| count).sum::<u64>() + self.others
    }

    /// The counts by SQLSTATE, sorted; the rest, if any, as `other`.
    #[must_use]
    pub fn by_code(&self) -> Vec<(String, u64)> {
        let name = |code: &SqlState| code.iter().map(|byte| char::from(*byte)).collect();
        let mut all: Vec<(String, u64)> = self.codes.iter().map(|(code, count)| (name(code), *count)).collect();
        all.sort();
        all.extend((self.others > 0).then(|| ("other".to_owned(), self.others)));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_many_kinds_of_errors_there_are_their_number_is_bounded_and_the_sum_is_right() {
        let mut errors = Errors::default();
        let codes = (0..100_u8).map(|n| [b'4', b'2', b'0', b'0' + n / 10, b'0' + n % 10]);
        codes.for_each(|code| errors.count(code, 2));
        errors.count(*b"42000", 5);
        assert_eq!(errors.total(), 205);
        let by_code = errors.by_code();
        assert_eq!(by_code.len(), MOST_CODES + 1);
        assert_eq!(by_code[0], ("42000".to_owned(), 7));
        assert_eq!(by_code[MOST_CODES], ("other".to_owned(), 2 * (100 - MOST_CODES as u64)));
    }

    #[test]
    fn parts_of_a_pool_add_up_and_one_that_did_nothing_holds_nothing() {
        let (mut one, mut other) = (PoolCounters::default(), PoolCounters::default());
        one.add(&other);
        assert_eq!(one.counted(), None);
        other.times().query.count(7);
        other.errors.count(*b"23505", 1);
        other.logins = 3;
        one.add(&other);
        one.add(&other);
        assert_eq!((one.logins, one.errors.total()), (6, 2));
        assert_eq!(one.counted().map(|times| times.query.total()), Some(2));
    }
}
