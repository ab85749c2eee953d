//! Requests that are sent again, since their server refused a statement for what its client could not know.

use weir_pgwire::{ErrorFields, HEAD, put_back};

use super::rig::*;
use crate::from_client::ClientOutcome;
use crate::kept_request::MAX_KEPT;
use crate::{CancelKey, Client, Repeat, ReplyWait, Server, StopReason};

/// A second client prepares what the server has from before.
fn late() -> Link {
    let mut link = Link::transaction();
    link.prepared("old", "select 1");
    link.client = Client::new(2, link.client.mode(), link.client.params().clone());
    assert_eq!(tags(&link.ask(&[parse("s", "select 1"), sync()])), "S");
    link.tell(&[ready()]);
    link
}

fn changed() -> Vec<u8> {
    error("0A000", "cached plan must not change result type")
}

fn gone(link: &mut Link) -> Vec<u8> {
    let name = names(&link.to_server).remove(0);
    error("26000", &format!("prepared statement \"{}\" does not exist", String::from_utf8_lossy(&name)))
}

/// What is to be read again.
fn repeated(link: &mut Link, answers: &[Vec<u8>]) -> Repeat {
    let outcome = link.outcome_of(answers);
    assert_eq!((&*link.to_client, outcome.queries, outcome.transactions), (&b""[..], 0, 0));
    let unusual = outcome.unusual.expect("it is to be repeated");
    assert!(unusual.errors.is_empty());
    unusual.repeat.expect("it is to be repeated")
}

#[test]
fn a_first_request_that_the_server_refuses_for_an_older_definition_is_sent_again() {
    let mut link = late();
    let asked = [bind("s"), describe_portal(), execute(), sync()];
    link.ask(&asked);
    let Repeat { messages, counted, cancelled } = repeated(&mut link, &[changed(), ready()]);
    assert!(!cancelled);
    assert_eq!((&messages, counted), (&asked.concat(), (1, 0)));
    let sent = link.ask(&[messages]);
    assert_eq!(tags(&sent), "CPBDES", "the statement is prepared again");
    let answers = [bound(), row_kind(), complete("SELECT 1"), ready()];
    assert_eq!(link.tell(&[vec![closed(), parsed()], answers.to_vec()].concat()), answers.concat());
    assert_eq!(tags(&link.ask(&[bind("s"), execute(), sync()])), "BES");
    assert_eq!(tags(&link.tell(&[changed(), ready()])), "EZ", "now it knows the new definition");
}

#[test]
fn a_request_behind_those_that_do_nothing_is_the_first() {
    let mut link = late();
    link.ask(&[close("none"), parse("t", "select 1"), bind("t"), execute(), sync()]);
    assert_eq!(tags(&link.tell(&[closed()])), "31");
    let Repeat { messages, .. } = repeated(&mut link, &[changed(), ready()]);
    assert_eq!(messages, [bind("t"), execute(), sync()].concat());
    assert_eq!(tags(&link.ask(&[messages])), "CPBES");
}

#[test]
fn a_client_that_had_prepared_the_statement_before_gets_the_error() {
    let mut link = Link::transaction();
    link.prepared("s", "select 1");
    link.ask(&[bind("s"), execute(), sync()]);
    assert_eq!(tags(&link.tell(&[changed(), ready()])), "EZ");
}

#[test]
fn nothing_is_sent_again_once_something_was_executed() {
    let mut link = late();
    link.ask(&[query("begin")]);
    link.tell(&[complete("BEGIN"), ready_in(b'T')]);
    link.ask(&[bind("s"), execute(), sync()]);
    assert_eq!(tags(&link.tell(&[changed(), ready_in(b'E')])), "EZ", "in a transaction block");
    let mut link = late();
    link.ask(&[parse("", "insert"), bind(""), execute(), bind("s"), execute(), sync()]);
    let done = [parsed(), bound(), complete("INSERT 0 1")];
    assert_eq!(tags(&link.tell(&[done.to_vec(), vec![changed(), ready()]].concat())), "12CEZ", "in a pipeline");
    let mut link = late();
    link.ask(&[bind("s"), execute(), sync()]);
    assert_eq!(tags(&link.tell(&[bound(), changed(), ready()])), "2EZ", "its own first part");
}

/// A late client in a block that it has begun with this text.
fn late_in_block(begin: &str) -> Link {
    let mut link = late();
    // The client's use of the server began here.
    link.server().clear_dirty();
    link.ask(&[query(begin)]);
    link.tell(&[complete("BEGIN"), ready_in(b'T')]);
    link
}

