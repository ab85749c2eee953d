//! Cancel requests of a pool, and their connections.

use std::collections::VecDeque;

use weir_base::{Peer, Time};

use crate::handles::PoolIx;

/// A connection for a cancel request.
pub(crate) struct CancelSlot {
    pub(crate) peer: Peer,
    pub(crate) server: Peer,
    /// The client whose query is to be cancelled.
    pub(crate) client: Peer,
    pub(crate) pool: PoolIx,
    /// The clients that sent the request, to be closed when it has ended.
    pub(crate) requesters: Vec<Peer>,
    pub(crate) stage: CancelStage,
    pub(crate) armed: Time,
    pub(crate) deadline: Time,
}

/// The state of a connection for a cancel request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CancelStage {
    Connecting,
    /// SSLRequest is sent, if its server's connection is encrypted; one byte must follow.
    SslRequest,
    /// In the TLS handshake.
    TlsHandshake,
    /// The request is sent: it may hit its server until the connection ends.
    Sent,
}

/// The cancel requests of one pool.
#[derive(Default)]
pub(crate) struct PoolCancels {
    under_way: Vec<Peer>,
    /// The sender of each request (none: the process that takes over, or a closed one), and the client whose query is to be
    /// cancelled.
    waiting: VecDeque<(Option<Peer>, Peer)>,
}

impl PoolCancels {
    /// Queues a request. One without a sender says nothing more than another for the same client, and there is nothing else
    /// that bounds their number.
    pub(crate) fn wait(&mut self, requester: Option<Peer>, client: Peer) {
        if requester.is_some() || !self.waiting.contains(&(None, client)) {
            self.waiting.push_back((requester, client));
        }
    }

    /// The connection of a sender is closed to make room; its request is carried out.
    pub(crate) fn leave(&mut self, sender: Peer) {
        let Some(at) = self.waiting.iter().position(|(requester, _)| *requester == Some(sender)) else { return };
        let (_, client) = self.waiting[at];
        if self.waiting.contains(&(None, client)) {
            self.waiting.remove(at);
        } else {
            self.waiting[at].0 = None;
        }
    }

    /// The next request, if fewer than `most` are under way.
    pub(crate) fn next(&mut self, most: usize) -> Option<(Option<Peer>, Peer)> {
        if self.under_way.len() < most { self.waiting.pop_front() } else { None }
    }

    /// A connection for a request has begun.
    pub(crate) fn begin(&mut self, cancel: Peer) {
        self.under_way.push(cancel);
    }

    /// A connection for a request has ended.
    pub(crate) fn end(&mut self, cancel: Peer) {
        self.under_way.retain(|peer| *peer != cancel);
    }

    /// The connections for requests.
    pub(crate) fn under_way(&self) -> &[Peer] {
        &self.under_way
    }

    /// The number of queued requests.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.under_way.is_empty() && self.waiting.is_empty()
    }
}
