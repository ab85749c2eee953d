//! From the server to the client: whose each message of a server is, and what it tells.
//!
//! Owns the walk over a server's messages, the swallowing of answers to our own requests, and the place of answers that we
//! give ourselves. Must not know who gets the server next: it says what happened.
//!
//! Source of the messages: PostgreSQL documentation, "Message Formats", "Message Flow", "Asynchronous Operations".

use weir_base::PoolMode;
use weir_pgwire::tag::back;
use weir_pgwire::{Dirty, Effects, HEAD, Head, Scope, TxStatus, backend, put_back};

use crate::client::{Client, Unnamed};
use crate::frame_reader::{Disposition, Piece};
use crate::from_client::Context;
use crate::naming::NOBODYS;
use crate::out::{Out, View};
use crate::params::Reported;
use crate::pending::Expected;
use crate::refusal::Refusal;
use crate::server::{Server, ServerError};
use crate::state;
use crate::statements::{Key, NAME_LEN, NAME_PREFIX};
use crate::undo_log::Change;

/// How much of an error is held: its first fields always, and in practice all of it.
const ERROR_PREFIX: usize = 8 << 10;
/// How much of a command's tag is looked at.
const TAG_PREFIX: usize = 64;
/// The SQLSTATE of a request that we refuse.
const REFUSED: &[u8; 5] = b"54000";
/// The longest ParameterStatus; a longer one spoils the server.
const MAX_PARAMETER: usize = 16 << 10;

/// What a stretch of a server's output meant, beside what was passed on.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ServerOutcome {
    /// A query of our own ended: well, or with the server's words.
    pub own_query_done: Option<Result<(), ServerError>>,
    /// ReadyForQuery messages for the client: queries that ended.
    pub queries: u32,
    /// Those that left the transaction idle: transactions that ended.
    pub transactions: u32,
    /// A request of the client's was answered in full.
    pub answered: bool,
    /// A transaction has ended, whatever ReadyForQuery says: `COMMIT AND CHAIN` begins the next one.
    pub committed: bool,
    /// The SQLSTATEs of errors that the client was sent.
    pub errors: Vec<[u8; 5]>,
    /// Requests that were refused, in the words that the client received.
    pub refused: Vec<&'static str>,
    /// The server said that it is about to close the connection.
    pub fatal: Option<ServerError>,
    /// The client opened a transaction block in statement mode.
    pub block_in_statement_mode: bool,
    /// The client sent a request where the server reads COPY data.
    pub copy_violated: bool,
    /// Session state that the client loses: it left it on the server, in a transaction that has ended.
    pub lost: Dirty,
    /// Session state that a request was refused for.
    pub refused_state: Dirty,
}

impl ServerOutcome {
    /// Whether the client did what ends its link: whatever its server says from here on is not for it.
    fn ends_link(&self) -> bool {
        self.block_in_statement_mode || self.copy_violated
    }
}

/// The server sent what no request explains, or what is no message at all: close it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProtocolViolation(pub &'static str);

/// Takes in what a server sent. `client` is the one linked to it, if any.
///
/// # Errors
/// When the server can't be trusted any more. What was passed on before that stays passed on.
pub fn feed<O: Out>(
    server: &mut Server,
    mut client: Option<&mut Client>,
    input: &[u8],
    ctx: &mut Context<'_>,
    out: &mut O,
) -> Result<ServerOutcome, ProtocolViolation> {
    let mut at = 0;
    let mut outcome = ServerOutcome::default();
    loop {
        match server.stream.next(input, &mut at, need).map_err(|malformed| ProtocolViolation(malformed.0))? {
            Piece::End => return Ok(outcome),
            Piece::Rest(range, disposition) => {
                if disposition == Disposition::Forward && client.is_some() {
                    out.client_range(range);
                }
                // Answers of ours have waited for the end of this message.
                Step { server, client: client.as_deref_mut(), ctx, out, outcome: &mut outcome }.emit();
            }
            Piece::Here(here) => {
                let view = View { bytes: &input[here..], at: Some(here) };
                at += Step { server, client: client.as_deref_mut(), ctx, out, outcome: &mut outcome }.message(view)?;
                if outcome.ends_link() {
                    return Ok(outcome);
                }
            }
            Piece::Held => {
                let held = server.stream.take_held();
                let view = View { bytes: &held, at: None };
                Step { server, client: client.as_deref_mut(), ctx, out, outcome: &mut outcome }.message(view)?;
                server.stream.give_back(held);
                if outcome.ends_link() {
                    return Ok(outcome);
                }
            }
        }
    }
}

