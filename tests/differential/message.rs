//! A client's message as a value: encoded for the wire, and as a line of a transcript.
//!
//! Owns both forms of each message. In texts and values `@.` stands for the client's schema and `@#` for its number, so
//! that one script can run for many clients at once.

use std::fmt::Write as _;

use weir_pgwire::{Of, put_front, tag};

use crate::token::{Token, quoted};

/// A value of a Bind or FunctionCall; `None` is NULL.
pub(crate) type Value = Option<Vec<u8>>;

/// A message of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// Protocol 3.`minor`, with parameters in addition to user and database.
    Startup {
        minor: u16,
        params: Vec<(Vec<u8>, Vec<u8>)>,
    },
    SslRequest,
    GssRequest,
    Query(Vec<u8>),
    Parse {
        name: Vec<u8>,
        text: Vec<u8>,
        types: Vec<u32>,
    },
    Bind {
        portal: Vec<u8>,
        statement: Vec<u8>,
        values: Vec<Value>,
        formats: Vec<u16>,
        results: Vec<u16>,
    },
    Describe(Of, Vec<u8>),
    Close(Of, Vec<u8>),
    Execute {
        portal: Vec<u8>,
        max_rows: i32,
    },
    FunctionCall {
        oid: u32,
        values: Vec<Value>,
        formats: Vec<u16>,
        result: u16,
    },
    CopyData(Vec<u8>),
    CopyDone,
    CopyFail(Vec<u8>),
    Sync,
    Flush,
    Terminate,
    /// Raw bytes.
    Raw(Vec<u8>),
}

/// The client that sends a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender<'a> {
    pub(crate) user: &'a str,
    pub(crate) database: &'a str,
    /// The client's own number: its schema is `c` and two digits.
    pub(crate) number: usize,
}

impl Sender<'_> {
    /// Replaces the placeholders with the client's schema and number.
    fn own(&self, text: &[u8]) -> Vec<u8> {
        let mut own = Vec::with_capacity(text.len() + 8);
        let mut rest = text;
        while let Some(at) = rest.windows(2).position(|pair| pair == b"@." || pair == b"@#") {
            own.extend_from_slice(&rest[..at]);
            let number = self.number;
            own.extend_from_slice(
                if rest[at + 1] == b'.' { format!("c{number:02}.") } else { format!("{number:02}") }.as_bytes(),
            );
            rest = &rest[at + 2..];
        }
        own.extend_from_slice(rest);
        own
    }
}

impl Message {
    pub(crate) fn query(text: &str) -> Message {
        Message::Query(text.into())
    }

    /// Values and results as text.
    pub(crate) fn bind(portal: &[u8], statement: &[u8], values: Vec<Value>) -> Message {
        let (portal, statement) = (portal.into(), statement.into());
        Message::Bind { portal, statement, values, formats: Vec::new(), results: Vec::new() }
    }

    pub(crate) fn execute(portal: &[u8], max_rows: i32) -> Message {
        Message::Execute { portal: portal.into(), max_rows }
    }

    /// Appends the message's encoding.
    pub(crate) fn put(&self, buffer: &mut Vec<u8>, sender: Sender<'_>) {
        let own = |text: &[u8]| sender.own(text);
        match self {
            Message::Startup { minor, params } => {
                let given = |name: &str| params.iter().any(|(known, _)| known == name.as_bytes());
                let mut all: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
                for (name, value) in [("user", sender.user), ("database", sender.database)] {
                    if !given(name) {
                        all.push((name.into(), value.into()));
                    }
                }
                all.extend(params.iter().map(|(name, value)| (name.clone(), own(value))));
                put_front::startup(buffer, &all, *minor);
            }
            Message::SslRequest => put_front::ssl_request(buffer),
            Message::GssRequest => put_front::gss_request(buffer),
            Message::Query(text) => put_front::query(buffer, own(text)),
            Message::Parse { name, text, types } => put_front::parse_text(buffer, name, own(text), types),
            Message::Bind { portal, statement, values, formats, results } => {
                let mut rest = Vec::new();
                put_values(&mut rest, formats, values, own);
                put_u16s(&mut rest, results);
                put_front::bind_head(buffer, portal, statement, rest.len());
                buffer.extend_from_slice(&rest);
            }
            Message::Describe(of, name) => put_front::describe(buffer, *of, name),
            Message::Close(of, name) => put_front::close(buffer, *of, name),
            Message::Execute { portal, max_rows } => put_front::execute(buffer, portal, *max_rows),
            Message::FunctionCall { oid, values, formats, result } => {
                let mut body = oid.to_be_bytes().to_vec();
                put_values(&mut body, formats, values, own);
                body.extend_from_slice(&result.to_be_bytes());
                buffer.push(tag::front::FUNCTION_CALL);
                buffer.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
                buffer.extend_from_slice(&body);
            }
            Message::CopyData(data) => put_front::copy_data(buffer, &own(data)),
            Message::CopyDone => put_front::copy_done(buffer),
            Message::CopyFail(reason) => put_front::copy_fail(buffer, reason),
            Message::Sync => put_front::sync(buffer),
            Message::Flush => put_front::flush(buffer),
            Message::Terminate => put_front::terminate(buffer),
            Message::Raw(bytes) => buffer.extend_from_slice(bytes),
        }
    }

