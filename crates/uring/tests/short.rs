//! A kernel that takes fewer entries than offered, or none: nothing is lost, nothing is requested for ever.
//!
//! The ring is a real one; only the calls that hand entries in are cut short, as io_uring_enter(2) says they may be.
//! Without io_uring in the kernel, each test reports that and ends.

use std::cell::Cell;
use std::collections::HashMap;
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::{Duration, Instant};

use weir_uring::{Completion, Key, Ring, RingSize, SendReport};

const SHAPE: RingSize = RingSize { entries: 8, completions: 64, buffers: 4, buffer_size: 100 };
const PATIENCE: Duration = Duration::from_secs(10);

fn ring(limit: impl FnMut(u32) -> io::Result<u32> + 'static) -> Option<Ring> {
    Ring::with_limit(SHAPE, Box::new(limit)).inspect_err(|refused| println!("SKIPPED: {refused}")).ok()
}

fn refused(error: rustix::io::Errno) -> io::Error {
    error.into()
}

const PASSING: [rustix::io::Errno; 3] = [rustix::io::Errno::AGAIN, rustix::io::Errno::BUSY, rustix::io::Errno::INTR];

/// A generator that needs no crate (splitmix64).
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

/// A limit that takes all in a third of the calls, some in another, and fails in the last.
fn random(mut chance: Chance) -> impl FnMut(u32) -> io::Result<u32> {
    move |entries| match chance.below(3) {
        0 => Ok(entries),
        1 => Ok(chance.below(u64::from(entries) + 1) as u32),
        _ => Err(refused(PASSING[chance.below(3) as usize])),
    }
}

/// The ring, as soon as it takes one more request.
fn roomy(ring: &mut Ring) -> &mut Ring {
    while ring.room().unwrap() == 0 {}
    ring
}

#[test]
fn whatever_part_the_kernel_takes_each_byte_reaches_its_own_socket_in_order() {
    const PAIRS: u64 = 20;
    const SENDS: u8 = 20;
    for seed in 0..30 {
        let Some(mut ring) = ring(random(Chance(seed))) else { return };
        let mut chance = Chance(!seed);
        let pairs: Vec<_> = (0..PAIRS).map(|_| UnixStream::pair().unwrap()).collect();
        let (mut sent, mut got) = (HashMap::new(), HashMap::<u64, Vec<u8>>::new());
        for i in 0..PAIRS {
            roomy(&mut ring).receive(pairs[i as usize].1.as_fd(), Key::new(i)).unwrap();
            roomy(&mut ring)
                .send(pairs[i as usize].0.as_fd(), Key::new(i), vec![0, i as u8], SendReport::AtOnce)
                .unwrap();
        }
        let end = Instant::now() + PATIENCE;
        while got.values().map(Vec::len).sum::<usize>() < PAIRS as usize * SENDS as usize * 2 {
            assert!(Instant::now() < end, "seed {seed}: {} pairs got all", got.len());
            ring.wait(Some(Duration::from_millis(chance.below(3)))).unwrap();
            let (mut receive, mut send) = (Vec::new(), Vec::new());
            while let Some(completion) = ring.next() {
                match completion {
                    Completion::Received { key, bytes, more } => {
                        got.entry(key.value()).or_default().extend(bytes);
                        receive.extend((!more).then_some(key));
                    }
                    Completion::ReceiveEnded { key, .. } => receive.push(key),
                    Completion::Sent { key, taken, .. } => {
                        assert_eq!(taken.unwrap(), 2, "seed {seed}");
                        let count = sent.entry(key.value()).or_insert(0);
                        *count += 1;
                        send.extend((*count < SENDS).then_some((key, *count)));
                    }
                    other => panic!("seed {seed}: {other:?}"),
                }
            }
            for key in receive {
                roomy(&mut ring).receive(pairs[key.value() as usize].1.as_fd(), key).unwrap();
            }
            for (key, count) in send {
                let bytes = vec![count, key.value() as u8];
                let report = if chance.below(2) == 0 { SendReport::AtOnce } else { SendReport::Later };
                roomy(&mut ring).send(pairs[key.value() as usize].0.as_fd(), key, bytes, report).unwrap();
            }
        }
        for (i, bytes) in got {
            let expected: Vec<u8> = (0..SENDS).flat_map(|count| [count, i as u8]).collect();
            assert_eq!(bytes, expected, "seed {seed}, pair {i}");
        }
    }
}

