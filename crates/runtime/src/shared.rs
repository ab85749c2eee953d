//! The state that all workers of a process share. No query uses it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use crate::clock::Clock;
use crate::control_queue::ControlQueue;
use crate::helpers::Helpers;
use crate::log::Log;
use crate::mailbox::{Mailboxes, WorkerMessage};
use crate::rounds::Rounds;
use crate::tls::TlsContexts;
use crate::upgrade::{ExportSender, OldProcessLink};

/// A worker's handle of the process; cheap to clone.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) clock: Clock,
    pub(crate) log: Log,
    pub(crate) helpers: Helpers,
    /// Whether worker 0 can't accept for lack of a descriptor.
    pub(crate) starved: Arc<AtomicBool>,
    pub(crate) ending: Ending,
    pub(crate) rounds: Rounds,
    /// The requests of the control plane.
    pub(crate) control_queue: ControlQueue,
    pub(crate) tls_contexts: Arc<TlsContexts>,
    /// The sender to the thread that gives clients and servers to a process that takes over.
    pub(crate) exports: ExportSender,
    /// The process that this one takes over from.
    pub(crate) old_process_link: OldProcessLink,
}

impl Shared {
    /// Whether descriptors are lacking.
    #[inline]
    pub(crate) fn is_starved(&self) -> bool {
        self.starved.load(Ordering::Relaxed)
    }

    /// Ends the process with `status`, unless it is ending already.
    pub(crate) fn end(&self, status: i32) {
        self.ending.end(status);
    }
}

/// Whether the process is ending, and with which status.
#[derive(Clone)]
pub(crate) struct Ending {
    status: Arc<OnceLock<i32>>,
    shared_servers_ended: Arc<AtomicBool>,
    mailboxes: Mailboxes,
}

impl Ending {
    pub(crate) fn new(mailboxes: Mailboxes) -> Self {
        Ending { status: Arc::default(), shared_servers_ended: Arc::default(), mailboxes }
    }

    pub(crate) fn end(&self, status: i32) {
        if self.status.set(status).is_ok() {
            self.mailboxes.send_all(|| WorkerMessage::End);
        }
    }

    /// The servers of pools that nodes share have ended all their connections; set before the end.
    pub(crate) fn shared_servers_ended(&self) -> &Arc<AtomicBool> {
        &self.shared_servers_ended
    }

    /// The exit status, if the process is ending.
    #[inline]
    pub(crate) fn status(&self) -> Option<i32> {
        self.status.get().copied()
    }
}
