//! Clients that hold a server: for how long, by which means, and the effect on other clients.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weir_pgclient::Connection;
use weir_tests::{Batch, Mode, Setup, Site, lines_of, read_until_ready, until_quiet};

/// A pool of one server.
fn site(setup: impl FnOnce(Setup) -> Setup) -> Site {
    Site::with(setup(Setup::new(Mode::Transaction).size(1)), Mode::Transaction)
}

/// Ways to hold a server in which nothing happens until the client acts.
fn silences() -> Vec<(&'static str, Vec<u8>)> {
    let batch = Batch::new;
    let long = batch().query(&format!("SELECT '{}'", "x".repeat(20_000))).bytes()[..10_000].to_vec();
    let unread = "SELECT repeat('x', 1000) FROM generate_series(1, 100000)";
    vec![
        ("Parse, Describe, Flush", batch().parse("", "SELECT 1").describe_statement("").flush().bytes().to_vec()),
        ("Parse alone", batch().parse("", "SELECT 1").bytes().to_vec()),
        ("Execute without Sync", batch().run("SELECT 1", &[]).bytes().to_vec()),
        ("Execute and Flush", batch().run("SELECT 1", &[]).flush().bytes().to_vec()),
        ("a failed pipeline", batch().parse("", "SELEKT").flush().bytes().to_vec()),
        ("half a query", long.clone()),
        ("half a query behind a Parse", [batch().parse("", "SELECT 1").bytes(), &long].concat()),
        ("a transaction", batch().query("BEGIN").bytes().to_vec()),
        ("a failed transaction", batch().query("BEGIN; SELECT 1/0").bytes().to_vec()),
        ("COPY without data", batch().query("COPY held FROM STDIN").bytes().to_vec()),
        (
            "COPY with a part of a message",
            batch().query("COPY held FROM STDIN").raw(b"d\0\0\x10\0xyz").bytes().to_vec(),
        ),
        ("COPY to a client that does not read", batch().query(&format!("COPY ({unread}) TO STDOUT")).bytes().to_vec()),
        ("rows for a client that does not read", batch().query(unread).bytes().to_vec()),
    ]
}

#[test]
fn a_silent_client_is_timed_out_however_it_holds_its_server() {
    let site = site(|setup| setup.pool("idle_transaction_timeout = \"700ms\"").pool("query_wait_timeout = \"20s\""));
    site.connect().query("CREATE TABLE held (line text)").unwrap();
    for (what, bytes) in silences() {
        let mut holder = site.connect();
        holder.send_bytes(&bytes).unwrap();
        site.weir().await_pool(what, |pool| pool.get("sv_active") == 1);
        let value = site.connect().value("SELECT 'served'").unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(value.as_deref(), Some("served"), "{what}");
        let transcript = until_quiet(&mut holder, Duration::from_secs(20));
        assert_eq!(transcript.last().map(String::as_str), Some("Closed"), "{what}: {transcript:?}");
    }
}

#[test]
fn a_transaction_is_timed_however_it_began() {
    let site = site(|setup| setup.pool("transaction_timeout = \"700ms\"").pool("query_wait_timeout = \"20s\""));
    site.connect().query("CREATE TABLE held (line text)").unwrap();
    let sleeps = [
        ("in one text", Batch::new().query("BEGIN; SELECT pg_sleep(3600)")),
        ("as a single statement", Batch::new().query("SELECT pg_sleep(3600)")),
        ("without a Sync", Batch::new().run("SELECT pg_sleep(3600)", &[])),
        ("behind others", Batch::new().query("SELECT 1").query("BEGIN").query("COMMIT").query("SELECT pg_sleep(3600)")),
    ];
    let sleeps = sleeps.into_iter().map(|(what, batch)| (what, batch.bytes().to_vec()));
    for (what, bytes) in sleeps.chain(silences()) {
        let mut holder = site.connect();
        holder.send_bytes(&bytes).unwrap();
        site.weir().await_pool(what, |pool| pool.get("sv_active") == 1);
        let value = site.connect().value("SELECT 'served'").unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(value.as_deref(), Some("served"), "{what}");
    }
    // Many short transactions are not one long transaction.
    let mut client = site.connect();
    let batch = (0..6).fold(Batch::new(), |batch, _| batch.query("SELECT pg_sleep(0.3)"));
    client.send_bytes(batch.bytes()).unwrap();
    assert_eq!(read_until_ready(&mut client, 6).iter().filter(|frame| frame.tag == b'Z').count(), 6);
}

#[test]
fn query_timeout_is_for_queries_that_run() {
    let site = site(|setup| setup.pool("query_timeout = \"700ms\""));
    for (what, batch) in [
        ("described", Batch::new().parse("", "SELECT 1").describe_statement("").flush()),
        ("executed", Batch::new().run("SELECT 1", &[]).flush()),
        ("in a transaction", Batch::new().query("BEGIN")),
    ] {
        let mut client = site.connect();
        client.send_bytes(batch.bytes()).unwrap();
        let transcript = until_quiet(&mut client, Duration::from_millis(2000));
        assert!(!transcript.iter().any(|line| line == "Closed" || line.starts_with("Error")), "{what}: {transcript:?}");
        client.send_bytes(Batch::new().run("SELECT 'still there'", &[]).sync().bytes()).unwrap();
        assert!(lines_of(&read_until_ready(&mut client, 1)).iter().any(|line| line == "Row still there"), "{what}");
    }
}

