//! What a database's server shows of its backends and its connections, and the signals that a backend can be sent.
//!
//! Plain data: the control plane requests it, the program reads it from the server with a pool's own login. Never holds
//! a value of a query: only fingerprints.

use std::sync::Arc;

use crate::client_names::NamedClients;

/// The backends of one server that matter to a pool, at one moment.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Activity {
    /// The backends that wait for a lock, or hold one that others wait for; then those with the longest transactions.
    pub backends: Vec<Backend>,
    /// Whether some backends are shown without their state, because the pool's user may not see it.
    pub hidden: bool,
    /// Whether there are more backends than are listed.
    pub cut: bool,
    /// The user that asked the server.
    pub user: Arc<str>,
}

/// One backend.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Backend {
    /// What identifies the backend and what it does now.
    pub key: BackendKey,
    /// The backend's database; empty for a backend without one.
    pub database: String,
    /// The user that logged in; empty for a backend without one.
    pub user: String,
    /// The backend's application_name.
    pub application_name: String,
    /// The address of the backend's client, which is Weir's for the servers of a pool; none for a Unix socket, and
    /// where it is hidden.
    pub address: Option<String>,
    /// `active`, `idle in transaction` …; none where it is hidden, and for processes of the server's own.
    pub state: Option<String>,
    /// What the backend waits for, as in `Lock: transactionid`; none if it does not wait.
    pub waits_for: Option<String>,
    /// The backends whose locks this backend waits for; 0 is a prepared transaction.
    pub blocked_by: Vec<u32>,
    /// How long the backend's transaction has lasted, in seconds.
    pub transaction_seconds: Option<f64>,
    /// How long the backend's query has run, or since when the backend has been idle, in seconds.
    pub state_seconds: Option<f64>,
    /// The fingerprint of the backend's query; of the last one, if the backend is idle.
    pub statement: Option<String>,
}

/// A backend and what it does: a signal for this key does not reach a later query or transaction of the same process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BackendKey {
    /// The backend's process id.
    pub process_id: u32,
    /// When the backend began: microseconds since 1970, by the server's clock; none where it is hidden, as are the
    /// others.
    pub started: Option<u64>,
    /// When the backend's transaction began.
    pub transaction: Option<u64>,
    /// When the backend's query began.
    pub query: Option<u64>,
}

/// A signal for a backend.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BackendSignal {
    /// Cancels the backend's query (`pg_cancel_backend`).
    Cancel,
    /// Ends the backend's session (`pg_terminate_backend`).
    Terminate,
}

/// The connections of a database server, at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ServerCapacity {
    /// The server's `max_connections`.
    pub max_connections: u32,
    /// The connections among them that ordinary users never get: `superuser_reserved_connections` and
    /// `reserved_connections`.
    pub reserved: u32,
    /// The server's open connections of clients; one that was opened only to count them is left out.
    pub connections: u32,
    /// The connections among them that Weir keeps to look at the server.
    pub looks: u32,
    /// The databases and users with the most connections, at most 50.
    pub by_role: Vec<RoleConnections>,
    /// The applications and users with the most connections, those of Weir's own servers included: three at most.
    pub by_application: Vec<NamedClients>,
    /// The user that asked.
    pub user: String,
}

/// A pool to whose server Weir keeps a connection for looks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LookedAt {
    /// The pool's name.
    pub pool: String,
    /// Whether the server is well, so that a connection may be opened to it.
    pub well: bool,
    /// Whether the server has no connection left for the pool's user or database: the kept one is one of these.
    pub lacks_room: bool,
}

/// The connections of a user to a database.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RoleConnections {
    /// The database; empty for a connection without one.
    pub database: String,
    /// The user.
    pub user: String,
    /// How many connections there are.
    pub connections: u32,
}