/// Sends the answers of ours whose turn has come. In the middle of a message from the server it has not: they follow its
/// end.
pub(crate) fn emit(server: &mut Server, scratch: &mut Vec<u8>, out: &mut impl Out) {
    if server.stream.is_forwarding() {
        return;
    }
    while let Some(local) = server.pending.take_local() {
        scratch.clear();
        server.notes.done();
        match local {
            Expected::LocalParse => put_back::parse_complete(scratch),
            Expected::LocalForget => continue,
            Expected::LocalDeallocate => {
                put_back::command_complete(scratch, "DEALLOCATE");
                put_back::ready(scratch, server.status.as_byte());
            }
            _ => put_back::close_complete(scratch),
        }
        out.client(scratch);
    }
}

/// How many bytes of a message must be there before [`Step::message`] may look at it.
#[inline]
fn need(_: &[u8], head: Head) -> usize {
    match head.tag {
        back::READY | back::COMMAND_COMPLETE => head.total().min(HEAD + TAG_PREFIX),
        back::ERROR => head.total().min(HEAD + ERROR_PREFIX),
        back::PARAMETER_STATUS => head.total().min(HEAD + MAX_PARAMETER),
        _ => HEAD,
    }
}

/// One message of a server, with everything it may touch.
struct Step<'s, 'c, O> {
    server: &'s mut Server,
    client: Option<&'s mut Client>,
    ctx: &'s mut Context<'c>,
    out: &'s mut O,
    outcome: &'s mut ServerOutcome,
}

impl<O: Out> Step<'_, '_, O> {
    #[inline]
    fn message(&mut self, view: View<'_>) -> Result<usize, ProtocolViolation> {
        let Ok(Some(head)) = Head::parse(view.bytes) else { return Err(ProtocolViolation("a message without a head")) };
        if self.ctx.messages.excludes(head) {
            return Err(ProtocolViolation("a message longer than max_packet_size"));
        }
        let view = View { bytes: &view.bytes[..view.bytes.len().min(head.total())], ..view };
        let disposition = match head.tag {
            back::ERROR => return self.error(view, head),
            back::NOTICE => self.notice(),
            back::NOTIFICATION => Disposition::Forward,
            back::PARAMETER_STATUS => self.parameter(view, head),
            back::COMMAND_COMPLETE => self.command_complete(view)?,
            back::READY => return self.ready(view, head),
            tag => self.reply(tag)?,
        };
        let used = self.rest(view, head, disposition);
        self.emit();
        Ok(used)
    }

    /// A reply that tells us nothing but that it came.
    #[inline]
    fn reply(&mut self, tag: u8) -> Result<Disposition, ProtocolViolation> {
        let reply =
            self.server.pending.reply(tag).map_err(|_| ProtocolViolation("a reply that no request explains"))?;
        if tag == back::COPY_IN {
            self.outcome.copy_violated |= self.server.pending.is_breached();
        }
        if tag == back::PORTAL_SUSPENDED || tag == back::FUNCTION_RESULT {
            // A portal was run in part, or a function was called by its number.
            self.server.state.answered(reply.effects, None);
        }
        self.outcome.answered |= reply.last;
        if reply.last && reply.to.is_noted() {
            self.settle_note();
        } else if reply.to == Expected::OwnClose {
            self.server.closes.take();
        }
        Ok(if reply.to.is_own() { Disposition::Discard } else { Disposition::Forward })
    }

    /// A noted request was answered well: what it changed stays.
    fn settle_note(&mut self) {
        let (prepared, buffer) = self.server.notes.done();
        prepared.into_iter().for_each(|key| self.ctx.statements.insert(key));
        buffer.into_iter().for_each(|buffer| crate::naming::spare(self.ctx.spare, buffer));
    }

