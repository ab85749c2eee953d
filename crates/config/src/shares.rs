//! Database servers whose connections several pools share (`[servers]`), and each pool's share.

use std::sync::Arc;

/// A database server whose connections pools share (`[servers]`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerRules {
    /// The most connections of all its pools together.
    pub max_connections: u32,
    /// The sum of what its pools are guaranteed ([`crate::Config::sum_guarantees`]).
    pub guaranteed: u32,
}

/// A pool's share of a database server's connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolShare {
    /// The name of the server in `[servers]`; `None`: the pool shares with no other.
    pub server: Option<Arc<str>>,
    /// How many connections the pool gets back from others whenever it needs them, over all users.
    pub guaranteed: u32,
    /// The pool's part of the rest, in proportion to the weights of others.
    pub weight: u32,
}

impl Default for PoolShare {
    fn default() -> PoolShare {
        PoolShare { server: None, guaranteed: 0, weight: 1 }
    }
}
