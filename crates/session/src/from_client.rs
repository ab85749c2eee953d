//! From the client to the server: what each message of a client that is logged in means for the link.
//!
//! Owns the walk over a client's messages and the choice of what each one asks for. What statements are called on servers is
//! in `naming`. Must not know where servers come from: it says when it needs one.
//!
//! Bodies are read only where a decision needs them; everything else streams. In session mode nothing is renamed.
//! Source of the messages: PostgreSQL documentation, "Message Formats" and "Message Flow".

use weir_base::PoolMode;
use weir_pgwire::tag::front;
use weir_pgwire::{Dirty, Effects, ErrorFields, HEAD, Head, Malformed, frontend, put_back};

use crate::client::Client;
use crate::frame_reader::{Disposition, Piece};
use crate::out::{Out, View};
use crate::params::ParamTable;
use crate::pending::Expected;
use crate::refusal::Refusal;
use crate::server::Server;
use crate::state::{self, StatePolicy};
use crate::statements::{Interner, PoolStatements};

/// The longest Parse of a named statement; a longer one is refused.
pub const MAX_HELD_PARSE: usize = 16 << 20;

/// The longest Parse of the unnamed statement that is held, to be sent again to another server; a longer one streams.
pub const MAX_HELD_UNNAMED: usize = 1 << 20;

/// The most bytes of Parse messages that are written to a server at once; one more may go beyond it. A Bind of a few bytes may
/// ask for a Parse of a megabyte.
const MAX_COMPOSED: usize = 1 << 20;

/// How much of a simple query is looked at: enough for any head that matters.
const QUERY_PREFIX: usize = 512;

/// The longest names in a Bind, Describe or Close, together.
pub(crate) const MAX_NAMES: usize = 8 << 10;

/// What a request is answered with that was cancelled while it waited for a server: PostgreSQL's words.
const CANCELLED: ErrorFields<'static> = ErrorFields {
    severity: "ERROR",
    sqlstate: "57014",
    message: "canceling statement due to user request",
    detail: Some("It was still waiting for a server connection."),
    hint: None,
};

/// What a worker's sessions share while one of them is fed.
pub struct Context<'a> {
    /// The statements of the worker.
    pub interner: &'a mut Interner,
    /// The statements of the pool.
    pub statements: &'a mut PoolStatements,
    /// The tracked parameters.
    pub params: &'a ParamTable,
    /// Buffers that held unnamed statements, for the next ones.
    pub spare: &'a mut Vec<Vec<u8>>,
    /// A buffer to compose messages in; its content means nothing between calls.
    pub scratch: &'a mut Vec<u8>,
    /// What happened, to be added to the pool's statistics.
    pub counts: &'a mut StatementCounts,
    /// The most statements of ours on a server.
    pub max_prepared: usize,
    /// The most named statements of a client.
    pub client_statements: usize,
    /// The most bytes of statements of a client.
    pub client_memory: u64,
    /// What messages may be, in either direction.
    pub messages: MessagePolicy,
    /// What is done about session state that is lost.
    pub state: StatePolicy,
    /// The most segments of a client (up to a Sync each, or a simple query) that its server has to answer at a time; the next
    /// one is not sent before.
    pub max_pending_segments: u32,
}

/// Which messages are passed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MessagePolicy {
    /// The longest one, in bytes, its tag included (`max_packet_size`).
    pub longest: u32,
    /// Whether queries may come by the simple protocol.
    pub simple: SimpleQueries,
}

/// What becomes of queries that come by the simple protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SimpleQueries {
    /// They are passed on.
    Allowed,
    /// Their client is refused (`disable_pqexec`).
    Refused,
}

impl MessagePolicy {
    /// Whether a message is too long to be passed on.
    #[inline]
    pub(crate) fn excludes(self, head: Head) -> bool {
        head.total() > self.longest as usize
    }
}

/// What feeding a session added up to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StatementCounts {
    /// Parse messages of clients.
    pub client_parses: u64,
    /// Parse messages sent to servers.
    pub server_parses: u64,
    /// Bind messages of clients.
    pub binds: u64,
}

