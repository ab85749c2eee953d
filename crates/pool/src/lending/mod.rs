//! One pool over several workers: who lends a server to whom, and when the server is returned.
//!
//! A pool has one owner worker, by a hash of its names. The owner's [`Pool`](crate::Pool) keeps the limit, opens and
//! closes servers, and has the one queue of all waiting clients; [`Lender`] is the owner's state about the others.
//! Another worker with clients of the pool is a borrower: it has its own `Pool`, which opens nothing, and a
//! [`Borrower`], which sends requests to the owner ([`ToOwner::Request`]). A request waits in the owner's queue under
//! its own kind of handle, with the age of the borrower's oldest wait, so it is served like a client. A granted server
//! is *lent*: in the owner's pool it stays linked to the request, and counts, until it is returned
//! ([`Pool::returned`](crate::Pool::returned)) or reported closed.
//!
//! A borrower keeps a server as long as it has work for it. It returns it
//!
//! - at its release, when a client elsewhere has waited longer than its own oldest by more than [`SLACK`], or when no
//!   client waits here and one does elsewhere;
//! - when it has been idle here for [`IDLE_KEEP`].
//!
//! For this the owner reports since when the oldest client elsewhere waits: at once when there was none, otherwise at
//! most once per [`UPDATE_INTERVAL`]; and a borrower renews its request at most as often when another of its clients
//! has become the oldest. Therefore, apart from the latency of messages: no server is idle at one worker while a client
//! waits at another; and a worker that hands a server on knows the oldest wait of every worker as of
//! [`UPDATE_INTERVAL`] ago, and serves no client that began to wait later than one of them by more than [`SLACK`].
//!
//! Only servers move: a client stays where it logged in, so its cancel key still names its worker.
//!
//! Pure: messages are values, which arrive in the order in which they were sent. Knows no sockets and no sessions.

mod borrower;
mod lender;

#[cfg(test)]
mod exhaustive;

pub use borrower::{Borrower, Settled};
pub use lender::Lender;

use weir_base::{ConnId, Span, Time, WorkerId};

use crate::{RefuseReason, Settings};

/// By how much longer a client elsewhere must have waited to be served before a borrower's own. It prevents servers
/// from moving to and fro between workers that are equally busy.
pub const SLACK: Span = Span::from_millis(2);

/// The shortest interval between reports to a borrower about waits elsewhere.
pub const UPDATE_INTERVAL: Span = Span::from_millis(2);

/// How long a borrower keeps an idle server. Moving sockets costs, and the borrower often needs one again soon.
pub const IDLE_KEEP: Span = Span::from_secs(1);

/// The first slot of the handles under which borrowers' requests wait. Sockets stay far below.
const FIRST_REQUEST: u32 = u32::MAX - (1 << 16);

/// A borrower's request for a server.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BorrowRequest {
    /// The borrower.
    pub from: WorkerId,
    /// The request's number at the borrower.
    pub id: u32,
}

/// From a borrower to the owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ToOwner {
    /// A server is needed, for a client that has waited since then. Replaces the previous request.
    Request {
        /// The number of the request.
        id: u32,
        /// When the wait of the borrower's client began.
        since: Time,
    },
    /// No server is needed any more.
    Withdraw,
    /// There are clients here, or none any more.
    HasClients(bool),
    /// A server that was lent is closed; its handle at the owner.
    Closed(ConnId),
}

/// From the owner to a borrower.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ToBorrower {
    /// No server for this request.
    Refused {
        /// The number of the request.
        id: u32,
        /// Why the request is refused.
        why: RefuseReason,
        /// When the owner may be asked again.
        retry_at: Time,
    },
    /// The server that was on its way for the request of this number is lost.
    Failed(u32),
    /// Since when the oldest client elsewhere waits; never: none does.
    OldestElsewhere(Time),
    /// All servers that the borrower has now are to be closed as they become free.
    Recall,
}

impl BorrowRequest {
    /// The request's handle in the owner's queue.
    pub fn handle(self) -> ConnId {
        ConnId::new(FIRST_REQUEST + u32::from(self.from.0), self.id)
    }

    /// The request that waits under a handle, if it is one.
    pub fn from_handle(conn: ConnId) -> Option<BorrowRequest> {
        let from = conn.slot.checked_sub(FIRST_REQUEST).filter(|_| conn != ConnId::NONE)?;
        Some(BorrowRequest { from: WorkerId(from as u16), id: conn.generation })
    }
}

/// The settings of a borrower's pool, derived from the owner's: it opens nothing, keeps nothing open, and leaves
/// closing idle servers to the owner.
pub fn borrower_settings(settings: Settings) -> Settings {
    Settings {
        size: if settings.size == 0 { 0 } else { settings.most(settings.reserve_size) },
        min_size: 0,
        reserve_size: 0,
        reserve_timeout: Span::ZERO,
        server_idle_timeout: Span::ZERO,
        server_connect_timeout: Span::ZERO,
        connects_per_second: 0,
        ..settings
    }
}
