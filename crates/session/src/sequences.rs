//! The values that a session has drawn of sequences, of which `currval()` and `lastval()` tell (`mode = "auto"`).
//!
//! A server keeps them in its memory and lists them nowhere, so they are known by texts: one that may draw a value
//! ([`may_use_sequence`](weir_pgwire::sql::may_use_sequence)), and one that asks for them ([`Dirty::SEQUENCE_VALUES`]).
//! Owns what follows from both. What is known is in [`crate::drawn_values`]. The rules:
//!
//! - A text that asks finds the values of its own client, or none: if others are on its server, that is sent `DISCARD
//!   SEQUENCES` first. A client without values gets PostgreSQL's own error (55000) then. If it had some on another
//!   server, the error says so, and the engine looks for that server before ([`StopReason::OtherServer`]).
//! - A client that asks within the transaction that has drawn the values is right on any server. From then on its
//!   servers are cleaned of others' values when it gets them.
//! - A client that asks for what an earlier transaction has drawn keeps its server from the next text on that may draw.
//! - What one client does, all of its application do (`application_name`) that use the pool.
//!
//! Source: PostgreSQL's sequence.c: values survive a rollback, `setval()` defines `currval()` too, and DISCARD
//! SEQUENCES may run in a transaction.

use weir_base::PoolMode;
use weir_pgwire::tag::front;
use weir_pgwire::{Dirty, Effects, TxStatus, backend, put_front};

use crate::client::Client;
use crate::context::Context;
use crate::drawn_values::{Asks, ClientSequences, Drawer, Drawn, Values};
use crate::expected::Expected;
use crate::judged::Question;
use crate::link::Link;
use crate::out::Out;
use crate::own_commands;
use crate::params::ParamTable;
use crate::server::Server;
use crate::state_messages;
use crate::statements::PoolStatements;
use crate::stop::StopReason;

/// Removes the values from a server.
const DISCARD: &str = "DISCARD SEQUENCES";

/// PostgreSQL's functions that say that a value is not defined in this session.
const UNDEFINED_BY: [&[u8]; 2] = [b"currval_oid", b"lastval"];
pub(crate) const UNDEFINED_CODE: &[u8; 5] = b"55000";

/// Whether the server has exactly what the client's session would have.
fn are_exact(client: &Client, server: &Server) -> bool {
    match client.sequences.values {
        Values::None => server.sequences.are_none(),
        Values::OnOneServer => server.has_values_of(client),
        Values::Scattered => false,
    }
}

/// Who draws a value that this client draws.
fn drawer(client: &Client) -> Drawer {
    (client.id, client.sequences.gone)
}

/// A server is linked to a client. If clients of its application ask, others' values are removed before its first
/// request.
#[inline]
pub fn linked(client: &mut Client, server: &mut Server, pool: &PoolStatements, table: &ParamTable) {
    if client.sequences.heard != pool.askers().lessons() {
        hear(client, server, pool, table);
    }
}

#[cold]
fn hear(client: &mut Client, server: &mut Server, pool: &PoolStatements, table: &ParamTable) {
    if client.mode != PoolMode::Auto {
        return;
    }
    // One that comes from another process has learned there.
    pool.askers().learn(application(client, table), client.sequences.asks);
    client.sequences.raise(pool.askers().of(application(client, table)));
    if client.sequences.asks == Asks::Never {
        client.sequences.heard = pool.askers().lessons();
    } else if !are_exact(client, server) {
        (server.sequences.is_due, server.resync) = (true, true);
    }
}

fn application<'a>(client: &'a Client, table: &'a ParamTable) -> &'a str {
    table.get(&client.params, "application_name").unwrap_or_default()
}

/// Before the first request of a client that may ask, or draw what it asks for later.
///
/// # Errors
/// The client is to have the server that has its values.
#[cold]
pub(crate) fn begin(
    client: &mut Client,
    server: &mut Server,
    ctx: &mut Context<'_>,
    out: &mut impl Out,
) -> Result<(), StopReason> {
    if are_exact(client, server) {
        server.sequences.is_due = false;
        return Ok(());
    }
    let ClientSequences { asks, values, stays, .. } = client.sequences;
    if asks == Asks::Later && values == Values::OnOneServer && !stays && nothing_is_sent(server) {
        return Err(StopReason::OtherServer);
    }
    ctx.scratch.clear();
    clean(client, server, ctx.scratch);
    if !ctx.scratch.is_empty() {
        out.server(ctx.scratch);
    }
    Ok(())
}

/// Whether the client has sent nothing since it got the server.
fn nothing_is_sent(server: &Server) -> bool {
    server.is_quiet() && server.use_began() == server.pending.progress()
}

/// The server is sent what removes others' values, if there are any; the client has none.
fn clean(client: &mut Client, server: &mut Server, scratch: &mut Vec<u8>) {
    client.sequences.lost |= client.sequences.values != Values::None;
    client.sequences.drop_values();
    server.sequences.is_due = false;
    if server.sequences.are_none() {
        return;
    }
    (server.sequences.drawn, server.sequences.discarding, server.sequences.keeps) = (Drawn::ByNobody, true, false);
    if server.pending.is_at_boundary() {
        put_front::query(scratch, DISCARD.as_bytes());
        server.unnamed = None;
        server.pending.request(Expected::OwnSet);
    } else {
        own_commands::send(server, DISCARD, scratch);
    }
}

