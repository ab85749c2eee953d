//! What the worker that issued a client's cancel key, its home, learns from the worker where the client is.
//!
//! Owns no state.

use weir_base::WorkerId;

use crate::cancel::pids::worker_of;
use crate::client::slot::ClientSlot;
use crate::core::Core;
use crate::port::Io;
use crate::workers::messages::{Message, Payload};

/// The worker whose cancel keys a client has, if that is another one.
fn other_home(core: &Core, client: &ClientSlot) -> Option<WorkerId> {
    let home = worker_of(client.cancel.pid, core.common.workers());
    (client.cancel.pid > 0 && home != core.common.worker()).then_some(home)
}

/// A client is gone from this worker, and goes to no other one: its home forgets it.
#[inline]
pub(crate) fn forget<I: Io>(core: &Core, client: &ClientSlot, io: &mut I) {
    if core.common.workers() > 1
        && let Some(home) = other_home(core, client)
    {
        io.post(home, Message(Payload::AwayGone((client.cancel.pid, client.id))), None);
    }
}

/// A client that another process did not take has come back to this worker: its home learns so.
pub(crate) fn report<I: Io>(core: &Core, client: &ClientSlot, io: &mut I) {
    if let Some(home) = other_home(core, client) {
        let (secret, issued) = client.cancel.parts();
        io.post(home, Message(Payload::AwayCame((client.cancel.pid, client.id), secret, issued)), None);
    }
}
