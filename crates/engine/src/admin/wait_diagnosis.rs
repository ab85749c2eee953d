//! Why somebody has to wait, and who holds the servers meanwhile: what waiting clients and the log are told.
//!
//! A pool can stand still while its database idles: as many clients as it has servers have begun a transaction and gone
//! to sleep. The age of the oldest wait shows that something is wrong, and this line shows what.
//!
//! What keeps a pool from giving more is known by its owner alone, so a borrower asks it before it tells its clients.

use std::fmt::Write as _;

use weir_base::{Span, Time};
use weir_pool::ServerState as InPool;
use weir_session::{Cause, Refusal};

use crate::Engine;
use crate::cluster::lending::Waiting;
use crate::handles::PoolIx;
use crate::log::log;
use crate::peers::{ServerPhase, ServerSlot, ServerState};
use crate::pools::PoolSlot;
use crate::port::{Io, Level};
use crate::traffic::holding::Holding;

/// What a server that is in use is held by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Hold {
    /// A query that runs, or one that its client has not sent to its end.
    Query,
    /// A client that must move next: in a transaction, in the middle of a message, or with an answer that it does not read.
    IdleTransaction,
    /// A client that keeps its server for as long as it stays, and asks nothing.
    IdleSession,
    /// Work of ours: a check, a reset, a look-up.
    Own,
    /// Another worker, to which it is lent.
    Lent,
}

/// So many servers, and since when the one that has been held longest.
#[derive(Clone, Copy, Default)]
struct Group {
    count: u32,
    longest: Span,
}

impl Engine {
    /// A client or a question has waited too long: what it is told.
    pub(crate) fn waited_too_long<I: Io>(&mut self, now: Time, ix: PoolIx, io: &mut I) -> Refusal {
        let (cause, detail) = self.cause_of_wait(ix, now);
        self.in_vain(now, ix, cause, detail, io)
    }

    /// The log has it once a second, as they come in crowds.
    fn in_vain<I: Io>(&mut self, now: Time, ix: PoolIx, cause: Cause, detail: String, io: &mut I) -> Refusal {
        let slot = self.pools.get_mut(ix);
        if slot.holders_said.is_none_or(|said| now.since(said) >= Span::from_secs(1)) {
            slot.holders_said = Some(now);
            log(
                Level::Warning,
                format_args!("{}/{}: a client waited in vain, {cause}: {detail}", slot.name, slot.user),
                io,
            );
        }
        Refusal::QueryWaitTimeout { cause, detail }
    }

    /// A borrower's clients are told what the owner says about their waits, and what their own worker knows.
    pub(crate) fn told_why<I: Io>(
        &mut self,
        now: Time,
        ix: PoolIx,
        to_tell: &[Waiting],
        (cause, detail): (Cause, String),
        io: &mut I,
    ) {
        let detail = format!("{detail} At the client's own worker {}", self.holders(ix, now));
        for waiting in to_tell {
            match *waiting {
                Waiting::Notified(client) => self.notice(ix, client, &detail, io),
                Waiting::Refused(client) => {
                    let refusal = self.in_vain(now, ix, cause, detail.clone(), io);
                    self.refuse_handle(now, client, refusal, io);
                }
            }
        }
    }

