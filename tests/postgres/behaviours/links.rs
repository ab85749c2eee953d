//! Behaviours 1 to 3: how long a server stays linked, the effect of a client that leaves, and the queries at release.

use std::thread;

use weir_tests::{Batch, Ini, Mode, Site, ask, eventually, until_quiet};

use super::{TIMEOUT, await_free, await_gone, server, tapped, waits};

#[test]
fn behaviour_01_after_an_error_in_a_transaction_the_server_stays_linked() {
    for extended in [false, true] {
        let site = Site::ini(&Ini::transaction(1));
        let mut client = site.connect();
        client.query("BEGIN").unwrap();
        let own = server(&mut client);
        let wrong =
            if extended { Batch::new().run("SELECT 1/0", &[]).sync() } else { Batch::new().query("SELECT 1/0") };
        assert_eq!(ask(&mut client, &wrong, 1).last().unwrap(), "Ready E");
        let mut other = site.connect();
        thread::scope(|scope| {
            let query = scope.spawn(|| server(&mut other));
            waits(&query);
            assert_eq!(site.weir().pool("app").get("sv_active"), 1);
            let transcript = ask(&mut client, &Batch::new().query("SELECT 1"), 1);
            assert!(transcript[0].starts_with("Error 25P02"), "{transcript:?}");
            client.query("ROLLBACK").unwrap();
            assert_eq!(query.join().unwrap(), own, "the server was released, not replaced");
        });
        assert_eq!(client.value("SELECT 'continues'").unwrap().as_deref(), Some("continues"));
    }
}

#[test]
fn behaviour_01_in_statement_mode_a_transaction_is_an_error_that_closes_both_sides() {
    let site = Site::ini(&Ini::of(Mode::Statement).set("default_pool_size", 1));
    for batch in [
        Batch::new().query("BEGIN"),
        Batch::new().query("SELECT 1; START TRANSACTION"),
        Batch::new().run("BEGIN", &[]).sync(),
    ] {
        let mut client = site.connect();
        let before = server(&mut client);
        client.send_bytes(batch.bytes()).unwrap();
        let transcript = until_quiet(&mut client, TIMEOUT);
        let reported = "Error 08P01 transaction blocks not allowed in statement pooling mode";
        assert!(transcript.iter().any(|line| line == reported), "{transcript:?}");
        assert_eq!(transcript.last().unwrap(), "Closed", "{transcript:?}");
        await_gone(&site, &before);
    }
    // An error outside of a transaction closes nothing.
    let mut client = site.connect();
    let before = server(&mut client);
    assert!(client.query("SELECT 1/0").is_err());
    assert_eq!(server(&mut client), before);
}

#[test]
fn behaviour_02_a_client_that_leaves_within_a_transaction_closes_its_server_and_no_rollback_is_sent() {
    for mode in [Mode::Session, Mode::Transaction] {
        for failed in [false, true] {
            let (site, tap) = tapped(Ini::of(mode));
            let mut client = site.connect();
            client.query_all("CREATE TABLE unfinished (n int)").unwrap();
            client.query_all("BEGIN; INSERT INTO unfinished VALUES (1)").unwrap();
            let own = server(&mut client);
            assert!(!failed || client.query("SELECT 1/0").is_err());
            // With a Terminate message.
            client.close().unwrap();
            await_gone(&site, &own);
            let mut next = site.connect();
            assert_eq!(next.value("SELECT count(*) FROM unfinished").unwrap().as_deref(), Some("0"));
            let cleaning = |line: &String| line.contains("ROLLBACK") || line.contains("ABORT");
            assert!(!tap.sent().iter().any(cleaning), "{:?}", tap.sent());
        }
    }
}

#[test]
fn behaviour_02_a_client_that_leaves_with_pending_replies_closes_its_server() {
    for mode in [Mode::Session, Mode::Transaction, Mode::Statement] {
        let site = Site::ini(&Ini::of(mode));
        for batch in [
            Batch::new().query("SELECT pg_sleep(1)"),
            Batch::new().run("SELECT pg_sleep(1)", &[]).sync(),
            // Complete except for its Sync: the server waits for it, and its replies are pending.
            Batch::new().run("SELECT 1", &[]).flush(),
        ] {
            let mut client = site.connect();
            let own = server(&mut client);
            client.send_bytes(batch.bytes()).unwrap();
            eventually("it is on its server", || match site.weir().pool("app").get("sv_active") {
                1 => Ok(()),
                other => Err(other),
            });
            drop(client);
            await_free(&site);
            assert_ne!(server(&mut site.connect()), own, "{mode}");
        }
    }
}

#[test]
fn behaviour_02_a_client_that_leaves_in_the_middle_of_a_message_closes_its_server() {
    for mode in [Mode::Session, Mode::Transaction] {
        let site = Site::ini(&Ini::of(mode));
        let mut client = site.connect();
        let own = server(&mut client);
        let long = Batch::new().query(&format!("SELECT length('{}')", "x".repeat(300_000)));
        client.send_bytes(&long.bytes()[..200_000]).unwrap();
        eventually("a part of it is on its server", || match site.weir().pool("app").get("sv_active") {
            1 => Ok(()),
            other => Err(other),
        });
        drop(client);
        await_gone(&site, &own);
    }
}

