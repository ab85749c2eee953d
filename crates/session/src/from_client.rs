//! From the client to the server: the effect of each message of a logged-in client on the link.
//!
//! Owns the order in which a client's messages are taken and the decision about each: it waits, is refused, is answered
//! here, or is forwarded to the server as a [`Rewrite`] describes. Must not know where servers come from: it reports
//! when it needs one.
//!
//! Bodies are read only where a decision needs them; everything else streams. In session mode nothing is renamed.
//! Source of the messages: PostgreSQL documentation, "Message Formats" and "Message Flow".

use weir_base::PoolMode;
use weir_pgwire::tag::front;
use weir_pgwire::{HEAD, Head, TxStatus, frontend, put_back, put_front, sql};

use crate::cancelled::{Cancelled, FailsAt, write_cancelled};
use crate::client::Client;
use crate::context::{Context, MessagePolicy, SimpleQueries, WithoutCache};
use crate::expected::Expected;
use crate::frame_reader::{Disposition, Piece};
use crate::kept_request::{MAX_KEPT, UNCHARGED};
use crate::link::{Link, MAX_COMPOSED, Rewrite};
use crate::long_text::{LONG_TEXT, LongText, SEARCHED};
use crate::naming::{MAX_NAMES, is_too_long};
use crate::out::{Out, View};
use crate::refusal::Refusal;
use crate::server::Server;
use crate::session_state::StreamingText;
use crate::stop::{ReplyWait, StopReason};
use crate::streamed::BEGINNING;
use crate::text::{QUERY_PREFIX, Text};
use crate::undo_log::RefusedFor;
use crate::{repeat, sequences, sql_resets, start_values, unlinked};

/// The longest body of a Sync, which has none, that the server is left to refuse.
const MAX_SYNC: usize = 64;

/// How much of a client's input was read.
#[derive(Debug, PartialEq, Eq)]
pub struct ClientOutcome {
    /// Bytes of the input that are consumed; the rest must be passed again.
    pub used: usize,
    /// Why reading stopped there.
    pub stop: StopReason,
}

/// Processes what a client sent. `server` is the one linked to it, if any.
pub fn feed<O: Out>(
    client: &mut Client,
    server: Option<&mut Server>,
    input: &[u8],
    ctx: &mut Context<'_>,
    out: &mut O,
) -> ClientOutcome {
    let texts = match client.mode {
        PoolMode::Session => Texts::Pass,
        _ if ctx.rules.max_prepared > 0 => Texts::Rename,
        _ if ctx.without_cache == WithoutCache::Kept && client.prepared() > 0 => Texts::Rename,
        _ => Texts::Read,
    };
    let mut parser = MessageParser { client, server, ctx, out, texts, composed: 0 };
    let mut used = 0;
    while parser.ctx.max_messages > 0 {
        if let Err(stop) = parser.step(input, &mut used) {
            return ClientOutcome { used, stop };
        }
        parser.ctx.spend(1);
        // The usual input is one message.
        if used == input.len() && parser.client.fails.is_none() && parser.client.stream.is_at_rest() {
            return ClientOutcome { used, stop: StopReason::EndOfInput };
        }
    }
    ClientOutcome { used, stop: StopReason::TurnOver }
}

/// Whether feeding this to a client without a server certainly stops at once with [`StopReason::NeedServer`]: the first
/// message is complete, and only a server can answer it. A cheap check that saves the usual transaction one feeding.
#[inline]
pub fn needs_server(client: &Client, input: &[u8], messages: MessagePolicy) -> bool {
    let Ok(Some(head)) = Head::parse(input) else { return false };
    let answered_by_server = match head.tag {
        front::QUERY => messages.simple == SimpleQueries::Allowed && client.prepared() == 0,
        front::BIND | front::DESCRIBE | front::EXECUTE | front::FUNCTION_CALL => true,
        _ => false,
    };
    answered_by_server && head.total() <= input.len() && !messages.excludes(head) && client.is_between_requests()
}

