//! Writes messages of a client: for server connections, and for clients in tests and in the simulator.
//!
//! Each function appends one whole message, except the `*_head` functions: they write all but a body's last part, whose
//! length they get, so that the caller can stream that part.

use crate::frontend::Of;
use crate::put::{bare, cstr, cut_cstr, head, i32, list, message, u16, u32, untagged, until_nul, value};
use crate::startup::{CANCEL_CODE, GSS_CODE, SSL_CODE};
use crate::tag::front as tag;

/// StartupMessage of protocol 3.`minor`. A parameter with an empty name is left out, because it would end the list.
pub fn startup<N: AsRef<[u8]>, V: AsRef<[u8]>>(buf: &mut Vec<u8>, params: &[(N, V)], minor: u16) {
    untagged(buf, |buf| {
        u32(buf, 3 << 16 | u32::from(minor));
        for (name, value) in params {
            let name = until_nul(name.as_ref());
            if !name.is_empty() {
                cstr(buf, name);
                cstr(buf, value.as_ref());
            }
        }
        buf.push(0);
    });
}

/// SSLRequest.
pub fn ssl_request(buf: &mut Vec<u8>) {
    untagged(buf, |buf| u32(buf, SSL_CODE));
}

/// GSSENCRequest.
pub fn gss_request(buf: &mut Vec<u8>) {
    untagged(buf, |buf| u32(buf, GSS_CODE));
}

/// CancelRequest, with the process id and the secret of BackendKeyData.
pub fn cancel_request(buf: &mut Vec<u8>, pid: u32, key: &[u8]) {
    untagged(buf, |buf| {
        u32(buf, CANCEL_CODE);
        u32(buf, pid);
        buf.extend_from_slice(key);
    });
}

/// Query.
pub fn query(buf: &mut Vec<u8>, text: impl AsRef<[u8]>) {
    message(buf, tag::QUERY, |buf| cstr(buf, text.as_ref()));
}

/// Query up to and with the beginning of its text; `rest_len` bytes must follow.
pub fn query_head(buf: &mut Vec<u8>, beginning: &[u8], rest_len: usize) {
    head(buf, tag::QUERY, beginning.len().saturating_add(rest_len));
    buf.extend_from_slice(beginning);
}

/// Parse; `rest` is all that follows the name, as in [`crate::frontend::Parse::rest`].
pub fn parse(buf: &mut Vec<u8>, name: &[u8], rest: &[u8]) {
    parse_head(buf, name, rest.len());
    buf.extend_from_slice(rest);
}

/// Parse up to and with its name; `rest_len` bytes must follow.
pub fn parse_head(buf: &mut Vec<u8>, name: &[u8], rest_len: usize) {
    let name = until_nul(name);
    head(buf, tag::PARSE, (name.len() + 1).saturating_add(rest_len));
    cstr(buf, name);
}

/// Parse from a text and the object ids of the parameters' types.
pub fn parse_text(buf: &mut Vec<u8>, name: &[u8], text: impl AsRef<[u8]>, types: &[u32]) {
    message(buf, tag::PARSE, |buf| {
        cstr(buf, name);
        cstr(buf, text.as_ref());
        list(buf, types, |buf, oid| u32(buf, *oid));
    });
}

/// Bind up to and with its two names; `rest_len` bytes (formats and values) must follow.
pub fn bind_head(buf: &mut Vec<u8>, portal: &[u8], statement: &[u8], rest_len: usize) {
    let (portal, statement) = (until_nul(portal), until_nul(statement));
    head(buf, tag::BIND, (portal.len() + statement.len() + 2).saturating_add(rest_len));
    cut_cstr(buf, portal);
    cut_cstr(buf, statement);
}

/// Bind of a statement without parameters; results come as text.
pub fn bind_no_params(buf: &mut Vec<u8>, portal: &[u8], statement: &[u8]) {
    bind(buf, portal, statement, &[]);
}

/// Bind with parameters and results as text; `None` is NULL.
pub fn bind(buf: &mut Vec<u8>, portal: &[u8], statement: &[u8], values: &[Option<&[u8]>]) {
    message(buf, tag::BIND, |buf| {
        cstr(buf, portal);
        cstr(buf, statement);
        u16(buf, 0);
        list(buf, values, |buf, item| value(buf, *item));
        u16(buf, 0);
    });
}

/// Describe.
pub fn describe(buf: &mut Vec<u8>, of: Of, name: &[u8]) {
    named(buf, tag::DESCRIBE, of, name);
}

/// Close.
pub fn close(buf: &mut Vec<u8>, of: Of, name: &[u8]) {
    named(buf, tag::CLOSE, of, name);
}

/// Describe or Close, by `tag` ([`tag::DESCRIBE`], [`tag::CLOSE`]).
pub fn named(buf: &mut Vec<u8>, tag: u8, of: Of, name: &[u8]) {
    message(buf, tag, |buf| {
        buf.push(of.as_byte());
        cstr(buf, name);
    });
}

