//! A socket that moves between workers in the middle of its bytes keeps all of them.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use weir_base::{Time, WorkerId};
use weir_engine::port::{Input, Io};
use weir_runtime::{Handler, start};

use crate::common::*;
use crate::envelopes::Envelopes;

/// Echoes, and moves each connection to the next worker after every third read.
struct Roam {
    worker: u16,
    workers: u16,
    reads: usize,
    moves: Arc<AtomicUsize>,
    envelopes: Envelopes,
}

impl Handler for Roam {
    fn handle<I: Io>(&mut self, _: Time, input: Input<'_>, io: &mut I) {
        match input {
            Input::Bytes { conn, bytes } => {
                io.forward(conn, 0..bytes.len());
                self.reads += 1;
                if self.reads.is_multiple_of(3) {
                    io.detach(conn);
                }
            }
            Input::Blocked { conn } => io.pause(conn),
            Input::Drained { conn } => io.resume(conn),
            Input::Detached { conn } => {
                self.moves.fetch_add(1, Ordering::Relaxed);
                io.post(WorkerId((self.worker + 1) % self.workers), self.envelopes.next(), Some(conn));
            }
            Input::Message { from, socket, .. } => {
                assert_eq!((from.0 + 1) % self.workers, self.worker);
                assert!(socket.is_some(), "the socket comes with the message");
            }
            _ => {}
        }
    }

    fn next_deadline(&self) -> Time {
        Time::NEVER
    }
}

fn roam(workers: u16, reader_s_pause: Duration) {
    const TOTAL: usize = 24 << 20;
    let moves = Arc::new(AtomicUsize::new(0));
    let running = start(plan(workers), |setup| Roam {
        worker: setup.worker.0,
        workers,
        reads: 0,
        moves: moves.clone(),
        envelopes: Envelopes::new(),
    })
    .unwrap();
    let mut reader = client(&running);
    let mut writer = reader.try_clone().unwrap();
    let feed = thread::spawn(move || {
        let mut at = 0;
        while at < TOTAL {
            let length = (1 + at % 100_000).min(TOTAL - at);
            writer.write_all(&pattern(at, length)).unwrap();
            at += length;
        }
        writer.shutdown(Shutdown::Write).unwrap();
    });
    thread::sleep(reader_s_pause);
    let mut at = 0;
    while at < TOTAL {
        let length = 65_537.min(TOTAL - at);
        assert!(read(&mut reader, length) == pattern(at, length), "at byte {at}");
        at += length;
    }
    assert_eq!(reader.read(&mut [0; 1]).unwrap(), 0, "the end arrives, too");
    feed.join().unwrap();
    assert!(moves.load(Ordering::Relaxed) > 10);
}

#[test]
fn between_two_workers() {
    roam(2, Duration::ZERO);
}

#[test]
fn round_three_workers_with_a_reader_that_is_behind() {
    roam(3, Duration::from_millis(300));
}

#[test]
fn from_a_worker_to_itself() {
    roam(1, Duration::from_millis(300));
}
