//! The owner's state of a pool's borrowers: requests, lent servers, and the last reports to them.

use std::collections::BTreeMap;

use weir_base::{Time, WorkerId};

use super::{BorrowRequest, ToOwner, UPDATE_INTERVAL};
use crate::{Acquire, Pool};

/// See the head of the file.
#[derive(Clone, Debug, Default)]
pub struct Lender {
    pub(super) borrowers: BTreeMap<WorkerId, Record>,
}

/// What is known of a borrower.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    /// The number of the borrower's request that has no answer yet.
    pub(super) request: Option<u32>,
    /// How many servers are lent to the borrower, or on their way.
    pub(super) lent: u32,
    has_clients: bool,
    /// The start of the oldest wait elsewhere, as last reported; never: none. And when it was reported.
    pub(super) reported: Time,
    pub(super) reported_at: Time,
}

impl Default for Record {
    fn default() -> Self {
        Record { request: None, lent: 0, has_clients: false, reported: Time::NEVER, reported_at: Time::START }
    }
}

impl Lender {
    /// Handles a borrower's message. A request is answered like a client's; a granted server must be lent
    /// ([`Lender::answered`]).
    pub fn receive<P>(
        &mut self,
        pool: &mut Pool<P>,
        from: WorkerId,
        message: ToOwner,
        now: Time,
    ) -> Option<(BorrowRequest, Acquire)> {
        match message {
            ToOwner::Request { id, since } => {
                let request = BorrowRequest { from, id };
                self.withdraw(pool, from, now);
                let answer = pool.requeue(request.handle(), since, now);
                if answer == Acquire::Queued {
                    self.borrowers.entry(from).or_default().request = Some(id);
                }
                return Some((request, answer));
            }
            ToOwner::Withdraw => self.withdraw(pool, from, now),
            ToOwner::HasClients(yes) => self.borrowers.entry(from).or_default().has_clients = yes,
            ToOwner::Closed(lent) => {
                self.server_ended(from);
                pool.lost(lent, now);
            }
        }
        None
    }

    fn withdraw<P>(&mut self, pool: &mut Pool<P>, from: WorkerId, now: Time) {
        let request = self.borrowers.get_mut(&from).and_then(|record| record.request.take());
        if let Some(id) = request {
            pool.leave(BorrowRequest { from, id }.handle(), now);
        }
    }

    /// A request waits no longer: it was refused, or has a server, which is `lent` from now on.
    pub fn answered(&mut self, request: BorrowRequest, lent: bool) {
        let record = self.borrowers.entry(request.from).or_default();
        record.request = record.request.filter(|id| *id != request.id);
        record.lent += u32::from(lent);
    }

    /// A server that was lent is back, or lost before it left.
    pub fn server_ended(&mut self, from: WorkerId) {
        self.borrowers.get_mut(&from).expect("a borrower has a record").lent -= 1;
    }

    /// How many requests wait.
    pub fn waiting_requests(&self) -> u32 {
        self.borrowers.values().filter(|record| record.request.is_some()).count() as u32
    }

    /// Whether no borrower has clients or a request.
    pub fn is_unused(&self) -> bool {
        self.borrowers.values().all(|record| !record.has_clients && record.request.is_none())
    }

    /// Whether a borrower has clients.
    pub fn has_clients(&self) -> bool {
        self.borrowers.values().any(|record| record.has_clients)
    }

    /// The borrowers that have servers of the pool.
    pub fn with_servers(&self) -> impl Iterator<Item = WorkerId> {
        self.borrowers.iter().filter(|(_, record)| record.lent > 0).map(|(worker, _)| *worker)
    }

    /// Whether a server is lent.
    #[inline]
    pub fn lends(&self) -> bool {
        !self.borrowers.is_empty() && self.lent_count() > 0
    }

    /// How many servers are lent.
    pub fn lent_count(&self) -> u32 {
        self.borrowers.values().map(|record| record.lent).sum()
    }

    /// The start of the oldest wait elsewhere (or never), for the borrowers that must get a report now. Called
    /// whenever the pool has nothing to do; the second value is when to call again if nothing happens before.
    pub fn updates<P>(&mut self, pool: &Pool<P>, now: Time) -> (Vec<(WorkerId, Time)>, Time) {
        let (mut updates, mut again) = (Vec::new(), Time::NEVER);
        for (worker, record) in self.borrowers.iter_mut().filter(|(_, record)| record.lent > 0) {
            let elsewhere = |conn| BorrowRequest::from_handle(conn).is_none_or(|request| request.from != *worker);
            let oldest = match pool.is_above_ceiling() {
                // Another pool needs one of the servers before any client of this one.
                true => Time::START,
                false => pool.waiting().find(|(conn, _)| elsewhere(*conn)).map_or(Time::NEVER, |(_, since)| since),
            };
            if oldest == record.reported {
                continue;
            }
            let due = if record.reported == Time::NEVER { now } else { record.reported_at + UPDATE_INTERVAL };
            if due <= now {
                (record.reported, record.reported_at) = (oldest, now);
                updates.push((*worker, oldest));
            } else {
                again = again.min(due);
            }
        }
        (updates, again)
    }
}