/// How far the reading of a client's input came.
#[derive(Debug, PartialEq, Eq)]
pub struct ClientOutcome {
    /// Bytes of the input that are used up; the rest must be offered again.
    pub used: usize,
    /// Why it stopped there.
    pub stop: StopReason,
}

/// Why the reading of a client's input stopped.
#[derive(Debug, PartialEq, Eq)]
pub enum StopReason {
    /// All of it is used up.
    EndOfInput,
    /// The next message needs a server, and none is linked.
    NeedServer,
    /// The next message must wait for replies of the linked server.
    AwaitReplies(ReplyWait),
    /// The client sent Terminate.
    Terminate,
    /// The client must be refused.
    Refuse(Refusal),
}

/// What a client's next message waits for, where its server must reply to earlier ones first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyWait {
    /// The server has as many segments to answer as it may ([`Context::max_pending_segments`]).
    SegmentLimit,
    /// The queue of pending replies is full, or too much was composed at once; the server was sent a Flush.
    QueueFull,
    /// The message builds upon a request of an earlier segment that the server may still skip.
    EarlierSegment,
    /// The reply is ours, and depends on the transaction's status after an earlier segment.
    TransactionStatus,
    /// The message is Terminate: a server answers what came before it first.
    Termination,
}

/// Takes in what a client sent. `server` is the one linked to it, if any.
pub fn feed<O: Out>(
    client: &mut Client,
    mut server: Option<&mut Server>,
    input: &[u8],
    ctx: &mut Context<'_>,
    out: &mut O,
) -> ClientOutcome {
    let mut at = 0;
    let mut composed = 0;
    let texts = match client.mode {
        PoolMode::Session => Texts::Pass,
        _ if ctx.max_prepared > 0 || client.prepared() > 0 => Texts::Rename,
        _ => Texts::Watch,
    };
    loop {
        if let Some(what) = client.fails.filter(|_| client.stream.is_between()) {
            let failed = Step { client, server: server.as_deref_mut(), ctx, out, texts, composed: &mut composed }
                .fail_thrown_away(what);
            if let Err(stop) = failed {
                return ClientOutcome { used: at, stop };
            }
        }
        let piece = match next(client, texts, input, &mut at, ctx) {
            Ok(piece) => piece,
            Err(malformed) => return ClientOutcome { used: at, stop: StopReason::Refuse(protocol(malformed)) },
        };
        let done = match piece {
            Piece::End => {
                client.stream.charge(ctx.statements.account());
                return ClientOutcome { used: at, stop: StopReason::EndOfInput };
            }
            Piece::Rest(range, Disposition::Forward) => {
                if let Some(server) = server.as_deref_mut() {
                    server.state.more_text(&input[range.clone()]);
                    server.pending.streamed(range.len());
                    out.server_range(range);
                    if !client.stream.is_forwarding() {
                        server.pending.set_half(false);
                        state::end_text(server);
                    }
                }
                continue;
            }
            Piece::Rest(_, Disposition::Discard) => continue,
            Piece::Here(here) => {
                let view = View { bytes: &input[here..], at: Some(here) };
                Step { client, server: server.as_deref_mut(), ctx, out, texts, composed: &mut composed }
                    .message(view)
                    .map(|used| at += used)
            }
            Piece::Held => {
                let held = client.stream.take_held();
                let view = View { bytes: &held, at: None };
                let done = Step { client, server: server.as_deref_mut(), ctx, out, texts, composed: &mut composed }
                    .message(view);
                match done {
                    Ok(_) => client.stream.give_back(held),
                    Err(_) => {
                        client.stream.keep(held);
                        client.stream.charge(ctx.statements.account());
                    }
                }
                done.map(|_| ())
            }
        };
        if let Err(stop) = done {
            return ClientOutcome { used: at, stop };
        }
    }
}

/// The next thing to do with the input.
#[inline]
fn next(
    client: &mut Client,
    texts: Texts,
    input: &[u8],
    at: &mut usize,
    ctx: &Context<'_>,
) -> Result<Piece, Malformed> {
    let held = client.stream.charged();
    let Client { stream, statements, unnamed, .. } = client;
    let room = || {
        let statements = statements.as_ref().map_or(0, |statements| statements.cost()) + unnamed.size() as u64;
        let own = ctx.client_memory.saturating_sub(statements);
        own.min(ctx.statements.account().left() + held) as usize
    };
    stream.next(input, at, |bytes, head| need(texts, bytes, head, room))
}

