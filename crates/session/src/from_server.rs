//! From the server to the client: which request each message of a server answers, and what it reports.
//!
//! Owns the order in which a server's messages are taken, the swallowing of answers to our own requests, and the
//! position of local replies. Must not know which client gets the server next: it reports what happened.
//!
//! Source of the messages: PostgreSQL documentation, "Message Formats", "Message Flow", "Asynchronous Operations".

use weir_base::PoolMode;
use weir_pgwire::tag::back;
use weir_pgwire::{Dirty, Effects, HEAD, Head, Scope, TxStatus, backend, put_back};

use crate::cancelled::{CANCELLED_CODE, write_cancelled};
use crate::client::Client;
use crate::context::Context;
use crate::descriptions::Described;
use crate::error_names::{in_clients_words, shared_name};
use crate::expected::Expected;
use crate::frame_reader::{Disposition, Piece};
use crate::kept_request::Repeat;
use crate::left_state::MAX_ROW;
use crate::listener::MAX_MESSAGE as MAX_NOTIFICATION;
use crate::names::ClientStatements;
use crate::out::{Out, View};
use crate::params::{ParamTable, Reported};
use crate::pending::Reply;
use crate::refusal::Refusal;
use crate::replaced::Ended;
use crate::resets::Resets;
use crate::server::{IN_HOT_STANDBY, ProtocolViolation, Server};
use crate::server_error::{CHANGED_CODE, ErrorRead, ServerError, Statements, read_error, write_changed};
use crate::shape::Part;
use crate::skip::skip_to_sync;
use crate::state_messages;
use crate::statements::Key;
use crate::undo_log::RefusedFor;
use crate::{listener, repeat, sequences, start_values};

/// How much of an error is held: its first fields always, and in practice all of it.
pub(crate) const ERROR_PREFIX: usize = 8 << 10;
/// How many bytes of a command tag are inspected.
const TAG_PREFIX: usize = 64;
/// The SQLSTATE of a request that we refuse.
const REFUSED: &[u8; 5] = b"54000";
/// The longest ParameterStatus; a server that sends a longer one is closed.
const MAX_PARAMETER: usize = 16 << 10;

/// What a part of a server's output meant, in addition to what was forwarded.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ServerOutcome {
    /// ReadyForQuery messages for the client: queries that ended.
    pub queries: u32,
    /// ReadyForQuery messages that left the transaction idle: transactions that ended.
    pub transactions: u32,
    /// A request of the client's was answered in full.
    pub answered: bool,
    /// A transaction has ended, whatever ReadyForQuery reports: `COMMIT AND CHAIN` begins the next one.
    pub committed: bool,
    /// Present only if the output was more than replies.
    pub unusual: Option<Box<Unusual>>,
}

/// A server has broken the protocol.
#[derive(Debug)]
pub struct Violated {
    /// How.
    pub violation: ProtocolViolation,
    /// What the messages before meant: clients have their answers, and they count.
    pub before: Box<ServerOutcome>,
}

/// The meaning of server output that was more than replies.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Unusual {
    /// Our own query ended: successfully, or with this error.
    pub own_query_done: Option<Result<(), ServerError>>,
    /// The SQLSTATEs of errors that were sent to the client.
    pub errors: Vec<[u8; 5]>,
    /// Requests that were refused, by the message that the client received.
    pub refused: Vec<&'static str>,
    /// The server announced that it is about to close the connection.
    pub fatal: Option<ServerError>,
    /// The client opened a transaction block in statement mode.
    pub block_in_statement_mode: bool,
    /// The client sent a request where the server reads COPY data.
    pub copy_violated: bool,
    /// Session state that the client loses: it was left on the server, in a transaction that has ended.
    pub lost: Dirty,
    /// Session state for which a request was refused.
    pub refused_state: Dirty,
    /// Names and values of parameters that the server has reported in a query of our own, or unasked.
    pub reported: Vec<(String, String)>,
    /// The server reports that its transactions are read-only from now on.
    pub read_only: bool,
    /// Messages of the client's that are to be read again at once.
    pub repeat: Option<Repeat>,
    /// The client was not sent the last ReadyForQuery: it is, once the server has said what the client has left.
    pub ready_withheld: bool,
    /// More notifications wait for the client than may.
    pub too_many_notifications: bool,
}

impl ServerOutcome {
    /// Whether the client did something that ends its link: later messages of its server are not for it.
    #[inline]
    fn ends_link(&self) -> bool {
        self.unusual.as_ref().is_some_and(|unusual| unusual.block_in_statement_mode || unusual.copy_violated)
    }

    /// For output that is more than replies.
    #[cold]
    fn unusual(&mut self) -> &mut Unusual {
        self.unusual.get_or_insert_default()
    }
}