    fn command_complete(&mut self, view: View<'_>) -> Result<Disposition, ProtocolViolation> {
        let effects = self.server.pending.head_effects();
        let disposition = self.reply(back::COMMAND_COMPLETE)?;
        let tag = &view.bytes[HEAD..];
        let tag = tag.strip_suffix(&[0]).unwrap_or(tag);
        if disposition == Disposition::Discard {
            self.server.own_tag(tag, self.ctx.params);
        } else {
            // The tags of queries that leave nothing behind are the common ones; they are told by their first letters.
            let common = matches!(tag.first(), Some(b'I' | b'U' | b'B' | b'M')) || tag.starts_with(b"SELECT ");
            if !common || effects != Effects::NONE {
                self.unusual_tag(tag, effects);
            }
        }
        Ok(disposition)
    }

    #[cold]
    fn unusual_tag(&mut self, tag: &[u8], effects: Effects) {
        let state = &mut self.server.state;
        state.answered(effects, Some(tag));
        state.taken_back(tag);
        if [&b"CREATE "[..], b"ALTER ", b"DROP "].iter().any(|verb| tag.starts_with(verb))
            && effects.scope != Scope::Temporary
        {
            self.ctx.statements.definitions_changed();
            self.server.defines = true;
        }
        let all = tag == b"DISCARD ALL";
        if all {
            self.ctx.params.after_reset(&mut self.server.params);
        }
        let sets = effects.after(Some(tag)).contains(Dirty::SETTINGS);
        if matches!(tag, b"COMMIT" | b"PREPARE TRANSACTION") {
            self.outcome.committed = true;
        }
        if sets || tag == b"RESET" {
            // It may have changed, or taken back, what this client and others asked for at startup, which is set again before
            // the next link. What the server reports, it reports.
            self.ctx.params.doubt(&mut self.server.params);
        }
        if all || tag == b"DEALLOCATE ALL" {
            self.server.unnamed = None;
            // Those that were parsed after it in the same pipeline are there; closing them once more harms nothing.
            self.server.statements.distrust();
            if let Some(client) = self.client.as_deref_mut() {
                let first = self.server.notes.forget_all_before(client.next_change());
                client.statements.as_deref_mut().into_iter().for_each(|names| names.forget_before(first));
            }
        }
    }

    fn ready(&mut self, view: View<'_>, head: Head) -> Result<usize, ProtocolViolation> {
        let status = backend::ready(&view.bytes[HEAD..]).map_err(|m| ProtocolViolation(m.0))?;
        let reply = self
            .server
            .pending
            .reply(back::READY)
            .map_err(|_| ProtocolViolation("a ReadyForQuery that no request explains"))?;
        self.server.status = status;
        self.server.guessed = None;
        if self.server.defines && status == TxStatus::Idle {
            // The change may have been rolled back.
            self.server.defines = false;
            self.ctx.statements.definitions_changed();
        }
        if !self.server.pending.is_ahead() {
            self.server.dropping_all = None;
        }
        if reply.to.is_own() {
            self.outcome.own_query_done = Some(self.server.own_error.take().map_or(Ok(()), Err));
            return Ok(self.rest(view, head, Disposition::Discard));
        }
        if reply.to == Expected::QueryNoted {
            self.settle_note();
        }
        self.outcome.queries += 1;
        self.outcome.answered = true;
        self.outcome.transactions += u32::from(status == TxStatus::Idle);
        let statement_mode = self.client.as_ref().is_some_and(|c| c.mode == PoolMode::Statement);
        let block = statement_mode && status != TxStatus::Idle;
        self.outcome.block_in_statement_mode |= block;
        if block {
            // An error takes the place of this ReadyForQuery, and of all that would follow it.
            return Ok(self.rest(view, head, Disposition::Discard));
        }
        if status == TxStatus::Idle && !reply.to.is_own() {
            self.transaction_ended();
        }
        let used = self.rest(view, head, Disposition::Forward);
        self.emit();
        Ok(used)
    }

    /// Before the ReadyForQuery that says so goes to the client.
    fn transaction_ended(&mut self) {
        let (lost, temporary) = self.server.state.transaction_ended();
        if temporary {
            self.server.statements.distrust();
        }
        let Some(client) = self.client.as_deref_mut().filter(|c| !lost.is_empty() && c.mode != PoolMode::Session)
        else {
            return;
        };
        self.outcome.lost.insert(lost);
        if self.ctx.state.warn {
            self.ctx.scratch.clear();
            state::warn(lost, &mut client.warned, self.ctx.scratch);
            self.out.client(self.ctx.scratch);
        }
    }

