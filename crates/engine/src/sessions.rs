//! State that all sessions of a worker share: statements, parameters, buffers.

use weir_base::{PoolMode, SMALLEST_SPARE, Spares};
use weir_config::{Config, FileFormat};
use weir_pgwire::Dirty;
use weir_session::{
    Client, Context, Interner, MessagePolicy, ParamTable, PoolRules, PoolStatements, SimpleQueries, SpareTexts,
    StatePolicy, StatementMemory, StatementMessageCounts, WithoutCache,
};

use crate::link::statements::{Fed, Statements};

/// The most messages of a client that one turn reads: the smallest have five bytes, so a read of the runtime's may hold
/// more than ten thousand, which would delay all other clients of the worker by a millisecond. What costs more than the
/// usual message, as a statement that is new, counts as several.
const MAX_MESSAGES: u32 = 512;
/// The bytes of spare buffers for waiting clients, and of one.
const MAX_BLOCKS: usize = 256 << 10;
const BLOCK_SIZE: usize = 16 << 10;

/// See the head of the file.
pub(crate) struct Sessions {
    pub(crate) interner: Interner,
    pub(crate) params: ParamTable,
    /// Spare buffers for unnamed statements.
    spare: SpareTexts,
    pub(crate) scratch: Vec<u8>,
    pub(crate) counts: StatementMessageCounts,
    /// What is counted of statements.
    pub(crate) statements: Statements,
    /// The key of the hash of statements' texts.
    statements_key: u64,
    /// The place of application_name among the parameters.
    application: Option<usize>,
    /// Which messages are passed on.
    pub(crate) messages: MessagePolicy,
    without_cache: WithoutCache,
    /// Buffers that held what clients sent while they waited.
    blocks: Spares<MAX_BLOCKS, BLOCK_SIZE>,
}

impl Sessions {
    /// The state that sessions share; `hash_key` is the key of statements' names, the same in all workers of the
    /// process.
    pub(crate) fn new(hash_key: [u8; 16], memory: &StatementMemory, config: &Config) -> Sessions {
        let params = ParamTable::new(config.track_extra_parameters.iter().map(String::as_str));
        let mut sessions = Sessions {
            interner: Interner::new(hash_key, memory, config.limits.statement_memory),
            application: params.place("application_name"),
            params,
            spare: SpareTexts::default(),
            scratch: Vec::new(),
            counts: StatementMessageCounts::default(),
            statements: Statements::default(),
            statements_key: hash_key.iter().fold(0, |key, byte| key << 8 ^ key >> 56 ^ u64::from(*byte)),
            messages: messages(config),
            without_cache: without_cache(config),
            blocks: Spares::default(),
        };
        sessions.statements.apply_config(config, sessions.statements_key);
        sessions
    }

    /// Applies a configuration.
    pub(crate) fn apply_config(&mut self, config: &Config) {
        self.messages = messages(config);
        self.without_cache = without_cache(config);
        self.interner.set_limit(config.limits.statement_memory);
        self.statements.apply_config(config, self.statements_key);
    }

    /// The context for feeding a session; `whose` says which one, where statements are counted.
    #[inline]
    pub(crate) fn context<'a, 'f>(
        &'a mut self,
        whose: impl FnOnce() -> Fed<'f>,
        rules: &'a PoolRules,
        accepted: &'a mut PoolStatements,
        ahead: u32,
    ) -> Context<'a> {
        Context {
            interner: &mut self.interner,
            statements: accepted,
            params: &self.params,
            spare: &mut self.spare,
            scratch: &mut self.scratch,
            counts: &mut self.counts,
            rules,
            without_cache: self.without_cache,
            messages: self.messages,
            client_pid: 0,
            max_pending_segments: ahead,
            max_messages: MAX_MESSAGES,
            watch: self.statements.watch(whose),
        }
    }

    /// The application_name that a client wants; empty if it gave none.
    pub(crate) fn application<'c>(&self, client: &'c Client) -> &'c str {
        self.application.and_then(|place| client.params().at(place)).unwrap_or_default()
    }

    /// Adds input to the buffer of a client that waits.
    pub(crate) fn keep(&mut self, waiting: &mut Vec<u8>, bytes: &[u8]) {
        if waiting.capacity() == 0 {
            *waiting = self.blocks.take();
            // A smaller one would not be kept for reuse.
            waiting.reserve(SMALLEST_SPARE);
        }
        waiting.extend_from_slice(bytes);
    }

    /// Keeps the buffer of a waiting client for reuse.
    pub(crate) fn recycle(&mut self, block: Vec<u8>) {
        self.blocks.keep(block);
    }
}

/// What a configured pool allows its clients; `shares_listen`: whether they listen through a shared connection.
pub(crate) fn pool_rules(pool: &weir_config::PoolConfig, shares_listen: bool) -> PoolRules {
    let limits = &pool.limits;
    PoolRules {
        max_prepared: limits.max_prepared_statements as usize,
        client_statements: limits.client_statements as usize,
        client_memory: limits.client_share(),
        state: state_policy(pool, shares_listen),
        shares_listen,
    }
}

/// What is done about session state. In the other modes no client keeps a server for it.
fn state_policy(pool: &weir_config::PoolConfig, shares_listen: bool) -> StatePolicy {
    let pins = pool.policy.mode == PoolMode::Auto;
    let refuse_pins = if pins { Dirty::from_bits(pool.limits.pin_refuse.bits()) } else { Dirty::NONE };
    // In mode auto a client keeps its server where the pool has none to share.
    let follows = if shares_listen || (pins && pool.shares_listening()) { Dirty::LISTEN } else { Dirty::NONE };
    StatePolicy { warn: pool.policy.warn_on_dirty, on_dirty: pool.on_dirty(), refuse_pins, follows }
}

/// What is done with prepared statements of clients when Weir's own are turned off; with a `pgbouncer.ini` as in
/// PgBouncer.
fn without_cache(config: &Config) -> WithoutCache {
    if config.format == FileFormat::Ini { WithoutCache::Unknown } else { WithoutCache::Kept }
}

/// Which messages are passed on.
fn messages(config: &Config) -> MessagePolicy {
    let simple = if config.disable_pqexec { SimpleQueries::Refused } else { SimpleQueries::Allowed };
    MessagePolicy { longest: config.max_packet_size, simple }
}