/// Takes a client's messages one by one, with all state that it may change.
struct MessageParser<'s, 'c, O> {
    client: &'s mut Client,
    server: Option<&'s mut Server>,
    ctx: &'s mut Context<'c>,
    out: &'s mut O,
    texts: Texts,
    /// Bytes of Parse messages that were composed in this feeding.
    composed: usize,
}

/// What is done with the texts of queries and statements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Texts {
    /// Texts are forwarded unread: in session mode, whose server is cleaned whatever they contained.
    Pass,
    /// Texts are read for the state that they leave, and statements keep the client's names: `max_prepared_statements`
    /// is 0.
    Read,
    /// Statements have our names on the server, too.
    Rename,
}

impl<O: Out> MessageParser<'_, '_, O> {
    /// Takes the next step in `input` from `at` on: a message, or a part of one.
    #[inline]
    fn step(&mut self, input: &[u8], at: &mut usize) -> Result<(), StopReason> {
        if let Some(what) = self.client.fails.filter(|_| self.client.stream.is_between()) {
            self.fail_discarded(what)?;
        }
        // The beginning of a message that arrived in pieces.
        let mut held = Vec::new();
        let (view, head) = match self.next(input, at)? {
            Piece::End => {
                if self.client.stream.charge(self.ctx.statements.account()) && self.texts == Texts::Rename {
                    self.read_arriving();
                }
                return Err(StopReason::EndOfInput);
            }
            Piece::Rest(range, Disposition::Forward) => {
                if let Some(server) = self.server.as_deref_mut() {
                    server.request_streams(&input[range.clone()], !self.client.stream.is_forwarding());
                    repeat::follow_rest(server, &input[range.clone()], self.ctx.statements.account());
                    self.out.server_range(range);
                }
                return Ok(());
            }
            Piece::Rest(_, Disposition::Discard) => return Ok(()),
            Piece::Here(here, head) => (View::in_input(input, here, head), head),
            Piece::Held(head) => {
                held = self.client.stream.take_held();
                (View::held(&held, head), head)
            }
        };
        let here = view.bytes.len();
        let done = self.message(view, head);
        if !held.is_empty() {
            self.put_away(held, done.is_ok());
        } else if done.is_ok() {
            *at += here;
        }
        done
    }

    /// Reads what has arrived of a long text.
    #[cold]
    fn read_arriving(&mut self) {
        let Client { stream, arriving, .. } = &mut *self.client;
        if stream.held().len() > LONG_TEXT {
            let hash_key = self.ctx.interner.hash_key();
            arriving.get_or_insert_with(|| Box::new(LongText::new(hash_key))).follow(stream.held());
        }
    }

    /// The beginning of a message that arrived in pieces was decided on, or must wait.
    #[cold]
    fn put_away(&mut self, held: Vec<u8>, done: bool) {
        if done {
            self.client.arriving = None;
            return self.client.stream.give_back(held);
        }
        self.client.stream.keep(held);
        self.client.stream.charge(self.ctx.statements.account());
    }

    /// The next action on the input.
    #[inline]
    fn next(&mut self, input: &[u8], at: &mut usize) -> Result<Piece, StopReason> {
        let (ctx, texts) = (&*self.ctx, self.texts);
        let held = self.client.stream.charged();
        let reads = Reads { texts, watched: ctx.watch.is_some() };
        let Client { stream, statements, unnamed, waits_for_segments, .. } = &mut *self.client;
        let kept = || *waits_for_segments;
        let room = || {
            let statements = statements.as_ref().map_or(0, |statements| statements.cost()) + unnamed.size() as u64;
            let own = ctx.rules.client_memory.saturating_sub(statements);
            own.min(ctx.statements.account().left() + held) as usize
        };
        stream.next(input, at, |bytes, head| need(reads, bytes, head, (room, kept))).map_err(|_| self.ends())
    }

    /// What a client is owed that ends its stream, or where no message can be found in it: earlier requests are
    /// answered first, as a server does it, and nothing more is said.
    fn ends(&self) -> StopReason {
        let answers = self.server.as_deref().is_some_and(|server| server.pending.will_answer());
        if answers { ReplyWait::Termination.into() } else { StopReason::Terminate }
    }

