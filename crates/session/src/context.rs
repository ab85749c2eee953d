//! What a worker's sessions share while one of them is fed, and the rules of the pool that it belongs to.
//!
//! The caller makes a [`Context`] for each feeding; it costs the copy of a few words and references. What the
//! configuration of the pool says is kept as [`PoolRules`], and not computed then.

use weir_base::{OnDirty, Spares};
use weir_pgwire::{Dirty, Head};

use crate::long_text::LONG_TEXT;
use crate::params::{ParamTable, Params};
use crate::statements::{Interner, Key, ParseEnvironment, PoolStatements};
use crate::watched::StatementWatch;

/// So many bytes of a text cost as much as a message.
pub(crate) const READ_AS_ONE: u32 = 64;

/// The bytes of the buffers that are kept for unnamed statements, and of one.
const MAX_SPARE: usize = 128 << 10;
const MAX_SPARE_SIZE: usize = 16 << 10;
/// The largest buffer that is kept for composing messages.
const MAX_SCRATCH: usize = 128 << 10;

/// Buffers that held unnamed statements, for the next ones.
pub type SpareTexts = Spares<MAX_SPARE, MAX_SPARE_SIZE>;

/// What a worker's sessions share while one of them is fed.
pub struct Context<'a> {
    /// The statements of the worker.
    pub interner: &'a mut Interner,
    /// The statements of the pool.
    pub statements: &'a mut PoolStatements,
    /// The tracked parameters.
    pub params: &'a ParamTable,
    /// See [`SpareTexts`].
    pub spare: &'a mut SpareTexts,
    /// A buffer to compose messages in; its content means nothing between calls.
    pub scratch: &'a mut Vec<u8>,
    /// What happened, to be added to the pool's statistics.
    pub counts: &'a mut StatementMessageCounts,
    /// The rules of the pool.
    pub rules: &'a PoolRules,
    /// What is done with clients' statements when [`PoolRules::max_prepared`] is set to 0.
    pub without_cache: WithoutCache,
    /// What messages may be, in either direction.
    pub messages: MessagePolicy,
    /// The process id that the client received; 0: none. Its own notifications name it.
    pub client_pid: u32,
    /// The most segments of a client (up to a Sync each, or a simple query) that its server has to answer at a time;
    /// the next one is not sent before.
    pub max_pending_segments: u32,
    /// The most messages of a client that one call of [`from_client::feed`](crate::from_client::feed) reads; fewer, if
    /// they cost more than others do. The call reduces it.
    pub max_messages: u32,
    /// What counts statements, if they are counted.
    pub watch: Option<&'a mut dyn StatementWatch>,
}

/// What a pool allows its clients.
#[derive(Clone, Copy, Debug)]
pub struct PoolRules {
    /// The most statements of ours on a server.
    pub max_prepared: usize,
    /// The most named statements of a client.
    pub client_statements: usize,
    /// The most bytes of statements of a client.
    pub client_memory: u64,
    /// What is done about session state that is lost.
    pub state: StatePolicy,
    /// Whether clients listen through a shared connection.
    pub shares_listen: bool,
}

/// What is done with statements that clients have prepared when Weir's own are turned off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WithoutCache {
    /// The statements can be used until their clients leave.
    Kept,
    /// The statements' names mean what they mean on the server, where they are unknown (PgBouncer).
    Unknown,
}

/// Which messages are passed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MessagePolicy {
    /// The longest message, in bytes, its tag included (`max_packet_size`).
    pub longest: u32,
    /// Whether queries may come by the simple protocol.
    pub simple: SimpleQueries,
}

/// What is done with queries of the simple protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SimpleQueries {
    /// Simple queries are passed on.
    Allowed,
    /// A client that sends a simple query is refused (`disable_pqexec`).
    Refused,
}

/// What is done about requests whose state is lost when their transaction ends.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct StatePolicy {
    /// The client gets a WARNING, once for each kind (`warn_on_dirty`).
    pub warn: bool,
    /// What happens to the server; with [`OnDirty::Refuse`] the client gets an ERROR instead.
    pub on_dirty: OnDirty,
    /// The kinds for which a client may not keep its server: it gets an ERROR instead (`pin_refuse`).
    pub refuse_pins: Dirty,
    /// The kinds that follow a client: no statement is refused because of them.
    pub follows: Dirty,
}

