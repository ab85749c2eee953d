//! Messages between workers for lists of connections, page by page.

use weir_admin::{Connections, SocketRecord};
use weir_base::ConnId;

/// A request for a page, or the reply.
#[derive(Debug)]
pub(crate) enum Paging {
    /// A console's table requests connections, from a slot on.
    Wanted { console: ConnId, id: u64, of: Connections, slot: u32 },
    /// The reply, and where to go on; `None`: there are no more.
    Page { console: ConnId, id: u64, records: Vec<SocketRecord>, next: Option<u32> },
    /// A console requests the next rows of a finished table.
    Rows { console: ConnId, id: u64 },
    /// A console's next command: each has a turn of its own.
    Next { console: ConnId },
    /// As [`Paging::Wanted`], for the control plane.
    WantedByControl { number: u64, of: Connections, slot: u32 },
    /// The reply.
    PageForControl { number: u64, records: Vec<SocketRecord>, next: Option<u32> },
}
