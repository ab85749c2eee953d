//! What a client's statements are called on servers, outside session mode.
//!
//! Owns the rewriting of Parse, Bind, Describe, Close and DEALLOCATE, the requests of our own that prepare a statement on the
//! way, and the answers that need no server. What a request changes in the client's books is noted, so that it can be taken
//! back if the server skips it.

use std::sync::Arc;

use weir_pgwire::frontend::BindHead;
use weir_pgwire::tag::front;
use weir_pgwire::{Dealloc, Effects, HEAD, Head, Of, SqlHead, TxStatus, frontend, put_back, put_front, sql};

use crate::budget::NoRoom;
use crate::client::{HeldText, Unnamed};
use crate::frame_reader::Disposition;
use crate::from_client::{
    MAX_NAMES, ReplyWait, Step, StopReason, is_too_long, protocol, text_of, text_seen, whole_text,
};
use crate::names::{ClientStatements, Given, Name};
use crate::out::{Out, View};
use crate::pending::Expected;
use crate::prepared::OnServer;
use crate::refusal::Refusal;
use crate::statements::{Key, NAME_LEN, NAME_PREFIX, NotInterned, ParseEnvironment, Statement, cost, text_in};
use crate::undo_log::{Change, Subject};

/// A name of ours that no statement has.
pub(crate) const NOBODYS: &[u8; NAME_LEN] = b"weir_of_nobody_0000000000000000000000";
/// A statement that exists only to be deallocated, in place of one that the server knows by another name.
const GONE: &[u8] = b"weir_gone";
/// The most buffers kept for unnamed statements, and the largest.
pub(crate) const MAX_SPARE: usize = 16;
/// See [`MAX_SPARE`].
pub(crate) const MAX_SPARE_SIZE: usize = 16 << 10;
/// The largest buffer that is kept for composing messages.
pub(crate) const MAX_SCRATCH: usize = 1 << 20;

impl<O: Out> Step<'_, '_, O> {
    /// Answers a Parse of a statement that the pool's servers have accepted before, and a Close of one that only we know,
    /// for a client without a server. A program that prepares while others of its own hold all servers would wait for
    /// itself otherwise. Returns whether it was one of these.
    pub(crate) fn needs_no_server(&mut self, view: View<'_>, head: Head) -> bool {
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
        let environment = self.environment();
        let known = self.ctx.interner.find(self.ctx.statements, parse.rest, environment);
        let Some(statement) = known.filter(|s| self.ctx.statements.contains(s.key())) else { return false };
        if self.must_have_room(parse.name, parse.rest).is_err() {
            return false;
        }
        self.ctx.counts.client_parses += 1;
        let given = Given { statement, by: self.client.count_change() };
        self.client.statements_mut().insert(Name::new(parse.name), given);
        self.answer(put_back::parse_complete);
        true
    }

    pub(crate) fn query(&mut self, view: View<'_>, head: Head) -> Result<usize, StopReason> {
        let (text, whole) = text_seen(view, head);
        let what = if whole { sql::head(text) } else { sql::head_of_prefix(text) };
        if let SqlHead::Deallocate(Dealloc::Name(name)) = &what {
            self.must_be_settled(Subject::Name(name))?;
            if self.knows(name) {
                self.must_be_behind()?;
            }
            if self.knows(name) && self.server.as_ref().is_some_and(|s| s.status != TxStatus::Failed) {
                if self.has_unnamed() {
                    self.change_unnamed(Expected::LocalForget, Unnamed::None);
                }
                self.rename(Expected::LocalDeallocate, None, name, None);
                self.emit();
                return Ok(self.rest(view, head, Disposition::Discard));
            }
        }
        let effects = self.effects_of(text, (!whole).then(|| &view.bytes[HEAD..]), &what);
        let had_unnamed = self.has_unnamed();
        if let Some(server) = self.server.as_deref_mut() {
            server.unnamed = None;
        }
        if self.refuses(effects) {
            if had_unnamed {
                self.change_unnamed(Expected::LocalForget, Unnamed::None);
            }
            return Ok(self.refuse_query(view, head, effects));
        }
        if drops_all(&what) {
            self.note_dropping();
        }
        self.sends(effects);
        if !had_unnamed {
            return Ok(self.plain_with(view, head, Expected::Query, effects));
        }
        self.change_unnamed(Expected::QueryNoted, Unnamed::None);
        self.pending().set_newest(effects);
        Ok(self.rest(view, head, Disposition::Forward))
    }

