//! Formats messages for a transcript: PostgreSQL's names, with the main fields.
//!
//! Long values are cut and followed by their length.

use std::fmt::{self, Display, Formatter};

use weir_pgwire::Of;
use weir_pgwire::tag::back;

use crate::message::{AuthStep, Back, Front};
use crate::reply::Reply;

/// Characters of a value that are shown.
const SHOWN: usize = 60;

/// A startup packet.
pub(crate) struct Startup<'a> {
    pub(crate) minor: u16,
    pub(crate) parameters: &'a [(String, String)],
}

impl Display for Startup<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "StartupMessage 3.{}", self.minor)?;
        self.parameters.iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))
    }
}

/// Bytes that may not be messages.
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl Display for Bytes<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let text = self.0.escape_ascii().to_string();
        write!(f, "{} bytes \"{}\"", self.0.len(), text.get(..SHOWN).map_or(text.clone(), |cut| format!("{cut}…")))
    }
}

/// A value in quotes, cut if it is long.
struct Value<'a>(&'a str);

impl Display for Value<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0.char_indices().nth(SHOWN) {
            Some((at, _)) => write!(f, "{:?}… ({} bytes)", &self.0[..at], self.0.len()),
            None => write!(f, "{:?}", self.0),
        }
    }
}

fn of(of: Of) -> &'static str {
    match of {
        Of::Statement => "statement",
        Of::Portal => "portal",
    }
}

impl Display for Front {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Front::Query(text) => write!(f, "Query {}", Value(text)),
            Front::Parse { name, text } => write!(f, "Parse {name:?} {}", Value(text)),
            Front::Bind { portal, statement, values } => {
                write!(f, "Bind {portal:?} {statement:?}")?;
                values.iter().try_for_each(|value| write!(f, " {}", Value(value)))
            }
            Front::Describe(kind, name) => write!(f, "Describe {} {name:?}", of(*kind)),
            Front::Execute { portal, max_rows: 0 } => write!(f, "Execute {portal:?}"),
            Front::Execute { portal, max_rows } => write!(f, "Execute {portal:?} for {max_rows} rows"),
            Front::Close(kind, name) => write!(f, "Close {} {name:?}", of(*kind)),
            Front::Sync => f.write_str("Sync"),
            Front::Flush => f.write_str("Flush"),
            Front::FunctionCall(argument) => write!(f, "FunctionCall {}", Value(argument)),
            Front::CopyData(data) => write!(f, "CopyData {}", Value(data)),
            Front::CopyDone => f.write_str("CopyDone"),
            Front::CopyFail(reason) => write!(f, "CopyFail {}", Value(reason)),
            Front::Password(body) => write!(f, "PasswordMessage of {} bytes", body.len()),
            Front::Terminate => f.write_str("Terminate"),
        }
    }
}

impl Display for Back {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Back::Auth(step) => f.write_str(auth(step)),
            Back::Parameter(name, value) => write!(f, "ParameterStatus {name}={}", Value(value)),
            Back::Key(pid, _) => write!(f, "BackendKeyData {pid}"),
            Back::Negotiate => f.write_str("NegotiateProtocolVersion"),
            Back::Ready(status) => write!(f, "ReadyForQuery {}", char::from(*status)),
            Back::Problem { error, severity, code, message } => {
                write!(f, "{} {severity} {code} {}", problem(*error), Value(message))
            }
            Back::RowDescription(names) => write!(f, "RowDescription {}", names.join(" ")),
            Back::Row(text) => write!(f, "DataRow {}", Value(text)),
            Back::Complete(tag) => write!(f, "CommandComplete {tag:?}"),
            Back::ParameterDescription(count) => write!(f, "ParameterDescription {count}"),
            Back::Notification(channel, payload) => write!(f, "NotificationResponse {channel:?} {}", Value(payload)),
            Back::FunctionResult(text) => write!(f, "FunctionCallResponse {}", Value(text)),
            Back::CopyData(data) => write!(f, "CopyData {}", Value(data)),
            Back::Bare(tag) => bare(*tag, f),
        }
    }
}

impl Display for Reply {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Reply::Bare(tag) => bare(*tag, f),
            Reply::RowDescription(name) => write!(f, "RowDescription {name}"),
            Reply::ParameterDescription(count) => write!(f, "ParameterDescription {count}"),
            Reply::Row(text) | Reply::State(text) => write!(f, "DataRow {}", Value(text)),
            Reply::Secret(user) => write!(f, "DataRow {user} and its secret"),
            Reply::Pair(name, value) => write!(f, "DataRow {} {}", Value(name), Value(value)),
            Reply::Rows { token, width, next, end } => rows("DataRow", token, *width, (*next, *end), f),
            Reply::CopyRows { token, width, next, end } => rows("CopyData", token, *width, (*next, *end), f),
            Reply::Complete(tag) => write!(f, "CommandComplete {tag:?}"),
            Reply::Error { fatal, code, message } => {
                write!(f, "ErrorResponse {} {code} {}", if *fatal { "FATAL" } else { "ERROR" }, Value(message))
            }
            Reply::Warning(code) => write!(f, "NoticeResponse WARNING {code}"),
            Reply::Parameter(name, value) => write!(f, "ParameterStatus {name}={}", Value(value)),
            Reply::FunctionResult(text) => write!(f, "FunctionCallResponse {}", Value(text)),
            Reply::Ready(status) => write!(f, "ReadyForQuery {}", char::from(*status)),
        }
    }
}

