//! Fast streams, which are read at intervals: whole and in order, whatever is paused between, and up to their end.

use std::io::Write;
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use weir_base::{ConnId, Time};
use weir_engine::port::Input;

use crate::common::*;

/// Bytes of a stream: many times what begins the reads at intervals.
const STREAM: usize = 48 << 20;
/// How PostgreSQL sends: in pieces of its buffer.
const PIECE: usize = 8 << 10;

/// A handler that compares a stream, pauses its connection after each `portion`, and resumes it for a byte of another
/// connection. It answers the last byte. The flag is set when it has paused the connection once.
fn compare(portion: usize) -> (weir_runtime::Running, Receiver<String>, Arc<AtomicBool>) {
    let (event, received) = channel();
    let has_paused = Arc::new(AtomicBool::new(false));
    let paused = has_paused.clone();
    let mut event = Some(event);
    let running = serve(move |_| {
        let (event, paused) = (event.take().unwrap(), paused.clone());
        let expected = pattern(0, STREAM);
        let (mut streamer, mut had, mut stop) = (None::<ConnId>, 0, portion);
        script(move |_, input, io| {
            match input {
                Input::Accepted { conn, .. } => _ = streamer.get_or_insert(conn),
                Input::Bytes { conn, bytes } if streamer == Some(conn) => {
                    assert!(bytes[..] == expected[had..had + bytes.len()], "at byte {had}");
                    had += bytes.len();
                    if had >= stop {
                        stop += portion;
                        io.pause(conn);
                        paused.store(true, Ordering::Release);
                    }
                    if had == STREAM {
                        io.send(conn, b"!");
                        io.resume(conn);
                    }
                }
                Input::Bytes { .. } => streamer.into_iter().for_each(|conn| io.resume(conn)),
                Input::Closed { conn, cause } if streamer == Some(conn) => {
                    event.send(format!("{had} {cause:?}")).unwrap();
                }
                _ => {}
            }
            Time::NEVER
        })
    });
    (running, received, has_paused)
}

#[test]
fn a_fast_stream_arrives_whole_and_its_last_bytes_at_once_whatever_is_paused_between() {
    for portion in [usize::MAX / 2, 3 << 20, 100_000] {
        let (running, received, _) = compare(portion);
        let mut streamer = client(&running);
        let mut other = client(&running);
        thread::scope(|scope| {
            let sending = scope.spawn(move || {
                let whole = pattern(0, STREAM);
                whole[..STREAM - 1].chunks(PIECE).for_each(|piece| streamer.write_all(piece).unwrap());
                // The stream has ended, and its reader goes back to waiting for news.
                thread::sleep(Duration::from_millis(20));
                streamer.write_all(&whole[STREAM - 1..]).unwrap();
                assert_eq!(read(&mut streamer, 1), b"!");
                streamer.shutdown(Shutdown::Write).unwrap();
                streamer
            });
            while !sending.is_finished() {
                other.write_all(b"r").unwrap();
                thread::sleep(Duration::from_millis(1));
            }
            sending.join().unwrap();
        });
        assert_eq!(received.recv_timeout(Duration::from_secs(20)).unwrap(), format!("{STREAM} Eof"), "{portion}");
    }
}

#[test]
fn a_fast_stream_that_breaks_off_is_noticed_also_while_it_is_paused() {
    let (running, received, has_paused) = compare(3 << 20);
    let mut streamer = client(&running);
    let whole = pattern(0, 4 << 20);
    let mut rest = &whole[..];
    streamer.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
    // Nobody resumes it: what the kernel takes beyond the first portion waits.
    while !rest.is_empty() {
        match streamer.write(&rest[..rest.len().min(PIECE)]) {
            Ok(written) => rest = &rest[written..],
            Err(_) if has_paused.load(Ordering::Acquire) => break,
            // Its reader has not come to it yet.
            Err(_) => {}
        }
    }
    while !has_paused.load(Ordering::Acquire) {
        thread::sleep(Duration::from_millis(1));
    }
    socket2::SockRef::from(&streamer).set_linger(Some(Duration::ZERO)).unwrap();
    drop(streamer);
    let end = received.recv_timeout(Duration::from_secs(20)).unwrap();
    assert!(end.ends_with(" Error"), "{end}");
}
