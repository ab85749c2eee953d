//! Memory is bounded, whatever clients do: statements without end, a reader that stops, many idle clients.

use std::io::Write;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use weir_pgclient::Connection;
use weir_pglocal::raise_descriptors;
use weir_pgwire::tag;
use weir_tests::{Batch, Bulk, Mode, Setup, Site, eventually, line_of};

use crate::report::{Report, full, size};

/// The highest peak resident size of a Weir with little state, in kB: the program, and a few buffers.
const LIMIT: u64 = 20 * 1024;

fn site(setup: Setup) -> Site {
    Site::with(setup.auth("trust"), Mode::Transaction)
}

#[track_caller]
fn assert_below(site: &Site, limit: u64) -> u64 {
    let memory = site.weir().memory();
    assert!(memory.peak < limit, "{} kB at most, {} kB now; the limit is {limit} kB", memory.peak, memory.now);
    memory.peak
}

/// Sends a batch while another thread reads and counts the answers, so that neither side waits for the other.
fn exchange(bulk: &mut Bulk, bytes: &[u8], read_until_ready: usize) {
    let mut socket: TcpStream = bulk.socket();
    thread::scope(|scope| {
        scope.spawn(move || socket.write_all(bytes).expect("the bytes can be sent"));
        for _ in 0..read_until_ready {
            bulk.skim(|tag, _| assert_ne!(tag, tag::back::ERROR));
        }
    });
}

/// Distinct statements of 500 bytes without end, prepared under a name and closed again, and unnamed, as from a
/// framework that writes values into its texts. A pooler that keeps each text, or each name, grows until it is killed.
#[test]
fn statements_without_end_take_no_memory() {
    let report = Report::begin();
    let site = site(Setup::new(Mode::Transaction).size(2));
    let mut bulk = Bulk::connect(&site);
    let padding = "x".repeat(500);
    let rounds = size(50, 2000);
    let mut levels = Vec::new();
    for round in 0..rounds {
        let mut batch = Batch::new();
        for number in 0..500 {
            let sql = format!("SELECT '{padding}', {round}, {number}");
            let named = batch.parse("s", &sql).bind("", "s", &[]).execute("", 0).close_statement("s");
            let other = format!("SELECT {round}, {number}, '{padding}'");
            batch = named.parse("", &other).bind("", "", &[]).execute("", 0);
        }
        exchange(&mut bulk, batch.sync().bytes(), 1);
        levels.push(site.weir().memory().now);
    }
    let (early, late) = (levels[rounds / 5], levels[rounds - 1]);
    assert!(late < early + 2048, "memory grows: {levels:?} kB");
    let peak = assert_below(&site, LIMIT);
    report.figure(format!("{} distinct statements, at most {} MB resident", rounds * 1000, peak / 1024));
}

/// The messages to a client up to this one, or to the end of its connection.
fn until(client: &mut Connection, last: &str) -> Vec<String> {
    let mut transcript: Vec<String> = Vec::new();
    while transcript.last().is_none_or(|line| line != last) {
        match client.read_frame(Duration::from_secs(30)) {
            Ok(frame) => transcript.push(line_of(&frame)),
            Err(_) => break,
        }
    }
    transcript
}

