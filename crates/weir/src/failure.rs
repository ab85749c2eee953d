//! Why a command failed, for the exit status and the one line on stderr.

use std::fmt::Display;

/// A command's failure; the exit status is 1 either way.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It has been said already.
    Said,
    /// It is still to be said.
    Because(String),
}

impl Failure {
    /// A failure because of an error that explains itself.
    pub(crate) fn of(error: impl Display) -> Self {
        Failure::Because(error.to_string())
    }

    /// The same, with what was being done.
    pub(crate) fn at(what: impl Display, error: impl Display) -> Self {
        Failure::Because(format!("{what}: {error}"))
    }
}
