//! The twenty behaviours that re-implementations of PgBouncer get wrong, each by its number, with a `pgbouncer.ini` and
//! a real PostgreSQL. The table in docs/pgbouncer.md names these tests; a test of that page compares both.

mod authentication;
mod cancels;
mod links;
mod operations;
mod replies;
mod servers;
mod state;
mod timeouts;

use std::thread;
use std::time::Duration;

use weir_pgclient::{Connection, Error};
use weir_tests::{Ini, Mode, Postgres, Site, Tap, eventually};

/// Longer than the events that are asserted not to happen.
const SHORT: Duration = Duration::from_millis(400);

/// How long a client waits for a message that must come.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A site with a recording proxy in front of its servers.
fn tapped(ini: Ini) -> (Site, Tap) {
    let tap = Tap::before(&Postgres::shared());
    let site = Site::ini(&ini.through(tap.port()));
    (site, tap)
}

/// The server process of this client.
#[track_caller]
fn server(client: &mut Connection) -> String {
    let pid = client.value("SELECT pg_backend_pid()");
    pid.unwrap_or_else(|error| panic!("pg_backend_pid: {error}")).expect("it has a number")
}

/// The server processes of the tests' users.
fn servers(site: &Site) -> Vec<String> {
    site.database().backends().into_iter().map(|(pid, _)| pid.to_string()).collect()
}

/// Waits until a server process has ended.
#[track_caller]
fn await_gone(site: &Site, pid: &str) {
    eventually("the server is closed", || {
        let left = servers(site);
        if left.iter().any(|one| one == pid) { Err(left) } else { Ok(()) }
    });
}

/// Waits until no server is busy.
#[track_caller]
fn await_free(site: &Site) {
    site.weir().await_pool("no server is busy", |pool| pool.get("sv_active") + pool.get("sv_tested") == 0);
}

/// Waits until this many clients run queries on the server.
#[track_caller]
fn await_busy(site: &Site, count: usize) {
    eventually("the queries run", || {
        let backends = site.database().backends();
        let active = backends.iter().filter(|(_, state)| state == "active").count();
        if active >= count { Ok(()) } else { Err(backends) }
    });
}

/// The error of a new client, at its login or at its first query.
#[track_caller]
fn refused(site: &Site) -> Error {
    let outcome = Connection::connect(&site.params()).and_then(|mut client| client.value("SELECT 1"));
    outcome.expect_err("it is refused")
}

/// Asserts that a query on a thread is still waiting a moment later.
#[track_caller]
fn waits<T>(query: &thread::ScopedJoinHandle<'_, T>) {
    thread::sleep(SHORT);
    assert!(!query.is_finished(), "it was served at once");
}

/// The value of a column of a table of the console, in the row where `key` is `name`.
#[track_caller]
fn shown(site: &Site, table: &str, key: &str, name: &str, column: &str) -> String {
    let answer = site.weir().show(table);
    let row = (0..answer.rows.len()).find(|row| answer.get(*row, key) == Some(name));
    let row = row.unwrap_or_else(|| panic!("SHOW {table} has no {name}: {answer:?}"));
    answer.get(row, column).unwrap_or_default().to_owned()
}

/// Both modes in which servers change their clients.
const SHARING: [Mode; 2] = [Mode::Transaction, Mode::Statement];

/// Terminates all servers of the site, as an administrator of the database would.
fn end_servers(site: &Site) {
    let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
               WHERE datname = current_database() AND usename <> 'postgres'";
    site.superuser().query(sql).unwrap();
}