    /// Decides on the message whose beginning is in `view`.
    #[inline]
    fn message(&mut self, view: View<'_>, head: Head) -> Result<(), StopReason> {
        self.admit(head)?;
        if self.client.cancelled != Cancelled::Nothing && self.cancelled(view, head)? {
            return Ok(());
        }
        if self.texts == Texts::Rename && head.tag == front::PARSE && is_cut_short(view, head) {
            self.discard_parse(view, head);
            return Ok(());
        }
        let Some(server) = self.server.as_deref_mut() else { return self.unlinked(view, head) };
        if server.pending.is_skipping() && head.tag != front::SYNC && is_known(head.tag) {
            // The server would read and ignore it.
            self.discard(view, head);
            return Ok(());
        }
        self.may_begin_segment(head.tag)?;
        if self.server.as_deref().is_some_and(|server| server.pending.in_copy_in()) {
            return self.in_copy(view, head);
        }
        self.must_have_room(head.tag)?;
        self.must_not_wait_any_more(view, head)?;
        self.set_again(head.tag)?;
        let rewrite = match self.linked(view, head) {
            Err(StopReason::AwaitReplies(wait)) => {
                repeat::must_wait(self.client, self.server.as_deref_mut());
                return Err(wait.into());
            }
            decided => decided?,
        };
        if self.ctx.watch.is_some() {
            self.watch(view, head);
        }
        self.send(rewrite, view, head);
        Ok(())
    }

    /// Whether a message of this kind and length is read at all.
    #[inline]
    fn admit(&self, head: Head) -> Result<(), StopReason> {
        if head.tag == front::TERMINATE {
            return Err(self.ends());
        }
        if self.ctx.messages.excludes(head) {
            return Err(StopReason::refuse(Refusal::MessageTooLong));
        }
        if head.tag == front::QUERY && self.ctx.messages.simple == SimpleQueries::Refused {
            return Err(StopReason::refuse(Refusal::SimpleQuery));
        }
        Ok(())
    }

    /// The first message of a segment is sent only while the server has fewer unanswered segments than allowed: before
    /// it the server may be given to another client.
    #[inline]
    fn may_begin_segment(&self, tag: u8) -> Result<(), StopReason> {
        let Some(server) = self.server.as_deref() else { return Ok(()) };
        let begins = || server.pending.is_at_boundary() && (front::is_request(tag) || tag == front::SYNC);
        if server.pending_segments() >= self.ctx.max_pending_segments && begins() {
            return Err(ReplyWait::SegmentLimit.into());
        }
        if server.resets.is_pending() && server.pending.is_ahead() && begins() {
            return Err(ReplyWait::EarlierSegment.into());
        }
        Ok(())
    }

    /// What the client has reset is set again, before the first message of a segment, or what follows the reset within
    /// one.
    #[inline]
    fn set_again(&mut self, tag: u8) -> Result<(), StopReason> {
        let Some(server) = self.server.as_deref_mut().filter(|server| server.resync) else { return Ok(()) };
        if sequences::begins(server, tag) {
            sequences::begin(self.client, server, self.ctx, self.out)?;
        }
        if !server.pending.is_at_boundary() {
            self.composed += sql_resets::set_within(self.client, server, tag, self.ctx, self.out);
        } else if front::is_request(tag) && server.status != TxStatus::Failed {
            start_values::set_again(self.client, server, self.ctx, self.out);
        }
        Ok(())
    }

    /// If too much is outstanding, the server gets a Flush, and the client waits for its answers.
    #[inline]
    fn must_have_room(&mut self, tag: u8) -> Result<(), StopReason> {
        let Some(server) = self.server.as_deref_mut() else { return Ok(()) };
        let prepares = || matches!(tag, front::PARSE | front::BIND | front::DESCRIBE);
        if !server.is_full() && (self.composed <= MAX_COMPOSED || !prepares()) {
            return Ok(());
        }
        if server.pending.needs_flush() {
            self.ctx.scratch.clear();
            put_front::flush(self.ctx.scratch);
            self.out.server(self.ctx.scratch);
        }
        Err(ReplyWait::QueueFull.into())
    }