/// How many bytes of a message must be there before [`Step::message`] may look at it. `room` says how many may be held of a
/// Parse, whose text is looked at as a whole.
#[inline]
fn need(texts: Texts, bytes: &[u8], head: Head, room: impl Fn() -> usize) -> usize {
    let total = head.total();
    match (texts, head.tag) {
        (Texts::Pass, front::DESCRIBE | front::PARSE) => return total.min(HEAD + 1),
        (Texts::Pass, _) => return HEAD,
        (Texts::Watch, front::DESCRIBE) => return total.min(HEAD + 1),
        (Texts::Watch, front::PARSE) => return total.min(HEAD + QUERY_PREFIX),
        (Texts::Watch, front::BIND | front::CLOSE) => return HEAD,
        _ => {}
    }
    match head.tag {
        front::QUERY => total.min(HEAD + QUERY_PREFIX),
        front::EXECUTE => total.min(HEAD + 1),
        front::FUNCTION_CALL => total.min(HEAD + 4),
        front::PARSE => match bytes.get(HEAD) {
            Some(first) if is_too_long(*first, total) => HEAD + 1,
            Some(_) if bytes.len() < total && total > room() => HEAD + 1,
            Some(_) => total,
            None => total.min(HEAD + 1),
        },
        front::BIND => {
            let body = &bytes[HEAD..bytes.len().min(total)];
            let open = matches!(frontend::bind_head(body), Ok(None)) && body.len() < MAX_NAMES;
            if open { total.min(HEAD + body.len() + 64) } else { HEAD }
        }
        front::DESCRIBE | front::CLOSE => total.min(HEAD + MAX_NAMES),
        _ => HEAD,
    }
}

/// Whether a Parse of so many bytes, whose name begins with `first`, is too long to be held.
pub(crate) fn is_too_long(first: u8, total: usize) -> bool {
    total > if first == 0 { MAX_HELD_UNNAMED } else { MAX_HELD_PARSE }
}

pub(crate) fn protocol(malformed: Malformed) -> Refusal {
    Refusal::Protocol(malformed.to_string())
}

/// One message of a client, with everything it may touch.
pub(crate) struct Step<'s, 'c, O> {
    pub(crate) client: &'s mut Client,
    pub(crate) server: Option<&'s mut Server>,
    pub(crate) ctx: &'s mut Context<'c>,
    pub(crate) out: &'s mut O,
    /// What is done with the texts of queries and statements.
    pub(crate) texts: Texts,
    /// Bytes of Parse messages that were written in this feeding: they may be many more than the client's own.
    pub(crate) composed: &'s mut usize,
}

/// What is done with the texts of queries and statements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Texts {
    /// They pass unread: in session mode, whose server is cleaned whatever they held.
    Pass,
    /// They are read for the state that they leave, and pass under the client's names: `max_prepared_statements` is 0.
    Watch,
    /// Statements are called by our names on the server, too.
    Rename,
}

