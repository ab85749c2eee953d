//! The batch of clients that a worker gives: which of them are on their way, and its end.

use std::collections::BTreeSet;

use weir_base::{ConnId, Time};

use crate::common::Common;
use crate::moves::DETACH_TIME;
use crate::port::Io;
use crate::timers::Who;
use crate::workers::messages::{Message, Payload};
use crate::workers::send::COUNTER;

/// A cancel request for a client that leaves when its socket is free.
pub(crate) struct ParkedCancel {
    pub(crate) client: ConnId,
    /// The sender, if it waits.
    pub(crate) requester: Option<ConnId>,
    pub(crate) pid: u32,
    pub(crate) secret: Vec<u8>,
}

/// The batch of clients that a worker gives.
pub(crate) struct Moves {
    /// The number of the batch under way.
    under_way: Option<u64>,
    /// Clients of the batch whose sockets are being detached.
    detaching: BTreeSet<ConnId>,
    /// Clients of the batch that have not arrived.
    sent: u32,
    /// When the batch waits no longer for sockets.
    armed: Time,
    /// The next slot of the table to be looked at.
    pub(crate) next_slot: u32,
    /// Cancel requests for clients whose sockets are being detached: they follow their clients.
    parked: Vec<ParkedCancel>,
    /// Cancel requests that have found a client at rest and look at it again: no move begins before.
    pub(crate) looks: u32,
}

impl Default for Moves {
    fn default() -> Self {
        Moves {
            under_way: None,
            detaching: BTreeSet::new(),
            sent: 0,
            armed: Time::NEVER,
            next_slot: 0,
            parked: Vec::new(),
            looks: 0,
        }
    }
}

impl Moves {
    /// The batch has ended if nothing of it is under way any more: worker 0 learns so.
    fn check<I: Io>(&mut self, io: &mut I) {
        if self.detaching.is_empty()
            && self.sent == 0
            && let Some(batch) = self.under_way.take()
        {
            io.post(COUNTER, Message(Payload::MovesDone(batch)), None);
        }
    }

    /// A cancel request waits for its client to leave. One without a sender adds nothing to another one.
    pub(crate) fn park(&mut self, cancel: ParkedCancel) {
        let is_known = |it: &ParkedCancel| it.client == cancel.client && it.requester.is_none();
        if cancel.requester.is_some() || !self.parked.iter().any(is_known) {
            self.parked.push(cancel);
        }
    }

    /// The time of a sender is over, and its request with it.
    pub(crate) fn drop_requests_of(&mut self, sender: ConnId) {
        self.parked.retain(|cancel| cancel.requester != Some(sender));
    }

    /// The cancel requests that wait for this client, which leaves or is gone.
    pub(crate) fn unpark(&mut self, client: ConnId) -> Vec<ParkedCancel> {
        if self.parked.is_empty() {
            return Vec::new();
        }
        self.parked.extract_if(.., |cancel| cancel.client == client).collect()
    }

    /// A client of this worker is gone.
    #[inline]
    pub(crate) fn gone<I: Io>(&mut self, client: ConnId, io: &mut I) {
        if !self.detaching.is_empty() && self.detaching.remove(&client) {
            self.check(io);
        }
    }

    /// A client has arrived at the other worker.
    pub(crate) fn arrived<I: Io>(&mut self, io: &mut I) {
        self.sent = self.sent.saturating_sub(1);
        self.check(io);
    }

    /// The sockets that are not free by now do not hold the batch.
    pub(crate) fn due<I: Io>(&mut self, common: &mut Common, io: &mut I) {
        let armed = std::mem::replace(&mut self.armed, Time::NEVER);
        if armed > common.now() {
            // Of the batch after the one that armed the timer.
            return common.arm(Who::Detaching, armed, &mut self.armed);
        }
        self.detaching.clear();
        self.check(io);
    }

    /// A batch begins.
    pub(crate) fn begin(&mut self, batch: u64) {
        self.under_way = Some(batch);
    }

    /// The socket of a client of the batch is being detached.
    pub(crate) fn detaches(&mut self, client: ConnId) {
        self.detaching.insert(client);
    }

    /// The batch has all its clients.
    pub(crate) fn begun<I: Io>(&mut self, common: &mut Common, io: &mut I) {
        if !self.detaching.is_empty() {
            self.armed = Time::NEVER;
            common.arm(Who::Detaching, common.now() + DETACH_TIME, &mut self.armed);
        }
        self.check(io);
    }

    /// The socket of a client is detached. Returns whether the client is of the batch, and so is sent now.
    pub(crate) fn detached(&mut self, client: ConnId) -> bool {
        let is_of_batch = self.detaching.remove(&client);
        self.sent += u32::from(is_of_batch);
        is_of_batch
    }
}
