//! What happened: counts of everything, and the text of what must not happen.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// This many problems are shown in full; beyond that they are counted.
const SHOWN: u64 = 30;

/// Why an act did not end well.
#[derive(Debug)]
pub(super) enum Trouble {
    /// A promise is broken: another client's bytes, a wrong answer, a stray cancel.
    Wrong(String),
    /// No answer in time.
    Stuck(String),
    /// The connection ended, though not by us: to be explained by a server that was ended.
    Lost(String),
    /// An error that nothing explains.
    Strange(String),
}

impl From<weir_pgclient::Error> for Trouble {
    fn from(error: weir_pgclient::Error) -> Self {
        match error {
            weir_pgclient::Error::Server(error) => Trouble::from(*error),
            weir_pgclient::Error::Timeout => Trouble::Stuck("no answer in time".to_owned()),
            weir_pgclient::Error::Closed | weir_pgclient::Error::Io(_) => Trouble::Lost(error.to_string()),
            weir_pgclient::Error::Protocol(text) => Trouble::Wrong(format!("broken protocol: {text}")),
            weir_pgclient::Error::Login(_) | weir_pgclient::Error::NoPassword(_) => Trouble::Strange(error.to_string()),
        }
    }
}

impl From<weir_pgclient::ServerErrorFields> for Trouble {
    fn from(error: weir_pgclient::ServerErrorFields) -> Self {
        let text = format!("{} {} {}", error.severity, error.sqlstate, error.message);
        match (error.severity.as_str(), error.sqlstate.as_str()) {
            _ if error.message.contains("query_wait_timeout") => Trouble::Stuck(text),
            ("FATAL" | "PANIC", _) => Trouble::Lost(text),
            (_, "57014") => Trouble::Wrong(format!("a cancel that was not ours: {text}")),
            _ => Trouble::Strange(text),
        }
    }
}

macro_rules! counts {
    ($($(#[$about:meta])* $name:ident),* $(,)?) => {
        /// The counts. They only grow.
        #[derive(Debug, Default)]
        pub(super) struct Counts { $($(#[$about])* pub(super) $name: AtomicU64),* }
    };
}

counts! {
    /// Acts that ended well.
    acts,
    /// Logins.
    logins,
    /// Victims whose connection was cut.
    cut,
    /// Connections that clients lost.
    lost,
    /// Losses that the client itself requested, with a cancel that found it waiting.
    excused,
    /// Servers that were ended.
    ended,
    /// Cancels that reached their query.
    cancelled,
    /// Cancels that came too early or too late.
    missed,
    /// Commands on the console.
    commands,
    wrong,
    stuck,
    strange,
    /// Counters, memory or descriptors that are not as they must be.
    uneven,
}

/// Counts and texts.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) counts: Counts,
    begin: Instant,
    losses: Mutex<BTreeMap<String, u64>>,
}

impl Tally {
    pub(super) fn new() -> Tally {
        Tally { counts: Counts::default(), begin: Instant::now(), losses: Mutex::default() }
    }

    /// Counts an act's end.
    pub(super) fn note(&self, who: &str, act: &str, outcome: &Result<(), Trouble>) {
        match outcome {
            Ok(()) => add(&self.counts.acts),
            Err(Trouble::Lost(text)) => {
                add(&self.counts.lost);
                *self.losses.lock().unwrap_or_else(PoisonError::into_inner).entry(text.clone()).or_default() += 1;
            }
            Err(Trouble::Wrong(text)) => self.problem(&self.counts.wrong, "WRONG", &format!("{who}, {act}: {text}")),
            Err(Trouble::Stuck(text)) => self.problem(&self.counts.stuck, "STUCK", &format!("{who}, {act}: {text}")),
            Err(Trouble::Strange(text)) => {
                self.problem(&self.counts.strange, "STRANGE", &format!("{who}, {act}: {text}"));
            }
        }
    }

    /// Something in the pooler's accounts does not add up.
    pub(super) fn uneven(&self, text: &str) {
        self.problem(&self.counts.uneven, "UNEVEN", text);
    }

    /// All that must be zero in the end.
    pub(super) fn problems(&self) -> u64 {
        let counts = &self.counts;
        [&counts.wrong, &counts.stuck, &counts.strange, &counts.uneven].iter().map(|count| get(count)).sum()
    }

    /// The words with which connections were lost, and how often.
    pub(super) fn losses(&self) -> Vec<(String, u64)> {
        let losses = self.losses.lock().unwrap_or_else(PoisonError::into_inner);
        losses.iter().map(|(text, count)| (text.clone(), *count)).collect()
    }

    fn problem(&self, count: &AtomicU64, word: &str, text: &str) {
        add(count);
        if self.problems() <= SHOWN {
            println!("{:>6.1} s  {word}: {text}", self.begin.elapsed().as_secs_f64());
        }
    }
}

pub(super) fn add(count: &AtomicU64) {
    count.fetch_add(1, Relaxed);
}

pub(super) fn get(count: &AtomicU64) -> u64 {
    count.load(Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(severity: &str, sqlstate: &str, message: &str) -> Trouble {
        let (severity, sqlstate, message) = (severity.to_owned(), sqlstate.to_owned(), message.to_owned());
        Trouble::from(weir_pgclient::ServerErrorFields { severity, sqlstate, message, detail: None, hint: None })
    }

    #[test]
    fn a_lost_server_a_stray_cancel_and_a_long_wait_are_counted_apart() {
        assert!(matches!(error("FATAL", "57P01", "terminating connection"), Trouble::Lost(_)));
        assert!(matches!(error("ERROR", "57014", "canceling statement"), Trouble::Wrong(_)));
        assert!(matches!(error("FATAL", "08P01", "query_wait_timeout"), Trouble::Stuck(_)));
        assert!(matches!(error("ERROR", "42P01", "no such table"), Trouble::Strange(_)));
        assert!(matches!(Trouble::from(weir_pgclient::Error::Timeout), Trouble::Stuck(_)));
    }

    #[test]
    fn losses_are_no_problem_by_themselves_and_all_else_is() {
        let tally = Tally::new();
        tally.note("c1", "simple", &Err(Trouble::Lost("closed".to_owned())));
        tally.note("c1", "simple", &Ok(()));
        assert_eq!(tally.problems(), 0);
        assert_eq!(tally.losses(), [("closed".to_owned(), 1)]);
        tally.note("c1", "simple", &Err(Trouble::Strange("what".to_owned())));
        tally.uneven("5 is not 6");
        assert_eq!(tally.problems(), 2);
    }
}
