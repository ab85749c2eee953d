//! Processes: signals to them, and who the children of one are.

use std::fs;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;

pub use nix::sys::signal::Signal;

/// Sends a signal to one process. A process that is gone already is no error: that is what most signals are for.
pub fn send_signal(pid: u32, signal: Signal) {
    if let Some(pid) = one_process(pid) {
        let _ = kill(pid, signal);
    }
}

/// Whether a process with this id exists; of other users' processes too.
pub(crate) fn alive(pid: u32) -> bool {
    one_process(pid).is_some_and(|pid| kill(pid, None) != Err(Errno::ESRCH))
}

/// To the kernel 0 and negative numbers are groups of processes; those are never meant here.
fn one_process(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().filter(|pid| *pid > 0).map(Pid::from_raw)
}

/// A running process as the process table shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) pid: u32,
    /// The command line of the process; PostgreSQL's children write their title there: `postgres: app test
    /// 127.0.0.1(4711) idle`.
    pub(crate) title: String,
}

/// The living children of `parent`.
pub(crate) fn children(parent: u32) -> Vec<Entry> {
    match fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")) {
        Ok(pids) => pids.split_whitespace().filter_map(|pid| from_proc(pid.parse().ok()?)).collect(),
        Err(_) => from_ps(parent),
    }
}

/// Reads one process from `/proc`; `None` for a zombie, whose command line is empty.
fn from_proc(pid: u32) -> Option<Entry> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let title = String::from_utf8_lossy(&line).replace('\0', " ").trim().to_owned();
    (!title.is_empty()).then_some(Entry { pid, title })
}

/// Asks `ps`, where there is no `/proc` (or a kernel without its list of children).
fn from_ps(parent: u32) -> Vec<Entry> {
    let Ok(output) = Command::new("ps").args(["-A", "-o", "pid=,ppid=,command="]).output() else { return Vec::new() };
    String::from_utf8_lossy(&output.stdout).lines().filter_map(|line| ps_line(line, parent)).collect()
}

fn ps_line(line: &str, parent: u32) -> Option<Entry> {
    let (pid, rest) = line.trim_start().split_once(char::is_whitespace)?;
    let (ppid, title) = rest.trim_start().split_once(char::is_whitespace)?;
    (ppid.parse() == Ok(parent)).then_some(Entry { pid: pid.parse().ok()?, title: title.trim().to_owned() })
}

/// Waits for a child until `timeout` is over; `None` if it still runs then.
pub(crate) fn wait(child: &mut Child, timeout: Duration) -> Option<ExitStatus> {
    let end = Instant::now() + timeout;
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        if Instant::now() >= end {
            return None;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_child_of_ours_is_among_our_children_until_it_is_killed() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let ours = |pid| children(std::process::id()).iter().any(|entry| entry.pid == pid);
        // The list under /proc is that of one thread: std spawned from this one, so ps has the wider view.
        let has_ps = Command::new("ps").arg("-A").stdout(std::process::Stdio::null()).status().is_ok();
        if !has_ps {
            let _ = writeln!(std::io::stderr(), "\nskipped: the children of a process: there is no program `ps`");
        }
        let in_ps = || from_ps(std::process::id()).iter().any(|entry| entry.pid == child.id());
        assert!(!has_ps || ours(child.id()) || in_ps());
        assert!(wait(&mut child, Duration::from_millis(20)).is_none());
        send_signal(child.id(), Signal::SIGKILL);
        assert!(wait(&mut child, Duration::from_secs(5)).is_some());
    }

    #[test]
    fn a_line_of_ps_is_read_with_spaces_in_its_title() {
        let entry = ps_line("  812   77 postgres: app demo [local] idle", 77).unwrap();
        assert_eq!((entry.pid, entry.title.as_str()), (812, "postgres: app demo [local] idle"));
        assert_eq!(ps_line("812 78 x", 77), None);
    }
}
