//! A full pool reports that it is full, and by which clients, and is not taken for a dead server.

use std::thread;
use std::time::{Duration, Instant};

use weir_pgclient::{Connection, Error};
use weir_tests::{Batch, Ini, Mode, Postgres, Setup, Site, Tap, eventually, line_of, users};

use crate::report::{Report, size};

/// As many clients as the pool has servers begin a transaction and stay idle. No query is running, the database is
/// idle. The console shows the age of the oldest wait, growing; a waiting client gets, first by a notice and then by
/// the error, the number of held servers, of the clients that are idle in a transaction, and for how long; and the
/// console's tables link each server to its client.
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
    assert!(line_of(&notice).starts_with("Notice"), "{}", line_of(&notice));
    let notice = waiting.take_notices().pop().expect("a notice").detail.unwrap_or_default();
    // Each server is linked to its client and the client's state.
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
            Ok(frame) if line_of(&frame).starts_with("Error") => {
                break weir_pgclient::ServerErrorFields::read(&frame.body).unwrap();
            }
            Ok(_) => {}
            Err(error) => panic!("{error}"),
        }
    };
    let waited = began.elapsed();
    assert_eq!((refusal.sqlstate.as_str(), refusal.message.as_str()), ("57014", "query_wait_timeout"));
    let detail = refusal.detail.unwrap_or_default();
    for reported in [&notice, &detail] {
        assert!(
            reported.contains("3 of 3 servers are in use")
                && reported.contains("3 by clients that idle in a transaction"),
            "{reported:?}"
        );
    }
    // A thread of its own writes the log.
    eventually("the log reports it too", || {
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

/// A pool whose servers are all held refuses many clients, over two hosts. Each gets the error of a full pool, which
/// differs from that of a dead server and from that of a limit on clients; no host is avoided or logged in to again
/// because of it, and when the holders disconnect, both hosts serve at once.
#[test]
fn a_full_pool_is_reported_as_full_and_bans_no_server() {
    let report = Report::begin();
    let postgres = Postgres::shared();
    // Two addresses with one port, so that one connection string has both.
    let first = Tap::at(&postgres, "127.0.0.4", 0);
    let second = Tap::at(&postgres, "127.0.0.5", first.port());
    let dead = weir_pglocal::free_port().unwrap();
    let words = format!("host=127.0.0.4,127.0.0.5 port={} dbname=postgres", first.port());
    let ini = Ini::transaction(4).set("query_wait_timeout", "0.3").set("max_client_conn", 40);
    let ini =
        ini.database("two", &words).database("dead", &format!("host=127.0.0.1 port={dead} on_server_down=refuse"));
    let site = Site::ini(&ini);
    let params = site.weir().params(users::APP.name, "two").password(users::APP.password);
    // On a busy machine, opening the first server may take longer than the timeout of waiting clients.
    let begun = || {
        eventually("the pool has a server", || {
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
                    let reported = error.server().unwrap_or_else(|| panic!("{error}"));
                    assert_eq!(
                        (reported.sqlstate.as_str(), reported.message.as_str()),
                        ("08P01", "query_wait_timeout")
                    );
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
    // The holders find their servers unchanged.
    for holder in &mut holders {
        assert_eq!(holder.value("SELECT 'mine'").unwrap().as_deref(), Some("mine"));
        holder.query("COMMIT").unwrap();
    }
    let at_once: Vec<_> = (0..4).map(|_| begun()).collect();
    assert_eq!((first.open(), second.open()), (2, 2), "both hosts serve at once");
    drop((holders, at_once));

    let down = refused(&site, "dead");
    assert_eq!(down.sqlstate(), Some("08P01"), "{down}");
    assert!(down.to_string().to_lowercase().contains("refused"), "{down}");
    let refused_clients: Vec<_> = std::iter::from_fn(|| Connection::connect(&params).ok()).take(60).collect();
    let limit = refused(&site, "two");
    let reported = limit.server().unwrap_or_else(|| panic!("{limit}"));
    let wanted = ("08P01", "no more connections allowed (max_client_conn)");
    assert_eq!((reported.sqlstate.as_str(), reported.message.as_str()), wanted);
    assert!(site.weir().command("SHOW POOLS").is_ok(), "the operator can still log in");
    drop(refused_clients);
    report.figure(format!("{turned_away} clients refused by a full pool; 0 servers closed, 0 logins for it"));
}
