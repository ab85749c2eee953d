//! Connections to servers of pools that several nodes share: this worker has closed them, and the server has not ended
//! them yet.
//!
//! PostgreSQL counts a connection until its backend has exited, and closes the socket after that. So such a connection
//! counts against the node's share until its end has arrived. Must not know the budget: worker 0 has that.

use std::sync::Arc;

use weir_base::{Span, Time};

/// How long the server may take to close a connection after a Terminate while it runs nothing; one that takes longer
/// can't be reached.
const IDLE: Span = Span::from_secs(30);
/// How long the server may take while it runs something: it sees the end only after that. The operating system notices
/// a lost host before.
const BUSY: Span = Span::from_secs(3600);

/// A connection that is closed here.
pub(crate) struct EndingSlot {
    pub(crate) database: Arc<str>,
    pub(crate) armed: Time,
    /// When the connection is given up.
    pub(crate) deadline: Time,
}

impl EndingSlot {
    pub(crate) fn new(database: Arc<str>, busy: bool, now: Time) -> EndingSlot {
        EndingSlot { database, armed: Time::NEVER, deadline: now + if busy { BUSY } else { IDLE } }
    }
}