    /// Whether the client has an unnamed statement, or may have one again if a request under way is skipped.
    fn has_unnamed(&self) -> bool {
        let noted = || self.server.as_ref().is_some_and(|s| s.notes.mention_unnamed());
        !matches!(self.client.unnamed, Unnamed::None) || noted()
    }

    pub(crate) fn parse(&mut self, view: View<'_>, head: Head) -> Result<usize, StopReason> {
        self.ctx.counts.client_parses += 1;
        let too_long = view.bytes.get(HEAD).is_some_and(|first| is_too_long(*first, head.total()));
        if view.bytes.len() < head.total() || too_long {
            return Ok(self.stream_unnamed(view, head));
        }
        let parse = frontend::parse(&view.bytes[HEAD..]).map_err(|m| StopReason::Refuse(protocol(m)))?;
        let text = text_in(parse.rest);
        let effects = self.effects_of(text, None, &sql::head(text));
        if self.refuses(effects) {
            let change = if parse.name.is_empty() { self.unnamed_change() } else { Change::None };
            return Ok(self.refuse_parse(view, head, effects, change));
        }
        if parse.name.is_empty() {
            let Some(held) = self.hold(parse.rest) else { return Ok(self.stream_unnamed(view, head)) };
            self.change_unnamed(Expected::ParseUnnamed, Unnamed::Held(held));
            self.own_unnamed_slot(effects);
            return Ok(self.rest(view, head, Disposition::Forward));
        }
        self.must_be_settled(Subject::Name(parse.name))?;
        if let Some(known) = self.client.statements.as_ref().and_then(|s| s.get(parse.name)).cloned() {
            // The server shall say that the name is taken, in its own words: under our name for it, it is.
            let known = self.ensure(parse.name, known)?;
            self.note(Expected::ParseTaken, None, Change::Taken { name: Name::new(parse.name) });
            self.write_parse(known.name(), parse.rest);
            return Ok(self.rest(view, head, Disposition::Discard));
        }
        if self.client.prepared() >= self.ctx.client_statements {
            return Err(StopReason::Refuse(Refusal::StatementLimit(
                "too many prepared statements (client_statements)",
            )));
        }
        self.must_have_room(parse.name, parse.rest)?;
        let statement = self.intern(parse.rest)?;
        self.must_be_known_on_server(statement.key())?;
        self.prepare(&statement, Some(parse.name));
        Ok(self.rest(view, head, Disposition::Discard))
    }

    /// How a text that the client sends now is read, as far as that is known.
    fn environment(&self) -> ParseEnvironment {
        self.ctx.interner.environment(self.ctx.params.read_by(&self.client.params), self.ctx.statements.definitions())
    }

    fn intern(&mut self, rest: &[u8]) -> Result<Arc<Statement>, StopReason> {
        let environment = self.environment();
        self.ctx.interner.intern(self.ctx.statements, rest, environment).map_err(|why| match why {
            NotInterned::NoRoom(limit) => no_room(limit),
            NotInterned::Collision => StopReason::Refuse(Refusal::Broken("two statements with one name")),
        })
    }

    /// One statement more must be within what the client may hold.
    fn must_have_room(&mut self, name: &[u8], rest: &[u8]) -> Result<(), StopReason> {
        let more = ClientStatements::cost_of(name, cost(rest));
        if self.client.statement_bytes() + more > self.ctx.client_memory {
            let what = "prepared statements of one client exceed client_statement_memory";
            return Err(StopReason::Refuse(Refusal::StatementLimit(what)));
        }
        self.client.statements_mut().make_room(name, self.ctx.statements.account()).map_err(no_room)
    }

