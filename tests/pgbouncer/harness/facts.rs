//! Facts: the results of a case, each with a name. Their text does not depend on ports, folders, process ids or times.
//!
//! Invariant: a fact's name is used once in a case, so that two lists of facts can be compared.

use std::time::Duration;

use weir_pgclient::{Answer, ConnectParams, Connection, Error};
use weir_tests::{Batch, line_of, lines_of, read_until_ready, until_quiet};

/// How long a connection must be silent until it counts as quiet.
const QUIET: Duration = Duration::from_millis(300);

/// How long a client waits for a message that must come.
const TIMEOUT: Duration = Duration::from_secs(15);

/// The facts of one case, in the order of their observation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    seen: Vec<(String, String)>,
    /// Texts that differ by site, and their placeholders.
    words: Vec<(String, &'static str)>,
    /// The end of the pooler's log, to explain a difference.
    log: String,
}

impl Facts {
    /// An empty list; each of these words is replaced wherever it is a whole word.
    pub(crate) fn new(words: Vec<(String, &'static str)>) -> Self {
        Facts { seen: Vec::new(), words, log: String::new() }
    }

    /// All facts.
    pub(crate) fn all(&self) -> &[(String, String)] {
        &self.seen
    }

    /// The fact of this name.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.seen.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The facts with the end of a log.
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

    /// Connects and logs in, and notes the result.
    #[track_caller]
    pub(crate) fn login(&mut self, name: &str, params: &ConnectParams) -> Option<Connection> {
        let outcome = Connection::connect(params);
        self.note(name, outcome.as_ref().map_or_else(error_line, |_| "welcome".to_owned()));
        outcome.ok()
    }

    /// Runs statements, and notes the last one's answer.
    #[track_caller]
    pub(crate) fn query(&mut self, name: &str, connection: &mut Connection, sql: &str) {
        let outcome = connection.query(sql);
        self.note(name, outcome.as_ref().map_or_else(error_line, shown));
    }

    /// Sends a batch and notes every message of the answer, up to this many ReadyForQuery.
    #[track_caller]
    pub(crate) fn batch(&mut self, name: &str, connection: &mut Connection, batch: &Batch, ready: usize) {
        connection.send_bytes(batch.bytes()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let transcript = lines_of(&read_until_ready(connection, ready)).join("; ");
        self.note(name, transcript);
    }

    /// Notes all messages until the connection is quiet.
    #[track_caller]
    pub(crate) fn rest(&mut self, name: &str, connection: &mut Connection) {
        self.note(name, until_quiet(connection, QUIET).join("; "));
    }

    /// Notes all messages until the connection is quiet for that time.
    #[track_caller]
    pub(crate) fn during(&mut self, quiet: Duration, name: &str, connection: &mut Connection) {
        self.note(name, until_quiet(connection, quiet).join("; "));
    }

    /// Waits for the first message, and notes it with the messages soon after it.
    #[track_caller]
    pub(crate) fn rest_after_first(&mut self, name: &str, connection: &mut Connection) {
        let first = connection.read_frame(TIMEOUT);
        let mut transcript = vec![first.map_or_else(|error| error_line(&error), |frame| line_of(&frame))];
        transcript.extend(until_quiet(connection, QUIET));
        self.note(name, transcript.join("; "));
    }

    /// Notes an answer up to ReadyForQuery, without a time limit of its own.
    #[track_caller]
    pub(crate) fn end_of_answer(&mut self, name: &str, connection: &mut Connection) {
        let transcript = lines_of(&read_until_ready(connection, 1)).join("; ");
        self.note(name, transcript);
    }

    /// Notes all messages until the connection ends, which must happen within some seconds.
    #[track_caller]
    pub(crate) fn end(&mut self, name: &str, connection: &mut Connection) {
        self.note(name, until_quiet(connection, TIMEOUT).join("; "));
    }

    /// A text with placeholders for the parts that differ by site.
    pub(crate) fn plain(&self, text: &str) -> String {
        self.words.iter().fold(text.to_owned(), |text, (word, stands)| replace(&text, word, stands))
    }
}

/// An error as its severity, SQLSTATE and text, or `closed`, however the connection ended.
pub(crate) fn error_line(error: &Error) -> String {
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

/// Replaces a word where no letter, digit or underscore is next to it.
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
