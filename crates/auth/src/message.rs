//! Reading SCRAM messages, for both roles: the attribute list, its values, limits, and errors.
//!
//! Grammar: RFC 5802, section 7. Must not know state or keys. The length and the encoding of a message are checked
//! before anything else is read.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::crypto::Key;

/// The longest SCRAM message accepted from a peer, in bytes.
///
/// Messages of real clients and servers are below 300 bytes; PostgreSQL accepts up to 1,024 from a client. A frozen
/// login holds at most a few of them.
pub const MAX_MESSAGE: usize = 2048;

/// The highest accepted iteration count, for a server or for a stored secret.
///
/// PostgreSQL's default is 4,096. A million costs up to half a second of a helper; the protocol's limit, 2³¹, would
/// let a hostile server occupy a helper for a quarter of an hour.
pub const MAX_ITERATIONS: u32 = 1_000_000;

/// Random bytes in a nonce of ours, as many as PostgreSQL uses; 24 characters as text.
pub(crate) const NONCE_LEN: usize = 18;

/// Why a SCRAM exchange failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ScramError {
    /// The peer's message violates the grammar; the text says where.
    Malformed(&'static str),
    /// The peer requests something valid that is not supported; the text says what.
    Unsupported(&'static str),
    /// The peer's view of channel binding contradicts ours; the text says how.
    ChannelBinding(&'static str),
    /// The peer used the nonce of another exchange.
    NonceMismatch,
    /// The client's proof is wrong: wrong password, unknown user, or a user without SCRAM.
    WrongPassword,
    /// The server asks for more than [`MAX_ITERATIONS`] iterations: this many.
    TooManyIterations(u32),
    /// The server did not prove that it knows the password: it may not be the intended server.
    ServerSignature,
    /// The server ended the exchange with this error, made printable.
    Server(String),
}

impl fmt::Display for ScramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScramError::Malformed(what) => write!(f, "malformed SCRAM message ({what})"),
            ScramError::Unsupported(what) => write!(f, "unsupported SCRAM message ({what})"),
            ScramError::ChannelBinding(what) => write!(f, "SCRAM channel binding failed ({what})"),
            ScramError::NonceMismatch => f.write_str("invalid SCRAM message (nonce mismatch)"),
            ScramError::WrongPassword => f.write_str("password authentication failed"),
            ScramError::TooManyIterations(count) => {
                write!(f, "server asks for {count} SCRAM iterations, more than the limit of {MAX_ITERATIONS}")
            }
            ScramError::ServerSignature => f.write_str("incorrect SCRAM server signature"),
            ScramError::Server(text) => write!(f, "server reported an error in the SCRAM exchange: {text}"),
        }
    }
}

impl std::error::Error for ScramError {}

/// Checks a message's length and encoding, before anything else is done with it.
pub(crate) fn text(message: &[u8]) -> Result<&str, ScramError> {
    if message.is_empty() {
        return Err(ScramError::Malformed("message is empty"));
    }
    if message.len() > MAX_MESSAGE {
        return Err(ScramError::Malformed("message is too long"));
    }
    if message.contains(&0) {
        return Err(ScramError::Malformed("message contains a zero byte"));
    }
    std::str::from_utf8(message).map_err(|_| ScramError::Malformed("message is not UTF-8"))
}

/// A message's attributes (`name=value`, separated by commas), read in order.
pub(crate) struct Attributes<'a> {
    /// What has not been read; `None` after the last attribute.
    rest: Option<&'a str>,
}

impl<'a> Attributes<'a> {
    /// Reads `text` from its beginning.
    pub(crate) fn new(text: &'a str) -> Self {
        Attributes { rest: Some(text) }
    }

