//! What paused connections send waits with them and in the kernel, and arrives once they are read again. In a program
//! of its own, as it measures the program's memory.

mod common;

use std::collections::HashMap;
use std::io::Write;
use std::net::Shutdown;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use weir_base::{ConnId, Time};
use weir_engine::port::{Input, Signal};

use common::*;

/// Resident memory of this process, in bytes.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
fn many_paused_peers_cost_no_memory_of_ours_and_lose_no_byte() {
    const PEERS: usize = 40;
    const EACH: usize = 4 << 20;
    let whole = pattern(0, EACH);
    let (event, received) = channel();
    let (mut event, expected) = (Some(event), whole.clone());
    let running = serve(|_| {
        let (event, expected) = (event.take().unwrap(), expected.clone());
        let mut had: HashMap<ConnId, usize> = HashMap::new();
        script(move |_, input, io| {
            match input {
                Input::Accepted { conn, .. } => {
                    had.insert(conn, 0);
                    io.pause(conn);
                }
                Input::Signal(_) => had.keys().for_each(|conn| io.resume(*conn)),
                Input::Bytes { conn, bytes } => {
                    let at = had.get_mut(&conn).unwrap();
                    assert!(*bytes == expected[*at..*at + bytes.len()], "at byte {at}");
                    *at += bytes.len();
                }
                Input::Closed { conn, cause } => event.send((had[&conn], cause)).unwrap(),
                _ => {}
            }
            Time::NEVER
        })
    });
    let clients: Vec<_> = (0..PEERS).map(|_| client(&running)).collect();
    let before = resident();
    thread::scope(|scope| {
        for mut stream in &clients {
            let whole = &whole;
            scope.spawn(move || {
                stream.write_all(whole).unwrap();
                stream.shutdown(Shutdown::Write).unwrap();
            });
        }
        // By now each has sent what the kernel accepts.
        thread::sleep(Duration::from_millis(500));
        assert!(resident().saturating_sub(before) < 32 << 20, "what is not read is not taken either");
        running.handle().signal(Signal::Resume);
        for _ in 0..PEERS {
            let (had, cause) = received.recv_timeout(Duration::from_secs(30)).unwrap();
            assert_eq!((had, format!("{cause:?}").as_str()), (EACH, "Eof"));
        }
    });
}