    /// A message that waits for replies is not looked at again with each of them: whatever it waits for has come with
    /// the last one.
    #[inline]
    fn must_not_wait_any_more(&mut self, view: View<'_>, head: Head) -> Result<(), StopReason> {
        if self.client.waits_for_segments {
            let account = self.ctx.statements.account();
            repeat::follow(self.client, self.server.as_deref_mut(), view, head, account)?;
        }
        Ok(())
    }

    /// A message of a client without a server.
    fn unlinked(&mut self, view: View<'_>, head: Head) -> Result<(), StopReason> {
        let reply = &mut *self.ctx.scratch;
        reply.clear();
        match head.tag {
            front::SYNC if head.total() == HEAD => put_back::ready(reply, b'I'),
            front::SYNC if view.bytes.len() < head.total() => return Err(long_sync()),
            // Late COPY data after an error, and a Flush with nothing to flush, are ignored by a server too.
            front::FLUSH | front::COPY_DATA | front::COPY_DONE | front::COPY_FAIL => {}
            tag if front::is_request(tag) && self.texts == Texts::Rename && self.answer_alone(view, head) => {}
            // The server says what is wrong with a Sync that has a body.
            tag if front::is_request(tag) || tag == front::SYNC => return Err(StopReason::NeedServer),
            tag => return Err(unexpected(tag)),
        }
        if !self.ctx.scratch.is_empty() {
            self.out.client(self.ctx.scratch);
        }
        self.discard(view, head);
        Ok(())
    }

    /// Answers a request of a client without a server, if it is about nothing but the client's own names.
    #[inline]
    fn answer_alone(&mut self, view: View<'_>, head: Head) -> bool {
        if head.tag == front::QUERY {
            let text = Text::of_query(view.bytes, head);
            return text.is_whole() && unlinked::query(self.client, text, self.ctx.scratch);
        }
        let Some(body) = view.bytes.get(HEAD..head.total()) else { return false };
        match head.tag {
            front::CLOSE => unlinked::close(self.client, body, self.ctx.scratch),
            front::PARSE if unlinked::parse(self.client, self.ctx, body) => {
                put_back::parse_complete(self.ctx.scratch);
                true
            }
            _ => false,
        }
    }

    /// A message of a client whose request was cancelled before any of it was sent to a server. Returns `false` for one
    /// that is handled as any other.
    #[cold]
    fn cancelled(&mut self, view: View<'_>, head: Head) -> Result<bool, StopReason> {
        if self.client.cancelled == Cancelled::Segment {
            if head.tag == front::SYNC {
                self.client.cancelled = Cancelled::Nothing;
                self.reply(|buffer| put_back::ready(buffer, b'I'));
            }
            self.discard(view, head);
            return Ok(true);
        }
        if !front::is_request(head.tag) {
            return Ok(false);
        }
        let whole = matches!(head.tag, front::QUERY | front::FUNCTION_CALL);
        let (fails, mut then) = (self.fails_at(), Cancelled::Nothing);
        match fails {
            FailsAt::Nowhere => {}
            FailsAt::Weir => {
                then = if whole { Cancelled::Nothing } else { Cancelled::Segment };
                self.reply(|buffer| {
                    write_cancelled(buffer);
                    if whole {
                        put_back::ready(buffer, b'I');
                    }
                });
                self.discard(view, head);
            }
            FailsAt::Server => {
                repeat::give_up(self.server.as_deref_mut());
                self.fail_at_server(RefusedFor::Cancelled, head.tag)?;
                self.discard(view, head);
            }
        }
        self.client.cancelled = then;
        Ok(fails != FailsAt::Nowhere)
    }