    /// Throws a Parse of a named statement away that can't be held as a whole. It needs no server before its end: a client
    /// that never sends that end holds none.
    pub(crate) fn throw_away(&mut self, view: View<'_>, head: Head) -> usize {
        let too_long = view.bytes.get(HEAD).is_some_and(|first| is_too_long(*first, head.total()));
        let what = match too_long {
            true => Refusal::StatementLimit("a prepared statement of more than 16 MiB"),
            false => Refusal::StatementLimit("a prepared statement for which there is no memory"),
        };
        if let Refusal::StatementLimit(what) = what {
            self.client.fails = Some(what);
        }
        self.rest(view, head, Disposition::Discard)
    }

    /// The client's unnamed statement will exist only on the server that it has now.
    fn stream_unnamed(&mut self, view: View<'_>, head: Head) -> usize {
        self.change_unnamed(Expected::ParseUnnamed, Unnamed::Streamed);
        self.own_unnamed_slot(Effects::UNKNOWN);
        self.rest(view, head, Disposition::Forward)
    }

    /// Fails a request in words of ours, as if the server had: it is made to fail at this place, so that its transaction
    /// fails and it skips to the next Sync, as after any error.
    pub(crate) fn fail(&mut self, what: &'static str) {
        self.note(Expected::Refused, None, Change::Refused(what));
        self.ctx.scratch.clear();
        let nobodys = self.ctx.interner.nobodys();
        put_front::describe(self.ctx.scratch, Of::Statement, &nobodys);
        self.out.server(self.ctx.scratch);
    }

    /// Too much is outstanding: the server gets a Flush, and the client waits for its answers.
    pub(crate) fn wait_for_answers(&mut self) -> StopReason {
        if self.pending().needs_flush() {
            self.ctx.scratch.clear();
            put_front::flush(self.ctx.scratch);
            self.out.server(self.ctx.scratch);
        }
        StopReason::AwaitReplies(ReplyWait::QueueFull)
    }

    pub(crate) fn bind(&mut self, view: View<'_>, head: Head) -> Result<usize, StopReason> {
        let bind = match frontend::bind_head(&view.bytes[HEAD..]) {
            Ok(Some(bind)) => bind,
            Ok(None) => {
                return Err(StopReason::Refuse(Refusal::Protocol(
                    "a Bind without names, or with very long ones".into(),
                )));
            }
            Err(malformed) => return Err(StopReason::Refuse(protocol(malformed))),
        };
        self.must_be_settled(Subject::of(bind.statement))?;
        if let Some(gone) = self.ends_statements(bind.statement) {
            return self.bind_deallocation(view, head, bind, &gone);
        }
        if bind.statement.is_empty() {
            self.ensure_unnamed()?;
            let effects = self.server.as_deref().map_or(Effects::NONE, |server| server.state.unnamed);
            self.binds(bind.portal, effects);
            return Ok(self.plain(view, head, Expected::Bind));
        }
        let Some((server_name, statement)) = self.server_name(bind.statement)? else {
            // One of SQL's PREPARE, or none.
            self.binds(bind.portal, self.parsed_effects());
            return Ok(self.plain(view, head, Expected::Bind));
        };
        if let Some(statement) = statement {
            let effects = self.bound_effects(statement.rest(), statement.effects());
            self.binds(bind.portal, effects);
        }
        self.pending().request(Expected::Bind);
        Ok(self.send_bind(view, head, bind, &server_name))
    }

    /// Sends a Bind with another name for its statement.
    fn send_bind(&mut self, view: View<'_>, head: Head, bind: BindHead<'_>, statement: &[u8]) -> usize {
        let names = HEAD + bind.rest_at;
        self.ctx.scratch.clear();
        put_front::bind_head(self.ctx.scratch, bind.portal, statement, head.total() - names);
        self.out.server(self.ctx.scratch);
        view.to_server(names..view.bytes.len(), self.out);
        self.follow(view, head, Disposition::Forward)
    }

