//! How a client holds its server, since when, and which side must act next: the one rule of a link's timeouts.
//!
//! A client holds its server while the server can't be given to another client: a transaction is open (a failed one,
//! and the implicit one of a pipeline without its Sync, too), a reply is pending, or a message is sent only in part.
//! Three clocks run then:
//!
//! - `transaction`, since the hold began, or since the last transaction within it ended: a pipeline of transactions is
//!   one hold and many transactions. For `transaction_timeout`.
//! - `query`, while a reply to a completely sent request is pending; restarts with each answered request. For
//!   `query_timeout`.
//! - `unresponsive`, while the client must act next: no reply is pending, or only one that the server may delay until
//!   it is requested (no Sync and no Flush); it waits for COPY data, or for the rest of a message; or it is blocked
//!   because the client does not read. Restarts with each request, each message of COPY data, and every 8 KiB of a
//!   longer message. For `idle_transaction_timeout`.
//!
//! Two of them may run at a time: it is unknown whether a server that was sent an Execute without a Sync works on it.
//! In session mode nothing is held between transactions. Must not know sockets, pools or messages.

use weir_base::Time;
use weir_config::Limits;
use weir_session::Refusal;

/// The clocks of one link. The default is that of a server that is not held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Holding {
    pub(crate) transaction: Time,
    pub(crate) query: Time,
    pub(crate) client_idle: Time,
    /// The client's progress when it last acted.
    progress: u32,
}

/// The state of a link after an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct LinkState {
    /// The server can't be given to another client.
    pub(crate) held: bool,
    /// A reply to a completely sent request is pending.
    pub(crate) working: bool,
    /// The client must act next.
    pub(crate) awaits_client: bool,
    /// Grows with what the client sends.
    pub(crate) progress: u32,
    /// A request was answered just now.
    pub(crate) answered: bool,
    /// A transaction ended just now.
    pub(crate) ended: bool,
}

impl Default for Holding {
    fn default() -> Self {
        Holding::none(0)
    }
}

impl Holding {
    /// Nothing is held; records the client's progress.
    #[inline]
    pub(crate) fn none(progress: u32) -> Holding {
        Holding { transaction: Time::NEVER, query: Time::NEVER, client_idle: Time::NEVER, progress }
    }

    /// Applies the new state of the link.
    #[inline]
    pub(crate) fn follow(&mut self, now: Time, link: LinkState) {
        let moved = link.progress != self.progress;
        self.progress = link.progress;
        run(&mut self.transaction, link.held, link.ended, now);
        run(&mut self.query, link.held && link.working, link.answered, now);
        run(&mut self.client_idle, link.held && link.awaits_client, moved, now);
    }

    /// Restarts the clock of the client's idle time: it could not act in the meantime.
    pub(crate) fn excuse(&mut self, now: Time) {
        if self.client_idle != Time::NEVER {
            self.client_idle = now;
        }
    }

    /// When the first of the timeouts ends, and which.
    #[inline]
    pub(crate) fn deadline(&self, limits: &Limits) -> (Time, Refusal) {
        let mut soonest = (self.query.deadline(limits.query_timeout), Refusal::QueryTimeout);
        let client_idle = self.client_idle.deadline(limits.idle_transaction_timeout);
        if client_idle < soonest.0 {
            soonest = (client_idle, Refusal::IdleTransactionTimeout);
        }
        let transaction = self.transaction.deadline(limits.transaction_timeout);
        if transaction < soonest.0 {
            soonest = (transaction, Refusal::TransactionTimeout);
        }
        soonest
    }
}

/// Whether any of the timeouts is set.
#[inline]
pub(crate) fn is_timed(limits: &Limits) -> bool {
    let all =
        limits.query_timeout.micros() | limits.idle_transaction_timeout.micros() | limits.transaction_timeout.micros();
    all != 0
}

/// Starts, restarts or stops a clock.
#[inline]
fn run(clock: &mut Time, runs: bool, anew: bool, now: Time) {
    if !runs {
        *clock = Time::NEVER;
    } else if anew || *clock == Time::NEVER {
        *clock = now;
    }
}

#[cfg(test)]
mod tests {
    use weir_base::Span;

    use super::*;

    fn at(seconds: u64) -> Time {
        Time::START + Span::from_secs(seconds)
    }

    const HELD: LinkState =
        LinkState { held: true, working: false, awaits_client: false, progress: 0, answered: false, ended: false };

    #[test]
    fn clocks_run_on_while_nothing_changes_and_stand_when_nothing_is_held() {
        let mut holding = Holding::default();
        let works = LinkState { working: true, ..HELD };
        holding.follow(at(1), works);
        holding.follow(at(5), works);
        assert_eq!((holding.transaction, holding.query, holding.client_idle), (at(1), at(1), Time::NEVER));
        let awaits = LinkState { awaits_client: true, ..HELD };
        holding.follow(at(7), awaits);
        holding.follow(at(9), awaits);
        assert_eq!((holding.transaction, holding.query, holding.client_idle), (at(1), Time::NEVER, at(7)));
        holding.follow(at(10), LinkState::default());
        assert_eq!(holding, Holding::default());
    }

    #[test]
    fn a_client_that_moves_is_not_silent_and_each_answer_begins_the_next_query() {
        let mut holding = Holding::default();
        let both = LinkState { working: true, awaits_client: true, progress: 1, ..HELD };
        holding.follow(at(1), both);
        holding.follow(at(4), LinkState { progress: 2, ..both });
        assert_eq!((holding.query, holding.client_idle), (at(1), at(4)));
        holding.follow(at(6), LinkState { progress: 2, answered: true, ..both });
        assert_eq!((holding.query, holding.client_idle), (at(6), at(4)));
        holding.excuse(at(7));
        assert_eq!((holding.query, holding.client_idle), (at(6), at(7)), "it could not move");
        holding.follow(at(8), LinkState { progress: 2, ended: true, ..both });
        assert_eq!(holding.transaction, at(8), "the next one of a pipeline");
    }

    #[test]
    fn the_first_time_out_that_is_over_says_why() {
        let mut holding = Holding::default();
        holding.follow(at(1), LinkState { working: true, awaits_client: true, ..HELD });
        let mut limits = Limits::default();
        assert!(!is_timed(&limits) && holding.deadline(&limits).0 == Time::NEVER);
        limits.transaction_timeout = Span::from_secs(9);
        assert!(is_timed(&limits));
        assert_eq!(holding.deadline(&limits), (at(10), Refusal::TransactionTimeout));
        limits.idle_transaction_timeout = Span::from_secs(5);
        assert_eq!(holding.deadline(&limits), (at(6), Refusal::IdleTransactionTimeout));
        limits.query_timeout = Span::from_secs(2);
        assert_eq!(holding.deadline(&limits), (at(3), Refusal::QueryTimeout));
    }
}
