//! Writes messages of a server: for client connections, the console, and the simulator's servers.
//!
//! Each function appends one whole message.

use crate::put::{bare, cstr, i32, list, message, u16, u32, value};
use crate::tag::back as tag;

/// AuthenticationOk.
pub fn auth_ok(buf: &mut Vec<u8>) {
    auth(buf, 0, &[]);
}

/// AuthenticationCleartextPassword.
pub fn auth_cleartext(buf: &mut Vec<u8>) {
    auth(buf, 3, &[]);
}

/// AuthenticationMD5Password.
pub fn auth_md5(buf: &mut Vec<u8>, salt: [u8; 4]) {
    auth(buf, 5, &salt);
}

/// AuthenticationSASL: the offered mechanisms, the preferred one first. An empty name is left out, because it would end
/// the list.
pub fn auth_sasl(buf: &mut Vec<u8>, mechanisms: &[&str]) {
    message(buf, tag::AUTHENTICATION, |buf| {
        u32(buf, 10);
        for mechanism in mechanisms.iter().filter(|name| !name.is_empty() && !name.starts_with('\0')) {
            cstr(buf, mechanism.as_bytes());
        }
        buf.push(0);
    });
}

/// AuthenticationSASLContinue.
pub fn auth_sasl_continue(buf: &mut Vec<u8>, data: &[u8]) {
    auth(buf, 11, data);
}

/// AuthenticationSASLFinal.
pub fn auth_sasl_final(buf: &mut Vec<u8>, data: &[u8]) {
    auth(buf, 12, data);
}

/// Any other Authentication message, by its code.
pub fn auth(buf: &mut Vec<u8>, code: u32, data: &[u8]) {
    message(buf, tag::AUTHENTICATION, |buf| {
        u32(buf, code);
        buf.extend_from_slice(data);
    });
}

/// NegotiateProtocolVersion: the server uses 3.`newest_minor` and does not know these options. The documentation calls
/// the field a minor version; PostgreSQL sends, and libpq expects, the whole version including the major number.
pub fn negotiate(buf: &mut Vec<u8>, newest_minor: u32, unrecognised: &[&[u8]]) {
    message(buf, tag::NEGOTIATE, |buf| {
        u32(buf, 3 << 16 | (newest_minor & 0xffff));
        u32(buf, u32::try_from(unrecognised.len()).unwrap_or(u32::MAX));
        for option in unrecognised {
            cstr(buf, option);
        }
    });
}

/// ParameterStatus.
pub fn parameter_status(buf: &mut Vec<u8>, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
    message(buf, tag::PARAMETER_STATUS, |buf| {
        cstr(buf, name.as_ref());
        cstr(buf, value.as_ref());
    });
}

/// BackendKeyData; the secret has 4 bytes in protocol 3.0, 4 to 256 in 3.2.
pub fn backend_key_data(buf: &mut Vec<u8>, pid: u32, key: &[u8]) {
    message(buf, tag::BACKEND_KEY_DATA, |buf| {
        u32(buf, pid);
        buf.extend_from_slice(key);
    });
}

/// ReadyForQuery; `status` is [`crate::TxStatus::as_byte`].
pub fn ready(buf: &mut Vec<u8>, status: u8) {
    buf.extend_from_slice(&[tag::READY, 0, 0, 0, 5, status]);
}

/// The fields of an error or a notice. Source: "Error and Notice Message Fields".
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ErrorFields<'a> {
    /// FATAL, ERROR, WARNING, NOTICE …; written as field S and as field V.
    pub severity: &'a str,
    /// Five characters.
    pub sqlstate: &'a str,
    /// One line.
    pub message: &'a str,
    /// Details.
    pub detail: Option<&'a str>,
    /// How to fix the problem.
    pub hint: Option<&'a str>,
}

/// ErrorResponse.
pub fn error(buf: &mut Vec<u8>, fields: &ErrorFields<'_>) {
    report(buf, tag::ERROR, fields, None);
}

/// ErrorResponse that names the function of PostgreSQL's source which reports it.
pub fn error_from(buf: &mut Vec<u8>, fields: &ErrorFields<'_>, routine: &str) {
    report(buf, tag::ERROR, fields, Some(routine));
}

