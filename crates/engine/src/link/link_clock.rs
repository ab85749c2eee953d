//! The times of events on a server's link: the base of statistics, timeouts and reports.
//!
//! Owns how a client holds its server, since when, and which side must act next: the one rule of a link's timeouts.
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

/// The times of one server. Private: each change has its method.
pub(crate) struct LinkClock {
    /// When the server was linked.
    linked_at: Time,
    /// When the query and the transaction under way began; never if there is none.
    query_at: Time,
    transaction_at: Time,
    /// When the server last sent something.
    received_at: Time,
    /// When the query of Weir without a reply was sent; never if there is none.
    own_query_at: Time,
    /// How the client holds the server, and since when.
    holding: Holding,
    /// Since when the oldest waiter waits, and how many transactions the client's pipeline has ended meanwhile.
    pipelined: (Time, u32),
    /// When the statement under way that is counted began; never if there is none.
    statement_at: Time,
    /// The wait for this link, until a statement is counted with it, in microseconds.
    waited: u64,
    /// No statement that is counted was sent on this link.
    fresh: bool,
}

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

/// The durations of what has just ended, in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Took {
    pub(crate) query: Option<u64>,
    pub(crate) transaction: Option<u64>,
}

impl LinkClock {
    pub(crate) fn new(now: Time) -> LinkClock {
        LinkClock {
            linked_at: now,
            query_at: Time::NEVER,
            transaction_at: Time::NEVER,
            received_at: now,
            own_query_at: Time::NEVER,
            holding: Holding::default(),
            pipelined: (Time::NEVER, 0),
            statement_at: Time::NEVER,
            waited: 0,
            fresh: true,
        }
    }

    /// The server is linked, or has logged in.
    #[inline]
    pub(crate) fn linked(&mut self, now: Time) {
        self.linked_at = now;
        self.fresh = true;
    }

    /// The server has sent something.
    #[inline]
    pub(crate) fn received(&mut self, now: Time) {
        self.received_at = now;
    }

    /// A query of Weir was sent to the server.
    pub(crate) fn own_query_sent(&mut self, now: Time) {
        self.own_query_at = now;
    }

    /// The server's client has sent a request.
    #[inline]
    pub(crate) fn request_sent(&mut self, now: Time) {
        if self.query_at == Time::NEVER {
            self.query_at = now;
            self.transaction_at = self.transaction_at.min(now);
        }
    }

    /// Queries have ended, and this many transactions with them. `busy`: more are under way; `oldest_wait`: the start
    /// of the oldest wait for a server of the pool.
    pub(crate) fn queries_ended(&mut self, now: Time, transactions: u32, busy: bool, oldest_wait: Time) -> Took {
        let since = |at: Time| (at != Time::NEVER).then(|| now.since(at).micros());
        let mut took = Took { query: since(self.query_at), transaction: None };
        if transactions > 0 {
            took.transaction = since(self.transaction_at);
            self.transaction_at = Time::NEVER;
        }
        self.query_at = if busy { now } else { Time::NEVER };
        if busy && self.transaction_at == Time::NEVER {
            // The next one of a pipeline.
            self.transaction_at = now;
            let so_far = if self.pipelined.0 == oldest_wait { self.pipelined.1 } else { 0 };
            self.pipelined = (oldest_wait, if oldest_wait == Time::NEVER { 0 } else { so_far + transactions });
        }
        took
    }

    /// Where statements are counted: a request was sent, which its client has made at `asked_at`.
    pub(crate) fn statement_sent(&mut self, now: Time, asked_at: Time) {
        if self.statement_at == Time::NEVER {
            self.statement_at = now;
        }
        if std::mem::take(&mut self.fresh) {
            self.waited = now.since(asked_at).micros();
        }
    }

    /// Where statements are counted: some have ended, or none. Returns for how long they ran together, and how long the
    /// first has waited before, in microseconds. `busy`: more are under way.
    pub(crate) fn statements_ended(&mut self, now: Time, some: bool, busy: bool) -> (u64, u64) {
        if !some {
            self.statement_at = if busy { self.statement_at } else { Time::NEVER };
            return (0, 0);
        }
        let run = if self.statement_at == Time::NEVER { 0 } else { now.since(self.statement_at).micros() };
        self.statement_at = if busy { now } else { Time::NEVER };
        (run, std::mem::take(&mut self.waited))
    }

    /// Applies the new state of the link.
    #[inline]
    pub(crate) fn follow(&mut self, now: Time, state: LinkState) {
        let holding = &mut self.holding;
        let moved = state.progress != holding.progress;
        holding.progress = state.progress;
        run(&mut holding.transaction, state.held, state.ended, now);
        run(&mut holding.query, state.held && state.working, state.answered, now);
        run(&mut holding.client_idle, state.held && state.awaits_client, moved, now);
    }

