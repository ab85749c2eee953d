//! What a client's statements are called on servers, outside session mode.
//!
//! Owns the rewriting of Query, Parse, Bind, Describe and Close: each is decided once, by the client's names and what the
//! server has, and a [`Rewrite`] says what the server is sent for it. What a request changes for its client goes to the undo
//! log, in case the server skips it.

use weir_pgwire::frontend::BindHead;
use weir_pgwire::tag::front;
use weir_pgwire::{Dealloc, Dirty, Effects, HEAD, Head, Of, SqlHead, TxStatus, frontend, put_front, sql};

use crate::client::Unnamed;
use crate::expected::Expected;
use crate::link::{Link, Rewrite};
use crate::names::Name;
use crate::prepare::make_room;
use crate::refusal::Refusal;
use crate::start_values;
use crate::statements::{NAME_LEN, NAME_PREFIX, Statement, UNKNOWN_NAME, text_in};
use crate::stop::StopReason;
use crate::text::{Text, certainly_left};
use crate::undo_log::{Change, RefusedFor, Subject};

/// The longest Parse of a named statement; a longer one is refused.
pub const MAX_HELD_PARSE: usize = 16 << 20;

/// The longest Parse of the unnamed statement that is held, to be sent again to another server; a longer one streams.
pub const MAX_HELD_UNNAMED: usize = 1 << 20;

/// The longest names in a Bind, Describe or Close, together.
pub(crate) const MAX_NAMES: usize = 64 << 10;

/// How much of a name the log shows.
const SHOWN_NAME: usize = 63;

/// A statement that exists only to be deallocated, in place of one that the server knows by another name.
const GONE: &[u8] = b"weir_gone";

/// A `DEALLOCATE name` that is about to be bound.
struct Deallocation {
    name: Box<[u8]>,
    /// What follows the text in its Parse: a NUL, the count of types, the types.
    types: Box<[u8]>,
}

/// Whether a Parse of this many bytes, whose name begins with `first`, is too long to be held.
#[inline]
pub(crate) fn is_too_long(first: u8, total: usize) -> bool {
    total > if first == 0 { MAX_HELD_UNNAMED } else { MAX_HELD_PARSE }
}

impl Link<'_, '_> {
    /// A message that is about a text, a statement or a portal. `None` for any other.
    #[inline]
    pub(crate) fn rewrite(&mut self, message: &[u8], head: Head) -> Option<Result<Rewrite, StopReason>> {
        Some(match head.tag {
            front::QUERY => self.query(message, head),
            front::PARSE => self.parse(message, head),
            front::BIND => {
                self.ctx.counts.binds += 1;
                self.bind(message, head)
            }
            front::DESCRIBE | front::CLOSE => self.describe_or_close(message, head),
            front::EXECUTE => Ok(self.execute(message)),
            front::FUNCTION_CALL => Ok(self.function_call(message)),
            _ => return None,
        })
    }

    fn query(&mut self, message: &[u8], head: Head) -> Result<Rewrite, StopReason> {
        let text = Text::of_query(message, head);
        let what = text.head();
        if let SqlHead::Deallocate(Dealloc::Name(name)) = &what
            && let Some(rewrite) = self.deallocate(name)?
        {
            return Ok(rewrite);
        }
        let effects = text.effects(&what, self.ctx, &self.server.params);
        start_values::note(self.client, self.server, self.ctx.params, text.bytes());
        let had_unnamed = self.has_unnamed();
        self.server.unnamed = None;
        if self.refuses(effects) {
            if had_unnamed {
                self.change_unnamed(Expected::LocalForget, Unnamed::None);
            }
            return Ok(self.refuse_query(effects));
        }
        if drops_all(&what) {
            self.drop_all();
        }
        self.server.text_sent(effects);
        if !had_unnamed {
            return Ok(self.forward_with(Expected::Query, effects));
        }
        self.change_unnamed(Expected::QueryLogged, Unnamed::None);
        self.server.pending.set_newest(effects);
        Ok(Rewrite::Unchanged)
    }