/// Processes what a server sent. `client` is the one linked to it, if any.
///
/// # Errors
/// When the server can't be trusted any more. What was forwarded before stays forwarded.
pub fn feed<O: Out>(
    server: &mut Server,
    client: Option<&mut Client>,
    input: &[u8],
    ctx: &mut Context<'_>,
    out: &mut O,
) -> Result<ServerOutcome, Violated> {
    let mut parser = MessageParser { server, client, ctx, out, outcome: ServerOutcome::default(), end: 0 };
    match parser.read(input) {
        Ok(()) => Ok(parser.outcome),
        Err(violation) => Err(Violated { violation, before: Box::new(parser.outcome) }),
    }
}

/// The bytes of a process id.
const PID: usize = 4;

/// How many bytes of a message must be present before [`MessageParser::message`] may read it. `asks`: rows answer a
/// query of our own.
#[inline]
fn need(head: Head, asks: bool) -> usize {
    match head.tag {
        back::READY | back::COMMAND_COMPLETE => head.total().min(HEAD + TAG_PREFIX),
        back::ERROR => head.total().min(HEAD + ERROR_PREFIX),
        back::PARAMETER_STATUS => head.total().min(HEAD + MAX_PARAMETER),
        back::NOTIFICATION => head.total().min(MAX_NOTIFICATION),
        back::DATA_ROW if asks => head.total().min(HEAD + MAX_ROW),
        _ => HEAD,
    }
}

/// Takes a server's messages one by one, with all state that it may change.
struct MessageParser<'s, 'c, O> {
    server: &'s mut Server,
    client: Option<&'s mut Client>,
    ctx: &'s mut Context<'c>,
    out: &'s mut O,
    outcome: ServerOutcome,
    /// The end of the message in the input, as far as it is present.
    end: usize,
}

impl<O: Out> MessageParser<'_, '_, O> {
    /// Takes the input's messages one by one.
    #[inline]
    fn read(&mut self, input: &[u8]) -> Result<(), ProtocolViolation> {
        let mut at = 0;
        // The beginning of a message that arrived in pieces.
        let mut held = Vec::new();
        while !self.outcome.ends_link() {
            let Server { stream, found, .. } = &mut *self.server;
            let (view, head) = match stream.next(input, &mut at, |_, head| need(head, found.is_some()))? {
                Piece::End => break,
                Piece::Rest(range, disposition) => {
                    if disposition == Disposition::Forward && self.client.is_some() {
                        self.out.client_range(range.clone());
                    }
                    if self.server.descriptions.is_reading() {
                        self.server.descriptions.feed(&input[range.clone()]);
                        repeat::withhold_more(self.server, &input[range]);
                        self.described();
                    }
                    // Local replies have waited for the end of this message.
                    self.emit_local_replies();
                    continue;
                }
                Piece::Here(here, head) => {
                    let view = View::in_input(input, here, head);
                    at += view.bytes.len();
                    (view, head)
                }
                Piece::Held(head) => {
                    held = self.server.stream.take_held();
                    (View::held(&held, head), head)
                }
            };
            self.end = at;
            self.message(view, head)?;
            if !held.is_empty() {
                self.server.stream.give_back(std::mem::take(&mut held));
            }
        }
        if self.ctx.watch.is_some() {
            self.server.watched.received(at);
        }
        Ok(())
    }

    /// Decides on the message whose beginning is in `view`.
    #[inline]
    fn message(&mut self, view: View<'_>, head: Head) -> Result<(), ProtocolViolation> {
        if self.ctx.messages.excludes(head) {
            return Err(ProtocolViolation("a message longer than max_packet_size"));
        }
        let disposition = match head.tag {
            back::DATA_ROW if self.server.pending.expects_row() => Disposition::Forward,
            back::ERROR => {
                self.error(view, head);
                return Ok(());
            }
            back::NOTICE => self.notice(),
            back::NOTIFICATION => {
                self.notification(view, head);
                return Ok(());
            }
            back::PARAMETER_STATUS => self.parameter(view, head),
            back::READY => self.ready(view)?,
            tag @ (back::PARAMETER_DESCRIPTION | back::ROW_DESCRIPTION | back::NO_DATA) => {
                return self.description(tag, view, head);
            }
            tag => {
                let reply = self.take_reply(tag, view)?;
                self.reply(reply, tag, view)
            }
        };
        self.pass(disposition, view, head);
        Ok(())
    }

