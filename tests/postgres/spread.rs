//! One pool over several workers: connections are lent, the limit is shared, and a wait ends wherever a server becomes
//! free.

use std::thread;

use weir_pgclient::Connection;
use weir_tests::{Mode, Setup, Site, eventually};

/// A pool of this many servers, whose clients alternate between two workers.
fn site(mode: Mode, size: u32) -> Site {
    Site::with(Setup::new(mode).workers(2).size(size).spread("always"), mode)
}

fn pair(site: &Site) -> (Connection, Connection) {
    (site.connect(), site.connect())
}

fn process(client: &mut Connection) -> String {
    client.value("SELECT pg_backend_pid()").unwrap().unwrap()
}

#[test]
fn one_server_serves_the_clients_of_both_workers() {
    let site = site(Mode::Transaction, 1);
    let (mut one, mut other) = pair(&site);
    let first = process(&mut one);
    for _ in 0..20 {
        assert_eq!(process(&mut other), first);
        assert_eq!(process(&mut one), first);
    }
    assert_eq!(site.database().backends().len(), 1);
}

#[test]
fn a_waiting_client_gets_the_server_that_a_client_of_another_worker_releases() {
    let site = site(Mode::Transaction, 1);
    let (mut one, mut other) = pair(&site);
    for _ in 0..5 {
        one.query("BEGIN").unwrap();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| other.value("SELECT 1"));
            site.weir().await_pool("a client waits", |pool| pool.get("cl_waiting") == 1);
            one.query("COMMIT").unwrap();
            assert_eq!(waiting.join().unwrap().unwrap().as_deref(), Some("1"));
        });
        std::mem::swap(&mut one, &mut other);
    }
}

#[test]
fn the_limit_is_one_for_all_workers() {
    let site = site(Mode::Transaction, 3);
    thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| {
                let mut client = site.connect();
                for _ in 0..30 {
                    client.query("BEGIN; SELECT pg_sleep(0.001); COMMIT").unwrap();
                }
            });
        }
        for _ in 0..20 {
            // As the server counts them: one that moves while workers report is counted by both, or by none.
            let there = site.database().backends().len();
            assert!(there <= 3, "{there} servers");
        }
    });
}

#[test]
fn what_a_client_has_set_and_prepared_follows_it_on_servers_that_move() {
    let site = site(Mode::Transaction, 1);
    let (mut one, mut other) = pair(&site);
    one.query("SET TimeZone = 'Asia/Tokyo'").unwrap();
    other.query("SET TimeZone = 'America/Lima'").unwrap();
    for _ in 0..10 {
        assert_eq!(one.value("SHOW TimeZone").unwrap().as_deref(), Some("Asia/Tokyo"));
        assert_eq!(other.value("SHOW TimeZone").unwrap().as_deref(), Some("America/Lima"));
    }
}

#[test]
fn a_cancel_finds_a_query_on_a_server_that_is_lent() {
    let site = site(Mode::Transaction, 1);
    let (mut one, mut other) = pair(&site);
    for client in [&mut one, &mut other] {
        let canceller = client.canceller();
        thread::scope(|scope| {
            let asked = scope.spawn(|| client.query("SELECT pg_sleep(60)"));
            eventually("it is cancelled", || {
                let _ = canceller.cancel();
                if asked.is_finished() { Ok(()) } else { Err("it runs") }
            });
            let error = asked.join().unwrap().unwrap_err();
            assert_eq!(error.sqlstate(), Some("57014"), "{error}");
        });
    }
}

#[test]
fn a_server_that_is_killed_while_it_is_lent_is_replaced() {
    let site = site(Mode::Transaction, 1);
    let (mut one, mut other) = pair(&site);
    let direct = Site::direct();
    for _ in 0..4 {
        let there = process(&mut one);
        let mut admin = Connection::connect(&direct.params()).unwrap();
        admin.query(&format!("SELECT pg_terminate_backend({there}, 5000)")).unwrap();
        eventually("the other is served by a new one", || match other.value("SELECT pg_backend_pid()") {
            Ok(Some(next)) if next != there => Ok(()),
            outcome => Err(format!("{outcome:?}")),
        });
        std::mem::swap(&mut one, &mut other);
    }
}

#[test]
fn pause_and_reconnect_reach_servers_that_are_lent() {
    let site = site(Mode::Transaction, 2);
    let (mut one, mut other) = pair(&site);
    let before = [process(&mut one), process(&mut other)];
    site.weir().command("PAUSE app").unwrap();
    assert_eq!(site.weir().pool("app").servers(), 0, "they are closed as they become free");
    site.weir().command("RESUME app").unwrap();
    let after = [process(&mut one), process(&mut other)];
    assert!(before.iter().all(|process| !after.contains(process)));
    site.weir().command("RECONNECT app").unwrap();
    let last = [process(&mut one), process(&mut other)];
    assert!(after.iter().all(|process| !last.contains(process)));
}

#[test]
fn a_client_that_waits_too_long_at_either_worker_gets_the_error_of_a_full_pool() {
    let setup = Setup::new(Mode::Transaction).workers(2).size(1).spread("always");
    let site = Site::with(setup.pool("query_wait_timeout = \"500ms\""), Mode::Transaction);
    for _ in 0..2 {
        let (mut holder, mut waiter) = pair(&site);
        holder.query("BEGIN").unwrap();
        let error = waiter.value("SELECT 1").unwrap_err().server().expect("by words").clone();
        assert_eq!((error.sqlstate.as_str(), error.message.as_str()), ("57014", "query_wait_timeout"));
        assert!(error.detail.unwrap().starts_with("1 of 1 servers are in use"));
        holder.query("COMMIT").unwrap();
        // The next pair is the other way round.
        drop(site.connect());
    }
}
