//! Cancel requests between their arrival at the pooler and its answer: the checker "a cancel is not lost".
//!
//! A request is for the query of its client that runs or is next when the request arrives. If that query is in the
//! pooler or at a server by then, and has not ended when the pooler closes the connection of the request, it must not
//! end by itself, unless a server was signalled: one that ran the query or an earlier one of the client. A signal that
//! comes between two queries has no effect in PostgreSQL either. Only queries that sleep are watched, since others end
//! at once.

use std::collections::BTreeMap;

use weir_base::{Span, Time};

use crate::network::End;

/// A request that took longer than this may have timed out.
const NO_TIMEOUT: Span = Span::from_millis(150);

/// A request that the pooler has read.
#[derive(Debug)]
struct Request {
    /// The sender's number and the end of its session's connection.
    client: u32,
    session: End,
    /// The end of the connection that carries the request.
    by: End,
    /// What the sleep returns that is to be cancelled.
    sleep: String,
    arrived: Time,
    /// When the pooler closed the connection of the request.
    answered: Option<Time>,
    /// Server processes that were signalled since the request arrived and before it was answered.
    signalled: Vec<u32>,
    /// One of these belonged to the client.
    effective: bool,
}

/// See the head of the file.
#[derive(Default, Debug)]
pub(crate) struct CancelRequests {
    requests: Vec<Request>,
    /// What the last sleep of each client returned that has ended.
    ended: BTreeMap<u32, String>,
}

impl CancelRequests {
    /// The pooler has read a request. `sleeps`: what the queries return that its client waits for, in order; all of
    /// them are in the pooler or at a server, or have ended. Returns whether the request has one to stop.
    pub(crate) fn arrived(&mut self, now: Time, (client, session): (u32, End), by: End, sleeps: Vec<String>) -> bool {
        let last = self.ended.get(&client);
        let ended = sleeps.iter().position(|sleep| Some(sleep) == last).map_or(0, |last| last + 1);
        let Some(sleep) = sleeps.into_iter().nth(ended) else { return false };
        self.requests.retain(|request| request.client != client || request.sleep == sleep);
        let (answered, signalled, effective) = (None, Vec::new(), false);
        self.requests.push(Request { client, session, by, sleep, arrived: now, answered, signalled, effective });
        true
    }

    /// An end of a connection is closed, or its owner writes no more.
    pub(crate) fn closed(&mut self, now: Time, end: End) {
        self.requests.retain(|request| request.session != end && request.session != end.peer());
        for request in self.requests.iter_mut().filter(|request| request.by == end.peer()) {
            request.answered.get_or_insert(now);
        }
    }

    /// A server process is signalled; `client` uses it, or did so last.
    pub(crate) fn signalled(&mut self, server: u32, client: Option<u32>) {
        for request in self.requests.iter_mut().filter(|request| request.answered.is_none()) {
            request.signalled.push(server);
            request.effective |= client == Some(request.client);
        }
    }

    /// A sleep has ended at a server, by itself or because it was cancelled. Returns how long ago the request to cancel
    /// it was answered, if that was lost.
    pub(crate) fn slept(&mut self, now: Time, server: u32, client: u32, sleep: &str, cancelled: bool) -> Option<Span> {
        self.ended.insert(client, sleep.to_owned());
        let is_lost = |request: &Request| {
            let timely = request.answered.filter(|answered| answered.since(request.arrived) <= NO_TIMEOUT);
            let signalled = request.effective || request.signalled.contains(&server);
            timely.filter(|_| request.sleep == sleep && !signalled && !cancelled)
        };
        let lost = self.requests.iter().find_map(is_lost);
        self.requests.retain(|request| request.sleep != sleep);
        lost.map(|answered| now.since(answered))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::Side;

    const SESSION: End = End { conn: 1, side: Side::Near };
    const BY: End = End { conn: 2, side: Side::Near };

    fn at(micros: u64) -> Time {
        Time::START + Span::from_micros(micros)
    }

    /// A request of client 7 that came at 10 µs while it waited for `a` and `b`.
    fn request() -> CancelRequests {
        let mut requests = CancelRequests::default();
        assert!(requests.arrived(at(10), (7, SESSION), BY, vec!["a".to_owned(), "b".to_owned()]));
        requests
    }

    fn answered(micros: u64) -> CancelRequests {
        let mut requests = request();
        requests.closed(at(micros), BY.peer());
        requests
    }

    #[test]
    fn a_sleep_that_ends_by_itself_after_the_answer_shows_a_lost_request() {
        assert_eq!(answered(20).slept(at(500), 3, 7, "a", false), Some(Span::from_micros(480)));
        assert_eq!(answered(20).slept(at(500), 3, 7, "a", true), None, "it was cancelled");
        assert_eq!(answered(20).slept(at(500), 3, 7, "b", false), None, "another one");
        assert_eq!(request().slept(at(500), 3, 7, "a", false), None, "it is under way");
        assert_eq!(answered(400_000).slept(at(900_000), 3, 7, "a", false), None, "it timed out");
    }

    #[test]
    fn a_request_is_not_lost_that_reached_the_query_s_server_or_another_of_its_client() {
        for (server, client, lost) in [(3, None, false), (3, Some(8), false), (4, Some(7), false), (4, Some(8), true)] {
            let mut requests = request();
            requests.signalled(server, client);
            requests.closed(at(20), BY.peer());
            requests.signalled(3, Some(7));
            assert_eq!(requests.slept(at(500), 3, 7, "a", false).is_some(), lost, "{server} {client:?}");
        }
    }

    #[test]
    fn a_request_is_for_the_first_query_that_has_not_ended() {
        let mut requests = CancelRequests::default();
        assert_eq!(requests.slept(at(5), 3, 7, "a", false), None);
        assert!(!requests.arrived(at(10), (7, SESSION), BY, vec!["a".to_owned()]));
        assert!(requests.arrived(at(10), (7, SESSION), BY, vec!["a".to_owned(), "b".to_owned()]));
        requests.closed(at(20), BY.peer());
        assert_eq!(requests.slept(at(500), 3, 7, "b", false), Some(Span::from_micros(480)));
    }

    #[test]
    fn a_request_ends_with_its_client_s_session() {
        for end in [SESSION, SESSION.peer()] {
            let mut requests = answered(20);
            requests.closed(at(30), end);
            assert_eq!(requests.slept(at(500), 3, 7, "a", false), None);
        }
    }
}
