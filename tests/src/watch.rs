//! Waiting for a condition, without assumptions about the speed of this machine.

use std::fmt::Debug;
use std::thread;
use std::time::{Duration, Instant};

/// The timeout for what should take a moment: the machine may be busy with other things.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Repeats a check until it returns `Ok`.
///
/// # Panics
///
/// With the last error, after 20 seconds.
#[track_caller]
pub fn eventually<T, E: Debug>(what: &str, check: impl FnMut() -> Result<T, E>) -> T {
    within(TIMEOUT, what, check)
}

/// Repeats a check until it returns `Ok`, with another timeout.
///
/// # Panics
///
/// With the last error, when the time is over.
#[track_caller]
pub fn within<T, E: Debug>(timeout: Duration, what: &str, mut check: impl FnMut() -> Result<T, E>) -> T {
    let begin = Instant::now();
    loop {
        match check() {
            Ok(value) => return value,
            Err(last) if begin.elapsed() >= timeout => panic!("{what}: not after {timeout:?}: {last:?}"),
            Err(_) => thread::sleep(Duration::from_millis(20)),
        }
    }
}
