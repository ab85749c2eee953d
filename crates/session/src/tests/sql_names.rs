//! Statements that a client names in SQL.

use weir_pgwire::put_front;

use super::rig::*;
use crate::expected::Expected;
use crate::{MAX_HELD_UNNAMED, NAME_PREFIX, ReplyWait, StopReason};

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

/// A link whose client has a statement `s`, and a failed transaction.
fn failed() -> Link {
    let mut link = Link::transaction();
    link.prepared("s", "select 1");
    link.ask(&[query("begin")]);
    link.tell(&[complete("BEGIN"), ready_in(b'T')]);
    link.ask(&[query("select 1/0")]);
    link.tell(&[error("22012", "division by zero"), ready_in(b'E')]);
    link
}

#[test]
fn a_failed_transaction_may_have_ended_before_the_statement_that_names_another() {
    let (rollback, deallocate) = (parse("", "rollback"), [parse("", "deallocate s"), bind(""), execute(), sync()]);
    // In one segment.
    let mut link = failed();
    let sent = link.ask(&[vec![rollback, bind(""), execute()], deallocate.to_vec()].concat());
    assert!(!String::from_utf8_lossy(&sent).contains("deallocate s\0\0\0B"), "the server has no such statement");
    assert!(!link.has("s"));
    // In a segment before.
    let mut link = failed();
    link.ask(&[query("rollback")]);
    assert_eq!(link.stopped(&deallocate), StopReason::AwaitReplies(ReplyWait::TransactionStatus));
    // Nowhere: the server refuses it.
    let mut link = failed();
    assert_eq!(tags(&link.ask(&deallocate)), "PBES");
    assert!(link.has("s"));
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

/// No room for what clients hold: of one client, of a pool, of the process.
fn full(link: &mut Link) {
    link.rules.client_memory = 0;
    link.interner.set_limit(0);
    link.statements.set_limit(0);
}

/// The replies of a server to these messages.
fn replies(sent: &[u8]) -> Vec<Vec<u8>> {
    let reply = |tag| match tag {
        'P' => Some(parsed()),
        'B' => Some(bound()),
        'C' => Some(closed()),
        'E' => Some(complete("DONE")),
        'S' => Some(ready()),
        _ => None,
    };
    tags(sent).chars().filter_map(reply).collect()
}

#[test]
fn a_deallocate_is_carried_out_where_there_is_no_room_to_hold_it() {
    for (size, text) in [(1 << 20, "deallocate s"), (7, "deallocate s"), (7, "deallocate all"), (90, "discard all")] {
        let mut link = Link::transaction();
        let name = link.prepared("s", "select 1");
        full(&mut link);
        let asked = [parse("", &format!("{text} --{}", "x".repeat(8_000))), bind(""), execute(), sync()].concat();
        let sent: Vec<u8> = asked.chunks(size).flat_map(|piece| link.ask(&[piece.to_vec()])).collect();
        let dropped = replies(&sent).into_iter().map(|reply| match text {
            "deallocate s" => reply,
            _ if reply == complete("DONE") => complete(&text.to_uppercase()),
            _ => reply,
        });
        assert_eq!(tags(&link.tell(&dropped.collect::<Vec<_>>())), "12CZ", "{text}");
        assert!(!link.has("s") && link.client.is_between_messages(), "{text}");
        assert!(!ours(&sent).contains("ALLOCATE s ") && !ours(&sent).contains(&ours(&name)), "{}", ours(&sent));
    }
}

#[test]
fn a_statement_is_executed_by_a_text_that_is_too_long_to_be_held() {
    let long = |length: usize| format!("execute s('{}')", "x".repeat(length));
    for (length, full_too) in [(9_000, true), (70_000, false), (70_000, true), (MAX_HELD_UNNAMED, false)] {
        let mut whole = None;
        for size in [4 << 20, 64 << 10, 513] {
            let mut link = Link::transaction();
            let name = ours(&link.prepared("s", "select 1"));
            if full_too {
                full(&mut link);
            }
            let asked = [parse("", &long(length)), bind(""), execute(), sync()].concat();
            let sent: Vec<u8> = asked.chunks(size).flat_map(|piece| link.ask(&[piece.to_vec()])).collect();
            let text = each(&sent).into_iter().rfind(|message| message[0] == b'P').expect("a Parse");
            let wanted = parse("", &long(length).replace("execute s", &format!("execute \"{name}\"")));
            assert!(text == wanted, "{length} by {size}: {}", ours(&text[..40]));
            assert!(link.client.is_between_messages());
            assert!(whole.get_or_insert_with(|| sent.clone()) == &sent, "{length} by {size}");
            link.tell(&replies(&sent));
        }
    }
}

#[test]
fn a_long_text_names_a_statement_as_a_short_one_does() {
    let padding = "x".repeat(100_000);
    for (text, verb) in [("execute s", "E"), ("explain execute s", "E"), ("deallocate s", "D"), ("deallocate all", "A")]
    {
        let mut link = Link::transaction();
        let name = ours(&link.prepared("s", "select 1"));
        link.ask(&[parse("long", &format!("{text} /* {padding} */")), sync()]);
        link.tell(&[parsed(), ready()]);
        let sent = link.ask(&[bind("long"), execute(), sync()]);
        assert_eq!(ours(&sent).contains(&format!("execute \"{name}\" /* xxx")), verb == "E", "{text}");
        let tag = if verb == "A" { "DEALLOCATE ALL" } else { "DONE" };
        let told =
            replies(&sent).into_iter().map(|reply| if reply == complete("DONE") { complete(tag) } else { reply });
        assert_eq!(tags(&link.tell(&told.collect::<Vec<_>>())), "2CZ");
        assert_eq!(link.has("s"), verb == "E", "{text}");
    }
}

#[test]
fn a_deallocate_that_is_too_long_to_be_held_is_refused() {
    for (text, length) in [("deallocate s", 9_000), ("discard all", 9_000), ("deallocate s", MAX_HELD_UNNAMED)] {
        let mut link = Link::transaction();
        link.prepared("s", "select 1");
        if length < MAX_HELD_UNNAMED {
            full(&mut link);
        }
        let asked = [parse("", &format!("{text} --{}", "x".repeat(length))), bind(""), execute(), sync()].concat();
        let sent: Vec<u8> = asked.chunks(64 << 10).flat_map(|piece| link.ask(&[piece.to_vec()])).collect();
        assert_eq!(tags(&sent), "DCBES", "{text}");
        let told = link.tell(&[error("26000", "prepared statement \"weir_x\" does not exist"), ready()]);
        assert!(tags(&told) == "EZ" && ours(&told).contains("54000"), "{}", ours(&told));
        assert!(link.has("s") && link.client.is_between_messages());
    }
}
