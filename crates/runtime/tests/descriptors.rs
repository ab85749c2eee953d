//! Descriptors run out: no client is lost, no loop is busy. In a program of its own, as it uses all of them.

mod common;

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, UsageWho, getrusage, setrlimit};
use nix::sys::time::TimeValLike;
use weir_runtime::{LogTarget, descriptors, start};

use common::*;

fn cpu() -> Duration {
    let used = getrusage(UsageWho::RUSAGE_SELF).unwrap();
    Duration::from_micros((used.user_time() + used.system_time()).num_microseconds() as u64)
}

#[test]
fn without_descriptors_clients_wait_and_are_served_when_one_is_free() {
    let (_, hard) = descriptors();
    setrlimit(Resource::RLIMIT_NOFILE, 200, hard.min(200)).unwrap();
    let lines = Lines::default();
    let (echo, received) = Echo::new();
    let mut echo = Some(echo);
    let mut plan = plan(1);
    plan.log = LogTarget::Writer(Box::new(lines.clone()));
    let running = start(plan, |_| echo.take().unwrap()).unwrap();
    let first = client(&running);
    assert_eq!(next(&received), "accepted");

    // All descriptors but one are used; that one is for the next client's own end.
    let mut taken = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        taken.push(file);
    }
    drop(taken.pop());
    let mut second = TcpStream::connect(address(&running)).unwrap();
    second.write_all(b"hello").unwrap();
    let used = cpu();
    thread::sleep(Duration::from_millis(1500));
    assert!(cpu() - used < Duration::from_millis(100), "waiting costs nothing: {:?}", cpu() - used);
    let text = lines.text();
    assert_eq!(text.matches("could not accept a client").count(), 1, "{text}");

    // The second client needs the descriptor of the runtime's end of the first one.
    let freed = Instant::now();
    drop(first);
    second.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut answer = [0; 5];
    second.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"hello");
    assert!(freed.elapsed() < Duration::from_millis(500), "it is not the pause that ends the wait");
    drop(taken);
}
