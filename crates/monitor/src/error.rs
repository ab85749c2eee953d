//! Why a question to the workers, or to what is kept of them, has no answer: its text, and what may help.

use std::fmt;
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

impl MonitorError {
    /// More about it.
    pub fn detail(&self) -> Option<&str> {
        match self {
            MonitorError::Refused(error) => error.detail(),
            _ => None,
        }
    }

    /// What may help.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            MonitorError::Refused(CommandError::TakenOver) => "send it again in a moment",
            MonitorError::NoAnswer => "look at the log; try again",
            MonitorError::Busy(_) => "try again",
            MonitorError::TakenBack(_) => {
                "some servers are still in use, GET /api/v1/servers lists their clients; use a longer timeout"
            }
            MonitorError::Ending => "try again after its restart",
            MonitorError::NotSignalled(_) => "look again: GET /api/v1/incidents",
            MonitorError::Unreadable(_) => "look at the disk that [web] history is on",
            MonitorError::TooManyStreams => "close a page of the panel, or poll for the figures",
            MonitorError::Refused(_)
            | MonitorError::NotChanged(_)
            | MonitorError::NoSuchPool(_)
            | MonitorError::TooManySilences(_) => return None,
        })
    }
}

impl fmt::Display for MonitorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MonitorError::Refused(error) => error.fmt(f),
            MonitorError::NotChanged(error) => error.fmt(f),
            MonitorError::NoAnswer => f.write_str("the workers did not answer in time"),
            MonitorError::Busy(busy) => busy.fmt(f),
            MonitorError::TakenBack(longest) => {
                write!(f, "not completed within {} s, and withdrawn", longest.as_secs())
            }
            MonitorError::Ending => f.write_str("the process ends"),
            MonitorError::NoSuchPool(name) => write!(f, "no such pool: {name}"),
            MonitorError::NotSignalled(why) => f.write_str(why),
            MonitorError::Unreadable(why) => write!(f, "the history can't be read: {why}"),
            MonitorError::TooManySilences(most) => write!(f, "there are {most} silences already: end some"),
            MonitorError::TooManyStreams => f.write_str("too many streams of events are open"),
        }
    }
}

impl std::error::Error for MonitorError {}
