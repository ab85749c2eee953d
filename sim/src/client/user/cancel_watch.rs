//! Whether a cancel request was lost: the query that ran, or was next, when the request was sent must end with it, unless
//! it had ended.
//!
//! Only in runs about cancel requests, whose conditions say how long a request takes at most, and without faults.

use weir_base::{Span, Time};

use crate::network::End;

/// A request that took longer than this may have timed out.
const NO_TIMEOUT: Span = Span::from_millis(150);

/// The sleep that was to be cancelled.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Target {
    /// What the sleep returns.
    token: String,
    /// The connection of the request.
    by: End,
    sent: Time,
    /// When the connection of the request was closed: the server had been signalled.
    done: Option<Time>,
}

/// See the head of the file.
#[derive(Default)]
pub(super) struct CancelWatch {
    target: Option<Target>,
}

impl CancelWatch {
    /// A cancel request is sent while the client waits for this sleep.
    pub(super) fn sent(&mut self, now: Time, by: End, token: &str) {
        if self.target.as_ref().is_none_or(|target| target.token != token) {
            self.target = Some(Target { token: token.to_owned(), by, sent: now, done: None });
        }
    }

    /// The connection of a cancel request was closed in order.
    pub(super) fn done(&mut self, now: Time, by: End) {
        let Some(target) = self.target.as_mut().filter(|target| target.by == by) else { return };
        target.done = Some(now);
        if now.since(target.sent) > NO_TIMEOUT {
            self.target = None;
        }
    }

    /// A sleep has ended by itself. Returns how long ago the request to cancel it was done, if that is longer than `most`.
    pub(super) fn slept(&mut self, now: Time, token: &str, most: Span) -> Option<Span> {
        let target = self.target.take_if(|target| target.token == token)?;
        target.done.map(|done| now.since(done)).filter(|late| *late > most)
    }

    /// The session is over.
    pub(super) fn clear(&mut self) {
        self.target = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::Side;

    #[test]
    fn a_sleep_that_ends_by_itself_long_after_its_cancel_shows_a_lost_one() {
        let at = |micros| Time::START + Span::from_micros(micros);
        let most = Span::from_micros(100);
        let end = |conn| End { conn, side: Side::Near };
        let watch = |done: Option<u64>| {
            let mut watch = CancelWatch::default();
            watch.sent(at(10), end(1), "a");
            watch.done(at(11), end(2));
            done.into_iter().for_each(|done| watch.done(at(done), end(1)));
            watch
        };
        assert_eq!(watch(Some(20)).slept(at(500), "a", most), Some(Span::from_micros(480)));
        assert_eq!(watch(Some(450)).slept(at(500), "a", most), None, "it crossed the result");
        assert_eq!(watch(None).slept(at(500), "a", most), None, "it is under way");
        assert_eq!(watch(Some(20)).slept(at(500), "b", most), None, "another one");
        assert_eq!(watch(Some(400_000)).slept(at(900_000), "a", most), None, "it timed out");
    }
}
