//! Submissions that the kernel cuts short: no byte goes to a socket that reuses the descriptor of an earlier one, no
//! loop is busy, nothing is kept. Tests that count descriptors and calls, one at a time.
//!
//! The workers' rings are real; a switch decides what each of their calls submits. Without io_uring in the kernel, each
//! test reports that and ends.

mod common;

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use weir_base::{Span, Time};
use weir_config::SocketIo;
use weir_engine::port::Input;
use weir_runtime::{Handler, Running, RuntimeOptions, WorkerSetup, start};
use weir_uring::{Ring, RingError, RingSize};

use common::*;

/// What the kernel accepts.
const ALL: u32 = 0;
const NOTHING: u32 = 1;
const SOME: u32 = 2;
static TAKES: AtomicU32 = AtomicU32::new(ALL);
static CALLS: AtomicU64 = AtomicU64::new(0);
static CHANCE: AtomicU64 = AtomicU64::new(0);
const TIMEOUT: Duration = Duration::from_secs(20);
static ALONE: Mutex<()> = Mutex::new(());

/// A pseudo-random number below `bound` (splitmix64).
fn chance(bound: u64) -> u64 {
    let mut z = CHANCE.fetch_add(0x9e37_79b9_7f4a_7c15, Relaxed);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) % bound
}

fn limit(entries: u32) -> io::Result<u32> {
    CALLS.fetch_add(1, Relaxed);
    let refused = || Err([Errno::EAGAIN, Errno::EBUSY, Errno::EINTR][chance(3) as usize].into());
    match (TAKES.load(Relaxed), chance(3)) {
        (ALL, _) | (SOME, 0) => Ok(entries),
        (SOME, 1) => Ok(chance(u64::from(entries) + 1) as u32),
        _ => refused(),
    }
}

fn make_ring(shape: RingSize) -> Result<Ring, RingError> {
    Ring::with_limit(shape, Box::new(limit))
}

/// One test at a time; `None` where there is no io_uring.
fn alone() -> Option<MutexGuard<'static, ()>> {
    let small = RingSize { entries: 8, completions: 8, buffers: 8, buffer_size: 64 };
    if let Err(refused) = Ring::new(small) {
        let _ = writeln!(std::io::stderr(), "\nskipped: a test with io_uring: {refused}");
        return None;
    }
    let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    TAKES.store(ALL, Relaxed);
    Some(guard)
}

fn serve_short<B: Handler>(handler: impl FnMut(WorkerSetup) -> B) -> Running {
    start(RuntimeOptions { io: SocketIo::IoUring, ring: make_ring, ..plan(1) }, handler).unwrap()
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn reset(stream: TcpStream) {
    socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    drop(stream);
}

/// Answers `q` with `answer to N`, N being the client's port; after a `Q` the kernel accepts nothing. Reports its
/// inputs.
fn answering(events: std::sync::mpsc::Sender<String>) -> impl Handler {
    script(move |_, input, io| {
        let _ = events.send(event(&input));
        if let Input::Bytes { conn, bytes } = input {
            if bytes.first() == Some(&b'Q') {
                TAKES.store(NOTHING, Relaxed);
            }
            io.send(conn, b"answer to ");
            io.forward(conn, 1..bytes.len());
        }
        Time::NEVER
    })
}

/// What arrives within a moment.
fn whatever_comes(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = vec![0; 100];
    stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    match stream.read(&mut bytes) {
        Ok(length) => bytes.truncate(length),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            bytes.clear();
        }
    }
    bytes
}

#[test]
fn an_unsubmitted_answer_never_reaches_the_next_owner_of_its_descriptor() {
    let Some(_alone) = alone() else { return };
    let (events, received) = channel();
    let mut events = Some(events);
    let running = serve_short(|_| answering(events.take().unwrap()));
    let mut first = client(&running);
    first.write_all(b"Qthe first").unwrap();
    while next(&received) != "bytes 10" {}
    reset(first);
    while !next(&received).starts_with("closed") {}
    // The number of the first one's socket is the lowest of all that are free, but for that of its other end.
    let mut others: Vec<TcpStream> = (0..4).map(|_| client(&running)).collect();
    others.iter().for_each(|_| assert_eq!(next(&received), "accepted"));
    TAKES.store(ALL, Relaxed);
    for other in &mut others {
        assert_eq!(String::from_utf8(whatever_comes(other)).unwrap(), "");
    }
    for other in &mut others {
        other.set_read_timeout(Some(TIMEOUT)).unwrap();
        other.write_all(b"qanother").unwrap();
        assert_eq!(read(other, 17), b"answer to another");
    }
}

