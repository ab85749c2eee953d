//! Connections that end in every way leave nothing behind. In a program of its own, as it counts descriptors.

mod common;

use std::io::{Read, Write};
use std::net::Shutdown;
use std::thread;
use std::time::{Duration, Instant};

use common::*;

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn after_all_have_gone_no_descriptor_is_left() {
    let (echo, _received) = Echo::new();
    let mut echo = Some(echo);
    let server = serve(|_| echo.take().unwrap());
    let to = address(&server);
    let pooler = serve(|_| Forward::new(to));
    let at = address(&pooler);
    let before = open_files();
    let churn = |seed: usize| {
        for i in 0..300 {
            let mut stream = connect(at);
            let length = 1 + (seed * 7919 + i * 104_729) % 200_000;
            let ending = (seed + i) % 5;
            // A client that resets or closes without reading may get an error; the others may not.
            let sent = stream.write_all(&pattern(0, length.min(if ending < 2 { 200_000 } else { 20_000 })));
            match ending {
                0 => socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap(),
                1 => {}
                2 => drop(stream.shutdown(Shutdown::Both)),
                _ => {
                    sent.unwrap();
                    stream.read_exact(&mut [0; 1]).unwrap();
                }
            }
        }
    };
    thread::scope(|scope| (0..4).for_each(|seed| drop(scope.spawn(move || churn(seed)))));
    let began = Instant::now();
    while open_files() > before && began.elapsed() < Duration::from_secs(10) {
        thread::sleep(Duration::from_millis(20));
    }
    assert!(open_files() <= before, "{} open, {before} before", open_files());
    let mut last = connect(at);
    last.write_all(b"alive").unwrap();
    assert_eq!(read(&mut last, 5), b"alive");
}
