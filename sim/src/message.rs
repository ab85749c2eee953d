//! Messages as whole values, for actors that read and write every field; the pooler never builds such values.
//!
//! Owns decoding and encoding, on top of `weir_pgwire`. Must not know which message answers which.

use weir_pgwire::{ErrorFields, Head, Malformed, Of, backend, frontend, put_back, put_front, tag};

use crate::read;

/// What a client sends after its login.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Front {
    /// One or more statements.
    Query(String),
    /// Prepare `text` as `name`.
    Parse { name: String, text: String },
    /// Create `portal` from `statement` with these values.
    Bind { portal: String, statement: String, values: Vec<String> },
    /// Describe a statement or a portal.
    Describe(Of, String),
    /// Run `portal` for at most `max_rows` rows; 0: all.
    Execute { portal: String, max_rows: i32 },
    /// Close a statement or a portal.
    Close(Of, String),
    /// The end of a batch.
    Sync,
    /// Send buffered replies.
    Flush,
    /// A fast-path function call with one argument.
    FunctionCall(String),
    /// A piece of COPY's data.
    CopyData(String),
    /// The data is complete.
    CopyDone,
    /// The client aborts a COPY.
    CopyFail(String),
    /// A response to any authentication request.
    Password(Vec<u8>),
    /// The end of the session.
    Terminate,
}

impl Front {
    /// Appends the message.
    pub(crate) fn put(&self, buf: &mut Vec<u8>) {
        match self {
            Front::Query(text) => put_front::query(buf, text),
            Front::Parse { name, text } => put_front::parse_text(buf, name.as_bytes(), text, &[]),
            Front::Bind { portal, statement, values } => {
                let values: Vec<_> = values.iter().map(|v| Some(v.as_bytes())).collect();
                put_front::bind(buf, portal.as_bytes(), statement.as_bytes(), &values);
            }
            Front::Describe(of, name) => put_front::describe(buf, *of, name.as_bytes()),
            Front::Execute { portal, max_rows } => put_front::execute(buf, portal.as_bytes(), *max_rows),
            Front::Close(of, name) => put_front::close(buf, *of, name.as_bytes()),
            Front::Sync => put_front::sync(buf),
            Front::Flush => put_front::flush(buf),
            Front::FunctionCall(argument) => put_front::function_call(buf, 1, &[Some(argument.as_bytes())]),
            Front::CopyData(data) => put_front::copy_data(buf, data.as_bytes()),
            Front::CopyDone => put_front::copy_done(buf),
            Front::CopyFail(reason) => put_front::copy_fail(buf, reason),
            Front::Password(body) => put_front::sasl_response(buf, body),
            Front::Terminate => put_front::terminate(buf),
        }
    }

    /// Whether a message type with this tag exists.
    pub(crate) fn is_known(tag: u8) -> bool {
        b"QPBDECSHFdcfpX".contains(&tag)
    }

    /// Reads a message's body.
    pub(crate) fn read(tag: u8, body: &[u8]) -> Result<Front, Malformed> {
        Ok(match tag {
            tag::front::QUERY => Front::Query(text(frontend::query(body)?)),
            tag::front::PARSE => {
                let parse = frontend::parse(body)?;
                Front::Parse { name: text(parse.name), text: text(parse.text) }
            }
            tag::front::BIND => {
                let bind = read::bind(body)?;
                let values = bind.values.iter().map(|v| text(v.unwrap_or(b"NULL"))).collect();
                Front::Bind { portal: text(bind.portal), statement: text(bind.statement), values }
            }
            tag::front::DESCRIBE => named(body, Front::Describe)?,
            tag::front::CLOSE => named(body, Front::Close)?,
            tag::front::EXECUTE => {
                let (portal, max_rows) = read::execute(body)?;
                Front::Execute { portal: text(portal), max_rows }
            }
            tag::front::SYNC => read::empty(body).map(|()| Front::Sync)?,
            tag::front::FLUSH => read::empty(body).map(|()| Front::Flush)?,
            tag::front::FUNCTION_CALL => {
                let arguments = read::function_call(body)?;
                Front::FunctionCall(text(arguments.first().copied().flatten().unwrap_or_default()))
            }
            tag::front::COPY_DATA => Front::CopyData(text(body)),
            tag::front::COPY_DONE => read::empty(body).map(|()| Front::CopyDone)?,
            tag::front::COPY_FAIL => Front::CopyFail(text(read::copy_fail(body)?)),
            tag::front::PASSWORD => Front::Password(body.to_vec()),
            tag::front::TERMINATE => Front::Terminate,
            _ => return Err(Malformed("invalid frontend message type")),
        })
    }
}

