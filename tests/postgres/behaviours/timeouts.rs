//! Behaviour 16: what each timeout counts, and its effect.

use std::thread;
use std::time::Duration;

use weir_tests::{Batch, Ini, Mode, Site, ask, eventually, until_quiet};

use super::{TIMEOUT, await_busy, server, servers, tapped};

/// Longer than the timeouts of these tests, which are a second.
const LONGER: Duration = Duration::from_millis(2500);

#[test]
fn behaviour_16_query_timeout_closes_and_does_not_cancel() {
    for mode in [Mode::Session, Mode::Transaction] {
        let (site, tap) = tapped(Ini::of(mode).set("query_timeout", 1));
        let mut client = site.connect();
        let own = server(&mut client);
        client.send_bytes(Batch::new().query("SELECT pg_sleep(4)").bytes()).unwrap();
        let transcript = until_quiet(&mut client, TIMEOUT);
        assert_eq!(transcript, ["Error 08P01 query timeout", "Closed"], "{mode}");
        assert_eq!(tap.cancels(), 0);
        // PostgreSQL gets no message: it sleeps on, and notices when it sends something.
        assert!(servers(&site).contains(&own));
        assert_ne!(server(&mut site.connect()), own, "no other client gets that server");
    }
}

#[test]
fn behaviour_16_query_timeout_counts_each_query_separately() {
    let site = Site::ini(&Ini::transaction(1).set("query_timeout", 2));
    let mut client = site.connect();
    client.query("BEGIN").unwrap();
    for _ in 0..5 {
        client.query("SELECT pg_sleep(0.6)").unwrap();
    }
    client.query("COMMIT").unwrap();
}

#[test]
fn behaviour_16_client_idle_timeout_applies_to_unlinked_clients() {
    // In session mode a client is linked from its first query on, in transaction mode within a transaction.
    let site = Site::ini(&Ini::new().set("client_idle_timeout", 1));
    let mut linked = site.connect();
    let own = server(&mut linked);
    let mut unlinked = site.connect();
    let transcript = until_quiet(&mut unlinked, TIMEOUT);
    assert_eq!(transcript, ["Error 08P01 client_idle_timeout", "Closed"]);
    thread::sleep(LONGER);
    assert_eq!(server(&mut linked), own);

    let site = Site::ini(&Ini::transaction(1).set("client_idle_timeout", 1));
    let mut client = site.connect();
    client.query("BEGIN").unwrap();
    thread::sleep(LONGER);
    client.query("COMMIT").unwrap();
    let transcript = until_quiet(&mut client, TIMEOUT);
    assert_eq!(transcript, ["Error 08P01 client_idle_timeout", "Closed"]);
}

#[test]
fn behaviour_16_a_client_that_waits_for_a_server_is_not_idle() {
    let site = Site::ini(&Ini::transaction(1).set("client_idle_timeout", 1));
    let mut holder = site.connect();
    holder.query("BEGIN").unwrap();
    let mut waiting = site.connect();
    thread::scope(|scope| {
        let query = scope.spawn(|| waiting.value("SELECT 'at last'"));
        thread::sleep(LONGER);
        holder.query("COMMIT").unwrap();
        assert_eq!(query.join().unwrap().unwrap().as_deref(), Some("at last"));
    });
}

#[test]
fn behaviour_16_idle_transaction_timeout_counts_from_the_servers_last_packet() {
    for mode in [Mode::Session, Mode::Transaction] {
        let site = Site::ini(&Ini::of(mode).set("idle_transaction_timeout", 1));
        let mut client = site.connect();
        client.query("BEGIN").unwrap();
        // A long query is not idle, and after it the time starts again.
        client.query("SELECT pg_sleep(2.2)").unwrap();
        for _ in 0..4 {
            thread::sleep(Duration::from_millis(400));
            client.query("SELECT 1").unwrap();
        }
        let own = server(&mut client);
        let transcript = until_quiet(&mut client, TIMEOUT);
        assert_eq!(transcript, ["Error 08P01 idle transaction timeout", "Closed"], "{mode}");
        super::await_gone(&site, &own);
    }
    // Outside of a transaction the timeout does not apply.
    let site = Site::ini(&Ini::new().set("idle_transaction_timeout", 1));
    let mut client = site.connect();
    let own = server(&mut client);
    thread::sleep(LONGER);
    assert_eq!(server(&mut client), own);
}

