//! The ring before real sockets: bytes in order, ends, refusals, and what is in flight when it is dropped.
//!
//! Without io_uring in the kernel, each test reports that and ends.

use std::collections::HashSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use weir_uring::{Completion, Ended, Key, Ring, RingSize, SendReport};

const SHAPE: RingSize = RingSize { entries: 8, completions: 64, buffers: 4, buffer_size: 100 };
const PATIENCE: Duration = Duration::from_secs(10);

fn ring() -> Option<Ring> {
    ring_of(SHAPE)
}

fn ring_of(shape: RingSize) -> Option<Ring> {
    Ring::new(shape).inspect_err(|refused| println!("SKIPPED: {refused}")).ok()
}

fn key(value: u64) -> Key {
    Key::new(value)
}

/// The completions that matter here.
#[derive(PartialEq, Eq, Debug)]
enum Outcome {
    Bytes(u64, Vec<u8>, bool),
    Ended(u64, &'static str),
    Sent(u64, usize, Result<usize, ErrorKind>),
    Accepted(u64, bool),
    Readable(u64),
}

/// Waits for the next completion.
fn next(ring: &mut Ring) -> Outcome {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(completion) = ring.next() {
            return match completion {
                Completion::Received { key, bytes, more } => Outcome::Bytes(key.value(), bytes.to_vec(), more),
                Completion::ReceiveEnded { key, ended } => Outcome::Ended(key.value(), name(&ended)),
                Completion::Sent { key, bytes, taken } => {
                    Outcome::Sent(key.value(), bytes.len(), taken.map_err(|error| error.kind()))
                }
                Completion::Accepted { key, more, .. } => Outcome::Accepted(key.value(), more),
                Completion::AcceptEnded { key, .. } => Outcome::Ended(key.value(), "accept"),
                Completion::Readable { key, .. } => Outcome::Readable(key.value()),
            };
        }
        assert!(Instant::now() < end, "nothing happened");
        ring.wait(Some(PATIENCE)).unwrap();
    }
}

fn name(ended: &Ended) -> &'static str {
    match ended {
        Ended::Eof => "eof",
        Ended::NoBuffers => "no buffers",
        Ended::Cancelled => "cancelled",
        Ended::Error(_) => "error",
    }
}

/// Checks that nothing more happens for a moment.
fn nothing(ring: &mut Ring) {
    ring.wait(Some(Duration::from_millis(20))).unwrap();
    assert!(ring.next().is_none());
}

fn pattern(count: usize) -> Vec<u8> {
    (0..count).map(|i| (i ^ (i >> 8)) as u8).collect()
}

#[test]
fn many_times_more_bytes_than_buffers_come_in_order() {
    let Some(mut ring) = ring() else { return };
    let (mut near, far) = UnixStream::pair().unwrap();
    let sent = pattern(100_000);
    let feed = std::thread::spawn({
        let sent = sent.clone();
        move || sent.chunks(777).for_each(|piece| near.write_all(piece).unwrap())
    });
    ring.receive(far.as_fd(), key(7)).unwrap();
    let mut got = Vec::new();
    loop {
        match next(&mut ring) {
            Outcome::Bytes(7, bytes, more) => {
                assert!(!bytes.is_empty() && bytes.len() <= 100);
                got.extend(bytes);
                if !more {
                    ring.receive(far.as_fd(), key(7)).unwrap();
                }
            }
            Outcome::Ended(7, "no buffers") => ring.receive(far.as_fd(), key(7)).unwrap(),
            Outcome::Ended(7, "eof") => break,
            other => panic!("{other:?}"),
        }
    }
    assert!(got == sent);
    feed.join().unwrap();
}

