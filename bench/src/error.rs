//! What went wrong, in words for the person before the terminal.

use std::fmt;

/// Why a measurement or a soak could not be made. The text is made to be shown.
#[derive(Debug)]
pub(crate) struct Error(String);

/// The outcome of what may fail.
pub(crate) type Outcome<T> = Result<T, Error>;

impl Error {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Error(text.into())
    }

    /// An error with what was being done: `write /tmp/x: Permission denied`.
    pub(crate) fn at(what: impl fmt::Display, error: impl fmt::Display) -> Self {
        Error(format!("{what}: {error}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<weir_pglocal::Error> for Error {
    fn from(error: weir_pglocal::Error) -> Self {
        Error(error.to_string())
    }
}

impl From<weir_pgclient::Error> for Error {
    fn from(error: weir_pgclient::Error) -> Self {
        Error(error.to_string())
    }
}
