//! Reads messages of a server: each function takes the body of one message.
//!
//! Owns the layouts of the backend messages that a pooler must understand, and those that the simulator checks. Must
//! not know the requests. A server may be hostile: a missing field is `None`, a broken layout is [`Malformed`].

use crate::frame::Malformed;
use crate::read::{Reader, split_cstr};
use crate::startup::CANCEL_KEY;

pub use crate::read::Strings;

/// An ErrorResponse or NoticeResponse. Source: "Error and Notice Message Fields".
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ErrorView<'a> {
    fields: &'a [u8],
}

impl<'a> ErrorView<'a> {
    /// The first field with this code.
    pub fn get(&self, code: u8) -> Option<&'a [u8]> {
        self.fields().find(|(key, _)| *key == code).map(|(_, text)| text)
    }

    /// All fields, in the server's order.
    pub fn fields(&self) -> Fields<'a> {
        Fields { left: self.fields }
    }

    /// FATAL, ERROR, WARNING …: untranslated if the server sends field V, otherwise as translated (field S).
    pub fn severity(&self) -> Option<&'a [u8]> {
        self.get(b'V').or_else(|| self.get(b'S'))
    }

    /// Field C.
    pub fn sqlstate(&self) -> Option<&'a [u8]> {
        self.get(b'C')
    }

    /// Field M.
    pub fn message(&self) -> Option<&'a [u8]> {
        self.get(b'M')
    }
}

/// The fields of an error.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    left: &'a [u8],
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&code, left) = self.left.split_first().filter(|(code, _)| **code != 0)?;
        let (text, left) = split_cstr(left)?;
        self.left = left;
        Some((code, text))
    }
}

/// Reads an ErrorResponse or NoticeResponse.
///
/// # Errors
/// When the body is not a list of fields and its terminator. The presence of fields is not checked.
pub fn error_fields(body: &[u8]) -> Result<ErrorView<'_>, Malformed> {
    let mut reader = Reader::new(body);
    while reader.u8()? != 0 {
        reader.cstr()?;
    }
    reader.end()?;
    Ok(ErrorView { fields: body })
}

/// Reads a ParameterStatus: name and value.
///
/// # Errors
/// When the body is not two strings.
pub fn parameter_status(body: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let mut reader = Reader::new(body);
    let pair = (reader.cstr()?, reader.cstr()?);
    reader.end()?;
    Ok(pair)
}

/// Reads a BackendKeyData: process id and secret.
///
/// # Errors
/// When the secret is not 4 to 256 bytes long.
pub fn backend_key(body: &[u8]) -> Result<(u32, &[u8]), Malformed> {
    let mut reader = Reader::new(body);
    let pid = reader.u32()?;
    let key = reader.left();
    if !CANCEL_KEY.contains(&key.len()) {
        return Err(Malformed("invalid length of cancel key"));
    }
    Ok((pid, key))
}

/// An Authentication message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AuthRequest<'a> {
    /// The login succeeded.
    Ok,
    /// Send the cleartext password.
    Cleartext,
    /// Send the md5 digest with this salt.
    Md5([u8; 4]),
    /// Choose one of these mechanisms.
    Sasl(Strings<'a>),
    /// The mechanism's next message.
    SaslContinue(&'a [u8]),
    /// The mechanism's last message.
    SaslFinal(&'a [u8]),
    /// Kerberos, GSSAPI, SSPI or something newer, by its code.
    Unsupported(u32),
}

/// Reads an Authentication message.
///
/// # Errors
/// When the body is not laid out as its code says.
pub fn authentication(body: &[u8]) -> Result<AuthRequest<'_>, Malformed> {
    let mut reader = Reader::new(body);
    let auth = match reader.u32()? {
        0 => AuthRequest::Ok,
        3 => AuthRequest::Cleartext,
        5 => AuthRequest::Md5(reader.array()?),
        10 => return mechanisms(reader),
        11 => return Ok(AuthRequest::SaslContinue(reader.left())),
        12 => return Ok(AuthRequest::SaslFinal(reader.left())),
        code => return Ok(AuthRequest::Unsupported(code)),
    };
    reader.end()?;
    Ok(auth)
}

fn mechanisms(mut reader: Reader<'_>) -> Result<AuthRequest<'_>, Malformed> {
    let names = Strings::new(reader.left());
    while !reader.cstr()?.is_empty() {}
    reader.end()?;
    Ok(AuthRequest::Sasl(names))
}

/// The transaction status in ReadyForQuery.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TxStatus {
    /// No transaction is open.
    Idle,
    /// A transaction is open.
    InTransaction,
    /// A failed transaction is open: the server only accepts its end.
    Failed,
}

impl TxStatus {
    /// The protocol's byte: `I`, `T` or `E`.
    #[inline]
    pub fn as_byte(self) -> u8 {
        match self {
            TxStatus::Idle => b'I',
            TxStatus::InTransaction => b'T',
            TxStatus::Failed => b'E',
        }
    }
}

/// Reads a ReadyForQuery.
///
/// # Errors
/// When the body is not one known byte.
#[inline]
pub fn ready(body: &[u8]) -> Result<TxStatus, Malformed> {
    match body {
        b"I" => Ok(TxStatus::Idle),
        b"T" => Ok(TxStatus::InTransaction),
        b"E" => Ok(TxStatus::Failed),
        _ => Err(Malformed("invalid transaction status")),
    }
}

/// Reads a CommandComplete: the command tag, without its NUL.
///
/// # Errors
/// When the body is not one string.
pub fn command_tag(body: &[u8]) -> Result<&[u8], Malformed> {
    let mut reader = Reader::new(body);
    let tag = reader.cstr()?;
    reader.end()?;
    Ok(tag)
}

/// NegotiateProtocolVersion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Negotiate<'a> {
    /// The minor version that the server will use.
    pub minor: u16,
    /// The protocol options that the server does not know.
    pub unrecognised: Strings<'a>,
}