    /// A part of the answer to a Describe, or the columns of a query.
    #[inline]
    fn description(&mut self, tag: u8, view: View<'_>, head: Head) -> Result<(), ProtocolViolation> {
        let reply = self.take_reply(tag, view)?;
        let is_withheld = reply.to.is_noted() && self.describes(tag, view);
        self.pass(if is_withheld { Disposition::Discard } else { disposition_of(reply) }, view, head);
        if self.server.descriptions.is_reading() {
            self.described();
        }
        Ok(())
    }

    /// A notification: from whom it is, and whether it comes to the client by this way.
    #[cold]
    fn notification(&mut self, view: View<'_>, head: Head) {
        let own = self.is_of_client(view);
        let Some(client) = self.client.as_deref_mut() else { return self.pass(Disposition::Discard, view, head) };
        let by_shared = client.channels.is_some()
            || (self.ctx.rules.shares_listen
                && client.asks.contains(Dirty::LISTEN)
                && !self.server.keeps().contains(Dirty::LISTEN));
        match client.channels.as_deref_mut() {
            Some(channels) if own => {
                let sent = listener::notification(&view.bytes[HEAD..]).is_ok_and(|it| channels.sent(it).is_ok());
                if !sent {
                    self.outcome.unusual().too_many_notifications = true;
                }
                self.server.own_notified |= channels.awaits_own();
                self.pass(Disposition::Discard, view, head);
            }
            _ if own => self.own_notification(view, head),
            _ => self.pass(if by_shared { Disposition::Discard } else { Disposition::Forward }, view, head),
        }
    }

    /// Whether this server's own session sent a notification: then it is the client's own.
    fn is_of_client(&self, view: View<'_>) -> bool {
        let sender = view.bytes.get(HEAD..HEAD + PID);
        self.client.is_some()
            && self.ctx.client_pid != 0
            && sender == Some(&self.server.cancel_key().pid.to_be_bytes()[..])
    }

    /// A client's own notification names the process id that the client knows as its own.
    fn own_notification(&mut self, view: View<'_>, head: Head) {
        view.to_client(0..HEAD, self.out);
        self.out.client(&self.ctx.client_pid.to_be_bytes());
        view.to_client(HEAD + PID..view.bytes.len(), self.out);
        self.server.stream.rest(head.total() - view.bytes.len(), Disposition::Forward);
        self.emit_local_replies();
    }

    /// Finds out which request a reply answers. Inlined: it is on the way of each message.
    #[inline(always)]
    fn take_reply(&mut self, tag: u8, view: View<'_>) -> Result<Reply, ProtocolViolation> {
        self.watch_reply(tag, view);
        let reply =
            self.server.pending.reply(tag).map_err(|_| ProtocolViolation("a reply that no request explains"))?;
        if reply.last {
            self.outcome.answered = true;
            if reply.to.is_logged() {
                self.keep_change();
            } else if reply.to.is_remembered() {
                self.remembered(reply.to);
            }
        }
        Ok(reply)
    }

    /// A reply that reports little more than its arrival.
    #[inline]
    fn reply(&mut self, reply: Reply, tag: u8, view: View<'_>) -> Disposition {
        match tag {
            back::COMMAND_COMPLETE if self.server.replaced.is_some() && self.replaced(reply, view) => {
                return Disposition::Discard;
            }
            back::COMMAND_COMPLETE => self.command_complete(reply, view),
            back::DATA_ROW if let Some(found) = &mut self.server.found => found.take(view.bytes),
            back::COPY_IN if self.server.pending.is_breached() => self.outcome.unusual().copy_violated = true,
            back::PARSE_COMPLETE | back::BIND_COMPLETE if reply.effects == Effects::NONE => {}
            // A portal was run in part, or may be by SQL, or a function was called by its OID.
            back::PARSE_COMPLETE | back::BIND_COMPLETE | back::PORTAL_SUSPENDED | back::FUNCTION_RESULT => {
                self.server.state.answered(reply.effects, None)
            }
            _ => {}
        }
        disposition_of(reply)
    }

    /// A request that is remembered was answered.
    #[cold]
    fn remembered(&mut self, request: Expected) {
        if request == Expected::BindKept {
            repeat::accepted(self.server, self.client.as_deref_mut(), self.ctx);
        } else {
            self.server.closes.take();
        }
    }

    /// A part of a description that is read begins. Whether its client is not sent it yet.
    fn describes(&mut self, tag: u8, view: View<'_>) -> bool {
        let part = if tag == back::PARAMETER_DESCRIPTION { Part::Parameters } else { Part::Rows };
        self.server.descriptions.begin(part, self.ctx.interner.hash_key());
        self.server.descriptions.feed(&view.bytes[HEAD..]);
        if self.server.repeatable.is_none() {
            return false;
        }
        if repeat::withhold(self.server, tag, view.bytes) {
            return true;
        }
        if part == Part::Rows {
            let withheld = repeat::accepted(self.server, self.client.as_deref_mut(), self.ctx);
            self.send_withheld(&withheld);
        }
        false
    }

