//! The request of each message of a server, and what the message says about the server.

use std::sync::Arc;

use weir_base::PoolMode;
use weir_pgwire::{Dirty, put_back, put_front};

use super::rig::*;
use crate::params::{Has, Wanted};
use crate::{ProtocolViolation, Refusal, ReplyWait, Server, SimpleQueries, StopReason, param_sync};

#[test]
fn a_server_is_clean_only_when_nothing_is_owed_open_or_half_way() {
    let mut link = Link::transaction();
    assert!(link.server().prove_clean().is_some());
    link.ask(&[query("begin")]);
    assert_eq!(
        (link.server().prove_clean().is_some(), link.server().hold_reason()),
        (false, Some("replies outstanding"))
    );
    link.tell(&[complete("BEGIN"), ready_in(b'T')]);
    assert_eq!((link.server().prove_clean().is_some(), link.server().hold_reason()), (false, Some("in transaction")));
    link.ask(&[query("bad")]);
    link.tell(&[error("42601", "syntax error"), ready_in(b'E')]);
    assert_eq!(link.server().hold_reason(), Some("failed transaction"));
    link.ask(&[query("rollback")]);
    link.tell(&[complete("ROLLBACK"), ready()]);
    assert!(link.server().prove_clean().is_some());
    link.ask(&[parse("", "select 1"), flush()]);
    link.tell(&[parsed()]);
    assert_eq!(link.server().hold_reason(), Some("waiting for Sync"));
    assert!(link.server().prove_clean().is_none());
}

#[test]
fn a_server_in_the_middle_of_a_message_is_not_clean() {
    let mut link = Link::transaction();
    let half = &notice("half a notice")[..9];
    link.feed_server(half, true).unwrap();
    assert!(link.server().prove_clean().is_none());
    assert!(link.server().is_mid_message());
    assert_eq!(link.to_client, half);
}

#[test]
fn an_unsolicited_reply_ends_the_server() {
    let mut link = Link::transaction();
    let violated = link.feed_server(&row("x"), true).unwrap_err();
    assert_eq!(violated.violation, ProtocolViolation("a reply that no request explains"));
    assert_eq!(link.to_client, b"", "and does not reach the client");
    assert!(link.feed_server(&ready(), true).is_err());
}

#[test]
fn our_own_query_is_swallowed_and_its_failure_reported() {
    let mut link = Link::transaction();
    let Link { server: Some(server), own, .. } = &mut link else { panic!("a server") };
    let mut sent = Sent::default();
    server.own_query("select 1", &mut own.scratch, &mut sent);
    assert_eq!(sent.0, query("select 1"));
    assert!(!server.is_quiet());
    let outcome = link.outcome_of(&[row("1"), notice("n"), complete("SELECT 1"), ready()]);
    assert_eq!((outcome.unusual.unwrap().own_query_done, outcome.queries), (Some(Ok(())), 0));
    let Link { server: Some(server), own, .. } = &mut link else { panic!("a server") };
    server.own_query("bad", &mut own.scratch, &mut sent);
    let outcome = link.outcome_of(&[error("42601", "syntax error"), ready()]);
    let failure = outcome.unusual.unwrap().own_query_done.unwrap().unwrap_err();
    assert_eq!((failure.sqlstate.as_str(), failure.message.as_str()), ("42601", "syntax error"));
    assert_eq!(link.to_client, b"", "the client received none of it");
}

/// What was sent to a server.
#[derive(Default)]
struct Sent(Vec<u8>);

