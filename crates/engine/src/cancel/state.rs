//! Cancel requests of a pool, and their connections.

use std::collections::VecDeque;

use weir_base::{ConnId, Time};

use crate::handles::PoolIx;

/// A connection for a cancel request.
pub(crate) struct CancelSlot {
    pub(crate) conn: ConnId,
    pub(crate) server: ConnId,
    /// The client whose query is to be cancelled.
    pub(crate) client: ConnId,
    pub(crate) pool: PoolIx,
    /// The clients that sent the request, to be closed when it has ended.
    pub(crate) requesters: Vec<ConnId>,
    /// The request is carried out without a sender that waits for it, too.
    pub(crate) without_sender: bool,
    /// See [`CancelRequest`].
    pub(crate) next_is_here: bool,
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

/// A cancel request that waits for its turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CancelRequest {
    /// The sender of the request; `None`: the process that takes over, or a client that was closed.
    pub(crate) requester: Option<ConnId>,
    /// The client whose query is to be cancelled.
    pub(crate) client: ConnId,
    /// When the cancel request came, the client's next request was in Weir already. If nothing runs any more, that next
    /// request is cancelled.
    pub(crate) next_is_here: bool,
}

/// The cancel requests of one pool.
#[derive(Default)]
pub(crate) struct PoolCancels {
    under_way: Vec<ConnId>,
    waiting: VecDeque<CancelRequest>,
}

impl PoolCancels {
    /// Queues a request. A request without a sender adds nothing to another one for the same client, so it is queued
    /// once: nothing else bounds the number of such requests.
    pub(crate) fn wait(&mut self, request: CancelRequest) {
        if request.requester.is_none()
            && let Some(other) = self.waiting.iter_mut().find(|r| r.requester.is_none() && r.client == request.client)
        {
            other.next_is_here |= request.next_is_here;
            return;
        }
        self.waiting.push_back(request);
    }

    /// The connection of a sender is closed to make room; its request is carried out.
    pub(crate) fn leave(&mut self, sender: ConnId) {
        let at = self.waiting.iter().position(|request| request.requester == Some(sender));
        if let Some(request) = at.and_then(|at| self.waiting.remove(at)) {
            self.wait(CancelRequest { requester: None, ..request });
        }
    }

    /// The time of a sender is over, and its request with it.
    pub(crate) fn drop_requests_of(&mut self, sender: ConnId) {
        self.waiting.retain(|request| request.requester != Some(sender));
    }

    /// The next request, if fewer than `most` are under way.
    pub(crate) fn next(&mut self, most: usize) -> Option<CancelRequest> {
        if self.under_way.len() < most { self.waiting.pop_front() } else { None }
    }

    /// A connection for a request has begun.
    pub(crate) fn begin(&mut self, cancel: ConnId) {
        self.under_way.push(cancel);
    }

    /// A connection for a request has ended.
    pub(crate) fn end(&mut self, cancel: ConnId) {
        self.under_way.retain(|conn| *conn != cancel);
    }

    /// The connections for requests.
    pub(crate) fn under_way(&self) -> &[ConnId] {
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
