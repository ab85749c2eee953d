//! The process's signals, turned into letters to worker 0.
//!
//! SIGPIPE needs nothing here: Rust's runtime ignores it from the start, and a write to a closed socket answers with an
//! error.

use std::io;
use std::thread::{self, JoinHandle};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::{Handle, Signals as Incoming};
use weir_base::WorkerId;
use weir_engine::port::Signal;

use crate::log::Log;
use crate::mailbox::{Letter, Post};

/// Whether the process's signals are ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signals {
    /// HUP, INT, TERM, QUIT, USR1 and USR2 go to worker 0's engine.
    Handle,
    /// They are left alone, for programs that run the pooler inside themselves.
    Leave,
}

/// The thread that waits for signals.
pub(crate) struct SignalThread {
    handle: Handle,
    thread: JoinHandle<()>,
}

impl SignalThread {
    pub(crate) fn start(post: Post, log: Log) -> io::Result<SignalThread> {
        let mut incoming = Incoming::new([SIGHUP, SIGINT, SIGTERM, SIGQUIT, SIGUSR1, SIGUSR2])?;
        let handle = incoming.handle();
        let thread = thread::Builder::new().name("weir-signals".into()).spawn(move || {
            for signal in incoming.forever().filter_map(meaning) {
                if signal == Signal::Reload {
                    log.reopen();
                }
                post.send(WorkerId(0), Letter::Signal(signal));
            }
        })?;
        Ok(SignalThread { handle, thread })
    }

    /// Ends the thread.
    pub(crate) fn finish(self) {
        self.handle.close();
        // It only forwards signals; a panic there has been reported.
        let _ = self.thread.join();
    }
}

fn meaning(signal: i32) -> Option<Signal> {
    Some(match signal {
        SIGHUP => Signal::Reload,
        SIGINT => Signal::ShutdownServers,
        SIGTERM => Signal::ShutdownClients,
        SIGQUIT => Signal::Quit,
        SIGUSR1 => Signal::Pause,
        SIGUSR2 => Signal::Resume,
        _ => return None,
    })
}
