//! Checks of passwords against servers that answer well, badly, and with nonsense.

use super::ber::{ENUMERATED, INTEGER, OCTETS, SEQUENCE, put, put_number};
use super::*;

fn reply(id: u16, operation: u8, body: &[u8]) -> Vec<u8> {
    let (mut content, mut out) = (Vec::new(), Vec::new());
    put_number(&mut content, INTEGER, id);
    put(&mut content, operation, body);
    put(&mut out, SEQUENCE, &content);
    out
}

fn result(id: u16, operation: u8, code: u16) -> Vec<u8> {
    let mut body = Vec::new();
    put_number(&mut body, ENUMERATED, code);
    put(&mut body, OCTETS, b"");
    put(&mut body, OCTETS, b"");
    reply(id, operation, &body)
}

fn entry(id: u16, name: &str) -> Vec<u8> {
    let mut body = Vec::new();
    put(&mut body, OCTETS, name.as_bytes());
    put(&mut body, SEQUENCE, b"");
    reply(id, 0x64, &body)
}

fn options(text: &str) -> std::sync::Arc<Ldap> {
    Ldap::parse(text).unwrap()
}

/// What a check comes to whose server answers so, one message after the other.
fn outcome(ldap: &str, user: &str, password: &str, answers: &[Vec<u8>]) -> Result<(), String> {
    let ldap = options(ldap);
    let mut check = LdapCheck::new(&ldap, user, password);
    let mut step = check.begin();
    for answer in answers {
        if let LdapStep::Done(result, _) = step {
            return result;
        }
        step = check.message(answer);
    }
    match step {
        LdapStep::Done(result, _) => result,
        other => panic!("{other:?}"),
    }
}

const NAME: &str = "ldapserver=h ldapprefix=uid= ldapsuffix=\",dc=x\"";
const SEARCH: &str = "ldapserver=h ldapbasedn=dc=x";

#[test]
fn a_name_between_prefix_and_suffix_is_bound() {
    let ldap = options(NAME);
    let mut check = LdapCheck::new(&ldap, "ann", "pw");
    assert_eq!(check.begin(), LdapStep::Send(message::bind(1, "uid=ann,dc=x", "pw")));
    assert_eq!(check.message(&result(1, 0x61, 0)), LdapStep::Done(Ok(()), message::unbind(2)));
    let refused = outcome(NAME, "ann", "pw", &[result(1, 0x61, 49)]).unwrap_err();
    assert_eq!(refused, "LDAP login failed for user uid=ann,dc=x: invalid credentials");
}

#[test]
fn an_entry_is_searched_for_and_bound() {
    let found = [result(1, 0x61, 0), entry(2, "uid=ann,dc=x"), result(2, 0x65, 0), result(3, 0x61, 0)];
    assert_eq!(outcome(SEARCH, "ann", "pw", &found), Ok(()));
    let none = [result(1, 0x61, 0), result(2, 0x65, 0)];
    assert_eq!(outcome(SEARCH, "ann", "pw", &none).unwrap_err(), "LDAP user \"ann\" does not exist");
    let two = [result(1, 0x61, 0), entry(2, "a"), entry(2, "b"), result(2, 0x65, 0)];
    assert_eq!(outcome(SEARCH, "ann", "pw", &two).unwrap_err(), "LDAP user \"ann\" is not unique");
    let more = [result(1, 0x61, 0), entry(2, "a"), result(2, 0x65, 4)];
    assert_eq!(outcome(SEARCH, "ann", "pw", &more).unwrap_err(), "LDAP user \"ann\" is not unique");
    let wrong = [result(1, 0x61, 0), entry(2, "a"), result(2, 0x65, 0), result(3, 0x61, 49)];
    assert!(outcome(SEARCH, "ann", "pw", &wrong).unwrap_err().contains("invalid credentials"));
    let searcher = outcome(SEARCH, "ann", "pw", &[result(1, 0x61, 53)]).unwrap_err();
    assert!(searcher.starts_with("could not perform initial LDAP bind"), "{searcher}");
}

#[test]
fn what_a_server_would_take_for_an_anonymous_bind_is_never_sent() {
    for ldap in [NAME, SEARCH] {
        assert!(outcome(ldap, "ann", "", &[]).is_err());
    }
    let nameless = [result(1, 0x61, 0), entry(2, ""), result(2, 0x65, 0), result(3, 0x61, 0)];
    assert!(outcome(SEARCH, "ann", "pw", &nameless).is_err());
}

#[test]
fn a_name_never_becomes_a_part_of_a_filter() {
    for name in ["*", "a)(uid=*", "a\\2a", "(", "a/b"] {
        let error = outcome(SEARCH, name, "pw", &[]).unwrap_err();
        assert_eq!(error, "invalid character in user name for LDAP authentication");
    }
}

#[test]
fn tls_is_requested_before_any_name_or_password() {
    let ldap = options(&format!("{NAME} ldaptls=1"));
    let mut check = LdapCheck::new(&ldap, "ann", "pw");
    assert_eq!(check.begin(), LdapStep::Send(message::start_tls(1)));
    assert_eq!(check.message(&result(1, 0x78, 0)), LdapStep::StartTls);
    assert_eq!(check.secured(), LdapStep::Send(message::bind(2, "uid=ann,dc=x", "pw")));
    let refused = outcome(&format!("{NAME} ldaptls=1"), "ann", "pw", &[result(1, 0x78, 52)]).unwrap_err();
    assert_eq!(refused, "could not start LDAP TLS session: server is unavailable");
    assert!(outcome(&format!("{NAME} ldapscheme=ldaps ldaptls=1"), "ann", "pw", &[]).is_err());
}

#[test]
fn an_answer_to_another_request_lets_no_client_in() {
    // A success of the search's own bind that comes twice is not one of the user's.
    let late = [result(1, 0x61, 0), entry(2, "a"), result(2, 0x65, 0), result(1, 0x61, 0), result(3, 0x61, 49)];
    assert!(outcome(SEARCH, "ann", "pw", &late).is_err());
    for wrong in [result(1, 0x65, 0), result(1, 0x78, 0), result(0, 0x78, 52), vec![0x30, 0], vec![1, 2, 3]] {
        assert!(outcome(NAME, "ann", "pw", &[wrong]).is_err());
    }
}

#[test]
fn messages_have_a_bound() {
    assert_eq!(LdapCheck::length(&result(1, 0x61, 0)), Ok(Some(14)));
    assert_eq!(LdapCheck::length(&[0x30]), Ok(None));
    assert!(LdapCheck::length(&[0x30, 0x84, 0x7f, 0xff, 0xff, 0xff]).is_err());
    assert!(LdapCheck::length(b"HTTP/1.1 400").is_ok_and(|length| length.is_some()), "and read fails");
}
