//! From the client to the server: what each message of a client that is logged in means for the link.
//!
//! Owns the walk over a client's messages, the renaming of statements, and the answers that Weir gives by itself. Must not
//! know where servers come from: it says when it needs one.
//!
//! Bodies are read only where a decision needs them; everything else streams. In session mode nothing is renamed.
//! Source of the messages: PostgreSQL documentation, "Message Formats" and "Message Flow".

use std::borrow::Cow;

use weir_base::Mode;
use weir_pgwire::tag::front;
use weir_pgwire::{Dealloc, Dirty, HEAD, Head, Malformed, Of, SqlHead, TxStatus, frontend, put_back, put_front, sql};

use crate::assembly::{Fate, Piece};
use crate::client::{Client, Unnamed};
use crate::out::{Out, View};
use crate::outstanding::Expect;
use crate::params::ParamTable;
use crate::refusal::Refusal;
use crate::server::{ParseNote, Server};
use crate::statements::{Accepted, Interner, Key, NAME_PREFIX, NotInterned, OnServer, Statement};

/// The most bytes of a Parse that are held; a longer named one is refused, a longer unnamed one streams.
pub const MAX_HELD_PARSE: usize = 16 << 20;

/// How much of a simple query is looked at: enough for any head that matters.
const QUERY_PREFIX: usize = 512;

/// The longest names in a Bind, Describe or Close, together.
const MAX_NAMES: usize = 8 << 10;

/// A statement that exists only to be deallocated, in place of one that the server knows by another name.
const GONE: &[u8] = b"weir_gone";

/// What a worker's sessions share while one of them is fed.
pub struct Context<'a> {
    /// The statements of the worker.
    pub interner: &'a mut Interner,
    /// The statements that servers of the pool have accepted.
    pub accepted: &'a mut Accepted,
    /// The tracked parameters.
    pub params: &'a ParamTable,
    /// A buffer to compose messages in; its content means nothing between calls.
    pub scratch: &'a mut Vec<u8>,
    /// What happened, to be added to the pool's statistics.
    pub counts: &'a mut Counts,
    /// The most statements of ours on a server.
    pub max_prepared: usize,
    /// The most named statements of a client.
    pub client_statements: usize,
}

/// What feeding a session added up to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Parse messages of clients.
    pub client_parses: u64,
    /// Parse messages sent to servers.
    pub server_parses: u64,
    /// Bind messages of clients.
    pub binds: u64,
}

/// How far the input of a client got.
#[derive(Debug, PartialEq, Eq)]
pub struct Fed {
    /// Bytes of the input that are used up; the rest must be offered again.
    pub used: usize,
    /// What must happen before more is offered.
    pub then: Then,
}

/// What the client's input waits for.
#[derive(Debug, PartialEq, Eq)]
pub enum Then {
    /// More bytes.
    More,
    /// A server.
    NeedServer,
    /// The server must answer some of what it was asked first.
    Full,
    /// Nothing: the client said goodbye.
    Leaves,
    /// Nothing: the client must be refused.
    Refuse(Refusal),
}

/// Takes in what a client sent. `server` is the one linked to it, if any.
pub fn feed<O: Out>(
    client: &mut Client,
    mut server: Option<&mut Server>,
    input: &[u8],
    ctx: &mut Context<'_>,
    out: &mut O,
) -> Fed {
    let mut at = 0;
    let mode = client.mode;
    loop {
        let piece = match client.stream.next(input, &mut at, |bytes, head| need(mode, bytes, head)) {
            Ok(piece) => piece,
            Err(malformed) => return Fed { used: at, then: Then::Refuse(protocol(malformed)) },
        };
        let done = match piece {
            Piece::End => return Fed { used: at, then: Then::More },
            Piece::Rest(range, fate) => {
                if fate == Fate::Forward && server.is_some() {
                    out.server_range(range);
                }
                continue;
            }
            Piece::Here(here) => {
                let view = View { bytes: &input[here..], at: Some(here) };
                Step { client, server: server.as_deref_mut(), ctx, out }.message(view).map(|used| at += used)
            }
            Piece::Held => {
                let held = client.stream.take_held();
                let view = View { bytes: &held, at: None };
                let done = Step { client, server: server.as_deref_mut(), ctx, out }.message(view);
                match done {
                    Ok(_) => client.stream.give_back(held),
                    Err(_) => client.stream.keep(held),
                }
                done.map(|_| ())
            }
        };
        if let Err(then) = done {
            return Fed { used: at, then };
        }
    }
}

