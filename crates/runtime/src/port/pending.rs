//! Inputs that wait for the engine.

use std::net::IpAddr;
use std::sync::Arc;

use weir_base::{Peer, Span};
use weir_engine::port::{Gone, Secured};

/// An input that waits for the engine.
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
