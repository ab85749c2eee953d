//! How a client's statements are represented on servers.

use std::sync::Arc;

use weir_base::PoolMode;
use weir_pgwire::put_front;

use super::rig::*;
use crate::{CancelKey, NAME_LEN, NAME_PREFIX, ReplyWait, Server, StopReason};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_statement_has_our_name_on_the_server_and_its_clients_name_nowhere() {
    let mut link = Link::transaction();
    let sent = link.ask(&[parse("s", "select 1"), bind("s"), describe("s"), execute(), sync()]);
    assert_eq!(tags(&sent), "PBDES");
    let names = names(&sent);
    assert!(names.iter().all(|name| name.starts_with(NAME_PREFIX) && name.len() == NAME_LEN), "{names:?}");
    assert!(names.iter().all(|name| *name == names[0]));
    assert!(link.has("s"));
}

#[test]
fn in_session_mode_nothing_is_renamed() {
    let mut link = Link::new(PoolMode::Session);
    let asked = [parse("s", "select 1"), bind("s"), describe("s"), execute(), close("s"), sync()];
    assert_eq!(link.ask(&asked), asked.concat());
    assert_eq!(link.client.prepared(), 0);
}

#[test]
fn clients_with_the_same_text_share_a_statement_and_texts_that_differ_do_not() {
    let mut link = Link::transaction();
    let one = link.prepared("a", "select 1");
    let two = link.prepared("b", "select 2");
    assert_ne!(one, two);
    let sent = link.ask(&[parse("c", "select 1"), sync()]);
    assert_eq!(tags(&sent), "S", "the server has it");
    assert_eq!(link.tell(&[ready()]), [parsed(), ready()].concat());
}

#[test]
fn one_text_is_two_statements_to_clients_with_two_search_paths() {
    let mut link = Link::transaction();
    let mut names = Vec::new();
    for path in ["tenant_a", "tenant_b"] {
        let mut wanted = link.params.unknown();
        link.params.set(&mut wanted, "search_path", path).unwrap();
        let wanted = Arc::new(wanted);
        link.client = crate::Client::new(2, PoolMode::Transaction, wanted.clone());
        link.server().params = wanted;
        names.push(link.prepared("s", "select * from customers"));
    }
    assert_ne!(names[0], names[1]);
}

#[test]
fn our_answer_to_a_parse_comes_in_its_place() {
    let mut link = Link::transaction();
    link.prepared("a", "select 1");
    let sent = link.ask(&[bind("a"), execute(), parse("b", "select 1"), bind("b"), execute(), sync()]);
    assert_eq!(tags(&sent), "BEBES");
    assert_eq!(tags(&link.tell(&[bound()])), "2", "nothing overtakes the answer to Execute");
    assert_eq!(tags(&link.tell(&[complete("SELECT 1")])), "C1");
    assert_eq!(tags(&link.tell(&[bound(), complete("SELECT 1"), ready()])), "2CZ");
}

#[test]
fn a_statement_is_prepared_on_the_way_where_the_server_has_it_not() {
    let mut link = Link::transaction();
    link.prepared("s", "select 1");
    link.server = Some(Server::new(link.client.params().clone(), CancelKey::default()));
    let sent = link.ask(&[bind("s"), execute(), sync()]);
    assert_eq!(tags(&sent), "PBES");
    let received = link.tell(&[parsed(), bound(), complete("SELECT 1"), ready()]);
    assert_eq!(tags(&received), "2CZ", "the client did not ask for a Parse");
}

#[test]
fn the_least_recently_used_statement_is_closed_for_a_new_one() {
    let mut link = Link::transaction();
    link.rules.max_prepared = 2;
    let first = link.prepared("a", "select 1");
    link.prepared("b", "select 2");
    let sent = link.ask(&[parse("c", "select 3"), sync()]);
    assert_eq!(tags(&sent), "CPS");
    assert_eq!(names(&sent)[0], first);
    assert_eq!(tags(&link.tell(&[closed(), parsed(), ready()])), "1Z", "our Close is our affair");
    assert_eq!(link.server().prepared(), 2);
    let sent = link.ask(&[bind("a"), sync()]);
    assert_eq!(tags(&sent), "CPBS", "it is prepared again when it is used");
}