    /// Sends the client what it was not sent when it came.
    fn send_withheld(&mut self, withheld: &[u8]) {
        if self.client.is_some() && !withheld.is_empty() {
            self.out.client(withheld);
        }
    }

    /// Counts the statement whose execution a reply ends.
    #[inline]
    fn watch_reply(&mut self, tag: u8, view: View<'_>) {
        if let Some(watch) = self.ctx.watch.as_deref_mut()
            && let Some(executed) = self.server.watch_reply(tag, &view.bytes[HEAD..], self.end)
        {
            watch.executed(executed);
        }
    }

    /// A logged request succeeded: its change stays.
    fn keep_change(&mut self) {
        let (prepared, buffer) = self.server.undo_log.done();
        prepared.into_iter().for_each(|key| self.ctx.statements.insert(key));
        buffer.into_iter().for_each(|buffer| self.ctx.keep_spare(buffer));
    }

    /// A part of a description was read; if its message is at its end, and it was the last, the shape is known.
    #[cold]
    fn described(&mut self) {
        if !self.server.stream.is_between() {
            return;
        }
        if let Some((hash, types)) = self.server.descriptions.types() {
            self.ctx.interner.parameter_types.note(hash, types);
        }
        let Some((asked, shape)) = self.server.descriptions.end() else { return };
        let client = self.client.as_deref_mut().filter(|_| !asked.own);
        match asked.about {
            Described::Named { key, of, by } => {
                self.server.statements.learn_shape(key, of, shape);
                let statements = client.and_then(|client| client.statements.as_deref_mut());
                statements.into_iter().for_each(|statements| statements.learn_shape(by, shape, of));
            }
            Described::Unnamed { id, of } => {
                if self.server.unnamed == Some(id) && self.server.slot.0 == of {
                    self.server.slot.1.learn(shape);
                }
                let client = client.filter(|client| client.unnamed_id() == id);
                client.into_iter().for_each(|client| client.unnamed.learn_shape(shape, of));
            }
            Described::Unknown => {}
        }
    }

    #[inline]
    fn command_complete(&mut self, reply: Reply, view: View<'_>) {
        let tag = &view.bytes[HEAD..];
        // The tags of queries that leave nothing behind are the common ones; they are recognised by their first
        // letters.
        let common = match tag.first() {
            Some(b'I' | b'B' | b'M') => true,
            Some(b'S') => tag.starts_with(b"SELECT "),
            // UPDATE, and no UNLISTEN.
            Some(b'U') => tag.get(1) == Some(&b'P'),
            _ => false,
        };
        if common && reply.effects == Effects::NONE && !reply.to.is_own() {
            return;
        }
        let tag = tag.strip_suffix(&[0]).unwrap_or(tag);
        if reply.to.is_own() {
            self.server.own_tag(tag, self.ctx.params);
        } else {
            self.unusual_tag(tag, reply.effects);
        }
    }

    /// A command of a query is complete that was sent with other commands than its client's. Whether the client
    /// receives nothing of that: it is ours, or replaced a DEALLOCATE, whose name is dropped, and whose tag
    /// the client receives.
    #[cold]
    fn replaced(&mut self, reply: Reply, view: View<'_>) -> bool {
        let tag = view.bytes[HEAD..].strip_suffix(&[0]).unwrap_or_default();
        if !matches!(reply.to, Expected::Query | Expected::QueryLogged) {
            return false;
        }
        let name = match self.server.replaced.as_deref_mut().map_or(Ended::Clients, |replaced| replaced.ended(tag)) {
            Ended::Clients => return false,
            Ended::Ours => return true,
            Ended::Deallocate(name) => name,
        };
        self.unusual_tag(b"DEALLOCATE", reply.effects);
        if let Some(client) = self.client.as_deref_mut() {
            client.forget_statement(name.whole());
            self.ctx.scratch.clear();
            put_back::command_complete(self.ctx.scratch, "DEALLOCATE");
            self.out.client(self.ctx.scratch);
        }
        true
    }