/// A send that fails has its completion before the kernel has taken those behind it, whose later ones may get its
/// index.
#[test]
fn whatever_part_the_kernel_takes_each_send_is_reported_once_also_among_sends_that_fail() {
    const PAIRS: u64 = 12;
    const SENDS: u64 = 400;
    for seed in 0..60 {
        let Some(mut ring) = ring(random(Chance(seed))) else { return };
        let mut chance = Chance(!seed);
        // The other end of every third one is closed.
        let pairs: Vec<_> = (0..PAIRS).map(|_| UnixStream::pair().unwrap()).collect();
        let pairs: Vec<_> = (0..).zip(pairs).map(|(i, (near, far))| (near, Some(far).filter(|_| i % 3 != 0))).collect();
        let (mut free, mut reported, mut asked) = ((0..PAIRS).collect::<Vec<_>>(), 0, 0);
        let end = Instant::now() + PATIENCE;
        while reported < SENDS {
            while asked < SENDS && !free.is_empty() && chance.below(3) > 0 {
                let key = free.swap_remove(chance.below(free.len() as u64) as usize);
                let report = if chance.below(4) == 0 { SendReport::AtOnce } else { SendReport::Later };
                roomy(&mut ring).send(pairs[key as usize].0.as_fd(), Key::new(key), vec![7], report).unwrap();
                asked += 1;
            }
            assert!(Instant::now() < end, "seed {seed}: of {asked} sends {reported} were reported");
            ring.wait(Some(Duration::ZERO)).unwrap();
            while let Some(completion) = ring.next() {
                let Completion::Sent { key, bytes, taken } = completion else { panic!("seed {seed}: {completion:?}") };
                let key = key.value();
                assert_eq!((bytes, taken.is_ok()), (vec![7], pairs[key as usize].1.is_some()), "seed {seed}");
                assert!(!free.contains(&key), "seed {seed}: a send of {key} was reported twice");
                free.push(key);
                reported += 1;
            }
        }
    }
}

#[test]
fn a_kernel_that_takes_nothing_is_not_asked_for_ever_and_gets_all_when_it_takes_again() {
    for error in PASSING {
        let (open, calls) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(0)));
        let limit = {
            let (open, calls) = (open.clone(), calls.clone());
            move |entries| {
                calls.set(calls.get() + 1);
                if open.get() { Ok(entries) } else { Err(refused(error)) }
            }
        };
        let Some(mut ring) = ring(limit) else { return };
        let pairs: Vec<_> = (0..=SHAPE.entries).map(|_| UnixStream::pair().unwrap()).collect();
        for (i, (near, _)) in (0..).zip(&pairs[..SHAPE.entries as usize]) {
            assert!(ring.room().unwrap() > 0);
            ring.send(near.as_fd(), Key::new(i), vec![i as u8], SendReport::AtOnce).unwrap();
        }
        // The queue is full: there is no room, and a push returns an error.
        assert_eq!(ring.room().unwrap(), 0);
        let last = &pairs[SHAPE.entries as usize].0;
        let error = ring.send(last.as_fd(), Key::new(99), vec![99], SendReport::AtOnce).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        for timeout in [Some(Duration::ZERO), Some(PATIENCE * 10), None] {
            ring.wait(timeout).unwrap();
            assert!(ring.has_unsubmitted() && ring.next().is_none());
        }
        assert!(calls.get() < 100, "{} calls", calls.get());
        open.set(true);
        ring.wait(Some(Duration::ZERO)).unwrap();
        assert!(!ring.has_unsubmitted() && ring.room().unwrap() == SHAPE.entries);
        for (i, (_, far)) in (0..).zip(&pairs[..SHAPE.entries as usize]) {
            let mut far = far;
            far.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut got = [0];
            far.read_exact(&mut got).unwrap();
            assert_eq!(got, [i]);
        }
    }
}

#[test]
fn a_ring_is_dropped_in_bounded_time_also_when_the_kernel_takes_nothing() {
    let Some(mut ring) = ring(|_| Err(refused(rustix::io::Errno::AGAIN))) else { return };
    let (near, _far) = UnixStream::pair().unwrap();
    (0..SHAPE.entries).for_each(|i| ring.send(near.as_fd(), Key::new(i.into()), vec![1], SendReport::AtOnce).unwrap());
    drop(ring);
}

#[test]
fn an_error_that_does_not_pass_is_reported() {
    let Some(mut ring) = ring(|_| Err(refused(rustix::io::Errno::PERM))) else { return };
    let (near, _far) = UnixStream::pair().unwrap();
    ring.send(near.as_fd(), Key::new(1), vec![1], SendReport::AtOnce).unwrap();
    assert_eq!(ring.submit().unwrap_err().kind(), ErrorKind::PermissionDenied);
    assert_eq!(ring.wait(None).unwrap_err().kind(), ErrorKind::PermissionDenied);
}
