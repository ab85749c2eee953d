//! Clients that asked for TLS where none is offered, and left.
//!
//! Owns who left within [`FALLBACK`], at most [`MOST`]: some drivers then try again without TLS over a new connection
//! (pgx with `sslmode=prefer`), and have not failed.

use std::collections::VecDeque;

use weir_base::{Origin, Span, Time};

/// How long a client that comes back without TLS may take: a few round trips.
const FALLBACK: Span = Span::from_secs(2);
/// The most that are remembered.
const MOST: usize = 256;

/// See the head of the file.
#[derive(Default)]
pub(crate) struct Declined {
    left: VecDeque<(Origin, Time)>,
}

impl Declined {
    pub(crate) fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// A client of this origin has left. Those that will not come back any more are taken out, with the time at which they left.
    pub(crate) fn leaves(&mut self, origin: Origin, now: Time) -> impl Iterator<Item = (Origin, Time)> + use<> {
        self.left.push_back((origin, now));
        let lost = self.lost(now).count().max(self.left.len().saturating_sub(MOST));
        self.left.drain(..lost).collect::<Vec<_>>().into_iter()
    }

    /// A client of this origin goes on without TLS: it may be one that has left just now.
    pub(crate) fn comes_back(&mut self, origin: Origin, now: Time) {
        let lost = self.lost(now).count();
        if let Some(at) = self.left.iter().skip(lost).position(|(left, _)| *left == origin) {
            self.left.remove(lost + at);
        }
    }

    /// Those that will not come back any more.
    pub(crate) fn lost(&self, now: Time) -> impl Iterator<Item = &(Origin, Time)> {
        self.left.iter().take_while(move |(_, at)| *at + FALLBACK <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Origin = Origin::V4(1);
    const OTHER: Origin = Origin::V4(2);

    fn at(millis: u64) -> Time {
        Time::default() + Span::from_millis(millis)
    }

    #[test]
    fn a_client_that_comes_back_at_once_without_tls_is_none_that_has_failed() {
        let mut declined = Declined::default();
        for (origin, millis) in [(ONE, 0), (OTHER, 100), (ONE, 200)] {
            assert_eq!(declined.leaves(origin, at(millis)).count(), 0);
        }
        declined.comes_back(OTHER, at(300));
        declined.comes_back(ONE, at(300));
        assert_eq!((declined.lost(at(2_199)).count(), declined.lost(at(2_200)).count()), (0, 1));
        // One that comes much later is another client.
        declined.comes_back(ONE, at(2_200));
        assert_eq!(declined.leaves(OTHER, at(3_000)).collect::<Vec<_>>(), [(ONE, at(200))]);
        assert!(declined.lost(at(3_000)).next().is_none() && !declined.is_empty());
    }

    #[test]
    fn their_number_is_bounded_and_none_is_forgotten() {
        let mut declined = Declined::default();
        let counted: usize = (0..10_000).map(|_| declined.leaves(ONE, at(0)).count()).sum();
        assert_eq!((declined.left.len(), counted), (MOST, 10_000 - MOST));
    }
}