impl crate::Out for Sent {
    fn client_range(&mut self, _: std::ops::Range<usize>) {}
    fn client(&mut self, _: &[u8]) {}
    fn server_range(&mut self, _: std::ops::Range<usize>) {}
    fn server(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
}

#[test]
fn what_a_server_reports_its_client_wants_from_then_on() {
    let mut link = Link::transaction();
    link.ask(&[query("set timezone to 'Asia/Tokyo'")]);
    let answer = [complete("SET"), parameter("TimeZone", "Asia/Tokyo"), ready()];
    assert_eq!(link.tell(&answer), answer.concat());
    assert_eq!(link.params.get(link.client.params(), "TimeZone"), Some("Asia/Tokyo"));
    assert!(std::sync::Arc::ptr_eq(link.client.params(), link.server.as_ref().unwrap().params()));
}

/// A server that has reported these, and its client, who asked for nothing.
fn reporting(values: &[(&str, &str)]) -> Link {
    let mut link = Link::transaction();
    let mut has = link.params.unknown();
    values.iter().for_each(|(name, value)| link.params.take_report(&mut has, name, value));
    let mut client = link.params.unknown();
    link.params.fill(&mut client, &has);
    let asked = std::sync::Arc::new(link.params.unknown());
    link.client = crate::Client::logged_in(1, PoolMode::Transaction, std::sync::Arc::new(client), asked);
    link.server = Some(crate::Server::new(std::sync::Arc::new(has), crate::CancelKey::default()));
    link
}

/// What another server, which has these defaults, is sent before its use by the client.
fn set_on_another(link: &mut Link, values: &[(&str, &str)]) -> String {
    let other = reporting(values).server.unwrap();
    link.server = Some(other);
    let mut sent = Sent::default();
    let Link { server: Some(server), client, own, .. } = link else { panic!("a server") };
    param_sync::start(server, client, &own.params, &mut own.scratch, &mut sent);
    String::from_utf8_lossy(sent.0.get(5..).unwrap_or_default()).trim_end_matches('\0').to_owned()
}

#[test]
fn whether_transactions_are_read_only_follows_a_client_that_says_so_and_no_other() {
    const RO: &str = "default_transaction_read_only";
    for (text, tag, expected) in [
        ("SET default_transaction_read_only = on", "SET", "SET default_transaction_read_only='on'"),
        ("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", "SET", "SET default_transaction_read_only='on'"),
        // An operator may have changed it for the server.
        ("SELECT 1", "SELECT 1", ""),
        ("SET work_mem = 1", "SET", ""),
    ] {
        let mut link = reporting(&[(RO, "off")]);
        link.ask(&[query(text)]);
        let answer = [complete(tag), parameter(RO, "on"), ready()];
        assert_eq!(link.tell(&answer), answer.concat(), "{text}");
        assert_eq!(set_on_another(&mut link, &[(RO, "off")]), expected, "{text}");
        assert_eq!(set_on_another(&mut link, &[(RO, "on")]), "", "{text}");
    }
    let mut link = reporting(&[(RO, "off")]);
    link.ask(&[query("SET default_transaction_read_only = on")]);
    link.tell(&[complete("SET"), parameter(RO, "on"), ready()]);
    link.ask(&[query("RESET default_transaction_read_only")]);
    link.tell(&[complete("RESET"), parameter(RO, "off"), ready()]);
    assert_eq!(set_on_another(&mut link, &[(RO, "on")]), "", "the server's default");
}

#[test]
fn a_parameter_that_only_the_server_knows_follows_a_client_that_may_have_set_it() {
    for (text, tag, expected) in [
        ("SET scram_iterations = 5000", "SET", "SELECT pg_catalog.set_config('scram_iterations','5000',false)"),
        ("SELECT 1", "SELECT 1", ""),
    ] {
        let defaults = [("scram_iterations", "4096"), ("is_superuser", "off")];
        let mut link = reporting(&defaults);
        link.rules.state.warn = true;
        link.ask(&[query(text)]);
        let answer = [complete(tag), parameter("scram_iterations", "5000"), parameter("is_superuser", "on"), ready()];
        assert_eq!(link.tell(&answer), answer.concat(), "without a warning");
        assert_eq!(set_on_another(&mut link, &defaults), expected, "{text}");
    }
}

#[test]
fn a_server_that_acts_as_another_user_is_to_be_cleaned() {
    let defaults = [("session_authorization", "app")];
    let mut link = reporting(&defaults);
    link.ask(&[query("SELECT become()")]);
    link.tell(&[row("1"), complete("SELECT 1"), parameter("session_authorization", "other"), ready()]);
    assert!(link.server().dirty().contains(Dirty::SETTINGS), "a function has set it");
    assert_eq!(set_on_another(&mut link, &defaults), "SET session_authorization='other'");
    link.tell(&[complete("SET"), parameter("session_authorization", "other"), ready()]);
    let Link { server: Some(server), client, own, .. } = &mut link else { panic!("a server") };
    assert_eq!(server.own_identity(&own.params), Some("SET SESSION AUTHORIZATION DEFAULT"));
    param_sync::finish(server, client, Some((&own.params, &mut own.scratch)));
    assert!(server.dirty().contains(Dirty::SETTINGS), "it is set by the link");
}

#[test]
fn the_next_client_gets_its_own_parameters_before_its_first_query() {
    let mut link = Link::transaction();
    link.tell(&[parameter("TimeZone", "UTC")]);
    let mut wanted = link.params.unknown();
    link.params.set(&mut wanted, "TimeZone", "Asia/Tokyo").unwrap();
    let mut other = crate::Client::new(2, PoolMode::Transaction, std::sync::Arc::new(wanted));
    let mut sent = Sent::default();
    let server = link.server.as_mut().unwrap();
    assert!(param_sync::start(server, &mut other, &link.own.params, &mut link.own.scratch, &mut sent));
    assert!(String::from_utf8_lossy(&sent.0).contains("SET TimeZone='Asia/Tokyo'"));
    link.client = other;
    let outcome = link.outcome_of(&[row("x"), complete("SELECT 1"), parameter("TimeZone", "Japan"), ready()]);
    assert_eq!(outcome.unusual.unwrap().own_query_done, Some(Ok(())));
    let mut messages = Vec::new();
    param_sync::finish(link.server.as_mut().unwrap(), &mut link.client, Some((&link.own.params, &mut messages)));
    assert_eq!(messages, parameter("TimeZone", "Japan"), "a spelling that differs is reported");
    assert_eq!(link.to_client, b"");
}

#[test]
fn a_clients_own_notification_names_the_process_id_that_it_received() {
    let notification = |pid: u32| {
        let body = [&pid.to_be_bytes()[..], b"news\0payload\0"].concat();
        let length = u32::try_from(body.len() + 4).unwrap();
        [&b"A"[..], &length.to_be_bytes(), &body].concat()
    };
    let answer = [complete("NOTIFY"), notification(SERVER_PID), notification(5), ready()].concat();
    let expected = [complete("NOTIFY"), notification(CLIENT_PID), notification(5), ready()].concat();
    for cut in 0..answer.len() {
        let mut link = Link::transaction();
        link.ask(&[query("notify news, 'payload'")]);
        for part in [&answer[..cut], &answer[cut..]] {
            link.feed_server(part, true).unwrap();
        }
        assert_eq!(link.to_client, expected, "cut at {cut}");
    }
}

#[test]
fn a_server_that_sends_anything_while_idle_is_not_used_again() {
    for unsolicited in
        [notice("something"), parameter("TimeZone", "UTC"), error("57P01", "terminating"), fatal("57P01", "x")]
    {
        let mut link = Link::transaction();
        link.feed_server(&unsolicited, false).unwrap();
        assert!(link.server().is_unusable(), "{unsolicited:?}");
        assert!(link.server().prove_clean().is_none());
    }
}

#[test]
fn a_notice_to_a_client_spoils_nothing() {
    let mut link = Link::transaction();
    link.ask(&[query("do $$ begin raise notice 'x'; end $$")]);
    let answer = [notice("x"), complete("DO"), ready()];
    assert_eq!(link.tell(&answer), answer.concat());
    assert!(link.server().prove_clean().is_some());
}

#[test]
fn a_fatal_error_is_forwarded_in_the_servers_words_and_reported() {
    let mut link = Link::transaction();
    link.ask(&[query("select 1")]);
    let outcome = link.outcome_of(&[fatal("57P01", "terminating connection due to administrator command")]);
    assert_eq!(outcome.unusual.unwrap().fatal.unwrap().sqlstate, "57P01");
    assert_eq!(tags(&link.to_client), "E");
    assert!(link.server().is_unusable());
}

#[test]
fn errors_without_fields_are_still_errors() {
    for body in [&b""[..], b"\0", b"S", b"Sx", b"SERROR\0C\0M\0\0", b"\xff\xff\xff"] {
        let mut link = Link::transaction();
        let mut message = Vec::new();
        weir_pgwire::put_back::raw(&mut message, b'E', body);
        link.ask(&[query("select 1")]);
        assert_eq!(link.tell(&[message.clone(), ready()]), [message, ready()].concat());
        assert!(link.server().is_quiet());
    }
}

#[test]
fn a_transaction_block_in_statement_mode_is_reported_and_its_ready_withheld() {
    let mut link = Link::new(PoolMode::Statement);
    link.ask(&[query("begin")]);
    let outcome = link.outcome_of(&[complete("BEGIN"), ready_in(b'T')]);
    assert!(outcome.unusual.unwrap().block_in_statement_mode);
    assert_eq!(tags(&link.to_client), "C");
    let mut link = Link::new(PoolMode::Statement);
    link.ask(&[query("begin"), close("never_prepared")]);
    link.outcome_of(&[complete("BEGIN"), ready_in(b'T')]);
    assert_eq!(tags(&link.to_client), "C", "nor does an answer of ours take its place");
    let mut link = Link::new(PoolMode::Statement);
    link.ask(&[query("select 1")]);
    assert_eq!(link.outcome_of(&[complete("SELECT 1"), ready()]).unusual, None);
}

#[test]
fn a_named_portal_counts_when_it_is_bound_since_sql_may_run_it() {
    for (portal, want) in [("p", Dirty::LOCKS), ("", Dirty::NONE)] {
        for statement in ["", "a"] {
            let mut link = Link::transaction();
            link.ask(&[query("begin")]);
            link.tell(&[complete("BEGIN"), ready_in(b'T')]);
            link.ask(&[parse(statement, "select pg_advisory_lock(1)"), bind_to(portal, statement), sync()]);
            link.tell(&[parsed(), bound(), ready_in(b'T')]);
            link.ask(&[query("select cursor_to_xml('p', 1, true, true, '')")]);
            link.tell(&[complete("SELECT 1"), ready_in(b'T')]);
            assert_eq!(link.server().dirty(), want, "{portal:?} {statement:?}");
        }
    }
}

#[test]
fn what_clients_leave_behind_is_noted_by_kind() {
    let left = [
        ("set work_mem to '1MB'", "SET", Dirty::SETTINGS),
        ("listen c", "LISTEN", Dirty::LISTEN),
        ("prepare p as select 1", "PREPARE", Dirty::STATEMENTS),
        ("create temp table t (a int)", "CREATE TABLE", Dirty::TEMP),
    ];
    for (text, tag, kind) in left {
        let mut link = Link::transaction();
        link.ask(&[query(text)]);
        link.tell(&[complete(tag), ready()]);
        assert!(link.server().dirty().contains(kind), "{text}");
        assert!(!Server::reset_query(link.server().dirty()).is_empty());
        let table = crate::ParamTable::new([]);
        link.server().was_reset(&table);
        assert!(link.server().dirty().is_empty());
    }
    let mut link = Link::transaction();
    link.ask(&[query("set local work_mem to '1MB'")]);
    link.tell(&[complete("SET"), ready()]);
    assert!(link.server().dirty().is_empty(), "it ended with its transaction");
}

#[test]
fn a_client_without_a_server_asks_for_one_only_when_it_must() {
    let mut link = Link::transaction();
    link.server = None;
    link.ask(&[sync(), flush(), copy_data(b"late"), copy_done()]);
    assert_eq!(std::mem::take(&mut link.to_client), ready());
    for asked in [query("select 1"), parse("", "select 1"), bind(""), execute(), function_call(), describe("s")] {
        assert_eq!(link.stopped(&[asked]), StopReason::NeedServer);
    }
    let long_sync = [&[b'S', 0, 0, 1, 0][..], &[0; 80]].concat();
    assert!(
        matches!(link.stopped(&[vec![b'?', 0, 0, 0, 4]]), StopReason::Refuse(why) if matches!(*why, Refusal::Protocol(_)))
    );
    assert!(
        matches!(link.stopped(&[long_sync]), StopReason::Refuse(why) if matches!(*why, Refusal::Protocol(_))),
        "half a Sync"
    );
    assert_eq!(link.stopped(&[vec![b'X', 0, 0, 0, 4]]), StopReason::Terminate);
}

#[test]
fn copy_data_streams_to_the_server_without_being_held() {
    let mut link = Link::transaction();
    link.ask(&[query("copy t from stdin")]);
    link.tell(&[copy_in()]);
    assert_eq!(link.server().hold_reason(), Some("copy"));
    let data = copy_data(&[7; 100_000]);
    assert_eq!(link.ask(&[data[..10].to_vec()]), data[..10]);
    assert!(link.client.is_mid_message());
    assert_eq!(link.ask(&[data[10..].to_vec()]), data[10..]);
    link.ask(&[copy_done()]);
    assert_eq!(tags(&link.tell(&[complete("COPY 1"), ready()])), "CZ");
    assert!(link.server().prove_clean().is_some());
}

#[test]
fn a_server_that_answers_what_it_was_not_sent_to_the_end_is_not_believed() {
    let long = query(&format!("select '{}'", "x".repeat(10_000)));
    for (asked, answer) in [(long, ready()), (bind_to(&"p".repeat(10_000), ""), bound())] {
        let halves = || asked.split_at(asked.len() - 2);
        let half_asked = || {
            let mut link = Link::transaction();
            link.ask(&[parse("", "select 1"), flush()]);
            link.tell(&[parsed()]);
            link.ask(&[halves().0.to_vec()]);
            assert!(link.client.is_mid_message());
            link
        };
        assert!(half_asked().feed_server(&answer, true).is_err());
        let mut link = half_asked();
        link.ask(&[halves().1.to_vec()]);
        assert!(link.feed_server(&answer, true).is_ok());
        // Earlier requests are answered nevertheless, also if the answer is an error.
        let mut link = Link::transaction();
        link.ask(&[parse("", "select 1"), flush(), halves().0.to_vec()]);
        link.tell(&[parsed()]);
        link.tell(&[fatal("57P01", "terminating connection due to administrator command")]);
    }
}

#[test]
fn a_request_in_the_middle_of_copy_breaks_the_protocol() {
    let mut link = Link::transaction();
    link.ask(&[query("copy t from stdin")]);
    link.tell(&[copy_in()]);
    let stopped = link.stopped(&[query("select 1")]);
    assert!(matches!(stopped, StopReason::Refuse(ref why) if matches!(**why, Refusal::Protocol(_))), "{stopped:?}");
}

#[test]
fn a_request_sent_ahead_into_a_copy_is_noticed_when_the_copy_begins() {
    let mut link = Link::transaction();
    link.ask(&[query("copy t from stdin"), query("select 1")]);
    assert!(link.outcome_of(&[copy_in()]).unusual.unwrap().copy_violated);
    assert!(!link.server().is_quiet());
}

#[test]
fn what_follows_an_error_is_thrown_away_up_to_sync() {
    let mut link = Link::transaction();
    link.ask(&[bind("nothing"), flush()]);
    link.tell(&[error("26000", "no such statement")]);
    assert_eq!(link.ask(&[parse("s", "select 1"), bind("s"), execute(), query("select 1")]), b"");
    assert!(!link.has("s"));
    assert_eq!(link.ask(&[sync()]), sync());
    assert_eq!(link.tell(&[ready()]), ready());
    assert!(link.server().prove_clean().is_some());
}

#[test]
fn a_terminate_waits_for_the_answers_that_need_no_further_message() {
    let mut goodbye = Vec::new();
    put_front::terminate(&mut goodbye);
    let mut link = Link::transaction();
    assert_eq!(link.stopped(&[query("select 1"), goodbye.clone()]), StopReason::AwaitReplies(ReplyWait::Termination));
    link.tell(&[complete("SELECT 1"), ready()]);
    assert_eq!(link.stopped(&[goodbye.clone()]), StopReason::Terminate);
    // Without a Sync or Flush the server would keep its answers to itself, and a COPY waits for data.
    assert_eq!(link.stopped(&[parse("", "select 1"), goodbye.clone()]), StopReason::Terminate);
    let mut link = Link::transaction();
    let flushed = [parse("", "select 1"), flush(), parse("", "select 2"), goodbye.clone()];
    assert_eq!(link.stopped(&flushed), StopReason::AwaitReplies(ReplyWait::Termination));
    link.tell(&[parsed()]);
    assert_eq!(link.stopped(&[goodbye.clone()]), StopReason::Terminate);
    let mut link = Link::transaction();
    assert_eq!(
        link.stopped(&[query("copy t from stdin"), goodbye.clone()]),
        StopReason::AwaitReplies(ReplyWait::Termination)
    );
    link.tell(&[copy_in()]);
    assert_eq!(link.stopped(&[goodbye]), StopReason::Terminate);
}

#[test]
fn a_wait_for_the_server_is_a_wait_for_something() {
    // What the server reads as a part of COPY ends no segment, and no ReadyForQuery will come for it.
    let mut link = Link::transaction();
    link.prepared("s", "select 1");
    link.ask(&[
        parse("", "deallocate all"),
        bind(""),
        execute(),
        parse("", "copy t from stdin"),
        bind(""),
        execute(),
        sync(),
    ]);
    link.tell(&[parsed(), bound(), complete("DEALLOCATE ALL"), parsed(), bound(), copy_in()]);
    link.ask(&[copy_done()]);
    link.tell(&[complete("COPY 0")]);
    let stop = link.stopped(&[bind("s"), sync()]);
    assert!(!matches!(stop, StopReason::AwaitReplies(_)) || link.server().is_busy(), "it would wait for ever");
}

#[test]
fn describe_of_a_portal_and_of_a_statement_are_answered_differently() {
    let mut link = Link::transaction();
    link.prepared("s", "select 1");
    link.ask(&[describe("s"), bind("s"), describe_portal(), sync()]);
    let mut types = Vec::new();
    weir_pgwire::put_back::parameter_description(&mut types, &[23]);
    let mut none = Vec::new();
    weir_pgwire::put_back::no_data(&mut none);
    assert_eq!(tags(&link.tell(&[types, none.clone(), bound(), none, ready()])), "tn2nZ");
    assert!(link.server().prove_clean().is_some());
}

#[test]
fn a_message_of_a_client_beyond_max_packet_size_is_refused() {
    let mut link = Link::transaction();
    let mut short = Vec::new();
    put_front::query(&mut short, "select 1");
    link.messages.longest = short.len() as u32;
    assert_eq!(link.feed_client(&short).stop, StopReason::EndOfInput);
    let mut longer = Vec::new();
    put_front::query(&mut longer, "select 12");
    assert_eq!(link.feed_client(&longer).stop, StopReason::refuse(Refusal::MessageTooLong));
}

#[test]
fn a_message_of_a_server_beyond_max_packet_size_is_not_passed_on() {
    let mut link = Link::transaction();
    let mut query = Vec::new();
    put_front::query(&mut query, "select 1");
    link.feed_client(&query);
    let mut row = Vec::new();
    put_back::raw(&mut row, weir_pgwire::tag::back::DATA_ROW, &[0; 40]);
    link.messages.longest = row.len() as u32 - 1;
    assert!(link.feed_server(&row, true).is_err() && link.to_client.is_empty());
}

#[test]
fn a_simple_query_is_refused_where_only_the_extended_protocol_is_allowed() {
    let mut link = Link::transaction();
    link.messages.simple = SimpleQueries::Refused;
    let (mut simple, mut extended) = (Vec::new(), Vec::new());
    put_front::query(&mut simple, "select 1");
    put_front::parse_text(&mut extended, b"", "select 1", &[]);
    put_front::sync(&mut extended);
    assert_eq!(link.feed_client(&extended).stop, StopReason::EndOfInput);
    assert_eq!(link.feed_client(&simple).stop, StopReason::refuse(Refusal::SimpleQuery));
}

#[test]
fn an_answer_of_ours_waits_for_the_end_of_the_servers_message_before_it() {
    let replies = [parameter_types(), row_kind(), ready()].concat();
    let expected = [parameter_types(), row_kind(), closed(), ready()].concat();
    for cut in 1..replies.len() {
        // The Close, which we answer ourselves, is there before the server's reply, or comes in the middle of it.
        for early in [true, false] {
            let mut link = Link::transaction();
            link.prepared("s", "select 1");
            link.ask(&[describe("s"), flush()]);
            let mut outcome = Vec::new();
            if early {
                link.ask(&[close("s"), sync()]);
            }
            link.feed_server(&replies[..cut], true).unwrap();
            outcome.append(&mut link.to_client);
            if !early && cut < replies.len() - ready().len() {
                link.ask(&[close("s"), sync()]);
                outcome.append(&mut link.to_client);
            } else if !early {
                continue;
            }
            link.feed_server(&replies[cut..], true).unwrap();
            outcome.append(&mut link.to_client);
            assert_eq!(outcome, expected, "cut at {cut}, the Close early: {early}");
        }
    }
}

#[test]
fn nothing_that_follows_a_transaction_block_in_statement_mode_reaches_the_client() {
    let mut link = Link::new(PoolMode::Statement);
    link.ask(&[query("begin"), query("select 1")]);
    let outcome = link.outcome_of(&[complete("BEGIN"), ready_in(b'T'), row("x"), complete("SELECT 1"), ready_in(b'T')]);
    assert!(outcome.unusual.unwrap().block_in_statement_mode);
    assert_eq!(std::mem::take(&mut link.to_client), complete("BEGIN"), "an error takes the place of the rest");
    assert!(link.server().prove_clean().is_none());
}

#[test]
fn a_reset_takes_what_was_requested_at_startup_from_the_server_and_not_from_its_clients() {
    let mut link = Link::transaction();
    let mut asked = link.params.unknown();
    link.params.set(&mut asked, "search_path", "a").unwrap();
    let asked = Arc::new(asked);
    for tag in ["RESET", "DISCARD ALL"] {
        (link.client.params, link.server().params) = (asked.clone(), asked.clone());
        link.ask(&[query("RESET ALL -- or the like")]);
        link.tell(&[complete(tag), parameter("TimeZone", "UTC"), ready()]);
        assert_eq!(link.params.get(&link.client.params, "search_path"), Some("a"));
        assert_eq!(link.params.get(&link.client.params, "TimeZone"), Some("UTC"));
        let mut query = String::new();
        let mut has = link.server().params.clone();
        let wanted = Wanted { params: &asked, own: asked.known() };
        let base = link.params.unknown();
        let has = Has { params: &mut has, base: &base, base_is_set: 0 };
        assert!(link.params.agree(wanted, has, &mut query));
        assert_eq!(query, "SELECT pg_catalog.set_config('search_path','a',false)", "for the next client");
    }
}

#[test]
fn a_message_without_a_body_is_refused_whatever_its_type() {
    for max_prepared in [100, 0] {
        for tag in 0..=255u8 {
            for copying in [false, true] {
                let mut link = Link::transaction();
                link.rules.max_prepared = max_prepared;
                if copying {
                    link.ask(&[query("copy t from stdin")]);
                }
                // Whatever the result is, there is one.
                link.feed_client(&[tag, 0, 0, 0, 4]);
            }
        }
    }
}