fn named(body: &[u8], make: fn(Of, String) -> Front) -> Result<Front, Malformed> {
    let named = frontend::named(body)?;
    Ok(make(named.of, text(named.name)))
}

/// What a server sends, read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Back {
    /// Any authentication message.
    Auth(AuthStep),
    /// A setting's value.
    Parameter(String, String),
    /// The process id and the secret key for cancel requests.
    Key(u32, Vec<u8>),
    /// NegotiateProtocolVersion.
    Negotiate,
    /// `I`, `T` or `E`.
    Ready(u8),
    /// An error or a notice: severity, SQLSTATE and message.
    Problem { error: bool, severity: String, code: String, message: String },
    /// The names of the columns.
    RowDescription(Vec<String>),
    /// A row of one value.
    Row(String),
    /// A command tag.
    Complete(String),
    /// How many parameters a statement has.
    ParameterDescription(usize),
    /// A notification: channel and payload.
    Notification(String, String),
    /// The result of a function.
    FunctionResult(String),
    /// COPY's data.
    CopyData(String),
    /// A message without fields, or one that is not compared: its tag.
    Bare(u8),
}

/// An authentication message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum AuthStep {
    /// The login succeeded.
    Ok,
    /// Send the password.
    Cleartext,
    /// Send the digest with this salt.
    Md5([u8; 4]),
    /// Choose a mechanism.
    Sasl,
    /// SASL continues.
    SaslContinue(Vec<u8>),
    /// The last SASL message.
    SaslFinal(Vec<u8>),
    /// A method that this model does not have.
    Other,
}

impl Back {
    /// Reads a message's body.
    pub(crate) fn read(tag: u8, body: &[u8]) -> Result<Back, Malformed> {
        Ok(match tag {
            tag::back::AUTHENTICATION => Back::Auth(auth(body)?),
            tag::back::PARAMETER_STATUS => {
                let (name, value) = backend::parameter_status(body)?;
                Back::Parameter(text(name), text(value))
            }
            tag::back::BACKEND_KEY_DATA => {
                let (pid, key) = backend::backend_key(body)?;
                Back::Key(pid, key.to_vec())
            }
            tag::back::READY => Back::Ready(backend::ready(body)?.as_byte()),
            tag::back::ERROR => problem(true, body)?,
            tag::back::NOTICE => problem(false, body)?,
            tag::back::ROW_DESCRIPTION => {
                Back::RowDescription(backend::row_description(body)?.map(|c| text(c.name)).collect())
            }
            tag::back::DATA_ROW => {
                let mut values = backend::data_row(body)?;
                Back::Row(text(values.next().flatten().unwrap_or(b"NULL")))
            }
            tag::back::COMMAND_COMPLETE => Back::Complete(text(backend::command_tag(body)?)),
            tag::back::PARAMETER_DESCRIPTION => {
                Back::ParameterDescription(backend::parameter_description(body)?.len() / 4)
            }
            tag::back::NOTIFICATION => {
                let notification = backend::notification(body)?;
                Back::Notification(text(notification.channel), text(notification.payload))
            }
            tag::back::FUNCTION_RESULT => {
                Back::FunctionResult(text(backend::function_result(body)?.unwrap_or(b"NULL")))
            }
            tag::back::COPY_DATA => Back::CopyData(text(body)),
            tag::back::NEGOTIATE => Back::Negotiate,
            _ => Back::Bare(tag),
        })
    }
}

