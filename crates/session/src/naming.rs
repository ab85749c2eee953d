//! What a client's statements are called on servers, outside session mode.
//!
//! Owns the rewriting of Query, Parse, Bind, Describe and Close: each is decided once, by the client's names and what
//! the server has, and a [`Rewrite`] says what the server is sent for it. What a request changes for its client goes to
//! the undo log, in case the server skips it.

use weir_base::PoolMode;
use weir_pgwire::frontend::BindHead;
use weir_pgwire::sql::{Naming, RunsText};
use weir_pgwire::tag::front;
use weir_pgwire::{Dealloc, Dirty, Effects, HEAD, Head, Of, SqlHead, TxStatus, frontend, put_front, sql};

use crate::client::Unnamed;
use crate::context::Context;
use crate::expected::Expected;
use crate::hidden_effects::{self, Counted, DueText, FirstLook, ShapeKey};
use crate::judged::Question;
use crate::leaving_functions::Leaving;
use crate::link::{Link, Rewrite, calls_any_function};
use crate::long_text::LONG_TEXT;
use crate::names::Name;
use crate::prepare::make_room;
use crate::refusal::Refusal;
use crate::same_shape::Fit;
use crate::sql_names::{Edited, hidden, renamed};
use crate::start_values;
use crate::statements::{NAME_LEN, NAME_PREFIX, PoolStatements, Statement, UNKNOWN_NAME};
use crate::stop::StopReason;
use crate::text::Text;
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

