//! The times of events on a server's link: the base of statistics, timeouts and reports.

use weir_base::Time;

use crate::link::holding::{Holding, LinkState};

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
        self.holding.follow(now, state);
    }

    /// The client does not hold the server. `progress`: the client's progress.
    #[inline]
    pub(crate) fn rests(&mut self, progress: u32) {
        self.holding = Holding::none(progress);
    }

    /// Restarts the clock of the client's idle time: the client could not act in the meantime.
    pub(crate) fn excuse(&mut self, now: Time) {
        self.holding.excuse(now);
    }

    /// The client has left the server.
    #[inline]
    pub(crate) fn unlinked(&mut self) {
        self.query_at = Time::NEVER;
        self.transaction_at = Time::NEVER;
        self.holding = Holding::default();
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