/// ErrorResponse with the body of another one, and more fields.
pub fn error_with(buf: &mut Vec<u8>, body: &[u8], more: &[(u8, &str)]) {
    message(buf, tag::ERROR, |buf| {
        buf.extend_from_slice(body.strip_suffix(&[0]).unwrap_or(body));
        for (code, text) in more {
            buf.push(*code);
            cstr(buf, text.as_bytes());
        }
        buf.push(0);
    });
}

/// NoticeResponse.
pub fn notice(buf: &mut Vec<u8>, fields: &ErrorFields<'_>) {
    report(buf, tag::NOTICE, fields, None);
}

fn report(buf: &mut Vec<u8>, tag: u8, fields: &ErrorFields<'_>, routine: Option<&str>) {
    let field = |buf: &mut Vec<u8>, code: u8, text: &str| {
        buf.push(code);
        cstr(buf, text.as_bytes());
    };
    message(buf, tag, |buf| {
        field(buf, b'S', fields.severity);
        field(buf, b'V', fields.severity);
        field(buf, b'C', fields.sqlstate);
        field(buf, b'M', fields.message);
        for (code, text) in [(b'D', fields.detail), (b'H', fields.hint), (b'R', routine)] {
            if let Some(text) = text {
                field(buf, code, text);
            }
        }
        buf.push(0);
    });
}

/// A result's column, as text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResultColumn<'a> {
    /// The column's name.
    pub name: &'a str,
    /// The column's type.
    pub kind: ResultColumnType,
}

/// The column types of Weir's own results. Source of the numbers: PostgreSQL's catalogue `pg_type`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResultColumnType {
    /// `text`.
    Text,
    /// `bool`.
    Bool,
    /// `int4`.
    Int4,
    /// `int8`.
    Int8,
    /// `numeric`.
    Numeric,
    /// `float8`.
    Float8,
}

impl ResultColumnType {
    /// The type's object id.
    pub fn oid(self) -> u32 {
        match self {
            ResultColumnType::Text => 25,
            ResultColumnType::Bool => 16,
            ResultColumnType::Int4 => 23,
            ResultColumnType::Int8 => 20,
            ResultColumnType::Numeric => 1700,
            ResultColumnType::Float8 => 701,
        }
    }

    /// The width of a value in bytes; -1 when it varies.
    pub fn width(self) -> i16 {
        match self {
            ResultColumnType::Text | ResultColumnType::Numeric => -1,
            ResultColumnType::Bool => 1,
            ResultColumnType::Int4 => 4,
            ResultColumnType::Int8 | ResultColumnType::Float8 => 8,
        }
    }
}

