//! Another process, identified by its number and by when it was started, which no later process with that number
//! shares.

use std::fs;
use std::io::{self, ErrorKind};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Another process, see the head of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OtherProcess {
    pid: u32,
    /// When the process was started; `None`: it is not seen from here.
    started: Option<u64>,
    /// The number is one of this process's namespace, so that a process that is not seen has ended.
    is_counted_here: bool,
}

impl OtherProcess {
    /// The process that has this number now.
    pub fn new(pid: u32) -> OtherProcess {
        OtherProcess { pid, started: started(pid), is_counted_here: false }
    }

    /// The process that has said that it has this number in its [`namespace`]; it may have ended since.
    pub(super) fn of(pid: u32, its: Option<&str>) -> OtherProcess {
        let is_counted_here = its.is_some() && its == namespace().as_deref();
        OtherProcess { is_counted_here, ..OtherProcess::new(pid) }
    }

    /// Whether the process has ended, or is not seen from here.
    pub fn is_gone(&self) -> bool {
        started(self.pid).is_none_or(|at| Some(at) != self.started)
    }

    /// Kills the process, whatever it does. Not if the number may be another program's: the process may have its number
    /// from a container, where numbers differ.
    pub fn kill(&self) -> io::Result<()> {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else {
            return Err(ErrorKind::InvalidInput.into());
        };
        let handle = pidfd_open(pid, PidfdFlags::empty())?;
        if self.is_gone() {
            return Ok(());
        }
        let of = |pid: &str| {
            Some((
                fs::read_to_string(format!("/proc/{pid}/comm")).ok()?,
                fs::read_link(format!("/proc/{pid}/ns/pid")).ok()?,
            ))
        };
        let is_like_this = of(&self.pid.to_string()).is_some_and(|other| Some(other) == of("self"));
        if !is_like_this || self.pid == std::process::id() {
            return Err(ErrorKind::PermissionDenied.into());
        }
        Ok(pidfd_send_signal(handle, Signal::KILL)?)
    }

    /// Waits for the process's end.
    pub(super) fn ends_within(&self, time: Duration) -> bool {
        let by = Instant::now() + time;
        while !self.is_gone() && Instant::now() < by {
            thread::sleep(Duration::from_millis(10));
        }
        self.is_gone()
    }

    /// Whether the process certainly ends, which is waited for: a killed process closes its sockets first.
    pub(super) fn certainly_ends_within(&self, time: Duration) -> bool {
        (self.started.is_some() || self.is_counted_here) && self.ends_within(time)
    }
}

/// The namespace of the numbers of processes in which this one runs, if it can be seen.
pub(super) fn namespace() -> Option<String> {
    fs::read_link("/proc/self/ns/pid").ok().map(|link| link.to_string_lossy().into_owned())
}

/// When a process was started, by the system's clock; `None` if it has ended.
fn started(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut rest = text.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = rest.next()?;
    if matches!(state, "Z" | "X") { None } else { rest.nth(18)?.parse().ok() }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_that_has_closed_its_sockets_and_is_not_gone_yet_is_waited_for() {
        // It ends when its input does.
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let process = OtherProcess::new(child.id());
        assert!(!process.certainly_ends_within(Duration::ZERO), "it runs");
        drop(child.stdin.take());
        assert!(process.certainly_ends_within(Duration::from_secs(60)), "a zombie has ended");
        child.wait().unwrap();
        assert!(process.certainly_ends_within(Duration::ZERO));
    }

    #[test]
    fn a_process_that_is_not_seen_has_ended_if_it_was_counted_here() {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let ends = |its: Option<&str>| OtherProcess::of(child.id(), its).certainly_ends_within(Duration::ZERO);
        let here = namespace();
        assert!(here.is_some() && ends(here.as_deref()));
        assert!(!ends(Some("pid:[1]")) && !ends(None), "it may run in another container");
    }
}
