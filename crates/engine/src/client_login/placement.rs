//! The worker of a new client, and the reports of workers' loads.

use weir_base::WorkerId;

use crate::client_login::ClientLogin;
use crate::core::Core;
use crate::port::Io;
use crate::workers::messages::{Message, Payload};

impl ClientLogin {
    /// The worker for a client of a pool whose owner is `owner`. Called once a login, on worker 0.
    pub(crate) fn place(&mut self, core: &mut Core, owner: WorkerId) -> WorkerId {
        if core.common.workers() == 1 {
            return owner;
        }
        self.loads.place(owner, core.common.workers(), core.common.config().spread)
    }

    /// The port reports this worker's load, in per cent of its time: worker 0 keeps it.
    pub(crate) fn loaded<I: Io>(&mut self, core: &mut Core, percent: u8, io: &mut I) {
        if core.common.worker() == WorkerId(0) {
            self.load_reported(core.common.worker(), percent);
        } else {
            io.post(WorkerId(0), Message(Payload::Load(percent)), None);
        }
    }

    /// A worker's load, in per cent, has reached worker 0.
    pub(crate) fn load_reported(&mut self, worker: WorkerId, percent: u8) {
        self.loads.note(worker, percent.min(100));
    }
}
