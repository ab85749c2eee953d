//! Two Weirs behind a balancer, restarted one after the other while an application works: `rolling COMMAND [ARGUMENT…]`.
//!
//! The command finds in its environment `HOST`, `PORT`, `USER_NAME`, `PASSWORD` and `DATABASE`. It writes `works` when it
//! works, stops at the end of its input, and then writes what it has done. `ROLLING_MODE` is the pool's mode,
//! `ROLLING_DRAIN` the drain's time. The exit status is the command's.

use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use weir_tests::{Mode, Rolling, users};

/// How often both are restarted.
const RESTARTS: usize = 2;
/// How long the application works between two restarts.
const WORK: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let Some(program) = arguments.next() else {
        eprintln!("usage: rolling COMMAND [ARGUMENT…]");
        return ExitCode::from(2);
    };
    let of = |name: &str| std::env::var(name).ok();
    let mode = match of("ROLLING_MODE").as_deref() {
        Some("session") => Mode::Session,
        Some("auto") => Mode::Auto,
        _ => Mode::Transaction,
    };
    let drain = format!("drain_time = \"{}\"", of("ROLLING_DRAIN").as_deref().unwrap_or("12s"));
    let rolling = Rolling::start(mode, 20, &["shutdown_delay = \"500ms\"", &drain]);
    let mut child = Command::new(program)
        .args(arguments)
        .env("HOST", "127.0.0.1")
        .env("PORT", rolling.balancer().port().to_string())
        .env("USER_NAME", users::APP.name)
        .env("PASSWORD", users::APP.password)
        .env("DATABASE", "app")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut lines = BufReader::new(child.stdout.take().expect("it has an output")).lines().map_while(Result::ok);
    let begins = lines.next();
    if begins.as_deref() == Some("works") {
        for _ in 0..RESTARTS {
            thread::sleep(WORK);
            rolling.restart_both();
        }
        thread::sleep(WORK);
    }
    drop(child.stdin.take());
    lines.for_each(|line| println!("{line}"));
    let status = child.wait().expect("it ends");
    let served = [0, 1].map(|weir| rolling.balancer().connections(weir));
    println!("connections to the two: {served:?}");
    ExitCode::from(if status.success() && begins.is_some() { 0 } else { 1 })
}
