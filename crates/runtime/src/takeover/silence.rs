//! How long the other process has been silent.

use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

/// The other process hangs when it is silent for this long: nobody accepts meanwhile.
const HANGS: Duration = Duration::from_millis(1_800);
/// The most that counts of the time between two looks: when this process or the whole machine did not run, the other
/// process did not run either.
const MOST: Duration = Duration::from_millis(100);
/// The time between two looks of a thread that only waits.
const LOOK: Duration = Duration::from_millis(2);

/// How long the other process has been silent, see the head of the file.
pub(super) struct Silence {
    silent: Duration,
    looked: Instant,
}

impl Silence {
    /// The other process was heard just now.
    pub(super) fn new() -> Silence {
        Silence { silent: Duration::ZERO, looked: Instant::now() }
    }

    /// To be called again and again, with whether the other process has sent something since then; returns whether it
    /// hangs.
    pub(super) fn hangs(&mut self, said_something: bool) -> bool {
        let now = Instant::now();
        let passed = now.saturating_duration_since(std::mem::replace(&mut self.looked, now));
        self.silent = if said_something { Duration::ZERO } else { self.silent + passed.min(MOST) };
        self.silent > HANGS
    }

    /// Waits until there is something to read from the other process; returns `false` if it hangs.
    pub(super) fn wait(&mut self, stream: &UnixStream) -> bool {
        loop {
            let says = says_something(stream);
            if self.hangs(says) {
                return false;
            }
            if says {
                return true;
            }
            thread::sleep(LOOK);
        }
    }
}

/// Whether the other end has sent something, or the connection is closed.
pub(super) fn says_something(stream: &UnixStream) -> bool {
    let mut byte = [0];
    let flags = rustix::net::RecvFlags::PEEK | rustix::net::RecvFlags::DONTWAIT;
    !matches!(rustix::net::recv(stream, &mut byte, flags), Err(rustix::io::Errno::AGAIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_time_in_which_this_process_looked_counts() {
        let mut silence = Silence::new();
        silence.looked -= Duration::from_secs(60);
        assert!(!silence.hangs(false), "it was not looked for a minute");
        let mut looks = 0;
        while !silence.hangs(false) {
            silence.looked -= MOST;
            looks += 1;
        }
        assert!((16..=18).contains(&looks), "{looks}");
        assert!(!silence.hangs(true) && silence.silent == Duration::ZERO);
    }
}
