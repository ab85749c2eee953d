//! Which statement each request counts as, by every way that a text takes.

use weir_base::PoolMode;

use super::rig::*;

fn watched(mode: PoolMode) -> Link {
    let mut link = Link::new(mode);
    link.watch = Some(Watch::default());
    link
}

fn executed(link: &mut Link) -> Vec<(String, u64, bool)> {
    std::mem::take(&mut link.watch.as_mut().expect("watched").executed)
}

fn one(text: &str, rows: u64, failed: bool) -> (String, u64, bool) {
    (text.to_owned(), rows, failed)
}

#[test]
fn a_simple_query_counts_when_it_is_ready_with_the_rows_of_all_its_commands() {
    for mode in [PoolMode::Session, PoolMode::Transaction] {
        let mut link = watched(mode);
        link.ask(&[query("select 1; update t"), query("fails")]);
        link.tell(&[row("1"), complete("SELECT 1"), complete("UPDATE 4")]);
        assert_eq!(executed(&mut link), []);
        link.tell(&[ready(), error("42P01", "no table"), ready()]);
        assert_eq!(executed(&mut link), [one("select 1; update t", 5, false), one("fails", 0, true)]);
    }
}

#[test]
fn an_execute_counts_as_the_text_of_its_portal_named_or_not() {
    for (mode, max_prepared) in [(PoolMode::Session, 100), (PoolMode::Transaction, 100), (PoolMode::Transaction, 0)] {
        let mut link = watched(mode);
        link.rules.max_prepared = max_prepared;
        link.ask(&[parse("s", "select $1"), bind("s"), execute(), parse("", "delete"), bind(""), execute(), sync()]);
        link.tell(&[
            parsed(),
            bound(),
            row("1"),
            complete("SELECT 1"),
            parsed(),
            bound(),
            complete("DELETE 7"),
            ready(),
        ]);
        assert_eq!(executed(&mut link), [one("select $1", 1, false), one("delete", 7, false)]);
        link.ask(&[bind("s"), execute(), execute(), sync()]);
        link.tell(&[bound(), complete("SELECT 2"), complete("SELECT 3"), ready()]);
        assert_eq!(executed(&mut link), [one("select $1", 2, false), one("select $1", 3, false)]);
    }
}

#[test]
fn of_a_pipeline_that_fails_the_request_with_the_error_counts_and_what_was_skipped_does_not() {
    for mode in [PoolMode::Session, PoolMode::Transaction] {
        let mut link = watched(mode);
        link.ask(&[parse("", "selec"), bind(""), execute(), parse("", "select 2"), bind(""), execute(), sync()]);
        link.tell(&[error("42601", "syntax"), ready()]);
        assert_eq!(executed(&mut link), [one("selec", 0, true)]);
        link.ask(&[parse("", "select 3"), bind(""), execute(), sync()]);
        link.tell(&[parsed(), error("22P02", "of Bind"), ready()]);
        assert_eq!(executed(&mut link), [one("select 3", 0, true)]);
        link.ask(&[query("select 4")]);
        link.tell(&[complete("SELECT 1"), ready()]);
        assert_eq!(executed(&mut link), [one("select 4", 1, false)]);
    }
}

#[test]
fn an_execute_by_sql_counts_as_what_prepare_has_named() {
    let mut link = watched(PoolMode::Session);
    for text in ["prepare Q as select 5", "execute q", "execute other"] {
        link.ask(&[query(text)]);
        link.tell(&[complete("SELECT 5"), ready()]);
    }
    let wanted = [one("prepare Q as select 5", 5, false), one("select 5", 5, false), one("execute other", 5, false)];
    assert_eq!(executed(&mut link), wanted);
    let watch = link.watch.as_ref().expect("watched");
    assert_eq!(watch.executes, [("execute q".to_owned(), "select 5".to_owned())]);
}

#[test]
fn a_request_that_ends_with_a_rollback_says_so() {
    for mode in [PoolMode::Session, PoolMode::Transaction] {
        let mut link = watched(mode);
        link.ask(&[query("begin"), query("rollback"), query("rollback; select 1")]);
        link.tell(&[complete("BEGIN"), ready(), complete("ROLLBACK"), ready()]);
        link.tell(&[complete("ROLLBACK"), complete("SELECT 1"), ready()]);
        assert_eq!(link.watch.as_ref().expect("watched").rolled_back, 1);
    }
}

#[test]
fn what_the_server_sends_counts_for_the_request_that_it_answers_however_it_arrives() {
    let answer = [row_kind(), row("a long value"), complete("SELECT 1"), ready()].concat();
    for cut in 0..answer.len() {
        let mut link = watched(PoolMode::Transaction);
        link.ask(&[query("select 1")]);
        link.tell(&[answer[..cut].to_vec()]);
        link.tell(&[answer[cut..].to_vec()]);
        let watch = link.watch.as_ref().expect("watched");
        assert_eq!((watch.bytes, watch.executed.len()), (answer.len() as u64, 1), "{cut}");
    }
}

#[test]
fn a_text_counts_the_same_whether_it_comes_at_once_or_byte_by_byte() {
    let long = format!("select '{}'", "x".repeat(3000));
    for mode in [PoolMode::Session, PoolMode::Transaction] {
        let mut link = watched(mode);
        for byte in query(&long) {
            link.feed_client(&[byte]);
        }
        link.tell(&[complete("SELECT 1"), ready()]);
        assert_eq!(executed(&mut link), [one(&long, 1, false)]);
    }
}