#[test]
fn a_parse_that_fails_is_forgotten_by_all() {
    let mut link = Link::transaction();
    let ours = text(&names(&link.ask(&[parse("s", "selekt"), sync()]))[0]);
    assert!(link.has("s"), "what follows in the pipeline depends on it");
    assert_eq!(tags(&link.tell(&[error("42601", "syntax error"), ready()])), "EZ");
    assert!(!link.has("s"));
    assert_eq!(link.server().prepared(), 0);
    let sent = link.ask(&[bind("s"), sync()]);
    assert_eq!(names(&sent), [b"s"], "the server shall say that there is no such statement");
    link.tell(&[error("26000", "prepared statement \"s\" does not exist"), ready()]);
    let sent = link.ask(&[parse("s", "selekt"), sync()]);
    assert_eq!((tags(&sent).as_str(), text(&names(&sent)[0])), ("PS", ours));
}

#[test]
fn what_the_server_skips_after_an_error_has_not_happened() {
    let mut link = Link::transaction();
    link.prepared("old", "select 0");
    let asked = [bind("nothing"), parse("new", "select 1"), close("old"), parse("", "select 2"), sync()];
    link.ask(&asked);
    assert!(link.has("new") && !link.has("old"));
    assert_eq!(tags(&link.tell(&[error("26000", "no such statement"), ready()])), "EZ");
    assert!(!link.has("new") && link.has("old"));
    let sent = link.ask(&[bind(""), sync()]);
    assert!(!tags(&sent).contains('P'), "there is no unnamed statement either");
}

#[test]
fn a_deallocate_in_the_extended_protocol_takes_the_name_when_it_is_bound_and_not_before() {
    let mut link = Link::transaction();
    link.prepared("s", "select 1");
    let sent = link.ask(&[parse("", "DEALLOCATE s"), sync()]);
    assert_eq!(tags(&sent), "PS");
    link.tell(&[parsed(), ready()]);
    assert!(link.has("s"), "nothing has run");
    let sent = link.ask(&[bind(""), execute(), sync()]);
    assert_eq!(tags(&sent), "CPPBES", "the server is given a statement to deallocate");
    assert!(!link.has("s"), "what follows in the pipeline depends on it");
    let received = link.tell(&[closed(), parsed(), parsed(), bound(), complete("DEALLOCATE"), ready()]);
    assert_eq!(tags(&received), "2CZ");
    let sent = link.ask(&[bind(""), execute(), sync()]);
    assert!(text(&sent).contains("DEALLOCATE s"), "the server shall say that there is no such statement");
}

#[test]
fn a_deallocate_that_can_not_be_bound_takes_nothing() {
    let mut link = Link::transaction();
    link.prepared("s", "select 1");
    link.prepared("d", "deallocate prepare \"s\"");
    for name in ["", "d"] {
        link.ask(&[parse("", "deallocate s"), bind(name), execute(), sync()]);
        assert!(!link.has("s"));
        let answers = [parsed(), closed(), parsed(), parsed(), error("08P01", "bind message supplies"), ready()];
        assert_eq!(tags(&link.tell(&answers)), "1EZ");
        assert!(link.has("s"));
    }
}

#[test]
fn a_deallocate_keeps_the_parameter_types_that_it_was_given() {
    let mut link = Link::transaction();
    link.prepared("s", "select 1");
    let mut message = Vec::new();
    put_front::parse(&mut message, b"", b"DEALLOCATE s\0\0\x01\0\0\0\x17");
    let sent = link.ask(&[message, bind(""), sync()]);
    let own = sent.windows(7).filter(|bytes| *bytes == b"\0\0\x01\0\0\0\x17").count();
    assert_eq!((tags(&sent).as_str(), own), ("PCPPBS", 2));
}

#[test]
fn changes_that_build_upon_each_other_are_undone_together() {
    let mut link = Link::transaction();
    link.prepared("s", "select 0");
    let before = link.client.statements.as_ref().unwrap().get(b"s").unwrap().clone();
    link.ask(&[bind("nothing"), close("s"), parse("s", "select 1"), close("s"), sync()]);
    assert!(!link.has("s"));
    link.tell(&[error("26000", "no such statement"), ready()]);
    assert!(Arc::ptr_eq(link.client.statements.as_ref().unwrap().get(b"s").unwrap(), &before));
}

