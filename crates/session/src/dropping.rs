//! A statement that drops all prepared statements (`DISCARD ALL`, `DEALLOCATE ALL`), while it is under way.
//!
//! Owns what follows from it before it is answered. A later segment waits for it, as it may fail. What follows it in its
//! own segment is only executed if it was: names from before it are unknown there, and what the server had is prepared
//! again.

use crate::link::Link;
use crate::names::{ChangeNumber, Given};

/// See the head of the file.
#[derive(Debug)]
pub(crate) struct Dropping {
    segment: u32,
    /// The portal to which it is bound; `None` for a simple query, or where the portal has been used again.
    portal: Option<Box<[u8]>>,
    /// It is executed: names that were given by earlier changes are gone.
    before: ChangeNumber,
}

impl Dropping {
    /// Whether it is a part of this segment. Requests of another one wait until it is answered.
    pub(crate) fn is_in(&self, segment: u32) -> bool {
        self.segment == segment
    }
}

impl Link<'_, '_> {
    /// A statement that drops all others is sent; `portal`: it is only bound to this one.
    pub(crate) fn drop_all(&mut self, portal: Option<&[u8]>) {
        let segment = self.server.pending.segment();
        let before = self.names_gone_before();
        self.server.dropping_all = Some(Box::new(Dropping { segment, portal: portal.map(Into::into), before }));
    }

    /// A portal is bound: to another statement than before.
    #[inline]
    pub(crate) fn bind_again(&mut self, portal: &[u8]) {
        if let Some(dropping) = &mut self.server.dropping_all {
            dropping.portal.take_if(|bound| **bound == *portal);
        }
    }

    /// A portal is executed.
    #[inline]
    pub(crate) fn execute_drop(&mut self, portal: &[u8]) {
        let segment = self.server.pending.segment();
        if let Some(dropping) = &mut self.server.dropping_all
            && dropping.is_in(segment)
            && dropping.portal.as_deref() == Some(portal)
        {
            dropping.before = self.client.next_change();
            self.server.statements.invalidate_all();
        }
    }

    /// The statement that the client calls `name`, at this place in its pipeline.
    #[inline]
    pub(crate) fn given(&self, name: &[u8]) -> Option<&Given> {
        let given = self.client.given(name)?;
        (given.by >= self.names_gone_before()).then_some(given)
    }

    #[inline]
    fn names_gone_before(&self) -> ChangeNumber {
        let here = |dropping: &&Dropping| dropping.is_in(self.server.pending.segment());
        self.server.dropping_all.as_deref().filter(here).map_or(0, |dropping| dropping.before)
    }
}
