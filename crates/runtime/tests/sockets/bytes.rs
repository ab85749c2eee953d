//! Bytes through a runtime: none lost, none reordered, memory bounded, in the order that the port guarantees.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use weir_base::{Span, Time};
use weir_engine::port::Input;

use crate::common::*;

#[test]
fn bytes_before_a_half_close_are_answered_after_it() {
    let (echo, received) = Echo::new();
    let mut echo = Some(echo);
    let running = serve(|_| echo.take().unwrap());
    let mut stream = client(&running);
    stream.write_all(b"last words").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "last words");
    assert_eq!(
        [next(&received), next(&received), next(&received), next(&received)],
        ["accepted".to_owned(), "bytes 10".into(), "ending".into(), "closed Eof".into()]
    );
}

/// A handler that pauses the connection when its other end has sent all still answers, and closes it.
#[test]
fn a_half_closed_connection_that_is_paused_stays_until_it_is_closed_or_resumed() {
    for closes in [true, false] {
        let (events, received) = channel();
        let mut events = Some(events);
        let running = serve(|_| {
            let events = events.take().unwrap();
            let (mut held, mut due) = (None, Time::NEVER);
            script(move |now, input, io| {
                events.send(event(&input)).unwrap();
                match input {
                    Input::Ending { conn } if held.is_none() => {
                        io.pause(conn);
                        held = Some(conn);
                        due = now + Span::from_millis(100);
                    }
                    Input::Tick => {
                        io.send(held.unwrap(), b"late");
                        if closes {
                            io.close(held.unwrap())
                        } else {
                            io.resume(held.unwrap())
                        }
                        due = Time::NEVER;
                    }
                    _ => {}
                }
                due
            })
        });
        let mut stream = client(&running);
        stream.write_all(b"last words").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "late");
        let wanted: &[&str] = match closes {
            true => &["accepted", "bytes 10", "ending", "tick"],
            false => &["accepted", "bytes 10", "ending", "tick", "ending", "closed Eof"],
        };
        let seen: Vec<String> = wanted.iter().map(|_| next(&received)).collect();
        assert_eq!(seen, wanted);
    }
}

#[test]
fn one_turn_s_forwards_and_sends_arrive_in_their_order() {
    let running = serve(|_| {
        script(|_, input, io| {
            if let Input::Bytes { conn, bytes } = input {
                // More segments than one gathered write has, with neighbours that can be joined and some that can't.
                for i in 0..bytes.len() {
                    io.send(conn, b"<");
                    io.send(conn, b"-");
                    io.forward(conn, i..i + 1);
                    io.forward(conn, i..i);
                    io.send(conn, b">");
                }
                io.forward(conn, 0..2);
                io.forward(conn, 2..bytes.len());
            }
            Time::NEVER
        })
    });
    let mut stream = client(&running);
    stream.write_all(b"abcdefghijklmnopqrstuvwxyz").unwrap();
    let expected: String = ('a'..='z').map(|c| format!("<-{c}>")).chain([('a'..='z').collect()]).collect();
    assert_eq!(String::from_utf8(read(&mut stream, expected.len())).unwrap(), expected);
}

#[test]
fn a_large_answer_of_many_pieces_is_cut_anywhere_and_arrives_whole() {
    const PIECE: usize = 37_003;
    const PIECES: usize = 400;
    let running = serve(|_| {
        script(|_, input, io| {
            if let Input::Bytes { conn, bytes } = input {
                for i in 0..PIECES {
                    io.send(conn, &pattern(i * PIECE, PIECE));
                    io.forward(conn, 0..bytes.len());
                }
                io.close(conn);
            }
            Time::NEVER
        })
    });
    let mut stream = client(&running);
    stream.write_all(b"!").unwrap();
    thread::sleep(Duration::from_millis(100));
    for i in 0..PIECES {
        assert!(read(&mut stream, PIECE) == pattern(i * PIECE, PIECE), "piece {i}");
        assert_eq!(read(&mut stream, 1), b"!");
    }
    assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0, "closed after the last byte");
}