#[test]
fn what_may_still_be_skipped_is_waited_for_by_later_segments() {
    let mut link = Link::transaction();
    link.ask(&[parse("s", "select 1"), sync()]);
    assert_eq!(link.stopped(&[bind("s"), sync()]), StopReason::AwaitReplies(ReplyWait::EarlierSegment));
    assert!(link.server().is_busy(), "there is something to wait for");
    link.tell(&[parsed(), ready()]);
    assert_eq!(tags(&link.ask(&[bind("s"), sync()])), "BS");
}

#[test]
fn after_a_plan_that_changed_statements_are_prepared_anew() {
    for sqlstate in ["0A000", "26000"] {
        let mut link = Link::transaction();
        let name = link.prepared("s", "select 1");
        assert_eq!(tags(&link.ask(&[bind("s"), sync()])), "BS");
        let said = format!("about the prepared statement \"{}\"", text(&name));
        link.tell(&[error(sqlstate, &said), ready()]);
        let sent = link.ask(&[bind("s"), sync()]);
        assert_eq!(tags(&sent), "CPBS", "{sqlstate}");
        assert!(names(&sent).iter().all(|n| *n == name));
        assert_eq!(tags(&link.tell(&[closed(), parsed(), bound(), ready()])), "2Z");
        assert_eq!(tags(&link.ask(&[bind("s"), sync()])), "BS");
    }
}

#[test]
fn a_close_is_answered_by_us_and_the_statement_stays_on_the_server() {
    let mut link = Link::transaction();
    link.prepared("s", "select 1");
    assert_eq!(tags(&link.ask(&[close("s"), sync()])), "S");
    assert_eq!(tags(&link.tell(&[ready()])), "3Z");
    assert!(!link.has("s"));
    assert_eq!(link.server().prepared(), 1);
}

#[test]
fn deallocate_of_a_clients_name_is_answered_by_us() {
    let mut link = Link::transaction();
    link.prepared("s", "select 1");
    assert_eq!(link.ask(&[query("DEALLOCATE s")]), b"");
    assert_eq!(tags(&link.to_client), "CZ");
    assert_eq!(link.to_client, [complete("DEALLOCATE"), ready()].concat());
    assert!(!link.has("s") && link.server().is_quiet());
    let asked = query("DEALLOCATE s");
    assert_eq!(link.ask(std::slice::from_ref(&asked)), asked, "the second one is the server's to refuse");
}

#[test]
fn a_deallocate_that_we_answer_drops_the_unnamed_statement_as_any_query_does() {
    let mut link = Link::transaction();
    link.prepared("s", "select 1");
    link.ask(&[parse("", "select 2"), sync()]);
    link.tell(&[parsed(), ready()]);
    link.ask(&[bind("gone"), query("DEALLOCATE s"), sync()]);
    link.tell(&[error("26000", "prepared statement \"gone\" does not exist"), ready()]);
    assert!(link.has("s"), "the server skipped it");
    assert_eq!(tags(&link.ask(&[bind(""), sync()])), "PBS", "and so the unnamed one is there");
    link.tell(&[parsed(), bound(), ready()]);
    link.ask(&[query("DEALLOCATE s")]);
    assert_eq!(
        tags(&link.ask(&[bind(""), sync()])),
        "CBS",
        "the server closes what it still has, and refuses the Bind"
    );
}

#[test]
fn deallocate_works_without_a_server_too() {
    let mut link = Link::transaction();
    link.prepared("s", "select 1");
    link.server = None;
    link.ask(&[query("deallocate prepare \"s\"")]);
    assert_eq!(link.to_client, [complete("DEALLOCATE"), ready()].concat());
    assert!(!link.has("s"));
    assert_eq!(link.stopped(&[query("DEALLOCATE s")]), StopReason::NeedServer);
}

#[test]
fn in_a_failed_transaction_deallocate_is_the_servers_to_refuse() {
    let mut link = Link::transaction();
    link.prepared("s", "select 1");
    link.ask(&[query("bad")]);
    link.tell(&[error("42601", "syntax error"), ready_in(b'E')]);
    assert_eq!(link.ask(&[query("DEALLOCATE s")]), query("UNLISTEN \"\x01\""));
    let sent = link.ask(&[]);
    assert_eq!(sent, b"");
    link.tell(&[error("25P02", "current transaction is aborted"), ready_in(b'E')]);
    assert!(link.has("s"));
}