/// Reads a NegotiateProtocolVersion. The version may come with its major number, as PostgreSQL sends it, or without,
/// as documented up to version 17.
///
/// # Errors
/// When the major version is not 3, or the list does not have its announced length.
pub fn negotiate(body: &[u8]) -> Result<Negotiate<'_>, Malformed> {
    let mut reader = Reader::new(body);
    let version = reader.u32()?;
    if !matches!(version >> 16, 0 | 3) {
        return Err(Malformed("the server requires another major version of the protocol"));
    }
    let count = reader.u32()?;
    let unrecognised = Strings::new(reader.left());
    for _ in 0..count {
        if reader.cstr()?.is_empty() {
            return Err(Malformed("a protocol option without a name"));
        }
    }
    reader.end()?;
    Ok(Negotiate { minor: (version & 0xffff) as u16, unrecognised })
}

/// A NotificationResponse.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Notification<'a> {
    /// Process id of the notifying session.
    pub pid: u32,
    /// The channel.
    pub channel: &'a [u8],
    /// The payload; may be empty.
    pub payload: &'a [u8],
}

/// Reads a NotificationResponse.
///
/// # Errors
/// When the body is not laid out as one.
pub fn notification(body: &[u8]) -> Result<Notification<'_>, Malformed> {
    let mut reader = Reader::new(body);
    let notification = Notification { pid: reader.u32()?, channel: reader.cstr()?, payload: reader.cstr()? };
    reader.end()?;
    Ok(notification)
}

/// The values of a row's columns; `None` is NULL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Values<'a> {
    count: u16,
    left: &'a [u8],
}

impl<'a> Values<'a> {
    /// Checks them all, so that iterating can't fail.
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let count = reader.u16()?;
        let values = Values { count, left: reader.left() };
        for _ in 0..count {
            reader.value()?;
        }
        Ok(values)
    }
}

impl<'a> Iterator for Values<'a> {
    type Item = Option<&'a [u8]>;

    fn next(&mut self) -> Option<Option<&'a [u8]>> {
        self.count = self.count.checked_sub(1)?;
        let mut reader = Reader::new(self.left);
        let value = reader.value().ok()?;
        self.left = reader.left();
        Some(value)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::from(self.count), Some(usize::from(self.count)))
    }
}

impl ExactSizeIterator for Values<'_> {}

/// Reads a DataRow: its values, `None` for NULL.
///
/// # Errors
/// When the body is not laid out as a DataRow.
pub fn data_row(body: &[u8]) -> Result<Values<'_>, Malformed> {
    let mut reader = Reader::new(body);
    let values = Values::read(&mut reader)?;
    reader.end()?;
    Ok(values)
}

/// A column in a RowDescription.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ColumnView<'a> {
    /// The column's name.
    pub name: &'a [u8],
    /// Object id of its type.
    pub type_oid: u32,
    /// Format code: 0 text, 1 binary.
    pub format: u16,
}

/// The columns of a RowDescription.
#[derive(Clone, Copy, Debug)]
pub struct Columns<'a> {
    count: u16,
    reader: Reader<'a>,
}

impl<'a> Iterator for Columns<'a> {
    type Item = ColumnView<'a>;

    fn next(&mut self) -> Option<ColumnView<'a>> {
        self.count = self.count.checked_sub(1)?;
        column(&mut self.reader).ok()
    }
}

/// Reads a RowDescription.
///
/// # Errors
/// When the body is not laid out as a RowDescription.
pub fn row_description(body: &[u8]) -> Result<Columns<'_>, Malformed> {
    let mut reader = Reader::new(body);
    let count = reader.u16()?;
    let columns = Columns { count, reader };
    for _ in 0..count {
        column(&mut reader)?;
    }
    reader.end()?;
    Ok(columns)
}

/// Name, table, column of the table, type, its width, its modifier, format.
fn column<'a>(reader: &mut Reader<'a>) -> Result<ColumnView<'a>, Malformed> {
    let name = reader.cstr()?;
    reader.take(4 + 2)?;
    let type_oid = reader.u32()?;
    reader.take(2 + 4)?;
    Ok(ColumnView { name, type_oid, format: reader.u16()? })
}

