//! Why a question to the workers, or to what is kept of them, has no answer. Its words are the API's.

use std::time::Duration;

use weir_admin::{BusyWorker, ChangeError, CommandError};

/// Why there is no answer.
#[derive(Debug)]
pub enum MonitorError {
    /// The workers refused the command.
    Refused(CommandError),
    /// The configuration was not changed.
    NotChanged(ChangeError),
    /// The workers did not answer in time.
    NoAnswer,
    /// A worker is busy, and was not waited for.
    Busy(BusyWorker),
    /// A command waited for so long, and was withdrawn.
    TakenBack(Duration),
    /// The process is shutting down.
    Ending,
    /// No pool has this name.
    NoSuchPool(String),
    /// A backend got no signal: why.
    NotSignalled(String),
    /// A file of the history can't be read.
    Unreadable(String),
    /// The limit of silences is reached, which is this.
    TooManySilences(usize),
    /// The limit of event streams is reached.
    TooManyStreams,
}
