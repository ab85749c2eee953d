//! The cause of a refusal: overload or failure, for the client, the log and the counters.
//!
//! Owns the classes and the causes of a wait that timed out. Must not know the refusals themselves, which are in
//! `refusal`.

use std::fmt;

/// The class of a refusal, by which it is counted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Class {
    /// All servers of the pool were in use for too long.
    PoolFull,
    /// A server took too long: for a login, or for a query.
    ServerSlow,
    /// No server was available, or the one in use was lost.
    ServerDown,
    /// A limit of clients, of servers or of statements was reached; ours, or the server's own.
    LimitReached,
    /// Something else: who the client is, what it does, what the operator does.
    Other,
}

/// Why a wait did not end with a server.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Cause {
    /// Every server that the pool may have was in use.
    PoolFull,
    /// There was room for another server, and its login did not come to its end.
    ServerSlow,
    /// There was room for another server, and none was available.
    ServerDown,
    /// There was room in the pool, but not under a limit that it shares with others.
    LimitReached,
    /// The operator had stopped the pool.
    Paused,
}

impl Cause {
    /// The SQLSTATE of a wait that ended so (PostgreSQL documentation, Appendix A).
    pub fn sqlstate(self) -> &'static str {
        match self {
            Cause::PoolFull | Cause::Paused => "57014",
            Cause::ServerSlow => "08001",
            Cause::ServerDown => "08006",
            Cause::LimitReached => "53300",
        }
    }

    pub(crate) fn class(self) -> Class {
        match self {
            Cause::PoolFull => Class::PoolFull,
            Cause::ServerSlow => Class::ServerSlow,
            Cause::ServerDown => Class::ServerDown,
            Cause::LimitReached => Class::LimitReached,
            Cause::Paused => Class::Other,
        }
    }

    pub(crate) fn hint(self) -> &'static str {
        match self {
            Cause::PoolFull => "All servers of the pool were in use. A retry is safe.",
            Cause::ServerSlow => "The server did not take another login in time. A retry is safe.",
            Cause::ServerDown => "No server connection could be opened. A retry is safe.",
            Cause::LimitReached => {
                "A limit allows the pool no other server connection now: see the detail. A retry is safe."
            }
            Cause::Paused => "The operator has paused the pool. A retry is safe.",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cause::PoolFull => "pool full",
            Cause::ServerSlow => "server slow",
            Cause::ServerDown => "server down",
            Cause::LimitReached => "limit reached",
            Cause::Paused => "paused",
        })
    }
}
