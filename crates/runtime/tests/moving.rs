//! A socket that moves from worker to worker, in the middle of its bytes, keeps all of them.

mod common;

use std::io::{Read, Write};
use std::net::Shutdown;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use weir_base::{Peer, Target, Time, WorkerId};
use weir_engine::mail::Mail;
use weir_engine::port::{Input, Io, Level, Signal, Work};
use weir_engine::{Engine, Setup};
use weir_runtime::{Brain, start};

use common::*;

/// Mail is opaque to all but engines, so envelopes are had from one: PAUSE makes it write to every other worker.
struct Envelopes {
    engine: Engine,
    spare: Caught,
}

impl Envelopes {
    fn new() -> Envelopes {
        let text = "[listen]\naddress = \"127.0.0.1\"\nport = 6432\n[auth]\ntype = \"trust\"\n";
        let config = weir_config::load(Path::new("weir.toml"), &|_| Ok(text.into()), &|_| None).unwrap();
        let engine = Engine::new(Setup {
            worker: WorkerId(0),
            workers: 100,
            config: Arc::new(config),
            seed: [1; 32],
            process_key: [2; 32],
            wall_at_start: 0,
            version: "",
        });
        Envelopes { engine, spare: Caught(Vec::new()) }
    }

    fn next(&mut self) -> Mail {
        if self.spare.0.is_empty() {
            self.engine.handle(Time::START, Input::Signal(Signal::Pause), &mut self.spare);
        }
        self.spare.0.pop().expect("a signal is passed on to all workers")
    }
}

/// Keeps what an engine posts.
struct Caught(Vec<Mail>);

impl Io for Caught {
    fn forward(&mut self, _: Peer, _: std::ops::Range<usize>) {}
    fn send(&mut self, _: Peer, _: &[u8]) {}
    fn connect(&mut self, _: &Target) -> Peer {
        Peer::NONE
    }
    fn close(&mut self, _: Peer) {}
    fn pause(&mut self, _: Peer) {}
    fn resume(&mut self, _: Peer) {}
    fn detach(&mut self, _: Peer) {}
    fn post(&mut self, _: WorkerId, mail: Mail, _: Option<Peer>) {
        self.0.push(mail);
    }
    fn help(&mut self, _: u64, _: Work) {}
    fn log(&mut self, _: Level, _: std::fmt::Arguments<'_>) {}
    fn accept(&mut self, _: bool) {}
    fn exit(&mut self, _: i32) {}
}

/// Echoes, and sends each peer on to the next worker after every third read.
struct Roam {
    worker: u16,
    workers: u16,
    reads: usize,
    moves: Arc<AtomicUsize>,
    envelopes: Envelopes,
}

impl Brain for Roam {
    fn handle<I: Io>(&mut self, _: Time, input: Input<'_>, io: &mut I) {
        match input {
            Input::Bytes { peer, bytes } => {
                io.forward(peer, 0..bytes.len());
                self.reads += 1;
                if self.reads.is_multiple_of(3) {
                    io.detach(peer);
                }
            }
            Input::Blocked { peer } => io.pause(peer),
            Input::Drained { peer } => io.resume(peer),
            Input::Detached { peer } => {
                self.moves.fetch_add(1, Ordering::Relaxed);
                io.post(WorkerId((self.worker + 1) % self.workers), self.envelopes.next(), Some(peer));
            }
            Input::Mail { from, socket, .. } => {
                assert_eq!((from.0 + 1) % self.workers, self.worker);
                assert!(socket.is_some(), "the socket comes with the mail");
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
    let running = start(plan(workers), |seat| Roam {
        worker: seat.worker.0,
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
