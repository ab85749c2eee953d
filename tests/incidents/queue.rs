//! A pool that is full says so, says why, and is not taken for a dead server.

use std::thread;
use std::time::{Duration, Instant};

use weir_pgclient::{Connection, Error};
use weir_tests::{Batch, Ini, Mode, Postgres, Setup, Site, Tap, eventually, tell, users};

use crate::report::{Report, size};

/// As many clients as the pool has servers begin a transaction and go to sleep. Nothing moves: no query is running, the
/// database is idle. The console shows the age of the oldest wait, growing; whoever waits is told, first by a notice and
/// then by the refusal, that the servers are held, by how many clients that idle within a transaction, and for how long;
/// and the console's tables lead from each server to its holder.
#[test]
fn a_pool_held_by_idle_transactions_names_its_holders() {
    let report = Report::begin();
    let setup = Setup::new(Mode::Transaction).size(3).pool("query_wait_timeout = \"4s\"");
    let site = Site::with(setup.pool("query_wait_notify = \"1s\""), Mode::Transaction);
    let holders: Vec<_> = (0..3)
        .map(|number| {
            let name = format!("sleeper {number}");
            let mut client = Connection::connect(&site.params().option("application_name", &name)).unwrap();
            client.query("BEGIN").unwrap();
            client
        })
        .collect();
    let mut waiting = site.connect();
    let began = Instant::now();
    waiting.send_bytes(Batch::new().query("SELECT 1").bytes()).unwrap();
    let age = |row: &weir_tests::PoolRow| row.get("maxwait") * 1_000_000 + row.get("maxwait_us");
    let mut ages = Vec::new();
    for _ in 0..3 {
        let older = ages.last().copied().unwrap_or(0);
        ages.push(age(&site
            .weir()
            .await_pool("the oldest wait grows", |pool| pool.get("cl_waiting") == 1 && age(pool) > older + 200_000)));
    }
    let notice = waiting.read_frame(Duration::from_secs(20)).unwrap();
    assert!(tell(&notice).starts_with("Notice"), "{}", tell(&notice));
    let notice = waiting.take_notices().pop().expect("a notice").detail.unwrap_or_default();
    // From each server the way leads to its client, and what that is doing.
    let (servers, clients) = (site.weir().show("SERVERS"), site.weir().show("CLIENTS"));
    let cell = |table: &weir_pgclient::Answer, row, column| table.get(row, column).unwrap_or_default().to_owned();
    let mut names: Vec<_> = (0..servers.rows.len())
        .filter_map(|server| {
            let link = cell(&servers, server, "link");
            let client = (0..clients.rows.len()).find(|client| cell(&clients, *client, "ptr") == link)?;
            Some(cell(&clients, client, "application_name"))
        })
        .collect();
    names.sort();
    assert_eq!(names, ["sleeper 0", "sleeper 1", "sleeper 2"]);
    let refusal = loop {
        match waiting.read_frame(Duration::from_secs(30)) {
            Ok(frame) if tell(&frame).starts_with("Error") => {
                break weir_pgclient::ServerError::read(&frame.body).unwrap();
            }
            Ok(_) => {}
            Err(error) => panic!("{error}"),
        }
    };
    let waited = began.elapsed();
    assert_eq!((refusal.sqlstate.as_str(), refusal.message.as_str()), ("57014", "query_wait_timeout"));
    let detail = refusal.detail.unwrap_or_default();
    for told in [&notice, &detail] {
        assert!(
            told.contains("3 of 3 servers are in use") && told.contains("3 by clients that idle in a transaction"),
            "{told:?}"
        );
    }
    // The log is written by a thread of its own.
    eventually("the log says it too", || {
        let log = site.weir().log();
        if log.contains(&detail) { Ok(()) } else { Err(format!("{detail:?}: {log}")) }
    });
    report.figure(format!(
        "oldest wait seen growing to {} ms; after {:.1} s: \"{detail}\"",
        ages[2] / 1000,
        waited.as_secs_f64()
    ));
    drop(holders);
    eventually("served", || site.connect().value("SELECT 1"));
}

