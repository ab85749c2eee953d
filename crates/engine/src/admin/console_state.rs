//! An operator's session at the console, and the table that is on its way to it.

use weir_admin::{Role, Row, Show};

/// An operator's session.
pub(crate) struct Console {
    pub(super) role: Role,
    /// The name it connected to.
    pub(crate) database: String,
    /// After an error in the extended protocol, until Sync.
    pub(super) skipping: bool,
    /// What it waits for.
    pub(super) pending: Option<u64>,
    /// The table that is on its way to it.
    pub(crate) stream: Option<Box<Streaming>>,
}

impl Console {
    pub(crate) fn new(role: Role, database: String) -> Self {
        Console { role, database, skipping: false, pending: None, stream: None }
    }
}

/// A table on its way.
pub(crate) struct Streaming {
    /// Answers to an earlier table of the same console do not fit.
    pub(super) id: u64,
    pub(super) show: Show,
    pub(super) rest: Rest,
    /// The next piece is under way.
    pub(super) asked: bool,
}

/// What is still to be sent.
pub(super) enum Rest {
    /// Rows that are made already.
    Rows(std::vec::IntoIter<Row>),
    /// Connections, from a place on.
    Connections(Place),
}

/// Where the next page of connections begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// How many of the table's lists are done.
    pub(super) list: usize,
    pub(super) worker: u16,
    pub(super) slot: u32,
}
