//! The client's messages that only a server reads as a whole: Bind, Execute, FunctionCall, CopyFail, and those without
//! a body.
//!
//! The pooler passes them on; the simulated servers take them in. Layouts: PostgreSQL's documentation, "Message
//! Formats".

use weir_pgwire::Malformed;

const MALFORMED: Malformed = Malformed("insufficient data left in message");

/// A Bind, without its formats.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Bind<'a> {
    pub(crate) portal: &'a [u8],
    pub(crate) statement: &'a [u8],
    /// `None` is NULL.
    pub(crate) values: Vec<Option<&'a [u8]>>,
}

/// Reads a Bind's body.
pub(crate) fn bind(body: &[u8]) -> Result<Bind<'_>, Malformed> {
    let mut left = body;
    let (portal, statement) = (string(&mut left)?, string(&mut left)?);
    formats(&mut left)?;
    let values = values(&mut left)?;
    formats(&mut left)?;
    empty(left)?;
    Ok(Bind { portal, statement, values })
}

/// Reads an Execute's body: the portal, and the most rows to return.
pub(crate) fn execute(body: &[u8]) -> Result<(&[u8], i32), Malformed> {
    let mut left = body;
    let execute = (string(&mut left)?, i32::from_be_bytes(array(&mut left)?));
    empty(left)?;
    Ok(execute)
}

/// Reads a FunctionCall's body: its arguments.
pub(crate) fn function_call(body: &[u8]) -> Result<Vec<Option<&[u8]>>, Malformed> {
    let mut left = body;
    array::<4>(&mut left)?;
    formats(&mut left)?;
    let arguments = values(&mut left)?;
    array::<2>(&mut left)?;
    empty(left)?;
    Ok(arguments)
}

/// Reads a CopyFail's body: the client's reason.
pub(crate) fn copy_fail(body: &[u8]) -> Result<&[u8], Malformed> {
    let mut left = body;
    let reason = string(&mut left)?;
    empty(left)?;
    Ok(reason)
}

/// Checks the body of a message that has none.
pub(crate) fn empty(body: &[u8]) -> Result<(), Malformed> {
    if body.is_empty() { Ok(()) } else { Err(Malformed("invalid message format: bytes after its end")) }
}

fn take<'a>(left: &mut &'a [u8], count: usize) -> Result<&'a [u8], Malformed> {
    let (taken, rest) = left.split_at_checked(count).ok_or(MALFORMED)?;
    *left = rest;
    Ok(taken)
}

fn array<const N: usize>(left: &mut &[u8]) -> Result<[u8; N], Malformed> {
    let (array, rest) = left.split_first_chunk::<N>().ok_or(MALFORMED)?;
    *left = rest;
    Ok(*array)
}

fn string<'a>(left: &mut &'a [u8]) -> Result<&'a [u8], Malformed> {
    let end = left.iter().position(|byte| *byte == 0).ok_or(MALFORMED)?;
    let string = take(left, end)?;
    take(left, 1)?;
    Ok(string)
}

fn formats(left: &mut &[u8]) -> Result<(), Malformed> {
    let count = u16::from_be_bytes(array(left)?);
    take(left, 2 * usize::from(count)).map(drop)
}

fn values<'a>(left: &mut &'a [u8]) -> Result<Vec<Option<&'a [u8]>>, Malformed> {
    let count = u16::from_be_bytes(array(left)?);
    let mut value = || match i32::from_be_bytes(array(left)?) {
        -1 => Ok(None),
        length => take(left, usize::try_from(length).map_err(|_| MALFORMED)?).map(Some),
    };
    (0..count).map(|_| value()).collect()
}

#[cfg(test)]
mod tests {
    use weir_pgwire::{HEAD, put_front};

    use super::*;

    #[test]
    fn a_bind_s_values_tell_null_from_empty() {
        let body = b"\0s\0\0\x01\0\x01\0\x03\0\0\0\x02ab\xff\xff\xff\xff\0\0\0\0\0\x01\0\0";
        let bind = bind(body).unwrap();
        assert_eq!((bind.portal, bind.statement), (&b""[..], &b"s"[..]));
        assert_eq!(bind.values, [Some(&b"ab"[..]), None, Some(&b""[..])]);
    }

    #[test]
    fn negative_lengths_other_than_null_are_malformed() {
        assert!(bind(b"\0\0\0\0\0\x01\xff\xff\xff\xfe\0\0").is_err());
        assert!(bind(b"\0\0\0\0\0\x01\x7f\xff\xff\xff\0\0").is_err());
    }

    #[test]
    fn an_execute_carries_its_row_limit() {
        assert_eq!(execute(b"p\0\0\0\0\x05"), Ok((&b"p"[..], 5)));
        assert!(execute(b"p\0\0\0\0").is_err());
    }

    #[test]
    fn what_is_written_reads_back() {
        let values = [Some(&b"a"[..]), None];
        let mut written = Vec::new();
        put_front::function_call(&mut written, 7, &values);
        assert_eq!(function_call(&written[HEAD..]), Ok(values.to_vec()));
        written.clear();
        put_front::bind(&mut written, b"p", b"s", &values);
        assert_eq!(bind(&written[HEAD..]), Ok(Bind { portal: b"p", statement: b"s", values: values.to_vec() }));
        written.clear();
        put_front::execute(&mut written, b"p", -5);
        assert_eq!(execute(&written[HEAD..]), Ok((&b"p"[..], -5)));
        assert_eq!(copy_fail(b"why\0"), Ok(&b"why"[..]));
        assert!(copy_fail(b"why").is_err() && empty(b"x").is_err());
    }
}
