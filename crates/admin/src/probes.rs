//! Probes of database servers, over connections that are no pool's: tests of logins, and questions to a pool's server.
//!
//! Plain data and one trait: the control plane requests them, the program connects. Must not know when a server is asked,
//! nor how often.

use std::fmt;
use std::sync::Arc;

use weir_base::Target;
use weir_config::{Config, PoolConfig};

use crate::activity::{Activity, BackendKey, BackendSignal, LookedAt, ServerCapacity};

/// A pool to test, with the configuration that has it: neither has to be in force.
#[derive(Clone, Debug)]
pub struct PlannedPool {
    /// The whole configuration.
    pub config: Arc<Config>,
    /// The pool.
    pub pool: Arc<PoolConfig>,
}

/// What a server reported when a pool's login was tested.
#[derive(Clone, PartialEq, Debug)]
pub struct PoolTestResult {
    /// The server that answered, as in `db2:5432`.
    pub server: String,
    /// What an operator should know though the test succeeded.
    pub notes: Vec<String>,
    /// Whether the connection was encrypted.
    pub encrypted: bool,
    /// The server's version, as in `15.18`.
    pub version: String,
    /// How long the connect, the login and the queries took, in milliseconds.
    pub milliseconds: f64,
    /// The server's `max_connections`.
    pub max_connections: u64,
    /// The server's `superuser_reserved_connections`.
    pub superuser_reserved_connections: u64,
    /// The server's open connections, the one of the test included.
    pub connections: u64,
}

/// What a login of a client at this Weir has shown.
#[derive(Clone, PartialEq, Debug)]
pub struct UserTestResult {
    /// How long the connect, the login and a query took, in milliseconds.
    pub milliseconds: f64,
    /// Whether the connection was encrypted.
    pub encrypted: bool,
    /// The user on the server, and the server's version, as in `15.18`; empty if no query may be sent.
    pub server_user: String,
    /// The server's version.
    pub version: String,
}

/// Why a client could not log in, or was not served.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UserTestError {
    /// The error that a client gets.
    pub message: String,
    /// Its SQLSTATE; empty where there was no answer.
    pub sqlstate: String,
    /// More about what happened.
    pub detail: Option<String>,
    /// What to do.
    pub hint: Option<String>,
}

/// Why a server can't be asked. Its text holds no secret.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ProbeError {
    /// No pool serves clients of this name.
    NoSuchPool(String),
    /// The pool logs in as its clients, and none of their passwords is known.
    NoLogin,
    /// The same, of a pool that is to be tested.
    NoLoginToTest,
    /// The program or the service that makes the password has failed: which setting, and why.
    NoPassword(String),
    /// None of this node's connections to the pool became free.
    NoShare(String),
    /// The pool's user may not see the backend.
    Hidden,
    /// The server's answer lacks this.
    NotShown(&'static str),
    /// The server's error, or the network's.
    Server(String),
    /// The answer did not arrive in time.
    TooSlow,
    /// The process ends.
    Ending,
}

impl fmt::Display for ProbeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProbeError::NoSuchPool(name) => write!(f, "no such pool: {name}"),
            ProbeError::NoLogin => {
                f.write_str("the pool logs in with each client's own password, and Weir knows none of them")
            }
            ProbeError::NoLoginToTest => {
                f.write_str("it logs in with each client's own password, and none is known: give a user and a password")
            }
            ProbeError::NoShare(pool) => write!(
                f,
                "no connection of this node's share of {pool} became free for it: all nodes together may have no more"
            ),
            ProbeError::Hidden => {
                f.write_str("the pool's user may not see this process, so it can't be told from a later one")
            }
            ProbeError::NotShown(what) => write!(f, "the server did not show its {what}"),
            ProbeError::Server(why) | ProbeError::NoPassword(why) => f.write_str(why),
            ProbeError::TooSlow => f.write_str("the server did not answer in time"),
            ProbeError::Ending => f.write_str("the process ends"),
        }
    }
}

impl std::error::Error for ProbeError {}

/// Connections to database servers beside the pools'. Each call blocks until a server has answered, within limits on time,
/// rows and bytes: callers use a thread for blocking work. Errors are in words, and hold no secret.
pub trait ServerProbes: Send + Sync {
    /// Logs in like the pool would, and asks the server for its limits.
    ///
    /// # Errors
    /// The server's error, or the network's.
    fn test_pool(&self, planned: &PlannedPool) -> Result<PoolTestResult, ProbeError>;

    /// Logs in to this Weir as a client of a pool, and sends a query.
    ///
    /// # Errors
    /// What the client gets, and what to do about it.
    fn test_user(&self, user: &str, pool: &str, password: &str) -> Result<UserTestResult, UserTestError>;

    /// Reads from a pool's server which backends run, and which wait for which, with the pool's own login; one
    /// connection and one query.
    ///
    /// # Errors
    /// Why nothing can be read: no login is known, or the server's error.
    fn activity(&self, pool: &str) -> Result<Activity, ProbeError>;

    /// Keeps one connection to each server that one of these pools leads to, with such a pool's own login, so that
    /// [`activity`](ServerProbes::activity), [`capacity`](ServerProbes::capacity) and [`signal`](ServerProbes::signal)
    /// work when the server takes no more connections; closes those to other servers. To be called every few seconds
    /// with all such pools. A pool whose connections several nodes share has none.
    fn keep_looks(&self, pools: &[LookedAt]);

    /// Asks one server of a pool for its limit of connections and for those that are open, with the pool's own login;
    /// one connection and two queries.
    ///
    /// # Errors
    /// As for [`activity`](ServerProbes::activity).
    fn capacity(&self, pool: &str, server: &Target) -> Result<ServerCapacity, ProbeError>;

    /// Sends a signal to a backend of a pool's server, with the pool's own login. Returns whether the backend still did
    /// what the key says; if not, it gets no signal.
    ///
    /// # Errors
    /// As for [`activity`](ServerProbes::activity); also that the pool's user may not do this.
    fn signal(&self, pool: &str, backend: BackendKey, signal: BackendSignal) -> Result<bool, ProbeError>;
}
