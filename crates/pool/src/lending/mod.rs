//! One pool over several workers: who lends a server to whom, and when it comes back.
//!
//! A pool has one owner worker, whose [`Pool`](crate::Pool) keeps the limit, opens and closes servers, and has the one queue of
//! all who wait; [`Lender`] is what it keeps of the others. Another worker with clients of the pool is a borrower: it has a
//! `Pool` of its own, which opens nothing, and a [`Borrower`], which asks the owner instead ([`ToOwner::Request`]). The
//! request waits in the owner's queue under a handle of its own kind, with the age of the borrower's oldest wait, so it is
//! served like a client. A server that it is granted is *lent*: in the owner's pool it stays linked, to the request, and
//! counts, until it is returned ([`Pool::returned`](crate::Pool::returned)) or reported closed.
//!
//! A borrower keeps a server as long as it has work for it. It returns it
//!
//! - at its release, when a client elsewhere has waited longer than its own oldest by more than [`SLACK`], or when no client
//!   waits here and one does elsewhere;
//! - when it has been idle here for [`IDLE_KEEP`].
//!
//! So that a borrower knows, the owner reports since when the oldest client elsewhere waits: at once when there was none,
//! otherwise once in [`UPDATE_INTERVAL`] at most; and a borrower renews its request as seldom when another of its clients
//! has become the oldest. Therefore, but for the time that messages take: no server is idle at one worker while a client
//! waits at another; and who gives a server on knows the oldest waiter of every worker as of [`UPDATE_INTERVAL`] ago,
//! and serves nobody who came later than one of them by more than [`SLACK`].
//!
//! Pure: messages are values, which arrive in the order in which they were sent. Knows no sockets and no sessions.

mod borrower;
mod lender;

#[cfg(test)]
mod exhaustive;

pub use borrower::{Borrower, Settled};
pub use lender::Lender;

use weir_base::{Peer, Span, Time, WorkerId};

use crate::{RefuseReason, Settings};

/// By how much longer a client elsewhere must have waited to be served before a borrower's own. It keeps servers from moving
/// to and fro between workers that are equally busy.
pub const SLACK: Span = Span::from_millis(2);

/// The shortest interval between reports to a borrower about waits elsewhere.
pub const UPDATE_INTERVAL: Span = Span::from_millis(2);

/// How long a borrower keeps an idle server. Moving sockets costs, and who asked for one soon asks again.
pub const IDLE_KEEP: Span = Span::from_secs(1);

/// The first slot of the handles under which borrowers' requests wait. Sockets stay far below.
const FIRST_REQUEST: u32 = u32::MAX - (1 << 16);

/// A borrower's request for a server.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BorrowRequest {
    /// The borrower.
    pub from: WorkerId,
    /// Its number there.
    pub id: u32,
}

/// From a borrower to the owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ToOwner {
    /// A server is wanted, for a client that has waited since then. It replaces the request before.
    Request {
        /// The number of the request.
        id: u32,
        /// When its client's wait began.
        since: Time,
    },
    /// None is wanted any more.
    Withdraw,
    /// There are clients here, or none any more.
    HasClients(bool),
    /// A server that was lent is closed; its handle at the owner.
    Closed(Peer),
}

/// From the owner to a borrower.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ToBorrower {
    /// No server for this request.
    Refused {
        /// The number of the request.
        id: u32,
        /// Why.
        why: RefuseReason,
        /// When it may be asked again.
        retry_at: Time,
    },
    /// The server that was on its way for the request of this number is lost.
    Failed(u32),
    /// Since when the oldest client elsewhere waits; never: none does.
    OldestElsewhere(Time),
    /// The servers that the borrower has by now are to be closed as they become free.
    Recall,
}

impl BorrowRequest {
    /// Its handle in the owner's queue.
    pub fn handle(self) -> Peer {
        Peer::new(FIRST_REQUEST + u32::from(self.from.0), self.id)
    }

    /// The request that waits under a handle, if it is one.
    pub fn from_handle(peer: Peer) -> Option<BorrowRequest> {
        let from = peer.slot.checked_sub(FIRST_REQUEST).filter(|_| peer != Peer::NONE)?;
        Some(BorrowRequest { from: WorkerId(from as u16), id: peer.generation })
    }
}

/// The settings of a borrower's pool, where the owner's has these: it opens nothing, keeps nothing open, and leaves it to the
/// owner to close what is idle.
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
