//! Why the demo ended early: one line for stderr.

use std::fmt::{self, Display};

/// The line.
#[derive(Debug)]
pub(super) struct Failure(String);

impl Failure {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Failure(text.into())
    }

    /// An error that explains itself.
    pub(super) fn of(error: impl Display) -> Self {
        Failure(error.to_string())
    }

    /// An error with what was being done.
    pub(super) fn at(what: impl Display, error: impl Display) -> Self {
        Failure(format!("{what}: {error}"))
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