impl<O: Out> Step<'_, '_, O> {
    /// Handles the message at the beginning of `view`. Returns how many of its bytes are used up; the rest of the message
    /// has its disposition by then.
    fn message(&mut self, view: View<'_>) -> Result<usize, StopReason> {
        let Ok(Some(head)) = Head::parse(view.bytes) else {
            return Err(StopReason::Refuse(Refusal::Broken("a message without a head")));
        };
        let view = View { bytes: &view.bytes[..view.bytes.len().min(head.total())], ..view };
        if head.tag == front::TERMINATE {
            // What was asked before is answered first, as a server does it.
            let answers = self.server.as_deref().is_some_and(|server| server.pending.will_be_ready());
            return Err(if answers { StopReason::AwaitReplies(ReplyWait::Termination) } else { StopReason::Terminate });
        }
        if self.ctx.messages.excludes(head) {
            return Err(StopReason::Refuse(Refusal::MessageTooLong));
        }
        if head.tag == front::QUERY && self.ctx.messages.simple == SimpleQueries::Refused {
            return Err(StopReason::Refuse(Refusal::SimpleQuery));
        }
        if self.client.skipping || self.client.cancelled {
            return Ok(self.cancelled(view, head));
        }
        if self.texts == Texts::Rename && head.tag == front::PARSE && self.is_cut_short(view, head) {
            return Ok(self.throw_away(view, head));
        }
        let Some(server) = self.server.as_deref_mut() else { return self.unlinked(view, head) };
        if server.pending.is_skipping() && head.tag != front::SYNC {
            // The server would read and ignore it.
            return Ok(self.rest(view, head, Disposition::Discard));
        }
        if server.pending_segments() >= self.ctx.max_pending_segments && begins_segment(server, head.tag) {
            return Err(StopReason::AwaitReplies(ReplyWait::SegmentLimit));
        }
        if server.pending.in_copy_in() {
            return self.in_copy(view, head);
        }
        let prepares = matches!(head.tag, front::PARSE | front::BIND | front::DESCRIBE);
        if server.is_full() || (prepares && *self.composed > MAX_COMPOSED) {
            return Err(self.wait_for_answers());
        }
        match self.linked(view, head) {
            Err(StopReason::Refuse(Refusal::StatementLimit(what))) => {
                self.fail(what);
                Ok(self.rest(view, head, Disposition::Discard))
            }
            done => done,
        }
    }

    /// Whether a Parse is that of a named statement, and is not to be held as a whole ([`need`]).
    fn is_cut_short(&self, view: View<'_>, head: Head) -> bool {
        let first = view.bytes.get(HEAD).copied().unwrap_or_default();
        first != 0 && (view.bytes.len() < head.total() || is_too_long(first, head.total()))
    }

    /// The request that was thrown away fails, at its end.
    fn fail_thrown_away(&mut self, what: &'static str) -> Result<(), StopReason> {
        if self.client.cancelled {
            (self.client.cancelled, self.client.skipping, self.client.fails) = (false, true, None);
            self.answer(|buffer| put_back::error(buffer, &CANCELLED));
            return Ok(());
        }
        let Some(server) = self.server.as_deref_mut() else { return Err(StopReason::NeedServer) };
        if server.pending.in_copy_in() {
            return Err(StopReason::Refuse(Refusal::Protocol("a Parse during COPY".into())));
        }
        if !server.pending.is_skipping() {
            if server.pending_segments() >= self.ctx.max_pending_segments && begins_segment(server, front::PARSE) {
                return Err(StopReason::AwaitReplies(ReplyWait::SegmentLimit));
            }
            if server.is_full() {
                return Err(self.wait_for_answers());
            }
            self.ctx.counts.client_parses += 1;
            self.fail(what);
        }
        self.client.fails = None;
        Ok(())
    }

    /// A message of a client without a server.
    fn unlinked(&mut self, view: View<'_>, head: Head) -> Result<usize, StopReason> {
        match head.tag {
            front::SYNC if head.total() > HEAD => {
                Err(StopReason::Refuse(Refusal::Protocol("a Sync with a body".into())))
            }
            front::SYNC => {
                self.answer(|buffer| put_back::ready(buffer, b'I'));
                Ok(self.rest(view, head, Disposition::Discard))
            }
            // Late COPY data after an error, and a Flush with nothing to flush, are ignored by a server too.
            front::FLUSH | front::COPY_DATA | front::COPY_DONE | front::COPY_FAIL => {
                Ok(self.rest(view, head, Disposition::Discard))
            }
            front::QUERY if self.texts == Texts::Rename && self.names_own_statement(view, head) => {
                self.deallocate_locally(view);
                self.answer(|buffer| {
                    put_back::command_complete(buffer, "DEALLOCATE");
                    put_back::ready(buffer, b'I');
                });
                Ok(self.rest(view, head, Disposition::Discard))
            }
            front::PARSE | front::CLOSE if self.texts == Texts::Rename && self.needs_no_server(view, head) => {
                Ok(self.rest(view, head, Disposition::Discard))
            }
            tag if is_request(tag) => Err(StopReason::NeedServer),
            tag => Err(StopReason::Refuse(unexpected(tag))),
        }
    }

