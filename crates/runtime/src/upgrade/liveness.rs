//! How long the other process has sent nothing.

use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

/// The other process hangs when it sends nothing for this long: nobody accepts meanwhile.
const HANGS: Duration = Duration::from_millis(1_800);
/// The most that counts of the time between two looks: when this process or the whole machine did not run, the other
/// process did not run either.
const MOST: Duration = Duration::from_millis(100);
/// The time between two looks of a thread that only waits.
const LOOK: Duration = Duration::from_millis(2);

/// How long the other process has sent nothing, see the head of the file.
pub(super) struct Liveness {
    unheard: Duration,
    looked: Instant,
}

impl Liveness {
    /// The other process was heard just now.
    pub(super) fn new() -> Liveness {
        Liveness { unheard: Duration::ZERO, looked: Instant::now() }
    }

    /// To be called again and again, with whether the other process has sent something since then; returns whether it
    /// hangs.
    pub(super) fn hangs(&mut self, has_sent: bool) -> bool {
        let now = Instant::now();
        let passed = now.saturating_duration_since(std::mem::replace(&mut self.looked, now));
        self.unheard = if has_sent { Duration::ZERO } else { self.unheard + passed.min(MOST) };
        self.unheard > HANGS
    }

    /// Waits until there is something to read from the other process; returns `false` if it hangs.
    pub(super) fn wait(&mut self, stream: &UnixStream) -> bool {
        loop {
            let sent = has_sent(stream);
            if self.hangs(sent) {
                return false;
            }
            if sent {
                return true;
            }
            thread::sleep(LOOK);
        }
    }
}

/// Whether the other end has sent something, or the connection is closed.
pub(super) fn has_sent(stream: &UnixStream) -> bool {
    let mut byte = [0];
    let flags = rustix::net::RecvFlags::PEEK | rustix::net::RecvFlags::DONTWAIT;
    !matches!(rustix::net::recv(stream, &mut byte, flags), Err(rustix::io::Errno::AGAIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_time_in_which_this_process_looked_counts() {
        let mut liveness = Liveness::new();
        liveness.looked -= Duration::from_secs(60);
        assert!(!liveness.hangs(false), "it was not looked for a minute");
        let mut looks = 0;
        while !liveness.hangs(false) {
            liveness.looked -= MOST;
            looks += 1;
        }
        assert!((16..=18).contains(&looks), "{looks}");
        assert!(!liveness.hangs(true) && liveness.unheard == Duration::ZERO);
    }
}
