//! Servers that die: one backend, all of them, PostgreSQL as a whole.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weir_pgclient::{Connection, Error};
use weir_pglocal::{Signal, send_signal};
use weir_tests::{Batch, Ini, Mode, Postgres, Setup, Site, eventually, users};

const KILL_ALL: &str = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                        WHERE datname = current_database() AND usename = 'app'";

fn setup(size: u32) -> Setup {
    Setup::new(Mode::Transaction).size(size).pool("server_login_retry = \"300ms\"")
}

/// A client that keeps sending queries gets an answer again.
#[track_caller]
fn recovers(site: &Site) {
    eventually("served again", || Connection::connect(&site.params())?.value("SELECT 1"));
}

#[test]
fn an_idle_server_that_dies_is_not_used() {
    let site = Site::with(setup(3), Mode::Transaction);
    let mut client = site.connect();
    for _ in 0..5 {
        client.query("SELECT 1").unwrap();
        site.superuser().query(KILL_ALL).unwrap();
        site.weir().await_pool("the pool knows", |pool| pool.servers() == 0);
        assert_eq!(client.value("SELECT 'unaware'").unwrap().as_deref(), Some("unaware"));
    }
}

#[test]
fn a_client_whose_server_dies_gets_the_servers_last_error() {
    let site = Site::with(setup(2), Mode::Transaction);
    let mut client = site.connect();
    let error = thread::scope(|scope| {
        let query = scope.spawn(|| client.query("SELECT pg_sleep(60)").unwrap_err());
        eventually("it runs", || {
            let backends = site.database().backends();
            if backends.iter().any(|(_, state)| state == "active") { Ok(()) } else { Err(backends) }
        });
        site.superuser().query(KILL_ALL).unwrap();
        query.join().unwrap()
    });
    assert_eq!(error.sqlstate(), Some("57P01"), "{error}");
    recovers(&site);
}

#[test]
fn a_transaction_whose_server_dies_is_not_continued_on_another() {
    let site = Site::with(setup(2), Mode::Transaction);
    let mut client = site.connect();
    client.query("CREATE TABLE t (n int)").unwrap();
    client.query_all("BEGIN; INSERT INTO t VALUES (1)").unwrap();
    site.superuser().query(KILL_ALL).unwrap();
    assert!(client.query("INSERT INTO t VALUES (2)").is_err());
    // Whether the client itself stays connected is up to Weir; nothing may be written outside of its transaction.
    let _ = client.query("COMMIT");
    let mut next = site.connect();
    assert_eq!(next.value("SELECT count(*) FROM t").unwrap().as_deref(), Some("0"));
}

#[test]
fn backends_killed_by_sigkill_end_their_clients_and_no_others() {
    let postgres = Postgres::private();
    let site = Site::on(&postgres, setup(4), Mode::Transaction);
    for _ in 0..3 {
        let mut clients: Vec<_> = (0..4).map(|_| site.connect()).collect();
        for client in &mut clients {
            client.query("BEGIN").unwrap();
        }
        let victim = site.database().backends()[0].0;
        send_signal(victim, Signal::SIGKILL);
        // PostgreSQL ends all others and recovers, as after a crash of its own.
        for client in &mut clients {
            eventually("its server is lost", || if client.query("SELECT 1").is_err() { Ok(()) } else { Err(()) });
        }
        recovers(&site);
    }
}

#[test]
fn a_restart_of_postgresql_is_survived_by_idle_clients() {
    let postgres = Postgres::private();
    let site = Site::on(&postgres, setup(3), Mode::Transaction);
    let mut clients: Vec<_> = (0..10).map(|_| site.connect()).collect();
    clients.iter_mut().for_each(|client| drop(client.query("SELECT 1").unwrap()));
    // A login that the restart ends is a failure, and the next clients get its error.
    site.weir().await_pool("no server logs in", |pool| pool.get("sv_login") == 0);
    postgres.server().restart().unwrap();
    for client in &mut clients {
        let answer = client.value("SELECT 'still here'");
        assert_eq!(answer.unwrap().as_deref(), Some("still here"));
    }
}

#[test]
fn a_session_ends_with_its_server_and_the_next_one_starts_clean() {
    let postgres = Postgres::private();
    let site = Site::on(&postgres, Setup::new(Mode::Session).size(3), Mode::Session);
    let mut clients: Vec<_> = (0..3).map(|_| site.connect()).collect();
    clients.iter_mut().for_each(|client| drop(client.query("SET work_mem = '77MB'").unwrap()));
    thread::scope(|scope| {
        let mut waiting = site.connect();
        let waiter = scope.spawn(move || waiting.value("SHOW work_mem"));
        site.weir().await_pool("one waits", |pool| pool.get("cl_waiting") == 1);
        postgres.server().restart().unwrap();
        for client in &mut clients {
            assert!(client.query("SHOW work_mem").is_err(), "its state is gone, and so it must not go on");
        }
        match waiter.join().unwrap() {
            Ok(value) => assert_eq!(value.as_deref(), Some("4MB")),
            Err(error) => assert!(error.server().is_some(), "{error}"),
        }
    });
    recovers(&site);
}