/// A text of this shape is sent, of which this is read; `cut`: it continues.
fn count(ctx: &mut Context<'_>, ShapeKey(shape): ShapeKey, (text, cut): (&[u8], bool)) -> Counted {
    let changes = ctx.statements.schema_changes();
    let functions = ctx.statements.function_changes();
    if ctx.statements.bodies.are_news(functions) {
        ctx.statements.texts.judge_again();
    }
    let shape = ShapeKey(shape ^ changes.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let PoolStatements { texts, leaving, bodies, .. } = &mut *ctx.statements;
    let look = || {
        let runs = sql::runs_text(text);
        FirstLook {
            draws: cut || sql::may_use_sequence(text),
            names: leaving.named_in(text, runs).max(if cut { leaving.askable() } else { Leaving::Nothing }),
            by_values: runs != RunsText::No,
        }
    };
    let counted = texts.count(shape, bodies.are_due(), look);
    Counted { due: counted.due.filter(|_| !hidden_effects::runs_nothing(text)), ..counted }
}

/// Whether a server takes this for a name: with the encoding UTF-8 it refuses what is none.
#[inline]
pub(crate) fn is_readable(name: &[u8], utf8: bool) -> bool {
    name.is_ascii() || !utf8 || std::str::from_utf8(name).is_ok()
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
            // One that waits is read again.
            front::PARSE => {
                let parsed = self.parse(message, head);
                self.ctx.counts.client_parses += u64::from(parsed.is_ok());
                parsed
            }
            front::BIND => {
                let bound = self.bind(message, head);
                self.ctx.counts.binds += u64::from(bound.is_ok());
                bound
            }
            front::DESCRIBE | front::CLOSE => self.describe_or_close(message, head),
            front::EXECUTE => {
                self.execute_drop(message);
                Ok(self.execute(message))
            }
            front::FUNCTION_CALL => Ok(self.any_function_call(message)),
            _ => return None,
        })
    }

    #[inline]
    fn query(&mut self, message: &[u8], head: Head) -> Result<Rewrite, StopReason> {
        let text = Text::of_query(message, head);
        if !text.is_harmless() {
            return self.unusual_query(message, head, text);
        }
        self.expect_query(Effects::NONE);
        self.count_text(text, Effects::NONE);
        Ok(Rewrite::Unchanged)
    }

    /// A text is sent that may do more than it says.
    #[inline]
    pub(crate) fn count_text(&mut self, text: Text<'_>, effects: Effects) {
        if self.client.mode == PoolMode::Auto {
            let (read, cut) = text.searched();
            let shape = hidden_effects::shape(read, self.ctx.interner.hash_key());
            self.count_shape(shape, (read, cut), effects.may_leave);
        }
    }

    /// A text of this shape is sent, of which this is read, that may leave these kinds of state.
    fn count_shape(&mut self, shape: ShapeKey, text: (&[u8], bool), kinds: Dirty) {
        let counted = count(self.ctx, shape, text);
        self.note_unknown_settings(counted);
        let drawn = if counted.draws { self.draws() } else { Dirty::NONE };
        let due = self.due_now(counted.due);
        self.server.may_leave(text.0, kinds.union(drawn), due);
    }

    /// A text may set something for which the server can't be asked: its client keeps the server.
    fn note_unknown_settings(&mut self, counted: Counted) {
        if counted.due.is_some_and(|due| due.says_so) {
            self.server.state.may_set_custom();
        }
        match counted.names {
            Leaving::Nothing | Leaving::Askable => {}
            Leaving::Composed => self.server.state.may_compose(),
            Leaving::Unknown => self.server.state.leave(Dirty::SETTINGS.union(Dirty::CUSTOM)),
        }
    }

    /// The client's unnamed statement, with these effects, is bound.
    fn count_unnamed(&mut self, effects: Effects) {
        if self.client.mode != PoolMode::Auto {
            return;
        }
        let key = self.ctx.interner.hash_key();
        // Of a text that was too long to be held nothing is known.
        let (shape, text) = match &mut self.client.unnamed {
            Unnamed::Held(held) => (held.text_shape(key), held.text()),
            _ => (hidden_effects::shape(b"do", key), &b"do"[..]),
        };
        let counted = count(self.ctx, shape, hidden_effects::first_of(text, hidden_effects::READ));
        self.note_unknown_settings(counted);
        let drawn = if counted.draws { self.draws() } else { Dirty::NONE };
        let due = self.due_now(counted.due);
        let text = self.client.text_of(b"").unwrap_or_default();
        self.server.may_leave(text, effects.may_leave.union(drawn), due);
    }

    /// A text after which the server is to be asked, unless the client has state, and the text has changed nothing of it
    /// before. Where the client keeps its server, that is asked for everything before it stops to be kept.
    fn due_now(&mut self, due: Option<DueText>) -> Option<DueText> {
        let due = due?;
        let is_kept = !self.server.state.keeping().is_empty();
        if due.says_so && !is_kept {
            return Some(due);
        }
        if !(is_kept || self.client.channels.is_some()) || !self.client.quiet.can_wait(due) {
            return Some(due);
        }
        if is_kept {
            self.server.due.put_off();
        }
        None
    }

    /// A FunctionCall, which may draw a value of a sequence.
    pub(crate) fn any_function_call(&mut self, message: &[u8]) -> Rewrite {
        if calls_any_function(message) {
            self.count_unknown();
        }
        self.function_call(message)
    }

    /// Something is run of which only a name is known here.
    fn count_unknown(&mut self) {
        if self.client.mode == PoolMode::Auto {
            self.draws();
        }
    }

    /// A query of which more must be known.
    fn unusual_query(&mut self, message: &[u8], head: Head, text: Text<'_>) -> Result<Rewrite, StopReason> {
        if text.is_whole() && sql::begins_with_options(text.bytes()) {
            self.expect_query(Effects::NONE);
            self.server.unusual_at = self.server.pending.progress();
            return Ok(Rewrite::Unchanged);
        }
        let what = text.head();
        if let SqlHead::Deallocate(Dealloc::Name(name)) = &what
            && let Some(rewrite) = self.deallocate(name)?
        {
            return Ok(rewrite);
        }
        let judged = text.judge(&what, self.ctx, &self.server.params);
        let (searched, cut) = text.searched();
        self.may_ask_for_values(Question::of(judged.effects, searched))?;
        let resets = !judged.harmless && start_values::may_be_reset(self.client, searched);
        if !judged.harmless {
            self.note_needed_alone(text.bytes());
        }
        let mut effects = self.note_custom(judged.effects, (searched, cut));
        let edited = if (judged.names || resets) && !self.refuses(effects) {
            self.edit_query(searched, cut, judged.names)?.map(Box::new)
        } else {
            None
        };
        effects = edited.as_ref().map_or(effects, |edited| effects.either(edited.effects));
        if self.refuses(effects) {
            if self.has_unnamed() {
                self.change_unnamed(Expected::LocalForget, Unnamed::None);
            }
            self.server.unnamed = None;
            return Ok(self.refuse_query(effects));
        }
        if judged.drops_all {
            self.drop_all(None);
        }
        self.expect_query(effects);
        self.count_text(text, effects);
        self.server.unusual_at = self.server.pending.progress();
        let before = HEAD + searched.len();
        Ok(edited.map_or(Rewrite::Unchanged, |edited| self.send_edited(message, head, before, &edited)))
    }

    /// The text of a simple query is sent, of which this is searched: the server is asked for the settings with names of two
    /// parts that it may set. Returns what else it does.
    pub(crate) fn note_custom(&mut self, effects: Effects, (searched, cut): (&[u8], bool)) -> Effects {
        if cut || self.client.mode != PoolMode::Auto || !effects.may_leave.contains(Dirty::CUSTOM) {
            return effects;
        }
        self.server.may_set(effects, sql::custom_settings(searched).as_deref())
    }

    /// A query with these effects is sent: it ends the client's unnamed statement.
    #[inline]
    fn expect_query(&mut self, effects: Effects) {
        let had_unnamed = self.has_unnamed();
        self.server.unnamed = None;
        self.server.text_sent(effects);
        if had_unnamed {
            self.change_unnamed(Expected::QueryLogged, Unnamed::None);
            self.server.pending.set_newest(effects);
        } else {
            self.server.pending.request_with(Expected::Query, effects);
        }
    }

    /// A text that may be a command for which a database must be free of other connections.
    #[cold]
    pub(crate) fn note_needed_alone(&mut self, text: &[u8]) {
        if let Some(database) = sql::needed_alone(text) {
            self.ctx.counts.needed_alone = Some(String::from_utf8_lossy(&database).into());
        }
    }

    /// Sends a query with another beginning, in place of that up to `before`.
    #[cold]
    pub(crate) fn send_edited(&mut self, message: &[u8], head: Head, before: usize, edited: &Edited) -> Rewrite {
        put_front::query_head(self.ctx.scratch, &edited.text, head.total() - before);
        if !edited.prepares {
            return Rewrite::After(before);
        }
        // If a statement can't be prepared, the server skips the query, up to this Sync.
        self.ctx.scratch.extend_from_slice(&message[before..]);
        self.server.pending.request(Expected::OwnSync);
        put_front::sync(self.ctx.scratch);
        Rewrite::Replaced
    }

    /// A `DEALLOCATE name` by a simple query: ours to answer where the name is one of the client's, unless the
    /// transaction has failed.
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
        let too_long = message.get(HEAD).is_some_and(|first| is_too_long(*first, head.total()));
        if message.len() < head.total() || too_long {
            return self.stream_unnamed(message, head);
        }
        let Ok(parse) = frontend::parse(&message[HEAD..]) else { return Ok(self.forward_malformed(Expected::Parse)) };
        if parse.name.is_empty() {
            return match self.parse_unnamed(parse.text, parse.rest)? {
                Some(rewrite) => Ok(rewrite),
                None => self.stream_unnamed(message, head),
            };
        }
        if !is_readable(parse.name, self.ctx.params.is_utf8(&self.server.params)) {
            return Ok(self.forward(Expected::Parse));
        }
        self.must_be_settled(Subject::Name(parse.name))?;
        if self.ctx.rules.state.refuses_some() {
            let effects = self.judge(parse.text).effects;
            if self.refuses(effects) {
                return Ok(self.refuse_parse(effects, Change::None));
            }
        }
        let rest_follows = self.parse_named(parse.name, parse.rest)?;
        Ok(if rest_follows { Rewrite::After(head.total() - parse.rest.len()) } else { Rewrite::Replaced })
    }

    /// `None` if there is no room to hold it.
    fn parse_unnamed(&mut self, text: &[u8], rest: &[u8]) -> Result<Option<Rewrite>, StopReason> {
        let judged = self.judge(text);
        let effects = judged.effects;
        self.may_ask_for_values(judged.question)?;
        if self.refuses(effects) {
            let before = self.client.replace_unnamed(Unnamed::None);
            return Ok(Some(self.refuse_parse(effects, Change::Unnamed { before })));
        }
        if !judged.harmless {
            self.note_needed_alone(text);
        }
        let Some(held) = self.hold(rest, judged) else { return Ok(None) };
        self.change_unnamed(Expected::ParseUnnamed, Unnamed::Held(held));
        self.fill_unnamed_slot(effects);
        Ok(Some(Rewrite::Unchanged))
    }

    /// Returns whether the rest of the message must follow what is composed.
    fn parse_named(&mut self, name: &[u8], rest: &[u8]) -> Result<bool, StopReason> {
        if let Some(mut known) = self.given(name).cloned() {
            // The server itself says that the name is taken: under our name for it, it is.
            self.ensure(name, &mut known)?;
            let shown = &name[..name.len().min(SHOWN_NAME)];
            self.ctx.counts.name_taken = Some(String::from_utf8_lossy(shown).into());
            self.expect_logged(Expected::ParseTaken, None, Change::Taken { name: Name::new(name) });
            self.compose_parse(known.statement.name(), rest);
            return Ok(false);
        }
        if self.client.prepared() >= self.ctx.rules.client_statements {
            return Err(StopReason::refuse(Refusal::StatementLimit(
                "too many prepared statements (client_statements)",
            )));
        }
        make_room(self.client, self.ctx, name, rest)?;
        let statement = self.intern(rest)?;
        self.may_ask_for_values(statement.judged().question)?;
        self.must_be_known_on_server(statement.key())?;
        if statement.judged().reads_clock {
            // What other clients have prepared has the time of then.
            self.ctx.statements.outdate(statement.key());
        }
        if !statement.judged().harmless {
            self.note_needed_alone(statement.text());
        }
        if self.server.state.may_have_prepared() {
            self.must_be_free(name, rest);
        }
        Ok(self.prepare(&statement, Some(name)))
    }

    /// What SQL has prepared on the server has the client's names there, and so can be in the way of its Parse: the
    /// server says so, behind any other error in the text.
    #[cold]
    fn must_be_free(&mut self, name: &[u8], rest: &[u8]) {
        let hidden = name.starts_with(NAME_PREFIX).then(|| hidden(name));
        let name = hidden.as_deref().unwrap_or(name);
        self.server.pending.request(Expected::OwnParseUnnamed);
        self.compose_parse(name, if rest.len() > LONG_TEXT { &b"\0\0\0"[..] } else { rest });
        self.close(name, None);
    }

    /// A message that is not laid out as its kind is forwarded: the server says what is wrong with it, and goes on.
    #[cold]
    fn forward_malformed(&mut self, what: Expected) -> Rewrite {
        self.server.unnamed = None;
        self.forward(what)
    }

    fn bind(&mut self, message: &[u8], head: Head) -> Result<Rewrite, StopReason> {
        let Some(bind) = frontend::bind_head(&message[HEAD..])? else {
            if message.len() == head.total() {
                return Ok(self.forward_malformed(Expected::Bind));
            }
            return Err(StopReason::protocol("a Bind with very long names"));
        };
        self.must_be_settled(Subject::of(bind.statement))?;
        self.bind_again(bind.portal);
        let known = self.given(bind.statement).cloned();
        let named = known.as_ref().map(|given| &*given.statement);
        self.may_ask_for_values(match (&self.client.unnamed, named) {
            (Unnamed::Held(held), _) if bind.statement.is_empty() => held.judged().question,
            (_, Some(named)) => named.judged().question,
            _ => Question::Nothing,
        })?;
        if let Some(rewrite) = self.bind_about_statements(head, bind, named)? {
            return Ok(rewrite);
        }
        if bind.statement.is_empty() {
            if !self.ensure_unnamed()? {
                return Ok(self.fail(RefusedFor::Shape));
            }
            self.note_bound_unknown(bind.portal);
            let mut effects = self.server.state.unnamed();
            if let Unnamed::Held(held) = &self.client.unnamed {
                effects = self.server.may_set(effects, held.judged().custom.as_deref());
            }
            self.bind_portal(bind.portal, effects);
            self.count_unnamed(effects);
            return Ok(Rewrite::Unchanged);
        }
        let Some(mut known) = known else { return self.bind_unknown(head, bind) };
        let fit = self.ensure_same(bind.statement, &mut known)?;
        if fit == Fit::Other {
            return Ok(self.fail(RefusedFor::Shape));
        }
        let kept = self.is_to_be_kept(fit);
        self.note_bound(bind.portal, &known);
        let statement = &known.statement;
        let effects = self.server.may_set(self.effects_of(statement), statement.judged().custom.as_deref());
        self.bind_portal(bind.portal, effects);
        if self.client.mode == PoolMode::Auto {
            let text = hidden_effects::first_of(statement.text(), LONG_TEXT);
            self.count_shape(ShapeKey(statement.key().0 as u64), text, effects.may_leave);
        }
        if kept {
            self.keep(&known, message, head);
        }
        Ok(self.renamed_bind(head, bind, statement.name()))
    }

    /// A Bind of a statement that the client did not prepare by a Parse: one of SQL's PREPARE, or none.
    fn bind_unknown(&mut self, head: Head, bind: BindHead<'_>) -> Result<Rewrite, StopReason> {
        self.note_bound_unknown(bind.portal);
        self.count_unknown();
        if let Some(server_name) = self.guess_denied(bind.statement)? {
            self.server.pending.request(Expected::Bind);
            return Ok(self.renamed_bind(head, bind, server_name));
        }
        self.bind_portal(bind.portal, self.server.state.parsed());
        Ok(Rewrite::Unchanged)
    }

    /// A portal is bound to a text with these effects. A named one is a cursor, which SQL can run without an Execute
    /// (FETCH, `cursor_to_xml()`), so that its state counts from the reply to the Bind.
    #[inline]
    fn bind_portal(&mut self, portal: &[u8], effects: Effects) {
        self.server.bind(portal, effects);
        let Effects { may_leave, plans, .. } = effects;
        let by_sql = if portal.is_empty() { Effects::NONE } else { Effects { may_leave, plans, ..Effects::NONE } };
        self.server.pending.request_with(Expected::Bind, by_sql);
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
            (Of::Statement, false) => self.describe_statement(message, head, named.name),
        }
    }

    fn describe_statement(&mut self, message: &[u8], head: Head, name: &[u8]) -> Result<Rewrite, StopReason> {
        if self.naming_of(name).is_some() {
            self.must_be_settled(Subject::of(name))?;
            if self.prepare_named_by(name)?.is_some() {
                self.describe_edited();
                return Ok(Rewrite::Replaced);
            }
        }
        if name.is_empty() {
            let same = self.ensure_unnamed()?;
            return Ok(if same { self.describe_unnamed() } else { self.fail(RefusedFor::Shape) });
        }
        self.must_be_settled(Subject::Name(name))?;
        if let Some(mut known) = self.given(name).cloned() {
            let fit = self.ensure_same(name, &mut known)?;
            if fit == Fit::Other {
                return Ok(self.fail(RefusedFor::Shape));
            }
            let kept = self.is_to_be_kept(fit);
            self.expect_description(&known, kept);
            if kept {
                self.keep(&known, message, head);
            }
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

    /// Nobody gets at a statement of others by guessing our names: the name that no statement has is sent in place of
    /// one that begins like ours. `None` for any other name, which the server shall judge.
    fn guess_denied(&mut self, name: &[u8]) -> Result<Option<&'static [u8; NAME_LEN]>, StopReason> {
        if !name.starts_with(NAME_PREFIX) {
            return Ok(None);
        }
        // One such name at a time, so that the refusal can name it.
        self.must_know_status()?;
        self.server.unknown_name.get_or_insert_with(|| name.into());
        Ok(Some(UNKNOWN_NAME))
    }

    /// Binds a statement that is about others. One that drops all is remembered. One that names a statement of the
    /// client's is bound in the server's words for it. `None` where it is bound as any other.
    #[inline]
    fn bind_about_statements(
        &mut self,
        head: Head,
        bind: BindHead<'_>,
        known: Option<&Statement>,
    ) -> Result<Option<Rewrite>, StopReason> {
        let judged = match &self.client.unnamed {
            Unnamed::Held(held) if bind.statement.is_empty() => held.judged(),
            _ => match known {
                Some(known) => known.judged(),
                None => return Ok(None),
            },
        };
        if !judged.harmless {
            if let Some(command) = self.local_reset(judged.reset.as_deref()) {
                let effects = self.server.may_set(judged.effects, judged.custom.as_deref());
                return Ok(Some(self.bind_command(head, bind, &command, effects)));
            }
            start_values::note(self.client, self.server, self.ctx.params, judged.reset.as_deref());
        }
        if judged.concerns_no_statement() {
            return Ok(None);
        }
        if judged.drops_all {
            self.drop_all(Some(bind.portal));
            return Ok(None);
        }
        self.bind_naming(head, bind)
    }

    /// The statement that one of the client's, or its unnamed one, names in its text.
    fn naming_of(&self, name: &[u8]) -> Option<&Naming> {
        match &self.client.unnamed {
            Unnamed::Held(held) if name.is_empty() => held.judged().naming.as_deref(),
            _ => self.given(name)?.statement.judged().naming.as_deref(),
        }
    }

    #[cold]
    fn bind_naming(&mut self, head: Head, bind: BindHead<'_>) -> Result<Option<Rewrite>, StopReason> {
        let Some(naming) = self.naming_of(bind.statement) else { return Ok(None) };
        if naming.verb == sql::Verb::Deallocate && self.given(&naming.name).is_some() {
            let name = naming.name.clone();
            return if self.has_failed()? { Ok(None) } else { self.bind_deallocation(head, bind, &name).map(Some) };
        }
        let Some(effects) = self.prepare_named_by(bind.statement)? else { return Ok(None) };
        self.count_unknown();
        self.note_bound_unknown(bind.portal);
        self.bind_portal(bind.portal, effects);
        Ok(Some(self.renamed_bind(head, bind, b"")))
    }

    /// Binds a statement in the server's words for it.
    fn bind_command(&mut self, head: Head, bind: BindHead<'_>, command: &str, effects: Effects) -> Rewrite {
        let types = self.types_of(bind.statement);
        self.prepare_edited(&[command.as_bytes(), &types].concat());
        self.note_bound_unknown(bind.portal);
        self.bind_portal(bind.portal, effects);
        self.renamed_bind(head, bind, b"")
    }

    /// Prepares a statement of the client's that names another in its text, in the server's words. Returns what both
    /// do; `None` where it is the same in the server's words: then its text is not read.
    fn prepare_named_by(&mut self, name: &[u8]) -> Result<Option<Effects>, StopReason> {
        let Some(naming) = self.naming_of(name).cloned() else { return Ok(None) };
        self.must_be_settled(Subject::Name(&naming.name))?;
        let Some((called, executed)) = self.called_by_server(&naming)? else { return Ok(None) };
        let known = self.client.statement(name).cloned();
        let (rest, judged) = match (&self.client.unnamed, &known) {
            (Unnamed::Held(held), _) if name.is_empty() => (held.bytes(), held.judged()),
            (_, Some(known)) => (known.rest(), known.judged()),
            _ => return Ok(None),
        };
        let effects = judged.effects.either(executed);
        let (text, types) = rest.split_at(judged.text(rest).len());
        let edited = [&*renamed(text, &naming, &called), types].concat();
        self.prepare_edited(&edited);
        Ok(Some(effects))
    }

    /// Binds a `DEALLOCATE name` of a statement that only we know by that name: to one that the server can carry out,
    /// and that says the same. The name is the client's no more once it is bound; a portal that is bound is run.
    fn bind_deallocation(&mut self, head: Head, bind: BindHead<'_>, gone: &[u8]) -> Result<Rewrite, StopReason> {
        self.must_be_settled(Subject::Name(gone))?;
        let types = self.types_of(bind.statement);
        self.close(GONE, None);
        self.server.pending.request(Expected::OwnParseUnnamed);
        self.compose_parse(GONE, b"SELECT 1\0\0\0");
        // The unnamed slot is not the client's own from here on.
        self.server.pending.request(Expected::OwnParseUnnamed);
        self.compose_parse(b"", &[b"DEALLOCATE ", GONE, &types].concat());
        self.server.unnamed = None;
        self.rename(Expected::BindLogged, None, gone, None);
        self.note_bound_unknown(bind.portal);
        Ok(self.renamed_bind(head, bind, b""))
    }

    /// What follows the text in the Parse of a statement: a NUL, the count of types, the types.
    fn types_of(&self, name: &[u8]) -> Box<[u8]> {
        let types = match (&self.client.unnamed, self.client.statement(name)) {
            (Unnamed::Held(held), _) if name.is_empty() => held.bytes().get(held.text().len()..),
            (_, Some(known)) => known.rest().get(known.text().len()..),
            _ => None,
        };
        types.unwrap_or(b"\0\0\0").into()
    }
}
