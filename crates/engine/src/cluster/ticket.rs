//! What a client that is in counts for, where clients are limited.

use std::net::IpAddr;
use std::sync::Arc;

/// A place among the clients that are in, and what it counts for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Ticket {
    pub(super) database: Arc<str>,
    pub(super) user: Arc<str>,
    /// `None` over the Unix socket.
    pub(super) address: Option<IpAddr>,
    /// An administrator at the console is counted, and always let in.
    pub(super) admin: bool,
}
