//! Rows and COPY of any size in a few hundred kB of memory, and back-pressure both ways.

use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use weir_pgwire::{put_front, tag};
use weir_tests::{Batch, Bulk, Mode, Setup, Site, eventually, weir_binary};

/// The highest peak resident size of a Weir, in kB, whatever passes through it: the program, and a few buffers.
const LIMIT: u64 = 20 * 1024;

const MB: u64 = 1 << 20;
// 40 MB are twice the limit; `long` has hundreds.

fn modes() -> [Site; 2] {
    [Mode::Session, Mode::Transaction].map(|mode| Site::with(Setup::new(mode).size(2).auth("trust"), mode))
}

#[track_caller]
fn assert_small(site: &Site) {
    let memory = site.weir().memory();
    assert!(memory.peak < LIMIT, "{} kB at most, {} kB now, of {}", memory.peak, memory.now, weir_binary().display());
}

fn query(sql: &str) -> Vec<u8> {
    Batch::new().query(sql).bytes().to_vec()
}

/// One row with one value of that many bytes.
fn row_of(site: &Site, size: u64) {
    let mut bulk = Bulk::connect(site);
    for extended in [false, true] {
        let sql = format!("SELECT repeat('x', {size})");
        let batch = if extended { Batch::new().run(&sql, &[]).sync() } else { Batch::new().query(&sql) };
        bulk.send(batch.bytes());
        let mut row = 0;
        bulk.skim(|tag, length| {
            assert_ne!(tag, tag::back::ERROR);
            row += if tag == tag::back::DATA_ROW { length } else { 0 };
        });
        assert_eq!(row, size + 6);
    }
    assert_small(site);
}

/// COPY of about that many bytes, out and in.
fn copy_of(site: &Site, size: u64) {
    let mut bulk = Bulk::connect(site);
    let rows = size / 1000;
    bulk.send(&query(&format!("COPY (SELECT repeat('x', 999) FROM generate_series(1, {rows})) TO STDOUT")));
    let mut copied = 0;
    bulk.skim(|tag, length| copied += if tag == tag::back::COPY_DATA { length } else { 0 });
    assert_eq!(copied, rows * 1000);
    // The rows are read and discarded.
    bulk.send(&query("CREATE TABLE IF NOT EXISTS sink (line text)"));
    bulk.skim(|_, _| {});
    bulk.send(&query("COPY sink FROM STDIN WHERE false"));
    let mut chunk = Vec::new();
    let line = ["x".repeat(999), "\n".to_owned()].concat();
    while chunk.len() < MB as usize {
        put_front::copy_data(&mut chunk, line.repeat(8).as_bytes());
    }
    for _ in 0..size / chunk.len() as u64 {
        bulk.send(&chunk);
    }
    bulk.send(Batch::new().copy_done().bytes());
    let mut errors = 0;
    bulk.skim(|tag, _| errors += u32::from(tag == tag::back::ERROR));
    assert_eq!(errors, 0);
    assert_small(site);
}

#[test]
fn a_row_of_40_mb_passes_in_less_memory() {
    modes().iter().for_each(|site| row_of(site, 40 * MB));
}

#[test]
fn a_copy_of_40_mb_passes_in_less_memory_both_ways() {
    modes().iter().for_each(|site| copy_of(site, 40 * MB));
}

#[cfg(feature = "long")]
#[test]
fn a_row_of_900_mb_passes_in_little_memory() {
    modes().iter().for_each(|site| row_of(site, 900 * MB));
}

#[cfg(feature = "long")]
#[test]
fn a_copy_of_2_gb_passes_in_little_memory_both_ways() {
    modes().iter().for_each(|site| copy_of(site, 2048 * MB));
}

#[test]
fn a_parameter_of_40_mb_passes_in_less_memory() {
    for site in modes() {
        let mut bulk = Bulk::connect(&site);
        let size = 40 * MB as usize;
        let head = Batch::new().parse("", "SELECT length($1::text)");
        bulk.send(head.bytes());
        let mut bind = Vec::new();
        put_front::bind(&mut bind, b"", b"", &[Some(&vec![b'x'; size])]);
        bulk.send(&bind);
        bulk.send(Batch::new().execute("", 0).sync().bytes());
        let mut rows = 0;
        bulk.skim(|tag, length| rows += if tag == tag::back::DATA_ROW { length } else { 0 });
        assert_eq!(rows, 2 + 4 + 8, "one value of eight digits");
        assert_small(&site);
    }
}