/// How many messages about statements a feeding passed on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StatementMessageCounts {
    /// Parse messages of clients.
    pub client_parses: u64,
    /// Parse messages sent to servers.
    pub server_parses: u64,
    /// Bind messages of clients.
    pub binds: u64,
    /// The bytes of long texts that were read or copied as a whole.
    pub long_texts: u64,
    /// The beginning of the last name that a client gave to a second statement, which its server refuses.
    pub name_taken: Option<Box<str>>,
    /// The last database to which no others may be connected while a client's statement runs.
    pub needed_alone: Option<Box<str>>,
}

impl StatementMessageCounts {
    /// Whether nothing was counted, as of a simple query.
    #[inline]
    pub fn is_empty(&self) -> bool {
        let StatementMessageCounts { client_parses, server_parses, binds, long_texts, name_taken, needed_alone } = self;
        client_parses | server_parses | binds | long_texts == 0 && name_taken.is_none() && needed_alone.is_none()
    }
}

impl MessagePolicy {
    /// Whether a message is too long to be passed on.
    #[inline]
    pub(crate) fn excludes(self, head: Head) -> bool {
        head.total() > self.longest as usize
    }
}

impl StatePolicy {
    /// Whether it matters what a text certainly leaves.
    #[inline]
    pub(crate) fn judges(self) -> bool {
        self.warn || self.refuses_some()
    }

    /// Whether statements that would leave state of some kind are refused.
    #[inline]
    pub(crate) fn refuses_some(self) -> bool {
        !self.refused().is_empty()
    }

    /// The kinds of state for which a statement that would certainly leave it is refused. A setting may follow its
    /// client: whether it does is known afterwards.
    #[inline]
    pub(crate) fn refused(self) -> Dirty {
        let all = if self.on_dirty == OnDirty::Refuse { Dirty::ALL } else { self.refuse_pins.without(Dirty::SETTINGS) };
        all.without(self.follows)
    }
}

impl Context<'_> {
    /// An empty buffer for an unnamed statement.
    pub(crate) fn spare_buffer(&mut self) -> Vec<u8> {
        self.spare.take()
    }

    /// Keeps a buffer for the next unnamed statement.
    pub(crate) fn keep_spare(&mut self, buffer: Vec<u8>) {
        self.spare.keep(buffer);
    }

    /// Whether a RESET returns to what the client asked for at its login, and not to the server's default, as with
    /// PgBouncer where servers are not reset.
    pub(crate) fn returns_to_start_values(&self) -> bool {
        self.without_cache == WithoutCache::Kept || self.rules.state.on_dirty != OnDirty::Keep
    }

    /// By what this text is parsed if a client with these parameters sends it now, as far as that is known; `asked`: those
    /// of its login.
    pub(crate) fn parse_environment(&self, text: Key, client: &Params, asked: &Params) -> ParseEnvironment {
        let values = self.params.read_by(client, asked, self.statements.custom_is_planned);
        let environment = self.interner.environment(values, self.statements.schema_changes());
        self.statements.environment_of(text, environment)
    }

    /// Something was done that costs as much as so many messages.
    #[inline]
    pub(crate) fn spend(&mut self, messages: u32) {
        self.max_messages = self.max_messages.saturating_sub(messages);
    }

    /// So many bytes of a statement's text were read or copied as a whole: that costs as much as some messages, and of a
    /// long text so much that the client is paced.
    #[inline]
    pub(crate) fn spend_on_text(&mut self, bytes: usize) {
        if bytes > LONG_TEXT {
            self.counts.long_texts += bytes as u64;
            self.spend(bytes as u32 / READ_AS_ONE);
        }
    }

    /// A very large message was composed: its memory is not kept.
    #[inline]
    pub(crate) fn trim_scratch(&mut self) {
        if self.scratch.capacity() > MAX_SCRATCH {
            *self.scratch = Vec::new();
        }
    }
}
