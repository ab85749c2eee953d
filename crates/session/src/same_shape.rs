//! Whether a statement on a server has the shape that a client was given of it.
//!
//! Owns when a server is asked for a description of Weir's own. A server that has a statement from before a change of
//! its tables says so itself (0A000), and one where it is prepared after the change does not: there the shape is
//! compared, before the client's request is sent.

use std::hash::Hasher;
use std::sync::Arc;

use siphasher::sip::SipHasher13;
use weir_pgwire::{Of, put_front};

use crate::client::Unnamed;
use crate::descriptions::Described;
use crate::expected::Expected;
use crate::link::{Link, Rewrite};
use crate::names::Given;
use crate::prepared::{Known, OnServer};
use crate::shape::{Compared, GivenShape, Shape};
use crate::statements::Statement;
use crate::stop::{ReplyWait, StopReason};
use crate::undo_log::Subject;

/// How a statement on a server fits what its client holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fit {
    /// The statement has the shape that the client was given, or is as new as what the client holds.
    Same,
    /// The statement fits as far as is known: the server may say that it has changed, or is gone, to a client that
    /// can't know.
    Unsure,
    /// The statement has another shape.
    Other,
}

/// What follows from a comparison.
enum Next {
    /// The request is sent, or refused.
    Go(bool),
    /// The server is asked; where this says so, once the statement has been prepared again.
    Ask { again: bool },
}

/// Compares what a client was given with what its server has, of this preparation; `anew`: it was prepared for this
/// request; `asked`: the server was asked for this request.
fn next(given: GivenShape, (of, shape): (u64, Shape), anew: bool, asked: bool) -> Next {
    match given.shape.compared_with(shape) {
        Compared::Same => Next::Go(true),
        // The client may know a later definition than a server that has not used the statement since; and a definition
        // may have become again what it was.
        Compared::Other if asked && given.of < of => Next::Go(false),
        Compared::Other | Compared::Unknown => Next::Ask { again: !anew },
    }
}

impl Link<'_, '_> {
    /// What follows from a comparison; waits for a description that the server was asked for before.
    fn next(&mut self, given: GivenShape, has: (u64, Shape), anew: bool) -> Result<Next, StopReason> {
        if self.server.descriptions.asks_itself() {
            return Err(ReplyWait::Description.into());
        }
        let asked = self.server.descriptions.was_asked(has.0);
        Ok(next(given, has, anew, asked))
    }

    /// Makes sure that the server has what the client calls `name` and is about to use. Returns whether the statement
    /// still has the shape that the client was given.
    #[inline]
    pub(crate) fn ensure_same(&mut self, name: &[u8], given: &mut Given) -> Result<Fit, StopReason> {
        let found = self.ensure(name, given)?;
        let fit = self.has_given_shape(given.shape, &given.statement, found)?;
        if fit == Fit::Other && self.with_given_types(name, given)? {
            return self.ensure_same(name, given);
        }
        Ok(fit)
    }

    /// The client knows other types of parameters than the text has on the server now: from here on its statement is
    /// the text with those types. Returns whether that is another statement.
    #[cold]
    fn with_given_types(&mut self, name: &[u8], given: &mut Given) -> Result<bool, StopReason> {
        let other = given.shape.shape.other_parameters(self.server.statements.newest().shape);
        let Some(types) = other.and_then(|hash| self.ctx.interner.parameter_types.of(hash)) else { return Ok(false) };
        let text = given.statement.text();
        let rest = [text, &[0], types].concat();
        if rest == given.statement.rest() {
            return Ok(false);
        }
        given.statement = self.intern(&rest)?;
        self.client.statements_mut().replace(name, given.statement.clone());
        Ok(true)
    }

    /// Makes sure that the server's unnamed slot holds the client's unnamed statement, or nothing. Returns whether it
    /// has the shape that the client was given.
    pub(crate) fn ensure_unnamed(&mut self) -> Result<bool, StopReason> {
        self.must_be_settled(Subject::Unnamed)?;
        // What we have put there in an earlier segment may have been skipped with the rest of that.
        let segment = self.server.pending.segment();
        let may_be_skipped = self.server.unnamed_at != segment && self.server.pending.is_ahead();
        if self.server.unnamed == Some(self.client.unnamed_id()) && !may_be_skipped {
            return self.unnamed_has_given_shape(false);
        }
        self.put_unnamed();
        self.unnamed_has_given_shape(true)
    }

    /// Whether the statement that was just made ready on the server, as `found` says, has the shape that the client was
    /// given.
    #[inline]
    fn has_given_shape(
        &mut self,
        given: GivenShape,
        statement: &Arc<Statement>,
        found: OnServer,
    ) -> Result<Fit, StopReason> {
        let has = self.server.statements.newest();
        if has.is_certain_for(given) && found != OnServer::Unsure {
            return Ok(Fit::Same);
        }
        self.compare(given, has, statement, found)
    }

