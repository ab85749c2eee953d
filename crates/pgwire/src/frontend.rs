//! Reads messages of a client: each function takes the body of one message.
//!
//! Owns the layouts of the frontend messages except the first packet ([`crate::startup`]). Must not know which message
//! is allowed when. Names and texts are bytes in the client's encoding.
//!
//! All functions but [`bind_head`] need the whole body and refuse trailing bytes, as PostgreSQL does.

use crate::frame::Malformed;
use crate::read::{Reader, split_cstr};

/// Parse: prepare a statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parse<'a> {
    /// The statement's name; empty for the unnamed one.
    pub name: &'a [u8],
    /// The text, without its NUL.
    pub text: &'a [u8],
    /// Everything after the name's NUL: the text with its NUL, the number of types, the types. These bytes
    /// identify a statement independently of its name.
    pub rest: &'a [u8],
    /// The parameter types that the client fixed, as object ids of four bytes each, big-endian; 0 leaves one open.
    pub types: &'a [u8],
}

/// Reads a Parse.
///
/// # Errors
/// When the body is not laid out as a Parse.
pub fn parse(body: &[u8]) -> Result<Parse<'_>, Malformed> {
    let mut reader = Reader::new(body);
    let name = reader.cstr()?;
    let rest = reader.left();
    let text = reader.cstr()?;
    let count = reader.u16()?;
    let types = reader.items(count, 4)?;
    reader.end()?;
    Ok(Parse { name, text, rest, types })
}

/// The two names at the front of a Bind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BindHead<'a> {
    /// The portal to create; empty for the unnamed one.
    pub portal: &'a [u8],
    /// The statement to bind; empty for the unnamed one.
    pub statement: &'a [u8],
    /// Where the rest of the body begins (formats and values), which can be forwarded unread.
    pub rest_at: usize,
}

/// Reads the front of a Bind from as much of its body as has arrived; `None`: more bytes are needed. For a whole body
/// `None` means that it is not a Bind. The caller must bound the length of an unfinished name.
///
/// # Errors
/// None at present: a Bind's front can be short, but not wrong.
#[inline]
pub fn bind_head(prefix: &[u8]) -> Result<Option<BindHead<'_>>, Malformed> {
    let Some((portal, left)) = split_cstr(prefix) else { return Ok(None) };
    let Some((statement, left)) = split_cstr(left) else { return Ok(None) };
    Ok(Some(BindHead { portal, statement, rest_at: prefix.len() - left.len() }))
}

/// What a Describe or Close is about.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Of {
    /// A prepared statement.
    Statement,
    /// A portal.
    Portal,
}

impl Of {
    /// The protocol's byte: `S` or `P`.
    pub fn as_byte(self) -> u8 {
        match self {
            Of::Statement => b'S',
            Of::Portal => b'P',
        }
    }
}

/// Describe or Close: they differ only in their tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Named<'a> {
    /// Statement or portal.
    pub of: Of,
    /// The name of the statement or portal; empty for the unnamed one.
    pub name: &'a [u8],
}

/// Reads a Describe or Close.
///
/// # Errors
/// When the body is not laid out as one of them.
pub fn named(body: &[u8]) -> Result<Named<'_>, Malformed> {
    let mut reader = Reader::new(body);
    let of = match reader.u8()? {
        b'S' => Of::Statement,
        b'P' => Of::Portal,
        _ => return Err(Malformed("invalid message format: neither a statement nor a portal")),
    };
    let name = reader.cstr()?;
    reader.end()?;
    Ok(Named { of, name })
}

/// Reads a Query: its text, without its NUL.
///
/// # Errors
/// When the body is not one string.
pub fn query(body: &[u8]) -> Result<&[u8], Malformed> {
    one_string(body)
}

/// Reads a PasswordMessage: the password or md5 digest, without its NUL.
///
/// # Errors
/// When the body is not one string.
pub fn password(body: &[u8]) -> Result<&[u8], Malformed> {
    one_string(body)
}

/// SASLInitialResponse: the mechanism that the client chose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SaslInitial<'a> {
    /// The mechanism's name.
    pub mechanism: &'a [u8],
    /// The mechanism's first message, if the client sends one at once.
    pub data: Option<&'a [u8]>,
}

/// Reads a SASLInitialResponse. (The body of a SASLResponse is just the mechanism's bytes.)
///
/// # Errors
/// When the body is not laid out as a SASLInitialResponse.
pub fn sasl_initial(body: &[u8]) -> Result<SaslInitial<'_>, Malformed> {
    let mut reader = Reader::new(body);
    let initial = SaslInitial { mechanism: reader.cstr()?, data: reader.value()? };
    reader.end()?;
    Ok(initial)
}

fn one_string(body: &[u8]) -> Result<&[u8], Malformed> {
    let mut reader = Reader::new(body);
    let string = reader.cstr()?;
    reader.end()?;
    Ok(string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parse_is_identified_by_what_follows_its_name() {
        let body = b"s1\0select $1\0\0\x01\0\0\0\x17";
        let parse = parse(body).unwrap();
        assert_eq!((parse.name, parse.text), (&b"s1"[..], &b"select $1"[..]));
        assert_eq!(parse.rest, &body[3..]);
        assert_eq!(parse.types, [0, 0, 0, 23]);
    }

    #[test]
    fn a_parse_with_too_few_or_too_many_types_is_malformed() {
        assert!(parse(b"\0select 1\0\0\x01\0\0\0").is_err());
        assert!(parse(b"\0select 1\0\0\0\0").is_err());
        assert!(parse(b"\0select 1\0\0").is_err());
        assert!(parse(b"\0select 1").is_err());
        assert!(parse(b"").is_err());
        assert!(parse(b"\0\0\xff\xff").is_err());
    }

    #[test]
    fn a_bind_shows_its_names_as_soon_as_both_have_ended() {
        let body = b"portal\0stmt\0\0\0\0\0\0\0";
        for end in 0..12 {
            assert_eq!(bind_head(&body[..end]), Ok(None), "{end}");
        }
        for end in 12..=body.len() {
            let head = bind_head(&body[..end]).unwrap().unwrap();
            assert_eq!((head.portal, head.statement, head.rest_at), (&b"portal"[..], &b"stmt"[..], 12));
        }
    }

    #[test]
    fn negative_lengths_other_than_null_are_malformed() {
        assert!(sasl_initial(b"SCRAM-SHA-256\0\x80\0\0\0").is_err());
    }

    #[test]
    fn describe_and_close_name_a_statement_or_a_portal_and_nothing_else() {
        assert_eq!(named(b"Ss1\0"), Ok(Named { of: Of::Statement, name: b"s1" }));
        assert_eq!(named(b"P\0"), Ok(Named { of: Of::Portal, name: b"" }));
        assert!(named(b"Xs1\0").is_err());
        assert!(named(b"Ss1").is_err());
        assert!(named(b"Ss1\0\0").is_err());
        assert!(named(b"").is_err());
    }

    #[test]
    fn a_query_is_exactly_one_string() {
        assert_eq!(query(b"select 1\0"), Ok(&b"select 1"[..]));
        assert_eq!(query(b"\0"), Ok(&b""[..]));
        assert!(query(b"select 1").is_err());
        assert!(query(b"select 1\0; drop\0").is_err());
    }
}