    /// Describe and Close.
    pub(crate) fn named(&mut self, view: View<'_>, head: Head) -> Result<usize, StopReason> {
        if head.total() > HEAD + MAX_NAMES {
            return Err(StopReason::Refuse(Refusal::Protocol("a very long name".into())));
        }
        let named = frontend::named(&view.bytes[HEAD..]).map_err(|m| StopReason::Refuse(protocol(m)))?;
        let closes = head.tag == front::CLOSE;
        if named.of == Of::Portal {
            return Ok(self.plain(view, head, if closes { Expected::Close } else { Expected::DescribeRows }));
        }
        if closes {
            return self.close_statement(view, head, named.name);
        }
        if named.name.is_empty() {
            self.ensure_unnamed()?;
            return Ok(self.plain(view, head, Expected::DescribeStatement));
        }
        let Some((server_name, _)) = self.server_name(named.name)? else {
            return Ok(self.plain(view, head, Expected::DescribeStatement));
        };
        self.pending().request(Expected::DescribeStatement);
        self.ctx.scratch.clear();
        put_front::describe(self.ctx.scratch, Of::Statement, &server_name);
        self.out.server(self.ctx.scratch);
        Ok(self.rest(view, head, Disposition::Discard))
    }

    fn close_statement(&mut self, view: View<'_>, head: Head, name: &[u8]) -> Result<usize, StopReason> {
        if name.is_empty() {
            if let Some(server) = self.server.as_deref_mut() {
                server.unnamed = None;
            }
            self.change_unnamed(Expected::CloseUnnamed, Unnamed::None);
            return Ok(self.rest(view, head, Disposition::Forward));
        }
        self.must_be_settled(Subject::Name(name))?;
        if self.knows(name) || name.starts_with(NAME_PREFIX) {
            // The statement stays on the server, for others and for its return.
            self.rename(Expected::LocalClose, None, name, None);
            self.emit();
            return Ok(self.rest(view, head, Disposition::Discard));
        }
        Ok(self.plain(view, head, Expected::Close))
    }

    /// The name on the server of what the client calls `name`, prepared there; none if the client's own word must do
    /// (an SQL-level PREPARE, or a name that does not exist and will be refused in the server's words).
    fn server_name(&mut self, name: &[u8]) -> Result<Option<ServerName>, StopReason> {
        self.must_be_settled(Subject::Name(name))?;
        let known = self.client.statements.as_ref().and_then(|s| s.get(name)).cloned();
        Ok(match known {
            Some(statement) => {
                let statement = self.ensure(name, statement)?;
                Some((*statement.name(), Some(statement)))
            }
            // Nobody gets at a statement of others by guessing our names.
            None if name.starts_with(NAME_PREFIX) => {
                // One such name at a time, so that the refusal can name it.
                self.must_be_behind()?;
                if let Some(server) = self.server.as_deref_mut() {
                    server.guessed.get_or_insert_with(|| name.into());
                }
                Some((*NOBODYS, None))
            }
            None => None,
        })
    }

    /// Makes sure that the server has what the client calls `name`, with requests of our own. Where it must be prepared,
    /// its text is read by the parameters and definitions of now; if these are others than before, it is another statement
    /// from here on.
    fn ensure(&mut self, name: &[u8], mut statement: Arc<Statement>) -> Result<Arc<Statement>, StopReason> {
        self.must_be_known_on_server(statement.key())?;
        if self.is_ready(statement.key()) {
            return Ok(statement);
        }
        if statement.environment() != self.environment() {
            statement = self.intern(statement.rest())?;
            self.client.statements_mut().replace(name, statement.clone());
            self.must_be_known_on_server(statement.key())?;
            if self.is_ready(statement.key()) {
                return Ok(statement);
            }
        }
        self.prepare(&statement, None);
        Ok(statement)
    }