    fn notice(&mut self) -> Disposition {
        if self.client.is_none() && self.server.pending.is_empty() {
            // Nobody asked for anything: what the notice announces concerns the next client, who must not meet it.
            self.server.spoiled = true;
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
            // A value that can't be read can't be set for its client elsewhere.
            self.server.spoiled = true;
            return Disposition::Forward;
        };
        self.server.reports(name, value);
        let reported = self.ctx.params.report(&mut self.server.params, name, value);
        let own = self.server.pending.head().is_some_and(Expected::is_own);
        if own {
            return Disposition::Discard;
        }
        if reported == Reported::ParseEnvironment {
            // What was prepared since the client changed it was read by this value, and is called as if by the one before.
            self.server.statements.distrust();
        }
        if self.client.is_none() {
            self.server.spoiled = true;
        } else if reported != Reported::Untracked {
            self.adopt_params();
        }
        Disposition::Forward
    }

    /// The client sees what the server reports, and wants it from now on.
    fn adopt_params(&mut self) {
        if let Some(client) = self.client.as_deref_mut() {
            self.ctx.params.adopt(&mut client.params, &self.server.params);
        }
    }

    fn error(&mut self, view: View<'_>, head: Head) -> Result<usize, ProtocolViolation> {
        let told = read_error(&view.bytes[HEAD..]);
        if told.fatal {
            self.outcome.fatal = Some(told.error.clone());
            self.server.spoiled = true;
        }
        let refused = self.refused().filter(|_| !told.fatal);
        if told.distrust && refused.is_none() {
            self.server.statements.distrust();
        }
        let head_of_queue = self.server.pending.head();
        let effects = self.server.pending.head_effects();
        self.server.state.failed(effects);
        let code = if refused.is_some() { *REFUSED } else { told.code };
        let rewritten = match head_of_queue {
            Some(asked) if asked.is_refused() => Some(self.refused_state(effects)),
            _ => refused.map(error_of).or_else(|| self.in_clients_words(view, head)),
        };
        let disposition = match head_of_queue {
            None => self.unasked_error(),
            Some(Expected::OwnQuery) => {
                self.server.own_error = Some(told.error);
                Disposition::Discard
            }
            Some(_) => {
                self.cut();
                Disposition::Forward
            }
        };
        if disposition == Disposition::Forward && self.client.is_some() {
            self.outcome.errors.push(code);
            self.outcome.refused.extend(refused);
        }
        let used = match rewritten.filter(|_| disposition == Disposition::Forward && self.client.is_some()) {
            Some(rewritten) => {
                self.out.client(&rewritten);
                self.rest(view, head, Disposition::Discard)
            }
            None => self.rest(view, head, disposition),
        };
        self.emit();
        Ok(used)
    }

    /// The error for what was refused, in place of the server's own.
    fn refused_state(&mut self, effects: Effects) -> Vec<u8> {
        self.outcome.refused_state.insert(effects.leaves);
        let mut error = Vec::new();
        state::refusal(effects, &mut error);
        error
    }

    /// An error that answers nothing: the server is about to go. A client in the middle of something hears of it.
    fn unasked_error(&mut self) -> Disposition {
        self.server.spoiled = true;
        let session = self.client.as_ref().is_some_and(|c| c.mode == PoolMode::Session);
        if session || !self.server.is_quiet() { Disposition::Forward } else { Disposition::Discard }
    }

    /// The server skips what follows the failed request; the books follow it.
    fn cut(&mut self) {
        let Server { pending, notes, closes, statements, unnamed, .. } = &mut *self.server;
        let accepted = &mut *self.ctx.statements;
        let (mut failed, mut undo) = (true, Vec::new());
        pending.error(|dropped| {
            let head = std::mem::take(&mut failed);
            if matches!(dropped, Expected::ParseUnnamed | Expected::CloseUnnamed | Expected::QueryNoted)
                || dropped == Expected::OwnParseUnnamed
            {
                *unnamed = None;
            }
            if dropped == Expected::OwnClose {
                closes.take().into_iter().for_each(|key| statements.suspect(key));
            }
            let Some((prepares, change)) = dropped.is_noted().then(|| notes.take()).flatten() else { return };
            match prepares {
                Some(key) if head => {
                    statements.remove(key);
                    accepted.remove(key);
                }
                Some(key) => statements.suspect(key),
                None => {}
            }
            // A Parse that fails leaves no unnamed statement behind, whatever was there before.
            let change = match change {
                Change::Unnamed { .. } if head => Change::Unnamed { before: Unnamed::None },
                change => change,
            };
            undo.push(change);
        });
        // What may or may not be there is kept in mind, but not without end.
        self.server.spoiled |= self.server.statements.len() > 2 * self.ctx.max_prepared + 1_000;
        let notes = &mut self.server.notes;
        if let Some(client) = self.client.as_deref_mut() {
            undo.into_iter().rev().for_each(|change| notes.undo(client, change));
        }
    }

