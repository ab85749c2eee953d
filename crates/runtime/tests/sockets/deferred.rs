//! Clients that are accepted when they have sent something (TCP_DEFER_ACCEPT): what they sent is read at once, whole and in order.

use std::io::Write as _;
use std::net::Shutdown;
use std::sync::mpsc::{Receiver, channel};

use weir_base::Time;
use weir_engine::port::Input;
use weir_runtime::{Running, start};

use crate::common::{client, next, plan, script};

/// Serves with such a listener; says what each input was, and the sum of the bytes so far with a check of their order.
fn deferred() -> (Running, Receiver<String>) {
    let (told, heard) = channel();
    let mut told = Some(told);
    let mut plan = plan(1);
    plan.listen.defer_accept = true;
    let running = start(plan, move |_| {
        let (told, mut had) = (told.take().unwrap(), 0);
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
            told.send(said).unwrap();
            Time::NEVER
        })
    });
    (running.unwrap(), heard)
}

fn pattern(at: usize) -> u8 {
    (at % 251) as u8
}

#[test]
fn what_a_client_sends_first_arrives_whole_however_much_it_is() {
    let (running, heard) = deferred();
    // The largest fills the worker's buffer, and goes on behind it.
    for length in [1, 8, 4096, 64 * 1024, 300_000] {
        let mut stream = client(&running);
        let bytes: Vec<u8> = (0..length).map(pattern).collect();
        stream.write_all(&bytes).unwrap();
        assert_eq!(next(&heard), "accepted");
        while next(&heard) != format!("bytes {length}") {}
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(next(&heard), format!("closed after {length}"));
    }
}

#[test]
fn a_client_that_sends_and_leaves_before_it_is_accepted_is_heard() {
    let (running, heard) = deferred();
    for _ in 0..50 {
        let mut stream = client(&running);
        stream.write_all(&[pattern(0), pattern(1)]).unwrap();
        drop(stream);
        assert_eq!([next(&heard), next(&heard), next(&heard)], ["accepted", "bytes 2", "closed after 2"]);
    }
}

#[test]
fn a_silent_client_is_accepted_a_little_later() {
    let (running, heard) = deferred();
    let _silent = client(&running);
    assert_eq!(next(&heard), "accepted");
}