/// What clients saw of a server that was away.
struct Seen {
    /// SQLSTATEs of the errors.
    errors: Vec<String>,
    /// When each transaction was done.
    served: Vec<Instant>,
}

/// Clients that send one short transaction after the other and connect again after an error, until `stop` is set.
fn traffic(site: &Site, clients: usize, stop: &AtomicBool, meanwhile: impl FnOnce()) -> Seen {
    let seen = Mutex::new(Seen { errors: Vec::new(), served: Vec::new() });
    let client = || {
        let mut connection = site.connect();
        while !stop.load(Ordering::Relaxed) {
            match connection.value("SELECT 'served' FROM pg_sleep(0.003)") {
                Ok(value) => {
                    assert_eq!(value.as_deref(), Some("served"));
                    seen.lock().unwrap().served.push(Instant::now());
                }
                Err(error) => {
                    let code = error.sqlstate().map_or_else(|| error.to_string(), str::to_owned);
                    seen.lock().unwrap().errors.push(code);
                    connection = site.connect();
                }
            }
        }
    };
    thread::scope(|scope| {
        (0..clients).for_each(|_| drop(scope.spawn(client)));
        meanwhile();
        stop.store(true, Ordering::Relaxed);
    });
    seen.into_inner().unwrap()
}

/// PostgreSQL is away for two seconds under 40 clients with ten servers: only transactions that were in flight fail.
fn is_away_unnoticed(postgres: &Postgres, site: &Site) {
    let stop = AtomicBool::new(false);
    let mut back = Instant::now();
    let seen = traffic(site, 40, &stop, || {
        thread::sleep(Duration::from_millis(700));
        postgres.server().shutdown();
        thread::sleep(Duration::from_secs(2));
        thread::scope(|scope| {
            let started = scope.spawn(|| postgres.server().start_again().unwrap());
            let direct = postgres.params(users::APP, site.database().name());
            while Connection::connect(&direct).and_then(|mut own| own.value("SELECT 1")).is_err() {
                thread::sleep(Duration::from_millis(2));
            }
            back = Instant::now();
            started.join().unwrap();
        });
        thread::sleep(Duration::from_millis(1500));
    });
    let Seen { errors, served } = seen;
    assert!(errors.len() <= 10, "{} errors, and no more than ten were in flight: {errors:?}", errors.len());
    let lost = ["57P01", "08006", "08P01"];
    assert!(errors.iter().all(|code| lost.contains(&code.as_str())), "{errors:?}");
    let first = served.iter().filter(|at| **at > back - Duration::from_millis(500)).min().expect("they go on");
    let after = first.saturating_duration_since(back);
    println!("{} errors, served {after:?} after the server accepted", errors.len());
    // A tenth of a second, and what a busy machine adds.
    assert!(after < Duration::from_millis(1000), "{after:?}");
}

#[test]
fn postgresql_away_for_two_seconds_fails_no_transaction_but_those_in_flight() {
    let postgres = Postgres::private();
    is_away_unnoticed(&postgres, &Site::on(&postgres, Setup::new(Mode::Transaction).size(10), Mode::Transaction));
}

#[test]
fn nor_does_it_behind_a_pgbouncer_ini() {
    let postgres = Postgres::private();
    is_away_unnoticed(&postgres, &Site::ini_on(&postgres, &Ini::transaction(10)));
}

#[test]
fn nor_does_it_where_the_pool_is_spread_over_workers() {
    let postgres = Postgres::private();
    let setup = Setup::new(Mode::Transaction).size(10).workers(3).spread("always");
    is_away_unnoticed(&postgres, &Site::on(&postgres, setup, Mode::Transaction));
}

#[test]
fn a_client_that_comes_while_postgresql_is_down_waits_and_is_served() {
    let postgres = Postgres::private();
    let site = Site::on(&postgres, setup(3).pool("first_server_timeout = \"60s\""), Mode::Transaction);
    postgres.server().kill9();
    thread::scope(|scope| {
        let client = scope.spawn(|| site.connect().value("SELECT 'waited'"));
        thread::sleep(Duration::from_secs(1));
        assert!(!client.is_finished(), "it waits");
        postgres.server().start_again().unwrap();
        assert_eq!(client.join().unwrap().unwrap().as_deref(), Some("waited"));
    });
}