    /// What we say of a request that we refuse, if the error answers what was sent in its place.
    fn refused(&self) -> Option<&'static str> {
        self.server.notes.refusal_of_oldest().filter(|_| self.server.pending.head() == Some(Expected::Refused))
    }

    /// An error that names a statement by our name for it, with the client's name in its place.
    fn in_clients_words(&self, view: View<'_>, head: Head) -> Option<Vec<u8>> {
        let body = view.bytes.get(HEAD..head.total()).filter(|body| body.len() <= ERROR_PREFIX)?;
        let at = body.windows(NAME_PREFIX.len()).position(|w| w == NAME_PREFIX)?;
        let ours = body.get(at..at + NAME_LEN)?;
        let noted = self.server.pending.head().is_some_and(Expected::is_noted);
        let guessed = self.server.guessed.as_deref().filter(|_| ours == NOBODYS);
        let named = noted.then(|| self.server.notes.name_of_oldest()).flatten();
        let statements = self.client.as_deref()?.statements.as_deref();
        let key = Key::of_name(ours);
        let known = || statements?.name_of(key?);
        let before = || self.server.notes.name_before(key?);
        let name = guessed.or(named).or_else(known).or_else(before)?;
        let body = [&body[..at], name, &body[at + NAME_LEN..]].concat();
        let mut message = vec![back::ERROR];
        message.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
        message.extend_from_slice(&body);
        Some(message)
    }

    #[inline]
    fn rest(&mut self, view: View<'_>, head: Head, disposition: Disposition) -> usize {
        if disposition == Disposition::Forward && self.client.is_some() {
            view.to_client(0..view.bytes.len(), self.out);
        }
        self.server.stream.rest(head.total() - view.bytes.len(), disposition);
        view.bytes.len()
    }

    #[inline]
    fn emit(&mut self) {
        if self.server.pending.head().is_some_and(|head| head.is_local() || head == Expected::CopyEnd) {
            emit(self.server, self.ctx.scratch, self.out);
        }
    }
}

/// The error for a request that we refuse.
fn error_of(refused: &'static str) -> Vec<u8> {
    let mut message = Vec::new();
    Refusal::StatementLimit(refused).write_error(&mut message);
    message
}

/// What matters of an error.
pub(crate) struct ErrorRead {
    pub(crate) error: ServerError,
    pub(crate) fatal: bool,
    /// The SQLSTATE, which is letters and digits.
    code: [u8; 5],
    /// Statements on the server are not what we think.
    distrust: bool,
}

/// The words of an error.
pub(crate) fn own_error(body: &[u8]) -> ServerError {
    read_error(body).error
}

/// Reads an error as far as it is there; a missing field is nothing worse than missing (CVE-2026-6666).
pub(crate) fn read_error(body: &[u8]) -> ErrorRead {
    let view = backend::error_fields(body).ok();
    let get = |code: u8| view.as_ref().and_then(|v| v.get(code)).map(|t| String::from_utf8_lossy(t).into_owned());
    let severity = get(b'V').or_else(|| get(b'S')).unwrap_or_default();
    let sqlstate = get(b'C').filter(|s| s.len() == 5).unwrap_or_else(|| "XX000".into());
    let message = get(b'M').unwrap_or_else(|| "the server sent an error without a text".into());
    // "cached plan must not change result type"; a statement that is gone; one that is there already.
    let distrust = matches!(sqlstate.as_str(), "0A000" | "26000" | "42P05");
    let fatal = matches!(severity.as_str(), "FATAL" | "PANIC");
    let letters = sqlstate.as_bytes().first_chunk().filter(|code| code.iter().all(u8::is_ascii_alphanumeric));
    let code = *letters.unwrap_or(b"XX000");
    ErrorRead { fatal, code, distrust, error: ServerError { sqlstate, message } }
}
