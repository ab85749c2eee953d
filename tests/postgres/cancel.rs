//! Cancel requests: they reach the right query, or none.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use weir_pgclient::{Connection, Error};
use weir_pgwire::{backend, put_front, tag};
use weir_tests::{Mode, Setup, Site, eventually, read_until_ready};

everywhere!(
    a_running_query_is_cancelled_and_the_connection_goes_on,
    a_cancel_with_a_wrong_key_does_nothing,
    a_cancel_of_an_idle_client_does_nothing,
);

const SLOW: &str = "SELECT pg_sleep(60)";

/// Waits until a query that sleeps is running on the server.
fn await_sleep(site: &Site, count: usize) {
    eventually("the query runs", || {
        let backends = site.database().backends();
        let active = backends.iter().filter(|(_, state)| state == "active").count();
        if active >= count { Ok(()) } else { Err(backends) }
    });
}

fn a_running_query_is_cancelled_and_the_connection_goes_on(site: &Site) {
    let mut client = site.connect();
    for _ in 0..3 {
        let canceller = client.canceller();
        let error = thread::scope(|scope| {
            let query = scope.spawn(|| client.query(SLOW).unwrap_err());
            await_sleep(site, 1);
            canceller.cancel().unwrap();
            query.join().unwrap()
        });
        assert_eq!(error.sqlstate(), Some("57014"), "{error}");
        assert_eq!(error.server().unwrap().message, "canceling statement due to user request");
        assert_eq!(client.value("SELECT 'alive'").unwrap().as_deref(), Some("alive"));
    }
}

/// What a query answers that waits for a lock meanwhile.
fn answer_after(site: &Site, client: &mut Connection, act: impl FnOnce()) -> Option<String> {
    let mut holder = site.superuser();
    holder.query("SELECT pg_advisory_lock(1)").unwrap();
    let waits = "SELECT 'undisturbed' FROM (SELECT pg_advisory_xact_lock(1)) AS lock";
    thread::scope(|scope| {
        let query = scope.spawn(|| client.value(waits).unwrap());
        await_sleep(site, 1);
        act();
        drop(holder);
        query.join().unwrap()
    })
}

fn a_cancel_with_a_wrong_key_does_nothing(site: &Site) {
    let mut client = site.connect();
    let pid = client.backend_pid();
    let answer = answer_after(site, &mut client, || {
        for key in [[0; 4], [255; 4], [1, 2, 3, 4]] {
            let mut other_client = Connection::open(&site.params()).unwrap();
            let mut packet = Vec::new();
            put_front::cancel_request(&mut packet, pid, &key);
            other_client.send_bytes(&packet).unwrap();
            assert!(other_client.read_bytes(Duration::from_secs(20)).is_err(), "a cancel request is never answered");
        }
    });
    assert_eq!(answer.as_deref(), Some("undisturbed"));
}

fn a_cancel_of_an_idle_client_does_nothing(site: &Site) {
    let idle = site.connect();
    let mut busy = site.connect();
    let answer = answer_after(site, &mut busy, || {
        for _ in 0..20 {
            idle.canceller().cancel().unwrap();
        }
    });
    assert_eq!(answer.as_deref(), Some("undisturbed"));
}

#[test]
fn a_cancel_of_a_waiting_client_does_not_hit_the_query_that_it_waits_for() {
    let site = Site::transaction(1);
    let mut busy = site.connect();
    let mut waiting = site.connect();
    let canceller = waiting.canceller();
    thread::scope(|scope| {
        let running = scope.spawn(move || busy.value("SELECT 'done' FROM pg_sleep(1.5)"));
        await_sleep(&site, 1);
        let waits = scope.spawn(move || waiting.value("SELECT 'waited'"));
        site.weir().await_pool("one waits", |pool| pool.get("cl_waiting") == 1);
        canceller.cancel().unwrap();
        assert_eq!(running.join().unwrap().unwrap().as_deref(), Some("done"));
        // A waiting client has nothing to cancel; an error is fine too.
        match waits.join().unwrap() {
            Ok(value) => assert_eq!(value.as_deref(), Some("waited")),
            Err(error) => assert_eq!(error.sqlstate(), Some("57014"), "{error}"),
        }
    });
}