    /// Whether the server has a statement, and it can be used; true where there is no server.
    fn is_ready(&mut self, key: Key) -> bool {
        self.server.as_deref_mut().is_none_or(|server| server.statements.touch(key) == OnServer::Ready)
    }

    /// Whether the server has a statement must not depend on a request of an earlier segment that may still be skipped.
    fn must_be_known_on_server(&mut self, key: Key) -> Result<(), StopReason> {
        let Some(server) = self.server.as_deref() else { return Ok(()) };
        let segment = server.pending.segment();
        if server.closes.is_closing(key, segment) || server.notes.is_preparing(key, segment) {
            Err(StopReason::AwaitReplies(ReplyWait::EarlierSegment))
        } else {
            Ok(())
        }
    }

    /// Prepares a statement on the server, or answers for it if the server has it. `client_name` tells a Parse of the
    /// client from one of our own.
    fn prepare(&mut self, statement: &Arc<Statement>, client_name: Option<&[u8]>) {
        let Some(server) = self.server.as_deref_mut() else { return };
        let mut on_server = server.statements.touch(statement.key());
        if on_server == OnServer::Ready && (server.status == TxStatus::Failed || server.pending.is_ahead()) {
            // The server shall refuse it if the transaction has failed, as it refuses all Parse then.
            on_server = OnServer::Stale;
        }
        if on_server == OnServer::Ready {
            if let Some(name) = client_name {
                self.rename(Expected::LocalParse, None, name, Some(statement.clone()));
            }
            return self.emit();
        }
        let closes = if on_server == OnServer::Stale { Some(statement.key()) } else { None };
        let evicted = server.statements.insert(statement.key(), self.ctx.max_prepared);
        for key in closes.into_iter().chain(evicted) {
            self.close_on_server(key);
        }
        let key = Some(statement.key());
        match client_name {
            Some(name) => self.rename(Expected::ParseNamed, key, name, Some(statement.clone())),
            None => self.note(Expected::OwnParse, key, Change::None),
        }
        self.write_parse(statement.name(), statement.rest());
    }

    fn close_on_server(&mut self, key: Key) {
        let Some(server) = self.server.as_deref_mut() else { return };
        server.closes.push(server.pending.segment(), Some(key));
        server.pending.request(Expected::OwnClose);
        self.ctx.scratch.clear();
        put_front::close(self.ctx.scratch, Of::Statement, &key.name());
        self.out.server(self.ctx.scratch);
    }

    fn send_parse(&mut self, name: &[u8], rest: &[u8], what: Expected) {
        self.pending().request(what);
        self.write_parse(name, rest);
    }

    fn write_parse(&mut self, name: &[u8], rest: &[u8]) {
        self.ctx.counts.server_parses += 1;
        self.ctx.scratch.clear();
        put_front::parse(self.ctx.scratch, name, rest);
        *self.composed += self.ctx.scratch.len();
        self.out.server(self.ctx.scratch);
        if self.ctx.scratch.capacity() > MAX_SCRATCH {
            *self.ctx.scratch = Vec::new();
        }
    }

    /// Makes sure that the server's unnamed slot holds the client's unnamed statement, or nothing.
    fn ensure_unnamed(&mut self) -> Result<(), StopReason> {
        self.must_be_settled(Subject::Unnamed)?;
        let id = self.client.unnamed_id();
        let Some(server) = self.server.as_deref_mut() else { return Ok(()) };
        // What we have put there in an earlier segment may have been skipped with the rest of that.
        let segment = server.pending.segment();
        let may_be_skipped = server.unnamed_at != segment && server.pending.is_ahead();
        if server.unnamed == Some(id) && !may_be_skipped {
            return Ok(());
        }
        match &self.client.unnamed {
            Unnamed::Held(held) => {
                let rest = held.bytes();
                server.state.unnamed = Effects::of(text_in(rest));
                server.unnamed = Some(id);
                server.unnamed_at = segment;
                server.pending.request(Expected::OwnParseUnnamed);
                self.ctx.counts.server_parses += 1;
                self.ctx.scratch.clear();
                put_front::parse(self.ctx.scratch, b"", rest);
                *self.composed += self.ctx.scratch.len();
                self.out.server(self.ctx.scratch);
            }
            Unnamed::None | Unnamed::Streamed => {
                server.unnamed = None;
                server.closes.push(server.pending.segment(), None);
                server.pending.request(Expected::OwnClose);
                self.ctx.scratch.clear();
                put_front::close(self.ctx.scratch, Of::Statement, b"");
                self.out.server(self.ctx.scratch);
            }
        }
        Ok(())
    }