#[test]
fn after_discard_all_nothing_is_prepared_and_what_follows_waits_for_it() {
    let mut link = Link::transaction();
    link.prepared("s", "select 1");
    link.ask(&[query("DISCARD ALL")]);
    assert_eq!(link.stopped(&[bind("s"), sync()]), StopReason::AwaitReplies(ReplyWait::EarlierSegment));
    link.tell(&[complete("DISCARD ALL"), ready()]);
    assert!(!link.has("s"));
    assert!(link.server().dirty().is_empty());
    assert_eq!(names(&link.ask(&[bind("s"), sync()])), [b"s"]);
}

#[test]
fn errors_name_a_statement_as_its_client_does() {
    let mut link = Link::transaction();
    let ours = text(&link.prepared("mine", "select 1"));
    let asked = link.ask(&[parse("mine", "select 1"), sync()]);
    assert_eq!(names(&asked)[0], ours.as_bytes(), "a name that is taken is refused by the server");
    let received = link.tell(&[error("42P05", &format!("prepared statement \"{ours}\" already exists")), ready()]);
    assert_eq!(received, [error("42P05", "prepared statement \"mine\" already exists"), ready()].concat());
    assert!(link.has("mine"));
}

#[test]
fn no_client_reaches_the_statements_of_others_by_guessing_names() {
    let mut link = Link::transaction();
    let ours = text(&link.prepared("s", "select 1"));
    let sent = link.ask(&[bind(&ours), describe(&ours), sync()]);
    assert!(names(&sent).iter().all(|name| *name != ours.as_bytes()), "{:?}", names(&sent));
    let refusal = |name: &str| error("26000", &format!("prepared statement \"{name}\" does not exist"));
    let reply = link.tell(&[refusal(&text(&names(&sent)[0])), ready()]);
    assert_eq!(reply, [refusal(&ours), ready()].concat(), "the refusal names it as the client did");
    assert_eq!(tags(&link.ask(&[close(&ours), sync()])), "S", "nor closes them");
}

#[test]
fn an_unnamed_statement_of_ours_that_may_be_skipped_is_not_relied_upon_in_the_next_segment() {
    let mut link = Link::transaction();
    link.ask(&[parse("", "select 1"), sync()]);
    link.tell(&[parsed(), ready()]);
    link.server = Some(Server::new(link.client.params().clone(), CancelKey::default()));
    assert_eq!(tags(&link.ask(&[bind("gone"), bind(""), sync(), bind(""), sync()])), "BPBSPBS");
    let failed = error("26000", "prepared statement \"gone\" does not exist");
    let received = link.tell(&[failed, ready(), parsed(), bound(), ready()]);
    assert_eq!(tags(&received), "EZ2Z", "the second one is there, whether or not the first failed");
}

#[test]
fn the_unnamed_statement_follows_its_client_to_the_next_server() {
    let mut link = Link::transaction();
    link.ask(&[parse("", "select 1"), sync()]);
    link.tell(&[parsed(), ready()]);
    assert_eq!(tags(&link.ask(&[bind(""), sync()])), "BS", "it is there");
    link.tell(&[bound(), ready()]);
    link.server = Some(Server::new(link.client.params().clone(), CancelKey::default()));
    assert_eq!(tags(&link.ask(&[bind(""), sync()])), "PBS");
    assert_eq!(tags(&link.tell(&[parsed(), bound(), ready()])), "2Z");
    link.ask(&[query("select 2")]);
    link.tell(&[complete("SELECT 1"), ready()]);
    assert_eq!(tags(&link.ask(&[bind(""), sync()])), "CBS", "a simple query has dropped it");
}

#[test]
fn a_client_does_not_inherit_the_unnamed_statement_of_another() {
    let mut link = Link::transaction();
    link.ask(&[parse("", "select secret"), sync()]);
    link.tell(&[parsed(), ready()]);
    link.client = crate::Client::new(2, PoolMode::Transaction, link.client.params().clone());
    assert_eq!(tags(&link.ask(&[bind(""), sync()])), "CBS", "the slot is emptied before the Bind");
    assert_eq!(
        tags(&link.tell(&[closed(), error("26000", "unnamed prepared statement does not exist"), ready()])),
        "EZ"
    );
}

