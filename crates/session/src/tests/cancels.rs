//! A request that is cancelled before a server has it: where its client's transaction is open at a server, it fails
//! there.

use weir_base::PoolMode;
use weir_pgwire::{HEAD, backend};

use super::rig::*;
use crate::{MAX_HELD_PARSE, StopReason};

/// The SQLSTATEs of the errors, in order.
fn codes(reply: &[u8]) -> Vec<String> {
    let code = |message: &Vec<u8>| {
        let fields = backend::error_fields(&message[HEAD..]).expect("an error");
        String::from_utf8_lossy(fields.get(b'C').expect("a code")).into_owned()
    };
    each(reply).iter().filter(|message| message[0] == b'E').map(code).collect()
}

/// What the server says of the message by which it fails a transaction.
fn missing() -> Vec<u8> {
    error("26000", "prepared statement \"weir_x\" does not exist")
}

/// Requests that a client may have in Weir, up to the end of their segment.
fn requests() -> [Vec<Vec<u8>>; 4] {
    [
        vec![query("select pg_sleep(9)")],
        vec![function_call()],
        vec![parse("", "select pg_sleep(9)"), bind(""), execute(), sync()],
        vec![close("a"), bind(""), execute(), sync()],
    ]
}

/// A link whose client is in a block.
fn in_block(mode: PoolMode) -> Link {
    let mut link = Link::new(mode);
    link.ask(&[query("begin")]);
    link.tell(&[complete("BEGIN"), ready_in(b'T')]);
    link
}

#[test]
fn without_an_open_transaction_the_server_receives_nothing() {
    for mode in [PoolMode::Session, PoolMode::Transaction] {
        for linked in [true, false] {
            for request in requests() {
                let mut link = Link::new(mode);
                link.server = link.server.filter(|_| linked);
                link.client.cancel();
                assert_eq!(link.ask(&request), b"", "{mode:?}");
                let reply = std::mem::take(&mut link.to_client);
                assert_eq!((tags(&reply).as_str(), codes(&reply)), ("EZ", vec!["57014".to_owned()]));
                assert!(link.client.is_between_requests());
            }
        }
    }
}

#[test]
fn in_a_block_the_transaction_fails_at_the_server() {
    for mode in [PoolMode::Session, PoolMode::Transaction] {
        for request in requests() {
            let mut link = in_block(mode);
            link.client.cancel();
            let sent = link.ask(&request);
            assert!(tags(&sent).starts_with('D') && tags(&sent).ends_with('S'), "{mode:?}: {}", tags(&sent));
            let outcome = link.outcome_of(&[missing(), ready_in(b'E')]);
            assert_eq!(&outcome.unusual.unwrap().errors[..], &[*b"57014"]);
            let reply = std::mem::take(&mut link.to_client);
            assert_eq!((tags(&reply).as_str(), codes(&reply)), ("EZ", vec!["57014".to_owned()]));
            assert_eq!(reply.last(), Some(&b'E'), "the client knows of the failed transaction");
            assert!(link.client.is_between_requests() && !link.server().is_busy());
            // The end of the block is not cancelled.
            assert_eq!(link.ask(&[query("rollback")]), query("rollback"));
        }
    }
}

#[test]
fn within_a_segment_the_sync_reaches_the_server() {
    for mode in [PoolMode::Session, PoolMode::Transaction] {
        for request in requests() {
            let mut link = Link::new(mode);
            link.ask(&[parse("", "insert into t values (1)"), bind(""), execute(), flush()]);
            link.tell(&[parsed(), bound(), complete("INSERT 0 1")]);
            link.client.cancel();
            let sent = link.ask(&request);
            assert!(tags(&sent).starts_with('D') && tags(&sent).ends_with('S'), "{mode:?}: {}", tags(&sent));
            let reply = link.tell(&[missing(), ready()]);
            assert_eq!((tags(&reply).as_str(), codes(&reply)), ("EZ", vec!["57014".to_owned()]));
            assert!(link.client.is_between_requests() && link.server().is_quiet());
        }
    }
}

#[test]
fn a_cancel_is_too_late_for_a_segment_that_has_failed_and_for_the_end_of_a_failed_block() {
    for mode in [PoolMode::Session, PoolMode::Transaction] {
        for [first, .., last] in [[parse("", "select 1"), bind(""), sync()], [execute(), describe(""), sync()]] {
            let mut link = Link::new(mode);
            link.ask(&[parse("", "select 1/0"), bind(""), execute(), flush()]);
            assert_eq!(codes(&link.tell(&[parsed(), bound(), error("22012", "division by zero")])), ["22012"]);
            link.client.cancel();
            assert_eq!(link.ask(&[first, last]), sync(), "the server gets its Sync");
            assert_eq!(link.tell(&[ready()]), ready());
            assert!(link.client.is_between_requests() && link.server().is_quiet());
        }
        let mut link = in_block(mode);
        link.ask(&[query("select 1/0")]);
        link.tell(&[error("22012", "division by zero"), ready_in(b'E')]);
        link.client.cancel();
        assert_eq!(link.ask(&[query("rollback")]), query("rollback"));
        assert!(!link.client.is_cancelled());
    }
}

#[test]
fn a_parse_that_was_dropped_fails_once() {
    let long = parse("b", &"x".repeat(MAX_HELD_PARSE + 1));
    let mut link = in_block(PoolMode::Transaction);
    let (most, end) = long.split_at(long.len() - 1);
    assert_eq!(link.feed_client(most).stop, StopReason::EndOfInput);
    link.client.cancel();
    let sent = link.ask(&[end.to_vec(), sync()]);
    assert_eq!(tags(&sent), "DS");
    let reply = link.tell(&[missing(), ready_in(b'E')]);
    assert_eq!((tags(&reply).as_str(), codes(&reply)), ("EZ", vec!["57014".to_owned()]));
    assert!(link.client.is_between_requests());
}