    /// A message of a client that has a server, and need not wait.
    #[inline]
    fn linked(&mut self, view: View<'_>, head: Head) -> Result<Rewrite, StopReason> {
        let Some(server) = self.server.as_deref_mut() else { return Err(StopReason::NeedServer) };
        self.ctx.scratch.clear();
        let mut link = Link { client: self.client, server, ctx: self.ctx, composed: &mut self.composed };
        let about_text = match self.texts {
            Texts::Rename => link.rewrite(view.bytes, head),
            texts => link.pass_through(view.bytes, head, texts == Texts::Read),
        };
        match about_text {
            Some(Err(stop @ StopReason::AwaitReplies(_))) => {
                // What was composed before is expected to be answered.
                if !link.ctx.scratch.is_empty() {
                    self.out.server(link.ctx.scratch);
                    link.ctx.trim_scratch();
                }
                Err(stop)
            }
            Some(Err(StopReason::Refuse(refusal))) => match *refusal {
                Refusal::StatementLimit(what) => Ok(link.fail(RefusedFor::Limit(what))),
                other => Err(StopReason::refuse(other)),
            },
            Some(rewrite) => rewrite,
            None if head.tag == front::SYNC && view.bytes.len() < head.total() => Err(long_sync()),
            None => match control(link.server, head.tag) {
                Some(rewrite) => Ok(rewrite),
                None => Err(self.unknown(head.tag)),
            },
        }
    }

    /// A message of an unknown kind ends the connection, once what came before it is answered.
    #[cold]
    fn unknown(&mut self, tag: u8) -> StopReason {
        let Some(server) = self.server.as_deref_mut().filter(|server| !server.pending.is_empty()) else {
            return unexpected(tag);
        };
        if server.pending.needs_flush() {
            self.ctx.scratch.clear();
            put_front::flush(self.ctx.scratch);
            self.out.server(self.ctx.scratch);
            server.pending.flush();
        }
        ReplyWait::Termination.into()
    }

    /// The request that was decided runs a statement that is counted.
    fn watch(&mut self, view: View<'_>, head: Head) {
        let Some(server) = self.server.as_deref_mut() else { return };
        let mut link = Link { client: self.client, server, ctx: self.ctx, composed: &mut self.composed };
        link.watch(view.bytes, head, self.texts != Texts::Rename);
    }

    /// While the server reads COPY data, any message other than that data, its end, Flush and Sync breaks the protocol;
    /// the answers to it can't be counted.
    fn in_copy(&mut self, view: View<'_>, head: Head) -> Result<(), StopReason> {
        let Some(server) = self.server.as_deref_mut() else { return Err(StopReason::NeedServer) };
        match head.tag {
            front::COPY_DATA => server.pending.copy_data(),
            front::FLUSH => {}
            front::COPY_DONE | front::COPY_FAIL => drop(server.pending.request(Expected::CopyEnd)),
            front::SYNC => drop(server.pending.request(Expected::Sync)),
            tag if front::is_request(tag) => {
                return Err(StopReason::protocol(format!("unexpected message type 0x{tag:02X} during COPY")));
            }
            tag => return Err(unexpected(tag)),
        }
        self.forward_from(0, view, head);
        Ok(())
    }

    /// Sends the server what was composed and what remains of the message, and the client the local replies that are
    /// due.
    #[inline]
    fn send(&mut self, rewrite: Rewrite, view: View<'_>, head: Head) {
        if !self.ctx.scratch.is_empty() {
            self.out.server(self.ctx.scratch);
            self.ctx.trim_scratch();
        }
        let from = match rewrite {
            Rewrite::Unchanged => 0,
            Rewrite::After(at) => at,
            Rewrite::Replaced => {
                self.discard(view, head);
                if let Some(server) = self.server.as_deref_mut() {
                    server.emit_local_replies(self.ctx.scratch, self.out);
                }
                return;
            }
        };
        self.forward_from(from, view, head);
    }

    /// The message is forwarded to the server from this byte on, including the part still to come.
    #[inline(always)]
    fn forward_from(&mut self, at: usize, view: View<'_>, head: Head) {
        view.to_server(at..view.bytes.len(), self.out);
        let left = head.total() - view.bytes.len();
        self.client.stream.rest(left, Disposition::Forward);
        if left > 0 && front::is_request(head.tag) {
            self.begin_request(view, head.tag);
        }
    }

    /// A request whose rest is still to come is forwarded to the server.
    #[cold]
    fn begin_request(&mut self, view: View<'_>, tag: u8) {
        let Some(server) = self.server.as_deref_mut() else { return };
        server.pending.set_half(true);
        let text = match tag {
            _ if self.texts == Texts::Pass => return,
            front::QUERY => StreamingText::Query,
            front::PARSE => StreamingText::Parse,
            _ => return,
        };
        server.state.begin_text(text, &view.bytes[HEAD..]);
    }