    /// The client does not hold the server. `progress`: the client's progress.
    #[inline]
    pub(crate) fn rests(&mut self, progress: u32) {
        self.holding = Holding { progress, ..Holding::NONE };
    }

    /// Restarts the clock of the client's idle time: the client could not act in the meantime.
    pub(crate) fn excuse(&mut self, now: Time) {
        if self.holding.client_idle != Time::NEVER {
            self.holding.client_idle = now;
        }
    }

    /// The client has left the server.
    #[inline]
    pub(crate) fn unlinked(&mut self) {
        self.query_at = Time::NEVER;
        self.transaction_at = Time::NEVER;
        self.holding = Holding::NONE;
        self.pipelined = (Time::NEVER, 0);
        self.statement_at = Time::NEVER;
    }

    /// When the server was linked last.
    pub(crate) fn linked_at(&self) -> Time {
        self.linked_at
    }

    /// When the query under way began; never if there is none.
    pub(crate) fn query_at(&self) -> Time {
        self.query_at
    }

    /// When the transaction under way began; never if there is none.
    pub(crate) fn transaction_at(&self) -> Time {
        self.transaction_at
    }

    /// When the server last sent something.
    pub(crate) fn received_at(&self) -> Time {
        self.received_at
    }

    /// When the query of Weir without a reply was sent; never if there is none.
    pub(crate) fn own_query_at(&self) -> Time {
        self.own_query_at
    }

    /// How the client holds the server.
    #[inline]
    pub(crate) fn holding(&self) -> &Holding {
        &self.holding
    }

    /// How many transactions the client's pipeline has ended since the oldest waiter came.
    pub(crate) fn pipelined(&self) -> u32 {
        self.pipelined.1
    }
}

impl Default for Holding {
    fn default() -> Self {
        Holding::NONE
    }
}

impl Holding {
    /// Nothing is held.
    const NONE: Holding =
        Holding { transaction: Time::NEVER, query: Time::NEVER, client_idle: Time::NEVER, progress: 0 };

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
        let mut clock = LinkClock::new(Time::START);
        let works = LinkState { working: true, ..HELD };
        clock.follow(at(1), works);
        clock.follow(at(5), works);
        assert_eq!(
            (clock.holding.transaction, clock.holding.query, clock.holding.client_idle),
            (at(1), at(1), Time::NEVER)
        );
        let awaits = LinkState { awaits_client: true, ..HELD };
        clock.follow(at(7), awaits);
        clock.follow(at(9), awaits);
        assert_eq!(
            (clock.holding.transaction, clock.holding.query, clock.holding.client_idle),
            (at(1), Time::NEVER, at(7))
        );
        clock.follow(at(10), LinkState::default());
        assert_eq!(clock.holding, Holding::default());
    }

    #[test]
    fn a_client_that_moves_is_not_silent_and_each_answer_begins_the_next_query() {
        let mut clock = LinkClock::new(Time::START);
        let both = LinkState { working: true, awaits_client: true, progress: 1, ..HELD };
        clock.follow(at(1), both);
        clock.follow(at(4), LinkState { progress: 2, ..both });
        assert_eq!((clock.holding.query, clock.holding.client_idle), (at(1), at(4)));
        clock.follow(at(6), LinkState { progress: 2, answered: true, ..both });
        assert_eq!((clock.holding.query, clock.holding.client_idle), (at(6), at(4)));
        clock.excuse(at(7));
        assert_eq!((clock.holding.query, clock.holding.client_idle), (at(6), at(7)), "it could not move");
        clock.follow(at(8), LinkState { progress: 2, ended: true, ..both });
        assert_eq!(clock.holding.transaction, at(8), "the next one of a pipeline");
    }

    #[test]
    fn the_first_time_out_that_is_over_says_why() {
        let mut clock = LinkClock::new(Time::START);
        clock.follow(at(1), LinkState { working: true, awaits_client: true, ..HELD });
        let mut limits = Limits::default();
        assert_eq!(clock.holding.deadline(&limits).0, Time::NEVER);
        limits.transaction_timeout = Span::from_secs(9);
        assert_eq!(clock.holding.deadline(&limits), (at(10), Refusal::TransactionTimeout));
        limits.idle_transaction_timeout = Span::from_secs(5);
        assert_eq!(clock.holding.deadline(&limits), (at(6), Refusal::IdleTransactionTimeout));
        limits.query_timeout = Span::from_secs(2);
        assert_eq!(clock.holding.deadline(&limits), (at(3), Refusal::QueryTimeout));
    }
}