    #[cold]
    fn unusual_tag(&mut self, tag: &[u8], effects: Effects) {
        self.server.resets.answered(tag);
        let state = &mut self.server.state;
        state.answered(effects, Some(tag));
        state.removed_by(tag);
        if [&b"CREATE "[..], b"ALTER ", b"DROP "].iter().any(|verb| tag.starts_with(verb))
            && effects.scope != Scope::Temporary
        {
            self.ctx.statements.schema_changed();
            self.server.schema_changed = true;
            if effects.scope != Scope::Plain && self.ctx.statements.leaving.may_change_by(tag, effects.may_leave) {
                self.server.functions_changed = true;
            }
        }
        let all = tag == b"DISCARD ALL";
        if all || tag == b"DISCARD SEQUENCES" {
            self.client.as_deref_mut().into_iter().for_each(|client| self.server.values_discarded(client));
        }
        let state = &mut self.server.state;
        if let Some(client) = self.client.as_deref() {
            if (all || tag == b"RESET") && client.mode == PoolMode::Auto {
                // What the client had set does not follow it any more.
                state.leave(Dirty::SETTINGS);
            }
            if all && client.channels.is_some() {
                state.leave(Dirty::LISTEN);
            }
        }
        if all {
            self.ctx.params.after_reset(&mut self.server.params);
        }
        let sets = effects.after(Some(tag)).contains(Dirty::SETTINGS);
        if matches!(tag, b"COMMIT" | b"PREPARE TRANSACTION") {
            self.outcome.committed = true;
            if self.server.functions_changed {
                self.ctx.statements.functions_changed();
            }
        }
        if sets || tag == b"RESET" {
            // The command may have changed, or reset, what this client and others set at startup, which is set again
            // before the next link. For reported parameters the server's report counts.
            self.ctx.params.doubt(&mut self.server.params);
        }
        if all || tag == b"DEALLOCATE ALL" {
            self.server.unnamed = None;
            // Statements parsed after it in the same pipeline are present; closing them once more is harmless.
            self.server.statements.invalidate_all();
            if let Some(client) = self.client.as_deref_mut() {
                let first = self.server.undo_log.forget_all_before(client.next_change());
                client.statements.as_deref_mut().into_iter().for_each(|names| names.forget_before(first));
            }
        }
    }

    #[inline]
    fn ready(&mut self, view: View<'_>) -> Result<Disposition, ProtocolViolation> {
        let status = backend::ready(&view.bytes[HEAD..])?;
        self.watch_reply(back::READY, view);
        let reply = self.server.pending.reply(back::READY);
        let to = reply.map_err(|_| ProtocolViolation("a ReadyForQuery that no request explains"))?.to;
        self.server.status = status;
        self.server.unknown_name = None;
        if self.server.replaced.is_some() {
            self.server.replaced = None;
        }
        if self.server.schema_changed && status == TxStatus::Idle {
            // The change may have been rolled back.
            self.server.schema_changed = false;
            self.ctx.statements.schema_changed();
            if std::mem::take(&mut self.server.functions_changed) {
                // Others could not read them before.
                self.ctx.statements.functions_changed();
                self.server.reads_bodies = true;
            }
        }
        let ahead = self.server.pending.is_ahead();
        if !ahead {
            let segment = self.server.pending.segment();
            self.server.dropping_all.take_if(|dropping| !dropping.is_in(segment));
            self.server.sequences.all_answered();
            self.server.descriptions.all_answered();
        }
        if !matches!(to, Expected::Query | Expected::Sync) && self.is_own_ready(to) {
            return Ok(Disposition::Discard);
        }
        if !ahead && self.server.resets.is_pending() {
            self.restore_start_values();
        }
        self.outcome.queries += 1;
        self.outcome.answered = true;
        if status == TxStatus::Idle {
            self.outcome.transactions += 1;
            self.transaction_ended();
            if self.client.as_ref().is_some_and(|c| !c.asks.is_empty()) && self.withholds_ready() {
                return Ok(Disposition::Discard);
            }
        } else if self.client.as_ref().is_some_and(|c| c.mode == PoolMode::Statement) {
            // An error replaces this ReadyForQuery, and all that would follow it.
            self.outcome.unusual().block_in_statement_mode = true;
            return Ok(Disposition::Discard);
        }
        Ok(Disposition::Forward)
    }

    /// Whether a ReadyForQuery answers a request of our own; if not, it may have settled a change.
    #[cold]
    fn is_own_ready(&mut self, to: Expected) -> bool {
        if matches!(to, Expected::OwnSync | Expected::OwnBegin)
            && let Some(repeat) = repeat::take(self.server, self.client.as_deref_mut(), to)
        {
            self.outcome.unusual().repeat = Some(repeat);
        }
        if to == Expected::OwnQuery {
            self.outcome.unusual().own_query_done = Some(self.server.own_error.take().map_or(Ok(()), Err));
        }
        if to == Expected::QueryLogged {
            self.keep_change();
        }
        to.is_own()
    }

    #[cold]
    fn restore_start_values(&mut self) {
        match self.client.as_deref_mut() {
            Some(client) => start_values::restore(client, self.server, self.ctx, self.out),
            None => self.server.resets = Resets::default(),
        }
    }

