//! Waiting for a server: in order, within limits, and distinct from other errors.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weir_pgclient::{Connection, Error};
use weir_tests::{Batch, Mode, Postgres, Setup, Site, eventually, users, within};

fn site(setup: Setup) -> Site {
    Site::with(setup, Mode::Transaction)
}

fn pool(size: u32) -> Setup {
    Setup::new(Mode::Transaction).size(size)
}

/// A client that holds a server until it is dropped or commits.
fn holder(site: &Site) -> Connection {
    let mut client = site.connect();
    client.query("BEGIN").unwrap();
    client
}

fn refused(site: &Site) -> Error {
    let outcome = Connection::connect(&site.params()).and_then(|mut client| client.value("SELECT 1"));
    outcome.expect_err("refused")
}

#[test]
fn the_oldest_waiter_is_served_first() {
    let site = site(pool(1));
    let mut holder = holder(&site);
    holder.query("CREATE TABLE served (turn serial, number int)").unwrap();
    thread::scope(|scope| {
        let mut waiters = Vec::new();
        for number in 0..12 {
            let mut client = site.connect();
            let sql = format!("INSERT INTO served (number) VALUES ({number})");
            waiters.push(scope.spawn(move || client.query(&sql).map(drop)));
            site.weir().await_pool("it waits", |pool| pool.get("cl_waiting") == number + 1);
        }
        holder.query("COMMIT").unwrap();
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap().unwrap());
    });
    let order = site.superuser().value("SELECT string_agg(number::text, ',' ORDER BY turn) FROM served").unwrap();
    assert_eq!(order.as_deref(), Some("0,1,2,3,4,5,6,7,8,9,10,11"));
}

#[test]
fn a_client_that_leaves_the_queue_is_removed() {
    // Nothing is sent to waiting clients: only their own disconnect is noticed.
    let site = site(pool(1).pool("query_wait_notify = 0"));
    let mut holder = holder(&site);
    for _ in 0..5 {
        let mut client = site.connect();
        client.send_bytes(Batch::new().query("SELECT 'given up'").bytes()).unwrap();
        site.weir().await_pool("it waits", |pool| pool.get("cl_waiting") == 1);
        drop(client);
        site.weir().await_pool("it is gone", |pool| pool.get("cl_waiting") == 0);
    }
    holder.query("COMMIT").unwrap();
    assert_eq!(site.connect().value("SELECT 1").unwrap().as_deref(), Some("1"));
}

#[test]
fn a_wait_that_is_too_long_ends_with_query_wait_timeout() {
    let site = site(pool(1).pool("query_wait_timeout = \"500ms\""));
    let _holder = holder(&site);
    let begin = Instant::now();
    let error = refused(&site);
    assert_eq!(error.sqlstate(), Some("57014"), "{error}");
    let server_error = error.server().unwrap();
    assert_eq!((server_error.severity.as_str(), server_error.message.as_str()), ("FATAL", "query_wait_timeout"));
    assert!(begin.elapsed() >= Duration::from_millis(450), "{:?}", begin.elapsed());
}

#[test]
fn a_waiting_client_gets_one_notice() {
    let site = site(pool(1).pool("query_wait_notify = \"200ms\""));
    let mut holder = holder(&site);
    let mut client = site.connect();
    client.send_bytes(Batch::new().query("SELECT 'at last'").bytes()).unwrap();
    let frame = client.read_frame(Duration::from_secs(20)).unwrap();
    let server_error = weir_tests::line_of(&frame);
    assert!(server_error.starts_with("Notice "), "{server_error}");
    thread::sleep(Duration::from_millis(600));
    holder.query("COMMIT").unwrap();
    let transcript = weir_tests::lines_of(&weir_tests::read_until_ready(&mut client, 1));
    assert_eq!(transcript[1], "Row at last", "{transcript:?}");
}

#[test]
fn the_queue_is_seen_on_the_console() {
    let site = site(pool(2));
    let holders = [holder(&site), holder(&site)];
    thread::scope(|scope| {
        let mut first = site.connect();
        let waiter = scope.spawn(move || first.value("SELECT 1"));
        let row = site.weir().await_pool("one waits", |pool| {
            pool.get("cl_waiting") == 1 && pool.get("maxwait") * 1_000_000 + pool.get("maxwait_us") > 100_000
        });
        assert_eq!((row.get("cl_active"), row.get("sv_active"), row.get("sv_idle")), (2, 2, 0));
        drop(holders);
        assert_eq!(waiter.join().unwrap().unwrap().as_deref(), Some("1"));
    });
    site.weir().await_pool("no client waits", |pool| pool.get("maxwait") == 0 && pool.get("cl_waiting") == 0);
}

#[test]
fn no_more_servers_are_opened_than_the_pool_may_have() {
    let site = site(pool(4));
    thread::scope(|scope| {
        for _ in 0..30 {
            scope.spawn(|| {
                let mut client = site.connect();
                for _ in 0..10 {
                    let others =
                        client.value("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()");
                    let others: u32 = others.unwrap().unwrap().parse().unwrap();
                    assert!(others <= 4, "{others} servers");
                }
            });
        }
    });
}