/// A client asks for values: so do others of its application, from now on.
fn learn(client: &mut Client, server: &mut Server, ctx: &mut Context<'_>, asks: Asks) {
    client.sequences.raise(asks);
    ctx.statements.askers().learn(application(client, ctx.params), asks);
    if asks == Asks::Later && server.has_values_of(client) {
        keep(server, ctx);
    }
}

/// The client is to keep its server, unless the pool refuses that.
fn keep(server: &mut Server, ctx: &Context<'_>) {
    if ctx.rules.state.refuse_pins.contains(Dirty::SEQUENCES) {
        return;
    }
    server.sequences.keeps = true;
    if !server.state.kept().contains(Dirty::SEQUENCES) {
        server.state.leave(Dirty::SEQUENCES);
    }
}

impl Link<'_, '_> {
    /// A text is about to be sent. Whatever it asks for of values, it finds its own client's or none.
    ///
    /// # Errors
    /// The client is to have the server that has its values.
    #[inline]
    pub(crate) fn may_ask_for_values(&mut self, question: Question) -> Result<(), StopReason> {
        if question != Question::Nothing && self.client.mode == PoolMode::Auto {
            return self.ask_for_values(question);
        }
        Ok(())
    }

    #[cold]
    fn ask_for_values(&mut self, question: Question) -> Result<(), StopReason> {
        if self.has_failed()? {
            return Ok(());
        }
        let ClientSequences { values, stays, .. } = self.client.sequences;
        let (exact, within) = (are_exact(self.client, self.server), self.server.sequences.in_use);
        let earlier = question == Question::Earlier && !within && values != Values::None;
        if earlier && !exact && values == Values::OnOneServer && !stays && nothing_is_sent(self.server) {
            return Err(StopReason::OtherServer);
        }
        let asks = if earlier { Asks::Later } else { Asks::Within };
        learn(self.client, self.server, self.ctx, asks);
        if !exact && !within {
            clean(self.client, self.server, self.ctx.scratch);
        }
        Ok(())
    }

    /// A text is sent that may draw a value. Returns the kind of state for which the client keeps its server then.
    #[inline]
    pub(crate) fn draws(&mut self) -> Dirty {
        let (me, asks) = (drawer(self.client), self.client.sequences.asks);
        let sequences = &mut self.server.sequences;
        (sequences.in_use, sequences.unanswered) = (true, true);
        let values = &mut self.client.sequences.values;
        (sequences.drawn, *values) = match (sequences.drawn, *values) {
            (Drawn::By(by), values) if by == me => (Drawn::By(me), values),
            (Drawn::ByNobody, Values::None) => (Drawn::By(me), Values::OnOneServer),
            (Drawn::ByNobody, _) => (Drawn::By(me), Values::Scattered),
            _ => (Drawn::BySeveral, Values::Scattered),
        };
        if asks != Asks::Later || sequences.drawn == Drawn::BySeveral {
            return Dirty::NONE;
        }
        keep(self.server, self.ctx);
        if self.server.sequences.keeps { Dirty::SEQUENCES } else { Dirty::NONE }
    }
}

impl Server {
    /// Whether the server may have values of this client, and only its own.
    pub fn has_values_of(&self, client: &Client) -> bool {
        self.sequences.drawn == Drawn::By(drawer(client))
    }

    /// Whether the client is to keep the server for its values.
    pub(crate) fn is_kept_for_values(&self, client: &Client) -> bool {
        self.sequences.keeps && self.has_values_of(client)
    }

    /// The client does not keep the server for its values, as too many keep one: it loses them with the server.
    pub fn forgo_values(&mut self) {
        self.sequences.keeps = false;
        self.state.forgo(Dirty::SEQUENCES);
    }

    /// The client has discarded its values, as a command tag says. What it has sent since, it has drawn after that.
    pub(crate) fn values_discarded(&mut self, client: &mut Client) {
        if !self.sequences.unanswered {
            (self.sequences.drawn, self.sequences.keeps) = (Drawn::ByNobody, false);
            client.sequences.drop_values();
            client.sequences.lost = false;
        }
    }
}

impl Client {
    /// No free server has the client's values: it stays at the one that it has.
    pub fn stay_without_values(&mut self) {
        self.sequences.stays = true;
    }
}

/// An error with [`UNDEFINED_CODE`] came. If it says that a value is not defined, and the client had lost some, its application asks
/// for what earlier transactions have drawn; the client is sent the error with the cause.
#[cold]
pub(crate) fn explained(
    client: &mut Client,
    server: &mut Server,
    ctx: &mut Context<'_>,
    body: &[u8],
) -> Option<Vec<u8>> {
    let says = backend::error_fields(body).ok()?.get(b'R').is_some_and(|routine| UNDEFINED_BY.contains(&routine));
    if !says || !client.sequences.lost {
        return None;
    }
    learn(client, server, ctx, Asks::Later);
    let mut error = Vec::new();
    state_messages::explain_lost_values(ctx.rules.state, body, &mut error);
    Some(error)
}

/// Whether a message begins a request before which [`begin`] runs.
pub(crate) fn begins(server: &Server, tag: u8) -> bool {
    server.sequences.is_due
        && server.pending.is_at_boundary()
        && front::is_request(tag)
        && server.status != TxStatus::Failed
}
