//! A connection of ours that carries a cancel request.

use weir_base::{Peer, Time};

use crate::handles::PoolIx;

/// A connection of ours that carries a cancel request.
pub(crate) struct CancelSlot {
    pub(crate) peer: Peer,
    pub(crate) server: Peer,
    /// Whose query is to be cancelled.
    pub(crate) client: Peer,
    pub(crate) pool: PoolIx,
    /// The clients that asked, to be closed when it is done.
    pub(crate) requesters: Vec<Peer>,
    pub(crate) stage: CancelStage,
    pub(crate) armed: Time,
    pub(crate) deadline: Time,
}

/// How far a connection for a cancel request is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CancelStage {
    Connecting,
    /// Asked whether it can encrypt, as the connection of its server is; one byte is awaited.
    Asking,
    /// In the handshake.
    Shaking,
    /// The request is out: it may hit its server until the connection ends.
    Sent,
}