/// How many bytes of a message must be there before [`Step::message`] may look at it.
#[inline]
fn need(mode: Mode, bytes: &[u8], head: Head) -> usize {
    let total = head.total();
    if mode == Mode::Session {
        return if head.tag == front::DESCRIBE { total.min(HEAD + 1) } else { HEAD };
    }
    match head.tag {
        front::QUERY => total.min(HEAD + QUERY_PREFIX),
        front::PARSE if total > MAX_HELD_PARSE => HEAD + 1,
        front::PARSE => total,
        front::BIND => {
            let body = &bytes[HEAD..bytes.len().min(total)];
            let open = matches!(frontend::bind_head(body), Ok(None)) && body.len() < MAX_NAMES;
            if open { total.min(HEAD + body.len() + 64) } else { HEAD }
        }
        front::DESCRIBE | front::CLOSE => total.min(HEAD + MAX_NAMES),
        _ => HEAD,
    }
}

fn protocol(malformed: Malformed) -> Refusal {
    Refusal::Protocol(malformed.to_string())
}

/// One message of a client, with everything it may touch.
struct Step<'s, 'c, O> {
    client: &'s mut Client,
    server: Option<&'s mut Server>,
    ctx: &'s mut Context<'c>,
    out: &'s mut O,
}

impl<O: Out> Step<'_, '_, O> {
    /// Handles the message at the beginning of `view`. Returns how many of its bytes are used up; the rest of the message
    /// has its fate by then.
    fn message(&mut self, view: View<'_>) -> Result<usize, Then> {
        let Ok(Some(head)) = Head::parse(view.bytes) else {
            return Err(Then::Refuse(Refusal::Broken("a message without a head")));
        };
        let view = View { bytes: &view.bytes[..view.bytes.len().min(head.total())], ..view };
        if head.tag == front::TERMINATE {
            return Err(Then::Leaves);
        }
        let Some(server) = self.server.as_deref_mut() else { return self.unlinked(view, head) };
        if server.owed.is_skipping() && head.tag != front::SYNC {
            // The server would read and ignore it.
            return Ok(self.rest(view, head, Fate::Discard));
        }
        if server.owed.is_full() {
            return Err(Then::Full);
        }
        if server.owed.in_copy_in() {
            return self.in_copy(view, head);
        }
        self.linked(view, head)
    }

    /// A message of a client without a server.
    fn unlinked(&mut self, view: View<'_>, head: Head) -> Result<usize, Then> {
        match head.tag {
            front::SYNC => {
                self.answer(|buffer| put_back::ready(buffer, b'I'));
                Ok(self.rest(view, head, Fate::Discard))
            }
            // Late COPY data after an error, and a Flush with nothing to flush, are ignored by a server too.
            front::FLUSH | front::COPY_DATA | front::COPY_DONE | front::COPY_FAIL => {
                Ok(self.rest(view, head, Fate::Discard))
            }
            front::QUERY if self.client.mode != Mode::Session && self.names_own_statement(view, head) => {
                self.deallocate_locally(view);
                self.answer(|buffer| {
                    put_back::command_complete(buffer, "DEALLOCATE");
                    put_back::ready(buffer, b'I');
                });
                Ok(self.rest(view, head, Fate::Discard))
            }
            front::PARSE | front::CLOSE if self.client.mode != Mode::Session && self.needs_no_server(view, head) => {
                Ok(self.rest(view, head, Fate::Discard))
            }
            tag if is_request(tag) => Err(Then::NeedServer),
            tag => Err(Then::Refuse(unexpected(tag))),
        }
    }

    /// Answers a Parse of a statement that the pool's servers have accepted before, and a Close of one that only we know,
    /// for a client without a server. A program that prepares while others of its own hold all servers would wait for
    /// itself otherwise. Returns whether it was one of these.
    fn needs_no_server(&mut self, view: View<'_>, head: Head) -> bool {
        let Some(body) = view.bytes.get(HEAD..head.total()) else { return false };
        if head.tag == front::CLOSE {
            let Ok(named) = frontend::named(body) else { return false };
            if named.of == Of::Portal || !self.knows(named.name) {
                return false;
            }
            self.forget(named.name);
            self.answer(put_back::close_complete);
            return true;
        }
        let Ok(parse) = frontend::parse(body) else { return false };
        let room = self.client.prepared() < self.ctx.client_statements;
        if parse.name.is_empty() || self.knows(parse.name) || !room {
            return false;
        }
        let known = self.ctx.interner.find(parse.rest).filter(|s| self.ctx.accepted.contains(s.key()));
        let Some(statement) = known else { return false };
        self.ctx.counts.client_parses += 1;
        self.client.statements_mut().insert(parse.name, statement);
        self.answer(put_back::parse_complete);
        true
    }