/// Execute; `max_rows` 0 means no limit.
pub fn execute(buf: &mut Vec<u8>, portal: &[u8], max_rows: i32) {
    message(buf, tag::EXECUTE, |buf| {
        cstr(buf, portal);
        i32(buf, max_rows);
    });
}

/// Sync.
pub fn sync(buf: &mut Vec<u8>) {
    bare(buf, tag::SYNC);
}

/// Flush.
pub fn flush(buf: &mut Vec<u8>) {
    bare(buf, tag::FLUSH);
}

/// Terminate.
pub fn terminate(buf: &mut Vec<u8>) {
    bare(buf, tag::TERMINATE);
}

/// PasswordMessage: a password or an md5 digest.
pub fn password(buf: &mut Vec<u8>, password: &[u8]) {
    message(buf, tag::PASSWORD, |buf| cstr(buf, password));
}

/// SASLInitialResponse: the mechanism chosen and its first message.
pub fn sasl_initial(buf: &mut Vec<u8>, mechanism: impl AsRef<[u8]>, data: &[u8]) {
    message(buf, tag::PASSWORD, |buf| {
        cstr(buf, mechanism.as_ref());
        value(buf, Some(data));
    });
}

/// SASLResponse.
pub fn sasl_response(buf: &mut Vec<u8>, data: &[u8]) {
    message(buf, tag::PASSWORD, |buf| buf.extend_from_slice(data));
}

/// CopyData.
pub fn copy_data(buf: &mut Vec<u8>, data: &[u8]) {
    message(buf, tag::COPY_DATA, |buf| buf.extend_from_slice(data));
}

/// CopyDone.
pub fn copy_done(buf: &mut Vec<u8>) {
    bare(buf, tag::COPY_DONE);
}

/// CopyFail, with the reason.
pub fn copy_fail(buf: &mut Vec<u8>, reason: impl AsRef<[u8]>) {
    message(buf, tag::COPY_FAIL, |buf| cstr(buf, reason.as_ref()));
}

/// FunctionCall with arguments and result as text.
pub fn function_call(buf: &mut Vec<u8>, function: u32, arguments: &[Option<&[u8]>]) {
    message(buf, tag::FUNCTION_CALL, |buf| {
        u32(buf, function);
        u16(buf, 0);
        list(buf, arguments, |buf, item| value(buf, *item));
        u16(buf, 0);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{HEAD, Head};
    use crate::frontend;

    #[test]
    fn a_rewritten_bind_announces_the_rest_that_is_streamed_after_it() {
        let mut original = Vec::new();
        bind(&mut original, b"", b"client_name", &[Some(b"1"), None]);
        let front = frontend::bind_head(&original[HEAD..]).unwrap().unwrap();
        let rest = &original[HEAD + front.rest_at..];

        let mut rewritten = Vec::new();
        bind_head(&mut rewritten, front.portal, b"w1", rest.len());
        rewritten.extend_from_slice(rest);

        let mut wanted = Vec::new();
        bind(&mut wanted, b"", b"w1", &[Some(b"1"), None]);
        assert_eq!(rewritten, wanted);
    }

    #[test]
    fn a_nul_in_a_name_cuts_the_name_not_the_frame() {
        for put in [
            |buf: &mut Vec<u8>| parse(buf, b"a\0b", b"select 1\0\0\0"),
            |buf: &mut Vec<u8>| bind_head(buf, b"p\0q", b"a\0b", 0),
            |buf: &mut Vec<u8>| query(buf, "select 1\0; drop"),
            |buf: &mut Vec<u8>| describe(buf, Of::Portal, b"\0"),
        ] {
            let mut buf = Vec::new();
            put(&mut buf);
            assert_eq!(Head::parse(&buf).unwrap().unwrap().total(), buf.len());
        }
        let mut buf = Vec::new();
        parse(&mut buf, b"a\0b", b"select 1\0\0\0");
        assert_eq!(frontend::parse(&buf[HEAD..]).unwrap().name, b"a");
    }

    #[test]
    fn a_length_beyond_the_protocol_is_one_that_every_peer_refuses() {
        let mut buf = Vec::new();
        parse_head(&mut buf, b"s", usize::MAX);
        assert!(Head::parse(&buf).is_err());
    }

    #[test]
    fn a_nameless_startup_parameter_does_not_end_the_list() {
        let mut buf = Vec::new();
        startup(&mut buf, &[("", "x"), ("user", "ann")], 0);
        let (crate::First::Startup(startup), _) = crate::startup::first(&buf).unwrap().unwrap() else { panic!() };
        assert_eq!(startup.params().collect::<Vec<_>>(), [(&b"user"[..], &b"ann"[..])]);
    }
}
