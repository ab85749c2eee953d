//! Cancel requests of a pool, and the connections of ours that carry them.

use std::collections::VecDeque;

use weir_base::{Peer, Time};

use crate::handles::PoolIx;

/// A connection of ours that carries a cancel request.
pub(crate) struct CancelSlot {
    pub(crate) peer: Peer,
    pub(crate) server: Peer,
    /// Whose query is to be cancelled.
    pub(crate) client: Peer,
    pub(crate) pool: PoolIx,
    /// The clients that asked, to be closed when it is done.
    pub(crate) requesters: Vec<Peer>,
    pub(crate) stage: CancelStage,
    pub(crate) armed: Time,
    pub(crate) deadline: Time,
}

/// How far a connection for a cancel request is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CancelStage {
    Connecting,
    /// Asked whether it can encrypt, as the connection of its server is; one byte is awaited.
    SslRequest,
    /// In the handshake.
    TlsHandshake,
    /// The request is out: it may hit its server until the connection ends.
    Sent,
}

/// The cancel requests of one pool.
#[derive(Default)]
pub(crate) struct PoolCancels {
    under_way: Vec<Peer>,
    /// Who asked, and whose query is to be cancelled.
    waiting: VecDeque<(Peer, Peer)>,
}

impl PoolCancels {
    /// A request waits for its turn.
    pub(crate) fn wait(&mut self, requester: Peer, client: Peer) {
        self.waiting.push_back((requester, client));
    }

    /// The request that is next, if fewer than `most` are under way.
    pub(crate) fn next(&mut self, most: usize) -> Option<(Peer, Peer)> {
        if self.under_way.len() < most { self.waiting.pop_front() } else { None }
    }

    /// A connection for a request has begun.
    pub(crate) fn begin(&mut self, cancel: Peer) {
        self.under_way.push(cancel);
    }

    /// A connection for a request is over.
    pub(crate) fn end(&mut self, cancel: Peer) {
        self.under_way.retain(|peer| *peer != cancel);
    }

    /// The connections for requests.
    pub(crate) fn under_way(&self) -> &[Peer] {
        &self.under_way
    }

    /// How many requests wait for their turn.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.under_way.is_empty() && self.waiting.is_empty()
    }
}