#[test]
fn the_first_request_of_a_block_is_sent_again_in_a_new_one() {
    let prepares = [parse("t", "select 1"), sync()];
    for before in [vec![], prepares[..1].to_vec(), prepares.to_vec()] {
        let mut link = late_in_block("BEGIN;");
        if !before.is_empty() {
            link.ask(&before);
            let ended = if before.len() > 1 { vec![ready_in(b'T')] } else { Vec::new() };
            link.tell(&ended);
        }
        link.ask(&[bind("s"), execute(), sync()]);
        let outcome = link.outcome_of(&[changed()]);
        assert_eq!((outcome.unusual.and_then(|unusual| unusual.repeat), &*link.to_client), (None, &b""[..]));
        assert_eq!(std::mem::take(&mut link.to_server), query("ROLLBACK;BEGIN"));
        let Repeat { messages, .. } =
            repeated(&mut link, &[ready_in(b'E'), complete("ROLLBACK"), complete("BEGIN"), ready_in(b'T')]);
        assert_eq!(tags(&link.ask(&[messages])), "CPBES");
        let answers = [closed(), parsed(), bound(), complete("SELECT 1"), ready_in(b'T')];
        assert_eq!(tags(&link.tell(&answers)), "2CZ");
    }
}

#[test]
fn a_block_in_which_something_was_done_or_may_have_been_is_not_begun_again() {
    let refused = |link: &mut Link| {
        link.ask(&[bind("s"), execute(), sync()]);
        assert_eq!(tags(&link.tell(&[changed(), ready_in(b'E')])), "EZ");
    };
    let mut link = late_in_block("begin");
    link.ask(&[query("select 1")]);
    link.tell(&[complete("SELECT 1"), ready_in(b'T')]);
    refused(&mut link);
    refused(&mut late_in_block("begin; insert into t values (1)"));
    let mut link = late_in_block("begin");
    link.ask(&[parse("", "insert"), bind(""), execute(), parse("u", "select 1"), sync()]);
    link.tell(&[parsed(), bound(), complete("INSERT 0 1"), ready_in(b'T')]);
    refused(&mut link);
    // Answers that have come leave no trace but their count.
    let mut link = late_in_block("begin");
    link.ask(&[parse("t", "select 1"), query("insert")]);
    link.tell(&[complete("INSERT 0 1"), ready_in(b'T')]);
    refused(&mut link);
    refused(&mut late_in_block("begin isolation level serializable"));
    refused(&mut late_in_block("begin read only"));
    refused(&mut late_in_block("start transaction"));
}

#[test]
fn a_simple_query_and_a_long_bind_are_sent_again_too() {
    let mut link = late();
    let asked = [bind("s"), execute(), query("select 2")].concat();
    link.ask(std::slice::from_ref(&asked));
    assert_eq!(link.stopped(&[bind("s")]), ReplyWait::EarlierSegment.into());
    link.outcome_of(&[changed()]);
    assert_eq!(std::mem::take(&mut link.to_server), sync(), "the server has skipped the query");
    assert_eq!(repeated(&mut link, &[ready()]).messages, asked);
    let mut link = late();
    let mut long = bind("s");
    long.extend(std::iter::repeat_n(b'v', MAX_KEPT / 2));
    let length = (long.len() - 1) as u32;
    long[1..5].copy_from_slice(&length.to_be_bytes());
    for piece in long.chunks(10_000) {
        link.feed_client(piece);
    }
    link.ask(&[execute(), sync()]);
    let Repeat { messages, counted, .. } = repeated(&mut link, &[changed(), ready()]);
    assert_eq!((messages, counted), ([long, execute(), sync()].concat(), (1, 0)));
}

#[test]
fn a_cancel_request_that_ends_before_the_repetition_is_meant_for_it() {
    let mut link = late();
    link.ask(&[bind("s"), execute(), sync()]);
    link.outcome_of(&[changed()]);
    link.server().cancel_ended();
    assert!(repeated(&mut link, &[ready()]).cancelled);
}

