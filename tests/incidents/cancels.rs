//! A cancel hits the query that it was meant for, or none.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weir_pgclient::{Canceller, Connection};
use weir_pgwire::put_front;
use weir_tests::{Ini, Mode, Postgres, Site, Tap, eventually};

use crate::report::{Report, size};

/// A pooler with one server, and the proxy that holds up its cancels.
struct Pooler {
    site: Site,
    tap: Tap,
}

impl Pooler {
    fn new(mode: Mode) -> Pooler {
        let tap = Tap::before(&Postgres::shared());
        Pooler { site: Site::ini(&Ini::of(mode).set("default_pool_size", 1).through(tap.port())), tap }
    }
}

/// Two poolers in front of one PostgreSQL, each with one server. A client of each runs a slow query, and a hundred
/// cancels for it arrive at once while the proxy holds cancels up; other clients share the server and are never
/// cancelled, and each pooler also receives keys of the other. A pooler that assigns a server while a cancel for it is
/// on its way, or takes a key for another client's, cancels one of the others.
#[test]
fn a_cancel_never_hits_another_clients_query() {
    let report = Report::begin();
    for mode in [Mode::Transaction, Mode::Session] {
        let poolers = [Pooler::new(mode), Pooler::new(mode)];
        let stop = AtomicBool::new(false);
        let cancelled = AtomicU32::new(0);
        let undisturbed = AtomicU32::new(0);
        thread::scope(|scope| {
            for pooler in &poolers {
                scope.spawn(|| hold_up(&pooler.tap, &stop));
            }
            let others: Vec<_> = (0..6)
                .map(|number| {
                    let (pooler, stop, undisturbed) = (&poolers[number % 2], &stop, &undisturbed);
                    scope.spawn(move || never_cancelled(pooler, number, stop, undisturbed))
                })
                .collect();
            let victims: Vec<_> = (0..2)
                .map(|number| {
                    let (poolers, cancelled) = (&poolers, &cancelled);
                    scope.spawn(move || victim(&poolers[number], &poolers[1 - number], cancelled))
                })
                .collect();
            let ended: Vec<_> = victims.into_iter().map(thread::ScopedJoinHandle::join).collect();
            stop.store(true, Ordering::Relaxed);
            ended.into_iter().chain(others.into_iter().map(thread::ScopedJoinHandle::join)).for_each(|end| {
                end.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            });
        });
        let (hits, undisturbed_count) = (cancelled.load(Ordering::Relaxed), undisturbed.load(Ordering::Relaxed));
        assert!(hits > 0 && undisturbed_count > 0, "{hits} hit, {undisturbed_count} undisturbed: nothing was tested");
        report.figure(format!(
            "{mode} mode: {hits} queries cancelled, {undisturbed_count} undisturbed queries of others"
        ));
    }
}

/// Cancels are held up for a moment, repeatedly.
fn hold_up(tap: &Tap, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        tap.hold_cancels(true);
        thread::sleep(Duration::from_millis(40));
        tap.hold_cancels(false);
        thread::sleep(Duration::from_millis(15));
    }
}

/// Alternates slow and short queries, with a hundred cancels for each, some sent to the wrong pooler.
fn victim(own: &Pooler, other: &Pooler, cancelled: &AtomicU32) {
    for round in 0..size(6, 60) {
        let mut client = own.site.connect();
        let canceller = client.canceller();
        // A short query may end before any cancel arrives; the cancel must then hit nothing.
        let sql = if round % 2 == 0 { "SELECT 'mine' FROM pg_sleep(60)" } else { "SELECT 'mine' FROM pg_sleep(0.03)" };
        thread::scope(|scope| {
            let query = scope.spawn(move || (client.value(sql), client));
            await_query(own, &query);
            let requests: Vec<_> = (0..100)
                .map(|number| {
                    let canceller = canceller.clone();
                    let wrong = (number % 10 == 0).then(|| Connection::open(&other.site.params()));
                    scope.spawn(move || send(&canceller, wrong))
                })
                .collect();
            let (outcome, client) = query.join().expect("the thread does not panic");
            match outcome {
                Ok(value) => assert_eq!(value.as_deref(), Some("mine")),
                Err(error) => {
                    // A refused connection, or a wait that was cancelled, closes the client's connection.
                    assert!(error.sqlstate() == Some("57014"), "{error}");
                    cancelled.fetch_add(1, Ordering::Relaxed);
                }
            }
            // In session mode other clients get its server only after it has disconnected.
            drop(client);
            requests.into_iter().for_each(|request| request.join().expect("the thread does not panic"));
        });
    }
}