#[test]
fn bytes_stay_as_they_are_while_they_are_lent() {
    let Some(mut ring) = ring() else { return };
    let (mut near, far) = UnixStream::pair().unwrap();
    ring.receive(far.as_fd(), key(1)).unwrap();
    near.write_all(b"first").unwrap();
    ring.wait(Some(PATIENCE)).unwrap();
    let Some(Completion::Received { bytes, .. }) = ring.next() else { panic!("bytes") };
    // As many further messages as there are buffers come meanwhile; none goes where the lent one is.
    (0..SHAPE.buffers).for_each(|_| near.write_all(b"other").unwrap());
    assert_eq!(bytes, b"first");
    assert!(matches!(next(&mut ring), Outcome::Bytes(1, bytes, _) if bytes.starts_with(b"other")));
}

#[test]
fn an_end_and_a_reset_are_distinguished() {
    let Some(mut ring) = ring() else { return };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let connect = || {
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    };
    let (near, far) = connect();
    ring.receive(far.as_fd(), key(1)).unwrap();
    drop(near);
    assert_eq!(next(&mut ring), Outcome::Ended(1, "eof"));
    let (near, far) = connect();
    ring.receive(far.as_fd(), key(2)).unwrap();
    ring.wait(Some(Duration::ZERO)).unwrap();
    socket2::SockRef::from(&near).set_linger(Some(Duration::ZERO)).unwrap();
    drop(near);
    assert_eq!(next(&mut ring), Outcome::Ended(2, "error"));
}

#[test]
fn what_comes_after_a_cancelled_receive_stays_in_the_socket() {
    let Some(mut ring) = ring() else { return };
    let (mut near, mut far) = UnixStream::pair().unwrap();
    ring.receive(far.as_fd(), key(3)).unwrap();
    near.write_all(b"ab").unwrap();
    assert_eq!(next(&mut ring), Outcome::Bytes(3, b"ab".to_vec(), true));
    ring.cancel_receive(key(3)).unwrap();
    assert_eq!(next(&mut ring), Outcome::Ended(3, "cancelled"));
    near.write_all(b"cd").unwrap();
    nothing(&mut ring);
    let mut left = [0; 2];
    far.read_exact(&mut left).unwrap();
    assert_eq!(&left, b"cd");
    // A cancel of what is not there is nothing.
    ring.cancel_receive(key(3)).unwrap();
    nothing(&mut ring);
}

#[test]
fn between_two_waits_nothing_is_read() {
    let Some(mut ring) = ring() else { return };
    let (mut near, mut far) = UnixStream::pair().unwrap();
    ring.receive(far.as_fd(), key(3)).unwrap();
    ring.submit().unwrap();
    near.write_all(b"abcd").unwrap();
    let mut taken = [0; 3];
    // The receive has seen the bytes, and must leave them in place until it is asked.
    far.read_exact(&mut taken).unwrap();
    assert_eq!(&taken, b"abc");
    assert_eq!(next(&mut ring), Outcome::Bytes(3, b"d".to_vec(), true));
}

#[test]
fn sends_tell_what_was_taken_and_return_their_vector() {
    let Some(mut ring) = ring() else { return };
    let (near, mut far) = UnixStream::pair().unwrap();
    let mut bytes = Vec::with_capacity(50);
    bytes.extend_from_slice(b"hello");
    let at = bytes.as_ptr();
    ring.send(near.as_fd(), key(9), bytes, SendReport::AtOnce).unwrap();
    ring.wait(Some(PATIENCE)).unwrap();
    let Some(Completion::Sent { key: done, bytes, taken }) = ring.next() else { panic!("sent") };
    assert_eq!((done, taken.unwrap(), bytes.as_ptr(), bytes.capacity()), (key(9), 5, at, 50));
    let mut got = [0; 5];
    far.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"hello");
    // A socket that is full takes a part, then nothing; neither is waited for.
    let large = 4 << 20;
    ring.send(near.as_fd(), key(9), vec![1; large], SendReport::AtOnce).unwrap();
    assert!(matches!(next(&mut ring), Outcome::Sent(9, l, Ok(taken)) if l == large && taken < large));
    ring.send(near.as_fd(), key(9), vec![1; large], SendReport::AtOnce).unwrap();
    assert_eq!(next(&mut ring), Outcome::Sent(9, large, Err(ErrorKind::WouldBlock)));
    drop(far);
    ring.send(near.as_fd(), key(9), vec![1], SendReport::AtOnce).unwrap();
    assert_eq!(next(&mut ring), Outcome::Sent(9, 1, Err(ErrorKind::BrokenPipe)));
}

