//! Clients that are accepted when they have sent something (TCP_DEFER_ACCEPT): what they sent is read at once, whole
//! and in order.

use std::io::Write as _;
use std::net::Shutdown;
use std::sync::mpsc::{Receiver, channel};

use weir_base::Time;
use weir_engine::port::Input;
use weir_runtime::{Running, start};

use crate::common::{client, next, plan, script};

/// Serves with a listener that defers accepts; reports each input, and the sum of the bytes so far with a check of
/// their order.
fn deferred() -> (Running, Receiver<String>) {
    let (event, received) = channel();
    let mut event = Some(event);
    let mut plan = plan(1);
    plan.listen.defer_accept = true;
    let running = start(plan, move |_| {
        let (event, mut had) = (event.take().unwrap(), 0);
        script(move |_, input, _| {
            let said = match input {
                Input::Accepted { .. } => {
                    had = 0;
                    "accepted".to_owned()
                }
                Input::Bytes { bytes, .. } => {
                    assert!(bytes.iter().enumerate().all(|(i, byte)| *byte == pattern(had + i)), "behind byte {had}");
                    had += bytes.len();
                    format!("bytes {had}")
                }
                Input::Closed { .. } => format!("closed after {had}"),
                _ => return Time::NEVER,
            };
            event.send(said).unwrap();
            Time::NEVER
        })
    });
    (running.unwrap(), received)
}

fn pattern(at: usize) -> u8 {
    (at % 251) as u8
}

#[test]
fn what_a_client_sends_first_arrives_whole_however_much_it_is() {
    let (running, received) = deferred();
    // The largest fills the worker's buffer, and continues behind it.
    for length in [1, 8, 4096, 64 * 1024, 300_000] {
        let mut stream = client(&running);
        let bytes: Vec<u8> = (0..length).map(pattern).collect();
        stream.write_all(&bytes).unwrap();
        assert_eq!(next(&received), "accepted");
        while next(&received) != format!("bytes {length}") {}
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(next(&received), format!("closed after {length}"));
    }
}

#[test]
fn a_client_that_sends_and_leaves_before_it_is_accepted_is_read() {
    let (running, received) = deferred();
    for _ in 0..50 {
        let mut stream = client(&running);
        stream.write_all(&[pattern(0), pattern(1)]).unwrap();
        drop(stream);
        assert_eq!([next(&received), next(&received), next(&received)], ["accepted", "bytes 2", "closed after 2"]);
    }
}

#[test]
fn a_silent_client_is_accepted_a_little_later() {
    let (running, received) = deferred();
    let _silent = client(&running);
    assert_eq!(next(&received), "accepted");
}