/// Reads a ParameterDescription: object ids of four bytes each, big-endian.
///
/// # Errors
/// When the list does not have its announced length.
pub fn parameter_description(body: &[u8]) -> Result<&[u8], Malformed> {
    let mut reader = Reader::new(body);
    let count = reader.u16()?;
    let types = reader.items(count, 4)?;
    reader.end()?;
    Ok(types)
}

/// Reads a FunctionCallResponse: the result, `None` for NULL.
///
/// # Errors
/// When the body is not one value.
pub fn function_result(body: &[u8]) -> Result<Option<&[u8]>, Malformed> {
    let mut reader = Reader::new(body);
    let result = reader.value()?;
    reader.end()?;
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_may_lack_any_of_its_fields() {
        let whole = [&b"SERROR\0"[..], b"VERROR\0", b"C42601\0", b"Msyntax\0"];
        for missing in 0..whole.len() {
            let mut body: Vec<u8> =
                whole.iter().enumerate().filter(|(i, _)| *i != missing).flat_map(|(_, f)| f.to_vec()).collect();
            body.push(0);
            let view = error_fields(&body).unwrap();
            assert_eq!(view.get(b'S').is_none(), missing == 0);
            assert_eq!(view.severity(), Some(&b"ERROR"[..]));
            assert_eq!(view.sqlstate().is_none(), missing == 2);
            assert_eq!(view.message().is_none(), missing == 3);
        }
        let bare = error_fields(b"\0").unwrap();
        assert_eq!((bare.severity(), bare.sqlstate(), bare.message()), (None, None, None));
    }

    #[test]
    fn an_error_that_does_not_end_is_malformed() {
        for body in [&b""[..], b"S", b"SERROR", b"SERROR\0", b"SERROR\0M\0", b"\0\0", b"SERROR\0\0x"] {
            assert!(error_fields(body).is_err(), "{body:?}");
        }
    }

    #[test]
    fn ready_knows_three_states_and_no_other() {
        for status in [TxStatus::Idle, TxStatus::InTransaction, TxStatus::Failed] {
            assert_eq!(ready(&[status.as_byte()]), Ok(status));
        }
        for body in [&b""[..], b"X", b"II", b"i"] {
            assert!(ready(body).is_err());
        }
    }

    #[test]
    fn each_authentication_message_is_identified_by_its_code() {
        assert_eq!(authentication(b"\0\0\0\0"), Ok(AuthRequest::Ok));
        assert_eq!(authentication(b"\0\0\0\x03"), Ok(AuthRequest::Cleartext));
        assert_eq!(authentication(b"\0\0\0\x05abcd"), Ok(AuthRequest::Md5(*b"abcd")));
        assert_eq!(authentication(b"\0\0\0\x07"), Ok(AuthRequest::Unsupported(7)));
        assert_eq!(authentication(b"\0\0\0\x0br=x"), Ok(AuthRequest::SaslContinue(b"r=x")));
        assert_eq!(authentication(b"\0\0\0\x0cv=x"), Ok(AuthRequest::SaslFinal(b"v=x")));
        let Ok(AuthRequest::Sasl(names)) = authentication(b"\0\0\0\x0aSCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0") else {
            panic!()
        };
        assert_eq!(names.collect::<Vec<_>>(), [&b"SCRAM-SHA-256-PLUS"[..], b"SCRAM-SHA-256"]);
        for body in [&b""[..], b"\0\0\0", b"\0\0\0\0x", b"\0\0\0\x05abc", b"\0\0\0\x0aSCRAM\0", b"\0\0\0\x0a"] {
            assert!(authentication(body).is_err(), "{body:?}");
        }
    }

    #[test]
    fn a_cancel_key_may_be_longer_than_four_bytes_but_not_shorter() {
        assert_eq!(backend_key(b"\0\0\0\x07abcd"), Ok((7, &b"abcd"[..])));
        assert_eq!(backend_key(&[1; 260]).unwrap().1.len(), 256);
        for body in [&[1; 7][..], &[1; 261], &[1; 3]] {
            assert!(backend_key(body).is_err());
        }
    }

    #[test]
    fn a_negotiation_is_read_with_and_without_the_major_version() {
        for version in [[0, 3, 0, 2], [0, 0, 0, 2]] {
            let body = [&version[..], b"\0\0\0\x02_pq_.a\0_pq_.b\0"].concat();
            let negotiate = negotiate(&body).unwrap();
            assert_eq!(negotiate.minor, 2);
            assert_eq!(negotiate.unrecognised.collect::<Vec<_>>(), [b"_pq_.a", b"_pq_.b"]);
        }
        assert!(negotiate(b"\0\x04\0\0\0\0\0\0").is_err());
        assert!(negotiate(b"\0\x03\0\0\xff\xff\xff\xff").is_err());
        assert!(negotiate(b"\0\x03\0\0\0\0\0\x01\0").is_err());
    }
}