#[test]
fn a_send_that_is_reported_later_does_not_end_a_wait() {
    let Some(mut ring) = ring() else { return };
    let (near, mut far) = UnixStream::pair().unwrap();
    let echo = std::thread::spawn(move || {
        let mut got = [0; 5];
        far.read_exact(&mut got).unwrap();
        far.write_all(&got).unwrap();
        far
    });
    ring.receive(near.as_fd(), key(1)).unwrap();
    ring.send(near.as_fd(), key(2), b"hello".to_vec(), SendReport::Later).unwrap();
    ring.wait(Some(PATIENCE)).unwrap();
    // Both by one wait: it ended when the reply came.
    let Some(Completion::Sent { key: done, bytes, taken }) = ring.next() else { panic!("sent") };
    assert_eq!((done, taken.unwrap(), &bytes[..]), (key(2), 5, &b"hello"[..]));
    let Some(Completion::Received { bytes, .. }) = ring.next() else { panic!("received") };
    assert_eq!(bytes, b"hello");
    echo.join().unwrap();
}

#[test]
fn a_send_that_is_reported_later_tells_what_was_not_taken() {
    let Some(mut ring) = ring() else { return };
    let large = 4 << 20;
    let pairs: Vec<_> = (0..5).map(|_| UnixStream::pair().unwrap()).collect();
    let send = |ring: &mut Ring, i: u64, length: usize| {
        ring.send(pairs[i as usize].0.as_fd(), key(i), vec![1; length], SendReport::Later).unwrap();
    };
    pairs[4].1.shutdown(std::net::Shutdown::Both).unwrap();
    for (i, length) in [(0, 5), (1, large), (2, 7), (3, large), (4, 1)] {
        send(&mut ring, i, length);
    }
    let mut done: Vec<_> = (0..5).map(|_| next(&mut ring)).collect();
    done.sort_by_key(|done| if let Outcome::Sent(key, ..) = done { *key } else { panic!("{done:?}") });
    assert_eq!([&done[0], &done[2]], [&Outcome::Sent(0, 5, Ok(5)), &Outcome::Sent(2, 7, Ok(7))]);
    assert_eq!(done[4], Outcome::Sent(4, 1, Err(ErrorKind::BrokenPipe)));
    for i in [1, 3] {
        assert!(matches!(done[i], Outcome::Sent(_, l, Ok(taken)) if l == large && 0 < taken && taken < large));
        send(&mut ring, i as u64, large);
        assert_eq!(next(&mut ring), Outcome::Sent(i as u64, large, Err(ErrorKind::WouldBlock)));
    }
    nothing(&mut ring);
}