    /// The message's line in a transcript.
    pub(crate) fn line(&self) -> String {
        match self {
            Message::Startup { minor, params } => {
                let params = params.iter().map(|(name, value)| format!(" {} {}", quoted(name), quoted(value)));
                format!("Startup 3.{minor}{}", params.collect::<String>())
            }
            Message::Query(text) => format!("Query {}", quoted(text)),
            Message::Parse { name, text, types } => {
                format!("Parse {} {}{}", quoted(name), quoted(text), numbers(types.iter().copied()))
            }
            Message::Bind { portal, statement, values, formats, results } => {
                let mut line = format!("Bind {} {}{}", quoted(portal), quoted(statement), listed(values));
                if !formats.is_empty() {
                    let _ = write!(line, " formats{}", numbers(formats.iter().map(|format| u32::from(*format))));
                }
                if !results.is_empty() {
                    let _ = write!(line, " results{}", numbers(results.iter().map(|format| u32::from(*format))));
                }
                line
            }
            Message::Describe(of, name) => format!("Describe {} {}", char::from(of.as_byte()), quoted(name)),
            Message::Close(of, name) => format!("Close {} {}", char::from(of.as_byte()), quoted(name)),
            Message::Execute { portal, max_rows } => format!("Execute {} {max_rows}", quoted(portal)),
            Message::FunctionCall { oid, values, formats, result } => {
                let formats = numbers(formats.iter().map(|format| u32::from(*format)));
                format!("FunctionCall {oid}{} formats{formats} results {result}", listed(values))
            }
            Message::CopyData(data) => format!("CopyData {}", quoted(data)),
            Message::CopyFail(reason) => format!("CopyFail {}", quoted(reason)),
            Message::Raw(bytes) => format!("Raw {}", quoted(bytes)),
            Message::SslRequest => "SSLRequest".into(),
            Message::GssRequest => "GSSENCRequest".into(),
            Message::CopyDone => "CopyDone".into(),
            Message::Sync => "Sync".into(),
            Message::Flush => "Flush".into(),
            Message::Terminate => "Terminate".into(),
        }
    }

    /// Parses the tokens of a transcript's line.
    ///
    /// # Errors
    /// The mistake in the line.
    pub(crate) fn read(tokens: &[Token]) -> Result<Message, String> {
        let mut line = Line(tokens);
        let what = line.word()?;
        let message = match what.as_str() {
            "Startup" => {
                let version = line.word()?;
                let minor = version.strip_prefix("3.").and_then(|minor| minor.parse().ok());
                let minor = minor.ok_or_else(|| format!("{version} is no version of protocol 3"))?;
                let mut params = Vec::new();
                while !line.0.is_empty() {
                    params.push((line.text()?, line.text()?));
                }
                Message::Startup { minor, params }
            }
            "SSLRequest" => Message::SslRequest,
            "GSSENCRequest" => Message::GssRequest,
            "Query" => Message::Query(line.text()?),
            "Parse" => Message::Parse { name: line.text()?, text: line.text()?, types: line.types()? },
            "Bind" => {
                let (portal, statement) = (line.text()?, line.text()?);
                let (values, formats, results) = (line.values()?, line.after("formats")?, line.after("results")?);
                Message::Bind { portal, statement, values, formats, results }
            }
            "Describe" => Message::Describe(line.of()?, line.text()?),
            "Close" => Message::Close(line.of()?, line.text()?),
            "Execute" => {
                let portal = line.text()?;
                let max_rows = if line.0.is_empty() { 0 } else { number(&line.word()?)? };
                Message::Execute { portal, max_rows }
            }
            "FunctionCall" => {
                let oid = number(&line.word()?)?;
                let (values, formats, results) = (line.values()?, line.after("formats")?, line.after("results")?);
                Message::FunctionCall { oid, values, formats, result: results.first().copied().unwrap_or(0) }
            }
            "CopyData" => Message::CopyData(line.text()?),
            "CopyDone" => Message::CopyDone,
            "CopyFail" => Message::CopyFail(line.text()?),
            "Sync" => Message::Sync,
            "Flush" => Message::Flush,
            "Terminate" => Message::Terminate,
            "Raw" => Message::Raw(line.text()?),
            other => return Err(format!("no message is called {other}")),
        };
        if line.0.is_empty() { Ok(message) } else { Err(format!("too much behind {what}: {:?}", line.0)) }
    }
}

