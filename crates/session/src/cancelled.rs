//! A request that its client has cancelled while it was in Weir, and no server had any of it.

use weir_pgwire::{ErrorFields, put_back};

/// The SQLSTATE of a cancelled request: query_canceled.
pub(crate) const CANCELLED_CODE: &[u8; 5] = b"57014";

/// PostgreSQL's message for a cancelled request.
const CANCELLED: ErrorFields<'static> = ErrorFields {
    severity: "ERROR",
    sqlstate: "57014",
    message: "canceling statement due to user request",
    detail: Some("The server had not received it yet."),
    hint: None,
};

/// Writes the error for a cancelled request.
pub(crate) fn write_cancelled(buffer: &mut Vec<u8>) {
    put_back::error(buffer, &CANCELLED);
}

/// What a cancel request has ended of what a client has in Weir.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Cancelled {
    #[default]
    Nothing,
    /// The client's next request is to fail.
    Next,
    /// A request has failed: the rest of its segment is skipped, up to the Sync, as PostgreSQL does it (documentation,
    /// "Message Flow").
    Segment,
}

/// Where a cancelled request fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FailsAt {
    /// Nothing of its transaction is at a server: here.
    Weir,
    /// Its transaction is open: it fails at the server, and the transaction with it.
    Server,
    /// The server skips it, or has a failed transaction: the cancel request is too late.
    Nowhere,
}