#[test]
fn a_description_of_parameters_waits_for_the_rest() {
    let mut link = late();
    link.ask(&[describe("s"), sync()]);
    assert_eq!(link.tell(&[parameter_types()]), b"");
    let Repeat { messages, .. } = repeated(&mut link, &[changed(), ready()]);
    assert_eq!(tags(&link.ask(&[messages])), "CPDS");
    assert_eq!(tags(&link.tell(&[closed(), parsed(), parameter_types(), row_kind(), ready()])), "tTZ");
    let mut link = late();
    link.ask(&[describe("s"), sync()]);
    let types = parameter_types();
    link.feed_server(&types[..8], true).unwrap();
    link.feed_server(&types[8..], true).unwrap();
    assert_eq!(link.to_client, b"");
    assert_eq!(link.tell(&[row_kind(), ready()]), [types, row_kind(), ready()].concat());
    let mut link = late();
    link.ask(&[describe("s"), sync()]);
    let types = parameter_types();
    let told = link.tell(&[types.clone(), error("57014", "cancelled"), ready()]);
    assert_eq!(told, [types, error("57014", "cancelled"), ready()].concat(), "another error is the client's");
}

#[test]
fn a_segment_without_a_sync_is_ended_for_the_repetition() {
    let mut link = late();
    link.ask(&[describe("s"), flush()]);
    let outcome = link.outcome_of(&[changed()]);
    assert_eq!((outcome.unusual.and_then(|unusual| unusual.repeat), &*link.to_client), (None, &b""[..]));
    assert_eq!(std::mem::take(&mut link.to_server), sync());
    // What follows waits, and a part of a message is held.
    let next = [bind("s"), execute()].concat();
    assert_eq!(link.feed_client(&next), ClientOutcome { used: 0, stop: ReplyWait::EarlierSegment.into() });
    assert_eq!(link.feed_client(&next[..3]).stop, StopReason::EndOfInput);
    let Repeat { messages, .. } = repeated(&mut link, &[ready()]);
    assert_eq!(messages, [describe("s"), flush(), next[..3].to_vec()].concat());
    assert_eq!(tags(&link.ask(&[messages, next[3..].to_vec(), sync()])), "CPDHBES");
}

#[test]
fn the_next_segment_waits_until_the_first_request_is_accepted() {
    let mut link = late();
    link.ask(&[bind("s"), execute(), sync()]);
    assert_eq!(link.stopped(&[bind("s")]), ReplyWait::EarlierSegment.into());
    assert_eq!(tags(&link.tell(&[bound()])), "2");
    assert_eq!(tags(&link.ask(&[query("select 2")])), "Q");
    assert_eq!(tags(&link.tell(&[complete("SELECT 1"), ready(), complete("SELECT 1"), ready()])), "CZCZ");
    // From here on the statement is known to be as new as the client's.
    link.ask(&[bind("s"), execute(), sync()]);
    assert_eq!(tags(&link.ask(&[bind("s"), execute(), sync()])), "BES", "nothing waits");
}

#[test]
fn what_is_too_long_is_not_kept() {
    let mut link = late();
    let long = [bind("s"), execute(), parse("", &"x".repeat(MAX_KEPT)), sync()];
    link.ask(&long);
    assert_eq!(tags(&link.tell(&[changed(), ready()])), "EZ");
    assert!(link.server().repeatable.is_none() && !link.client.waits_for_segments);
}

#[test]
fn a_statement_that_a_function_has_dropped_costs_a_pool_one_error() {
    let mut link = Link::transaction();
    link.prepared("s", "select 1");
    link.to_server = link.ask(&[bind("s"), execute(), sync()]);
    let gone_error = gone(&mut link);
    link.to_server.clear();
    assert_eq!(tags(&link.tell(&[gone_error.clone(), ready()])), "EZ");
    // Another server of the pool has the error, too.
    let shared = link.client.params().clone();
    link.server = Some(Server::new(shared, CancelKey::default()));
    assert_eq!(tags(&link.ask(&[bind("s"), execute(), sync()])), "PBES");
    link.tell(&[parsed(), bound(), complete("SELECT 1"), ready()]);
    link.ask(&[bind("s"), execute(), sync()]);
    let Repeat { messages, .. } = repeated(&mut link, &[gone_error, ready()]);
    assert_eq!(tags(&link.ask(&[messages])), "CPBES");
    assert_eq!(tags(&link.tell(&[closed(), parsed(), bound(), complete("SELECT 1"), ready()])), "2CZ");
    assert!(link.server().is_unusable(), "it is not given to another client");
}