    /// A `DEALLOCATE name` by a simple query: ours to answer where the name is one of the client's, unless the transaction
    /// has failed.
    fn deallocate(&mut self, name: &[u8]) -> Result<Option<Rewrite>, StopReason> {
        self.must_be_settled(Subject::Name(name))?;
        if !self.client.has_statement(name) {
            return Ok(None);
        }
        self.must_know_status()?;
        if self.server.status == TxStatus::Failed {
            return Ok(None);
        }
        if self.has_unnamed() {
            self.change_unnamed(Expected::LocalForget, Unnamed::None);
        }
        self.rename(Expected::LocalDeallocate, None, name, None);
        Ok(Some(Rewrite::Replaced))
    }

    /// Whether the client has an unnamed statement, or may have one again if a request under way is skipped.
    fn has_unnamed(&self) -> bool {
        !matches!(self.client.unnamed, Unnamed::None) || self.server.undo_log.changes_unnamed()
    }

    fn parse(&mut self, message: &[u8], head: Head) -> Result<Rewrite, StopReason> {
        self.ctx.counts.client_parses += 1;
        let too_long = message.get(HEAD).is_some_and(|first| is_too_long(*first, head.total()));
        if message.len() < head.total() || too_long {
            return Ok(self.stream_unnamed());
        }
        let Ok(parse) = frontend::parse(&message[HEAD..]) else { return Ok(self.forward_malformed(Expected::Parse)) };
        let effects = self.text_effects(Text::whole(text_in(parse.rest)));
        if self.refuses(effects) {
            let change = if parse.name.is_empty() {
                Change::Unnamed { before: self.client.replace_unnamed(Unnamed::None) }
            } else {
                Change::None
            };
            return Ok(self.refuse_parse(effects, change));
        }
        if parse.name.is_empty() {
            let Some(held) = self.hold(parse.rest) else { return Ok(self.stream_unnamed()) };
            self.change_unnamed(Expected::ParseUnnamed, Unnamed::Held(held));
            self.fill_unnamed_slot(effects);
            return Ok(Rewrite::Unchanged);
        }
        self.parse_named(parse.name, parse.rest)?;
        Ok(Rewrite::Replaced)
    }

    fn parse_named(&mut self, name: &[u8], rest: &[u8]) -> Result<(), StopReason> {
        self.must_be_settled(Subject::Name(name))?;
        if let Some(mut known) = self.client.given(name).cloned() {
            // The server itself says that the name is taken: under our name for it, it is.
            self.ensure(name, &mut known)?;
            let shown = &name[..name.len().min(SHOWN_NAME)];
            self.ctx.counts.name_taken = Some(String::from_utf8_lossy(shown).into());
            self.expect_logged(Expected::ParseTaken, None, Change::Taken { name: Name::new(name) });
            self.compose_parse(known.statement.name(), rest);
            return Ok(());
        }
        if self.client.prepared() >= self.ctx.client_statements {
            return Err(StopReason::refuse(Refusal::StatementLimit(
                "too many prepared statements (client_statements)",
            )));
        }
        make_room(self.client, self.ctx, name, rest)?;
        let statement = self.intern(rest)?;
        self.must_be_known_on_server(statement.key())?;
        self.prepare(&statement, Some(name));
        Ok(())
    }

    /// A message that is not laid out as its kind is forwarded: the server says what is wrong with it, and goes on.
    #[cold]
    fn forward_malformed(&mut self, what: Expected) -> Rewrite {
        self.server.unnamed = None;
        self.forward(what)
    }

    /// The client's unnamed statement will exist only on the server that it has now.
    fn stream_unnamed(&mut self) -> Rewrite {
        self.change_unnamed(Expected::ParseUnnamed, Unnamed::Streamed);
        self.fill_unnamed_slot(Effects::UNKNOWN);
        Rewrite::Unchanged
    }

