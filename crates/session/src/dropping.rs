//! What is known of a statement that drops all prepared statements (`DISCARD ALL`, `DEALLOCATE ALL`) while it is under way.
//!
//! Plain data; [`crate::drop_all`] has what follows from it. A later segment waits for it, as it may fail. What follows it
//! in its own segment is only executed if it was: names from before it are unknown there, and what the server had is
//! prepared again.

use crate::names::ChangeNumber;

/// See the head of the file.
#[derive(Debug)]
pub(crate) struct Dropping {
    pub(crate) segment: u32,
    /// The portal to which it is bound; `None` for a simple query, or where the portal has been used again.
    pub(crate) portal: Option<Box<[u8]>>,
    /// It is executed: names that were given by earlier changes are gone.
    pub(crate) before: ChangeNumber,
}

impl Dropping {
    /// Whether it is a part of this segment. Requests of another one wait until it is answered.
    pub(crate) fn is_in(&self, segment: u32) -> bool {
        self.segment == segment
    }
}