    /// The message is dropped, including the part still to come.
    #[inline]
    fn discard(&mut self, view: View<'_>, head: Head) {
        self.client.stream.rest(head.total() - view.bytes.len(), Disposition::Discard);
    }

    /// Drops a Parse of a named statement that can't be held as a whole. It needs no server before its end: a client
    /// that never sends that end occupies none.
    #[cold]
    fn discard_parse(&mut self, view: View<'_>, head: Head) {
        repeat::give_up(self.server.as_deref_mut());
        let too_long = is_too_long(first_byte(view), head.total());
        let why = match too_long {
            true => Refusal::StatementLimit("a prepared statement of more than 16 MiB"),
            false => Refusal::StatementLimit("a prepared statement for which there is no memory"),
        };
        if let Refusal::StatementLimit(why) = why {
            self.client.fails = Some(why);
        }
        self.discard(view, head);
    }

    /// The request that was dropped fails, at its end.
    #[cold]
    fn fail_discarded(&mut self, what: &'static str) -> Result<(), StopReason> {
        let cancelled = self.client.is_cancelled();
        if cancelled && self.fails_at() == FailsAt::Weir {
            (self.client.cancelled, self.client.fails) = (Cancelled::Segment, None);
            self.reply(write_cancelled);
            return Ok(());
        }
        let Some(server) = self.server.as_deref() else { return Err(StopReason::NeedServer) };
        if server.pending.in_copy_in() {
            return Err(StopReason::protocol("a Parse during COPY"));
        }
        if !server.pending.is_skipping() {
            let why = if cancelled { RefusedFor::Cancelled } else { RefusedFor::Limit(what) };
            self.fail_at_server(why, front::PARSE)?;
            self.ctx.counts.client_parses += 1;
        }
        (self.client.cancelled, self.client.fails) = (Cancelled::Nothing, None);
        Ok(())
    }

    /// Where the client's next request fails if it is cancelled.
    fn fails_at(&self) -> FailsAt {
        self.server.as_deref().map_or(FailsAt::Weir, Server::fails_at)
    }

    /// Fails a request with this tag for the client at its server, which receives none of it.
    #[cold]
    fn fail_at_server(&mut self, why: RefusedFor, tag: u8) -> Result<(), StopReason> {
        self.may_begin_segment(tag)?;
        self.must_have_room(tag)?;
        let Some(server) = self.server.as_deref_mut() else { return Err(StopReason::NeedServer) };
        self.ctx.scratch.clear();
        let mut link = Link { client: self.client, server, ctx: self.ctx, composed: &mut self.composed };
        link.fail(why);
        if matches!(tag, front::QUERY | front::FUNCTION_CALL) {
            link.server.pending.request(Expected::Sync);
            put_front::sync(link.ctx.scratch);
        }
        self.out.server(self.ctx.scratch);
        Ok(())
    }

    fn reply(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.ctx.scratch.clear();
        write(self.ctx.scratch);
        self.out.client(self.ctx.scratch);
    }
}

/// A message that refers to no text, statement or portal; `None` for one of an unknown kind.
#[inline]
fn control(server: &mut Server, tag: u8) -> Option<Rewrite> {
    match tag {
        front::SYNC => drop(server.pending.request(Expected::Sync)),
        front::COPY_DONE | front::COPY_FAIL => drop(server.pending.request(Expected::CopyEnd)),
        front::COPY_DATA => {}
        front::FLUSH => server.pending.flush(),
        _ => return None,
    }
    Some(Rewrite::Unchanged)
}

