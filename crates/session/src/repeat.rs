//! A request that is sent again where its server refuses the statement for what no client of the pool has done.
//!
//! A definition changes past the pool, or a function drops a statement of ours: the server says so with the next Bind
//! or Describe, to a client that could not know it. Where that is the first request of a transaction, or the first
//! after its BEGIN, nothing has happened yet. So it is kept, with what follows it, until the server accepts it; where
//! the server does not, the segment ends unseen, a block begins again, and the messages are read again. A BEGIN with
//! options is not repeated: its text is not kept, and ROLLBACK AND CHAIN forgets the options of a transaction that has
//! failed.
//!
//! Owns what is kept, and until when. Kept is only what may be refused so ([`Fit::Unsure`]): a Bind or Describe of a
//! statement whose preparation on this server is older than its client's Parse. Once one such request was accepted, no
//! client that had prepared the statement before it has another there.

use std::sync::Arc;

use weir_pgwire::tag::{back, front};
use weir_pgwire::{Head, TxStatus, put_front};

use crate::budget::Account;
use crate::client::Client;
use crate::context::Context;
use crate::expected::Expected;
use crate::kept_request::{Begun, MAX_KEPT, Repeat, Repeatable, Stage, UNCHARGED};
use crate::link::Link;
use crate::names::Given;
use crate::out::{Out, View};
use crate::same_shape::Fit;
use crate::server::Server;
use crate::server_error::Statements;
use crate::skip::skip_to_sync;
use crate::stop::{ReplyWait, StopReason};

impl Link<'_, '_> {
    /// Keeps the request that was just decided, the first of a transaction, which is about this statement.
    #[cold]
    pub(crate) fn keep(&mut self, given: &Given, message: &[u8], head: Head) {
        if head.total() > MAX_KEPT {
            return;
        }
        self.server.pending.newest_is_kept();
        let mut kept = Repeatable {
            statement: given.statement.key(),
            is_newer: self.server.statements.newest().may_be_older_than(given.shape),
            messages: self.ctx.spare_buffer(),
            newest: 0,
            description: Vec::new(),
            stage: Stage::Open,
            begun: if self.server.status == TxStatus::Idle { Begun::Here } else { Begun::Block },
            cancelled: false,
            charge: None,
        };
        kept.add(message, self.ctx.statements.account());
        self.server.repeatable = Some(Box::new(kept));
        // So that the next message is looked at.
        self.client.waits_for_segments = true;
    }

    /// Whether the next request is to be kept: it may be refused for what its client can't know, and is the first of a
    /// transaction, or the first after its BEGIN.
    #[inline]
    pub(crate) fn is_to_be_kept(&self, fit: Fit) -> bool {
        fit == Fit::Unsure && self.begins()
    }

    #[cold]
    fn begins(&self) -> bool {
        match self.server.status {
            TxStatus::Idle => self.server.pending.begins_transaction(),
            TxStatus::InTransaction => self.server.has_only_begun(),
            TxStatus::Failed => false,
        }
    }
}

/// A message of a client that follows a kept one, or one that waits.
#[cold]
pub(crate) fn follow(
    client: &mut Client,
    server: Option<&mut Server>,
    view: View<'_>,
    head: Head,
    account: &Arc<Account>,
) -> Result<(), StopReason> {
    let Some(server) = server else {
        client.waits_for_segments = false;
        return Ok(());
    };
    if let Some(kept) = server.repeatable.as_deref_mut() {
        return kept.keep(view, head, account);
    }
    if server.pending.is_ahead() {
        return Err(ReplyWait::EarlierSegment.into());
    }
    client.waits_for_segments = false;
    Ok(())
}

/// A part of the first kept message's rest is sent to the server.
#[inline]
pub(crate) fn follow_rest(server: &mut Server, piece: &[u8], account: &Arc<Account>) {
    if let Some(kept) = server.repeatable.as_deref_mut() {
        kept.add(piece, account);
    }
}

/// The message that was kept last waits for replies.
#[cold]
pub(crate) fn must_wait(client: &mut Client, server: Option<&mut Server>) {
    client.waits_for_segments = true;
    server.and_then(|server| server.repeatable.as_deref_mut()).into_iter().for_each(Repeatable::forget_newest);
}

/// A message follows that is not kept.
#[cold]
pub(crate) fn give_up(server: Option<&mut Server>) {
    server.and_then(|server| server.repeatable.as_deref_mut()).into_iter().for_each(Repeatable::give_up);
}