    /// Before the ReadyForQuery with this status is sent to the client.
    #[inline]
    fn transaction_ended(&mut self) {
        let ended = self.server.state.end_transaction(self.server.pending.is_empty());
        if ended.temporary {
            self.server.statements.invalidate_all();
        }
        if !ended.lost.is_empty() {
            self.lose(ended.lost);
        }
    }

    /// Whether the client is sent this ReadyForQuery only when the server has said what the client has left.
    #[cold]
    fn withholds_ready(&mut self) -> bool {
        let asks = self.client.as_ref().map_or(Dirty::NONE, |client| client.asks);
        let channels = self.client.as_deref_mut().and_then(|client| client.channels.as_deref_mut());
        self.server.own_notified &= channels.as_ref().is_some_and(|channels| channels.awaits_own());
        let withheld = self.server.must_ask(asks) && self.server.pending.is_clean();
        if withheld {
            self.server.ready_withheld = true;
            self.outcome.unusual().ready_withheld = true;
        } else if let Some(channels) = channels.filter(|channels| channels.is_waiting()) {
            self.ctx.scratch.clear();
            channels.write(self.ctx.client_pid, self.ctx.scratch);
            self.out.client(self.ctx.scratch);
        }
        withheld
    }

    /// The client loses session state with the server, unless it keeps the server.
    #[cold]
    fn lose(&mut self, lost: Dirty) {
        let Some(client) = self.client.as_deref_mut().filter(|c| !c.mode.keeps_state()) else { return };
        // What the server is asked for may follow the client.
        let lost = lost.without(client.asks);
        if lost.is_empty() {
            return;
        }
        self.outcome.unusual().lost.insert(lost);
        if self.ctx.rules.state.warn {
            self.ctx.scratch.clear();
            state_messages::warn(lost, &mut client.warned, self.ctx.scratch);
            self.out.client(self.ctx.scratch);
        }
    }

    fn notice(&mut self) -> Disposition {
        if self.client.is_none() && self.server.pending.is_empty() {
            // An unsolicited notice concerns the next client, which must not get this server.
            self.server.unusable = true;
        }
        if self.server.pending.head().is_some_and(Expected::is_own) {
            Disposition::Discard
        } else {
            Disposition::Forward
        }
    }

    fn parameter(&mut self, view: View<'_>, head: Head) -> Disposition {
        let status = backend::parameter_status(&view.bytes[HEAD..]);
        let texts = status.ok().and_then(|(n, v)| Some((std::str::from_utf8(n).ok()?, std::str::from_utf8(v).ok()?)));
        let readable = |value: &str| value.is_ascii() || self.ctx.params.is_utf8(&self.server.params);
        let fits = head.total() <= HEAD + MAX_PARAMETER;
        let Some((name, value)) = texts.filter(|(_, value)| fits && readable(value)) else {
            // A value that can't be read can't be set for its client on another server.
            self.server.unusable = true;
            return Disposition::Forward;
        };
        self.server.reports(name, value);
        let reported = self.ctx.params.report(&mut self.server.params, name, value);
        let place = self.ctx.params.place_of_reported(&self.server.params, name);
        let head = self.server.pending.head();
        if head == Some(Expected::OwnQuery) {
            self.outcome.unusual().reported.push((name.to_owned(), value.to_owned()));
        }
        if head.is_some_and(Expected::is_own) {
            return Disposition::Discard;
        }
        if reported == Reported::ParseEnvironment {
            // Statements prepared since the client changed it were parsed with this value, and are called as if with
            // the previous one.
            self.server.statements.invalidate_all();
        }
        let Some(client) = self.client.as_deref_mut() else {
            // The next client is given what it has now: it is not used with what others believe of it.
            self.server.unusable = true;
            self.outcome.unusual().reported.push((name.to_owned(), value.to_owned()));
            return Disposition::Forward;
        };
        if name == IN_HOT_STANDBY {
            self.outcome.unusual().reported.push((name.to_owned(), value.to_owned()));
        }
        let state = &mut self.server.state;
        let Some(place) = place else {
            if reported == Reported::Unlisted {
                let (asked, by_client) = (client.start.asked.clone(), state.may_have_set());
                let of_client = (&mut client.params, &*asked, by_client);
                ParamTable::follow_unlisted(of_client, &mut self.server.params, name, value);
            }
            return Disposition::Forward;
        };
        if ParamTable::is_identity(name) {
            state.leave(Dirty::SETTINGS);
        }
        let by_client = !self.ctx.params.is_of_server(place) || state.may_have_set_read_only();
        if value == "on" && !by_client {
            self.outcome.unusual().read_only = true;
        }
        let is_reset = self.server.resets.has(place)
            && self.ctx.returns_to_start_values()
            && self.server.base.at(place) == Some(value);
        client.start.reported(place, value, &self.server.base, by_client);
        self.server.resets.report(place, is_reset);
        if is_reset {
            // The parameter has the value from the client's login once all is answered.
            if let Some(asked) = client.start.asked.at(place).filter(|asked| client.params.at(place) != Some(*asked)) {
                self.ctx.scratch.clear();
                put_back::parameter_status(self.ctx.scratch, name, asked);
                self.out.client(self.ctx.scratch);
            }
            return Disposition::Discard;
        }
        self.copy_reported();
        Disposition::Forward
    }

