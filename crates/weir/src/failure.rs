//! Why a command failed, for the exit status and what is said on stderr: one line, or one for each of several reasons.

use std::fmt::Display;

/// A command's failure; the exit status is 1 either way.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It has been said already.
    Said,
    /// It is still to be said.
    Because(String),
    /// So are these, each in a line of its own.
    All(Vec<String>),
}

impl Failure {
    /// A failure because of an error that explains itself.
    pub(crate) fn of(error: impl Display) -> Self {
        Failure::Because(error.to_string())
    }

    /// The same, of one that takes several lines.
    pub(crate) fn lines(error: impl Display) -> Self {
        Failure::All(error.to_string().lines().map(str::to_owned).collect())
    }

    /// The same, with what was being done.
    pub(crate) fn at(what: impl Display, error: impl Display) -> Self {
        Failure::Because(format!("{what}: {error}"))
    }
}