#[test]
fn the_reserve_is_opened_for_clients_that_have_waited() {
    let site = site(pool(1).pool("reserve_size = 2").pool("reserve_timeout = \"300ms\""));
    let holder_of_one = holder(&site);
    let mut second = site.connect();
    let begin = Instant::now();
    second.query("BEGIN").unwrap();
    assert!(begin.elapsed() >= Duration::from_millis(250), "{:?}", begin.elapsed());
    let third = holder(&site);
    assert_eq!(site.weir().pool("app").get("sv_active"), 3);
    thread::scope(|scope| {
        let mut fourth = site.connect();
        let waits = scope.spawn(move || fourth.value("SELECT 'fourth'"));
        thread::sleep(Duration::from_millis(700));
        assert_eq!(site.weir().pool("app").get("cl_waiting"), 1, "the reserve is used up");
        drop(holder_of_one);
        assert_eq!(waits.join().unwrap().unwrap().as_deref(), Some("fourth"));
    });
    drop((second, third));
}

#[test]
fn min_size_is_kept_open_without_any_client() {
    let site = site(pool(5).pool("min_size = 3"));
    site.weir().await_pool("three idle", |pool| pool.get("sv_idle") + pool.get("sv_used") == 3);
    let mut superuser = site.superuser();
    let sql =
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND usename = 'app'";
    superuser.query(sql).unwrap();
    eventually("three again", || {
        let backends = site.database().backends();
        if backends.len() == 3 { Ok(()) } else { Err(backends) }
    });
    assert_eq!(site.connect().value("SELECT 1").unwrap().as_deref(), Some("1"));
}

#[test]
fn servers_beyond_min_size_are_closed_when_unused() {
    let site = site(pool(5).pool("min_size = 1").pool("server_idle_timeout = \"1s\""));
    let holders: Vec<_> = (0..4).map(|_| holder(&site)).collect();
    assert_eq!(site.database().backends().len(), 4);
    drop(holders);
    let mut client = site.connect();
    client.query("SELECT 1").unwrap();
    eventually("one is left", || {
        let backends = site.database().backends();
        if backends.len() == 1 { Ok(()) } else { Err(backends) }
    });
}

#[test]
fn an_old_server_is_replaced_when_it_is_free_and_never_before() {
    let site = site(pool(1).pool("server_lifetime = \"1s\""));
    let mut client = site.connect();
    let server = |client: &mut Connection| client.value("SELECT pg_backend_pid()").unwrap().unwrap();
    client.query("BEGIN").unwrap();
    let first = server(&mut client);
    thread::sleep(Duration::from_millis(2500));
    assert_eq!(server(&mut client), first, "a linked server is not closed");
    client.query("COMMIT").unwrap();
    eventually("another server", || {
        let now = server(&mut client);
        if now == first { Err(now) } else { Ok(()) }
    });
}

#[test]
fn a_server_with_too_many_connections_is_no_error_while_others_serve() {
    let postgres = Postgres::with(12, &[]);
    // Others use seven of nine connections: the pool of five gets two.
    let database = postgres.database();
    let params = postgres.params(users::OTHER, database.name());
    let taken: Vec<_> = (0..7).map(|_| Connection::connect(&params).unwrap()).collect();
    let site = Site::on(&postgres, pool(5).pool("server_login_retry = \"200ms\""), Mode::Transaction);
    thread::scope(|scope| {
        for client in 0..10 {
            let site = &site;
            scope.spawn(move || {
                let mut connection = site.connect();
                for round in 0..10 {
                    let sql = format!("SELECT '{client}/{round}' FROM pg_sleep(0.01)");
                    assert_eq!(connection.value(&sql).unwrap(), Some(format!("{client}/{round}")));
                }
            });
        }
    });
    drop(taken);
}

#[test]
fn with_no_server_at_all_waiters_get_the_servers_own_error() {
    let postgres = Postgres::with(10, &[]);
    let database = postgres.database();
    let params = postgres.params(users::OTHER, database.name());
    let taken: Vec<_> = (0..7).map(|_| Connection::connect(&params).unwrap()).collect();
    let site = Site::on(&postgres, pool(5).pool("server_login_retry = \"200ms\""), Mode::Transaction);
    let begin = Instant::now();
    let error = refused(&site);
    assert_eq!(error.sqlstate(), Some("53300"), "{error}");
    let own_errors = ["remaining connection slots", "sorry, too many clients already"];
    assert!(own_errors.iter().any(|words| error.to_string().contains(words)), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(60), "it fails fast, not by query_wait_timeout");
    drop(taken);
    // The pool recovers by itself.
    eventually("served", || Connection::connect(&site.params())?.value("SELECT 1"));
}

