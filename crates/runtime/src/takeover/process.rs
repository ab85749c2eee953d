//! Another process, by what no later one with its number has: when it was started.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// See the head of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OtherProcess {
    pid: u32,
    /// `None`: it is not seen from here.
    started: Option<u64>,
}

impl OtherProcess {
    /// The process that has this number now.
    pub fn new(pid: u32) -> OtherProcess {
        OtherProcess { pid, started: started(pid) }
    }

    /// Whether it has ended, or is not seen from here.
    pub fn is_gone(&self) -> bool {
        started(self.pid).is_none_or(|at| Some(at) != self.started)
    }

    /// Waits for its end.
    pub(super) fn ends_within(&self, time: Duration) -> bool {
        let by = Instant::now() + time;
        while !self.is_gone() && Instant::now() < by {
            thread::sleep(Duration::from_millis(10));
        }
        self.is_gone()
    }

    /// Whether it has certainly ended.
    pub(super) fn has_ended(&self) -> bool {
        self.started.is_some() && self.is_gone()
    }
}

/// When a process was started, by the system's clock; `None` if it has ended.
fn started(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut rest = text.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = rest.next()?;
    if matches!(state, "Z" | "X") { None } else { rest.nth(18)?.parse().ok() }
}
