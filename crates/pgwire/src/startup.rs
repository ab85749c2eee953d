//! The first packet of a connection, the one without a tag, and the `options` parameter in it.
//!
//! Must not know which parameters are allowed, or how the packet is answered. A packet is bounded, and an invalid
//! length is refused at once.
//!
//! Source: PostgreSQL's documentation, "Message Formats" (StartupMessage, SSLRequest, GSSENCRequest, CancelRequest),
//! and for `options` the section "Server Configuration", "Parameter Interaction via the Shell".

use crate::frame::Malformed;
use crate::read::{Reader, split_cstr};

/// The longest first packet, in bytes after its length field (PostgreSQL's `MAX_STARTUP_PACKET_LENGTH`).
pub const MAX_STARTUP: usize = 10_000;

/// The shortest and the longest secret of a cancel key, in bytes. Protocol 3.0 has exactly 4; 3.2 lets the server
/// choose.
pub const CANCEL_KEY: std::ops::RangeInclusive<usize> = 4..=256;

pub(crate) const CANCEL_CODE: u32 = 80_877_102;
pub(crate) const SSL_CODE: u32 = 80_877_103;
pub(crate) const GSS_CODE: u32 = 80_877_104;

/// The kinds of first packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum First<'a> {
    /// SSLRequest: the client wants TLS.
    Ssl,
    /// GSSENCRequest: the client wants GSSAPI encryption.
    Gss,
    /// CancelRequest: cancel the query of that session.
    Cancel {
        /// The process id from BackendKeyData.
        pid: u32,
        /// The secret from BackendKeyData; its length is in [`CANCEL_KEY`].
        key: &'a [u8],
    },
    /// StartupMessage of protocol 3.
    Startup(Startup<'a>),
    /// StartupMessage of another protocol version, answered with an error about the version.
    Unsupported {
        /// The requested major version.
        major: u16,
        /// The requested minor version.
        minor: u16,
    },
}

/// A StartupMessage of protocol 3.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Startup<'a> {
    /// The requested minor version: 0, 2, or one to be negotiated.
    pub minor: u16,
    params: &'a [u8],
}

impl<'a> Startup<'a> {
    /// Names and values in the client's order; a name may come twice (the last one counts in PostgreSQL). Names that
    /// begin with `_pq_.` are protocol options.
    pub fn params(&self) -> StartupParams<'a> {
        StartupParams { left: self.params }
    }

    /// The last value of a parameter.
    pub fn get(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.params().filter(|(key, _)| *key == name).last().map(|(_, value)| value)
    }
}

/// A startup packet's parameters.
#[derive(Clone, Copy, Debug)]
pub struct StartupParams<'a> {
    left: &'a [u8],
}

impl<'a> Iterator for StartupParams<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (name, left) = split_cstr(self.left).filter(|(name, _)| !name.is_empty())?;
        let (value, left) = split_cstr(left)?;
        self.left = left;
        Some((name, value))
    }
}

/// Reads the first packet at the front of `bytes` and returns its length; `None` if it has not all arrived.
///
/// # Errors
/// When its length is below 8 or beyond [`MAX_STARTUP`], or when its layout does not fit its code.
pub fn first(bytes: &[u8]) -> Result<Option<(First<'_>, usize)>, Malformed> {
    let Some(field) = bytes.first_chunk::<4>() else { return Ok(None) };
    let total = u32::from_be_bytes(*field) as usize;
    if !(8..=MAX_STARTUP + 4).contains(&total) {
        return Err(Malformed("invalid length of startup packet"));
    }
    let Some(body) = bytes.get(4..total) else { return Ok(None) };
    Ok(Some((packet(body)?, total)))
}

fn packet(body: &[u8]) -> Result<First<'_>, Malformed> {
    let mut reader = Reader::new(body);
    match reader.u32()? {
        SSL_CODE => reader.end().map(|()| First::Ssl),
        GSS_CODE => reader.end().map(|()| First::Gss),
        CANCEL_CODE => cancel(reader),
        code if code >> 16 == 3 => {
            let params = reader.left();
            check_params(reader)?;
            Ok(First::Startup(Startup { minor: (code & 0xffff) as u16, params }))
        }
        code => Ok(First::Unsupported { major: (code >> 16) as u16, minor: (code & 0xffff) as u16 }),
    }
}

fn cancel(mut reader: Reader<'_>) -> Result<First<'_>, Malformed> {
    let pid = reader.u32()?;
    let key = reader.left();
    if !CANCEL_KEY.contains(&key.len()) {
        return Err(Malformed("invalid length of query cancel packet"));
    }
    Ok(First::Cancel { pid, key })
}

/// Pairs of strings, then an empty string as the last byte.
fn check_params(mut reader: Reader<'_>) -> Result<(), Malformed> {
    let layout = |_| Malformed("invalid startup packet layout: expected terminator as last byte");
    while !reader.cstr().map_err(layout)?.is_empty() {
        reader.cstr().map_err(layout)?;
    }
    reader.end().map_err(layout)
}

/// Reads the startup parameter `options`, part of a command line, into settings: `-c name=value`, `-cname=value` and
/// `--name=value`, where a dash in a name stands for an underscore. White space separates words; a backslash takes
/// the next character as it is.
///
/// # Errors
/// On any other switch, on a word that is not a switch, and on a setting without name or value.
pub fn options(text: &str) -> Result<Vec<(String, String)>, Malformed> {
    let mut settings = Vec::new();
    let mut words = words(text).into_iter();
    while let Some(word) = words.next() {
        let setting = if let Some(long) = word.strip_prefix("--") {
            long.to_owned()
        } else {
            match word.strip_prefix("-c") {
                Some("") => words.next().ok_or(Malformed("-c requires a setting"))?,
                Some(glued) => glued.to_owned(),
                None => return Err(Malformed("only -c name=value and --name=value are understood")),
            }
        };
        settings.push(split_setting(&setting)?);
    }
    Ok(settings)
}

fn split_setting(setting: &str) -> Result<(String, String), Malformed> {
    match setting.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.replace('-', "_"), value.to_owned())),
        _ => Err(Malformed("a setting must read name=value")),
    }
}

