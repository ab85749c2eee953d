//! Inputs that wait for the engine.

use std::net::IpAddr;
use std::sync::Arc;

use weir_base::{ConnId, Span};
use weir_engine::port::{Gone, Secured};

/// An input that waits for the engine.
#[derive(Debug)]
pub(crate) enum PendingInput {
    Blocked(ConnId),
    Drained(ConnId),
    Detached(ConnId),
    Closed(ConnId, Gone),
    Connected(ConnId, String, Option<IpAddr>),
    Secured(ConnId, Box<Secured>),
    TlsFailed(ConnId, String),
    ConnectFailed(ConnId, String),
    Resolved(Arc<str>, Vec<IpAddr>, Span),
}