/// RowDescription: columns of no table, as text.
pub fn row_description(buf: &mut Vec<u8>, columns: &[ResultColumn<'_>]) {
    message(buf, tag::ROW_DESCRIPTION, |buf| {
        list(buf, columns, |buf, column| {
            cstr(buf, column.name.as_bytes());
            u32(buf, 0); // no table
            u16(buf, 0); // no column number
            u32(buf, column.kind.oid());
            buf.extend_from_slice(&column.kind.width().to_be_bytes());
            i32(buf, -1); // no type modifier
            u16(buf, 0); // text
        });
    });
}

/// DataRow; `None` is NULL.
pub fn data_row(buf: &mut Vec<u8>, values: &[Option<&[u8]>]) {
    data_row_of(buf, values.iter().copied());
}

/// DataRow from an iterator, so that no list has to be built.
pub fn data_row_of<V: AsRef<[u8]>>(buf: &mut Vec<u8>, values: impl IntoIterator<Item = Option<V>>) {
    message(buf, tag::DATA_ROW, |buf| {
        list(buf, values, |buf, item| value(buf, item.as_ref().map(AsRef::as_ref)));
    });
}

/// CommandComplete, with a command tag.
pub fn command_complete(buf: &mut Vec<u8>, command: impl AsRef<[u8]>) {
    message(buf, tag::COMMAND_COMPLETE, |buf| cstr(buf, command.as_ref()));
}

/// EmptyQueryResponse.
pub fn empty_query(buf: &mut Vec<u8>) {
    bare(buf, tag::EMPTY_QUERY);
}

/// ParseComplete.
pub fn parse_complete(buf: &mut Vec<u8>) {
    bare(buf, tag::PARSE_COMPLETE);
}

/// BindComplete.
pub fn bind_complete(buf: &mut Vec<u8>) {
    bare(buf, tag::BIND_COMPLETE);
}

/// CloseComplete.
pub fn close_complete(buf: &mut Vec<u8>) {
    bare(buf, tag::CLOSE_COMPLETE);
}

/// NoData.
pub fn no_data(buf: &mut Vec<u8>) {
    bare(buf, tag::NO_DATA);
}

/// PortalSuspended.
pub fn portal_suspended(buf: &mut Vec<u8>) {
    bare(buf, tag::PORTAL_SUSPENDED);
}

/// ParameterDescription: object ids of the parameters' types.
pub fn parameter_description(buf: &mut Vec<u8>, types: &[u32]) {
    message(buf, tag::PARAMETER_DESCRIPTION, |buf| list(buf, types, |buf, oid| u32(buf, *oid)));
}

/// NotificationResponse: the notifying session's process id, the channel and the payload.
pub fn notification(buf: &mut Vec<u8>, pid: u32, channel: impl AsRef<[u8]>, payload: impl AsRef<[u8]>) {
    message(buf, tag::NOTIFICATION, |buf| {
        u32(buf, pid);
        cstr(buf, channel.as_ref());
        cstr(buf, payload.as_ref());
    });
}

/// CopyInResponse for this many columns, as text.
pub fn copy_in(buf: &mut Vec<u8>, columns: u16) {
    copy(buf, tag::COPY_IN, columns);
}

/// CopyOutResponse for this many columns, as text.
pub fn copy_out(buf: &mut Vec<u8>, columns: u16) {
    copy(buf, tag::COPY_OUT, columns);
}

/// CopyBothResponse for this many columns, as text.
pub fn copy_both(buf: &mut Vec<u8>, columns: u16) {
    copy(buf, tag::COPY_BOTH, columns);
}

fn copy(buf: &mut Vec<u8>, tag: u8, columns: u16) {
    message(buf, tag, |buf| {
        buf.push(0); // text
        list(buf, 0..columns, |buf, _| u16(buf, 0));
    });
}

/// CopyData.
pub fn copy_data(buf: &mut Vec<u8>, data: &[u8]) {
    message(buf, tag::COPY_DATA, |buf| buf.extend_from_slice(data));
}

/// CopyDone.
pub fn copy_done(buf: &mut Vec<u8>) {
    bare(buf, tag::COPY_DONE);
}

/// FunctionCallResponse; `None` is NULL.
pub fn function_result(buf: &mut Vec<u8>, result: Option<&[u8]>) {
    message(buf, tag::FUNCTION_RESULT, |buf| value(buf, result));
}

/// Any message from its tag and body, such as a server's own error for clients that waited for that server.
pub fn raw(buf: &mut Vec<u8>, tag: u8, body: &[u8]) {
    message(buf, tag, |buf| buf.extend_from_slice(body));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_for_query_is_six_bytes() {
        let mut buf = Vec::new();
        ready(&mut buf, b'I');
        assert_eq!(buf, b"Z\0\0\0\x05I");
    }

    #[test]
    fn an_error_carries_its_severity_twice_and_its_sqlstate() {
        let mut buf = Vec::new();
        let fields =
            ErrorFields { severity: "FATAL", sqlstate: "08P01", message: "no", detail: None, hint: Some("try") };
        error(&mut buf, &fields);
        assert_eq!(buf, b"E\0\0\0\x23SFATAL\0VFATAL\0C08P01\0Mno\0Htry\0\0");
    }

    #[test]
    fn a_row_description_has_eighteen_bytes_a_column_and_its_name() {
        let mut buf = Vec::new();
        row_description(&mut buf, &[ResultColumn { name: "n", kind: ResultColumnType::Int4 }]);
        let column = b"n\0\0\0\0\0\0\0\0\0\0\x17\0\x04\xff\xff\xff\xff\0\0";
        assert_eq!(buf, [&b"T\0\0\0\x1a\0\x01"[..], column].concat());
    }

    #[test]
    fn a_row_distinguishes_null_from_empty() {
        let mut buf = Vec::new();
        data_row(&mut buf, &[None, Some(b""), Some(b"ab")]);
        assert_eq!(buf, b"D\0\0\0\x14\0\x03\xff\xff\xff\xff\0\0\0\0\0\0\0\x02ab");
    }

    #[test]
    fn negotiation_names_the_whole_version() {
        let mut buf = Vec::new();
        negotiate(&mut buf, 2, &[b"_pq_.x"]);
        assert_eq!(buf, b"v\0\0\0\x13\0\x03\0\x02\0\0\0\x01_pq_.x\0");
    }
}
