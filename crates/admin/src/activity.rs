//! What a database's server shows of its backends and its connections, and the signals that a backend can be sent.
//!
//! Plain data: the control plane requests it, the program reads it from the server with a pool's own login. Never holds a
//! value of a query: only fingerprints.

use std::sync::Arc;

/// The backends of one server that matter to a pool, at one moment.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Activity {
    /// Those that wait for a lock, or hold one that others wait for; then the longest transactions.
    pub backends: Vec<Backend>,
    /// Whether some of them are shown without their state, because the pool's user may not see it.
    pub hidden: bool,
    /// Whether there are more than are listed.
    pub cut: bool,
    /// The user that looked.
    pub user: Arc<str>,
}

/// One backend.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Backend {
    /// What identifies it and what it does now.
    pub key: BackendKey,
    /// Its database; empty for one without.
    pub database: String,
    /// The user that logged in; empty for one without.
    pub user: String,
    /// Its application_name.
    pub application_name: String,
    /// The address of its client, which is Weir's for the servers of a pool; none for a Unix socket, and where it is hidden.
    pub address: Option<String>,
    /// `active`, `idle in transaction` …; none where it is hidden, and for processes of the server's own.
    pub state: Option<String>,
    /// What it waits for, as in `Lock: transactionid`; none if it does not wait.
    pub waits_for: Option<String>,
    /// The backends whose locks it waits for; 0 is a prepared transaction.
    pub blocked_by: Vec<u32>,
    /// How long its transaction has lasted, in seconds.
    pub transaction_seconds: Option<f64>,
    /// How long its query has run, or since when it has been idle, in seconds.
    pub state_seconds: Option<f64>,
    /// The fingerprint of its query; of the last one, if it is idle.
    pub statement: Option<String>,
}

/// A backend and what it does: a signal for this key does not reach a later query or transaction of the same process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BackendKey {
    /// Its process id.
    pub process_id: u32,
    /// When it began: microseconds since 1970, by the server's clock; none where it is hidden, as are the others.
    pub started: Option<u64>,
    /// When its transaction began.
    pub transaction: Option<u64>,
    /// When its query began.
    pub query: Option<u64>,
}

/// A signal for a backend.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signal {
    /// Cancels its query (`pg_cancel_backend`).
    Cancel,
    /// Ends its session (`pg_terminate_backend`).
    Terminate,
}

/// The connections of a database server, at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ServerCapacity {
    /// Its `max_connections`.
    pub max_connections: u32,
    /// Those among them that ordinary users never get: `superuser_reserved_connections` and `reserved_connections`.
    pub reserved: u32,
    /// Its open connections of clients; the one that counted them is left out.
    pub connections: u32,
    /// The databases and users with the most of them, at most 50.
    pub by_role: Vec<RoleConnections>,
    /// The user that asked.
    pub user: String,
}

/// The connections of a user to a database.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RoleConnections {
    /// The database; empty for a connection without one.
    pub database: String,
    /// The user.
    pub user: String,
    /// How many there are.
    pub connections: u32,
}
