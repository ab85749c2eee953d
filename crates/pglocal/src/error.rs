//! What went wrong, in one sentence for the person before the terminal.

use std::fmt;
use std::io;

/// Why PostgreSQL could not be found, fetched, started or stopped. The text is one or a few lines, made to be shown.
#[derive(Debug)]
pub struct Error(String);

impl Error {
    /// One with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Error(text.into())
    }

    /// An error of the operating system, with what was being done: "create /tmp/x: Permission denied".
    pub(crate) fn io(what: impl fmt::Display, error: &io::Error) -> Self {
        Error(format!("{what}: {error}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}