/// Splits as PostgreSQL's `pg_split_opts`: a backslash at the very end is dropped.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match char {
            ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c' => words.extend(word.take()),
            '\\' => word.get_or_insert_default().extend(chars.next()),
            _ => word.get_or_insert_default().push(char),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(code: u32, body: &[u8]) -> Vec<u8> {
        let mut bytes = (8 + body.len() as u32).to_be_bytes().to_vec();
        bytes.extend_from_slice(&code.to_be_bytes());
        bytes.extend_from_slice(body);
        bytes
    }

    fn setting(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn a_startup_message_lists_its_parameters_in_order() {
        let bytes = framed(3 << 16 | 2, b"user\0ann\0database\0app\0user\0bob\0\0");
        let (First::Startup(startup), consumed) = first(&bytes).unwrap().unwrap() else { panic!() };
        assert_eq!((startup.minor, consumed), (2, bytes.len()));
        let params: Vec<_> = startup.params().collect();
        assert_eq!(params, [(&b"user"[..], &b"ann"[..]), (b"database", b"app"), (b"user", b"bob")]);
        assert_eq!(startup.get(b"user"), Some(&b"bob"[..]));
        assert_eq!(startup.get(b"options"), None);
    }

    #[test]
    fn an_empty_value_is_a_value() {
        let bytes = framed(3 << 16, b"user\0ann\0options\0\0\0");
        let (First::Startup(startup), _) = first(&bytes).unwrap().unwrap() else { panic!() };
        assert_eq!(startup.get(b"options"), Some(&b""[..]));
    }

    #[test]
    fn requests_for_encryption_are_exactly_eight_bytes() {
        assert_eq!(first(&framed(SSL_CODE, b"")), Ok(Some((First::Ssl, 8))));
        assert_eq!(first(&framed(GSS_CODE, b"")), Ok(Some((First::Gss, 8))));
        assert!(first(&framed(SSL_CODE, b"x")).is_err());
        let mut stuffed = framed(SSL_CODE, b"");
        stuffed.extend_from_slice(b"more");
        assert_eq!(first(&stuffed), Ok(Some((First::Ssl, 8))), "the caller sees that bytes are left");
    }

    #[test]
    fn a_cancel_key_is_4_to_256_bytes() {
        for (length, fits) in [(0, false), (3, false), (4, true), (32, true), (256, true), (257, false)] {
            let bytes = framed(CANCEL_CODE, &[[0, 0, 0, 7].as_slice(), &vec![9; length]].concat());
            match first(&bytes) {
                Ok(Some((First::Cancel { pid: 7, key }, _))) => assert!(fits && key.len() == length, "{length}"),
                other => assert!(!fits && other.is_err(), "{length}: {other:?}"),
            }
        }
        assert!(first(&framed(CANCEL_CODE, b"\0\0")).is_err());
    }

    #[test]
    fn other_protocol_versions_are_named_not_misread() {
        assert_eq!(first(&framed(2 << 16, b"xyz")), Ok(Some((First::Unsupported { major: 2, minor: 0 }, 11))));
        assert_eq!(first(&framed(4 << 16 | 1, b"")), Ok(Some((First::Unsupported { major: 4, minor: 1 }, 8))));
    }

    #[test]
    fn lengths_out_of_bounds_are_refused_at_once() {
        for total in [0u32, 7, 10_005, 0x1603_0102, u32::MAX] {
            assert!(first(&total.to_be_bytes()).is_err(), "{total}");
        }
        assert_eq!(first(&10_004u32.to_be_bytes()), Ok(None));
    }

    #[test]
    fn a_startup_message_must_end_with_its_terminator() {
        for body in [&b""[..], b"user\0", b"user\0ann\0", b"user\0ann", b"user\0ann\0\0x", b"\0\0"] {
            assert!(first(&framed(3 << 16, body)).is_err(), "{body:?}");
        }
    }

    #[test]
    fn options_reads_every_spelling_of_a_setting() {
        let got = options(r" -c a=1  -cb=2 --lock-timeout=3 -c search_path=x,\ y --c=\\ ").unwrap();
        let want = [("a", "1"), ("b", "2"), ("lock_timeout", "3"), ("search_path", "x, y"), ("c", r"\")];
        assert_eq!(got, want.map(|(name, value)| setting(name, value)));
        assert_eq!(options(""), Ok(vec![]));
        assert_eq!(options("-c a=b=c"), Ok(vec![setting("a", "b=c")]));
        assert_eq!(options("-c a="), Ok(vec![setting("a", "")]));
    }

    #[test]
    fn options_refuses_what_it_does_not_understand() {
        for text in ["-c", "-c a", "--a", "--", "-d 1", "a=1", "-c =1", "-", "\\-"] {
            assert!(options(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_trailing_backslash_is_dropped() {
        assert_eq!(options("-c a=1\\"), Ok(vec![setting("a", "1")]));
    }
}
