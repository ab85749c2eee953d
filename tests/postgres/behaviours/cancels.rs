//! Behaviours 10 and 11: cancel requests, and peers that would forward them.

use std::process::Command;
use std::thread;

use weir_pgclient::{Canceller, Connection};
use weir_tests::{Ini, Mode, Site, eventually, weir_binary};

use super::{SHORT, await_busy, await_gone, server, servers, tapped, waits};

const SLOW: &str = "SELECT pg_sleep(60)";

/// Sends a request without waiting for its end.
fn cancel<'scope>(scope: &'scope thread::Scope<'scope, '_>, canceller: &Canceller) {
    let canceller = canceller.clone();
    // A request without a running query may be refused.
    scope.spawn(move || drop(canceller.cancel()));
}

#[test]
fn behaviour_10_cancels_have_connections_of_their_own_beside_a_full_pool() {
    for mode in [Mode::Session, Mode::Transaction] {
        let (site, tap) = tapped(Ini::of(mode).set("default_pool_size", 2));
        let mut clients = [site.connect(), site.connect()];
        let cancellers: Vec<_> = clients.iter().map(Connection::canceller).collect();
        thread::scope(|scope| {
            let queries: Vec<_> = clients.iter_mut().map(|client| scope.spawn(|| client.query(SLOW))).collect();
            await_busy(&site, 2);
            cancellers.iter().for_each(|canceller| cancel(scope, canceller));
            for query in queries {
                assert_eq!(query.join().unwrap().unwrap_err().sqlstate(), Some("57014"));
            }
        });
        assert_eq!(tap.cancels(), 2);
        let [first, second] = &mut clients;
        assert_eq!(first.value("SELECT 'alive'").unwrap().as_deref(), Some("alive"));
        assert_eq!(second.value("SELECT 'alive'").unwrap().as_deref(), Some("alive"));
    }
}

#[test]
fn behaviour_10_no_more_cancels_run_at_once_than_twice_the_pools_size() {
    let (site, tap) = tapped(Ini::transaction(1));
    let mut client = site.connect();
    let canceller = client.canceller();
    tap.hold_cancels(true);
    thread::scope(|scope| {
        let query = scope.spawn(|| client.query(SLOW));
        await_busy(&site, 1);
        for _ in 0..10 {
            cancel(scope, &canceller);
        }
        eventually("the first is on its way", || if tap.cancels_now() > 0 { Ok(()) } else { Err("none") });
        thread::sleep(SHORT);
        assert!(tap.cancels_now() <= 2, "{} at once", tap.cancels_now());
        let waiting = site.weir().pool("app");
        let requests = waiting.get("cl_active_cancel_req") + waiting.get("cl_waiting_cancel_req");
        assert!(requests >= 1, "they are seen: {waiting:?}");
        tap.hold_cancels(false);
        assert_eq!(query.join().unwrap().unwrap_err().sqlstate(), Some("57014"));
    });
}

#[test]
fn behaviour_10_a_late_cancel_cannot_hit_another_client() {
    let (site, tap) = tapped(Ini::transaction(1));
    let (mut client, mut other_client) = (site.connect(), site.connect());
    let canceller = client.canceller();
    tap.hold_cancels(true);
    thread::scope(|scope| {
        let query = scope.spawn(|| client.value("SELECT 'done' FROM pg_sleep(1)"));
        await_busy(&site, 1);
        cancel(scope, &canceller);
        eventually("the request is on its way", || if tap.cancels_now() == 1 { Ok(()) } else { Err("not yet") });
        // The query ends before the request arrives.
        assert_eq!(query.join().unwrap().unwrap().as_deref(), Some("done"));
        let next = scope.spawn(|| other_client.value("SELECT 'undisturbed' FROM pg_sleep(0.3)"));
        waits(&next);
        assert_eq!(site.weir().pool("app").get("cl_waiting"), 1, "its server waits for the end of the cancel");
        tap.hold_cancels(false);
        assert_eq!(next.join().unwrap().unwrap().as_deref(), Some("undisturbed"));
    });
}