    fn linked(&mut self, view: View<'_>, head: Head) -> Result<usize, Then> {
        let renames = self.client.mode != Mode::Session;
        let used = match head.tag {
            front::QUERY if renames => self.query(view, head),
            front::QUERY => self.plain(view, head, Expect::Query),
            front::PARSE if renames => return self.parse(view, head),
            front::PARSE => {
                self.ctx.counts.client_parses += 1;
                self.ctx.counts.server_parses += 1;
                self.plain(view, head, Expect::Parse)
            }
            front::BIND => {
                self.ctx.counts.binds += 1;
                if renames {
                    return self.bind(view, head);
                }
                self.plain(view, head, Expect::Bind)
            }
            front::DESCRIBE | front::CLOSE if renames => return self.named(view, head),
            front::DESCRIBE => {
                let statement = view.bytes.get(HEAD) == Some(&b'S');
                self.plain(view, head, if statement { Expect::DescribeStatement } else { Expect::DescribeRows })
            }
            front::CLOSE => self.plain(view, head, Expect::Close),
            front::EXECUTE => self.plain(view, head, Expect::Execute),
            front::SYNC => self.plain(view, head, Expect::Sync),
            front::FUNCTION_CALL => self.plain(view, head, Expect::FunctionCall),
            front::COPY_DONE | front::COPY_FAIL => self.plain(view, head, Expect::CopyEnd),
            front::COPY_DATA => self.rest(view, head, Fate::Forward),
            front::FLUSH => {
                self.owed().flush();
                self.rest(view, head, Fate::Forward)
            }
            tag => return Err(Then::Refuse(unexpected(tag))),
        };
        Ok(used)
    }

    /// While the server reads COPY data, anything but that data, its end, Flush and Sync is an error that ends the COPY;
    /// what it leads to can't be counted, so the server won't be used again.
    fn in_copy(&mut self, view: View<'_>, head: Head) -> Result<usize, Then> {
        match head.tag {
            front::COPY_DATA | front::FLUSH => {}
            front::COPY_DONE | front::COPY_FAIL => drop(self.owed().request(Expect::CopyEnd)),
            front::SYNC => drop(self.owed().request(Expect::Sync)),
            tag if is_request(tag) => {
                self.owed().doubt();
                if let Some(server) = self.server.as_deref_mut() {
                    server.spoiled = true;
                }
            }
            tag => return Err(Then::Refuse(unexpected(tag))),
        }
        Ok(self.rest(view, head, Fate::Forward))
    }

    /// Forwards a message as it is and expects its answer.
    #[inline]
    fn plain(&mut self, view: View<'_>, head: Head, what: Expect) -> usize {
        self.owed().request(what);
        self.rest(view, head, Fate::Forward)
    }

    fn query(&mut self, view: View<'_>, head: Head) -> usize {
        let text = text_of(view.bytes);
        let whole = view.bytes.len() == head.total();
        let what = if whole { sql::head(text) } else { sql::head_of_prefix(text) };
        if let SqlHead::Deallocate(Dealloc::Name(name)) = &what
            && self.knows(name)
            && self.server.as_ref().is_some_and(|s| s.status != TxStatus::Failed)
        {
            self.forget(&name.clone());
            self.owed().request(Expect::LocalDeallocate);
            self.emit();
            return self.rest(view, head, Fate::Discard);
        }
        // These are only answered for a text that is one statement.
        let harmless =
            matches!(what, SqlHead::SetLocal | SqlHead::DeclareCursor { hold: false } | SqlHead::CreateOther);
        let creates = matches!(what, SqlHead::CreateTemp);
        self.client.drop_unnamed();
        if let Some(server) = self.server.as_deref_mut() {
            server.unnamed = None;
            server.harmless = harmless && server.owed.is_empty();
            if creates {
                server.dirty.insert(Dirty::TEMP);
            }
        }
        self.plain(view, head, Expect::Query)
    }

