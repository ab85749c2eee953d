//! A client's statement is made ready on its server, with Parse and Close messages of our own on the way.
//!
//! Owns what is in the server's unnamed slot and which named statements are parsed, closed or evicted for a request.

use std::sync::Arc;

use weir_pgwire::{Dirty, Effects, Of, TxStatus, put_front};

use crate::budget::NoRoom;
use crate::client::{Client, HeldText, Unnamed};
use crate::context::{Context, READ_AS_ONE};
use crate::expected::Expected;
use crate::judged::{Judged, Kept};
use crate::link::Link;
use crate::long_text::{LONG_TEXT, SEARCHED};
use crate::names::{ClientStatements, Given};
use crate::prepared::OnServer;
use crate::refusal::Refusal;
use crate::statements::{Key, NotInterned, ParseEnvironment, PreparationState, Statement, cost};
use crate::stop::StopReason;
use crate::undo_log::Change;

/// A statement that is new here costs as much as this many messages, beside its text.
const NEW_TEXT: u32 = 24;

impl Link<'_, '_> {
    /// The statement of a Parse whose name is followed by `rest`.
    pub(crate) fn intern(&mut self, rest: &[u8]) -> Result<Arc<Statement>, StopReason> {
        let before = self.ctx.interner.stored();
        let read = self.ctx.interner.read(rest, self.client.arriving.as_deref_mut());
        let environment = self.environment_of(read.key);
        let statement = self.ctx.interner.intern_read(self.ctx.statements, rest, read, environment);
        self.ctx.spend_on_text(rest.len());
        if self.ctx.interner.stored() != before {
            self.ctx.spend(NEW_TEXT + rest.len() as u32 / READ_AS_ONE);
        }
        statement.map_err(not_interned)
    }

    /// What the server has of a statement, which becomes the most recently used one.
    #[inline]
    pub(crate) fn touch(&mut self, key: Key) -> OnServer {
        let on_server = self.server.statements.touch(key);
        if on_server != OnServer::Ready {
            return on_server;
        }
        match self.ctx.statements.preparation_state(key, self.server.statements.newest().of) {
            PreparationState::Good => OnServer::Ready,
            PreparationState::Unsure => OnServer::Unsure,
            PreparationState::Outdated => OnServer::Stale,
        }
    }

    /// Makes sure that the server has what the client calls `name`, with requests of our own. Where it must be
    /// prepared, its text is read by the parameters and definitions of now; if these are others than before, it is
    /// another statement from here on. Returns what the server had of it: [`OnServer::Absent`] if it was prepared.
    #[inline]
    pub(crate) fn ensure(&mut self, name: &[u8], given: &mut Given) -> Result<OnServer, StopReason> {
        self.must_be_known_on_server(given.statement.key())?;
        if self.ctx.statements.custom_is_planned && self.is_read_otherwise(given) {
            return self.make_ready(name, given);
        }
        let found = self.touch(given.statement.key());
        let is_ready = matches!(found, OnServer::Ready | OnServer::Unsure);
        let is_older =
            given.statement.is_unanalysed() && self.server.statements.newest().may_be_older_than(given.shape);
        if is_ready && !is_older {
            return Ok(found);
        }
        self.make_ready(name, given)
    }

    /// By what this text is parsed if the client sends it now.
    fn environment_of(&self, text: Key) -> ParseEnvironment {
        self.ctx.parse_environment(text, &self.client.params, &self.client.start.asked)
    }

    /// Whether the statement would be read and planned by other values now than when it was given to the client.
    fn is_read_otherwise(&self, given: &Given) -> bool {
        given.statement.environment() != self.environment_of(given.statement.text_key())
    }

    fn make_ready(&mut self, name: &[u8], given: &mut Given) -> Result<OnServer, StopReason> {
        if self.is_read_otherwise(given) {
            let environment = self.environment_of(given.statement.text_key());
            let again = self.ctx.interner.intern_again(self.ctx.statements, &given.statement, environment);
            given.statement = again.map_err(not_interned)?;
            self.client.statements_mut().replace(name, given.statement.clone());
            self.must_be_known_on_server(given.statement.key())?;
            let found = self.touch(given.statement.key());
            if matches!(found, OnServer::Ready | OnServer::Unsure) {
                return Ok(found);
            }
        }
        self.prepare(&given.statement, None);
        Ok(OnServer::Absent)
    }

    /// Prepares a statement on the server, or answers for it if the server has it. `client_name` tells a Parse of the
    /// client from one of our own. Returns whether the rest of the client's message must follow: a long text is not
    /// copied.
    pub(crate) fn prepare(&mut self, statement: &Arc<Statement>, client_name: Option<&[u8]>) -> bool {
        let mut on_server = self.touch(statement.key());
        if on_server == OnServer::Unsure {
            // The request that uses it is kept.
            on_server = OnServer::Ready;
        }
        // The server shall refuse it if the transaction has failed, as it refuses all Parse then; and it shall read what
        // the client prepares by a `search_path` that the client has set in this use.
        let must_be_sent = self.server.status == TxStatus::Failed
            || self.server.pending.is_ahead()
            || (client_name.is_some() && self.server.state.have_plans_changed());
        if on_server == OnServer::Ready && must_be_sent {
            on_server = OnServer::Stale;
        }
        let since = self.ctx.statements.preparations();
        if on_server == OnServer::Ready {
            if let Some(name) = client_name {
                self.rename(Expected::LocalParse, None, name, Some((statement.clone(), since)));
            }
            return false;
        }
        let stale = if on_server == OnServer::Stale { Some(statement.key()) } else { None };
        let evicted = self.server.statements.insert(statement.key(), self.ctx.rules.max_prepared);
        let of = self.ctx.statements.next_preparation();
        self.server.statements.set_preparation(statement.key(), of);
        for key in stale.into_iter().chain(evicted) {
            self.close(&key.name(), Some(key));
        }
        let key = Some(statement.key());
        match client_name {
            Some(name) => self.rename(Expected::ParseNamed, key, name, Some((statement.clone(), since))),
            None => self.expect_logged(Expected::OwnParse, key, Change::None),
        }
        if client_name.is_some() && statement.rest().len() > LONG_TEXT {
            self.ctx.counts.server_parses += 1;
            put_front::parse_head(self.ctx.scratch, statement.name(), statement.rest().len());
            return true;
        }
        self.compose_parse(statement.name(), statement.rest());
        false
    }