    /// The client receives what the server reports, and has this value from now on.
    fn copy_reported(&mut self) {
        if let Some(client) = self.client.as_deref_mut() {
            self.ctx.params.copy_reported(&mut client.params, &self.server.params);
        }
    }

    #[cold]
    fn error(&mut self, view: View<'_>, head: Head) {
        let ErrorRead { error, fatal, code, statements } = read_error(&view.bytes[HEAD..]);
        self.server.resets.fail();
        if fatal {
            self.outcome.unusual().fatal = Some(error.clone());
            self.server.unusable = true;
        }
        let refused = self.refused().filter(|_| !fatal);
        if refused.is_none() {
            self.doubt_statements(statements, view);
        }
        if !fatal
            && repeat::is_repeated(self.server, statements)
            && let Some(client) = self.client.as_deref_mut()
        {
            repeat::refused(self.server, client, self.ctx, self.out);
            return self.pass(Disposition::Discard, view, head);
        }
        if let Some(watch) = self.ctx.watch.as_deref_mut() {
            self.server.watch_error(fatal, self.end).into_iter().for_each(|executed| watch.executed(executed));
        }
        let asked = self.server.pending.head();
        let effects = self.server.pending.head_effects();
        self.server.state.failed(effects);
        let withheld = repeat::failed(self.server, self.client.as_deref_mut());
        self.send_withheld(&withheld);
        let rewritten = match asked {
            Some(asked) if asked.is_refused() => Some(self.refused_state(effects)),
            _ => refused
                .map(error_of)
                .or_else(|| self.renamed_error(view, head))
                .or_else(|| self.lost_values(&code, view)),
        };
        let disposition = self.end_failed(asked, error);
        if disposition == Disposition::Forward && self.client.is_some() {
            let unusual = self.outcome.unusual();
            unusual.errors.push(match refused {
                Some(RefusedFor::Limit(_)) => *REFUSED,
                Some(RefusedFor::Shape) => *CHANGED_CODE,
                Some(RefusedFor::Cancelled) => *CANCELLED_CODE,
                None => code,
            });
            if let Some(RefusedFor::Limit(what)) = refused {
                unusual.refused.push(what);
            }
            if let Some(rewritten) = rewritten {
                self.out.client(&rewritten);
                return self.pass(Disposition::Discard, view, head);
            }
        }
        self.pass(disposition, view, head);
    }

    /// What an error says of the server's statements.
    fn doubt_statements(&mut self, says: Statements, view: View<'_>) {
        match says {
            Statements::AsBelieved => {}
            Statements::Outdated => self.statement_is_outdated(),
            Statements::Unanalysed => self.statement_is_unanalysed(),
            Statements::Missing | Statements::Taken => self.statements_are_others(says, view),
        }
    }

    /// The statement that the oldest request is about, if it is known.
    fn used_statement(&self) -> Option<Key> {
        match self.server.pending.head() {
            Some(Expected::BindKept) => self.server.repeatable.as_deref().map(|kept| kept.statement),
            Some(Expected::Bind) => self.server.descriptions.bound(),
            Some(head) if head.is_noted() => self.server.descriptions.oldest().and_then(Described::key),
            _ => None,
        }
    }

    /// PostgreSQL analyses a statement again with its first types of parameters, with a Bind or a Describe.
    fn statement_is_unanalysed(&mut self) {
        let used = self.used_statement();
        let is_bind = matches!(self.server.pending.head(), Some(Expected::Bind));
        let several = is_bind && self.server.descriptions.has_bound_several();
        let statements = self.client.as_deref_mut().and_then(|client| client.statements.as_deref_mut());
        if used.is_some() || (several && statements.is_some_and(ClientStatements::doubt)) {
            self.ctx.statements.note_unanalysed(used);
        }
    }

    /// What the statement that was used names has changed since it was prepared.
    fn statement_is_outdated(&mut self) {
        match self.used_statement() {
            // The pool's other servers have the statement from before the change, too.
            Some(key) => {
                self.server.statements.mark_doubtful(key);
                self.ctx.statements.outdate(key);
            }
            None => self.server.statements.invalidate_all(),
        }
    }