#[test]
fn behaviour_16_a_failed_transaction_idles_too() {
    let site = Site::ini(&Ini::transaction(1).set("idle_transaction_timeout", 1));
    let mut client = site.connect();
    client.query("BEGIN").unwrap();
    assert!(client.query("SELECT 1/0").is_err());
    let transcript = until_quiet(&mut client, TIMEOUT);
    assert_eq!(transcript, ["Error 08P01 idle transaction timeout", "Closed"]);
}

#[test]
fn behaviour_16_transaction_timeout_counts_the_whole_transaction() {
    let site = Site::ini(&Ini::transaction(1).set("transaction_timeout", 2));
    let mut client = site.connect();
    let own = server(&mut client);
    // Busy all the time, but still closed.
    let transcript = eventually("it is closed", || {
        let mut client = site.connect();
        client.query("BEGIN").unwrap();
        let mut last = Vec::new();
        for _ in 0..40 {
            if client.send_bytes(Batch::new().query("SELECT pg_sleep(0.1)").bytes()).is_err() {
                break;
            }
            last = until_quiet(&mut client, Duration::from_millis(150));
            if last.last().is_some_and(|line| line == "Closed") {
                break;
            }
        }
        if last.iter().any(|line| line.starts_with("Error")) { Ok(last) } else { Err(last) }
    });
    assert_eq!(transcript.iter().find(|line| line.starts_with("Error")).unwrap(), "Error 08P01 transaction timeout");
    super::await_gone(&site, &own);
    // Single queries are no transactions.
    for _ in 0..5 {
        client.query("SELECT pg_sleep(0.6)").unwrap();
    }
}

#[test]
fn behaviour_16_query_wait_timeout_ends_a_wait_and_the_notice_comes_before() {
    let site = Site::ini(&Ini::transaction(1).set("query_wait_timeout", 3).set("query_wait_notify", 1));
    let mut holder = site.connect();
    holder.query("BEGIN").unwrap();
    let mut waiting = site.connect();
    waiting.send_bytes(Batch::new().query("SELECT 1").bytes()).unwrap();
    let transcript = until_quiet(&mut waiting, TIMEOUT);
    assert!(transcript[0].starts_with("Notice "), "{transcript:?}");
    assert_eq!(transcript[1..], ["Error 08P01 query_wait_timeout", "Closed"]);
    holder.query("COMMIT").unwrap();
}

#[test]
fn behaviour_16_timeouts_of_a_user_take_precedence_over_the_general_ones() {
    let ini = Ini::transaction(2).set("query_timeout", 30).user("app", "query_timeout=1 idle_transaction_timeout=1");
    let site = Site::ini(&ini);
    let mut client = site.connect();
    client.send_bytes(Batch::new().query("SELECT pg_sleep(4)").bytes()).unwrap();
    assert_eq!(until_quiet(&mut client, TIMEOUT), ["Error 08P01 query timeout", "Closed"]);
    let mut client = site.connect();
    ask(&mut client, &Batch::new().query("BEGIN"), 1);
    assert_eq!(until_quiet(&mut client, TIMEOUT), ["Error 08P01 idle transaction timeout", "Closed"]);
    let mut other = weir_pgclient::Connection::connect(&site.params_of(weir_tests::users::OTHER)).unwrap();
    other.query("BEGIN").unwrap();
    other.query("SELECT pg_sleep(1.5)").unwrap();
    thread::sleep(LONGER);
    other.query("COMMIT").unwrap();
}

#[test]
fn behaviour_16_a_query_that_ends_in_time_is_left_alone() {
    let (site, tap) = tapped(Ini::transaction(1).set("query_timeout", 5));
    let mut client = site.connect();
    thread::scope(|scope| {
        let query = scope.spawn(|| client.value("SELECT 'in time' FROM pg_sleep(1)"));
        await_busy(&site, 1);
        assert_eq!(query.join().unwrap().unwrap().as_deref(), Some("in time"));
    });
    assert_eq!(tap.cancels(), 0);
}