    /// What a statement that is about to be bound does to others: one that drops all is noted, and a `DEALLOCATE name` of
    /// one that only we know by that name is returned.
    fn ends_statements(&mut self, statement: &[u8]) -> Option<Deallocation> {
        let rest = match &self.client.unnamed {
            Unnamed::Held(held) if statement.is_empty() => held.bytes(),
            _ => self.client.statements.as_ref()?.get(statement)?.rest(),
        };
        // Nearly all begin with another letter, and are not read further.
        if rest.first().is_some_and(|first| first.is_ascii_alphabetic() && !first.eq_ignore_ascii_case(&b'd')) {
            return None;
        }
        let text = text_in(rest);
        match sql::head(text) {
            SqlHead::Deallocate(Dealloc::Name(name)) if self.knows(&name) => {
                let failed = self.server.as_ref().is_none_or(|server| server.status == TxStatus::Failed);
                (!failed).then(|| Deallocation { name: name.into(), types: rest[text.len()..].into() })
            }
            what if drops_all(&what) => {
                self.note_dropping();
                None
            }
            _ => None,
        }
    }

    /// Binds a `DEALLOCATE name` of a statement that only we know by that name: to one that the server can carry out, and
    /// that says the same. The name is the client's no more once it is bound; a portal that is bound is run.
    fn bind_deallocation(
        &mut self,
        view: View<'_>,
        head: Head,
        bind: BindHead<'_>,
        gone: &Deallocation,
    ) -> Result<usize, StopReason> {
        self.must_be_settled(Subject::Name(&gone.name))?;
        let Some(server) = self.server.as_deref_mut() else { return Err(StopReason::NeedServer) };
        server.closes.push(server.pending.segment(), None);
        server.pending.request(Expected::OwnClose);
        self.ctx.scratch.clear();
        put_front::close(self.ctx.scratch, Of::Statement, GONE);
        self.out.server(self.ctx.scratch);
        self.send_parse(GONE, b"SELECT 1\0\0\0", Expected::OwnParseUnnamed);
        // The unnamed slot is not the client's own from here on.
        self.send_parse(b"", &[b"DEALLOCATE ", GONE, &gone.types].concat(), Expected::OwnParseUnnamed);
        if let Some(server) = self.server.as_deref_mut() {
            server.unnamed = None;
        }
        self.rename(Expected::BindNoted, None, &gone.name, None);
        Ok(self.send_bind(view, head, bind, b""))
    }

    /// An unnamed statement's text, to be parsed again on the client's next server; nothing if there is no room for it.
    fn hold(&mut self, rest: &[u8]) -> Option<HeldText> {
        let mut buffer = self.ctx.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(rest);
        let held = self.client.statements.as_ref().map_or(0, |statements| statements.cost());
        if held + buffer.capacity() as u64 > self.ctx.client_memory {
            return None;
        }
        HeldText::new(buffer, self.ctx.statements.account())
    }

    /// The server's unnamed slot holds the client's unnamed statement from now on; `effects` are those of its text.
    fn own_unnamed_slot(&mut self, effects: Effects) {
        let id = self.client.unnamed_id();
        self.ctx.counts.server_parses += 1;
        if let Some(server) = self.server.as_deref_mut() {
            server.unnamed = Some(id);
            server.state.unnamed = effects;
        }
    }