    /// A statement is gone, or one is there already.
    fn statements_are_others(&mut self, says: Statements, view: View<'_>) {
        let ours = shared_name(&view.bytes[HEAD..]);
        let believed = ours.and_then(Key::of_name).is_some_and(|key| self.server.statements.is_ready(key));
        match says {
            _ if ours.is_none() => return,
            Statements::Taken if believed => return,
            // The statement was there: a function has dropped it, and maybe others. This server is not given to another
            // client.
            Statements::Missing if believed => {
                self.server.unusable = true;
                self.ctx.statements.note_dropped();
            }
            _ => {}
        }
        self.server.statements.invalidate_all();
    }

    /// The request that an error answers has failed.
    fn end_failed(&mut self, asked: Option<Expected>, error: ServerError) -> Disposition {
        match asked {
            None => self.unsolicited_error(),
            Some(Expected::OwnQuery) => {
                self.server.own_error = Some(error);
                Disposition::Discard
            }
            Some(Expected::OwnSet | Expected::OwnBegin) => Disposition::Discard,
            Some(_) => {
                skip_to_sync(self.server, self.client.as_deref_mut(), self.ctx);
                // Nothing of the client's was in a segment that is ours to the end.
                let ours = self.server.pending.head() == Some(Expected::OwnSync);
                if ours { Disposition::Discard } else { Disposition::Forward }
            }
        }
    }

    /// An error that names a statement by our name for it, changed to the client's name.
    fn renamed_error(&self, view: View<'_>, head: Head) -> Option<Vec<u8>> {
        let body = view.bytes.get(HEAD..head.total()).filter(|body| body.len() <= ERROR_PREFIX)?;
        in_clients_words(self.server, self.client.as_deref()?, body)
    }

    /// An error that says that the session has no values of sequences, with the cause if the client had lost some.
    fn lost_values(&mut self, code: &[u8; 5], view: View<'_>) -> Option<Vec<u8>> {
        let client = self.client.as_deref_mut().filter(|_| code == sequences::UNDEFINED_CODE)?;
        let error = sequences::explained(client, self.server, self.ctx, &view.bytes[HEAD..])?;
        self.outcome.unusual().lost.insert(Dirty::SEQUENCES);
        self.ctx.rules.state.warn.then_some(error)
    }

    /// The error for what was refused, in place of the server's own.
    fn refused_state(&mut self, effects: Effects) -> Vec<u8> {
        let kinds = self.ctx.rules.state.refused().common(effects.leaves);
        self.outcome.unusual().refused_state.insert(kinds);
        let mut error = Vec::new();
        state_messages::refusal(self.ctx.rules.state, kinds, &mut error);
        error
    }

    /// An error that answers no request: the server is about to close. A client in the middle of a request receives it.
    fn unsolicited_error(&mut self) -> Disposition {
        self.server.unusable = true;
        let session = self.client.as_ref().is_some_and(|c| c.mode.keeps_state());
        if session || !self.server.is_quiet() { Disposition::Forward } else { Disposition::Discard }
    }

    /// Our error for a request that we refuse, if the server's error answers what was sent in its place.
    fn refused(&self) -> Option<RefusedFor> {
        self.server.undo_log.refusal_of_oldest().filter(|_| self.server.pending.head() == Some(Expected::Refused))
    }

    /// Sends the client the present part of a message, or drops it, and decides the same for its rest. The local
    /// replies that are due follow.
    #[inline(always)]
    fn pass(&mut self, disposition: Disposition, view: View<'_>, head: Head) {
        if disposition == Disposition::Forward && self.client.is_some() {
            view.to_client(0..view.bytes.len(), self.out);
        }
        self.server.stream.rest(head.total() - view.bytes.len(), disposition);
        self.emit_local_replies();
    }

    #[inline]
    fn emit_local_replies(&mut self) {
        if !self.outcome.unusual.as_ref().is_some_and(|unusual| unusual.block_in_statement_mode) {
            self.server.emit_local_replies(self.ctx.scratch, self.out);
        }
    }
}

/// Whether the client receives a reply.
#[inline]
fn disposition_of(reply: Reply) -> Disposition {
    if reply.to.is_own() { Disposition::Discard } else { Disposition::Forward }
}

/// The error for a request that we refuse.
fn error_of(refused: RefusedFor) -> Vec<u8> {
    let mut message = Vec::new();
    match refused {
        RefusedFor::Limit(what) => Refusal::StatementLimit(what).write_error(&mut message),
        RefusedFor::Shape => write_changed(&mut message),
        RefusedFor::Cancelled => write_cancelled(&mut message),
    }
    message
}