#[test]
fn behaviour_10_a_cancel_whose_client_has_left_cannot_hit_the_next() {
    for mode in [Mode::Session, Mode::Transaction] {
        let (site, tap) = tapped(Ini::of(mode).set("default_pool_size", 1));
        let mut client = site.connect();
        let canceller = client.canceller();
        let own = server(&mut client);
        tap.hold_cancels(true);
        thread::scope(|scope| {
            let query = scope.spawn(move || {
                let value = client.value("SELECT 'done' FROM pg_sleep(1)");
                drop(client);
                value
            });
            await_busy(&site, 1);
            cancel(scope, &canceller);
            eventually("the request is on its way", || if tap.cancels_now() == 1 { Ok(()) } else { Err("not yet") });
            assert_eq!(query.join().unwrap().unwrap().as_deref(), Some("done"));
            let next = scope.spawn(|| site.connect().value("SELECT pg_backend_pid() FROM pg_sleep(0.3)"));
            thread::sleep(SHORT);
            let others: Vec<_> = servers(&site).into_iter().filter(|pid| *pid != own).collect();
            assert!(!next.is_finished() || !others.is_empty(), "it did not get the server that is being cancelled");
            tap.hold_cancels(false);
            next.join().unwrap().unwrap().expect("it is served");
        });
    }
}

#[test]
fn behaviour_10_a_cancel_is_ignored_when_its_client_runs_nothing() {
    for mode in [Mode::Session, Mode::Transaction] {
        let (site, tap) = tapped(Ini::of(mode).set("default_pool_size", 1));
        let mut client = site.connect();
        client.query("SELECT 1").unwrap();
        client.canceller().cancel().unwrap();
        client.query("BEGIN").unwrap();
        client.canceller().cancel().unwrap();
        assert_eq!(client.value("SELECT 'undisturbed'").unwrap().as_deref(), Some("undisturbed"));
        client.query("COMMIT").unwrap();
        assert_eq!(tap.cancels(), 0, "no connection was made for it");
    }
}

#[test]
fn behaviour_10_a_cancel_that_takes_too_long_closes_its_server() {
    let (site, tap) = tapped(Ini::transaction(1).set("cancel_wait_timeout", 1));
    let mut client = site.connect();
    let canceller = client.canceller();
    let own = server(&mut client);
    tap.hold_cancels(true);
    thread::scope(|scope| {
        let query = scope.spawn(|| client.value("SELECT 'done' FROM pg_sleep(0.5)"));
        await_busy(&site, 1);
        cancel(scope, &canceller);
        let _ = query.join().unwrap();
        let mut next = site.connect();
        assert_ne!(server(&mut next), own, "a server that may still be hit is not reused");
    });
    await_gone(&site, &own);
    tap.hold_cancels(false);
}

#[test]
fn behaviour_11_a_cancel_of_ones_own_works_beside_peers_that_are_away() {
    let peers = "[peers]\n1 = host=/tmp/peer1\n2 = host=127.0.0.1 port=6433 pool_size=5\n";
    let ini = Ini::transaction(1).set("peer_id", 1).set("so_reuseport", 1).sections(peers);
    let site = Site::ini(&ini);
    // Weir still serves clients, and handles its own cancels.
    let mut client = site.connect();
    let canceller = client.canceller();
    thread::scope(|scope| {
        let query = scope.spawn(|| client.query(SLOW));
        await_busy(&site, 1);
        cancel(scope, &canceller);
        assert_eq!(query.join().unwrap().unwrap_err().sqlstate(), Some("57014"));
    });
    let file = site.weir().folder().join("pgbouncer.ini");
    let check = Command::new(weir_binary()).arg("check").arg(&file).output().unwrap();
    let sent = String::from_utf8_lossy(&check.stdout).into_owned() + &String::from_utf8_lossy(&check.stderr);
    assert!(check.status.success(), "{sent}");
    assert!(!sent.contains("peer"), "{sent}");
    assert_eq!(site.weir().show("PEERS").rows.len(), 2);
    assert!(site.weir().show("PEER_POOLS").rows.is_empty(), "nothing was passed on");
}