    fn parse(&mut self, view: View<'_>, head: Head) -> Result<usize, Then> {
        self.ctx.counts.client_parses += 1;
        if view.bytes.len() < head.total() || head.total() > MAX_HELD_PARSE {
            return self.parse_too_large(view, head);
        }
        let parse = frontend::parse(&view.bytes[HEAD..]).map_err(|m| Then::Refuse(protocol(m)))?;
        if parse.name.is_empty() {
            if let Cow::Owned(substitute) = self.substitute(parse) {
                self.parse_unnamed_as(&substitute);
                return Ok(self.rest(view, head, Fate::Discard));
            }
            self.client.set_unnamed(parse.rest);
            self.note_unnamed();
            return Ok(self.plain(view, head, Expect::Parse));
        }
        if let Some(known) = self.client.statements.as_ref().and_then(|s| s.get(parse.name)).cloned() {
            // The server shall say that the name is taken, in its own words: under our name for it, it is.
            self.ensure(&known);
            self.send_parse(known.name(), parse.rest, Expect::Parse);
            return Ok(self.rest(view, head, Fate::Discard));
        }
        if self.client.prepared() >= self.ctx.client_statements {
            return Err(Then::Refuse(Refusal::StatementLimit("too many prepared statements (client_statements)")));
        }
        let statement = self.ctx.interner.intern(parse.rest).map_err(|why| {
            Then::Refuse(match why {
                NotInterned::TooMuchText => Refusal::StatementLimit("prepared statements exceed statement_memory"),
                NotInterned::Collision => Refusal::Broken("two statements with one name"),
            })
        })?;
        self.client.statements_mut().insert(parse.name, statement.clone());
        self.prepare(&statement, Some(parse.name.into()));
        Ok(self.rest(view, head, Fate::Discard))
    }

    fn parse_too_large(&mut self, view: View<'_>, head: Head) -> Result<usize, Then> {
        if view.bytes.get(HEAD) != Some(&0) {
            return Err(Then::Refuse(Refusal::StatementLimit("a prepared statement of more than 16 MiB")));
        }
        self.client.drop_unnamed();
        self.client.unnamed = Unnamed::Streamed;
        self.note_unnamed();
        Ok(self.plain(view, head, Expect::Parse))
    }

    fn bind(&mut self, view: View<'_>, head: Head) -> Result<usize, Then> {
        let bind = match frontend::bind_head(&view.bytes[HEAD..]) {
            Ok(Some(bind)) => bind,
            Ok(None) => {
                return Err(Then::Refuse(Refusal::Protocol("a Bind without names, or with very long ones".into())));
            }
            Err(malformed) => return Err(Then::Refuse(protocol(malformed))),
        };
        if bind.statement.is_empty() {
            self.ensure_unnamed();
            return Ok(self.plain(view, head, Expect::Bind));
        }
        let server_name = self.server_name(bind.statement);
        let Some(server_name) = server_name else { return Ok(self.plain(view, head, Expect::Bind)) };
        let names = HEAD + bind.rest_at;
        self.owed().request(Expect::Bind);
        self.ctx.scratch.clear();
        put_front::bind_head(self.ctx.scratch, bind.portal, &server_name, head.total() - names);
        self.out.server(self.ctx.scratch);
        view.to_server(names..view.bytes.len(), self.out);
        self.client.stream.rest(head.total() - view.bytes.len(), Fate::Forward);
        Ok(view.bytes.len())
    }

    /// Describe and Close.
    fn named(&mut self, view: View<'_>, head: Head) -> Result<usize, Then> {
        if view.bytes.len() < head.total() {
            return Err(Then::Refuse(Refusal::Protocol("a very long name".into())));
        }
        let named = frontend::named(&view.bytes[HEAD..]).map_err(|m| Then::Refuse(protocol(m)))?;
        let closes = head.tag == front::CLOSE;
        if named.of == Of::Portal {
            return Ok(self.plain(view, head, if closes { Expect::Close } else { Expect::DescribeRows }));
        }
        if closes {
            return Ok(self.close_statement(view, head, named.name));
        }
        if named.name.is_empty() {
            self.ensure_unnamed();
            return Ok(self.plain(view, head, Expect::DescribeStatement));
        }
        let Some(server_name) = self.server_name(named.name) else {
            return Ok(self.plain(view, head, Expect::DescribeStatement));
        };
        self.owed().request(Expect::DescribeStatement);
        self.ctx.scratch.clear();
        put_front::describe(self.ctx.scratch, Of::Statement, &server_name);
        self.out.server(self.ctx.scratch);
        Ok(self.rest(view, head, Fate::Discard))
    }

