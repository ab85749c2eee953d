//! The messages of a login by LDAP (RFC 4511): bind, search and StartTLS, and what servers answer.

use super::ber::{BOOLEAN, ENUMERATED, Elements, INTEGER, OCTETS, SEQUENCE, put, put_number};
use super::url::Scope;

/// The request for TLS on a connection that is up (RFC 4511, section 4.14.1).
const START_TLS: &[u8] = b"1.3.6.1.4.1.1466.20037";
/// An attribute that no entry has: only names are requested (RFC 4511, section 4.5.1.8).
const NO_ATTRIBUTES: &[u8] = b"1.1";
/// How many entries are requested: whether there is more than one is all that matters.
const ENTRIES: u16 = 2;

/// The result of an operation that is no failure.
const SUCCESS: u32 = 0;
/// The result of a search that found more entries than were requested.
const SIZE_LIMIT_EXCEEDED: u32 = 4;

/// What a server has answered.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Reply<'a> {
    Bound(LdapResult),
    /// An entry, by its distinguished name.
    Entry(&'a [u8]),
    Searched(LdapResult),
    Extended(LdapResult),
    /// Something that says nothing here: a reference to another server.
    Other,
}

/// How an operation ended.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct LdapResult {
    code: u32,
    text: String,
}

impl LdapResult {
    pub(super) fn is_success(&self) -> bool {
        self.code == SUCCESS
    }

    /// Whether a search has succeeded, or has found more than it was to return.
    pub(super) fn has_entries(&self) -> bool {
        self.is_success() || self.code == SIZE_LIMIT_EXCEEDED
    }

    /// The result in words, with what the server said.
    pub(super) fn words(&self) -> String {
        let name = match self.code {
            1 => "operations error",
            2 => "protocol error",
            3 => "time limit exceeded",
            7 => "authentication method not supported",
            8 => "strong(er) authentication required",
            10 => "referral",
            13 => "confidentiality required",
            32 => "no such object",
            34 => "invalid DN syntax",
            48 => "inappropriate authentication",
            49 => "invalid credentials",
            50 => "insufficient access",
            51 => "server is busy",
            52 => "server is unavailable",
            53 => "server is unwilling to perform",
            _ => "",
        };
        let said = if self.text.is_empty() { String::new() } else { format!(" ({})", self.text) };
        if name.is_empty() { format!("result code {}{said}", self.code) } else { format!("{name}{said}") }
    }
}

/// A simple bind. An empty name and password bind anonymously.
pub(super) fn bind(id: u16, name: &str, password: &str) -> Vec<u8> {
    let mut body = Vec::new();
    put_number(&mut body, INTEGER, 3);
    put(&mut body, OCTETS, name.as_bytes());
    put(&mut body, 0x80, password.as_bytes());
    message(id, 0x60, &body)
}

/// A search for names of entries; `filter` is encoded, `seconds` is how long the server may search.
pub(super) fn search(id: u16, base: &str, scope: Scope, filter: &[u8], seconds: u16) -> Vec<u8> {
    let (mut body, mut attributes) = (Vec::new(), Vec::new());
    put(&mut body, OCTETS, base.as_bytes());
    put_number(
        &mut body,
        ENUMERATED,
        match scope {
            Scope::Base => 0,
            Scope::One => 1,
            Scope::Subtree => 2,
        },
    );
    // Aliases are not followed, as by OpenLDAP's library.
    put_number(&mut body, ENUMERATED, 0);
    put_number(&mut body, INTEGER, ENTRIES);
    put_number(&mut body, INTEGER, seconds);
    put(&mut body, BOOLEAN, &[0]);
    body.extend_from_slice(filter);
    put(&mut attributes, OCTETS, NO_ATTRIBUTES);
    put(&mut body, SEQUENCE, &attributes);
    message(id, 0x63, &body)
}

/// The request for TLS.
pub(super) fn start_tls(id: u16) -> Vec<u8> {
    let mut body = Vec::new();
    put(&mut body, 0x80, START_TLS);
    message(id, 0x77, &body)
}

/// The end of a connection.
pub(super) fn unbind(id: u16) -> Vec<u8> {
    message(id, 0x42, &[])
}

fn message(id: u16, operation: u8, body: &[u8]) -> Vec<u8> {
    let (mut content, mut out) = (Vec::new(), Vec::new());
    put_number(&mut content, INTEGER, id);
    put(&mut content, operation, body);
    put(&mut out, SEQUENCE, &content);
    out
}

/// Reads a whole message; its number is that of the request that it answers, 0 for a notice of disconnection.
pub(super) fn read(message: &[u8]) -> Option<(u32, Reply<'_>)> {
    let mut content = Elements(Elements(message).next(SEQUENCE)?);
    let id = content.number(INTEGER)?;
    let (operation, body) = content.any()?;
    let mut fields = Elements(body);
    let reply = match operation {
        0x61 => Reply::Bound(result(&mut fields)?),
        0x64 => Reply::Entry(fields.next(OCTETS)?),
        0x65 => Reply::Searched(result(&mut fields)?),
        0x78 => Reply::Extended(result(&mut fields)?),
        _ => Reply::Other,
    };
    Some((id, reply))
}

fn result(fields: &mut Elements<'_>) -> Option<LdapResult> {
    let code = fields.number(ENUMERATED)?;
    fields.next(OCTETS)?;
    let said = String::from_utf8_lossy(fields.next(OCTETS)?);
    let text = said.chars().take(200).flat_map(char::escape_debug).collect();
    Some(LdapResult { code, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_those_of_the_standard() {
        // As `ldapsearch -x -D cn=a -w b` of OpenLDAP sends it.
        let expected = [0x30, 0x11, 2, 1, 1, 0x60, 0x0c, 2, 1, 3, 4, 4, b'c', b'n', b'=', b'a', 0x80, 1, b'b'];
        assert_eq!(bind(1, "cn=a", "b"), expected);
        assert_eq!(unbind(3), [0x30, 5, 2, 1, 3, 0x42, 0]);
        assert_eq!(start_tls(1)[..9], [0x30, 0x1d, 2, 1, 1, 0x77, 0x18, 0x80, 0x16]);
    }

    #[test]
    fn a_result_is_reported_in_words_that_are_bounded_and_printable() {
        let mut body = Vec::new();
        put_number(&mut body, ENUMERATED, 49);
        put(&mut body, OCTETS, b"");
        put(&mut body, OCTETS, &[b"\x1b[0m".to_vec(), vec![b'x'; 1000]].concat());
        let reply = message(7, 0x61, &body);
        let Some((7, Reply::Bound(result))) = read(&reply) else { panic!() };
        assert!(!result.is_success());
        let words = result.words();
        assert!(words.starts_with("invalid credentials (\\u{1b}[0mxx") && words.len() < 300, "{words}");
        for cut in 0..reply.len() {
            assert!(read(&reply[..cut]).is_none());
        }
    }
}
