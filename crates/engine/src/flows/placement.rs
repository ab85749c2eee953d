//! The worker of a new client, and the reports of workers' loads.

use weir_base::WorkerId;

use crate::cluster::messages::{Message, Payload};
use crate::engine::Engine;
use crate::port::Io;

impl Engine {
    /// The worker for a client of a pool whose owner is `owner`. Called once a login, on worker 0.
    pub(crate) fn place(&mut self, owner: WorkerId) -> WorkerId {
        if self.common.workers() == 1 {
            return owner;
        }
        self.cluster.loads.place(owner, self.common.workers(), self.common.config().spread)
    }

    /// The port reports this worker's load, in per cent of its time: worker 0 keeps it.
    pub(crate) fn loaded<I: Io>(&mut self, percent: u8, io: &mut I) {
        if self.common.worker() == WorkerId(0) {
            self.load_reported(self.common.worker(), percent);
        } else {
            io.post(WorkerId(0), Message(Payload::Load(percent)), None);
        }
    }

    /// A worker's load, in per cent, has reached worker 0.
    pub(crate) fn load_reported(&mut self, worker: WorkerId, percent: u8) {
        self.cluster.loads.note(worker, percent.min(100));
    }
}