#[test]
fn a_wrong_database_is_reported_with_the_servers_error() {
    let site = site(pool(2).more(&format!(
        "[pools.nowhere]\nhost = \"127.0.0.1\"\nport = {}\ndatabase = \"no_such_database\"\nuser = \"app\"\n\
         password = \"app's \\\"secret\\\"\"",
        Postgres::shared().port()
    )));
    let params = site.weir().params("app", "nowhere").password(users::APP.password);
    let error = Connection::connect(&params).and_then(|mut client| client.value("SELECT 1")).unwrap_err();
    assert_eq!(error.sqlstate(), Some("3D000"), "{error}");
    assert!(error.to_string().contains("database \"no_such_database\" does not exist"), "{error}");
    let Error::Server(said) = error else { panic!("{error}") };
    let port = Postgres::shared().port();
    let login = format!(
        "The pooler could not log in for pool \"nowhere\": server 127.0.0.1:{port}, database \"no_such_database\", user \
         \"app\"."
    );
    assert_eq!(said.detail.as_deref(), Some(&*login));
}

#[test]
fn a_login_that_hangs_ends_with_server_connect_timeout() {
    // A server that accepts and sends nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let setup = pool(1).more(&format!(
        "[pools.silent]\nhost = \"127.0.0.1\"\nport = {port}\nuser = \"app\"\npassword = \"x\"\n\
         server_connect_timeout = \"500ms\"\nserver_login_retry = \"200ms\"\non_server_down = \"refuse\""
    ));
    let site = site(setup);
    let params = site.weir().params("app", "silent").password(users::APP.password);
    let error = Connection::connect(&params).and_then(|mut client| client.value("SELECT 1")).unwrap_err();
    assert!(error.server().is_some(), "{error}");
    assert_ne!(error.server().unwrap().message, "query_wait_timeout");
    site.weir().skip_final_checks();
}

#[test]
fn logins_to_a_broken_server_are_spaced_out() {
    // A server that refuses all logins, and counts them.
    let broken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = broken.local_addr().unwrap().port();
    let attempts = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&attempts);
    // The thread ends with the process.
    thread::spawn(move || {
        for socket in broken.incoming() {
            counter.fetch_add(1, Ordering::Relaxed);
            let mut socket = socket.unwrap();
            // The server gets an encryption request first.
            let _ = socket.read(&mut [0; 8]);
            let _ = socket.write_all(b"N");
            let _ = socket.read(&mut [0; 1000]);
            let _ = socket.write_all(b"E\0\0\0\x1eSFATAL\0C28P01\0Mnot today\0\0");
        }
    });
    let site = site(pool(1).more(&format!(
        "[pools.broken]\nhost = \"127.0.0.1\"\nport = {port}\nuser = \"x\"\npassword = \"y\"\n\
         server_login_retry = \"1s\"\n"
    )));
    let params = site.weir().params("app", "broken").password(users::APP.password);
    let begin = Instant::now();
    let mut refusals = 0;
    while begin.elapsed() < Duration::from_secs(3) {
        let error = Connection::connect(&params).and_then(|mut client| client.value("SELECT 1")).unwrap_err();
        assert_eq!((error.sqlstate(), error.server().unwrap().message.as_str()), (Some("28P01"), "not today"));
        refusals += 1;
    }
    // The delay grows from a moment to a second; every client gets the error at once.
    let attempts = attempts.load(Ordering::Relaxed);
    assert!(attempts <= 20 && refusals > attempts, "{refusals} clients refused, {attempts} logins tried");
}

#[test]
fn an_idle_transaction_and_a_long_query_end_in_time() {
    let setup = pool(2).pool("idle_transaction_timeout = \"500ms\"").pool("query_timeout = \"1500ms\"");
    let site = site(setup);
    let mut idle = holder(&site);
    let transcript = weir_tests::until_quiet(&mut idle, Duration::from_secs(20));
    assert!(transcript[0].starts_with("Error 25P03"), "{transcript:?}");
    assert_eq!(transcript.last().unwrap(), "Closed");
    let mut long = site.connect();
    let error = long.query("SELECT pg_sleep(60)").unwrap_err();
    assert_eq!(error.sqlstate(), Some("57014"), "{error}");
    within(Duration::from_secs(20), "both servers are gone or idle", || {
        let backends = site.database().backends();
        let busy = backends.iter().any(|(_, state)| state.starts_with("idle in"));
        if busy { Err(backends) } else { Ok(()) }
    });
    // PostgreSQL notices the loss of its client when the query ends.
    let _ = site.superuser().query(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND usename = 'app'",
    );
}

#[test]
fn a_client_that_is_idle_too_long_is_disconnected() {
    let site = site(pool(1).pool("client_idle_timeout = \"500ms\""));
    let mut client = site.connect();
    client.query("SELECT 1").unwrap();
    let transcript = weir_tests::until_quiet(&mut client, Duration::from_secs(20));
    assert!(transcript[0].starts_with("Error 57P05 client_idle_timeout"), "{transcript:?}");
}
