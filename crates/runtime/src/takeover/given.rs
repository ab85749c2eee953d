//! What workers let go of for a process that takes over, and their answers, on the way to the thread that gives it.

use std::sync::mpsc::{Receiver, Sender, channel};

use weir_base::WorkerId;

use super::listeners::Offered;
use crate::mailbox::Handoff;

/// What workers say to the thread.
pub(crate) enum Given {
    /// This leaves.
    Value { from: WorkerId, route: u64, value: Vec<u8>, socket: Option<Handoff> },
    /// [`HandOver::Ask`] is answered.
    Begins(Result<u64, &'static str>),
    /// [`HandOver::Give`] is answered.
    Left(usize),
    /// Worker 0's listening sockets.
    Listeners(Offered),
}

/// How workers reach the thread; cheap to clone. Without a thread what is given is lost, and nobody is asked to give.
#[derive(Clone)]
pub(crate) struct Giver(Sender<Given>);

impl Giver {
    pub(crate) fn new() -> (Giver, Receiver<Given>) {
        let (sender, receiver) = channel();
        (Giver(sender), receiver)
    }

    pub(crate) fn send(&self, given: Given) {
        // The thread lives as long as anybody may be asked.
        let _ = self.0.send(given);
    }
}
