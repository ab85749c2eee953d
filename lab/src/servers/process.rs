//! A child process: its log, and its end.
//!
//! Ends the process when dropped, children included (each is the head of a process group of its own).

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::killpg;
use nix::unistd::Pid;
use weir_pglocal::{Reaper, Signal, send_signal};

use crate::lab::command_line;
use crate::steps::LabError;

/// How long a process may take to end after a signal.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A running program; dropping it ends it, with all its children.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Child,
    log: PathBuf,
    reaper: Arc<Reaper>,
}

impl Process {
    /// Starts `command`, with both its streams going to `log`.
    pub(crate) fn start(
        name: &str,
        mut command: Command,
        log: PathBuf,
        reaper: &Arc<Reaper>,
    ) -> Result<Process, LabError> {
        let out = File::options().create(true).append(true).open(&log);
        let out = out.map_err(|e| LabError::at(format!("open {}", log.display()), e))?;
        let errors = out.try_clone().map_err(|e| LabError::at("duplicate a descriptor", e))?;
        command.stdout(out).stderr(errors);
        Process::of(name, command, log, reaper)
    }

    /// Starts `command`, whose streams are set; `log` is the file of its errors.
    pub(crate) fn of(
        name: &str,
        mut command: Command,
        log: PathBuf,
        reaper: &Arc<Reaper>,
    ) -> Result<Process, LabError> {
        if reaper.clearing() {
            return Err(LabError::Failed(format!("{name} is not started: the lab is stopping")));
        }
        let child = command.spawn().map_err(|e| LabError::at(format!("run {}", command_line(&command)), e))?;
        reaper.watch(child.id());
        Ok(Process { name: name.to_owned(), child, log, reaper: Arc::clone(reaper) })
    }

    /// The id of the process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether the process is running.
    pub(crate) fn alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for its end; `None` if it is running after `timeout`.
    pub(crate) fn wait(&mut self, timeout: Duration) -> Option<ExitStatus> {
        let end = Instant::now() + timeout;
        let mut pause = Duration::from_micros(500);
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            if Instant::now() >= end {
                return None;
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }

    /// The whole log of the process.
    pub(crate) fn log(&self) -> String {
        fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// An error with the last lines of its log: `pgpool: does not answer`.
    pub(crate) fn trouble(&self, what: impl std::fmt::Display) -> LabError {
        let log = self.log();
        let lines: Vec<_> = log.trim_end().lines().collect();
        LabError::Failed(format!("{}: {what}\n{}", self.name, lines[lines.len().saturating_sub(8)..].join("\n")))
    }

    /// Waits until `answers` returns true; an error if the process ends or `timeout` is over before.
    pub(crate) fn await_ready(&mut self, timeout: Duration, mut answers: impl FnMut() -> bool) -> Result<(), LabError> {
        let end = Instant::now() + timeout;
        while !answers() {
            if !self.alive() {
                return Err(self.trouble("ended instead of starting"));
            }
            if Instant::now() > end {
                return Err(self.trouble(format!("does not answer after {} s", timeout.as_secs())));
            }
            thread::sleep(Duration::from_millis(30));
        }
        Ok(())
    }

    fn group(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let pid = self.child.id();
        if self.alive() {
            send_signal(pid, Signal::SIGTERM);
            // Weir waits for its clients after TERM; INT only for their transactions.
            send_signal(pid, Signal::SIGINT);
            if self.wait(TIMEOUT).is_none() {
                let _ = self.child.kill();
            }
        }
        let _ = self.child.wait();
        // Children that it left, which are in its group still.
        let _ = killpg(self.group(), Signal::SIGKILL);
        self.reaper.forget(pid);
    }
}
