//! Why a command failed: the lines for stderr. The exit status is 1.

use std::fmt::Display;

/// A command's failure; the exit status is 1 either way.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The reasons have been printed.
    Reported,
    /// A reason to print.
    Message(String),
    /// Reasons to print, one line each.
    Messages(Vec<String>),
}

impl Failure {
    /// A failure because of an error, whose text is enough.
    pub(crate) fn of(error: impl Display) -> Self {
        Failure::Message(error.to_string())
    }

    /// A failure because of an error of several lines.
    pub(crate) fn lines(error: impl Display) -> Self {
        Failure::Messages(error.to_string().lines().map(str::to_owned).collect())
    }

    /// A failure because of an error, with what failed.
    pub(crate) fn at(what: impl Display, error: impl Display) -> Self {
        Failure::Message(format!("{what}: {error}"))
    }
}
