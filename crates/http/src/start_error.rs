//! Why the control plane can't start.

use std::fmt;

/// Why the control plane can't start: one line, with what to do about it.
#[derive(Debug)]
pub struct WebError(String);

impl WebError {
    /// In one line, with what to do.
    pub fn new(why: String) -> WebError {
        WebError(why)
    }
}

impl fmt::Display for WebError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WebError {}
