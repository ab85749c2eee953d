//! Weir's own queries: at connect, the check and the reset of servers, and those for logins.

use weir_pgclient::Connection;
use weir_tests::{Mode, Setup, Site, eventually};

#[test]
fn every_server_begins_with_the_connect_query() {
    let setup = Setup::new(Mode::Transaction).size(3).pool("connect_query = \"SET work_mem = '7MB'\"");
    let site = Site::with(setup, Mode::Transaction);
    let mut clients: Vec<_> = (0..3).map(|_| site.connect()).collect();
    for client in &mut clients {
        client.query("BEGIN").unwrap();
        assert_eq!(client.value("SHOW work_mem").unwrap().as_deref(), Some("7MB"));
    }
    clients.iter_mut().for_each(|client| drop(client.query("COMMIT").unwrap()));
}

#[test]
fn a_reset_does_not_take_away_what_the_connect_query_has_set() {
    let setup = Setup::new(Mode::Transaction).size(1).pool("connect_query = \"SET work_mem = '7MB'\"");
    let site = Site::with(setup, Mode::Transaction);
    let mut client = site.connect();
    client.query("SET maintenance_work_mem = '9MB'").unwrap();
    assert_ne!(client.value("SHOW maintenance_work_mem").unwrap().as_deref(), Some("9MB"), "it was reset");
    assert_eq!(client.value("SHOW work_mem").unwrap().as_deref(), Some("7MB"));
}

#[test]
fn a_connect_query_may_fail_and_is_logged() {
    let setup = Setup::new(Mode::Transaction).size(1).pool("connect_query = \"SELECT nonsense\"");
    let site = Site::with(setup, Mode::Transaction);
    assert_eq!(site.connect().value("SELECT 'served'").unwrap().as_deref(), Some("served"));
    eventually("the log has the error", || {
        let log = site.weir().log();
        if log.contains("error while executing connect_query") { Ok(()) } else { Err(log) }
    });
}

#[test]
fn sessions_are_followed_by_the_reset_query() {
    let setup = Setup::new(Mode::Session).size(1).pool("server_reset_query = \"SET work_mem = '11MB'\"");
    let site = Site::with(setup, Mode::Session);
    let mut first = site.connect();
    first.query("SET work_mem = '5MB'").unwrap();
    drop(first);
    assert_eq!(site.connect().value("SHOW work_mem").unwrap().as_deref(), Some("11MB"));
}

#[test]
fn the_effect_of_a_custom_reset_on_parameters_never_shows() {
    // RESET ALL undoes a client's settings and those that Weir made for it; the next client still gets its own.
    let setup = Setup::new(Mode::Session).size(1).pool("server_reset_query = \"RESET ALL\"");
    let site = Site::with(setup, Mode::Session);
    for _ in 0..3 {
        let params = site.params().option("statement_timeout", "12345");
        let mut client = Connection::connect(&params).unwrap();
        assert_eq!(client.value("SHOW statement_timeout").unwrap().as_deref(), Some("12345ms"));
    }
    assert_eq!(site.connect().value("SHOW statement_timeout").unwrap().as_deref(), Some("0"));
}

#[test]
fn a_server_that_fails_its_check_is_not_used() {
    let setup = Setup::new(Mode::Transaction)
        .size(1)
        .limit("server_check_delay = 0")
        .pool("server_check_query = \"SELECT 1/(SELECT n FROM healthy)\"");
    let site = Site::with(setup, Mode::Transaction);
    let mut owner = site.superuser();
    owner.query("CREATE TABLE healthy AS SELECT 1 AS n").unwrap();
    owner.query("GRANT SELECT ON healthy TO PUBLIC").unwrap();
    let mut client = site.connect();
    let pid = client.value("SELECT pg_backend_pid()").unwrap();
    assert_eq!(client.value("SELECT pg_backend_pid()").unwrap(), pid);
    owner.query("UPDATE healthy SET n = 0").unwrap();
    // A new server's login counts as its check.
    assert_ne!(client.value("SELECT pg_backend_pid()").unwrap(), pid);
}
