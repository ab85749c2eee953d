//! What all workers of a process share. Nothing here is touched on the path of a query.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use crate::clock::Clock;
use crate::desk::Desk;
use crate::helpers::Helpers;
use crate::log::Log;
use crate::mailbox::{Letter, Post};
use crate::tls::Vault;

/// A worker's view of the process; cheap to clone.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) clock: Clock,
    pub(crate) log: Log,
    pub(crate) helpers: Helpers,
    /// Worker 0 can't accept for the lack of a descriptor.
    pub(crate) starved: Arc<AtomicBool>,
    pub(crate) ending: Ending,
    /// Where the control plane asks.
    pub(crate) desk: Desk,
    pub(crate) vault: Arc<Vault>,
}

impl Shared {
    /// Ends the process with `status`, unless it is ending already.
    pub(crate) fn end(&self, status: i32) {
        self.ending.end(status);
    }
}

/// How the process is ended, and whether it is ending.
#[derive(Clone)]
pub(crate) struct Ending {
    status: Arc<OnceLock<i32>>,
    post: Post,
}

impl Ending {
    pub(crate) fn new(post: Post) -> Self {
        Ending { status: Arc::default(), post }
    }

    pub(crate) fn end(&self, status: i32) {
        if self.status.set(status).is_ok() {
            self.post.send_all(|| Letter::End);
        }
    }

    /// The exit status, once the process is to end.
    #[inline]
    pub(crate) fn status(&self) -> Option<i32> {
        self.status.get().copied()
    }
}