    /// Expects an answer, and notes what the request changes.
    pub(crate) fn note(&mut self, what: Expected, prepares: Option<Key>, change: Change) {
        let Some(server) = self.server.as_deref_mut() else { return };
        let number = self.client.count_change();
        server.notes.push(number, server.pending.segment(), prepares, change, self.ctx.statements.account());
        server.pending.request(what);
    }

    /// Expects an answer to a request after which the client's `name` means `now`.
    fn rename(&mut self, what: Expected, prepares: Option<Key>, name: &[u8], now: Option<Arc<Statement>>) {
        let name = Name::new(name);
        let by = self.client.next_change();
        let statements = self.client.statements_mut();
        let before = statements.remove(name.whole());
        if let Some(statement) = now {
            statements.insert(name.clone(), Given { statement, by });
        }
        self.note(what, prepares, Change::Name { name, before });
    }

    /// Expects an answer to a request after which the client's unnamed statement is `now`.
    fn change_unnamed(&mut self, what: Expected, now: Unnamed) {
        let before = self.client.replace_unnamed(now);
        self.note(what, None, Change::Unnamed { before });
    }

    /// What a request builds upon must not be taken back later: a change in an earlier segment that may still be skipped is
    /// waited for.
    fn must_be_settled(&mut self, subject: Subject<'_>) -> Result<(), StopReason> {
        let Some(server) = self.server.as_deref() else { return Ok(()) };
        let segment = server.pending.segment();
        // Without a ReadyForQuery ahead it is the same segment still: its Sync was swallowed by a COPY.
        let dropping = server.dropping_all.is_some_and(|at| at != segment) && server.pending.is_ahead();
        if dropping || server.notes.is_open(subject, segment) {
            Err(StopReason::AwaitReplies(ReplyWait::EarlierSegment))
        } else {
            Ok(())
        }
    }

    /// What we answer by the transaction's status must wait until that is known.
    fn must_be_behind(&mut self) -> Result<(), StopReason> {
        let ahead = self.server.as_ref().is_some_and(|s| s.pending.is_ahead());
        if ahead { Err(StopReason::AwaitReplies(ReplyWait::TransactionStatus)) } else { Ok(()) }
    }

    /// A statement that drops all others makes what follows it wait: what it names may be gone by then.
    fn note_dropping(&mut self) {
        if let Some(server) = self.server.as_deref_mut() {
            server.dropping_all = Some(server.pending.segment());
        }
    }

    /// Whether a query is a `DEALLOCATE` of a statement that the client prepared by a Parse.
    pub(crate) fn names_own_statement(&self, view: View<'_>, head: Head) -> bool {
        whole_text(view, head).is_some_and(
            |text| matches!(sql::head(text), SqlHead::Deallocate(Dealloc::Name(name)) if self.knows(&name)),
        )
    }

    pub(crate) fn deallocate_locally(&mut self, view: View<'_>) {
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
}

/// What a statement is called on a server, and the statement, where it is one of the client's.
type ServerName = ([u8; NAME_LEN], Option<Arc<Statement>>);

/// A `DEALLOCATE name` that is about to be bound.
struct Deallocation {
    name: Box<[u8]>,
    /// What follows the text in its Parse: a NUL, the count of types, the types.
    types: Box<[u8]>,
}

fn drops_all(what: &SqlHead<'_>) -> bool {
    matches!(what, SqlHead::DiscardAll | SqlHead::Deallocate(Dealloc::All))
}

fn no_room(limit: NoRoom) -> StopReason {
    StopReason::Refuse(match limit {
        NoRoom::Pool => Refusal::StatementLimit("prepared statements of one pool exceed pool_statement_memory"),
        NoRoom::Process => Refusal::StatementLimit("prepared statements exceed statement_memory"),
    })
}

/// Keeps a buffer for the next unnamed statement.
pub(crate) fn spare(buffers: &mut Vec<Vec<u8>>, buffer: Vec<u8>) {
    if buffers.len() < MAX_SPARE && buffer.capacity() <= MAX_SPARE_SIZE {
        buffers.push(buffer);
    }
}
