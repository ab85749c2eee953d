//! A client and the server that it is linked to, while one message of the client is processed.
//!
//! Owns the effect of every message: which reply it expects, what it changes for its client, and which earlier replies
//! it must wait for. Messages composed for the server are appended to [`Context::scratch`]; nothing is sent from here.
//! A [`Rewrite`] describes what is done with the message itself.

use std::sync::Arc;

use weir_pgwire::{Effects, HEAD, Of, TxStatus, put_front};

use crate::client::{Client, Unnamed};
use crate::context::Context;
use crate::dropping::Dropping;
use crate::expected::Expected;
use crate::names::{ChangeNumber, Given, Name};
use crate::server::Server;
use crate::shape::GivenShape;
use crate::state_messages::refused_text;
use crate::statements::{Key, Statement};
use crate::stop::{ReplyWait, StopReason};
use crate::undo_log::{Change, RefusedFor, Subject};

/// The most bytes of Parse messages that are written to a server at once; one more may go beyond it. A Bind of a few
/// bytes may ask for a Parse of a megabyte.
pub(crate) const MAX_COMPOSED: usize = 1 << 20;

/// What the server receives for a message of the client: what was composed, and then this part of the message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rewrite {
    /// All of the message.
    Unchanged,
    /// What follows this many bytes of the message.
    After(usize),
    /// Nothing of the message.
    Replaced,
}

/// See the head of the file.
pub(crate) struct Link<'s, 'c> {
    pub(crate) client: &'s mut Client,
    pub(crate) server: &'s mut Server,
    pub(crate) ctx: &'s mut Context<'c>,
    /// Bytes of Parse messages that were composed in this feeding: they may be many more than the client's own.
    pub(crate) composed: &'s mut usize,
}

impl Link<'_, '_> {
    /// The statement that the client calls `name`, at this place in its pipeline.
    #[inline]
    pub(crate) fn given(&self, name: &[u8]) -> Option<&Given> {
        let given = self.client.given(name)?;
        (given.by >= self.names_gone_before()).then_some(given)
    }

    /// Names that were given by changes before this one are gone, at this place in the client's pipeline.
    #[inline]
    pub(crate) fn names_gone_before(&self) -> ChangeNumber {
        let here = |dropping: &&Dropping| dropping.is_in(self.server.pending.segment());
        self.server.dropping_all.as_deref().filter(here).map_or(0, |dropping| dropping.before)
    }

    /// The message is forwarded unchanged, and leaves nothing on the server.
    #[inline]
    pub(crate) fn forward(&mut self, what: Expected) -> Rewrite {
        self.forward_with(what, Effects::NONE)
    }

    /// The message is forwarded unchanged.
    #[inline]
    pub(crate) fn forward_with(&mut self, what: Expected, effects: Effects) -> Rewrite {
        self.server.pending.request_with(what, effects);
        Rewrite::Unchanged
    }

    /// Expects a reply to a request with an entry in the undo log.
    pub(crate) fn expect_logged(&mut self, what: Expected, prepares: Option<Key>, change: Change) {
        let number = self.client.count_change();
        let segment = self.server.pending.segment();
        self.server.undo_log.push(number, segment, prepares, change, self.ctx.statements.account());
        self.server.pending.request(what);
    }

    /// Expects a reply to a request after which the client's `name` means `now`, which it prepares after so many
    /// preparations.
    pub(crate) fn rename(
        &mut self,
        what: Expected,
        prepares: Option<Key>,
        name: &[u8],
        now: Option<(Arc<Statement>, u64)>,
    ) {
        let name = Name::new(name);
        let by = self.client.next_change();
        let statements = self.client.statements_mut();
        let before = statements.remove(name.whole());
        if let Some((statement, since)) = now {
            statements.insert(name.clone(), Given { statement, by, shape: GivenShape::none(since) });
        }
        self.expect_logged(what, prepares, Change::Name { name, before });
    }

    /// Expects a reply to a request after which the client's unnamed statement is `now`.
    pub(crate) fn change_unnamed(&mut self, what: Expected, now: Unnamed) {
        let before = self.client.replace_unnamed(now);
        self.expect_logged(what, None, Change::Unnamed { before });
    }