/// The server accepts the request: nothing is kept any more. Returns the beginning of a description that its client was
/// not sent yet.
#[cold]
pub(crate) fn accepted(server: &mut Server, client: Option<&mut Client>, ctx: &mut Context<'_>) -> Vec<u8> {
    let Some(kept) = server.repeatable.take() else { return Vec::new() };
    let Repeatable { statement, messages, description, .. } = *kept;
    server.statements.confirm(statement, ctx.statements.next_preparation());
    ctx.keep_spare(messages);
    client.into_iter().for_each(|client| client.waits_for_segments = false);
    description
}

/// The server has described the parameters of a statement, and may still refuse to describe its rows. Whether its
/// client waits for that.
#[cold]
pub(crate) fn withhold(server: &mut Server, tag: u8, message: &[u8]) -> bool {
    let whole = Head::parse(message).ok().flatten().map_or(usize::MAX, |head| head.total());
    let Some(kept) = server.repeatable.as_deref_mut().filter(|_| tag == back::PARAMETER_DESCRIPTION) else {
        return false;
    };
    if whole > UNCHARGED {
        // Too long to be kept back: only the repeat is given up.
        kept.give_up();
        return false;
    }
    kept.description.extend_from_slice(message);
    true
}

/// Keeps more of the description that is withheld.
#[cold]
pub(crate) fn withhold_more(server: &mut Server, piece: &[u8]) {
    let kept = server.repeatable.as_deref_mut().filter(|kept| !kept.description.is_empty());
    kept.into_iter().for_each(|kept| kept.description.extend_from_slice(piece));
}

/// An error answers the oldest request, which is not repeated. Returns the beginning of a description that its client
/// was not sent yet.
#[cold]
pub(crate) fn failed(server: &mut Server, client: Option<&mut Client>) -> Vec<u8> {
    if server.repeatable.is_none() {
        return Vec::new();
    }
    client.into_iter().for_each(|client| client.waits_for_segments = false);
    server.repeatable.take().map_or_else(Vec::new, |kept| kept.description)
}

/// Whether the oldest request is repeated, after an error that says this of the server's statements.
pub(crate) fn is_repeated(server: &Server, says: Statements) -> bool {
    let kept = server.repeatable.as_deref().filter(|kept| match says {
        Statements::Outdated | Statements::Missing => true,
        // Otherwise the client's statement is the one that it was.
        Statements::Unanalysed => kept.is_newer,
        Statements::AsBelieved | Statements::Taken => false,
    });
    let head = server.pending.head();
    kept.is_some_and(|kept| matches!(kept.stage, Stage::Open | Stage::Ended))
        && matches!(head, Some(Expected::BindKept | Expected::DescribeKnown | Expected::DescribeKnownRows))
}

/// The server has refused the statement of the oldest request: its segment ends without its client.
#[cold]
pub(crate) fn refused(server: &mut Server, client: &mut Client, ctx: &mut Context<'_>, out: &mut impl Out) {
    let effects = server.pending.head_effects();
    server.state.failed(effects);
    skip_to_sync(server, Some(client), ctx);
    let Some(kept) = server.repeatable.as_deref_mut() else { return };
    kept.stage = Stage::Refused;
    let block = kept.begun == Begun::Block;
    ctx.scratch.clear();
    if server.pending.end_unseen() {
        put_front::sync(ctx.scratch);
    }
    if block {
        server.pending.request(Expected::OwnBegin);
        put_front::query(ctx.scratch, "ROLLBACK;BEGIN");
    }
    if !ctx.scratch.is_empty() {
        out.server(ctx.scratch);
    }
}

/// A request of ours has ended that no client sees: what its client's next messages are, if they are repeated from
/// here.
pub(crate) fn take(server: &mut Server, client: Option<&mut Client>, to: Expected) -> Option<Repeat> {
    let last = |kept: &Repeatable| if kept.begun == Begun::Block { Expected::OwnBegin } else { Expected::OwnSync };
    let kept = server.repeatable.take_if(|kept| kept.stage == Stage::Refused && last(kept) == to)?;
    let client = client?;
    client.waits_for_segments = false;
    let counted = (kept.count(front::BIND), kept.count(front::PARSE));
    let mut messages = kept.messages;
    messages.append(&mut client.stream.take_held());
    Some(Repeat { messages, counted, cancelled: kept.cancelled })
}