#[test]
fn a_parse_that_servers_have_accepted_needs_no_server() {
    let mut link = Link::transaction();
    link.prepared("s", "select 1");
    link.server = None;
    link.ask(&[parse("t", "select 1"), close("s"), sync()]);
    assert_eq!(tags(&link.to_client), "13Z");
    assert!(link.has("t") && !link.has("s"));
    assert_eq!(link.stopped(&[parse("u", "select 2")]), StopReason::NeedServer, "no server has seen this one");
}

#[test]
fn a_text_that_is_read_by_other_parameters_is_another_statement() {
    let mut link = Link::transaction();
    link.prepared("s", "select date '01/02/2024'");
    // The server has the statement, but parsed with the old parameters.
    link.ask(&[query("set datestyle = german")]);
    link.tell(&[complete("SET"), parameter("DateStyle", "German, DMY"), ready()]);
    let sent = link.ask(&[parse("t", "select date '01/02/2024'"), sync()]);
    assert_eq!(tags(&sent), "PS");
    link.tell(&[parsed(), ready()]);
    // A statement prepared in the same pipeline as the change is not trusted to be what its name says.
    link.ask(&[query("set datestyle = iso"), parse("u", "select date '03/04/2024'"), sync()]);
    link.tell(&[complete("SET"), ready(), parsed(), parameter("DateStyle", "ISO, DMY"), ready()]);
    assert_eq!(tags(&link.ask(&[bind("u"), execute(), sync()])), "PBES");
    // A parameter that does not influence parsing changes nothing.
    link.tell(&[parsed(), bound(), complete("SELECT 1"), ready()]);
    link.ask(&[query("set application_name = x")]);
    link.tell(&[complete("SET"), parameter("application_name", "x"), ready()]);
    assert_eq!(tags(&link.ask(&[bind("u"), execute(), sync()])), "BES");
}

#[test]
fn a_text_is_another_statement_once_a_definition_has_changed() {
    let mut link = Link::transaction();
    let before = link.prepared("s", "select * from t");
    link.ask(&[query("alter table t add c int")]);
    link.tell(&[complete("ALTER TABLE"), ready()]);
    let sent = link.ask(&[close("s"), parse("s", "select * from t"), bind("s"), execute(), sync()]);
    assert_eq!(tags(&sent), "PBES");
    assert_ne!(names(&sent)[0], before, "the old plan is not met");
    link.tell(&[parsed(), bound(), complete("SELECT 1"), ready()]);
    // A statement prepared before stays what it was, and fails as it does without Weir.
    let mut link = Link::transaction();
    let before = link.prepared("s", "select * from t");
    link.ask(&[query("begin; drop table t")]);
    link.tell(&[complete("BEGIN"), complete("DROP TABLE"), ready_in(b'T')]);
    let sent = link.ask(&[bind("s"), sync()]);
    assert_eq!((tags(&sent).as_str(), &names(&sent)[0]), ("BS", &before));
}

#[test]
fn an_error_names_a_statement_as_its_client_did_though_a_close_is_on_its_way() {
    let mut link = Link::transaction();
    let ours = text(&link.prepared("s", "select $1"));
    link.ask(&[bind("s"), execute(), close("s"), sync()]);
    let reply = |name: &str| error("08P01", &format!("prepared statement \"{name}\" requires 2"));
    assert_eq!(link.tell(&[reply(&ours), ready()]), [reply("s"), ready()].concat());
    assert!(link.has("s"), "the Close was skipped");
}

#[test]
fn names_are_one_if_their_first_63_bytes_agree() {
    let mut link = Link::transaction();
    let name = |end: &str| "n".repeat(63) + end;
    link.prepared(&name("one"), "select 1");
    assert!(link.has(&name("another")) && !link.has(&"n".repeat(62)));
    let sent = link.ask(&[bind(&name("another")), execute(), close(&name("third")), sync()]);
    assert_eq!(tags(&sent), "BES");
    assert!(!link.has(&name("one")));
}