#[test]
fn more_is_requested_than_the_queue_holds() {
    let Some(mut ring) = ring() else { return };
    let pairs: Vec<_> = (0..50).map(|_| UnixStream::pair().unwrap()).collect();
    for (i, (near, far)) in (0..).zip(&pairs) {
        ring.receive(far.as_fd(), key(i)).unwrap();
        ring.send(near.as_fd(), key(1000 + i), vec![i as u8], SendReport::AtOnce).unwrap();
    }
    let (mut sent, mut received) = (HashSet::new(), HashSet::new());
    while received.len() < 50 || sent.len() < 50 {
        match next(&mut ring) {
            Outcome::Bytes(i, bytes, more) => {
                assert_eq!(bytes, [i as u8]);
                assert!(received.insert(i));
                if !more {
                    ring.receive(pairs[i as usize].1.as_fd(), key(i)).unwrap();
                }
            }
            Outcome::Sent(i, 1, Ok(1)) => assert!(sent.insert(i)),
            Outcome::Ended(i, "no buffers") => ring.receive(pairs[i as usize].1.as_fd(), key(i)).unwrap(),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn clients_are_accepted_until_that_is_cancelled() {
    let Some(mut ring) = ring() else { return };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    ring.accept(listener.as_fd(), key(1)).unwrap();
    let _clients = [TcpStream::connect(address).unwrap(), TcpStream::connect(address).unwrap()];
    assert_eq!(next(&mut ring), Outcome::Accepted(1, true));
    assert_eq!(next(&mut ring), Outcome::Accepted(1, true));
    ring.cancel_accept(key(1)).unwrap();
    assert_eq!(next(&mut ring), Outcome::Ended(1, "accept"));
    let _client = TcpStream::connect(address).unwrap();
    nothing(&mut ring);
}

#[test]
fn a_watched_descriptor_is_reported_each_time() {
    let Some(mut ring) = ring() else { return };
    let (mut near, mut far) = UnixStream::pair().unwrap();
    ring.watch(far.as_fd(), key(5)).unwrap();
    for _ in 0..3 {
        nothing(&mut ring);
        near.write_all(b"x").unwrap();
        assert_eq!(next(&mut ring), Outcome::Readable(5));
        far.read_exact(&mut [0]).unwrap();
    }
}

#[test]
fn a_wait_ends_in_time_or_tells_what_came_before() {
    let Some(mut ring) = ring() else { return };
    ring.wait(Some(Duration::from_millis(5))).unwrap();
    ring.wait(Some(Duration::ZERO)).unwrap();
    assert!(ring.next().is_none() && !ring.has_more());
    let (mut near, far) = UnixStream::pair().unwrap();
    ring.receive(far.as_fd(), key(1)).unwrap();
    near.write_all(b"x").unwrap();
    ring.wait(None).unwrap();
    // A wait does not block while a completion has not been returned, and loses nothing.
    ring.wait(None).unwrap();
    assert_eq!(next(&mut ring), Outcome::Bytes(1, b"x".to_vec(), true));
}

#[test]
fn a_ring_that_is_dropped_leaves_sockets_alone() {
    let Some(mut ring) = ring() else { return };
    let (mut near, mut far) = UnixStream::pair().unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    ring.receive(far.as_fd(), key(1)).unwrap();
    ring.watch(far.as_fd(), key(1)).unwrap();
    ring.accept(listener.as_fd(), key(1)).unwrap();
    ring.wait(Some(Duration::ZERO)).unwrap();
    // This send is requested, and handed in only when the ring is dropped.
    ring.send(near.as_fd(), key(1), b"late".to_vec(), SendReport::AtOnce).unwrap();
    let accepted = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    drop(ring);
    near.write_all(b"more").unwrap();
    far.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut got = [0; 4];
    far.read_exact(&mut got).unwrap();
    assert!(&got == b"more" || &got == b"late");
    drop(accepted);
}

#[test]
fn rings_come_and_go_with_work_in_flight() {
    for round in 0..50_u8 {
        let Some(mut ring) = ring() else { return };
        let (mut near, far) = UnixStream::pair().unwrap();
        ring.receive(far.as_fd(), key(1)).unwrap();
        near.write_all(&[round; 64]).unwrap();
        if round % 2 == 0 {
            assert_eq!(next(&mut ring), Outcome::Bytes(1, vec![round; 64], true));
            near.write_all(&[round; 64]).unwrap();
        }
    }
}

#[test]
#[should_panic(expected = "60 bits")]
fn a_key_that_is_too_large_is_refused() {
    Key::new(1 << 60);
}

#[test]
fn a_ring_of_an_impossible_size_is_refused_in_words() {
    let shape = RingSize { entries: 1 << 30, ..SHAPE };
    let refused = Ring::new(shape).expect_err("no kernel has this many").to_string();
    assert!(refused.contains("io_uring"), "{refused}");
}
