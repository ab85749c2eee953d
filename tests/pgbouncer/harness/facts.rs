//! What was seen: facts with a name each, in words that do not depend on ports, folders, process ids or moments.
//!
//! Invariant: a fact's name is used once in a case, so that two lists of facts can be laid side by side.

use std::time::Duration;

use weir_pgclient::{Answer, Connection, Error, Params};
use weir_tests::{Batch, readies, tale, tell, until_quiet};

/// How long nothing may come until a connection counts as quiet.
const QUIET: Duration = Duration::from_millis(300);

/// How long a client waits for what must come.
const PATIENCE: Duration = Duration::from_secs(15);

/// The facts of one case, in the order in which they were seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    seen: Vec<(String, String)>,
    /// What is different for each site, and what stands for it.
    words: Vec<(String, &'static str)>,
    /// The end of the pooler's log, for whoever must explain a difference.
    log: String,
}

impl Facts {
    /// None yet; each of these words is replaced wherever it stands alone.
    pub(crate) fn new(words: Vec<(String, &'static str)>) -> Self {
        Facts { seen: Vec::new(), words, log: String::new() }
    }

    /// All of them.
    pub(crate) fn all(&self) -> &[(String, String)] {
        &self.seen
    }

    /// What was noted under this name.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.seen.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The same facts with the end of a log.
    pub(crate) fn with_log(mut self, log: String) -> Self {
        self.log = log;
        self
    }

    /// The end of the log.
    pub(crate) fn log(&self) -> &str {
        &self.log
    }

    /// Notes a fact.
    #[track_caller]
    pub(crate) fn note(&mut self, name: &str, value: impl ToString) {
        assert!(self.get(name).is_none(), "two facts are named {name:?}");
        let value = self.plain(&value.to_string());
        self.seen.push((name.to_owned(), value));
    }

    /// Connects and logs in, and notes how that went.
    #[track_caller]
    pub(crate) fn login(&mut self, name: &str, params: &Params) -> Option<Connection> {
        let outcome = Connection::connect(params);
        self.note(name, outcome.as_ref().map_or_else(told, |_| "welcome".to_owned()));
        outcome.ok()
    }

    /// Runs statements, and notes the last one's answer.
    #[track_caller]
    pub(crate) fn query(&mut self, name: &str, connection: &mut Connection, sql: &str) {
        let outcome = connection.query(sql);
        self.note(name, outcome.as_ref().map_or_else(told, shown));
    }

    /// Sends a batch and notes every message of the answer, up to so many ReadyForQuery.
    #[track_caller]
    pub(crate) fn batch(&mut self, name: &str, connection: &mut Connection, batch: &Batch, ready: usize) {
        connection.send_bytes(batch.bytes()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let story = tale(&readies(connection, ready)).join("; ");
        self.note(name, story);
    }

    /// Notes whatever comes until nothing comes.
    #[track_caller]
    pub(crate) fn rest(&mut self, name: &str, connection: &mut Connection) {
        self.note(name, until_quiet(connection, QUIET).join("; "));
    }

    /// Notes whatever comes until nothing comes for so long.
    #[track_caller]
    pub(crate) fn during(&mut self, quiet: Duration, name: &str, connection: &mut Connection) {
        self.note(name, until_quiet(connection, quiet).join("; "));
    }

    /// Waits for the first message, and notes it with whatever comes soon after.
    #[track_caller]
    pub(crate) fn rest_after_first(&mut self, name: &str, connection: &mut Connection) {
        let first = connection.read_frame(PATIENCE);
        let mut story = vec![first.map_or_else(|error| told(&error), |frame| tell(&frame))];
        story.extend(until_quiet(connection, QUIET));
        self.note(name, story.join("; "));
    }

    /// Notes an answer up to ReadyForQuery, which takes as long as it takes.
    #[track_caller]
    pub(crate) fn end_of_answer(&mut self, name: &str, connection: &mut Connection) {
        let story = tale(&readies(connection, 1)).join("; ");
        self.note(name, story);
    }

    /// Notes what comes until the connection ends, which it must within some seconds.
    #[track_caller]
    pub(crate) fn end(&mut self, name: &str, connection: &mut Connection) {
        self.note(name, until_quiet(connection, PATIENCE).join("; "));
    }

    /// A text without what differs from site to site.
    pub(crate) fn plain(&self, text: &str) -> String {
        self.words.iter().fold(text.to_owned(), |text, (word, stands)| replace(&text, word, stands))
    }
}

/// An error as its severity, SQLSTATE and text, or `closed`, however the connection came to its end.
pub(crate) fn told(error: &Error) -> String {
    match error {
        Error::Server(said) => format!("{} {} {}", said.severity, said.sqlstate, said.message),
        Error::Closed | Error::Io(_) => "closed".to_owned(),
        Error::Timeout => "silence".to_owned(),
        other => other.to_string(),
    }
}

/// An answer's columns, rows and tag.
fn shown(answer: &Answer) -> String {
    let row = |row: &Vec<Option<String>>| {
        let values: Vec<_> = row.iter().map(|value| value.as_deref().unwrap_or("NULL")).collect();
        format!("({})", values.join(","))
    };
    let rows: Vec<_> = answer.rows.iter().map(row).collect();
    format!("{} {}", rows.join(""), answer.tag).trim().to_owned()
}

/// Replaces a word wherever no letter, digit or underscore touches it.
fn replace(text: &str, word: &str, by: &str) -> String {
    let of_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(word) {
        let (before, after) = (&rest[..at], &rest[at + word.len()..]);
        let alone = !before.chars().last().is_some_and(of_word) && !after.chars().next().is_some_and(of_word);
        out.push_str(before);
        out.push_str(if alone { by } else { word });
        rest = after;
    }
    out + rest
}
