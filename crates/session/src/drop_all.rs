//! A statement that drops all prepared statements (`DISCARD ALL`, `DEALLOCATE ALL`) in a client's pipeline.
//!
//! Owns what follows from it before it is answered ([`Dropping`]).

use weir_pgwire::HEAD;

use crate::dropping::Dropping;
use crate::link::Link;

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

    /// An Execute is sent, which may be that of the statement.
    #[inline]
    pub(crate) fn execute_drop(&mut self, message: &[u8]) {
        let segment = self.server.pending.segment();
        if let Some(dropping) = &mut self.server.dropping_all
            && dropping.is_in(segment)
            && dropping.portal.as_deref() == message[HEAD..].split(|byte| *byte == 0).next()
        {
            dropping.before = self.client.next_change();
            self.server.statements.invalidate_all();
        }
    }
}