fn put_u16s(buffer: &mut Vec<u8>, items: &[u16]) {
    buffer.extend_from_slice(&(items.len() as u16).to_be_bytes());
    items.iter().for_each(|item| buffer.extend_from_slice(&item.to_be_bytes()));
}

fn put_values(buffer: &mut Vec<u8>, formats: &[u16], values: &[Value], own: impl Fn(&[u8]) -> Vec<u8>) {
    put_u16s(buffer, formats);
    buffer.extend_from_slice(&(values.len() as u16).to_be_bytes());
    for value in values {
        match value.as_deref().map(&own) {
            Some(bytes) => {
                buffer.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
                buffer.extend_from_slice(&bytes);
            }
            None => buffer.extend_from_slice(&(-1i32).to_be_bytes()),
        }
    }
}

fn numbers(items: impl Iterator<Item = u32>) -> String {
    items.map(|item| format!(" {item}")).collect()
}

fn listed(values: &[Value]) -> String {
    values.iter().map(|value| format!(" {}", value.as_deref().map_or("NULL".to_owned(), quoted))).collect()
}

fn number<N: std::str::FromStr>(word: &str) -> Result<N, String> {
    word.parse().map_err(|_| format!("{word} is no number that fits"))
}

/// The remaining tokens of a line.
struct Line<'a>(&'a [Token]);

impl Line<'_> {
    fn next(&mut self) -> Option<&Token> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    fn word(&mut self) -> Result<String, String> {
        match self.next() {
            Some(Token::Word(word)) => Ok(word.clone()),
            other => Err(format!("a word belongs where {other:?} is")),
        }
    }

    fn text(&mut self) -> Result<Vec<u8>, String> {
        match self.next() {
            Some(Token::Text(text)) => Ok(text.clone()),
            other => Err(format!("a text in quotes belongs where {other:?} is")),
        }
    }

    fn of(&mut self) -> Result<Of, String> {
        match self.word()?.as_str() {
            "S" => Ok(Of::Statement),
            "P" => Ok(Of::Portal),
            other => Err(format!("S or P belongs where {other} is")),
        }
    }

    /// All texts and NULLs that follow.
    fn values(&mut self) -> Result<Vec<Value>, String> {
        let mut values = Vec::new();
        loop {
            match self.0.first() {
                Some(Token::Text(_)) => values.push(Some(self.text()?)),
                Some(Token::Word(word)) if word == "NULL" => {
                    self.word()?;
                    values.push(None);
                }
                _ => return Ok(values),
            }
        }
    }

    /// The numbers after a keyword, if it is there.
    fn after(&mut self, keyword: &str) -> Result<Vec<u16>, String> {
        let mut items = Vec::new();
        if self.0.first() == Some(&Token::Word(keyword.to_owned())) {
            self.word()?;
            while let Some(Token::Word(word)) = self.0.first() {
                let Ok(item) = word.parse() else { break };
                items.push(item);
                self.word()?;
            }
        }
        Ok(items)
    }

    /// Types by name or object id, up to the end of the line.
    fn types(&mut self) -> Result<Vec<u32>, String> {
        let mut types = Vec::new();
        while !self.0.is_empty() {
            let word = self.word()?;
            types.push(match word.as_str() {
                "bool" => 16,
                "bytea" => 17,
                "int8" => 20,
                "int2" => 21,
                "int4" => 23,
                "text" => 25,
                "unknown" => 705,
                "varchar" => 1043,
                "date" => 1082,
                "timestamptz" => 1184,
                "numeric" => 1700,
                "uuid" => 2950,
                "jsonb" => 3802,
                other => number(other)?,
            });
        }
        Ok(types)
    }
}