    fn bind(&mut self, message: &[u8], head: Head) -> Result<Rewrite, StopReason> {
        let Some(bind) = frontend::bind_head(&message[HEAD..])? else {
            if message.len() == head.total() {
                return Ok(self.forward_malformed(Expected::Bind));
            }
            return Err(StopReason::protocol("a Bind with very long names"));
        };
        self.must_be_settled(Subject::of(bind.statement))?;
        let known = self.client.given(bind.statement).cloned();
        if let Some(gone) = self.ends_statements(bind.statement, known.as_ref().map(|given| &*given.statement)) {
            return self.bind_deallocation(head, bind, &gone);
        }
        if bind.statement.is_empty() {
            if !self.ensure_unnamed()? {
                return Ok(self.fail(RefusedFor::Shape));
            }
            self.note_bound_unknown(bind.portal);
            let effects = self.server.state.unnamed();
            self.bind_portal(bind.portal, effects);
            return Ok(Rewrite::Unchanged);
        }
        let Some(mut known) = known else { return self.bind_unknown(head, bind) };
        if !self.ensure_same(bind.statement, &mut known)? {
            return Ok(self.fail(RefusedFor::Shape));
        }
        self.note_bound(bind.portal, &known);
        let statement = &known.statement;
        let mut effects = statement.effects();
        if self.ctx.state.warn && !statement.is_harmless() {
            effects.leaves = certainly_left(text_in(statement.rest()), self.ctx, &self.server.params);
        }
        self.bind_portal(bind.portal, effects);
        Ok(self.renamed_bind(head, bind, statement.name()))
    }

    /// A Bind of a statement that the client did not prepare by a Parse: one of SQL's PREPARE, or none.
    fn bind_unknown(&mut self, head: Head, bind: BindHead<'_>) -> Result<Rewrite, StopReason> {
        self.note_bound_unknown(bind.portal);
        if let Some(server_name) = self.guess_denied(bind.statement)? {
            self.server.pending.request(Expected::Bind);
            return Ok(self.renamed_bind(head, bind, server_name));
        }
        self.bind_portal(bind.portal, self.server.state.parsed());
        Ok(Rewrite::Unchanged)
    }

    /// A portal is bound to a text with these effects. A named one is a cursor, which SQL can run without an Execute (FETCH,
    /// `cursor_to_xml()`), so that its state counts from the reply to the Bind.
    fn bind_portal(&mut self, portal: &[u8], effects: Effects) {
        self.server.bind(portal, effects);
        let by_sql = if portal.is_empty() { Dirty::NONE } else { effects.may_leave };
        self.server.pending.request_with(Expected::Bind, Effects { may_leave: by_sql, ..Effects::NONE });
    }

    /// A Bind with another name for its statement.
    fn renamed_bind(&mut self, head: Head, bind: BindHead<'_>, statement: &[u8]) -> Rewrite {
        let names = HEAD + bind.rest_at;
        put_front::bind_head(self.ctx.scratch, bind.portal, statement, head.total() - names);
        Rewrite::After(names)
    }

    fn describe_or_close(&mut self, message: &[u8], head: Head) -> Result<Rewrite, StopReason> {
        if head.total() > HEAD + MAX_NAMES {
            return Err(StopReason::protocol("a very long name"));
        }
        let Ok(named) = frontend::named(&message[HEAD..]) else {
            let closes = head.tag == front::CLOSE;
            return Ok(self.forward_malformed(if closes { Expected::Close } else { Expected::DescribeRows }));
        };
        match (named.of, head.tag == front::CLOSE) {
            (Of::Portal, true) => Ok(self.forward(Expected::Close)),
            (Of::Portal, false) => Ok(self.describe_portal(named.name)),
            (Of::Statement, true) => self.close_statement(named.name),
            (Of::Statement, false) => self.describe_statement(named.name),
        }
    }

    fn describe_statement(&mut self, name: &[u8]) -> Result<Rewrite, StopReason> {
        if name.is_empty() {
            let same = self.ensure_unnamed()?;
            return Ok(if same { self.describe_unnamed() } else { self.fail(RefusedFor::Shape) });
        }
        self.must_be_settled(Subject::Name(name))?;
        if let Some(mut known) = self.client.given(name).cloned() {
            if !self.ensure_same(name, &mut known)? {
                return Ok(self.fail(RefusedFor::Shape));
            }
            self.expect_description(&known);
            put_front::describe(self.ctx.scratch, Of::Statement, known.statement.name());
            return Ok(Rewrite::Replaced);
        }
        let Some(server_name) = self.guess_denied(name)? else { return Ok(self.forward(Expected::DescribeStatement)) };
        self.server.pending.request(Expected::DescribeStatement);
        put_front::describe(self.ctx.scratch, Of::Statement, server_name);
        Ok(Rewrite::Replaced)
    }

