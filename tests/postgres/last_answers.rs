//! A client that ends its input gets the answers to what it has sent, as from PostgreSQL: behind Terminate, and behind a
//! `shutdown` of its sending side.

use std::time::Duration;

use weir_pgclient::Connection;
use weir_tests::{Batch, Mode, Setup, Site, eventually, until_quiet};

everywhere!(what_was_requested_is_answered_before_the_end, what_waits_for_more_of_the_client_ends_with_it,);

/// All that comes behind a batch, and the end.
fn answers(client: &mut Connection, batch: &Batch, half_close: bool) -> Vec<String> {
    // It has a server, or one is idle: who waits for one and closes its side leaves.
    client.query("SELECT 1").unwrap();
    client.send_bytes(batch.bytes()).unwrap();
    if half_close {
        client.shutdown_write().unwrap();
    }
    until_quiet(client, Duration::from_secs(20))
}

fn what_was_requested_is_answered_before_the_end(site: &Site) {
    let slow = "SELECT pg_sleep(0.3), 'slow'";
    for (name, batch, wanted) in [
        ("a query", Batch::new().query(slow), &["Row ,slow", "Complete SELECT 1", "Ready I"][..]),
        ("a query in a block", Batch::new().query("BEGIN").query(slow), &["Complete SELECT 1", "Ready T"]),
        ("a segment", Batch::new().run(slow, &[]).sync(), &["Complete SELECT 1", "Ready I"]),
        ("a flush", Batch::new().run(slow, &[]).flush(), &["Row ,slow", "Complete SELECT 1"]),
        (
            "a flush, and more",
            Batch::new().run(slow, &[]).flush().run("SELECT 2", &[]),
            &["Row ,slow", "Complete SELECT 1"],
        ),
        (
            "many",
            (0..40).fold(Batch::new(), |batch, n| batch.query(&format!("SELECT {n}"))),
            &["Row 39", "Complete SELECT 1", "Ready I"],
        ),
    ] {
        for half_close in [false, true] {
            let batch = if half_close { batch.clone() } else { batch.clone().terminate() };
            let found = answers(&mut site.connect(), &batch, half_close);
            let (last, end) = found.split_at(found.len() - 1);
            assert_eq!(end, ["Closed"], "{name}, {half_close}: {found:?}");
            assert!(
                last.ends_with(&wanted.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>()),
                "{name}, {half_close}: {found:?}"
            );
        }
    }
}

fn what_waits_for_more_of_the_client_ends_with_it(site: &Site) {
    let mut superuser = site.superuser();
    superuser.query_all("CREATE TABLE last (a int); GRANT ALL ON last TO PUBLIC").unwrap();
    for (name, batch) in [
        ("no sync", Batch::new().run("INSERT INTO last VALUES (1)", &[])),
        ("a block", Batch::new().query("BEGIN").query("INSERT INTO last VALUES (1)")),
        ("a copy", Batch::new().query("COPY last FROM STDIN").copy_data("1\n")),
        ("a half message", Batch::new().query("BEGIN").raw(b"Q\0\0\0\x20SEL")),
    ] {
        for half_close in [false, true] {
            let batch = if half_close { batch.clone() } else { batch.clone().terminate() };
            if name == "a half message" && !half_close {
                continue;
            }
            let found = answers(&mut site.connect(), &batch, half_close);
            assert_eq!(found.last().map(String::as_str), Some("Closed"), "{name}, {half_close}: {found:?}");
            assert_eq!(superuser.value("SELECT count(*) FROM last").unwrap().as_deref(), Some("0"), "{name}");
        }
    }
}

#[test]
fn in_auto_a_client_that_has_left_state_gets_its_last_answer_and_the_state_is_removed() {
    let site = Site::with(Setup::new(Mode::Auto).size(1).limit("max_pinned = 100"), Mode::Auto);
    for half_close in [false, true] {
        let batch = Batch::new().query("CREATE TEMP TABLE left_behind (a int)").query("SELECT 7");
        let batch = if half_close { batch } else { batch.terminate() };
        let found = answers(&mut site.connect(), &batch, half_close);
        assert_eq!(found[found.len() - 3..], ["Complete SELECT 1", "Ready I", "Closed"], "{found:?}");
        let mut next = site.connect();
        assert!(next.query("SELECT * FROM left_behind").is_err());
    }
}

/// Whoever has closed its side may have gone: its server is free again soon.
#[test]
fn a_client_that_has_gone_keeps_its_server_for_seconds() {
    let site = Site::transaction(1);
    let mut client = site.connect();
    client.send_bytes(Batch::new().query("SELECT pg_sleep(60)").bytes()).unwrap();
    eventually("it sleeps", || {
        let backends = site.database().backends();
        if backends.iter().any(|(_, state)| state == "active") { Ok(()) } else { Err(backends) }
    });
    drop(client);
    assert_eq!(site.connect().value("SELECT 1").unwrap().as_deref(), Some("1"));
}