/// A client that always has another query pending, as long as `others` run.
fn beside_a_greedy_client(site: &Site, unit: &Batch, others: impl FnOnce() + Send) -> u64 {
    let done = AtomicBool::new(false);
    let mut greedy = site.connect();
    thread::scope(|scope| {
        let (done, unit) = (&done, unit.bytes());
        let greedy = scope.spawn(move || {
            greedy.send_bytes(unit).unwrap();
            let mut rounds = 0;
            while !done.load(Ordering::Relaxed) {
                greedy.send_bytes(unit).unwrap();
                read_until_ready(&mut greedy, 1);
                rounds += 1;
            }
            read_until_ready(&mut greedy, 1);
            rounds
        });
        others();
        done.store(true, Ordering::Relaxed);
        greedy.join().unwrap()
    })
}

#[test]
fn a_client_that_always_has_another_query_pending_waits_like_all_others() {
    for workers in [1, 2] {
        let setup = |setup: Setup| {
            let setup = setup.workers(workers).pool("query_wait_timeout = \"10s\"");
            if workers > 1 { setup.spread("always") } else { setup }
        };
        for unit in [
            Batch::new().query("SELECT pg_sleep(0.01)"),
            Batch::new().run("SELECT pg_sleep(0.01)", &[]).sync(),
            Batch::new().query("BEGIN; SELECT pg_sleep(0.01); COMMIT"),
        ] {
            let site = site(setup);
            let rounds = beside_a_greedy_client(&site, &unit, || {
                thread::scope(|scope| {
                    for _ in 0..4 {
                        let mut client = site.connect();
                        scope.spawn(move || {
                            for _ in 0..25 {
                                let value = client.value("SELECT 'mine'").expect("it is served");
                                assert_eq!(value.as_deref(), Some("mine"));
                            }
                        });
                    }
                });
            });
            assert!(rounds > 0, "the greedy client is served too");
        }
    }
}

#[test]
fn a_deep_pipeline_of_short_transactions_holds_the_others_up_for_a_few_of_them() {
    let site = site(|setup| setup);
    let mut greedy = site.connect();
    let batch = (0..600).fold(Batch::new(), |batch, _| batch.query("SELECT pg_sleep(0.05)"));
    greedy.send_bytes(batch.bytes()).unwrap();
    site.weir().await_pool("it works", |pool| pool.get("sv_active") == 1);
    let mut client = site.connect();
    let begin = Instant::now();
    for _ in 0..5 {
        client.value("SELECT 1").unwrap();
    }
    assert!(begin.elapsed() < Duration::from_secs(15), "the pipeline alone takes 30 s: {:?}", begin.elapsed());
}

#[test]
fn a_pipeline_does_not_hold_up_pause() {
    let site = site(|setup| setup);
    beside_a_greedy_client(&site, &Batch::new().query("SELECT pg_sleep(0.02)"), || {
        let mut console = site.weir().console();
        for _ in 0..3 {
            console.query("PAUSE").expect("all transactions end");
            console.query("RESUME").expect("it continues");
        }
    });
}

#[test]
fn a_cancel_of_a_waiting_client_ends_its_request_and_keeps_its_connection() {
    let site = site(|setup| setup);
    let mut holder = site.connect();
    holder.query("BEGIN").unwrap();
    let mut client = site.connect();
    let canceller = client.canceller();
    for batch in [
        Batch::new().query("SELECT 'mine'"),
        Batch::new().run("SELECT 'mine'", &[]).sync(),
        Batch::new().query(&format!("SELECT '{}'", "x".repeat(100_000))),
    ] {
        client.send_bytes(batch.bytes()).unwrap();
        site.weir().await_pool("it waits", |pool| pool.get("cl_waiting") == 1);
        canceller.cancel().unwrap();
        let transcript = lines_of(&read_until_ready(&mut client, 1));
        assert!(transcript[0].starts_with("Error 57014 canceling statement due to user request"), "{transcript:?}");
        assert_eq!(transcript.len(), 2, "{transcript:?}");
        site.weir().await_pool("it does not wait", |pool| pool.get("cl_waiting") == 0);
    }
    holder.query("COMMIT").unwrap();
    assert_eq!(client.value("SELECT 'again'").unwrap().as_deref(), Some("again"));
}

#[test]
fn startup_values_that_servers_refuse_close_no_server() {
    for mode in [Mode::Transaction, Mode::Session] {
        let site = Site::with(Setup::new(mode).size(1), mode);
        let pid = |site: &Site| site.connect().value("SELECT pg_backend_pid()").unwrap().unwrap();
        let first = pid(&site);
        for (name, value) in [
            ("TimeZone", "nonsense"),
            ("client_encoding", "nonsense"),
            ("DateStyle", "nonsense"),
            ("IntervalStyle", "nonsense"),
            ("search_path", "a b c"),
            ("statement_timeout", "soon"),
            ("default_transaction_isolation", "nonsense"),
            ("extra_float_digits", "99"),
            ("options", "-c TimeZone=nonsense -c extra_float_digits=3"),
        ] {
            let params = site.params().option(name, value);
            let outcome = Connection::connect(&params).and_then(|mut client| client.value("SELECT 1"));
            let error = outcome.expect_err("the server refuses it");
            assert_eq!(error.sqlstate(), Some("22023"), "{mode}: {name}: {error}");
            assert_eq!(pid(&site), first, "{mode}: {name}: the server is the same");
        }
        let mut client = site.connect();
        assert_eq!(client.value("SHOW extra_float_digits").unwrap().as_deref(), Some("1"));
        assert_eq!(client.value("SHOW TimeZone").unwrap().as_deref(), Some("UTC"));
    }
}
