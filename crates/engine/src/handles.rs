//! Names that several parts give to the same things: pools, and who waits in a pool's queue.

use weir_base::Peer;
use weir_pool::lending::BorrowRequest;

/// Index of a pool in the engine's table.
pub(crate) type PoolIx = u32;

/// A `PoolIx` for clients that have no pool.
pub(crate) const NO_POOL: PoolIx = PoolIx::MAX;

/// The first slot of handles that name no socket but a question. Sockets stay far below: the key of a cancel request has
/// 24 bits for them.
pub(crate) const FIRST_QUERY: u32 = 1 << 31;

/// Who waits in a pool's queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waiter {
    /// A client, by its socket's handle.
    Client(Peer),
    /// A query of ours for a user's secret.
    AuthQuery(Peer),
    /// Another worker, which is a guest of the pool.
    Borrower(BorrowRequest),
}

impl Waiter {
    #[inline]
    pub(crate) fn of(peer: Peer) -> Waiter {
        if peer.slot < FIRST_QUERY {
            return Waiter::Client(peer);
        }
        BorrowRequest::from_handle(peer).map_or(Waiter::AuthQuery(peer), Waiter::Borrower)
    }
}
