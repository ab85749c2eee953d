//! A primary hands over to another server, and its name moves: from then on clients write to the new one.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weir_pgclient::{ConnectParams, Connection};
use weir_tests::{Ini, Mode, NameServer, Postgres, Site, Tap, eventually, users, within};

use crate::report::{Report, size};

/// What happens to the old primary.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Old {
    /// The old primary restarts as a standby: connections are cut, new ones are accepted.
    Restarted,
    /// The old primary stays up, with all its connections, and takes no more writes.
    ReadOnly,
}

/// One attempt to write.
#[derive(Clone, Debug)]
struct Attempt {
    at: Instant,
    /// The error's SQLSTATE, or how the connection failed; `None`: it was written.
    error: Option<String>,
}

const NAME: &str = "db.weir.example";

fn prepare(postgres: &Postgres) {
    let sql = "CREATE TABLE written (n int); GRANT ALL ON written TO PUBLIC";
    postgres.superuser("postgres").query_all(sql).unwrap();
}

fn make_read_only(postgres: &Postgres) {
    let mut superuser = postgres.superuser("postgres");
    superuser.query("ALTER SYSTEM SET default_transaction_read_only = on").unwrap();
    superuser.query("SELECT pg_reload_conf()").unwrap();
}

/// Writes until stopped, as an application does: a broken connection is replaced, an error is retried.
fn write(params: &ConnectParams, stop: &AtomicBool, attempts: &Mutex<Vec<Attempt>>) {
    let mut client = None;
    while !stop.load(Ordering::Relaxed) {
        let outcome = match client.take() {
            Some(client) => Ok(client),
            None => Connection::connect(params),
        };
        let error = match outcome {
            Ok(mut connected) => match connected.query("INSERT INTO written VALUES (1)") {
                Ok(_) => {
                    client = Some(connected);
                    None
                }
                Err(error) => {
                    // After an error of the server itself, the connection is still good.
                    let refused = error.server().is_some_and(|reported| reported.severity == "ERROR");
                    client = refused.then_some(connected);
                    Some(error.sqlstate().map_or_else(|| error.to_string(), str::to_owned))
                }
            },
            Err(error) => Some(error.sqlstate().map_or_else(|| error.to_string(), str::to_owned)),
        };
        attempts.lock().expect("no thread panics here").push(Attempt { at: Instant::now(), error });
        thread::sleep(Duration::from_millis(15));
    }
}

fn switch_over(report: &Report, mode: Mode, old: Old) {
    let (first, second) = (Postgres::private(), Postgres::private());
    prepare(&first);
    prepare(&second);
    second.demote();
    let names = NameServer::start(&["127.0.0.2"]);
    let to_second = Tap::at(&second, "127.0.0.3", 0);
    let _to_first = Tap::at(&first, "127.0.0.2", to_second.port());
    let ini = Ini::of(mode).set("default_pool_size", 10).set("dns_max_ttl", 1).set("server_login_retry", 1);
    let ini = ini.set("resolv_conf", "{folder}/resolv.conf").file("resolv.conf", &names.resolv_conf());
    // Sessions last as long as their clients; this setting ends those whose server must be closed.
    let ini = ini.set("server_fast_close", 1);
    let words = format!("host={NAME} port={} dbname=postgres", to_second.port());
    let site = Site::ini(&ini.database("named", &words));
    let params = site.weir().params(users::APP.name, "named").password(users::APP.password);
    let (stop, attempts) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let moved = thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| write(&params, &stop, &attempts));
        }
        let written = |since: Option<Instant>| {
            let attempts = attempts.lock().expect("no thread panics here");
            attempts.iter().filter(|one| one.error.is_none() && since.is_none_or(|since| one.at > since)).count()
        };
        eventually("they write", || if written(None) > 50 { Ok(()) } else { Err(written(None)) });
        match old {
            Old::Restarted => first.demote(),
            Old::ReadOnly => make_read_only(&first),
        }
        second.superuser("postgres").query("SELECT pg_promote()").unwrap();
        // The name changes a while later, as in practice.
        thread::sleep(Duration::from_millis(1500));
        names.answer(&["127.0.0.3"]);
        let moved = Instant::now();
        within(Duration::from_secs(60), "clients write to the new primary", || {
            let mut superuser = second.superuser("postgres");
            let count = superuser.value("SELECT count(*) FROM written").map_err(|error| error.to_string())?;
            if count.as_deref() == Some("0") { Err(count.unwrap_or_default()) } else { Ok(()) }
        });
        // All clients, for some time.
        let end = Duration::from_secs(size(3, 60));
        within(Duration::from_secs(60) + end, "no client is refused any more", || {
            let attempts = attempts.lock().expect("no thread panics here");
            let last = attempts.iter().rev().find(|one| one.error.is_some()).map_or(moved, |one| one.at);
            if last.elapsed() >= end && moved.elapsed() >= end { Ok(()) } else { Err(last.elapsed()) }
        });
        stop.store(true, Ordering::Relaxed);
        moved
    });
    let attempts = attempts.into_inner().expect("no thread panics here");
    let late: Vec<_> = attempts.iter().filter(|one| one.at > moved).collect();
    let last = late.iter().rev().find(|one| one.error.is_some()).map_or(Duration::ZERO, |one| one.at - moved);
    let refused = |attempts: &mut dyn Iterator<Item = &Attempt>| {
        attempts.filter(|one| one.error.as_deref() == Some("25006")).count()
    };
    let before = refused(&mut attempts.iter().filter(|one| one.at <= moved));
    let after = refused(&mut late.iter().copied());
    // No client writes to the old primary after the last refusal, and no write is lost without an error.
    let count = |postgres: &Postgres| -> usize {
        let value = postgres.superuser("postgres").value("SELECT count(*) FROM written").unwrap().unwrap();
        value.parse().unwrap()
    };
    let written = attempts.iter().filter(|one| one.error.is_none()).count();
    let found = count(&first) + count(&second);
    assert!(found >= written, "{written} writes were confirmed, {found} are there");
    assert!(before > 0 || old == Old::Restarted, "the old primary refused no client, so nothing was tested");
    report.figure(format!(
        "{mode} mode, old primary {old:?}: {before} refused with 25006 before the name moved, {after} after; the last error \
         {:.1} s after (dns_max_ttl = 1 s); {written} written",
        last.as_secs_f64()
    ));
}

/// Clients write without end while the primary hands over. It restarts as a standby, or stays up with all its
/// connections and refuses writes; the other server is promoted, and a moment later the name has its address, though
/// the name's TTL is an hour. Writes arrive at the new primary within `dns_max_ttl` and a moment, and no client gets
/// 25006 from then on. A pooler that keeps its connections, or the known address, refuses writes for as long as they
/// live.
#[test]
fn writes_follow_a_primary_that_moves() {
    let report = Report::begin();
    thread::scope(|scope| {
        for (mode, old) in
            [(Mode::Transaction, Old::Restarted), (Mode::Transaction, Old::ReadOnly), (Mode::Session, Old::ReadOnly)]
        {
            let report = &report;
            scope.spawn(move || switch_over(report, mode, old));
        }
    });
}