fn auth(body: &[u8]) -> Result<AuthStep, Malformed> {
    use backend::AuthRequest;
    Ok(match backend::authentication(body)? {
        AuthRequest::Ok => AuthStep::Ok,
        AuthRequest::Cleartext => AuthStep::Cleartext,
        AuthRequest::Md5(salt) => AuthStep::Md5(salt),
        AuthRequest::Sasl(_) => AuthStep::Sasl,
        AuthRequest::SaslContinue(data) => AuthStep::SaslContinue(data.to_vec()),
        AuthRequest::SaslFinal(data) => AuthStep::SaslFinal(data.to_vec()),
        _ => AuthStep::Other,
    })
}

fn problem(error: bool, body: &[u8]) -> Result<Back, Malformed> {
    let fields = backend::error_fields(body)?;
    let field = |value: Option<&[u8]>| text(value.unwrap_or_default());
    let (severity, code) = (field(fields.severity()), field(fields.sqlstate()));
    Ok(Back::Problem { error, severity, code, message: field(fields.message()) })
}

/// Appends an ErrorResponse.
pub(crate) fn put_error(buf: &mut Vec<u8>, severity: &str, code: &str, message: &str) {
    let fields = ErrorFields { severity, sqlstate: code, message, detail: None, hint: None };
    match code {
        // Poolers look at what has reported it.
        "55000" => put_back::error_from(buf, &fields, "lastval"),
        _ => put_back::error(buf, &fields),
    }
}

/// Appends a NoticeResponse.
pub(crate) fn put_notice(buf: &mut Vec<u8>, severity: &str, code: &str, message: &str) {
    put_back::notice(buf, &ErrorFields { severity, sqlstate: code, message, detail: None, hint: None });
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Bytes that have arrived, cut into messages.
#[derive(Default, Debug)]
pub(crate) struct Inbox {
    bytes: Vec<u8>,
    at: usize,
}

impl Inbox {
    /// Adds bytes that arrived.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if self.at > 0 {
            self.bytes.drain(..self.at);
            self.at = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// What has not been taken yet.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    /// Takes bytes off the front.
    pub(crate) fn skip(&mut self, count: usize) {
        self.at += count;
    }

    /// Takes the next whole message: its tag and its body.
    pub(crate) fn next(&mut self) -> Result<Option<(u8, &[u8])>, Malformed> {
        let Some(head) = Head::parse(self.rest())? else { return Ok(None) };
        if self.rest().len() < head.total() {
            return Ok(None);
        }
        let from = self.at + weir_pgwire::HEAD;
        self.at += head.total();
        Ok(Some((head.tag, &self.bytes[from..self.at])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_frontend_message_is_read_as_it_was_written() {
        let (a, b) = ("a".to_owned(), "b".to_owned());
        let messages = [
            Front::Query(a.clone()),
            Front::Parse { name: a.clone(), text: b.clone() },
            Front::Bind { portal: a.clone(), statement: b.clone(), values: vec![a.clone(), b.clone()] },
            Front::Describe(Of::Portal, a.clone()),
            Front::Execute { portal: b.clone(), max_rows: 7 },
            Front::Close(Of::Statement, b.clone()),
            Front::Sync,
            Front::Flush,
            Front::FunctionCall(a.clone()),
            Front::CopyData(b.clone()),
            Front::CopyDone,
            Front::CopyFail(a.clone()),
            Front::Password(b"x\0".to_vec()),
            Front::Terminate,
        ];
        let mut inbox = Inbox::default();
        let mut bytes = Vec::new();
        messages.iter().for_each(|m| m.put(&mut bytes));
        for byte in bytes.chunks(1) {
            inbox.push(byte);
        }
        for message in &messages {
            let (tag, body) = inbox.next().unwrap().unwrap();
            assert_eq!(&Front::read(tag, body).unwrap(), message);
        }
        assert_eq!(inbox.next(), Ok(None));
    }
}