#[test]
fn a_part_of_a_key_of_protocol_3_2_cancels_nothing() {
    let site = Site::with(Setup::new(Mode::Transaction).size(1).auth("trust"), Mode::Transaction);
    let params = site.params();
    let mut client = Connection::open(&params).unwrap();
    let mut packet = Vec::new();
    put_front::startup(&mut packet, &[("user", params.user.as_str()), ("database", params.database.as_str())], 2);
    client.send_bytes(&packet).unwrap();
    let frames = read_until_ready(&mut client, 1);
    let frame = frames.iter().find(|frame| frame.tag == tag::back::BACKEND_KEY_DATA).expect("a key");
    let (pid, key) = backend::backend_key(&frame.body).unwrap();
    assert!(key.len() > 4);
    thread::scope(|scope| {
        let query = scope.spawn(move || client.value("SELECT 'undisturbed' FROM pg_sleep(1)").unwrap());
        await_sleep(&site, 1);
        for length in [4, 5, key.len() - 1] {
            let mut request = Vec::new();
            put_front::cancel_request(&mut request, pid, &key[..length]);
            let mut other = Connection::open(&params).unwrap();
            other.send_bytes(&request).unwrap();
            assert!(other.read_bytes(Duration::from_secs(20)).is_err(), "a cancel request is never answered");
        }
        assert_eq!(query.join().unwrap().as_deref(), Some("undisturbed"));
    });
}

#[test]
fn a_key_of_protocol_3_2_cancels_too() {
    let site = Site::with(Setup::new(Mode::Transaction).size(1).auth("trust"), Mode::Transaction);
    let params = site.params();
    let mut client = Connection::open(&params).unwrap();
    let mut packet = Vec::new();
    put_front::startup(&mut packet, &[("user", params.user.as_str()), ("database", params.database.as_str())], 2);
    client.send_bytes(&packet).unwrap();
    let frames = read_until_ready(&mut client, 1);
    let frame = frames.iter().find(|frame| frame.tag == tag::back::BACKEND_KEY_DATA).expect("a key");
    let (pid, key) = backend::backend_key(&frame.body).unwrap();
    let mut request = Vec::new();
    put_front::cancel_request(&mut request, pid, key);
    let error = thread::scope(|scope| {
        let query = scope.spawn(move || client.query(SLOW).unwrap_err());
        await_sleep(&site, 1);
        let mut other = Connection::open(&params).unwrap();
        other.send_bytes(&request).unwrap();
        assert!(other.read_bytes(Duration::from_secs(20)).is_err(), "a cancel request is never answered");
        query.join().unwrap()
    });
    assert_eq!(error.sqlstate(), Some("57014"), "{error}");
}

#[test]
fn each_of_many_pipelined_queries_is_cancelled_by_a_request_of_its_own() {
    let site = Site::transaction(1);
    let mut client = site.connect();
    let canceller = client.canceller();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        // Another client wants the server all the time.
        scope.spawn(|| {
            let mut other = site.connect();
            while !stop.load(Ordering::Relaxed) {
                assert_eq!(other.value("SELECT 'undisturbed'").unwrap().as_deref(), Some("undisturbed"));
            }
        });
        let _stops = StopOnDrop(&stop);
        let mut pipeline = Vec::new();
        (0..10).for_each(|_| put_front::query(&mut pipeline, SLOW));
        client.send_bytes(&pipeline).unwrap();
        await_sleep(&site, 1);
        let mut ignored = 0;
        for number in 0..10 {
            canceller.cancel().unwrap();
            // PostgreSQL ignores a signal that arrives before the backend has read the query. On a busy machine it does
            // so for one or two in a hundred requests, of direct connections, too.
            let first = loop {
                match client.read_frame(Duration::from_secs(5)) {
                    Ok(frame) => break frame,
                    Err(Error::Timeout) => {
                        ignored += 1;
                        canceller.cancel().unwrap();
                    }
                    Err(error) => panic!("{number}: {error}"),
                }
            };
            let mut frames = vec![first];
            frames.extend(read_until_ready(&mut client, 1));
            let error = frames.iter().find(|frame| frame.tag == tag::back::ERROR).unwrap_or_else(|| panic!("{number}"));
            let fields = backend::error_fields(&error.body).unwrap();
            assert_eq!(fields.sqlstate(), Some(&b"57014"[..]), "{number}");
        }
        assert!(ignored <= 3, "{ignored} requests had no effect");
    });
}

/// Ends the loop of another thread, however the test ends.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn connections_one_after_the_other_have_process_ids_of_their_own() {
    let site = Site::transaction(1);
    let pids: HashSet<u32> = (0..50).map(|_| site.connect().backend_pid()).collect();
    assert_eq!(pids.len(), 50);
}
