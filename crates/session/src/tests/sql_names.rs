//! Statements that a client names in SQL.

use weir_pgwire::put_front;

use super::rig::*;
use crate::expected::Expected;
use crate::{NAME_PREFIX, ReplyWait, StopReason};

/// The text of the only query among messages.
fn asked(sent: &[u8]) -> String {
    let query = each(sent).into_iter().find(|message| message[0] == b'Q').expect("a query");
    String::from_utf8_lossy(&query[5..query.len() - 1]).into_owned()
}

fn ours(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

const NOTHING: &str = "UNLISTEN \"\x01\"";

#[test]
fn a_deallocate_within_a_query_drops_the_name_when_it_has_run() {
    let mut link = Link::transaction();
    link.prepared("_PLAN0x1", "select 1");
    link.prepared("b", "select 2");
    let sent = link.ask(&[query("SAVEPOINT s;DEALLOCATE \"_PLAN0x1\";deallocate b;RELEASE s")]);
    assert_eq!(asked(&sent), format!("SAVEPOINT s;{NOTHING};{NOTHING};RELEASE s"));
    assert_eq!(tags(&link.tell(&[complete("SAVEPOINT")])), "C");
    assert!(link.has("_PLAN0x1"), "it has not run");
    assert_eq!(link.stopped(&[bind("_PLAN0x1"), sync()]), StopReason::AwaitReplies(ReplyWait::EarlierSegment));
    assert_eq!(link.tell(&[complete("UNLISTEN")]), complete("DEALLOCATE"));
    assert!(!link.has("_PLAN0x1") && link.has("b"));
    assert_eq!(tags(&link.tell(&[error("25P02", "aborted"), ready_in(b'E')])), "EZ");
    assert!(link.has("b"), "it was not reached");
    link.ask(&[query("rollback; unlisten x")]);
    let tags = [complete("ROLLBACK"), complete("UNLISTEN"), ready()].concat();
    assert_eq!(link.tell(&[complete("ROLLBACK"), complete("UNLISTEN"), ready()]), tags, "the client's own");
}

#[test]
fn a_clients_own_unlisten_is_told_from_a_deallocate() {
    let mut link = Link::transaction();
    link.prepared("s", "select 1");
    link.ask(&[query("unlisten a; deallocate s; unlisten b; deallocate s")]);
    let told = link.tell(&[complete("UNLISTEN"), complete("UNLISTEN"), complete("UNLISTEN")]);
    assert_eq!(told, [complete("UNLISTEN"), complete("DEALLOCATE"), complete("UNLISTEN")].concat());
    assert_eq!(tags(&link.tell(&[error("26000", "prepared statement \"s\" does not exist"), ready()])), "EZ");
    assert!(!link.has("s"));
}

#[test]
fn an_execute_runs_the_clients_statement_which_is_prepared_first() {
    let mut link = Link::transaction();
    let name = ours(&link.prepared("s", "select set_config('a', 'b', false)"));
    let sent = link.ask(&[query("execute S; explain execute \"s\"")]);
    assert_eq!((tags(&sent).as_str(), asked(&sent)), ("Q", format!("execute \"{name}\"; explain execute \"{name}\"")));
    link.tell(&[complete("SELECT 1"), complete("EXPLAIN"), ready()]);
    assert!(!link.server().dirty().is_empty(), "what the statement does counts");
    link.server().statements.clear();
    let sent = link.ask(&[query("execute s")]);
    assert_eq!((tags(&sent).as_str(), asked(&sent)), ("PQS", format!("execute \"{name}\"")));
    assert_eq!(tags(&link.tell(&[parsed(), complete("SELECT 1"), ready()])), "CZ");
    assert!(!link.server().is_quiet(), "our Sync is not answered");
    assert_eq!(tags(&link.tell(&[ready()])), "");
    assert!(link.server().is_quiet());
}

#[test]
fn a_statement_that_can_not_be_prepared_ends_the_query_that_executes_it() {
    let mut link = Link::transaction();
    link.prepared("s", "select 1");
    link.server().statements.clear();
    assert_eq!(tags(&link.ask(&[query("select 1; execute s")])), "PQS");
    assert_eq!(tags(&link.tell(&[error("42P01", "no such table"), ready()])), "EZ");
    assert!(link.server().is_quiet() && link.has("s"));
    assert_eq!(tags(&link.ask(&[query("execute s")])), "PQS", "it is tried again");
    assert_eq!(tags(&link.tell(&[parsed(), complete("SELECT 1"), ready(), ready()])), "CZ");
}

#[test]
fn a_name_like_ours_reaches_no_statement_of_others() {
    let mut link = Link::transaction();
    let name = ours(&link.prepared("s", "select 1"));
    for (text, want) in [
        (format!("deallocate {name}"), format!("DEALLOCATE \"weir\x01{}\"", &name[5..])),
        (format!("select 1; execute \"{name}\"(1)"), format!("select 1; execute \"weir\x01{}\"(1)", &name[5..])),
        ("prepare WEIR_x as select 1".into(), "prepare \"weir\x01x\" as select 1".into()),
        ("execute mine".into(), "execute mine".into()),
    ] {
        assert_eq!(asked(&link.ask(&[query(&text)])), want, "{text}");
        let said = link.tell(&[error("26000", "prepared statement \"weir\x01x\" does not exist"), ready()]);
        assert!(ours(&said).contains("\"weir_x\""), "the client reads its own name");
    }
    assert_eq!(tags(&link.ask(&[bind("s"), sync()])), "BS", "nothing is doubted");
    link.tell(&[bound(), ready()]);
    let asked_for = query("execute u&\"w\\0065ir_a\"\"b\"");
    assert_eq!(asked(&link.ask(&[asked_for])), "execute \"weir\x01a\"\"b\"");
}

#[test]
fn what_is_sent_does_not_depend_on_how_the_bytes_arrive() {
    for filling in [0, 500, 8_150, 8_170, 8_180, 9_000] {
        let text = format!("select '{}'; deallocate a; execute weir_x; select 1", "x".repeat(filling));
        let message = query(&text);
        let whole = {
            let mut link = Link::transaction();
            link.prepared("a", "select 1");
            link.ask(std::slice::from_ref(&message))
        };
        assert_eq!(filling < 8_160, asked(&whole).contains(NOTHING), "{filling}");
        for size in [1, 7, 513, 4_000, 8_190, 8_197, 8_198] {
            let mut link = Link::transaction();
            link.prepared("a", "select 1");
            let sent: Vec<u8> = message.chunks(size).flat_map(|piece| link.ask(&[piece.to_vec()])).collect();
            assert!(sent == whole, "{filling} by {size}");
        }
    }
}

#[test]
fn where_a_text_is_too_long_to_be_read_its_server_is_not_believed() {
    let mut link = Link::transaction();
    let name = ours(&link.prepared("s", "select 1"));
    let message = query(&format!("select '{}'; deallocate {name}", "x".repeat(10_000)));
    message.chunks(9_000).for_each(|piece| drop(link.ask(&[piece.to_vec()])));
    link.tell(&[complete("SELECT 1"), complete("DEALLOCATE"), ready()]);
    assert!(tags(&link.ask(&[bind("s"), sync()])).starts_with("CPB"));
    assert_eq!(crate::Server::reset_query(link.server().dirty()), "DISCARD ALL");
}

#[test]
fn a_prepared_execute_is_bound_and_described_in_the_servers_words() {
    let mut link = Link::transaction();
    let name = ours(&link.prepared("s", "select 1"));
    link.prepared("e", "execute s");
    for asked in [[bind("e"), execute()], [describe("e"), bind("e")]] {
        let sent = link.ask(&[&asked[..], &[sync()]].concat());
        assert!(ours(&sent).contains(&format!("execute \"{name}\"")), "{}", ours(&sent));
        let replies: Vec<Vec<u8>> = tags(&sent)
            .chars()
            .flat_map(|tag| match tag {
                'P' => vec![parsed()],
                'B' => vec![bound()],
                'D' => vec![parameter_types(), row_kind()],
                'E' => vec![complete("SELECT 1")],
                _ => vec![ready()],
            })
            .collect();
        assert!(!tags(&link.tell(&replies)).contains('1'), "our Parse is our affair");
    }
    let sent = link.ask(&[parse("", "deallocate weir_x"), bind(""), execute(), sync()]);
    assert!(ours(&sent).contains("DEALLOCATE \"weir\x01x\""), "{}", ours(&sent));
}

#[test]
fn a_server_that_lacks_a_shared_statement_is_not_given_to_another_client() {
    let mut link = Link::transaction();
    let name = ours(&link.prepared("s", "select 1"));
    link.ask(&[query("execute s"), query("select 1")]);
    link.tell(&[error("26000", "prepared statement \"s\" does not exist"), ready(), complete("SELECT 1"), ready()]);
    assert!(!link.server().is_unusable(), "that is another one");
    link.ask(&[bind("s"), execute(), sync()]);
    link.tell(&[error("26000", &format!("prepared statement \"{name}\" does not exist")), ready()]);
    assert!(link.server().is_unusable());
}

#[test]
fn names_are_read_only_once_while_their_query_waits() {
    let mut link = Link::transaction();
    link.prepared("s", "select 1");
    link.ask(&[bind("s"), execute(), sync(), bind("s"), execute(), sync()]);
    let asked = query("select 1; deallocate s");
    assert_eq!(link.stopped(std::slice::from_ref(&asked)), StopReason::AwaitReplies(ReplyWait::TransactionStatus));
    assert!(link.client.waits_for_segments);
    link.tell(&[bound(), complete("SELECT 1"), ready()]);
    assert_eq!(link.stopped(std::slice::from_ref(&asked)), StopReason::AwaitReplies(ReplyWait::EarlierSegment));
    link.tell(&[bound(), complete("SELECT 1"), ready()]);
    assert_eq!(link.ask(&[asked]), query(&format!("select 1; {NOTHING}")));
    assert!(!link.client.waits_for_segments);
}

#[test]
fn a_statement_that_was_used_with_changed_settings_is_prepared_again_for_the_next_client() {
    for (text, tag, again) in [
        ("set local work_mem = '1MB'", "SET", true),
        ("select set_config('work_mem', '1MB', true)", "SELECT 1", true),
        ("set local statement_timeout = 1", "SET", false),
        ("select set_config('my.own', '1', true)", "SELECT 1", false),
    ] {
        let mut link = Link::transaction();
        link.prepared("unused", "select 0");
        link.prepared("s", "select 1");
        link.server().clear_dirty();
        link.ask(&[query("begin"), query(text), bind("s"), execute(), sync()]);
        link.tell(&[complete("BEGIN"), ready_in(b'T'), complete(tag), ready_in(b'T')]);
        link.tell(&[bound(), complete("SELECT 1"), ready_in(b'T')]);
        link.ask(&[query("commit")]);
        link.tell(&[complete("COMMIT"), ready()]);
        link.server().clear_dirty();
        let sent = link.ask(&[bind("unused"), bind("s"), sync()]);
        assert_eq!(tags(&sent), if again { "BCPBS" } else { "BBS" }, "{text}");
    }
}

#[test]
fn a_prefix_of_ours_is_as_long_as_what_hides_it() {
    assert_eq!(NAME_PREFIX, b"weir_");
    let mut message = Vec::new();
    put_front::query_head(&mut message, b"ab", 1);
    assert_eq!(message, b"Q\0\0\0\x07ab");
}

#[test]
fn a_portal_of_a_statement_in_the_servers_words_describes_no_other() {
    let mut link = Link::transaction();
    link.prepared("s", "select 1");
    link.prepared("e", "execute s");
    link.ask(&[bind("s"), execute(), bind("e"), describe_portal(), execute(), sync()]);
    let told = link.tell(&[bound(), complete("SELECT 1"), parsed(), bound()]);
    assert_eq!(tags(&told), "2C2");
    assert_eq!(link.server().pending.head(), Some(Expected::DescribeRows), "not that of the portal before it");
    assert_eq!(tags(&link.tell(&[row_kind(), complete("SELECT 1"), ready()])), "TCZ");
}