    /// A message of a client whose request was cancelled before anything of it was sent to a server: the error is ours, and so
    /// is the way to the end of the request's segment, as PostgreSQL goes it (documentation, "Message Flow").
    #[cold]
    fn cancelled(&mut self, view: View<'_>, head: Head) -> usize {
        if self.client.skipping {
            if head.tag == front::SYNC {
                self.client.skipping = false;
                self.answer(|buffer| put_back::ready(buffer, b'I'));
            }
        } else if is_request(head.tag) {
            self.client.cancelled = false;
            self.client.skipping = !matches!(head.tag, front::QUERY | front::FUNCTION_CALL);
            let whole = !self.client.skipping;
            self.answer(|buffer| {
                put_back::error(buffer, &CANCELLED);
                if whole {
                    put_back::ready(buffer, b'I');
                }
            });
        }
        self.rest(view, head, Disposition::Discard)
    }

    fn linked(&mut self, view: View<'_>, head: Head) -> Result<usize, StopReason> {
        let used = match (head.tag, self.texts) {
            (front::QUERY, Texts::Rename) => return self.query(view, head),
            (front::QUERY, Texts::Watch) => return self.watched_query(view, head),
            (front::QUERY, Texts::Pass) => self.plain(view, head, Expected::Query),
            (front::PARSE, Texts::Rename) => return self.parse(view, head),
            (front::PARSE, texts) => {
                self.ctx.counts.client_parses += 1;
                self.ctx.counts.server_parses += 1;
                if let Some(server) = self.server.as_deref_mut().filter(|_| view.bytes.get(HEAD) != Some(&0)) {
                    // Its name stays on the server.
                    server.state.dirty.insert(Dirty::STATEMENTS);
                }
                if texts == Texts::Watch {
                    self.watched_parse(view, head)
                } else {
                    self.plain(view, head, Expected::Parse)
                }
            }
            (front::BIND, texts) => {
                self.ctx.counts.binds += 1;
                match texts {
                    Texts::Rename => return self.bind(view, head),
                    // Its portal's name may still be on its way.
                    Texts::Watch => self.binds_any(self.parsed_effects()),
                    Texts::Pass => {}
                }
                self.plain(view, head, Expected::Bind)
            }
            (front::DESCRIBE | front::CLOSE, Texts::Rename) => return self.named(view, head),
            (front::DESCRIBE, _) => {
                let statement = view.bytes.get(HEAD) == Some(&b'S');
                self.plain(view, head, if statement { Expected::DescribeStatement } else { Expected::DescribeRows })
            }
            (front::CLOSE, _) => self.plain(view, head, Expected::Close),
            (front::EXECUTE, Texts::Pass) => self.plain(view, head, Expected::Execute),
            (front::EXECUTE, _) => self.execute(view, head),
            (front::SYNC, _) => self.plain(view, head, Expected::Sync),
            (front::FUNCTION_CALL, Texts::Pass) => self.plain(view, head, Expected::FunctionCall),
            (front::FUNCTION_CALL, _) => self.function_call(view, head),
            (front::COPY_DONE | front::COPY_FAIL, _) => self.plain(view, head, Expected::CopyEnd),
            (front::COPY_DATA, _) => self.rest(view, head, Disposition::Forward),
            (front::FLUSH, _) => {
                self.pending().flush();
                self.rest(view, head, Disposition::Forward)
            }
            (tag, _) => return Err(StopReason::Refuse(unexpected(tag))),
        };
        Ok(used)
    }

    /// While the server reads COPY data, anything but that data, its end, Flush and Sync breaks the protocol; what it would
    /// lead to can't be counted.
    fn in_copy(&mut self, view: View<'_>, head: Head) -> Result<usize, StopReason> {
        match head.tag {
            front::COPY_DATA => self.pending().copy_data(),
            front::FLUSH => {}
            front::COPY_DONE | front::COPY_FAIL => drop(self.pending().request(Expected::CopyEnd)),
            front::SYNC => drop(self.pending().request(Expected::Sync)),
            tag if is_request(tag) => {
                let what = format!("unexpected message type 0x{tag:02X} during COPY");
                return Err(StopReason::Refuse(Refusal::Protocol(what)));
            }
            tag => return Err(StopReason::Refuse(unexpected(tag))),
        }
        Ok(self.rest(view, head, Disposition::Forward))
    }

