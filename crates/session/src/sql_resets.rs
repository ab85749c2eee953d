//! RESET and `SET … TO DEFAULT` of what a client asked for at its login, with more of the client's behind it: in a
//! query of several statements, in a transaction, or before the Sync of a pipeline.
//!
//! Owns what the server is sent for it, whose own default is another one. Where nothing follows, the client's value is
//! set again before its next request ([`crate::start_values`]). In a query, statements of ours follow a RESET, in the
//! same transaction: SET takes no snapshot, so that SET TRANSACTION may still follow. `SET … TO DEFAULT` names the
//! value instead.

use std::collections::VecDeque;

use weir_pgwire::TxStatus;
use weir_pgwire::sql::{ResetBy, Resetting};
use weir_pgwire::tag::front;

use crate::client::Client;
use crate::context::Context;
use crate::edit::Edit;
use crate::link::Link;
use crate::out::Out;
use crate::own_commands::send;
use crate::replaced::Nothing;
use crate::server::Server;
use crate::start_values::{self, Span};

/// The most bytes of statements of ours in a query: a client may reset something in each ten bytes of it. What is reset
/// beyond that has its value again when the query has ended.
const MAX_ADDED: usize = 64 << 10;

impl Link<'_, '_> {
    /// Whether a statement of a query is carried out in other words: a client asked for what it resets, and may see
    /// that.
    pub(crate) fn is_edited(&self, reset: &Resetting) -> bool {
        self.ctx.returns_to_start_values()
            && (reset.by == ResetBy::SetLocal || (reset.followed && reset.by != ResetBy::Discard))
            && start_values::asked_for(self.client, self.ctx.params, &reset.what) != 0
    }

    /// A statement of a query resets something.
    pub(crate) fn edit_reset(&mut self, reset: &Resetting, edit: &mut Edit<'_>, replaced: &mut VecDeque<Nothing>) {
        let places = start_values::asked_for(self.client, self.ctx.params, &reset.what);
        if !self.is_edited(reset) || edit.added() > MAX_ADDED {
            if reset.by != ResetBy::SetLocal {
                self.server.resets.add(places);
            }
            return;
        }
        let span = if reset.by == ResetBy::SetLocal { Span::Transaction } else { Span::Session };
        let commands = start_values::commands(self.client, self.ctx.params, places, span);
        if reset.by == ResetBy::Reset {
            replaced.push_back(Nothing::Ours(commands.len() as u32));
            edit.add(reset.at.end, &commands);
        } else if let Some(command) = commands.first() {
            edit.replace(&reset.at, command);
        }
    }

    /// What a `SET LOCAL … TO DEFAULT` is on the server, if the client asked for its parameter.
    pub(crate) fn local_reset(&self, reset: Option<&Resetting>) -> Option<String> {
        let reset = reset.filter(|reset| reset.by == ResetBy::SetLocal && self.is_edited(reset))?;
        let places = start_values::asked_for(self.client, self.ctx.params, &reset.what);
        start_values::commands(self.client, self.ctx.params, places, Span::Transaction).into_iter().next()
    }
}

/// A message is about to be sent within a pipeline in which something is reset: what was executed of that is set again
/// before it. Returns the bytes that were sent for it.
#[cold]
pub(crate) fn set_within(
    client: &Client,
    server: &mut Server,
    tag: u8,
    ctx: &mut Context<'_>,
    out: &mut impl Out,
) -> usize {
    if tag == front::EXECUTE {
        server.resets.execute();
    }
    let begins = matches!(tag, front::PARSE | front::BIND | front::DESCRIBE);
    if !begins || server.status == TxStatus::Failed || !ctx.returns_to_start_values() || !server.resets.take_executed()
    {
        return 0;
    }
    ctx.scratch.clear();
    for command in start_values::commands(client, ctx.params, server.resets.places(), Span::Session) {
        send(server, &command, ctx.scratch);
    }
    out.server(ctx.scratch);
    ctx.scratch.len()
}