    /// Why a wait in a pool's queue does not end, with names and figures. The pool is full if it has all the servers that
    /// it may have without its reserve, here or lent; otherwise one more is wanted, and what keeps it from coming is the cause.
    pub(crate) fn cause_of_wait(&self, ix: PoolIx, now: Time) -> (Cause, String) {
        let slot = self.pools.get(ix);
        let (now_in, size) = (slot.pool.snapshot(now), slot.pool.settings().size);
        let holders = self.holders(ix, now);
        if now_in.paused {
            return (Cause::Paused, format!("The pool is paused. {holders}"));
        }
        if size > 0 && now_in.active + now_in.idle >= size {
            return (Cause::PoolFull, holders);
        }
        if let (Some(_), Some(error)) = (now_in.retry_at, &slot.last_error) {
            let cause = if slot.too_slow { Cause::ServerSlow } else { Cause::ServerDown };
            let since = now.since(slot.failing_since.min(now)).micros() / 1_000_000;
            return (cause, format!("Logins have failed for {since} s, the last one so: {}. {holders}", error.message));
        }
        if slot.turn.waits_at.is_some() {
            let most = self.common.config().max_logins_per_host;
            let text = format!("Its turn to log in has not come (max_logins_per_host is {most}). {holders}");
            return (Cause::ServerSlow, text);
        }
        if now_in.login == 0 && slot.quota.is_limited() {
            return (Cause::LimitReached, format!("{} {holders}", self.shared_limits(slot)));
        }
        (Cause::ServerSlow, format!("A server's login has not come to its end. {holders}"))
    }

    /// The limits of servers that a pool shares with others, as a sentence.
    fn shared_limits(&self, slot: &PoolSlot) -> String {
        let (database, user) =
            (self.common.config().db_connections(&slot.name), self.common.config().user_connections(&slot.user));
        let of_database = (database > 0).then(|| format!("max_db_connections of {} is {database}", slot.name));
        let of_user = (user > 0).then(|| format!("max_user_connections of {} is {user}", slot.user));
        let limits: Vec<String> = of_database.into_iter().chain(of_user).collect();
        format!("No other server is allowed: {}.", limits.join(", "))
    }

    /// Who holds the servers of a pool, as a sentence: `3 of 3 servers are in use: 2 by clients that idle in a
    /// transaction, for up to 61 s; 1 by a query, for up to 2 s.`
    pub(crate) fn holders(&self, ix: PoolIx, now: Time) -> String {
        let slot = self.pools.get(ix);
        let (mut servers, mut used) = (0, 0);
        let mut groups = [Group::default(); 5];
        for (peer, state, _) in slot.pool.servers() {
            servers += u32::from(state != InPool::Closing);
            let InPool::Linked(_) = state else { continue };
            used += 1;
            let (hold, since) = match self.peers.get_server(peer) {
                Some(server) => hold(server, now),
                None if self.is_lent(peer) => (Hold::Lent, now),
                // It is worked on just now.
                None => (Hold::Query, now),
            };
            let group = &mut groups[hold as usize];
            group.count += 1;
            group.longest = group.longest.max(now.since(since));
        }
        let mut text = format!("{used} of {servers} servers are in use");
        let words = [
            (Hold::IdleTransaction, "by clients that idle in a transaction"),
            (Hold::IdleSession, "by sessions that idle"),
            (Hold::Query, "by queries"),
            (Hold::Own, "by work of the pooler's own"),
        ];
        let mut sign = ": ";
        let lent = groups[Hold::Lent as usize].count;
        for (hold, words) in words {
            let Group { count, longest } = groups[hold as usize];
            if count > 0 {
                let _ = write!(text, "{sign}{count} {words}, for up to {} s", longest.micros() / 1_000_000);
                sign = "; ";
            }
        }
        if lent > 0 {
            let _ = write!(text, "{sign}{lent} lent to other workers");
        }
        text.push('.');
        text
    }
}

/// What a server is held by, and since when.
fn hold(server: &ServerSlot, now: Time) -> (Hold, Time) {
    match &server.state {
        ServerState::Up(_, ServerPhase::Linked) => {
            let Holding { silence, query, transaction, .. } = server.holding;
            match (silence, transaction) {
                (Time::NEVER, Time::NEVER) => (Hold::IdleSession, server.heard_at),
                (Time::NEVER, since) => (Hold::Query, query.min(since)),
                (since, _) => (Hold::IdleTransaction, since),
            }
        }
        _ => (Hold::Own, server.own_since.min(now)),
    }
}
