//! What a client resets, with more behind it that may see that.

use std::sync::Arc;

use weir_base::PoolMode;
use weir_pgwire::HEAD;

use super::rig::*;
use crate::{CancelKey, Client, ReplyWait, Server, StopReason};

const NOTHING: &str = "UNLISTEN \"\x01\"";

/// A client that has asked for a time zone and a path, and its server that has others by default.
fn asking(mode: PoolMode) -> Link {
    let mut link = Link::new(mode);
    let mut asked = link.params.unknown();
    link.params.set(&mut asked, "TimeZone", "Asia/Tokyo").unwrap();
    link.params.set(&mut asked, "search_path", "A, \"b\"").unwrap();
    let mut has = link.params.unknown();
    link.params.take_report(&mut has, "TimeZone", "UTC");
    link.client = Client::new(1, mode, Arc::new(asked));
    link.server = Some(Server::new(Arc::new(has), CancelKey::default()));
    link
}

fn text(sent: &[u8], tag: u8) -> String {
    let message = each(sent).into_iter().find(|message| message[0] == tag).expect("such a message");
    String::from_utf8_lossy(&message[HEAD..message.len() - 1]).into_owned()
}

const ZONE: &str = "SET TimeZone TO 'Asia/Tokyo'";
const PATH: &str = "SET search_path TO 'a','b'";

#[test]
fn what_a_query_resets_is_set_within_it() {
    for mode in [PoolMode::Transaction, PoolMode::Session] {
        for (asked, sent) in [
            ("RESET TimeZone;SHOW TimeZone", format!("RESET TimeZone;{NOTHING};{ZONE};SHOW TimeZone")),
            ("reset all ; show a", format!("reset all ;{NOTHING};{ZONE};{PATH}; show a")),
            ("set time zone local; show a", format!("{ZONE}; show a")),
            ("select 1;SET search_path = DEFAULT;select 2", format!("select 1;{PATH};select 2")),
            ("SET LOCAL TimeZone TO DEFAULT", "SET LOCAL TimeZone TO 'Asia/Tokyo'".into()),
            ("begin; set local time zone default", "begin; SET LOCAL TimeZone TO 'Asia/Tokyo'".into()),
            ("RESET TimeZone", "RESET TimeZone".into()),
            ("select 1; RESET ALL;", "select 1; RESET ALL;".into()),
            ("RESET work_mem; select 1", "RESET work_mem; select 1".into()),
            ("select 'RESET ALL;'; select 1", "select 'RESET ALL;'; select 1".into()),
        ] {
            let mut link = asking(mode);
            assert_eq!(text(&link.ask(&[query(asked)]), b'Q'), sent, "{asked}");
        }
    }
}

#[test]
fn its_client_sees_the_answers_to_its_own_commands() {
    let mut link = asking(PoolMode::Transaction);
    link.ask(&[query("unlisten a;RESET TimeZone;SET LOCAL TimeZone TO DEFAULT;unlisten b;SHOW TimeZone")]);
    let own = ["UNLISTEN", "RESET", "SET", "UNLISTEN", "SHOW"].map(complete);
    let answers = ["UNLISTEN", "RESET", "UNLISTEN", "SET", "SET", "UNLISTEN", "SHOW"].map(complete);
    assert_eq!(link.tell(&answers), own.concat());
    assert_eq!(link.tell(&[ready()]), ready());
    // A query that fails in the midst of it is over.
    link.ask(&[query("RESET ALL;SHOW TimeZone")]);
    let told = link.tell(&[complete("RESET"), complete("UNLISTEN"), error("22023", "invalid"), ready()]);
    assert_eq!(tags(&told), "CEZ");
    link.ask(&[query("set x = 1; unlisten b")]);
    assert_eq!(tags(&link.tell(&[complete("SET"), complete("UNLISTEN"), ready()])), "CCZ");
}

#[test]
fn one_query_at_a_time_has_other_commands() {
    let mut link = asking(PoolMode::Transaction);
    link.ask(&[query("select 1; select 2")]);
    assert_eq!(link.stopped(&[query("RESET ALL; select 1")]), StopReason::AwaitReplies(ReplyWait::TransactionStatus));
    link.tell(&[complete("SELECT 1"), complete("SELECT 1"), ready()]);
    link.ask(&[query("RESET ALL; select 1")]);
    assert_eq!(tags(&link.ask(&[query("select 1; select 2")])), "Q", "one that resets nothing does not wait");
}

#[test]
fn what_is_added_to_a_query_is_bounded() {
    let mut link = asking(PoolMode::Transaction);
    let mut long = link.params.unknown();
    link.params.set(&mut long, "application_name", &"x".repeat(1_000)).unwrap();
    link.client = Client::new(1, PoolMode::Transaction, Arc::new(long));
    let sent = link.ask(&[query(&"reset all;".repeat(800))]);
    assert!(sent.len() < 100 << 10, "{} bytes", sent.len());
    assert!(link.server().resets.is_pending(), "the rest is set again afterwards");
}

