//! Limits and timeouts: for all, for a database, for a user.

use std::thread;
use std::time::Duration;

use weir_pgclient::{ConnectParams, Connection};
use weir_tests::{Batch, Ini, Site, User, eventually, until_quiet, users};

/// How a user connects to a database.
fn params(site: &Site, user: User, database: &str) -> ConnectParams {
    site.weir().params(user.name, database).password(user.password)
}

#[track_caller]
fn enter(site: &Site, user: User, database: &str) -> Connection {
    Connection::connect(&params(site, user, database)).unwrap_or_else(|e| panic!("{} of {database}: {e}", user.name))
}

#[track_caller]
fn error_of(site: &Site, user: User, database: &str) -> String {
    let error = Connection::connect(&params(site, user, database)).expect_err("the limit is reached");
    error.server().expect("an error message").message.clone()
}

#[test]
fn clients_are_limited_in_all_and_a_database_and_a_user() {
    let cases = [
        ("max_client_conn", Ini::new().set("max_client_conn", 2)),
        ("max_db_client_connections", Ini::new().set("max_db_client_connections", 2)),
        ("max_db_client_connections", Ini::new().app("max_db_client_connections=2")),
        ("max_user_client_connections", Ini::new().set("max_user_client_connections", 2)),
        ("max_user_client_connections", Ini::new().user("app", "max_user_client_connections=2")),
    ];
    for (name, ini) in cases {
        let site = Site::ini(&ini);
        let clients = [enter(&site, users::APP, "app"), enter(&site, users::APP, "app")];
        let message = error_of(&site, users::APP, "app");
        assert!(message.contains(name), "{name}: {message}");
        drop(clients);
        eventually("room again", || Connection::connect(&params(&site, users::APP, "app")).map(drop));
    }
    // Each counts its own kind.
    let site = Site::ini(&Ini::new().app("max_db_client_connections=1").database("second", "{dbname}"));
    let _one = enter(&site, users::APP, "app");
    enter(&site, users::APP, "second");
    error_of(&site, users::OTHER, "app");
    let site = Site::ini(&Ini::new().user("app", "max_user_client_connections=1").database("second", "{dbname}"));
    let _one = enter(&site, users::APP, "app");
    enter(&site, users::OTHER, "app");
    error_of(&site, users::APP, "second");
}

/// A client that has begun a transaction.
fn holder(site: &Site, user: User, database: &str) -> Connection {
    let mut client = enter(site, user, database);
    client.query("BEGIN").unwrap();
    client
}

/// The client's query waits, and is served after `release`.
fn is_held_until(mut client: Connection, release: impl FnOnce()) {
    thread::scope(|scope| {
        let query = scope.spawn(move || client.value("SELECT 'served'"));
        thread::sleep(Duration::from_millis(400));
        assert!(!query.is_finished(), "it was served at once");
        release();
        assert_eq!(query.join().unwrap().unwrap().as_deref(), Some("served"));
    });
}

#[test]
fn servers_are_limited_a_pool_and_a_database_and_a_user() {
    let two = || Ini::transaction(5).database("second", "{dbname}");
    // A new client must log in without a server of its own: earlier clients hold them.
    let known = |site: &Site, user: User, database: &str| {
        let mut client = enter(site, user, database);
        client.query("SELECT 1").unwrap();
        client
    };
    // The pool: one user's servers of one database.
    let site = Site::ini(&Ini::transaction(1).database("second", "{dbname}"));
    let waiting = known(&site, users::APP, "app");
    let mut held = holder(&site, users::APP, "app");
    holder(&site, users::OTHER, "app");
    holder(&site, users::APP, "second");
    is_held_until(waiting, || drop(held.query("COMMIT").unwrap()));
    // The database: all users' servers of it.
    for ini in [two().set("max_db_connections", 1), two().app("max_db_connections=1")] {
        let site = Site::ini(&ini);
        let waiting = known(&site, users::OTHER, "app");
        let mut held = holder(&site, users::APP, "app");
        holder(&site, users::APP, "second");
        is_held_until(waiting, || drop(held.query("COMMIT").unwrap()));
    }
    // The user: its servers of all databases.
    for ini in [two().set("max_user_connections", 1), two().user("app", "max_user_connections=1")] {
        let site = Site::ini(&ini);
        let waiting = known(&site, users::APP, "second");
        let mut held = holder(&site, users::APP, "app");
        holder(&site, users::OTHER, "second");
        is_held_until(waiting, || drop(held.query("COMMIT").unwrap()));
    }
}

fn backends(site: &Site) -> usize {
    site.database().backends().len()
}

#[track_caller]
fn await_backends(site: &Site, count: usize) {
    eventually("this many servers", || match backends(site) {
        now if now == count => Ok(()),
        now => Err(now),
    });
}

