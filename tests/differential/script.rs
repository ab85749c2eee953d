//! A client's session as a list of steps, and the text files in which such lists are stored.
//!
//! A file: comments after `#`; one line `modes session transaction statement`; then one step per line. A step is a
//! message (`crate::message`), `wait`, which sends the messages so far and reads the answers, or `client NAME`, which
//! selects another client. The expected answers are those of PostgreSQL without Weir.

use std::fmt;

use weir_pgwire::tag::back;
use weir_tests::Mode;

use crate::message::Message;
use crate::token::{Token, tokens};

/// How far to read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Wait {
    /// Up to the last pending ReadyForQuery.
    Ready,
    /// Up to one of these messages, by tag, or to an error or ReadyForQuery after which none of them can follow.
    For(Vec<u8>),
    /// Up to a notification, which comes when it comes.
    Notified,
    /// One byte, which is no message: the answer to SSLRequest and GSSENCRequest.
    Byte,
    /// The end of the connection.
    End,
}

/// The next step of a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    Send(Message),
    Wait(Wait),
    /// Another client, by name, executes the following steps.
    Client(String),
}

/// A session, or several that alternate.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Script {
    pub(crate) modes: Vec<Mode>,
    pub(crate) steps: Vec<Step>,
}

/// The messages that `wait` can name, as `weir_tests::line_of` prints them.
const AWAITED: [(&str, u8); 9] = [
    ("CopyIn", back::COPY_IN),
    ("Complete", back::COMMAND_COMPLETE),
    ("Suspended", back::PORTAL_SUSPENDED),
    ("Empty", back::EMPTY_QUERY),
    ("Columns", back::ROW_DESCRIPTION),
    ("NoData", back::NO_DATA),
    ("ParseComplete", back::PARSE_COMPLETE),
    ("BindComplete", back::BIND_COMPLETE),
    ("CloseComplete", back::CLOSE_COMPLETE),
];

pub(crate) const MODES: [(&str, Mode); 4] = [
    ("session", Mode::Session),
    ("transaction", Mode::Transaction),
    ("statement", Mode::Statement),
    ("auto", Mode::Auto),
];

impl Script {
    /// Parses a file.
    ///
    /// # Errors
    /// The line and its mistake.
    pub(crate) fn read(text: &str) -> Result<Script, String> {
        let mut script = Script::default();
        for (number, line) in text.lines().enumerate() {
            script.read_line(line).map_err(|error| format!("line {}: {error}", number + 1))?;
        }
        if script.modes.is_empty() { Err("no line says which modes it is for".into()) } else { Ok(script) }
    }

    /// The script with a plain login for each client whose first message is not the first packet of a connection.
    pub(crate) fn with_logins(&self) -> Script {
        let mut known: Vec<&str> = Vec::new();
        let mut name = "";
        let mut steps = Vec::new();
        for step in &self.steps {
            match step {
                Step::Client(other) => name = other,
                Step::Send(first) if !known.contains(&name) => {
                    known.push(name);
                    use Message::{GssRequest, Raw, SslRequest, Startup};
                    if !matches!(first, Startup { .. } | SslRequest | GssRequest | Raw(_)) {
                        steps.push(Step::Send(Startup { minor: 0, params: Vec::new() }));
                        steps.push(Step::Wait(Wait::Ready));
                    }
                }
                _ => {}
            }
            steps.push(step.clone());
        }
        Script { modes: self.modes.clone(), steps }
    }

    fn read_line(&mut self, line: &str) -> Result<(), String> {
        let tokens = tokens(line)?;
        let words: Vec<&str> = tokens
            .iter()
            .filter_map(|token| if let Token::Word(word) = token { Some(word.as_str()) } else { None })
            .collect();
        match words.as_slice() {
            [] if tokens.is_empty() => {}
            ["modes", modes @ ..] => {
                for mode in modes {
                    let known = MODES.iter().find(|(name, _)| name == mode);
                    self.modes.push(known.ok_or_else(|| format!("no mode is called {mode}"))?.1);
                }
            }
            ["client", name] => self.steps.push(Step::Client((*name).to_owned())),
            ["wait"] => self.steps.push(Step::Wait(Wait::Ready)),
            ["wait", "notified"] => self.steps.push(Step::Wait(Wait::Notified)),
            ["wait", "byte"] => self.steps.push(Step::Wait(Wait::Byte)),
            ["wait", "end"] => self.steps.push(Step::Wait(Wait::End)),
            ["wait", names @ ..] => {
                let tag = |name: &&str| AWAITED.iter().find(|(known, _)| known == name).map(|(_, tag)| *tag);
                let tags: Option<Vec<u8>> = names.iter().map(tag).collect();
                self.steps.push(Step::Wait(Wait::For(tags.ok_or_else(|| format!("{names:?} can't be waited for"))?)));
            }
            _ => self.steps.push(Step::Send(Message::read(&tokens)?)),
        }
        Ok(())
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Send(message) => f.write_str(&message.line()),
            Step::Client(name) => write!(f, "client {name}"),
            Step::Wait(Wait::Ready) => f.write_str("wait"),
            Step::Wait(Wait::Notified) => f.write_str("wait notified"),
            Step::Wait(Wait::Byte) => f.write_str("wait byte"),
            Step::Wait(Wait::End) => f.write_str("wait end"),
            Step::Wait(Wait::For(tags)) => {
                f.write_str("wait")?;
                let known = |tag: &u8| AWAITED.iter().find(|(_, known)| known == tag);
                tags.iter().filter_map(known).try_for_each(|(name, _)| write!(f, " {name}"))
            }
        }
    }
}

impl fmt::Display for Script {
    /// As a file: [`Script::read`] parses it again.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("modes")?;
        self.modes.iter().try_for_each(|mode| write!(f, " {mode}"))?;
        self.steps.iter().try_for_each(|step| write!(f, "\n{step}"))
    }
}

#[test]
fn a_script_is_read_back_as_it_was_written() {
    let text = "modes session statement\n\
                Startup 3.0 \"application_name\" \"it's me\"\nwait\nclient b\n\
                Parse \"s\" \"SELECT $1, '\\xc3\\xa4'\" 23\nBind \"p\" \"s\" NULL \"\\x00\\x01\" formats 1 results 0 1\n\
                Describe P \"p\"\nExecute \"p\" 2\nFlush\nwait Suspended Complete\nClose S \"s\"\nSync\nwait\n\
                FunctionCall 177 \"a\" NULL formats 0 results 1\nCopyData \"1\\t2\\n\"\nCopyFail \"no\"\nCopyDone\n\
                SSLRequest\nwait notified\nwait byte\nGSSENCRequest\nRaw \"\\x00\"\nTerminate\nwait end";
    let script = Script::read(text).unwrap();
    assert_eq!(script.to_string(), text);
    assert_eq!(Script::read(&script.to_string()), Ok(script));
}

#[test]
fn an_error_in_a_file_names_its_line() {
    for (text, line) in [
        ("modes session\nQuery SELECT", "line 2: a text in quotes"),
        ("modes nonsense", "line 1: no mode"),
        ("modes session\n\nSpeak", "line 3: no message"),
        ("modes session\nwait Godot", "line 2: [\"Godot\"] can't be waited for"),
        ("modes session\nSync \"x\"", "line 2: too much"),
        ("Sync", "no line says"),
    ] {
        let error = Script::read(text).unwrap_err();
        assert!(error.starts_with(line), "{error}");
    }
}