    /// Forwards a message as it is and expects its answer.
    #[inline]
    pub(crate) fn plain(&mut self, view: View<'_>, head: Head, what: Expected) -> usize {
        self.plain_with(view, head, what, Effects::NONE)
    }

    /// The same for one that may leave something on the server.
    #[inline]
    pub(crate) fn plain_with(&mut self, view: View<'_>, head: Head, what: Expected, effects: Effects) -> usize {
        self.pending().request_with(what, effects);
        self.rest(view, head, Disposition::Forward)
    }

    /// Sends or drops what there is of a message, and decides the same for its rest.
    #[inline]
    pub(crate) fn rest(&mut self, view: View<'_>, head: Head, disposition: Disposition) -> usize {
        if disposition == Disposition::Forward {
            view.to_server(0..view.bytes.len(), self.out);
        }
        self.follow(view, head, disposition)
    }

    /// Decides the disposition of what is still to come of a message.
    #[inline]
    pub(crate) fn follow(&mut self, view: View<'_>, head: Head, disposition: Disposition) -> usize {
        let left = head.total() - view.bytes.len();
        if left > 0 && disposition == Disposition::Forward && is_request(head.tag) {
            self.pending().set_half(true);
            if matches!(head.tag, front::QUERY | front::PARSE) && self.texts != Texts::Pass {
                self.begin_text(view, head.tag);
            }
        }
        self.client.stream.rest(left, disposition);
        view.bytes.len()
    }

    /// Sends our answers whose turn has come.
    pub(crate) fn emit(&mut self) {
        if let Some(server) = self.server.as_deref_mut() {
            crate::from_server::emit(server, self.ctx.scratch, self.out);
        }
    }

    pub(crate) fn answer(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.ctx.scratch.clear();
        write(self.ctx.scratch);
        self.out.client(self.ctx.scratch);
    }

    /// The linked server's queue. Only called where a server is linked.
    pub(crate) fn pending(&mut self) -> &mut crate::pending::PendingReplies {
        &mut self.server.as_deref_mut().expect("the caller saw a server").pending
    }
}

/// What is looked at of a simple query's text, and whether that is the whole.
pub(crate) fn text_seen(view: View<'_>, head: Head) -> (&[u8], bool) {
    match whole_text(view, head) {
        Some(text) => (text, true),
        None => (prefix_of(view.bytes), false),
    }
}

/// A simple query's text, if it is short enough to be looked at whole: however its bytes arrive, it is or it is not.
pub(crate) fn whole_text(view: View<'_>, head: Head) -> Option<&[u8]> {
    (head.total() <= HEAD + QUERY_PREFIX && view.bytes.len() == head.total()).then(|| text_of(view.bytes))
}

/// The part that is looked at of the text of a longer query.
fn prefix_of(message: &[u8]) -> &[u8] {
    &message[HEAD..message.len().min(HEAD + QUERY_PREFIX)]
}

/// What there is of a simple query's text.
pub(crate) fn text_of(message: &[u8]) -> &[u8] {
    let body = &message[HEAD..];
    body.strip_suffix(&[0]).unwrap_or(body)
}

/// Whether a message is the first of its segment: before it the server may be given to another client.
#[inline]
fn begins_segment(server: &Server, tag: u8) -> bool {
    server.pending.is_at_boundary() && (is_request(tag) || tag == front::SYNC)
}

fn is_request(tag: u8) -> bool {
    matches!(
        tag,
        front::QUERY
            | front::PARSE
            | front::BIND
            | front::DESCRIBE
            | front::EXECUTE
            | front::CLOSE
            | front::FUNCTION_CALL
    )
}

fn unexpected(tag: u8) -> Refusal {
    Refusal::Protocol(format!("unknown message type {:?} from the client", char::from(tag)))
}