/// Distinct statements of clients that keep all that they prepare: the hard limit of `statement_memory` refuses more
/// with 54000, and the memory of clients that disconnect is freed.
#[test]
fn statements_that_are_kept_end_at_their_limit() {
    let report = Report::begin();
    let site = site(Setup::new(Mode::Transaction).size(2).limit("statement_memory = \"16MB\""));
    let padding = "x".repeat(2000);
    let mut kept = 0;
    let mut holders = Vec::new();
    for number in 0..30 {
        let mut batch = Batch::new();
        for statement in 0..500 {
            batch = batch.parse(&format!("s{statement}"), &format!("SELECT '{padding}', {number}, {statement}"));
        }
        let mut client = site.connect();
        // A refused client is closed, perhaps before all was sent.
        let _ = client.send_bytes(batch.sync().bytes());
        let transcript = until(&mut client, "Ready I");
        kept += transcript.iter().filter(|line| *line == "ParseComplete").count();
        if let Some(error) = transcript.iter().find(|line| line.starts_with("Error")) {
            assert!(error.starts_with("Error 54000"), "{error}");
            break;
        }
        assert_eq!(transcript.last().map(String::as_str), Some("Ready I"), "client {number}");
        holders.push(client);
    }
    assert!(holders.len() < 30, "30 MB of statements were kept in 16");
    let peak = assert_below(&site, LIMIT + 3 * 16 * 1024);
    report.figure(format!("{kept} statements kept in 16 MB, then 54000; at most {} MB resident", peak / 1024));
    drop(holders);
    // Disconnected clients have freed memory.
    let room = || {
        let mut client = site.connect();
        let batch = Batch::new().parse("s", &format!("SELECT '{padding}', 'room'")).sync();
        client.send_bytes(batch.bytes()).map_err(|error| error.to_string())?;
        let transcript = until(&mut client, "Ready I");
        if transcript.first().is_some_and(|line| line == "ParseComplete") {
            Ok(())
        } else {
            Err(format!("{transcript:?}"))
        }
    };
    eventually("there is free memory again", room);
}

/// A client requests a huge result and stops reading in the middle of it. The server is paused, other clients are
/// served, and the pooler buffers little; when the reader continues, no row is missing.
#[test]
fn a_reader_that_stops_in_a_huge_result_takes_no_memory() {
    let report = Report::begin();
    for mode in [Mode::Transaction, Mode::Session] {
        let site = Site::with(Setup::new(mode).size(2).auth("trust"), mode);
        let rows = size(200_000, 2_000_000);
        let mut bulk = Bulk::connect(&site);
        let sql = format!("SELECT repeat('x', 1000) FROM generate_series(1, {rows})");
        bulk.send(Batch::new().query(&sql).bytes());
        eventually("the server waits for its reader", || {
            let sql = "SELECT coalesce(wait_event, '') FROM pg_stat_activity \
                       WHERE datname = current_database() AND usename = 'app' AND state = 'active'";
            let event = site.superuser().value(sql).unwrap();
            if event.as_deref() == Some("ClientWrite") { Ok(()) } else { Err(event) }
        });
        thread::sleep(Duration::from_secs(size(1, 20)));
        assert_eq!(site.connect().value("SELECT 'meanwhile'").unwrap().as_deref(), Some("meanwhile"));
        let stopped = assert_below(&site, LIMIT);
        let mut read = 0;
        bulk.skim(|tag, _| read += u32::from(tag == tag::back::DATA_ROW));
        assert_eq!(read, rows);
        let peak = assert_below(&site, LIMIT);
        report.figure(format!(
            "{mode} mode: {} MB while the reader of {} MB was stopped, {} MB at most",
            stopped / 1024,
            rows / 1000,
            peak / 1024
        ));
    }
}

/// Many clients that have run queries and are idle: a buffer per client would show.
#[test]
fn many_idle_clients_take_little_memory() {
    let report = Report::begin();
    raise_descriptors();
    let site = site(Setup::new(Mode::Transaction).size(2));
    site.connect().query("SELECT 1").unwrap();
    let before = site.weir().memory().now;
    let count = size(1000, 5000);
    let clients: Vec<Connection> = (0..count)
        .map(|_| {
            let mut client = site.connect();
            client.query("SELECT 1").unwrap();
            client
        })
        .collect();
    let each = (site.weir().memory().now - before) * 1024 / count;
    // The budget is 640 bytes, counted by the benchmark without the allocator's reserve.
    assert!(each < 4096, "{each} bytes a client");
    report.figure(format!(
        "{count} clients, {each} B each{}",
        if full() { "" } else { " (with memory that is never returned)" }
    ));
    drop(clients);
}
