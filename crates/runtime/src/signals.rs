//! The process's signals, forwarded as messages to worker 0.
//!
//! SIGPIPE needs no handling: Rust's runtime ignores it, and a write to a closed socket returns an error.

use std::io;
use std::thread::{self, JoinHandle};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::{Handle, Signals as Incoming};
use weir_base::WorkerId;
use weir_engine::port::{Level, Signal};

use crate::log::Log;
use crate::mailbox::{Mailboxes, WorkerMessage};

/// Whether to handle the process's signals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signals {
    /// HUP, INT, TERM, QUIT, USR1 and USR2 are forwarded to worker 0's engine.
    Handle,
    /// Signals are not touched, for programs that embed the pooler.
    Leave,
}

/// The thread that waits for signals.
pub(crate) struct SignalThread {
    handle: Handle,
    thread: JoinHandle<()>,
}

/// Registered signals. Made before anything listens, so that no signal meets its default action afterwards.
pub(crate) struct CaughtSignals(Incoming);

impl CaughtSignals {
    pub(crate) fn catch() -> io::Result<CaughtSignals> {
        Incoming::new([SIGHUP, SIGINT, SIGTERM, SIGQUIT, SIGUSR1, SIGUSR2]).map(CaughtSignals)
    }
}

impl SignalThread {
    pub(crate) fn start(kept: CaughtSignals, mailboxes: Mailboxes, log: Log) -> io::Result<SignalThread> {
        let CaughtSignals(mut incoming) = kept;
        let handle = incoming.handle();
        let thread = thread::Builder::new().name("weir-signals".into()).spawn(move || {
            for (signal, words) in incoming.forever().filter_map(meaning) {
                if signal == Signal::Reload {
                    log.reopen();
                }
                if let Some(words) = words {
                    log.line(Level::Info, format_args!("got {words}"));
                }
                mailboxes.send(WorkerId(0), WorkerMessage::Signal(signal));
            }
        })?;
        Ok(SignalThread { handle, thread })
    }

    /// Ends the thread.
    pub(crate) fn finish(self) {
        self.handle.close();
        // The thread only forwards signals; a panic there has been printed.
        let _ = self.thread.join();
    }
}

/// What a signal means, and how the log says that it came: in PgBouncer's words, which scripts look for. Of those
/// without words the engine logs what they lead to.
fn meaning(signal: i32) -> Option<(Signal, Option<&'static str>)> {
    Some(match signal {
        SIGHUP => (Signal::Reload, Some("SIGHUP, re-reading config")),
        SIGINT => (Signal::ShutdownServers, None),
        SIGTERM => (Signal::ShutdownClients, None),
        SIGQUIT => (Signal::Quit, Some("SIGQUIT, fast exit")),
        SIGUSR1 => (Signal::Pause, None),
        SIGUSR2 => (Signal::Resume, None),
        _ => return None,
    })
}