    /// The next attribute, or `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<(char, &'a str)>, ScramError> {
        let Some(rest) = self.rest else { return Ok(None) };
        let (attribute, rest) = match rest.split_once(',') {
            Some((attribute, rest)) => (attribute, Some(rest)),
            None => (rest, None),
        };
        let mut chars = attribute.chars();
        match (chars.next(), chars.next()) {
            (Some(name), Some('=')) if name.is_ascii_alphabetic() => {
                self.rest = rest;
                Ok(Some((name, chars.as_str())))
            }
            _ => Err(ScramError::Malformed("attribute expected")),
        }
    }

    /// The value of the next attribute, whose name must be `name`; otherwise `missing` is the error's text.
    pub(crate) fn expect(&mut self, name: char, missing: &'static str) -> Result<&'a str, ScramError> {
        match self.next()? {
            Some((found, value)) if found == name => Ok(value),
            // RFC 5802, section 5.1: an unknown mandatory extension ends the exchange.
            Some(('m', _)) => Err(ScramError::Unsupported("mandatory extension")),
            _ => Err(ScramError::Malformed(missing)),
        }
    }

    /// Reads extensions, which are ignored, but must be valid attributes.
    pub(crate) fn finish(mut self) -> Result<(), ScramError> {
        while self.next()?.is_some() {}
        Ok(())
    }
}

/// A nonce: printable ASCII without a comma, at least one character (RFC 5802, section 7, `printable`).
pub(crate) fn nonce(value: &str) -> Result<&str, ScramError> {
    let printable = |byte: u8| byte.is_ascii_graphic() && byte != b',';
    if value.is_empty() || !value.bytes().all(printable) {
        return Err(ScramError::Malformed("nonce is not printable"));
    }
    Ok(value)
}

/// A count of iterations: decimal digits, at least 1, within 32 bits.
pub(crate) fn iterations(value: &str) -> Option<u32> {
    let digits = value.bytes().all(|byte| byte.is_ascii_digit());
    if digits { value.parse().ok().filter(|&count| count > 0) } else { None }
}

/// Base64 with padding, as RFC 5802 requires.
pub(crate) fn decode(value: &str) -> Option<Vec<u8>> {
    STANDARD.decode(value).ok()
}

/// A key or a signature in base64.
pub(crate) fn decode_key(value: &str) -> Option<Key> {
    decode(value)?.try_into().ok()
}

/// `bytes` in base64.
pub(crate) fn encode(bytes: impl AsRef<[u8]>) -> String {
    STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_come_in_order_and_keep_equal_signs_in_values() {
        let mut attributes = Attributes::new("a=,b=x==,c=é");
        assert_eq!(attributes.next(), Ok(Some(('a', ""))));
        assert_eq!(attributes.next(), Ok(Some(('b', "x=="))));
        assert_eq!(attributes.next(), Ok(Some(('c', "é"))));
        assert_eq!(attributes.next(), Ok(None));
    }

    #[test]
    fn an_invalid_attribute_is_an_error_each_time() {
        for text in ["", ",", "a", "ab=c", "é=1", "1=1", "a=1,"] {
            let mut attributes = Attributes::new(text);
            let failed = (0..3).map(|_| attributes.next()).find(Result::is_err);
            assert_eq!(failed, Some(Err(ScramError::Malformed("attribute expected"))), "{text:?}");
            assert!(attributes.next().is_err(), "{text:?}");
        }
    }

    #[test]
    fn iterations_are_plain_positive_decimal_numbers() {
        assert_eq!(iterations("4096"), Some(4096));
        assert_eq!(iterations("4294967295"), Some(u32::MAX));
        for wrong in ["", "0", "-1", "+1", " 1", "1 ", "0x10", "4294967296", "99999999999999999999999", "٣"] {
            assert_eq!(iterations(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_message_is_bounded_text_without_zero_bytes() {
        assert!(text(&[b'a'; MAX_MESSAGE]).is_ok());
        assert_eq!(text(&[b'a'; MAX_MESSAGE + 1]), Err(ScramError::Malformed("message is too long")));
        assert_eq!(text(b""), Err(ScramError::Malformed("message is empty")));
        assert_eq!(text(b"a\0"), Err(ScramError::Malformed("message contains a zero byte")));
        assert_eq!(text(b"\xff"), Err(ScramError::Malformed("message is not UTF-8")));
    }
}