#[test]
fn readers_that_stop_and_die_leave_nothing() {
    for site in modes() {
        for _ in 0..3 {
            let mut bulk = Bulk::connect(&site);
            bulk.send(&query("SELECT repeat('x', 1000) FROM generate_series(1, 200000)"));
            thread::sleep(Duration::from_millis(100));
        }
        assert_eq!(site.connect().value("SELECT 'next'").unwrap().as_deref(), Some("next"));
    }
}

/// Sends everything; other threads can read the count so far.
fn send_all(mut socket: TcpStream, chunk: &[u8], count: u64, sent: &AtomicU64) {
    for _ in 0..count {
        socket.write_all(chunk).unwrap();
        sent.fetch_add(chunk.len() as u64, Ordering::Relaxed);
    }
}

/// Waits until nothing has been sent for a while, and returns the count so far.
fn await_standstill(sent: &AtomicU64) -> u64 {
    let mut last = u64::MAX;
    eventually("the writer is held up", || {
        thread::sleep(Duration::from_millis(300));
        let now = sent.load(Ordering::Relaxed);
        let standing = now == last;
        last = now;
        if standing { Ok(now) } else { Err(now) }
    })
}

#[test]
fn a_writer_that_floods_a_busy_server_is_held_up() {
    for site in modes() {
        site.connect().query("CREATE TABLE locked (line text)").unwrap();
        let mut lock = site.superuser();
        lock.query_all("BEGIN; LOCK TABLE locked").unwrap();
        let mut bulk = Bulk::connect(&site);
        bulk.send(&query("COPY locked FROM STDIN WHERE false"));
        let mut chunk = Vec::new();
        put_front::copy_data(&mut chunk, "x\n".repeat(32 * 1024).as_bytes());
        let sent = AtomicU64::new(0);
        thread::scope(|scope| {
            let socket = bulk.socket();
            let sender = scope.spawn(|| send_all(socket, &chunk, 1500, &sent));
            let stood = await_standstill(&sent);
            assert!(stood < 60 * MB, "{stood} bytes were taken");
            assert_small(&site);
            lock.query("COMMIT").unwrap();
            sender.join().unwrap();
        });
        bulk.send(Batch::new().copy_done().bytes());
        let mut errors = 0;
        bulk.skim(|tag, _| errors += u32::from(tag == tag::back::ERROR));
        assert_eq!(errors, 0);
        assert_small(&site);
    }
}

#[test]
fn a_writer_that_floods_while_it_waits_for_a_server_is_held_up() {
    let site = Site::with(Setup::new(Mode::Transaction).size(1).auth("trust"), Mode::Transaction);
    let mut holder = site.connect();
    holder.query("BEGIN").unwrap();
    let mut bulk = Bulk::connect(&site);
    let one = Batch::new().query("SELECT 1");
    let chunk = one.bytes().repeat(1000);
    let sent = AtomicU64::new(0);
    thread::scope(|scope| {
        let socket = bulk.socket();
        scope.spawn(|| send_all(socket, &chunk, 1000, &sent));
        let stood = await_standstill(&sent);
        assert!(stood < chunk.len() as u64 * 1000, "all was taken while there was no server");
        assert_small(&site);
        holder.query("COMMIT").unwrap();
        for _ in 0..1_000_000 {
            bulk.skim(|tag, _| assert_ne!(tag, tag::back::ERROR));
        }
    });
    assert_small(&site);
}

#[test]
fn a_client_that_pipelines_without_reading_is_held_up() {
    let site = Site::with(Setup::new(Mode::Transaction).size(1).auth("trust"), Mode::Transaction);
    let mut bulk = Bulk::connect(&site);
    let chunk = Batch::new().query("SELECT repeat('x', 100)").bytes().repeat(1000);
    let sent = AtomicU64::new(0);
    thread::scope(|scope| {
        let socket = bulk.socket();
        let sender = scope.spawn(|| send_all(socket, &chunk, 1000, &sent));
        await_standstill(&sent);
        assert_small(&site);
        for _ in 0..1_000_000 {
            bulk.skim(|tag, _| assert_ne!(tag, tag::back::ERROR));
        }
        sender.join().unwrap();
    });
    assert_small(&site);
}
