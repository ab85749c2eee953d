//! Replies of a server as values: the modelled server encodes them, the modelled client compares with them.

use weir_pgwire::{ResultColumn, ResultColumnType, put_back, tag};

use crate::message::{Back, put_error, put_notice};
use crate::postgres::language::{LOOKUP, row_text};
use crate::postgres::login::stored_secret;

/// A reply; all rows of one result are one reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Reply {
    /// ParseComplete, BindComplete and other messages without fields.
    Bare(u8),
    /// One column of this name.
    RowDescription(&'static str),
    /// The number of a statement's parameters.
    ParameterDescription(usize),
    /// One row.
    Row(String),
    /// One row with the session's state.
    State(String),
    /// One row with the secret of this user.
    Secret(String),
    /// Rows that carry a token, from the one with index `next` to the one before `end`.
    Rows { token: String, width: u64, next: u64, end: u64 },
    /// Rows that carry a token, as CopyData messages.
    CopyRows { token: String, width: u64, next: u64, end: u64 },
    /// A command tag.
    Complete(String),
    /// A row of two columns.
    Pair(String, String),
    /// ERROR or FATAL.
    Error { fatal: bool, code: &'static str, message: String },
    /// WARNING; a client need not see it.
    Warning(&'static str),
    /// A reported setting has changed.
    Parameter(String, String),
    /// FunctionCallResponse.
    FunctionResult(String),
    /// ReadyForQuery.
    Ready(u8),
}

impl Reply {
    /// Appends the reply's next message. `true` if there are more.
    pub(crate) fn put(&mut self, buf: &mut Vec<u8>) -> bool {
        match self {
            Reply::Bare(tag::back::COPY_IN) => put_back::copy_in(buf, 1),
            Reply::Bare(tag::back::COPY_OUT) => put_back::copy_out(buf, 1),
            Reply::Bare(tag) => buf.extend_from_slice(&[*tag, 0, 0, 0, 4]),
            Reply::RowDescription(LOOKUP) => {
                let column = |name| ResultColumn { name, kind: ResultColumnType::Text };
                put_back::row_description(buf, &[column("user"), column("secret")]);
            }
            Reply::Secret(user) => {
                let secret = stored_secret(user);
                put_back::data_row(buf, &[Some(user.as_bytes()), secret.as_deref().map(str::as_bytes)]);
            }
            Reply::Pair(name, value) => {
                put_back::data_row(buf, &[Some(name.as_bytes()), Some(value.as_bytes())]);
            }
            Reply::RowDescription(name) => {
                put_back::row_description(buf, &[ResultColumn { name, kind: ResultColumnType::Text }]);
            }
            Reply::ParameterDescription(count) => put_back::parameter_description(buf, &vec![25; *count]),
            Reply::Row(text) | Reply::State(text) => put_back::data_row(buf, &[Some(text.as_bytes())]),
            Reply::Rows { token, width, next, end } => {
                if next < end {
                    put_back::data_row(buf, &[Some(row_text(token, *next, *width).as_bytes())]);
                }
                *next += 1;
                return next < end;
            }
            Reply::CopyRows { token, width, next, end } => {
                if next < end {
                    put_back::copy_data(buf, row_text(token, *next, *width).as_bytes());
                }
                *next += 1;
                return next < end;
            }
            Reply::Complete(command) => put_back::command_complete(buf, command),
            Reply::Error { fatal, code, message } => {
                put_error(buf, if *fatal { "FATAL" } else { "ERROR" }, code, message);
            }
            Reply::Warning(code) => put_notice(buf, "WARNING", code, "there is no transaction to do that with"),
            Reply::Parameter(name, value) => put_back::parameter_status(buf, name, value),
            Reply::FunctionResult(text) => put_back::function_result(buf, Some(text.as_bytes())),
            Reply::Ready(status) => put_back::ready(buf, *status),
        }
        false
    }

    /// Whether the reply has no messages.
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Reply::Rows { next, end, .. } | Reply::CopyRows { next, end, .. } if next >= end)
    }

    /// Compares `message` with the reply's next message. `None`: it differs. `Some(true)`: it matches and is the last.
    pub(crate) fn accept(&mut self, message: &Back) -> Option<bool> {
        let whole = match (&mut *self, message) {
            (Reply::Rows { token, width, next, end }, Back::Row(text))
            | (Reply::CopyRows { token, width, next, end }, Back::CopyData(text)) => {
                if !is_row(text, token, *next, *width) {
                    return None;
                }
                *next += 1;
                return Some(next >= end);
            }
            (Reply::Bare(a), Back::Bare(b)) => a == b,
            (Reply::RowDescription(name), Back::RowDescription(names)) => names.iter().eq([*name]),
            (Reply::ParameterDescription(a), Back::ParameterDescription(b)) => a == b,
            (Reply::Row(a) | Reply::State(a), Back::Row(b)) => a == b,
            (Reply::Complete(a), Back::Complete(b)) => a == b,
            (Reply::Error { fatal, code, .. }, Back::Problem { error: true, severity, code: got, .. }) => {
                *code == got && (severity == "FATAL") == *fatal
            }
            (Reply::Parameter(name, value), Back::Parameter(n, v)) => name == n && value == v,
            (Reply::FunctionResult(a), Back::FunctionResult(b)) => a == b,
            (Reply::Ready(a), Back::Ready(b)) => a == b,
            _ => false,
        };
        whole.then_some(true)
    }
}

/// Compares with [`row_text`] without building it.
fn is_row(text: &str, token: &str, index: u64, width: u64) -> bool {
    let parts = text.strip_prefix(token).and_then(|t| t.strip_prefix(':')).and_then(|t| t.split_once(':'));
    let Some((number, padding)) = parts else { return false };
    let length = (width as usize).max(token.len() + number.len() + 2);
    number.parse() == Ok(index) && text.len() == length && padding.bytes().all(|b| b == b'x')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Inbox;

    #[test]
    fn a_reply_accepts_what_it_writes_and_nothing_else() {
        let rows = Reply::Rows { token: "c1.2".into(), width: 20, next: 0, end: 3 };
        let (mut written, mut expected, mut other) = (rows.clone(), rows.clone(), rows);
        let mut bytes = Vec::new();
        while written.put(&mut bytes) {}
        let mut inbox = Inbox::default();
        inbox.push(&bytes);
        for last in [false, false, true] {
            let (tag, body) = inbox.next().unwrap().unwrap();
            assert_eq!(expected.accept(&Back::read(tag, body).unwrap()), Some(last));
        }
        assert_eq!(inbox.next(), Ok(None));
        for wrong in ["c1.3:0:xxxxxxxxxxxxx", "c1.2:1:xxxxxxxxxxxxx", "c1.2:0:xxxxx", "c1.2:0:xxxxxxxxxxxxy", "c1.2"] {
            assert_eq!(other.accept(&Back::Row(wrong.into())), None, "{wrong}");
        }
    }

    #[test]
    fn an_error_is_compared_by_its_code_and_severity() {
        let mut error = Reply::Error { fatal: false, code: "22012", message: "x".into() };
        let got = |severity: &str, code: &str| Back::Problem {
            error: true,
            severity: severity.into(),
            code: code.into(),
            message: "y".into(),
        };
        assert_eq!(error.accept(&got("ERROR", "22012")), Some(true));
        assert_eq!(error.accept(&got("FATAL", "22012")), None);
        assert_eq!(error.accept(&got("ERROR", "42601")), None);
    }
}