    fn close_statement(&mut self, name: &[u8]) -> Result<Rewrite, StopReason> {
        if name.is_empty() {
            self.server.unnamed = None;
            self.change_unnamed(Expected::CloseUnnamed, Unnamed::None);
            return Ok(Rewrite::Unchanged);
        }
        self.must_be_settled(Subject::Name(name))?;
        if self.client.has_statement(name) || name.starts_with(NAME_PREFIX) {
            // The statement stays on the server, for others and for its return.
            self.rename(Expected::LocalClose, None, name, None);
            return Ok(Rewrite::Replaced);
        }
        Ok(self.forward(Expected::Close))
    }

    /// Nobody gets at a statement of others by guessing our names: the name that no statement has is sent in place of one
    /// that begins like ours. `None` for any other name, which the server shall judge.
    fn guess_denied(&mut self, name: &[u8]) -> Result<Option<&'static [u8; NAME_LEN]>, StopReason> {
        if !name.starts_with(NAME_PREFIX) {
            return Ok(None);
        }
        // One such name at a time, so that the refusal can name it.
        self.must_know_status()?;
        self.server.unknown_name.get_or_insert_with(|| name.into());
        Ok(Some(UNKNOWN_NAME))
    }

    /// What a statement that is about to be bound does to others: one that drops all is remembered, and a `DEALLOCATE name`
    /// of one that only we know by that name is returned.
    fn ends_statements(&mut self, name: &[u8], named: Option<&Statement>) -> Option<Deallocation> {
        let rest = match &self.client.unnamed {
            Unnamed::Held(held) if name.is_empty() => held.bytes(),
            _ => named?.rest(),
        };
        start_values::note(self.client, self.server, self.ctx.params, text_in(rest));
        // Nearly all begin with another letter, and are not read further.
        if rest.first().is_some_and(|first| first.is_ascii_alphabetic() && !first.eq_ignore_ascii_case(&b'd')) {
            return None;
        }
        let text = text_in(rest);
        match sql::head(text) {
            SqlHead::Deallocate(Dealloc::Name(name)) if self.client.has_statement(&name) => {
                let failed = self.server.status == TxStatus::Failed;
                (!failed).then(|| Deallocation { name: name.into(), types: rest[text.len()..].into() })
            }
            what if drops_all(&what) => {
                self.drop_all();
                None
            }
            _ => None,
        }
    }

    /// Binds a `DEALLOCATE name` of a statement that only we know by that name: to one that the server can carry out, and
    /// that says the same. The name is the client's no more once it is bound; a portal that is bound is run.
    fn bind_deallocation(
        &mut self,
        head: Head,
        bind: BindHead<'_>,
        gone: &Deallocation,
    ) -> Result<Rewrite, StopReason> {
        self.must_be_settled(Subject::Name(&gone.name))?;
        self.close(GONE, None);
        self.server.pending.request(Expected::OwnParseUnnamed);
        self.compose_parse(GONE, b"SELECT 1\0\0\0");
        // The unnamed slot is not the client's own from here on.
        self.server.pending.request(Expected::OwnParseUnnamed);
        self.compose_parse(b"", &[b"DEALLOCATE ", GONE, &gone.types].concat());
        self.server.unnamed = None;
        self.rename(Expected::BindLogged, None, &gone.name, None);
        self.note_bound_unknown(bind.portal);
        Ok(self.renamed_bind(head, bind, b""))
    }

    /// A statement drops all others: what follows it in another segment waits, as what it names may not exist by then.
    fn drop_all(&mut self) {
        self.server.dropping_all = Some(self.server.pending.segment());
    }
}

fn drops_all(what: &SqlHead<'_>) -> bool {
    matches!(what, SqlHead::DiscardAll | SqlHead::Deallocate(Dealloc::All))
}
