//! Quotas of the whole process: clients (`max_db_client_connections`, `max_user_client_connections`,
//! `max_address_connections`) and servers (`max_db_connections`, `max_user_connections`, `max_connections` of a database
//! server), each counted under two or three keys. Worker 0 counts ([`counter::Counter`]); the others send it a [`QuotaRequest`] and get a [`QuotaReply`],
//! only where such a limit is set.
//!
//! - `counter`: worker 0's counts, and which request is granted next. `shares`: how pools share a database server's
//!   connections. `clients`: the limits of a client.
//! - `servers`: the requests for servers of a worker and its pools.
//!
//! Always true: what was granted or added is released exactly once. A pool compares what it has been granted with the
//! servers it has; a client's slot holds its [`ClientUse`].

pub(crate) mod clients;
pub(crate) mod counter;
pub(crate) mod servers;
pub(crate) mod shares;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use weir_base::{Time, WorkerId};

/// A pool: a database as clients name it, and a user on the server.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct PoolId {
    pub(crate) database: Arc<str>,
    pub(crate) user: Arc<str>,
}

/// The keys under which a logged-in client counts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct ClientUse {
    pub(crate) database: Arc<str>,
    pub(crate) user: Arc<str>,
    /// `None` over the Unix socket.
    pub(crate) address: Option<IpAddr>,
}

/// What is counted: a client, or a server connection of a pool.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Resource {
    Client(ClientUse),
    Server(PoolId),
}

/// A pool's share of a database server's connections, as configured.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Share {
    /// The name of the server's section.
    pub(crate) server: Arc<str>,
    /// How many of the connections the configured pool gets back from others whenever it needs them.
    pub(crate) guaranteed: u32,
    /// Its part of the rest, in proportion to the weights of others.
    pub(crate) weight: u32,
    /// Its clients keep their servers: mode session.
    pub(crate) keeps: bool,
}

/// The subject of a limit.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Key {
    ClientsOfDatabase(Arc<str>),
    ClientsOfUser(Arc<str>),
    ClientsOfAddress(IpAddr),
    ServersOfDatabase(Arc<str>),
    ServersOfUser(Arc<str>),
    /// The connections to a database server, by the name of its section.
    ConnectionsOf(Arc<str>),
}

/// What happens to a request beyond a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum IfFull {
    /// The request is refused.
    Refuse,
    /// The request waits, ordered by the age of this wait, and an idle server of another pool is closed for it.
    Wait(Time),
}

/// To worker 0.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum QuotaRequest {
    /// Requests one more. Each id gets one answer, unless the request is cancelled before.
    Acquire { id: u64, resource: Resource, if_full: IfFull },
    /// Cancels the request of this id.
    Cancel { id: u64 },
    /// This many are in use without a request: they existed before the limit.
    Add { resource: Resource, count: u32 },
    /// This many are no longer used, or will not be.
    Release { resource: Resource, count: u32 },
    /// The pool whose server has been idle longest of all under this key on the sender: the answer to
    /// [`QuotaReply::FindIdle`] of this round, or, without a round, one that became idle since.
    Idle { key: Key, round: Option<u64>, longest: Option<(Time, PoolId)> },
    /// The server that was to be closed is no longer idle.
    NotIdle { key: Key },
}

/// From worker 0.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum QuotaReply {
    /// The answer to [`QuotaRequest::Acquire`]: granted, unless a key is `full`.
    Answer { to: WorkerId, id: u64, resource: Resource, full: Option<Key> },
    /// To all: a server under this key must be closed for another pool. Idle servers are reported at once, the first
    /// that becomes idle later without another request. Those of the `spared` databases stay.
    FindIdle { key: Key, round: u64, spared: Arc<BTreeSet<Arc<str>>> },
    /// To all: the search has ended.
    StopFinding { key: Key },
    /// Close the server of this pool that has been idle longest.
    Evict { to: WorkerId, pool: PoolId, key: Key },
    /// The pool keeps at most so many servers, or any number: idle ones beyond are closed at once, others as they become
    /// free.
    KeepAtMost { to: WorkerId, pool: PoolId, servers: Option<u32> },
}

impl Resource {
    /// The keys under which the resource counts. A refusal names the first one that is full.
    pub(crate) fn keys(&self) -> Vec<Key> {
        match self {
            Resource::Client(client) => [
                Some(Key::ClientsOfDatabase(client.database.clone())),
                Some(Key::ClientsOfUser(client.user.clone())),
                client.address.map(Key::ClientsOfAddress),
            ]
            .into_iter()
            .flatten()
            .collect(),
            Resource::Server(pool) => pool.keys().into(),
        }
    }
}

impl PoolId {
    /// The keys of a pool's servers.
    pub(crate) fn keys(&self) -> [Key; 2] {
        [Key::ServersOfDatabase(self.database.clone()), Key::ServersOfUser(self.user.clone())]
    }
}

impl Key {
    /// Whether a pool's servers count under this key.
    pub(crate) fn covers(&self, config: &weir_config::Config, database: &str, user: &str) -> bool {
        match self {
            Key::ConnectionsOf(name) => config.share(database).is_some_and(|share| share.server.as_ref() == Some(name)),
            Key::ServersOfDatabase(name) => **name == *database,
            Key::ServersOfUser(name) => **name == *user,
            Key::ClientsOfDatabase(_) | Key::ClientsOfUser(_) | Key::ClientsOfAddress(_) => false,
        }
    }

    /// The limit of this key; 0 is unlimited.
    pub(crate) fn limit(&self, config: &weir_config::Config) -> u32 {
        match self {
            Key::ClientsOfDatabase(name) if weir_admin::is_console(name) => config.console_clients(),
            Key::ClientsOfDatabase(name) => config.pool(name).map_or(0, |pool| pool.limits.max_db_client_connections),
            Key::ClientsOfUser(name) => config.user_clients(name),
            Key::ClientsOfAddress(_) => config.max_address_connections,
            Key::ServersOfDatabase(name) => config.db_connections(name),
            Key::ServersOfUser(name) => config.user_connections(name),
            Key::ConnectionsOf(name) => config.servers.get(&**name).map_or(0, |server| server.max_connections),
        }
    }
}