#[test]
fn behaviour_02_a_client_that_leaves_between_queries_closes_no_server() {
    for mode in [Mode::Session, Mode::Transaction, Mode::Statement] {
        let site = Site::ini(&Ini::of(mode));
        let mut client = site.connect();
        let own = server(&mut client);
        assert!(client.query("SELECT 1/0").is_err());
        ask(&mut client, &Batch::new().run("SELECT 1", &[]).sync(), 1);
        drop(client);
        await_free(&site);
        assert_eq!(server(&mut site.connect()), own, "{mode}");
    }
}

/// How often this query ran on the servers, once they are free again.
fn times(site: &Site, tap: &weir_tests::Tap, sql: &str, wanted: usize) {
    await_free(site);
    let line = format!("Query {sql}");
    eventually("the reset query ran so often", || match tap.times(&line) {
        count if count == wanted => Ok(()),
        count => Err((count, tap.sent())),
    });
}

#[test]
fn behaviour_03_the_reset_query_runs_in_session_mode_at_release_and_not_before() {
    let (site, tap) = tapped(Ini::new());
    let mut client = site.connect();
    client.query("SET work_mem = '77MB'").unwrap();
    for _ in 0..3 {
        client.query_all("BEGIN; COMMIT").unwrap();
    }
    let own = server(&mut client);
    times_while_linked(&tap);
    drop(client);
    times(&site, &tap, "DISCARD ALL", 1);
    let mut next = site.connect();
    assert_eq!(server(&mut next), own, "it is used again");
    assert_eq!(next.value("SHOW work_mem").unwrap().as_deref(), Some("4MB"));
    drop(next);
    times(&site, &tap, "DISCARD ALL", 2);
}

#[track_caller]
fn times_while_linked(tap: &weir_tests::Tap) {
    assert_eq!(tap.times("Query DISCARD ALL"), 0, "{:?}", tap.sent());
}

#[test]
fn behaviour_03_the_reset_query_does_not_run_in_the_other_modes() {
    for mode in super::SHARING {
        let (site, tap) = tapped(Ini::of(mode).set("default_pool_size", 1));
        let mut client = site.connect();
        client.query("SET work_mem = '77MB'").unwrap();
        let own = server(&mut client);
        drop(client);
        await_free(&site);
        let mut next = site.connect();
        assert_eq!(server(&mut next), own);
        // As in PgBouncer: the next client finds the state, unless on_dirty says otherwise.
        assert_eq!(next.value("SHOW work_mem").unwrap().as_deref(), Some("77MB"));
        times_while_linked(&tap);
    }
}

#[test]
fn behaviour_03_server_reset_query_always_runs_it_at_each_release() {
    for mode in super::SHARING {
        let (site, tap) = tapped(Ini::of(mode).set("default_pool_size", 1).set("server_reset_query_always", 1));
        let mut client = site.connect();
        for round in 1..=3 {
            client.query("SET work_mem = '77MB'").unwrap();
            times(&site, &tap, "DISCARD ALL", round);
        }
        let value = client.value("SHOW work_mem").unwrap();
        assert_eq!(value.as_deref(), Some("4MB"), "{mode}");
    }
}

#[test]
fn behaviour_03_the_reset_query_is_configurable_and_may_be_empty() {
    let (site, tap) = tapped(Ini::new().set("server_reset_query", "RESET work_mem"));
    let mut client = site.connect();
    client.query_all("SET work_mem = '77MB'; SET maintenance_work_mem = '78MB'").unwrap();
    drop(client);
    times(&site, &tap, "RESET work_mem", 1);
    let mut next = site.connect();
    assert_eq!(next.value("SHOW work_mem").unwrap().as_deref(), Some("4MB"));
    assert_eq!(next.value("SHOW maintenance_work_mem").unwrap().as_deref(), Some("78MB"));
    times_while_linked(&tap);

    let (site, tap) = tapped(Ini::new().set("server_reset_query", ""));
    let mut client = site.connect();
    client.query("SET work_mem = '77MB'").unwrap();
    drop(client);
    await_free(&site);
    assert_eq!(site.connect().value("SHOW work_mem").unwrap().as_deref(), Some("77MB"));
    times_while_linked(&tap);
}

#[test]
fn behaviour_03_errors_of_the_reset_query_are_ignored() {
    let (site, tap) = tapped(Ini::new().set("server_reset_query", "SELECT 1/0"));
    let mut client = site.connect();
    let own = server(&mut client);
    drop(client);
    times(&site, &tap, "SELECT 1/0", 1);
    let mut next = site.connect();
    assert_eq!(server(&mut next), own, "the server is used all the same");
    assert_eq!(ask(&mut next, &Batch::new().query("SELECT 1"), 1)[1], "Row 1", "nothing of it reaches a client");
}