#[test]
fn an_unsubmitted_receive_takes_no_bytes_from_the_next_owner_of_its_descriptor() {
    const COUNT: usize = 8;
    let Some(_alone) = alone() else { return };
    let (events, received) = channel();
    let mut events = Some(events);
    let running = serve_short(|_| {
        let events = events.take().unwrap();
        let (mut arrived, mut due) = (Vec::new(), Time::NEVER);
        script(move |now, input, io| {
            match input {
                // The first ones are closed some rounds after they were accepted, when their receives have been
                // requested.
                Input::Accepted { conn, .. } if arrived.len() < COUNT => {
                    TAKES.store(NOTHING, Relaxed);
                    arrived.push(conn);
                    due = if arrived.len() == COUNT { now + Span::from_millis(50) } else { Time::NEVER };
                }
                Input::Tick if now >= due => {
                    due = Time::NEVER;
                    arrived.iter().for_each(|conn| io.close(*conn));
                    events.send("closed").unwrap();
                }
                Input::Accepted { .. } => events.send("accepted").unwrap(),
                Input::Bytes { conn, bytes } => {
                    io.send(conn, b"answer to ");
                    io.forward(conn, 0..bytes.len());
                }
                _ => {}
            }
            due
        })
    });
    let mut first: Vec<TcpStream> = (0..COUNT).map(|_| client(&running)).collect();
    assert_eq!(received.recv_timeout(TIMEOUT), Ok("closed"));
    // The clients see that they are closed, although their sockets' numbers are not free.
    first.iter_mut().for_each(|stream| assert_eq!(stream.read(&mut [0]).unwrap(), 0));
    drop(first);
    // One after the other, so that both ends of each get descriptors that have become free.
    let mut others: Vec<TcpStream> = (0..2 * COUNT)
        .map(|_| {
            let stream = client(&running);
            assert_eq!(received.recv_timeout(TIMEOUT), Ok("accepted"));
            stream
        })
        .collect();
    for (i, other) in others.iter_mut().enumerate() {
        other.write_all(format!("{i:2}").as_bytes()).unwrap();
    }
    TAKES.store(ALL, Relaxed);
    for (i, other) in others.iter_mut().enumerate() {
        assert_eq!(String::from_utf8(read(other, 12)).unwrap(), format!("answer to {i:2}"));
    }
}

#[test]
fn while_the_kernel_takes_nothing_a_worker_neither_spins_nor_keeps_closed_connections() {
    let Some(_alone) = alone() else { return };
    let (events, received) = channel();
    let mut events = Some(events);
    let running = serve_short(|_| answering(events.take().unwrap()));
    let mut steady = client(&running);
    steady.write_all(b"qa").unwrap();
    assert_eq!(read(&mut steady, 11), b"answer to a");
    let before = open_files();
    steady.write_all(b"Qb").unwrap();
    while next(&received) != "bytes 2" {}
    let calls = CALLS.load(Relaxed);
    thread::sleep(Duration::from_millis(500));
    let calls = CALLS.load(Relaxed) - calls;
    // Each call that submits nothing is followed by a wait of a millisecond.
    assert!(calls < 2_000, "{calls} calls in half a second");
    for _ in 0..300 {
        drop(client(&running));
    }
    TAKES.store(ALL, Relaxed);
    assert_eq!(read(&mut steady, 11), b"answer to b");
    let end = Instant::now() + TIMEOUT;
    while open_files() > before {
        assert!(Instant::now() < end, "{} files are open, {before} were", open_files());
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_worker_ends_although_the_kernel_takes_nothing() {
    let Some(_alone) = alone() else { return };
    let (events, received) = channel();
    let mut events = Some(events);
    let running = serve_short(|_| answering(events.take().unwrap()));
    let mut client = client(&running);
    client.write_all(b"Qx").unwrap();
    while next(&received) != "bytes 2" {}
    running.handle().stop(7);
    assert_eq!(running.wait(), 7);
    TAKES.store(ALL, Relaxed);
}

/// A client that sends its name in each request, and checks that each answer is for it; some leave in the middle.
fn visit(at: SocketAddr, number: u64) {
    let mut stream = connect(at);
    for round in 0..1 + chance(4) {
        let name = format!("{number}-{round};");
        stream.write_all(format!("q{name}").as_bytes()).unwrap();
        if chance(6) == 0 {
            return if chance(2) == 0 { reset(stream) } else { drop(stream) };
        }
        let expected = format!("answer to {name}");
        assert_eq!(String::from_utf8(read(&mut stream, expected.len())).unwrap(), expected);
    }
}

#[test]
fn whatever_part_the_kernel_takes_clients_that_come_and_go_get_their_own_answers_alone() {
    let Some(_alone) = alone() else { return };
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
    println!("SEED={seed}");
    CHANCE.store(seed, Relaxed);
    let (events, _received) = channel();
    let mut events = Some(events);
    let running = serve_short(|_| answering(events.take().unwrap()));
    let at = address(&running);
    let before = open_files();
    TAKES.store(SOME, Relaxed);
    thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || (0..200).for_each(|i| visit(at, thread * 1000 + i)));
        }
        // At times it accepts nothing for a while.
        for _ in 0..20 {
            thread::sleep(Duration::from_millis(20));
            TAKES.store(NOTHING, Relaxed);
            thread::sleep(Duration::from_millis(10));
            TAKES.store(SOME, Relaxed);
        }
    });
    TAKES.store(ALL, Relaxed);
    let end = Instant::now() + TIMEOUT;
    while open_files() > before {
        assert!(Instant::now() < end, "{} files are open, {before} were", open_files());
        thread::sleep(Duration::from_millis(20));
    }
}
