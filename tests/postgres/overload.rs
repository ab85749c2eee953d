//! Overload and failure are distinguished: a full pool, a slow server, a server that is down and a limit have four
//! errors and four counters.

use std::net::TcpListener;

use weir_pgclient::{Connection, ServerErrorFields};
use weir_tests::{Mode, Setup, Site, User, eventually, users};

/// The counters of all pools together, in the order of the columns.
fn refusals(site: &Site) -> [u64; 5] {
    let table = site.weir().show("REFUSALS");
    ["pool_full", "server_slow", "server_down", "limit_reached", "other"].map(|column| {
        let values = (0..table.rows.len()).map(|row| table.get(row, column).expect("a figure"));
        values.map(|value| value.parse::<u64>().expect("a number")).sum()
    })
}

/// The error of a client that runs a query in a pool.
fn error_of(site: &Site, pool: &str, sql: &str) -> ServerErrorFields {
    let params = site.weir().params("app", pool).password(users::APP.password);
    let outcome = Connection::connect(&params).and_then(|mut client| client.value(sql));
    outcome.expect_err("refused").server().expect("by words").clone()
}

/// A pool `other` at this port of this machine.
fn at(port: u16, more: &str) -> String {
    format!("[pools.other]\nhost = \"127.0.0.1\"\nport = {port}\nuser = \"app\"\npassword = \"x\"\n{more}\n")
}

/// Clients do not wait for a server that is down.
const REFUSE: &str = "on_server_down = \"refuse\"";

/// A port without a listener.
fn closed_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn a_full_pool_is_reported_and_counted_as_full() {
    let setup = Setup::new(Mode::Transaction).size(1).pool("query_wait_timeout = \"500ms\"");
    let site = Site::with(setup, Mode::Transaction);
    let mut holder = site.connect();
    holder.query("BEGIN").unwrap();
    let error = error_of(&site, "app", "SELECT 1");
    assert_eq!((error.sqlstate.as_str(), error.message.as_str()), ("57014", "query_wait_timeout"));
    assert!(error.detail.unwrap().starts_with("1 of 1 servers are in use"));
    assert_eq!(refusals(&site), [1, 0, 0, 0, 0]);
    eventually("the log has the reason", || {
        let log = site.weir().log();
        if log.contains("app/app: a client waited too long for a server, pool full: 1 of 1 servers are in use") {
            Ok(())
        } else {
            Err(log)
        }
    });
}

#[test]
fn a_slow_login_is_reported_and_counted_as_slow() {
    // The server accepts, and sends nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    for (more, message) in [
        (
            "server_connect_timeout = \"500ms\"\non_server_down = \"refuse\"",
            "did not finish the login within server_connect_timeout",
        ),
        ("query_wait_timeout = \"500ms\"", "query_wait_timeout"),
    ] {
        let site = Site::with(Setup::new(Mode::Transaction).more(&at(port, more)), Mode::Transaction);
        let error = error_of(&site, "other", "SELECT 1");
        assert_eq!(error.sqlstate, "08001", "{error:?}");
        assert!(error.message.contains(message), "{error:?}");
        assert_eq!(refusals(&site), [0, 1, 0, 0, 0]);
        site.weir().skip_final_checks();
    }
}

#[test]
fn a_query_that_takes_too_long_is_reported_and_counted_as_slow() {
    let site = Site::with(Setup::new(Mode::Transaction).pool("query_timeout = \"500ms\""), Mode::Transaction);
    let error = error_of(&site, "app", "SELECT pg_sleep(60)");
    assert_eq!((error.sqlstate.as_str(), error.message.as_str()), ("57014", "query timeout"));
    assert_eq!(refusals(&site), [0, 1, 0, 0, 0]);
}

#[test]
fn a_server_that_is_down_is_reported_and_counted_as_down() {
    let site = Site::with(Setup::new(Mode::Transaction).more(&at(closed_port(), REFUSE)), Mode::Transaction);
    let error = error_of(&site, "other", "SELECT 1");
    assert_eq!(error.sqlstate, "08006", "{error:?}");
    assert_ne!(error.message, "query_wait_timeout");
    assert_eq!(refusals(&site), [0, 0, 1, 0, 0]);
    site.weir().skip_final_checks();
}

#[test]
fn limits_of_clients_and_of_shared_servers_are_reported_and_counted_as_limits() {
    let setup = Setup::new(Mode::Transaction)
        .auth("plain")
        .no_server_user()
        .limit("max_db_connections = 1")
        .limit("max_db_client_connections = 2")
        .limit("query_wait_timeout = \"500ms\"");
    let site = Site::with(setup, Mode::Transaction);
    let connect = |user: User| Connection::connect(&site.weir().params(user.name, "app").password(user.password));
    let mut holder = connect(users::APP).unwrap();
    holder.query("BEGIN").unwrap();
    let waits = connect(users::OTHER).and_then(|mut client| client.value("SELECT 1")).unwrap_err();
    let error = waits.server().unwrap();
    assert_eq!((error.sqlstate.as_str(), error.message.as_str()), ("53300", "query_wait_timeout"));
    assert!(error.detail.as_ref().unwrap().contains("max_db_connections of app is 1"), "{error:?}");
    let _second = connect(users::APP).unwrap();
    let error = connect(users::APP).unwrap_err().server().unwrap().clone();
    assert_eq!(error.sqlstate, "53300");
    assert!(error.message.contains("max_db_client_connections"), "{error:?}");
    assert_eq!(refusals(&site), [0, 0, 0, 2, 0]);
}