    fn compare(
        &mut self,
        given: GivenShape,
        has: Known,
        statement: &Arc<Statement>,
        found: OnServer,
    ) -> Result<Fit, StopReason> {
        let anew = found == OnServer::Absent;
        let again = match self.next(given, (has.of, has.shape), anew)? {
            Next::Go(true) if !anew && (given.shape.is_unknown() || found == OnServer::Unsure) => {
                return Ok(Fit::Unsure);
            }
            Next::Go(same) => return Ok(if same { Fit::Same } else { Fit::Other }),
            Next::Ask { again } => again,
        };
        if again {
            self.server.statements.mark_doubtful(statement.key());
            self.prepare(statement, None);
        }
        let of = self.server.statements.newest().of;
        self.ask_shape(Described::Named { key: statement.key(), of, by: 0 }, statement.name());
        Err(ReplyWait::Description.into())
    }

    /// Whether the client's unnamed statement, which is in the server's unnamed slot, has the shape that the client was
    /// given; `anew`: it was put there for this request.
    fn unnamed_has_given_shape(&mut self, anew: bool) -> Result<bool, StopReason> {
        let Unnamed::Held(held) = &self.client.unnamed else { return Ok(true) };
        let (given, has) = (held.shape(), self.server.slot);
        if given.shape.is_unknown() || given.of == has.0 {
            return Ok(true);
        }
        let again = match self.next(given, has, anew)? {
            Next::Go(same) if same || !self.unnamed_with_given_types(has.1) => return Ok(same),
            Next::Go(_) => true,
            Next::Ask { again } => again,
        };
        if again {
            self.put_unnamed();
        }
        let about = self.unnamed_described();
        self.ask_shape(about, b"");
        Err(ReplyWait::Description.into())
    }

    /// As [`Link::with_given_types`], for the client's unnamed statement, which has this shape on the server.
    #[cold]
    fn unnamed_with_given_types(&mut self, has: Shape) -> bool {
        let Unnamed::Held(held) = &mut self.client.unnamed else { return false };
        let types = held.shape().shape.other_parameters(has);
        let types = types.and_then(|hash| self.ctx.interner.parameter_types.of(hash));
        types.is_some_and(|types| held.set_types(types))
    }

    /// Asks the server to describe a statement to us, at once.
    fn ask_shape(&mut self, about: Described, name: &[u8]) {
        self.server.descriptions.ask_for_request(about);
        self.server.pending.request(Expected::OwnDescribe);
        put_front::describe(self.ctx.scratch, Of::Statement, name);
        self.server.pending.flush();
        put_front::flush(self.ctx.scratch);
    }

    /// The client's Describe of a statement is being sent. It is read if the client does not know everything yet, or if
    /// it may have to be sent again.
    pub(crate) fn expect_description(&mut self, given: &Given, unsure: bool) {
        if given.shape.shape.is_whole() && !unsure {
            self.server.pending.request(Expected::DescribeStatement);
            return;
        }
        self.server.descriptions.ask(self.described(given), false);
        self.server.pending.request(Expected::DescribeKnown);
    }

    /// Forwards the client's Describe of its unnamed statement. The answer is read if the client does not know
    /// everything yet.
    pub(crate) fn describe_unnamed(&mut self) -> Rewrite {
        let Unnamed::Held(held) = &self.client.unnamed else { return self.forward(Expected::DescribeStatement) };
        if held.shape().shape.is_whole() {
            return self.forward(Expected::DescribeStatement);
        }
        let about = self.unnamed_described();
        self.server.descriptions.ask(about, false);
        self.forward(Expected::DescribeKnown)
    }

    /// Forwards the client's Describe of a portal. The answer is read if the client does not know the rows of the
    /// portal's statement.
    pub(crate) fn describe_portal(&mut self, name: &[u8]) -> Rewrite {
        let about = self.server.descriptions.portal(self.portal_hash(name));
        if about == Described::Unknown {
            return self.forward(Expected::DescribeRows);
        }
        self.server.descriptions.ask(about, false);
        self.forward(Expected::DescribeKnownRows)
    }

    /// A portal is bound to a statement of the client's that was just touched. Its description is read where the client
    /// does not know the statement's rows.
    #[inline]
    pub(crate) fn note_bound(&mut self, portal: &[u8], given: &Given) {
        let about = if given.shape.shape.has_rows() { Described::Unknown } else { self.described(given) };
        let portal = self.portal_hash(portal);
        self.server.descriptions.bind(portal, about, Some(given.statement.key()));
    }

    /// A portal is bound to something else.
    #[inline]
    pub(crate) fn note_bound_unknown(&mut self, portal: &[u8]) {
        let portal = self.portal_hash(portal);
        self.server.descriptions.bind(portal, Described::Unknown, None);
    }

    fn described(&self, given: &Given) -> Described {
        Described::Named { key: given.statement.key(), of: self.server.statements.newest().of, by: given.by }
    }

    /// What is in the unnamed slot. It gets the number of its preparation when it is first described: most are not.
    fn unnamed_described(&mut self) -> Described {
        if self.server.slot.0 == 0 {
            self.server.slot.0 = self.ctx.statements.next_preparation();
        }
        Described::Unnamed { id: self.client.unnamed_id(), of: self.server.slot.0 }
    }

    #[inline]
    fn portal_hash(&self, name: &[u8]) -> u64 {
        if name.is_empty() {
            return 0;
        }
        let mut hasher = SipHasher13::new_with_key(self.ctx.interner.hash_key());
        hasher.write(name);
        hasher.finish()
    }
}