    /// Closes a statement with a request of our own; `key` is remembered of it.
    pub(crate) fn close(&mut self, name: &[u8], key: Option<Key>) {
        self.server.closes.push(self.server.pending.segment(), key);
        self.server.pending.request(Expected::OwnClose);
        put_front::close(self.ctx.scratch, Of::Statement, name);
    }

    pub(crate) fn compose_parse(&mut self, name: &[u8], rest: &[u8]) {
        self.ctx.counts.server_parses += 1;
        let before = self.ctx.scratch.len();
        put_front::parse(self.ctx.scratch, name, rest);
        self.ctx.spend_on_text(rest.len());
        *self.composed += self.ctx.scratch.len() - before;
    }

    /// Puts the client's unnamed statement into the server's unnamed slot, or empties that.
    pub(crate) fn put_unnamed(&mut self) {
        let id = self.client.unnamed_id();
        let Unnamed::Held(held) = &self.client.unnamed else {
            self.server.unnamed = None;
            self.close(b"", None);
            return;
        };
        let rest = held.bytes();
        self.server.state.set_unnamed(held.judged().effects);
        self.server.unnamed = Some(id);
        self.server.unnamed_at = self.server.pending.segment();
        self.server.slot = Default::default();
        self.server.pending.request(Expected::OwnParseUnnamed);
        self.ctx.counts.server_parses += 1;
        let before = self.ctx.scratch.len();
        put_front::parse(self.ctx.scratch, b"", rest);
        *self.composed += self.ctx.scratch.len() - before;
    }

    /// The server's unnamed slot holds the client's unnamed statement from now on; `effects` are those of its text.
    pub(crate) fn fill_unnamed_slot(&mut self, effects: Effects) {
        self.ctx.counts.server_parses += 1;
        self.server.unnamed = Some(self.client.unnamed_id());
        self.server.slot = Default::default();
        self.server.state.set_unnamed(effects);
    }

    /// Judges the text of a Parse, on this server.
    #[inline]
    pub(crate) fn judge(&self, text: &[u8]) -> Judged {
        let mut judged = Judged::of(text);
        if !judged.harmless && !judged.is_long() && self.ctx.rules.state.judges() {
            judged.effects.leaves = Kept::of(text, self.ctx.params).lost_with(&self.server.params);
        }
        judged
    }

    /// What running a statement does on this server.
    #[inline]
    pub(crate) fn effects_of(&self, statement: &Statement) -> Effects {
        let warns = self.ctx.rules.state.warn;
        let leaves = if warns { statement.certainly_left(self.ctx.params, &self.server.params) } else { Dirty::NONE };
        Effects { leaves, ..statement.effects() }
    }

    /// An unnamed statement's text, to be parsed again on the client's next server; nothing if there is no room for it.
    /// There is room for a short text that we carry out ourselves: a DEALLOCATE is what makes room.
    pub(crate) fn hold(&mut self, rest: &[u8], judged: Judged) -> Option<HeldText> {
        if judged.is_about_session() && rest.len() <= SEARCHED {
            return Some(HeldText::anyway(rest.to_vec(), judged, self.ctx.statements.account()));
        }
        let mut buffer = self.ctx.spare_buffer();
        buffer.extend_from_slice(rest);
        let held = self.client.statements.as_ref().map_or(0, |statements| statements.cost());
        if held + buffer.capacity() as u64 > self.ctx.rules.client_memory {
            return None;
        }
        HeldText::new(buffer, judged, self.ctx.statements.account())
    }
}

/// One statement more must be within what the client may hold.
pub(crate) fn make_room(
    client: &mut Client,
    ctx: &mut Context<'_>,
    name: &[u8],
    rest: &[u8],
) -> Result<(), StopReason> {
    let more = ClientStatements::cost_of(name, cost(rest));
    if client.statement_bytes() + more > ctx.rules.client_memory {
        let what = "prepared statements of one client exceed client_statement_memory";
        return Err(StopReason::refuse(Refusal::StatementLimit(what)));
    }
    client.statements_mut().make_room(name, ctx.statements.account()).map_err(no_room)
}

fn not_interned(why: NotInterned) -> StopReason {
    match why {
        NotInterned::NoRoom(limit) => no_room(limit),
        NotInterned::Collision => StopReason::refuse(Refusal::Broken("two statements with one name")),
    }
}

fn no_room(limit: NoRoom) -> StopReason {
    StopReason::refuse(match limit {
        NoRoom::Pool => Refusal::StatementLimit("prepared statements of one pool exceed pool_statement_memory"),
        NoRoom::Process => Refusal::StatementLimit("prepared statements exceed statement_memory"),
    })
}
