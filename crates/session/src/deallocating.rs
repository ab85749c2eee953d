//! The names that a query under way deallocates.
//!
//! The server receives a statement that does nothing in place of such a DEALLOCATE ([`crate::sql_names`]). Its command tag shows
//! that it has run, so that the name is dropped then, and is not if the query fails before.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::budget::{Account, Charge};
use crate::names::Name;

/// What a DEALLOCATE becomes: UNLISTEN succeeds and fails where DEALLOCATE does, and nobody listens to this channel. Not longer
/// than the shortest DEALLOCATE.
pub(crate) const NOTHING: &[u8] = b"UNLISTEN \"\x01\"";

/// The tag of [`NOTHING`].
pub(crate) const NOTHING_TAG: &[u8] = b"UNLISTEN";

/// What a name takes beside its bytes.
const ENTRY: usize = 64;

/// One name for each command of a query that is answered like [`NOTHING`].
#[derive(Debug, Default)]
pub(crate) struct Deallocating {
    /// In order; none for an UNLISTEN of the client's own.
    names: VecDeque<Option<Name>>,
    _charge: Option<Charge>,
}

impl Deallocating {
    /// These names, which are charged to `account`. They are parts of a short text.
    pub(crate) fn new(names: VecDeque<Option<Name>>, account: &Arc<Account>) -> Deallocating {
        let bytes: usize = names.iter().map(|name| ENTRY + name.as_ref().map_or(0, |name| name.whole().len())).sum();
        Deallocating { names, _charge: Some(Charge::anyway(account, bytes as u64)) }
    }

    /// A command of the query was answered with [`NOTHING_TAG`]: the name that is dropped by it.
    pub(crate) fn next(&mut self) -> Option<Name> {
        self.names.pop_front().flatten()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}
