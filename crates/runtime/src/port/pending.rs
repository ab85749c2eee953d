//! What the engine has yet to be told, and what is due for a peer later.

use std::net::IpAddr;
use std::sync::Arc;

use weir_base::{Peer, Span};
use weir_engine::port::{Gone, Secured};

/// Something that the engine has to be told.
#[derive(Debug)]
pub(crate) enum PendingInput {
    Blocked(Peer),
    Drained(Peer),
    Detached(Peer),
    Closed(Peer, Gone),
    Connected(Peer, String, Option<IpAddr>),
    Secured(Peer, Box<Secured>),
    TlsFailed(Peer, String),
    ConnectFailed(Peer, String),
    Resolved(Arc<str>, Vec<IpAddr>, Span),
}

/// What is to be done for a peer at a certain moment, if it still exists.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum DueAction {
    /// It has been closed long enough ago; what it did not take is lost.
    Drop,
    /// Another try to connect to a Unix socket whose queue was full.
    Connect,
}