#[test]
fn a_client_that_leaves_in_between_is_owed_nothing() {
    let mut link = late();
    link.ask(&[bind("s"), execute(), sync()]);
    assert!(link.feed_server(&[changed(), ready()].concat(), false).unwrap().unusual.is_none());
    assert!(link.to_client.is_empty() && link.server().prove_clean().is_some() && link.server().repeatable.is_none());
    let mut link = late();
    link.ask(&[bind("s"), execute(), sync()]);
    link.outcome_of(&[changed()]);
    assert!(link.feed_server(&ready(), false).unwrap().unusual.is_none());
    assert!(link.server().prove_clean().is_some() && link.server().repeatable.is_none());
}

#[test]
fn another_error_with_that_code_is_the_clients() {
    let mut link = late();
    link.ask(&[bind("s"), execute(), sync()]);
    let mut other = Vec::new();
    let fields = ErrorFields { severity: "ERROR", sqlstate: "0A000", message: "no", detail: None, hint: None };
    put_back::error_from(&mut other, &fields, "DefineIndex");
    assert_eq!(tags(&link.tell(&[other, ready()])), "EZ");
}

/// An error of PostgreSQL's parse analysis.
fn unanalysed() -> Vec<u8> {
    let plain = error("42883", "operator does not exist: text = integer");
    let mut error = Vec::new();
    put_back::error_with(&mut error, &plain[HEAD..], &[(b'F', "parse_oper.c")]);
    error
}

#[test]
fn a_text_that_can_not_be_analysed_again_is_another_statement_for_who_prepares_it_then() {
    let mut link = late();
    let old = names(&link.ask(&[bind("s"), execute(), sync()])).remove(0);
    let Repeat { messages, .. } = repeated(&mut link, &[unanalysed(), ready()]);
    let sent = link.ask(&[messages]);
    assert_eq!(tags(&sent), "PBES", "the client's own Parse may be newer");
    let new = names(&sent).remove(0);
    assert_ne!(new, old);
    assert_eq!(tags(&link.tell(&[parsed(), bound(), complete("SELECT 1"), ready()])), "2CZ");
    assert_eq!(names(&link.ask(&[bind("s"), execute(), sync()])), std::slice::from_ref(&new));
    assert_eq!(tags(&link.tell(&[bound(), complete("SELECT 1"), ready()])), "2CZ");
    // Whoever comes then has the new one.
    link.client = Client::new(3, link.client.mode(), link.client.params().clone());
    assert_eq!(names(&link.ask(&[parse("s", "select 1"), bind("s"), execute(), sync()])), [new]);
}

#[test]
fn who_holds_a_statement_that_can_not_be_analysed_again_keeps_it() {
    let mut link = Link::transaction();
    let old = link.prepared("s", "select 1");
    let mut new = Vec::new();
    for id in 2..40 {
        assert_eq!(names(&link.ask(&[bind("s"), execute(), sync()])), std::slice::from_ref(&old));
        assert_eq!(tags(&link.tell(&[unanalysed(), ready()])), "EZ");
        let client = Client::new(id, link.client.mode(), link.client.params().clone());
        let holder = std::mem::replace(&mut link.client, client);
        let sent = link.ask(&[parse("s", "select 1"), sync()]);
        assert_eq!(tags(&sent), if id == 2 { "PS" } else { "S" }, "an error again says nothing of the new one");
        new.extend(names(&sent));
        link.tell(&if id == 2 { vec![parsed(), ready()] } else { vec![ready()] });
        link.client = holder;
    }
    assert!(new.len() == 1 && new[0] != old);
}

#[test]
fn an_error_of_a_function_or_of_a_value_says_nothing_of_the_analysis() {
    let of = |file: &str, context: Option<&str>| {
        let (plain, mut error) = (error("42883", "no"), Vec::new());
        let more = [(b'F', file), (b'W', context.unwrap_or_default())];
        put_back::error_with(&mut error, &plain[HEAD..], &more[..1 + usize::from(context.is_some())]);
        error
    };
    for other in [
        of("pl_exec.c", None),
        of("parse_func.c", Some("PL/pgSQL function f() line 1 at EXECUTE")),
        of("parse_type.c", None),
    ] {
        let mut link = late();
        link.ask(&[bind("s"), execute(), sync()]);
        assert_eq!(tags(&link.tell(&[other, ready()])), "EZ");
        link.client = Client::new(3, link.client.mode(), link.client.params().clone());
        assert_eq!(tags(&link.ask(&[parse("s", "select 1"), sync()])), "S");
    }
}
