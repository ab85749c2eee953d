//! Input from outside in other formats: replies to auth_query, DNS answers, certificates, frozen clients.

use std::ops::Range;
use std::sync::Arc;

use weir_base::PoolMode;
use weir_pgwire::{Head, put_back, put_front};
use weir_session::auth_query::{AuthQuery, AuthQueryResult};
use weir_session::{CancelKey, Out, Server, frozen};

use crate::foreign::certificate::Certificate;
use crate::foreign::message::{self, Kind, Reply};
use crate::foreign::resolver::{Conf, hosts_have};
use crate::requests::any_message;
use crate::session::{feed_alone, shared};
use crate::tape::{Tape, pieces};

/// Discards all output.
struct DiscardOutput;

impl Out for DiscardOutput {
    fn client_range(&mut self, _: Range<usize>) {}
    fn client(&mut self, _: &[u8]) {}
    fn server_range(&mut self, _: Range<usize>) {}
    fn server(&mut self, _: &[u8]) {}
}

/// Replies of a server to auth_query. A cut changes nothing, and there is an answer only after a ReadyForQuery.
pub(crate) fn auth_query(data: &[u8]) {
    let mut tape = Tape::new(data);
    let cuts = [1 + tape.below(30), 1 + tape.below(300)];
    let mut replies = Vec::new();
    for _ in 0..tape.below(10) {
        match tape.below(10) {
            0 => put_back::parse_complete(&mut replies),
            1 => put_back::bind_complete(&mut replies),
            2 => put_back::row_description(&mut replies, &[COLUMN, COLUMN]),
            3 => put_back::data_row(&mut replies, &[Some(tape.some()), Some(tape.some())]),
            4 => put_back::data_row(&mut replies, &[None, None]),
            5 => put_back::command_complete(&mut replies, "SELECT 1"),
            6 => put_back::ready(&mut replies, tape.one(b"IIITE")),
            _ => any_message(&mut tape, b"12TtDnCZENASKsG", &mut replies),
        }
    }
    replies.extend_from_slice(tape.rest());
    let whole = ask(&replies, &[]);
    for cuts in [&cuts[..], &[1]] {
        assert_eq!(ask(&replies, cuts), whole);
    }
    assert!(!whole.starts_with("answer") || count(&replies, b'Z') > 0, "an answer without an end");
}

const COLUMN: weir_pgwire::ResultColumn<'_> =
    weir_pgwire::ResultColumn { name: "x", kind: weir_pgwire::ResultColumnType::Text };

/// How a lookup ends, as text.
fn ask(replies: &[u8], cuts: &[usize]) -> String {
    let shared = shared(1);
    let mut server = Server::new(Arc::new(shared.params.unknown()), CancelKey::default());
    let mut lookup = AuthQuery::begin(&mut server, "select $1", "u", &mut Vec::new(), &mut DiscardOutput);
    let mut end = String::from("nothing yet");
    // Bytes after the answer may make the server unusable; an answer that has arrived is returned in any case.
    for piece in pieces(replies, cuts) {
        match lookup.feed(&mut server, piece, &shared.params) {
            Ok(None) => {}
            Ok(Some(answer)) => end = outcome(&end, answer),
            Err(unexpected) => return format!("closed: {}", unexpected.0),
        }
    }
    format!("{end}, clean: {}", server.prove_clean().is_some())
}

/// Only the first answer counts; after it, the lookup has no asker any more.
fn outcome(end: &str, answer: AuthQueryResult) -> String {
    if end.starts_with("answer") {
        return end.to_owned();
    }
    match answer {
        Ok(Some(found)) => format!("answer {:?} {:?}", found.user, found.secret),
        Ok(None) => "answer: no user".to_owned(),
        Err(error) => format!("answer {error:?}"),
    }
}

fn count(mut replies: &[u8], tag: u8) -> usize {
    let mut count = 0;
    while let Ok(Some(head)) = Head::parse(replies) {
        count += usize::from(head.tag == tag);
        replies = replies.get(head.total()..).unwrap_or_default();
    }
    count
}

/// A DNS answer to our question: bounded, and of the record type that was requested.
pub(crate) fn dns_answer(data: &[u8]) {
    let mut tape = Tape::new(data);
    let (ipv6, honest) = (tape.flag(), tape.below(4) > 0);
    let name = tape.one(&["db.example", "x", "a.b.c.d.e."]);
    let kind = if ipv6 { Kind::Aaaa } else { Kind::A };
    let Some(question) = message::question(7, name, kind) else { panic!("a good name") };
    let mut answer = Vec::new();
    if honest {
        // The head of an answer to this question; flags and counts are the fuzzer's.
        answer.extend_from_slice(&question);
        answer[2..4].copy_from_slice(&[0x80 | tape.byte(), tape.byte()]);
        answer[6..8].copy_from_slice(&[0, tape.byte()]);
    }
    answer.extend_from_slice(tape.rest());
    let Some(Reply::Addresses(addresses, _)) = message::reply(&answer, &question) else { return };
    assert!(addresses.len() * 10 <= answer.len(), "more addresses than the message has room for");
    assert!(addresses.iter().all(|address| address.is_ipv6() == ipv6), "an address of the other kind");
}

/// resolv.conf, the hosts file, and host names.
pub(crate) fn resolver_files(data: &[u8]) {
    let mut tape = Tape::new(data);
    let name = String::from_utf8_lossy(tape.some());
    let text = String::from_utf8_lossy(tape.rest());
    let _ = hosts_have(&text, &name);
    let candidates = Conf::parse(&text).candidates(&name);
    assert!((1..=7).contains(&candidates.len()));
    for candidate in candidates {
        let _ = message::question(7, &candidate, Kind::A).map(|question| assert!(question.len() <= 300));
    }
}

/// A certificate from a peer that is not trusted.
pub(crate) fn certificate(data: &[u8]) {
    let Some(certificate) = Certificate::read(data) else { return };
    assert!(certificate.binding().is_none_or(|hash| matches!(hash.len(), 32 | 48 | 64)));
    assert!(certificate.common_name.is_none_or(|name| name.len() <= 4 * data.len()));
    assert!(certificate.public_key.len() <= data.len());
}

/// A frozen client: a thawed client freezes to the same bytes again, and continues working.
pub(crate) fn frozen_client(data: &[u8]) {
    let mut tape = Tape::new(data);
    let asked = tape.below(32);
    let mut shared = shared(100);
    let bytes = tape.rest();
    let Ok(client) = frozen::thaw(bytes, &shared.params, &mut shared.interner, &shared.statements) else { return };
    let again = frozen::freeze(&client, &shared.params).expect("nothing of it is half-way");
    drop(client);
    let thawed = frozen::thaw(&again, &shared.params, &mut shared.interner, &shared.statements);
    let client = thawed.expect("what was frozen here thaws here");
    // Statements have no order; all else does.
    let sorted = |mut bytes: Vec<u8>| {
        bytes.sort_unstable();
        bytes
    };
    assert_eq!(frozen::freeze(&client, &shared.params).map(sorted), Some(sorted(again)));
    assert!(PoolMode::ALL.contains(&client.mode()));
    let mut input = Vec::new();
    for name in ["", "a", "b"].iter().take(asked) {
        put_front::bind(&mut input, b"", name.as_bytes(), &[]);
        put_front::describe(&mut input, weir_pgwire::Of::Statement, name.as_bytes());
        put_front::close(&mut input, weir_pgwire::Of::Statement, name.as_bytes());
    }
    put_front::query(&mut input, "DEALLOCATE ALL");
    put_front::sync(&mut input);
    feed_alone(client, &mut shared, &input);
}
