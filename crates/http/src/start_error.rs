//! Why the control plane can't start.

use std::fmt;
use std::net::SocketAddr;

/// Why the control plane can't start: one line, with what to do about it.
#[derive(Debug)]
pub struct WebError {
    text: String,
    taken: Option<SocketAddr>,
}

impl WebError {
    /// In one line, with what to do.
    pub fn new(why: String) -> WebError {
        WebError { text: why, taken: None }
    }

    /// Another program listens on an address of the control plane.
    pub(crate) fn in_use(address: SocketAddr) -> WebError {
        WebError { text: format!("can't listen on {address}: the address is in use"), taken: Some(address) }
    }

    /// The address on which another program listens, if that is why.
    pub fn taken_address(&self) -> Option<SocketAddr> {
        self.taken
    }
}

impl fmt::Display for WebError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for WebError {}
