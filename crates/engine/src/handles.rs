//! Handles that several parts use: of pools, and of the waiters in a pool's queue.

use weir_base::ConnId;
use weir_pool::lending::BorrowRequest;

/// Index of a pool in the engine's table.
pub(crate) type PoolIx = u32;

/// The `PoolIx` of clients without a pool.
pub(crate) const NO_POOL: PoolIx = PoolIx::MAX;

/// The first slot of handles that name queries instead of sockets. Sockets stay far below: the key of a cancel request
/// has 24 bits for them.
pub(crate) const FIRST_QUERY: u32 = 1 << 31;

/// The first slot of handles under which a pool requests the server that listens for its clients.
const FIRST_LISTENER: u32 = FIRST_QUERY + (1 << 30);

/// The handle under which a pool requests the server that listens for its clients.
pub(crate) fn listener_handle(pool: PoolIx, generation: u32) -> ConnId {
    ConnId::new(FIRST_LISTENER + pool, generation)
}

/// A waiter in a pool's queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waiter {
    /// A client, by its socket's handle.
    Client(ConnId),
    /// An auth_query.
    AuthQuery(ConnId),
    /// The pool itself, for the server that listens for its clients.
    Listener(ConnId),
    /// Another worker, a borrower of the pool.
    Borrower(BorrowRequest),
}

impl Waiter {
    #[inline]
    pub(crate) fn of(conn: ConnId) -> Waiter {
        if conn.slot < FIRST_QUERY {
            return Waiter::Client(conn);
        }
        match BorrowRequest::from_handle(conn) {
            Some(request) => Waiter::Borrower(request),
            None if conn.slot >= FIRST_LISTENER => Waiter::Listener(conn),
            None => Waiter::AuthQuery(conn),
        }
    }
}
