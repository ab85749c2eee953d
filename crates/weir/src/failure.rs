//! Why a command failed: the lines for stderr. The exit status is 1.

use std::fmt::Display;

/// A command's failure; the exit status is 1 either way.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The reasons are printed already.
    Reported,
    /// A reason to print.
    Message(String),
    /// So are these, each in a line of its own.
    Messages(Vec<String>),
}

impl Failure {
    /// A failure because of an error that explains itself.
    pub(crate) fn of(error: impl Display) -> Self {
        Failure::Message(error.to_string())
    }

    /// The same, of one that takes several lines.
    pub(crate) fn lines(error: impl Display) -> Self {
        Failure::Messages(error.to_string().lines().map(str::to_owned).collect())
    }

    /// The same, with what was being done.
    pub(crate) fn at(what: impl Display, error: impl Display) -> Self {
        Failure::Message(format!("{what}: {error}"))
    }
}