fn rows(what: &str, token: &str, width: u64, (next, end): (u64, u64), f: &mut Formatter<'_>) -> fmt::Result {
    write!(f, "{what} × {} of {token:?}, {width} wide", end.saturating_sub(next))
}

fn problem(error: bool) -> &'static str {
    if error { "ErrorResponse" } else { "NoticeResponse" }
}

fn bare(tag: u8, f: &mut Formatter<'_>) -> fmt::Result {
    f.write_str(match tag {
        back::PARSE_COMPLETE => "ParseComplete",
        back::BIND_COMPLETE => "BindComplete",
        back::CLOSE_COMPLETE => "CloseComplete",
        back::NO_DATA => "NoData",
        back::PORTAL_SUSPENDED => "PortalSuspended",
        back::EMPTY_QUERY => "EmptyQueryResponse",
        back::COPY_IN => "CopyInResponse",
        back::COPY_OUT => "CopyOutResponse",
        back::COPY_DONE => "CopyDone",
        _ => return write!(f, "a message '{}'", tag.escape_ascii()),
    })
}

fn auth(step: &AuthStep) -> &'static str {
    match step {
        AuthStep::Ok => "AuthenticationOk",
        AuthStep::Cleartext => "AuthenticationCleartextPassword",
        AuthStep::Md5(_) => "AuthenticationMD5Password",
        AuthStep::Sasl => "AuthenticationSASL",
        AuthStep::SaslContinue(_) => "AuthenticationSASLContinue",
        AuthStep::SaslFinal(_) => "AuthenticationSASLFinal",
        AuthStep::Other => "Authentication of another kind",
    }
}

/// Messages that come in long series, of which only the first and the last are printed.
const FOLDED: [&str; 3] = ["ParameterStatus", "DataRow", "CopyData"];

/// The lines of a transcript, with the middle of long series of the same message left out.
pub(crate) fn folded(lines: Vec<String>) -> Vec<String> {
    let mut short: Vec<String> = Vec::with_capacity(lines.len());
    let mut rest = lines.into_iter().peekable();
    while let Some(line) = rest.next() {
        let kind = series_kind(&line).map(str::to_owned);
        short.push(line);
        let Some(kind) = kind else { continue };
        let (mut count, mut last) = (0, None);
        while let Some(line) = rest.next_if(|line| series_kind(line) == Some(kind.as_str())) {
            count += 1;
            last = Some(line);
        }
        if count > 1 {
            short.push(format!("{:>12} … {} more …", "", count - 1));
        }
        short.extend(last);
    }
    short
}

/// Sender, receiver and name of a message that comes in series: the line without its time and fields.
fn series_kind(line: &str) -> Option<&str> {
    let text = line.get(13..)?;
    let (who, what) = text.split_once("  ")?;
    let name = FOLDED.into_iter().find(|name| what.starts_with(name))?;
    text.get(..who.len() + 2 + name.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_shown_by_their_names_and_main_fields() {
        let bind = Front::Bind { portal: String::new(), statement: "a".into(), values: vec!["c3.7".into()] };
        assert_eq!(bind.to_string(), r#"Bind "" "a" "c3.7""#);
        let error = Back::Problem {
            error: true,
            severity: "FATAL".into(),
            code: "57P01".into(),
            message: "terminating".into(),
        };
        assert_eq!(error.to_string(), r#"ErrorResponse FATAL 57P01 "terminating""#);
        assert_eq!(Back::Ready(b'T').to_string(), "ReadyForQuery T");
        assert_eq!(Reply::Bare(b'1').to_string(), "ParseComplete");
        assert!(Front::Query("x".repeat(1_000)).to_string().ends_with("… (1000 bytes)"));
    }

    #[test]
    fn series_of_the_same_message_are_folded() {
        let line = |what: &str| format!("    0.000001 s1 -> w0  {what}");
        let lines: Vec<_> = ["DataRow \"1\"", "DataRow \"2\"", "DataRow \"3\"", "ReadyForQuery I"].map(line).into();
        let short = folded(lines.clone());
        assert_eq!((&short[0], &short[2], &short[3]), (&lines[0], &lines[2], &lines[3]));
        assert_eq!((short.len(), short[1].trim()), (4, "… 1 more …"));
        assert_eq!(folded(lines[1..].to_vec()), lines[1..]);
    }
}