#[test]
fn behind_a_statement_that_drops_all_a_name_is_what_was_prepared_behind_it() {
    for text in ["DEALLOCATE ALL", "DISCARD ALL"] {
        let mut link = Link::transaction();
        let name = link.prepared("s", "select 1");
        let drops = [parse("", text), bind_to("p", ""), execute_of("p")];
        let sent = link.ask(&[&drops[..], &[parse("t", "select 1"), bind("t"), bind("s"), sync()]].concat());
        assert_eq!(tags(&sent), "PBECPBBS", "{text}: it is prepared again");
        assert_eq!(names(&sent)[2..], [name.clone(), name.clone(), name.clone(), b"s".to_vec()]);
        link.tell(&[parsed(), bound(), complete(text), closed(), parsed(), bound()]);
        link.tell(&[error("26000", "prepared statement \"s\" does not exist"), ready()]);
        assert!(link.has("t") && !link.has("s"));
        // A name may be given again.
        let sent = link.ask(&[&drops[..], &[parse("t", "select 2"), describe("t"), sync()]].concat());
        assert_eq!(tags(&sent), "PBEPDS", "{text}");
        link.tell(&[parsed(), bound(), complete(text), parsed(), parameter_types(), row_kind(), ready()]);
        assert_eq!(link.client.text_of(b"t"), Some(&b"select 2"[..]));
    }
}

#[test]
fn the_end_of_an_earlier_segment_is_not_that_of_a_statement_that_drops_all() {
    let mut link = Link::transaction();
    let name = link.prepared("s", "select 1");
    link.ask(&[bind("s"), execute(), sync(), parse("", "DEALLOCATE ALL"), bind(""), execute()]);
    link.tell(&[bound(), complete("SELECT 1"), ready(), parsed()]);
    let sent = link.ask(&[parse("s", "select 2"), bind("s"), sync()]);
    assert_eq!(tags(&sent), "PBS");
    assert!(!names(&sent).contains(&name), "it is given again");
    link.tell(&[parsed(), bound(), complete("DEALLOCATE ALL"), parsed(), bound(), ready()]);
    assert_eq!(link.client.text_of(b"s"), Some(&b"select 2"[..]));
    assert!(link.server().dropping_all.is_none());
}

#[test]
fn a_statement_that_drops_all_and_is_skipped_or_not_executed_drops_none() {
    let mut link = Link::transaction();
    let name = link.prepared("s", "select 1");
    let sent = link.ask(&[parse("", "DEALLOCATE ALL"), bind(""), bind("s"), execute(), sync()]);
    assert_eq!((tags(&sent).as_str(), &names(&sent)[2]), ("PBBES", &name));
    link.tell(&[parsed(), bound(), bound(), complete("SELECT 1"), ready()]);
    let asked = [bind("nothing"), parse("", "DEALLOCATE ALL"), bind(""), execute(), parse("s", "select 2"), sync()];
    link.ask(&asked);
    link.tell(&[error("26000", "prepared statement \"nothing\" does not exist"), ready()]);
    assert_eq!(link.client.text_of(b"s"), Some(&b"select 1"[..]));
    assert_eq!(tags(&link.ask(&[bind("s"), sync()])), "CPBS", "it is prepared once more, in case it is gone");
}

#[test]
fn what_is_skipped_behind_a_statement_that_drops_all_leaves_what_was_prepared_between() {
    let mut link = Link::transaction();
    link.prepared("s", "select 1");
    let drops = [parse("", "DEALLOCATE ALL"), bind(""), execute()];
    let skipped = [close("t"), parse("s", "select 3"), query("select 4"), sync()];
    let asked = [parse("t", "select 2"), parse("", "select 0"), bind(""), bind("nothing")];
    link.ask(&[&drops[..], &asked[..], &skipped[..]].concat());
    link.tell(&[parsed(), bound(), complete("DEALLOCATE ALL"), parsed(), parsed(), bound()]);
    link.tell(&[error("26000", "prepared statement \"nothing\" does not exist"), ready()]);
    assert_eq!(link.client.text_of(b"t"), Some(&b"select 2"[..]), "its Close was skipped");
    assert_eq!(link.client.text_of(b""), Some(&b"select 0"[..]), "so was the query that ends it");
    assert!(!link.has("s"), "it was dropped");
}
