//! The end of a request to cancel for the client that sent it.

use weir_base::ConnId;

use crate::client::slot::ClientSlot;
use crate::core::Core;
use crate::link::leave;
use crate::port::Io;

/// The connection of a cancel request's sender closes when the request is done.
pub(crate) fn finish_canceller<I: Io>(core: &mut Core, requester: impl Into<Option<ConnId>>, io: &mut I) {
    let now = core.common.now();
    if let Some(client) = requester.into().and_then(|requester| core.conns.take::<ClientSlot>(requester)) {
        leave::client_leaves(core, now, client, io);
    }
}