/// How many bytes of a message must be present before [`MessageParser::message`] may read it. `room`: how many bytes
/// may be held of a Parse, whose text is read as a whole. `kept`: whether messages behind a kept one are kept, too.
#[inline]
fn need(reads: Reads, bytes: &[u8], head: Head, (room, kept): (impl Fn() -> usize, impl Fn() -> bool)) -> usize {
    let (texts, total) = (reads.texts, head.total());
    if head.tag == front::SYNC {
        return total.min(HEAD + MAX_SYNC);
    }
    if reads.watched
        && let Some(need) = need_watched(texts, bytes, head)
    {
        return need;
    }
    match (texts, head.tag) {
        (Texts::Pass, front::DESCRIBE) => return total.min(HEAD + 1),
        (Texts::Pass, front::QUERY | front::PARSE) => return total.min(HEAD + QUERY_PREFIX),
        (Texts::Pass, _) => return HEAD,
        (Texts::Read, front::DESCRIBE) => return total.min(HEAD + 1),
        (Texts::Read, front::PARSE) => return total.min(HEAD + QUERY_PREFIX),
        (Texts::Read, front::BIND | front::CLOSE) => return HEAD,
        _ => {}
    }
    match head.tag {
        front::QUERY if texts == Texts::Rename => total.min(HEAD + SEARCHED + 1),
        front::QUERY => total.min(HEAD + QUERY_PREFIX),
        // What may have to be sent again is held until it is whole.
        front::BIND | front::EXECUTE if total <= UNCHARGED => total,
        front::BIND if total <= MAX_KEPT && total <= room() && kept() => total,
        front::EXECUTE => total.min(HEAD + 1),
        front::FUNCTION_CALL => total.min(HEAD + 4),
        front::PARSE => match bytes.get(HEAD) {
            Some(first) if is_too_long(*first, total) || (bytes.len() < total && total > room()) => match first {
                0 => total.min(BEGINNING),
                _ => HEAD + 1,
            },
            Some(_) => total,
            None => total.min(HEAD + 1),
        },
        front::BIND if bytes.len() >= total => HEAD,
        front::BIND => {
            let body = &bytes[HEAD..];
            let open = matches!(frontend::bind_head(body), Ok(None)) && body.len() < MAX_NAMES;
            if open { total.min(HEAD + body.len() + 64) } else { HEAD }
        }
        front::DESCRIBE | front::CLOSE => total.min(HEAD + MAX_NAMES),
        _ => HEAD,
    }
}

/// What is read of messages.
#[derive(Clone, Copy)]
struct Reads {
    texts: Texts,
    /// Statements are counted.
    watched: bool,
}

/// How many bytes [`need`] requires where statements are counted, if more than otherwise.
#[cold]
fn need_watched(texts: Texts, bytes: &[u8], head: Head) -> Option<usize> {
    let total = head.total();
    let names = || match frontend::bind_head(bytes.get(HEAD..).unwrap_or_default()) {
        Ok(None) if bytes.len() < HEAD + MAX_NAMES => total.min(bytes.len() + 64),
        _ => HEAD,
    };
    match head.tag {
        front::QUERY => Some(total.min(HEAD + sql::MAX_READ.max(SEARCHED) + 1)),
        front::EXECUTE => Some(total.min(HEAD + MAX_NAMES)),
        front::PARSE if texts != Texts::Rename => Some(total.min(HEAD + sql::MAX_READ + 65)),
        front::BIND if texts != Texts::Rename && bytes.len() < total => Some(names()),
        _ => None,
    }
}

/// Whether a Parse is that of a named statement, and is not to be held as a whole ([`need`]).
fn is_cut_short(view: View<'_>, head: Head) -> bool {
    let first = first_byte(view);
    first != 0 && (view.bytes.len() < head.total() || is_too_long(first, head.total()))
}

/// The first byte of a message's body; 0 where it has none.
fn first_byte(view: View<'_>) -> u8 {
    view.bytes.get(HEAD).copied().unwrap_or_default()
}

/// Whether there is a message of this kind that a client may send, beside Terminate.
fn is_known(tag: u8) -> bool {
    front::is_request(tag)
        || matches!(tag, front::SYNC | front::FLUSH | front::COPY_DATA | front::COPY_DONE | front::COPY_FAIL)
}

/// A server that is sent the beginning of a Sync waits for its end.
#[cold]
fn long_sync() -> StopReason {
    StopReason::protocol("a Sync with a long body")
}

#[cold]
fn unexpected(tag: u8) -> StopReason {
    StopReason::protocol(format!("invalid frontend message type {tag}"))
}
