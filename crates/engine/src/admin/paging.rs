//! What workers ask each other about connections that are listed, page by page.

use weir_admin::{Connections, SocketRecord};
use weir_base::Peer;

/// A question for a page, or its answer.
#[derive(Debug)]
pub(crate) enum Paging {
    /// A console's table wants some connections, from a slot on.
    Wanted { console: Peer, id: u64, of: Connections, slot: u32 },
    /// Here they are, and where to go on; `None`: there are no more.
    Page { console: Peer, id: u64, records: Vec<SocketRecord>, next: Option<u32> },
    /// A console wants the next rows of a table that is made already.
    Rows { console: Peer, id: u64 },
    /// As [`Paging::Wanted`], for the control plane.
    WantedByControl { number: u64, of: Connections, slot: u32 },
    /// Its answer.
    PageForControl { number: u64, records: Vec<SocketRecord>, next: Option<u32> },
}