/// A request to its own pooler, or to one that must not know its key. Unmatched requests may be refused.
fn send(canceller: &Canceller, wrong: Option<Result<Connection, weir_pgclient::Error>>) {
    match wrong {
        None => drop(canceller.cancel()),
        Some(unknown) => {
            let mut unknown = unknown.expect("the other pooler listens");
            let _ = unknown.send_bytes(&canceller.request());
            assert!(unknown.read_bytes(Duration::from_secs(30)).is_err(), "a cancel request is never answered");
        }
    }
}

/// Waits until the client's query runs, or has ended.
fn await_query(pooler: &Pooler, query: &thread::ScopedJoinHandle<'_, impl Sized>) {
    let sql = "SELECT count(*) FROM pg_stat_activity \
               WHERE datname = current_database() AND usename = 'app' AND state = 'active' AND query LIKE '%mine%'";
    let mut superuser = pooler.site.superuser();
    let begin = Instant::now();
    while !query.is_finished() && begin.elapsed() < Duration::from_secs(20) {
        if superuser.value(sql).unwrap().as_deref() == Some("1") {
            return;
        }
    }
}

/// A client without cancels, tagged; it connects and disconnects, as session mode needs.
fn never_cancelled(pooler: &Pooler, number: usize, stop: &AtomicBool, undisturbed: &AtomicU32) {
    let mut round = 0;
    while !stop.load(Ordering::Relaxed) {
        let mut client = pooler.site.connect();
        for _ in 0..5 {
            round += 1;
            let tag = format!("{number}/{round}");
            let value = client.value(&format!("SELECT '{tag}' FROM pg_sleep(0.004)"));
            let value = value.unwrap_or_else(|error| panic!("{tag}, which is never cancelled, was hit: {error}"));
            assert_eq!(value, Some(tag));
            undisturbed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A hundred requests with every kind of wrong key hit nothing.
#[test]
fn a_cancel_with_a_guessed_key_hits_no_client() {
    let report = Report::begin();
    let site = Site::transaction(1);
    let mut client = site.connect();
    let request = client.canceller().request();
    let pid = client.backend_pid();
    thread::scope(|scope| {
        let query = scope.spawn(|| client.value("SELECT 'undisturbed' FROM pg_sleep(1.5)"));
        eventually("it runs", || match site.weir().pool("app").get("sv_active") {
            1 => Ok(()),
            other => Err(other),
        });
        let right = &request[12..];
        let mut guesses = vec![(pid, vec![0; right.len()]), (pid, vec![255; right.len()]), (pid, Vec::new())];
        guesses.push((pid, right[..right.len() - 1].to_vec()));
        guesses.push((pid, [right, &[0]].concat()));
        for bit in 0..right.len() * 8 {
            let mut wrong = right.to_vec();
            wrong[bit / 8] ^= 1 << (bit % 8);
            guesses.push((pid, wrong));
        }
        guesses.extend((0..32).map(|bit| (pid ^ (1 << bit), right.to_vec())));
        for (pid, key) in &guesses {
            let mut packet = Vec::new();
            put_front::cancel_request(&mut packet, *pid, key);
            let mut unknown = Connection::open(&site.params()).unwrap();
            unknown.send_bytes(&packet).unwrap();
            let answer = unknown.read_bytes(Duration::from_secs(30));
            // A key of an invalid length makes it no cancel request, and may get an error.
            assert!(answer.is_err() || key.len() != right.len(), "a cancel request is never answered");
        }
        assert_eq!(query.join().unwrap().unwrap().as_deref(), Some("undisturbed"));
        report.figure(format!("{} guessed keys", guesses.len()));
    });
}
