//! What a node knows of its store: another one has another identity, and nothing of what nodes have.

use weir_base::Time;

use crate::record::Store;
use crate::request::Revision;

/// See the head of the file.
#[derive(Default)]
pub(crate) struct Known {
    pub(crate) store: Option<Store>,
    /// Since when the store is known.
    pub(crate) since: Time,
    /// The store is to be written over the key's revision.
    pub(crate) make: Option<(Revision, Store)>,
    /// The last heartbeat that was certainly written.
    pub(crate) beat: u64,
}
