//! The state of a borrower of a pool: its request, what it has borrowed, and how long clients elsewhere have waited.

use std::collections::BTreeMap;

use weir_base::{ConnId, Time};

use super::{IDLE_KEEP, SLACK, ToBorrower, ToOwner, UPDATE_INTERVAL};
use crate::{Ages, Pool, RefuseReason, Release};

/// See the head of the file.
#[derive(Clone, Debug)]
pub struct Borrower {
    /// Since when the oldest client elsewhere waits, as far as is known; never: none.
    pub(super) oldest_elsewhere: Time,
    /// The number of the request under way.
    pub(super) request: Option<u32>,
    last_request: u32,
    /// The age that the last request named, and when it was sent.
    pub(super) requested: (Time, Time),
    /// The borrowed servers: the handle here, and the one at the owner.
    pub(super) borrowed: BTreeMap<ConnId, ConnId>,
    /// The owner has been informed that there are clients here.
    reported_has_clients: bool,
}

/// What a borrower has to do when its pool has nothing to do.
#[derive(Debug)]
pub struct Settled {
    /// Idle servers to be returned, taken out of the idle ones.
    pub to_return: Vec<ConnId>,
    /// For the owner.
    pub messages: Vec<ToOwner>,
    /// When to settle again, if nothing happens before.
    pub again: Time,
}

impl Default for Borrower {
    fn default() -> Self {
        Borrower {
            oldest_elsewhere: Time::NEVER,
            request: None,
            last_request: 0,
            requested: (Time::NEVER, Time::START),
            borrowed: BTreeMap::new(),
            reported_has_clients: false,
        }
    }
}

impl Borrower {
    /// The borrower's pool needs a server.
    pub fn request<P>(&mut self, pool: &Pool<P>, now: Time) -> ToOwner {
        self.last_request = self.last_request.wrapping_add(1);
        self.request = Some(self.last_request);
        let since = pool.oldest_wait().unwrap_or(now);
        self.requested = (since, now);
        ToOwner::Request { id: self.last_request, since }
    }

    /// Handles a message of the owner. If a server is down, waiting clients are refused, as at the owner; after another
    /// refusal the server is requested again, after a pause if the owner no longer has such a pool.
    pub fn receive<P>(&mut self, pool: &mut Pool<P>, message: ToBorrower, now: Time) {
        match message {
            ToBorrower::Refused { id, why, retry_at } if self.ends_request(id) => match why {
                RefuseReason::ServerDown => pool.mark_down(retry_at),
                RefuseReason::ShuttingDown => pool.open_declined(retry_at, now),
                RefuseReason::WaitTimeout | RefuseReason::TooManyWaiting => pool.cancel_open(),
            },
            ToBorrower::Failed(id) if self.ends_request(id) => pool.cancel_open(),
            ToBorrower::Refused { .. } | ToBorrower::Failed(_) => {}
            ToBorrower::OldestElsewhere(since) => self.oldest_elsewhere = since,
            ToBorrower::Recall => pool.reconnect(now),
        }
    }

    /// A server has arrived, for this request or for one that was withdrawn; `owners` is its handle at the owner.
    pub fn received<P>(
        &mut self,
        pool: &mut Pool<P>,
        id: u32,
        (server, owners): (ConnId, ConnId),
        ages: Ages,
        proof: P,
        now: Time,
    ) -> Release {
        if self.ends_request(id) {
            pool.cancel_open();
        }
        // The client that another request is for may be served by this one.
        self.requested.1 = Time::START;
        self.borrowed.insert(server, owners);
        pool.borrowed(server, ages, proof, now)
    }

    fn ends_request(&mut self, id: u32) -> bool {
        self.request.take_if(|request| *request == id).is_some()
    }

    /// Whether a client elsewhere waits for a server, as far as is known.
    pub fn is_wanted_elsewhere(&self) -> bool {
        self.oldest_elsewhere != Time::NEVER
    }

    /// Whether a server that is released now is returned instead of being used again here. A server that is to be
    /// closed is not returned: it need not have been cleaned.
    pub fn returns<P>(&self, pool: &Pool<P>, server: ConnId) -> bool {
        if self.oldest_elsewhere == Time::NEVER {
            return false;
        }
        pool.oldest_wait().is_none_or(|own| self.oldest_elsewhere + SLACK < own) && !pool.is_unwanted(server)
    }

    /// The borrower's next actions, now that the pool has nothing to do. `keep`: idle servers stay for as long as they
    /// may.
    pub fn settle<P>(&mut self, pool: &mut Pool<P>, keep: bool, has_clients: bool, now: Time) -> Settled {
        let mut messages = self.take_closed(pool);
        let mut to_return = Vec::new();
        while !keep || self.oldest_elsewhere != Time::NEVER || self.return_due(pool) <= now {
            let Some(server) = pool.take_idle() else { break };
            to_return.push(server);
        }
        if self.request.is_some() && !pool.wants_server() {
            self.request = None;
            pool.cancel_open();
            messages.push(ToOwner::Withdraw);
        }
        let renew_at = self.renewal_due(pool);
        if renew_at <= now {
            messages.push(self.request(pool, now));
        }
        if std::mem::replace(&mut self.reported_has_clients, has_clients) != has_clients {
            messages.push(ToOwner::HasClients(has_clients));
        }
        let renew_at = if renew_at <= now { Time::NEVER } else { renew_at };
        Settled { to_return, messages, again: renew_at.min(self.return_due(pool)) }
    }

    /// When the request under way is to be replaced, because another client has become the oldest.
    fn renewal_due<P>(&self, pool: &Pool<P>) -> Time {
        let (since, at) = self.requested;
        match (self.request, pool.oldest_wait()) {
            (Some(_), Some(oldest)) if oldest != since => at + UPDATE_INTERVAL,
            _ => Time::NEVER,
        }
    }

    /// When the server that has been idle longest here is returned.
    fn return_due<P>(&self, pool: &Pool<P>) -> Time {
        pool.longest_idle().map_or(Time::NEVER, |since| since + IDLE_KEEP)
    }

    /// When to settle, if nothing happens before.
    #[cfg(test)]
    pub(super) fn due<P>(&self, pool: &Pool<P>) -> Time {
        self.renewal_due(pool).min(self.return_due(pool))
    }

    /// A server has left for the owner; its handle there. `None`: it is not borrowed.
    pub fn returned<P>(&mut self, pool: &mut Pool<P>, server: ConnId, now: Time) -> Option<ConnId> {
        let owners = self.borrowed.remove(&server)?;
        pool.lost(server, now);
        Some(owners)
    }

    /// Borrowed servers that have closed, as messages to the owner.
    pub fn take_closed<P>(&mut self, pool: &Pool<P>) -> Vec<ToOwner> {
        let mut closed = Vec::new();
        if self.borrowed.len() == pool.len() {
            return closed;
        }
        self.borrowed.retain(|server, owners| {
            let there = pool.contains(*server);
            if !there {
                closed.push(ToOwner::Closed(*owners));
            }
            there
        });
        closed
    }

    /// Whether nothing is borrowed or requested.
    pub fn is_vacant(&self) -> bool {
        self.borrowed.is_empty() && self.request.is_none()
    }

    /// Asserts that exactly what is borrowed is in the borrower's pool.
    pub fn check<P>(&self, pool: &Pool<P>) {
        assert_eq!(self.borrowed.len(), pool.len(), "a borrower's pool has servers of its own, or has lost some");
        assert!(self.borrowed.keys().all(|server| pool.contains(*server)));
    }
}
