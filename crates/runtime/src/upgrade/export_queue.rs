//! What workers release for a process that takes over, and their answers, on the way to the thread that sends it.

use std::sync::mpsc::{Receiver, Sender, channel};

use weir_base::WorkerId;
use weir_engine::port::OfferedState;

use super::listeners::Offered;
use crate::mailbox::Handoff;

/// Messages of workers to the thread.
pub(crate) enum ExportMessage {
    /// A client or a server that leaves this process; or something of a pool, without a socket.
    Value { from: WorkerId, route: u64, value: Vec<u8>, socket: Option<Handoff> },
    /// The answer to [`UpgradeStep::Prepare`].
    Begins(Result<OfferedState, &'static str>),
    /// The answer to [`UpgradeStep::Export`].
    Left(usize),
    /// Worker 0's listening sockets.
    Listeners(Offered),
}

/// The workers' sender to the thread; cheap to clone. Without a thread released connections are lost, and no worker is
/// asked.
#[derive(Clone)]
pub(crate) struct ExportSender(Sender<ExportMessage>);

impl ExportSender {
    pub(crate) fn new() -> (ExportSender, Receiver<ExportMessage>) {
        let (sender, receiver) = channel();
        (ExportSender(sender), receiver)
    }

    pub(crate) fn send(&self, exported: ExportMessage) {
        // The thread lives as long as a worker may be asked.
        let _ = self.0.send(exported);
    }
}
