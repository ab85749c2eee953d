//! Stored output is bounded. In a program of its own, as it measures the program's memory.

mod common;

use std::io::{Read, Write};
use std::net::Shutdown;
use std::thread;
use std::time::Duration;

use common::*;

/// Resident memory of this process, in bytes.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
fn a_hundred_megabytes_echo_through_a_slow_reader_in_bounded_memory() {
    const TOTAL: usize = 100 << 20;
    const STEP: usize = 1 << 20;
    let (echo, received) = Echo::new();
    let mut echo = Some(echo);
    let running = serve(|_| echo.take().unwrap());
    let mut reader = client(&running);
    let mut writer = reader.try_clone().unwrap();
    let before = resident();
    let feed = thread::spawn(move || {
        (0..TOTAL / STEP).for_each(|i| writer.write_all(&pattern(i * STEP, STEP)).unwrap());
        writer.shutdown(Shutdown::Write).unwrap();
    });
    // The test reads nothing at first: the kernel's buffers fill, and the rest must wait with the sender.
    thread::sleep(Duration::from_millis(500));
    assert!(resident().saturating_sub(before) < 32 << 20, "what waits is bounded");
    for i in 0..TOTAL / STEP {
        assert!(read(&mut reader, STEP) == pattern(i * STEP, STEP), "megabyte {i}");
    }
    assert_eq!(reader.read(&mut [0; 1]).unwrap(), 0, "the end follows the last byte");
    feed.join().unwrap();
    drop(running);
    let event: Vec<String> = received.iter().collect();
    assert!(event.iter().any(|t| t == "blocked"), "the reader was slow");
    assert_eq!(event.last().unwrap(), "closed Eof");
    // Blocked and Drained alternate, and no bytes are read in between.
    let mut blocked = false;
    for what in &event {
        match what.as_str() {
            "blocked" => assert!(!std::mem::replace(&mut blocked, true), "blocked twice"),
            "drained" => assert!(std::mem::replace(&mut blocked, false), "drained without being blocked"),
            other => assert!(!(blocked && other.starts_with("bytes")), "read while paused"),
        }
    }
}