#[test]
fn a_peer_that_never_takes_its_last_bytes_is_dropped_after_the_linger() {
    let running = serve(|_| {
        script(|_, input, io| {
            if let Input::Bytes { conn, .. } = input {
                io.send(conn, &vec![7; 64 << 20]);
                io.close(conn);
            }
            Time::NEVER
        })
    });
    let mut stream = client(&running);
    let began = Instant::now();
    stream.write_all(b"!").unwrap();
    let mut probe = stream.try_clone().unwrap();
    // A write fails after the other end has closed with unsent bytes.
    let closed = (0..200).any(|_| {
        thread::sleep(Duration::from_millis(50));
        probe.write_all(b"?").is_err()
    });
    assert!(closed, "the connection is given up");
    assert!(began.elapsed() > Duration::from_secs(4), "but not at once");
}

#[test]
fn a_paused_peer_delivers_no_bytes_until_it_is_resumed() {
    let (events, received) = channel();
    let mut events = Some(events);
    let running = serve(|_| {
        let events = events.take().unwrap();
        let (mut held, mut due) = (None, Time::NEVER);
        script(move |now, input, io| {
            events.send((event(&input), now)).unwrap();
            match input {
                Input::Accepted { conn, .. } => {
                    io.pause(conn);
                    held = Some(conn);
                    due = now + Span::from_millis(150);
                }
                Input::Tick => {
                    io.resume(held.unwrap());
                    due = Time::NEVER;
                }
                _ => {}
            }
            due
        })
    });
    let mut stream = client(&running);
    stream.write_all(b"early").unwrap();
    stream.shutdown(Shutdown::Both).unwrap();
    let mut received: Vec<(String, Time)> =
        (0..6).map(|_| received.recv_timeout(Duration::from_secs(5)).unwrap()).collect();
    assert_eq!(received.remove(1).0, "ending", "the end of input is reported at once");
    let words: Vec<&str> = received.iter().map(|(word, _)| word.as_str()).collect();
    assert_eq!(words, ["accepted", "tick", "bytes 5", "ending", "closed Eof"]);
    let waited = received[1].1.since(received[0].1);
    assert!(waited >= Span::from_millis(150), "a tick comes when it is due, not earlier: {waited:?}");
}

#[test]
fn a_reset_of_a_paused_peer_reaches_the_handler() {
    let (events, received) = channel();
    let mut events = Some(events);
    let running = serve(|_| {
        let events = events.take().unwrap();
        script(move |_, input, io| {
            events.send(event(&input)).unwrap();
            if let Input::Accepted { conn, .. } = input {
                io.pause(conn);
            }
            Time::NEVER
        })
    });
    let stream = client(&running);
    assert_eq!(next(&received), "accepted");
    // Closing with a linger of zero sends a reset.
    socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    drop(stream);
    assert_eq!(next(&received), "closed Error");
}

#[test]
fn many_links_forward_at_once() {
    let (echo, _received) = Echo::new();
    let mut echo = Some(echo);
    let server = serve(|_| echo.take().unwrap());
    let to = address(&server);
    let pooler = serve(|_| Forward::new(to));
    let at = address(&pooler);
    let work = |seed: usize| {
        let mut stream = connect(at);
        for i in 0..200 {
            let length = 1 + (seed * 7919 + i * 104_729) % 70_000;
            let sent = pattern(seed + i, length);
            let mut writer = stream.try_clone().unwrap();
            let feed = thread::spawn({
                let sent = sent.clone();
                move || writer.write_all(&sent).unwrap()
            });
            assert!(read(&mut stream, length) == sent);
            feed.join().unwrap();
        }
    };
    thread::scope(|scope| {
        (0..8).for_each(|seed| drop(scope.spawn(move || work(seed))));
    });
}