#[test]
fn unused_pools_are_dropped_in_time() {
    let pools = |site: &Site| {
        let shown = site.weir().show("POOLS");
        (0..shown.rows.len()).filter_map(|row| shown.get(row, "database").map(str::to_owned)).collect::<Vec<_>>()
    };
    // A pool of `*`, by autodb_idle_timeout: its database too.
    let port = weir_tests::Postgres::shared().port();
    let any = format!("host=127.0.0.1 port={port}");
    let ini = Ini::transaction(1).set("autodb_idle_timeout", 1).set("server_idle_timeout", 1).database("*", &any);
    let site = Site::ini(&ini);
    let name = site.database().name().to_owned();
    enter(&site, users::APP, &name).query("SELECT 1").unwrap();
    assert!(pools(&site).contains(&name), "{:?}", pools(&site));
    eventually("it is dropped", || match pools(&site) {
        left if left.contains(&name) => Err(left),
        _ => Ok(()),
    });
    enter(&site, users::APP, &name).query("SELECT 1").unwrap();
    // A pool without clients, by pool_idle_timeout.
    let site = Site::ini(&Ini::transaction(1).set("pool_idle_timeout", 1));
    let mut client = site.connect();
    client.query("SELECT 1").unwrap();
    thread::sleep(Duration::from_millis(2500));
    assert_eq!(backends(&site), 1, "while a client is there it is needed");
    drop(client);
    await_backends(&site, 0);
    assert!(!pools(&site).contains(&"app".to_owned()) || site.weir().pool("app").servers() == 0);
    assert_eq!(site.connect().value("SELECT 1").unwrap().as_deref(), Some("1"));
}

#[test]
fn sizes_and_times_of_a_database_take_precedence() {
    // A pool of two where the others have one, filled to two, with a reserve of one.
    for reserve in ["reserve_pool_size", "reserve_pool"] {
        let ini = Ini::transaction(1).set("reserve_pool_timeout", 1).database("second", "{dbname}");
        let site = Site::ini(&ini.app(&format!("pool_size=2 min_pool_size=2 {reserve}=1")).forced(users::APP));
        await_backends(&site, 2);
        let _held = [(); 3].map(|()| holder(&site, users::APP, "app"));
        assert_eq!(backends(&site), 3);
    }
    let site = Site::ini(&Ini::transaction(1).app("query_wait_timeout=1 server_lifetime=1"));
    let mut held = holder(&site, users::APP, "app");
    let mut waiting = enter(&site, users::APP, "app");
    let error = waiting.query("SELECT 1").unwrap_err();
    assert_eq!(error.server().unwrap().message, "query_wait_timeout");
    held.query("COMMIT").unwrap();
    await_backends(&site, 0);
}

#[test]
fn sizes_and_times_of_a_user_take_precedence() {
    let rules = "pool_size=2 reserve_pool_size=1 query_wait_timeout=2";
    let site = Site::ini(&Ini::transaction(1).set("reserve_pool_timeout", 1).user("app", rules));
    let _held = [(); 3].map(|()| holder(&site, users::APP, "app"));
    let mut waiting = enter(&site, users::APP, "app");
    let error = waiting.query("SELECT 1").unwrap_err();
    assert_eq!(error.server().unwrap().message, "query_wait_timeout");
    let mut other = holder(&site, users::OTHER, "app");
    is_held_until(enter(&site, users::OTHER, "app"), || drop(other.query("COMMIT").unwrap()));
}

#[test]
fn timeouts_of_a_users_transactions_and_of_its_idle_clients() {
    let site = Site::ini(&Ini::transaction(3).user("app", "transaction_timeout=1 client_idle_timeout=1"));
    let mut other = enter(&site, users::OTHER, "app");
    let mut idle = enter(&site, users::APP, "app");
    let mut busy = holder(&site, users::APP, "app");
    busy.send_bytes(Batch::new().query("SELECT pg_sleep(4)").bytes()).unwrap();
    let timeout = Duration::from_secs(20);
    assert_eq!(until_quiet(&mut busy, timeout), ["Error 08P01 transaction timeout", "Closed"]);
    assert_eq!(until_quiet(&mut idle, timeout), ["Error 08P01 client_idle_timeout", "Closed"]);
    other.query("BEGIN").unwrap();
    thread::sleep(Duration::from_millis(1500));
    other.query("COMMIT").unwrap();
}

#[test]
fn modes_of_databases_and_users_take_precedence() {
    let ini =
        Ini::transaction(5).database("sessions", "{dbname} pool_mode=session").user("other", "pool_mode=statement");
    let site = Site::ini(&ini);
    let mut session = enter(&site, users::APP, "sessions");
    session.query("SELECT 1").unwrap();
    let mut transaction = enter(&site, users::APP, "app");
    transaction.query("SELECT 1").unwrap();
    let pools = site.weir().show("POOLS");
    let active = |name: &str| {
        let row = (0..pools.rows.len()).find(|row| pools.get(*row, "database") == Some(name)).unwrap();
        pools.get(row, "sv_active").unwrap().to_owned()
    };
    assert_eq!((active("sessions").as_str(), active("app").as_str()), ("1", "0"));
    let mut statement = enter(&site, users::OTHER, "app");
    statement.send_bytes(Batch::new().query("BEGIN").bytes()).unwrap();
    let transcript = until_quiet(&mut statement, Duration::from_secs(20));
    assert_eq!(transcript.last().unwrap(), "Closed", "{transcript:?}");
}