    fn close_statement(&mut self, view: View<'_>, head: Head, name: &[u8]) -> usize {
        if name.is_empty() {
            self.client.drop_unnamed();
            if let Some(server) = self.server.as_deref_mut() {
                server.unnamed = None;
            }
            return self.plain(view, head, Expect::Close);
        }
        if self.knows(name) || name.starts_with(NAME_PREFIX) {
            // The statement stays on the server, for others and for its return.
            self.forget(name);
            self.owed().request(Expect::LocalClose);
            self.emit();
            return self.rest(view, head, Fate::Discard);
        }
        self.plain(view, head, Expect::Close)
    }

    /// The name on the server of what the client calls `name`, prepared there; none if the client's own word must do
    /// (an SQL-level PREPARE, or a name that does not exist and will be refused in the server's words).
    fn server_name(&mut self, name: &[u8]) -> Option<Cow<'static, [u8]>> {
        let known = self.client.statements.as_ref().and_then(|s| s.get(name)).cloned();
        match known {
            Some(statement) => {
                self.ensure(&statement);
                Some(Cow::Owned(statement.name().to_vec()))
            }
            // Nobody gets at a statement of others by guessing our names.
            None if name.starts_with(NAME_PREFIX) => Some(Cow::Borrowed(b"weir_unknown")),
            None => None,
        }
    }

    /// Makes sure that the server has a statement, with requests of our own.
    fn ensure(&mut self, statement: &Statement) {
        let Some(server) = self.server.as_deref_mut() else { return };
        if server.statements.touch(statement.key()) != OnServer::Ready {
            self.prepare(statement, None);
        }
    }

    /// Prepares a statement on the server, or answers for it if the server has it. `client_name` tells a Parse of the
    /// client from one of our own.
    fn prepare(&mut self, statement: &Statement, client_name: Option<Box<[u8]>>) {
        let Some(server) = self.server.as_deref_mut() else { return };
        let mut on_server = server.statements.touch(statement.key());
        if on_server == OnServer::Ready && server.status == TxStatus::Failed {
            // The server shall refuse it, as it refuses all Parse in a failed transaction.
            on_server = OnServer::Stale;
        }
        if on_server == OnServer::Ready {
            server.notes.push_back(ParseNote { prepares: None, client_name });
            server.owed.request(Expect::LocalParse);
            return self.emit();
        }
        let closes = if on_server == OnServer::Stale { Some(statement.key()) } else { None };
        let evicted = server.statements.insert(statement.key(), self.ctx.max_prepared);
        for key in closes.into_iter().chain(evicted) {
            self.close_on_server(key);
        }
        let what = if client_name.is_some() { Expect::ParseNamed } else { Expect::OwnParse };
        if let Some(server) = self.server.as_deref_mut() {
            server.notes.push_back(ParseNote { prepares: Some(statement.key()), client_name });
        }
        self.send_parse(statement.name(), statement.rest(), what);
    }

    fn close_on_server(&mut self, key: Key) {
        let Some(server) = self.server.as_deref_mut() else { return };
        server.closes.push_back(Some(key));
        server.owed.request(Expect::OwnClose);
        self.ctx.scratch.clear();
        put_front::close(self.ctx.scratch, Of::Statement, &key.name());
        self.out.server(self.ctx.scratch);
    }

    fn send_parse(&mut self, name: &[u8], rest: &[u8], what: Expect) {
        self.ctx.counts.server_parses += 1;
        self.owed().request(what);
        self.ctx.scratch.clear();
        put_front::parse(self.ctx.scratch, name, rest);
        self.out.server(self.ctx.scratch);
    }

    /// Makes sure that the server's unnamed slot holds the client's unnamed statement, or nothing.
    fn ensure_unnamed(&mut self) {
        let id = self.client.unnamed_id();
        let Some(server) = self.server.as_deref_mut() else { return };
        if server.unnamed == Some(id) {
            return;
        }
        match &self.client.unnamed {
            Unnamed::Held(rest) => {
                server.unnamed = Some(id);
                server.owed.request(Expect::OwnParseUnnamed);
                self.ctx.counts.server_parses += 1;
                self.ctx.scratch.clear();
                put_front::parse(self.ctx.scratch, b"", rest);
                self.out.server(self.ctx.scratch);
            }
            Unnamed::None | Unnamed::Streamed => {
                server.unnamed = None;
                server.closes.push_back(None);
                server.owed.request(Expect::OwnClose);
                self.ctx.scratch.clear();
                put_front::close(self.ctx.scratch, Of::Statement, b"");
                self.out.server(self.ctx.scratch);
            }
        }
    }

    /// An unnamed `DEALLOCATE name` of a statement that only we know by that name, made into one that the server can carry
    /// out; any other Parse stays what it is.
    fn substitute<'p>(&mut self, parse: frontend::Parse<'p>) -> Cow<'p, [u8]> {
        let SqlHead::Deallocate(Dealloc::Name(name)) = sql::head(parse.text) else { return Cow::Borrowed(parse.rest) };
        if !self.knows(&name) || self.server.as_ref().is_none_or(|s| s.status == TxStatus::Failed) {
            return Cow::Borrowed(parse.rest);
        }
        self.forget(&name);
        Cow::Owned([b"DEALLOCATE ", GONE, &[0, 0, 0]].concat())
    }

    fn parse_unnamed_as(&mut self, rest: &[u8]) {
        let Some(server) = self.server.as_deref_mut() else { return };
        server.closes.push_back(None);
        server.owed.request(Expect::OwnClose);
        self.ctx.scratch.clear();
        put_front::close(self.ctx.scratch, Of::Statement, GONE);
        self.out.server(self.ctx.scratch);
        self.send_parse(GONE, b"SELECT 1\0\0\0", Expect::OwnParseUnnamed);
        self.client.set_unnamed(rest);
        self.note_unnamed();
        self.send_parse(b"", rest, Expect::Parse);
    }

    /// The server's unnamed slot holds the client's unnamed statement from now on.
    fn note_unnamed(&mut self) {
        let id = self.client.unnamed_id();
        self.ctx.counts.server_parses += 1;
        if let Some(server) = self.server.as_deref_mut() {
            server.unnamed = Some(id);
        }
    }

    /// Whether a query is a `DEALLOCATE` of a statement that the client prepared by a Parse.
    fn names_own_statement(&self, view: View<'_>, head: Head) -> bool {
        view.bytes.len() == head.total()
            && matches!(sql::head(text_of(view.bytes)), SqlHead::Deallocate(Dealloc::Name(name)) if self.knows(&name))
    }

    fn deallocate_locally(&mut self, view: View<'_>) {
        if let SqlHead::Deallocate(Dealloc::Name(name)) = sql::head(text_of(view.bytes)) {
            self.forget(&name);
        }
        self.client.drop_unnamed();
    }

    fn knows(&self, name: &[u8]) -> bool {
        self.client.statements.as_ref().is_some_and(|s| s.get(name).is_some())
    }

    fn forget(&mut self, name: &[u8]) {
        if let Some(statements) = &mut self.client.statements {
            statements.remove(name);
        }
    }

    /// Sends or drops what there is of a message, and decides the same for its rest.
    #[inline]
    fn rest(&mut self, view: View<'_>, head: Head, fate: Fate) -> usize {
        if fate == Fate::Forward {
            view.to_server(0..view.bytes.len(), self.out);
        }
        self.client.stream.rest(head.total() - view.bytes.len(), fate);
        view.bytes.len()
    }

    /// Sends our answers whose turn has come.
    fn emit(&mut self) {
        if let Some(server) = self.server.as_deref_mut() {
            crate::back::emit(server, self.ctx.scratch, self.out);
        }
    }

    fn answer(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.ctx.scratch.clear();
        write(self.ctx.scratch);
        self.out.client(self.ctx.scratch);
    }

    /// The linked server's queue. Only called where a server is linked.
    fn owed(&mut self) -> &mut crate::outstanding::Outstanding {
        &mut self.server.as_deref_mut().expect("the caller saw a server").owed
    }
}

/// What there is of a simple query's text.
fn text_of(message: &[u8]) -> &[u8] {
    let body = &message[HEAD..];
    body.strip_suffix(&[0]).unwrap_or(body)
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