#[test]
fn a_client_of_a_pool_that_never_had_a_server_gets_the_reason_and_then_a_server_once_it_is_there() {
    let postgres = Postgres::private();
    let site = Site::on(&postgres, setup(3).pool("first_server_timeout = \"1s\""), Mode::Transaction);
    postgres.server().kill9();
    let error = Connection::connect(&site.params()).unwrap_err();
    let reported = error.server().unwrap_or_else(|| panic!("{error}"));
    assert_eq!(reported.sqlstate, "08006", "{reported:?}");
    assert!(reported.message.contains("Connection refused"), "{reported:?}");
    assert!(reported.detail.as_ref().is_some_and(|detail| detail.contains("for pool \"app\"")), "{reported:?}");
    assert!(
        reported.hint.as_ref().is_some_and(|hint| hint.starts_with("Start PostgreSQL, or correct")),
        "{reported:?}"
    );
    postgres.server().start_again().unwrap();
    recovers(&site);
}

#[test]
fn where_clients_are_refused_they_get_an_error_fast_and_are_served_when_it_is_back() {
    let postgres = Postgres::private();
    let site = Site::on(&postgres, setup(3).pool("on_server_down = \"refuse\""), Mode::Transaction);
    site.connect().query("SELECT 1").unwrap();
    postgres.server().kill9();
    for _ in 0..5 {
        let begin = Instant::now();
        let error = Connection::connect(&site.params()).and_then(|mut client| client.value("SELECT 1")).unwrap_err();
        let server_error = error.server().unwrap_or_else(|| panic!("{error}"));
        assert!(server_error.sqlstate == "08006" || server_error.sqlstate == "57P01", "{server_error:?}");
        assert!(begin.elapsed() < Duration::from_secs(20), "fast, not after query_wait_timeout");
    }
    assert!(site.weir().command("SHOW POOLS").is_ok(), "the console works all the time");
    postgres.server().start_again().unwrap();
    recovers(&site);
}

#[test]
fn clients_that_wait_through_a_restart_get_a_server_or_an_error_in_time() {
    let postgres = Postgres::private();
    let site = Site::on(&postgres, setup(2).pool("query_wait_timeout = \"15s\""), Mode::Transaction);
    let outcomes: Vec<Result<Option<String>, Error>> = thread::scope(|scope| {
        let clients: Vec<_> = (0..20)
            .map(|number| {
                let mut client = site.connect();
                scope.spawn(move || {
                    let mut last = Ok(None);
                    for _ in 0..100 {
                        last = client.value(&format!("SELECT 'client {number}' FROM pg_sleep(0.02)"));
                        if let Ok(value) = &last {
                            assert_eq!(*value, Some(format!("client {number}")));
                        } else {
                            break;
                        }
                    }
                    last
                })
            })
            .collect();
        thread::sleep(Duration::from_millis(300));
        postgres.server().restart().unwrap();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    for outcome in &outcomes {
        if let Err(error) = outcome {
            assert!(error.server().is_some(), "an error message, not a hang or a broken connection: {error}");
        }
    }
    recovers(&site);
}

#[test]
fn a_stopped_server_delays_clients_and_breaks_nothing() {
    let postgres = Postgres::private();
    let site = Site::on(&postgres, setup(2), Mode::Transaction);
    let mut clients: Vec<_> = (0..6).map(|_| site.connect()).collect();
    clients.iter_mut().for_each(|client| drop(client.query("SELECT 1").unwrap()));
    postgres.server().sigstop();
    thread::scope(|scope| {
        let asked: Vec<_> = clients
            .into_iter()
            .enumerate()
            .map(|(number, mut client)| scope.spawn(move || (client.value(&format!("SELECT {number}")), number)))
            .collect();
        // All except those that have one of the two servers.
        site.weir().await_pool("they wait", |pool| pool.get("cl_waiting") >= 4);
        postgres.server().sigcont();
        for client in asked {
            let (value, number) = client.join().unwrap();
            assert_eq!(value.unwrap(), Some(number.to_string()));
        }
    });
}

#[test]
fn an_error_on_an_idle_server_never_surfaces_in_the_next_query() {
    // Incident: a leftover error or reply reaches the next client's query.
    let site = Site::with(setup(1), Mode::Transaction);
    let mut client = site.connect();
    for _ in 0..10 {
        client.query("SELECT 1").unwrap();
        site.superuser().query(KILL_ALL).unwrap();
        // At once, while the last error of the old server may be on its way.
        match client.value("SELECT 'mine'") {
            Ok(value) => assert_eq!(value.as_deref(), Some("mine")),
            Err(error) => {
                let server_error = error.server().unwrap_or_else(|| panic!("{error}"));
                assert!(["57P01", "08006"].contains(&server_error.sqlstate.as_str()), "{server_error:?}");
                client = site.connect();
            }
        }
        let transcript = weir_tests::ask(&mut client, &Batch::new().run("SELECT 'and mine'", &[]).sync(), 1);
        assert_eq!(transcript[3], "Row and mine", "{transcript:?}");
    }
}
