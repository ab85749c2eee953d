//! What workers release for a process that takes over, and their answers, on the way to the thread that sends it.

use std::sync::mpsc::{Receiver, Sender, channel};

use weir_base::WorkerId;

use super::listeners::Offered;
use crate::mailbox::Handoff;

/// Messages of workers to the thread.
pub(crate) enum Given {
    /// A client or a server that leaves this process; or something of a pool, without a socket.
    Value { from: WorkerId, route: u64, value: Vec<u8>, socket: Option<Handoff> },
    /// The answer to [`HandOver::Ask`].
    Begins(Result<u64, &'static str>),
    /// The answer to [`HandOver::Give`].
    Left(usize),
    /// Worker 0's listening sockets.
    Listeners(Offered),
}

/// The workers' sender to the thread; cheap to clone. Without a thread released peers are lost, and no worker is asked.
#[derive(Clone)]
pub(crate) struct Giver(Sender<Given>);

impl Giver {
    pub(crate) fn new() -> (Giver, Receiver<Given>) {
        let (sender, receiver) = channel();
        (Giver(sender), receiver)
    }

    pub(crate) fn send(&self, given: Given) {
        // The thread lives as long as a worker may be asked.
        let _ = self.0.send(given);
    }
}
