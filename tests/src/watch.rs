//! Waiting for what must become true, without assuming how fast this machine is.

use std::fmt::Debug;
use std::thread;
use std::time::{Duration, Instant};

/// How long anything may take that should take a moment: the machine may be busy with other things.
const PATIENCE: Duration = Duration::from_secs(20);

/// Asks again and again until the answer is `Ok`.
///
/// # Panics
///
/// With the last answer, when it is still an error after 20 seconds.
#[track_caller]
pub fn eventually<T, E: Debug>(what: &str, check: impl FnMut() -> Result<T, E>) -> T {
    within(PATIENCE, what, check)
}

/// The same with a patience of one's own.
///
/// # Panics
///
/// With the last answer, when the time is over.
#[track_caller]
pub fn within<T, E: Debug>(patience: Duration, what: &str, mut check: impl FnMut() -> Result<T, E>) -> T {
    let begin = Instant::now();
    loop {
        match check() {
            Ok(value) => return value,
            Err(last) if begin.elapsed() >= patience => panic!("{what}: not after {patience:?}: {last:?}"),
            Err(_) => thread::sleep(Duration::from_millis(20)),
        }
    }
}