#[test]
fn what_a_pipeline_resets_is_set_within_it() {
    for mode in [PoolMode::Transaction, PoolMode::Session] {
        let mut link = asking(mode);
        let asked = [parse("", "RESET TimeZone"), bind(""), execute(), parse("", "SHOW TimeZone"), bind(""), execute()];
        let sent = link.ask(&[asked.concat(), sync()]);
        assert_eq!(tags(&sent), "PBEPBECCPBES");
        let setter = text(&each(&sent)[3..].concat(), b'P');
        assert_eq!(setter, format!("weir\x01set\0{ZONE}\0\0"));
        let own = [parsed(), bound(), complete("SET"), closed(), closed()];
        let first = [parsed(), bound(), complete("RESET")];
        let second = [parsed(), bound(), row_kind(), row("Asia/Tokyo"), complete("SHOW"), ready()];
        let told = link.tell(&[first.to_vec(), own.to_vec(), second[..2].to_vec(), second[3..].to_vec()].concat());
        assert_eq!(tags(&told), "12C12DCZ");
        assert!(link.server().is_quiet());
        let mut link = asking(mode);
        assert_eq!(
            tags(&link.ask(&[parse("", "RESET TimeZone"), bind(""), execute(), sync()])),
            "PBES",
            "nothing follows"
        );
    }
}

#[test]
fn what_is_reset_and_committed_before_an_error_is_set_again() {
    let mut link = asking(PoolMode::Transaction);
    link.ask(&[parse("", "DISCARD ALL"), bind(""), execute(), parse("", "selec"), sync()]);
    let failed = [parsed(), bound(), complete("DISCARD ALL"), error("42601", "syntax")];
    let told = link.tell(&[failed.to_vec(), vec![parameter("TimeZone", "UTC"), ready()]].concat());
    assert_eq!(tags(&told), "12CEZ", "to its client nothing has changed");
    assert_eq!(link.params.get(&link.client.params, "TimeZone"), Some("Asia/Tokyo"));
    let sent = link.ask(&[query("select 1")]);
    assert_eq!(tags(&sent), "PBECCPBECCSQ");
    assert!(text(&sent, b'P').contains(ZONE), "{}", text(&sent, b'P'));
    let own = [parsed(), bound(), complete("SET"), closed(), closed()].concat();
    let told = link.tell(&[
        own.clone(),
        own,
        parameter("TimeZone", "Asia/Tokyo"),
        ready(),
        row_kind(),
        row("1"),
        complete("SELECT 1"),
        ready(),
    ]);
    assert_eq!(tags(&told), "TDCZ", "our own segment is not seen");
}

#[test]
fn a_value_that_can_not_be_set_again_is_no_error_of_the_clients_next_request() {
    let mut link = asking(PoolMode::Session);
    link.ask(&[query("RESET ALL")]);
    link.tell(&[complete("RESET"), parameter("TimeZone", "UTC"), ready()]);
    let sent = link.ask(&[describe(""), sync()]);
    assert!(tags(&sent).starts_with("PBECC") && tags(&sent).ends_with("SDS"), "{}", tags(&sent));
    let told = link.tell(&[error("22023", "invalid value"), ready(), parameter_types(), row_kind(), ready()]);
    assert_eq!(tags(&told), "tTZ", "the client's unnamed statement is described");
    assert!(link.server().is_quiet());
}

#[test]
fn an_error_before_a_reset_is_none_of_it() {
    let mut link = asking(PoolMode::Transaction);
    link.ask(&[query("SET TimeZone = 'UTC'; selec")]);
    link.tell(&[complete("SET"), error("42601", "syntax"), ready()]);
    link.ask(&[query("SET TimeZone = 'UTC'")]);
    link.tell(&[complete("SET"), parameter("TimeZone", "UTC"), ready()]);
    link.ask(&[query("DISCARD ALL")]);
    // The value is the server's default, so that the server has nothing to report.
    let told = link.tell(&[complete("DISCARD ALL"), ready()]);
    assert_eq!(told, [complete("DISCARD ALL"), parameter("TimeZone", "Asia/Tokyo"), ready()].concat());
}

#[test]
fn a_local_reset_is_bound_as_the_value() {
    for mode in [PoolMode::Transaction, PoolMode::Session] {
        let mut link = asking(mode);
        let sent = link.ask(&[parse("", "SET LOCAL TimeZone TO DEFAULT"), bind(""), execute(), sync()]);
        let last = each(&sent).into_iter().rfind(|message| message[0] == b'P').unwrap();
        assert_eq!(text(&last, b'P'), "\0SET LOCAL TimeZone TO 'Asia/Tokyo'\0\0");
        let prepared = if mode == PoolMode::Session { vec![parsed()] } else { vec![parsed(), parsed()] };
        let told = link.tell(&[prepared, vec![bound(), complete("SET"), ready()]].concat());
        assert_eq!(tags(&told), "12CZ");
    }
}
