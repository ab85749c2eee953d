//! A context for whoever feeds sessions without an engine: tests, fuzzers, and what counts instructions.

use crate::StatementMemory;
use crate::context::{
    Context, MessagePolicy, PoolRules, SimpleQueries, SpareTexts, StatePolicy, StatementMessageCounts, WithoutCache,
};
use crate::params::ParamTable;
use crate::statements::{Interner, PoolStatements};

/// All that a [`Context`] refers to, and the rules of one pool.
pub struct OwnContext {
    /// The statements of the worker.
    pub interner: Interner,
    /// The statements of the pool.
    pub statements: PoolStatements,
    /// The tracked parameters.
    pub params: ParamTable,
    /// See [`Context::spare`].
    pub spare: SpareTexts,
    /// See [`Context::scratch`].
    pub scratch: Vec<u8>,
    /// See [`Context::counts`].
    pub counts: StatementMessageCounts,
    /// See [`Context::rules`].
    pub rules: PoolRules,
    /// See [`Context::without_cache`].
    pub without_cache: WithoutCache,
    /// See [`Context::messages`].
    pub messages: MessagePolicy,
    /// See [`Context::client_pid`].
    pub client_pid: u32,
    /// See [`Context::max_pending_segments`].
    pub max_pending_segments: u32,
    /// See [`Context::max_messages`].
    pub max_messages: u32,
}

impl OwnContext {
    /// A pool whose statements may take so many bytes, on one worker, with the least restrictive rules.
    pub fn new(memory: u64) -> OwnContext {
        let interner = Interner::new([3; 16], &StatementMemory::default(), memory);
        OwnContext {
            statements: interner.pool("app", "joe", memory),
            interner,
            params: ParamTable::new([]),
            spare: SpareTexts::default(),
            scratch: Vec::new(),
            counts: StatementMessageCounts::default(),
            rules: PoolRules {
                max_prepared: 100,
                client_statements: 100,
                client_memory: memory,
                state: StatePolicy::default(),
                shares_listen: false,
            },
            without_cache: WithoutCache::Kept,
            messages: MessagePolicy { longest: u32::MAX, simple: SimpleQueries::Allowed },
            client_pid: 0,
            max_pending_segments: u32::MAX,
            max_messages: u32::MAX,
        }
    }

    /// The context for feeding a session.
    pub fn context(&mut self) -> Context<'_> {
        Context {
            interner: &mut self.interner,
            statements: &mut self.statements,
            params: &self.params,
            spare: &mut self.spare,
            scratch: &mut self.scratch,
            counts: &mut self.counts,
            rules: &self.rules,
            without_cache: self.without_cache,
            messages: self.messages,
            client_pid: self.client_pid,
            max_pending_segments: self.max_pending_segments,
            max_messages: self.max_messages,
            watch: None,
        }
    }
}