fn refused(site: &Site, pool: &str) -> Error {
    let params = site.weir().params(users::APP.name, pool).password(users::APP.password);
    let outcome = Connection::connect(&params).and_then(|mut client| client.value("SELECT 1"));
    outcome.expect_err("refused")
}

/// A pool whose servers are all held turns clients away by the score, over two hosts. Each is told that the pool is full,
/// which is another error than a dead server's and that of a limit on clients; no host is left out or logged in to
/// anew for it, and when the holders leave, both hosts serve at once.
#[test]
fn a_full_pool_is_told_as_full_and_bans_no_server() {
    let report = Report::begin();
    let postgres = Postgres::shared();
    // Two places on one port, so that one connection string has both.
    let first = Tap::at(&postgres, "127.0.0.4", 0);
    let second = Tap::at(&postgres, "127.0.0.5", first.port());
    let dead = weir_pglocal::free_port().unwrap();
    let words = format!("host=127.0.0.4,127.0.0.5 port={} dbname=postgres", first.port());
    let ini = Ini::transaction(4).set("query_wait_timeout", "0.3").set("max_client_conn", 40);
    let ini = ini.database("two", &words).database("dead", &format!("host=127.0.0.1 port={dead}"));
    let site = Site::ini(&ini);
    let params = site.weir().params(users::APP.name, "two").password(users::APP.password);
    // On a busy machine a first server may be longer on its way than anybody may wait here.
    let begun = || {
        eventually("it has a server", || {
            let mut client = Connection::connect(&params).map_err(|error| error.to_string())?;
            client.query("BEGIN").map_err(|error| error.to_string())?;
            Ok::<_, String>(client)
        })
    };
    let mut holders: Vec<_> = (0..4).map(|_| begun()).collect();
    let before = (first.open(), second.open(), first.logins() + second.logins());
    assert_eq!((before.0, before.1), (2, 2), "both hosts are in use");
    let turned_away = size(60, 1000);
    thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| {
                for _ in 0..turned_away / 10 {
                    let error = refused(&site, "two");
                    let told = error.server().unwrap_or_else(|| panic!("{error}"));
                    assert_eq!((told.sqlstate.as_str(), told.message.as_str()), ("57014", "query_wait_timeout"));
                }
            });
        }
    });
    let after = (first.open(), second.open(), first.logins() + second.logins());
    assert_eq!(after, before, "servers were lost, or logged in to, because the pool was full");
    let log = site.weir().log();
    for word in ["banned", "unhealthy", "server login failed", "server conn crashed"] {
        assert!(!log.contains(word), "the log takes it for a dead server: {word}: {log}");
    }
    // Those who held them find them as they were.
    for holder in &mut holders {
        assert_eq!(holder.value("SELECT 'mine'").unwrap().as_deref(), Some("mine"));
        holder.query("COMMIT").unwrap();
    }
    let at_once: Vec<_> = (0..4).map(|_| begun()).collect();
    assert_eq!((first.open(), second.open()), (2, 2), "both hosts serve at once");
    drop((holders, at_once));

    let down = refused(&site, "dead");
    assert_eq!(down.sqlstate(), Some("08006"), "{down}");
    assert!(down.to_string().to_lowercase().contains("refused"), "{down}");
    let crowd: Vec<_> = std::iter::from_fn(|| Connection::connect(&params).ok()).take(60).collect();
    let limit = refused(&site, "two");
    let told = limit.server().unwrap_or_else(|| panic!("{limit}"));
    let wanted = ("53300", "no more connections allowed (max_client_conn)");
    assert_eq!((told.sqlstate.as_str(), told.message.as_str()), wanted);
    assert!(site.weir().command("SHOW POOLS").is_ok(), "the operator gets in all the same");
    drop(crowd);
    report.figure(format!("{turned_away} clients told that the pool is full; 0 servers given up, 0 logins for it"));
}