    /// A change that a request builds upon must not be undone later: if it was made in an earlier segment that the
    /// server may still skip, the request waits.
    pub(crate) fn must_be_settled(&self, subject: Subject<'_>) -> Result<(), StopReason> {
        let segment = self.server.pending.segment();
        // Without a ReadyForQuery pending it is still the same segment: its Sync was swallowed by a COPY.
        let dropping = self.server.dropping_all.as_ref().is_some_and(|dropping| !dropping.is_in(segment));
        if dropping && self.server.pending.is_ahead() || self.server.undo_log.is_open(subject, segment) {
            return Err(ReplyWait::EarlierSegment.into());
        }
        Ok(())
    }

    /// Whether the server has a statement must not depend on a request of an earlier segment that may still be skipped.
    pub(crate) fn must_be_known_on_server(&self, key: Key) -> Result<(), StopReason> {
        let segment = self.server.pending.segment();
        if self.server.closes.is_closing(key, segment) || self.server.undo_log.is_preparing(key, segment) {
            return Err(ReplyWait::EarlierSegment.into());
        }
        Ok(())
    }

    /// A local reply that depends on the transaction status must wait until the status is known.
    pub(crate) fn must_know_status(&self) -> Result<(), StopReason> {
        if self.server.pending.is_ahead() { Err(ReplyWait::TransactionStatus.into()) } else { Ok(()) }
    }

    /// Whether the server's transaction has failed. A request that is under way may have ended a failed one.
    pub(crate) fn has_failed(&self) -> Result<bool, StopReason> {
        let failed = self.server.status == TxStatus::Failed;
        if failed {
            self.must_know_status()?;
        }
        Ok(failed)
    }

    /// Fails a request with our own message: the server receives a message that it can only refuse, so that its
    /// transaction fails and it skips to the next Sync, as after any error.
    pub(crate) fn fail(&mut self, what: RefusedFor) -> Rewrite {
        self.expect_logged(Expected::Refused, None, Change::Refused(what));
        let unused = self.ctx.interner.unused_name();
        put_front::describe(self.ctx.scratch, Of::Statement, &unused);
        Rewrite::Replaced
    }

    /// Whether the pool refuses a text.
    #[inline]
    pub(crate) fn refuses(&self, effects: Effects) -> bool {
        !effects.leaves.is_empty() && self.ctx.rules.state.refused().has_any(effects.leaves)
    }

    /// Replaces the client's query with one that fails.
    pub(crate) fn refuse_query(&mut self, effects: Effects) -> Rewrite {
        self.server.pending.request_with(Expected::QueryRefused, effects);
        put_front::query(self.ctx.scratch, refused_text(self.ctx.rules.state).as_bytes());
        Rewrite::Replaced
    }

    /// Replaces the client's Parse with one that fails. `change` is what the client's Parse would have changed.
    pub(crate) fn refuse_parse(&mut self, effects: Effects, change: Change) -> Rewrite {
        self.server.unnamed = None;
        self.expect_logged(Expected::ParseRefused, None, change);
        self.server.pending.set_newest(effects);
        put_front::parse(self.ctx.scratch, b"", &[refused_text(self.ctx.rules.state).as_bytes(), &[0, 0, 0]].concat());
        Rewrite::Replaced
    }

    /// An Execute: it may leave what the text of its portal may leave.
    #[inline]
    pub(crate) fn execute(&mut self, message: &[u8]) -> Rewrite {
        let effects = self.server.state.portal(message.get(HEAD) == Some(&0));
        self.server.executes();
        self.forward_with(Expected::Execute, effects)
    }

    /// A FunctionCall: any function may be called by its OID.
    pub(crate) fn function_call(&mut self, message: &[u8]) -> Rewrite {
        let effects = if calls_any_function(message) { Effects::UNKNOWN } else { Effects::NONE };
        self.forward_with(Expected::FunctionCall, effects)
    }
}

/// Whether a FunctionCall may be of any function.
pub(crate) fn calls_any_function(message: &[u8]) -> bool {
    let function = message.get(HEAD..HEAD + 4).and_then(|id| id.try_into().ok()).map(u32::from_be_bytes);
    function.is_none_or(|id| !LARGE_OBJECT_FUNCTIONS.contains(&id))
}

/// Built-in functions for large objects, which leave nothing (`pg_proc.dat`). FunctionCall is used for little else.
const LARGE_OBJECT_FUNCTIONS: [u32; 13] = [715, 764, 952, 953, 954, 955, 956, 957, 958, 964, 1004, 3170, 3171];
