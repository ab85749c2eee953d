//! What the settings mean: typed, checked, complete. Nothing here knows how it was written.
//!
//! Invariants: each pool's limits are resolved (its own over the global ones over the defaults); no `Debug` output
//! holds a secret.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use weir_base::{Mode, OnDirty, Span, Target};

use crate::users::Users;

/// Everything the operator said, checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where clients come in.
    pub listen: Listen,
    /// Who may come in.
    pub auth: Auth,
    /// Users who may do everything on the console.
    pub admin_users: Vec<String>,
    /// Users who may look at everything on the console.
    pub stats_users: Vec<String>,
    /// Worker threads.
    pub workers: u16,
    /// The most clients at once; the runtime lowers it to what the descriptors allow.
    pub max_clients: u32,
    /// How often averages are formed and, if asked for, logged.
    pub stats_period: Span,
    /// What is logged.
    pub log: Log,
    /// The mode of pools that do not name their own.
    pub mode: Mode,
    /// What pools that do not say otherwise do with a server that a client changed.
    pub on_dirty: OnDirty,
    /// The limits of pools that do not name their own.
    pub limits: Limits,
    /// The pools, by the name that clients give as their database.
    pub pools: BTreeMap<String, Arc<Pool>>,
    /// Startup parameters that are dropped instead of refused.
    pub ignore_startup_parameters: Vec<String>,
    /// Parameters that follow a client from server to server, besides the ones that always do.
    pub track_extra_parameters: Vec<String>,
    /// How long a client may take to log in; zero: any time.
    pub client_login_timeout: Span,
    /// After this long a shutdown stops waiting for clients; zero: it waits as long as it takes.
    pub shutdown_timeout: Span,
    /// The file all this was read from.
    pub source: PathBuf,
    /// Where in the file each setting stands, for messages.
    pub lines: Lines,
}

/// Where clients come in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Addresses to listen on; `*` has become 0.0.0.0 and `::`. Empty: no TCP.
    pub addresses: Vec<IpAddr>,
    /// The port; also a part of the Unix socket's name.
    pub port: u16,
    /// The folder of the Unix socket; `None`: no Unix socket.
    pub unix_socket_dir: Option<PathBuf>,
    /// The permission bits of the Unix socket.
    pub unix_socket_mode: u32,
    /// Connections the system may hold ready for us to accept.
    pub backlog: u32,
}

/// Who may come in, and how it is proven.
#[derive(Clone, Debug, PartialEq)]
pub struct Auth {
    /// How a client proves who it is.
    pub method: Method,
    /// The file of users, resolved against the folder of the settings file.
    pub file: Option<PathBuf>,
    /// The users and their secrets.
    pub users: Arc<Users>,
}

/// How a client proves who it is (PgBouncer's `auth_type`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Method {
    /// Its word is taken; it must still be a listed user.
    Trust,
    /// It sends the password as it is.
    Plain,
    /// It sends an md5 hash of the password; users with a SCRAM secret are asked for SCRAM.
    Md5,
    /// SCRAM-SHA-256; md5 secrets can't be used.
    #[default]
    ScramSha256,
}

/// What is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Log {
    /// Log-ins.
    pub connections: bool,
    /// Disconnections, with their reasons.
    pub disconnections: bool,
    /// Errors that the pooler itself sends to clients.
    pub pooler_errors: bool,
    /// The averages of each period.
    pub stats: bool,
    /// More detail with each step; 0 is the usual amount.
    pub verbose: u8,
}

/// One pool: a server, how to log in there, and the rules of sharing.
#[derive(Clone, PartialEq)]
pub struct Pool {
    /// The name that clients give as their database.
    pub name: String,
    /// The server.
    pub target: Target,
    /// The database on the server.
    pub database: String,
    /// The user on the server; `None`: each client's own, and one pool a user.
    pub user: Option<String>,
    /// The password of `user` on the server.
    pub password: Option<Arc<str>>,
    /// How long a client keeps its server.
    pub mode: Mode,
    /// What happens to a server that a client changed.
    pub on_dirty: OnDirty,
    /// The limits, resolved.
    pub limits: Limits,
}

/// How much, how many, how long. A span of zero means no limit, unless its setting says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most server connections of a pool.
    pub size: u32,
    /// Server connections kept open even when idle.
    pub min_size: u32,
    /// Server connections beyond `size` for clients that waited `reserve_timeout`.
    pub reserve_size: u32,
    /// How long a client must have waited before the reserve is used.
    pub reserve_timeout: Span,
    /// Prepared statements kept on each server; 0 turns their sharing off.
    pub max_prepared_statements: u32,
    /// How long a client may wait for a server.
    pub query_wait_timeout: Span,
    /// After this long a waiting client is sent a notice.
    pub query_wait_notify: Span,
    /// How long a query may run.
    pub query_timeout: Span,
    /// How long a transaction may idle.
    pub idle_transaction_timeout: Span,
    /// How long a transaction may last.
    pub transaction_timeout: Span,
    /// How long a client without a server may idle.
    pub client_idle_timeout: Span,
    /// The age at which an unused server connection is replaced.
    pub server_lifetime: Span,
    /// How long a server connection may be unused.
    pub server_idle_timeout: Span,
    /// How long connecting and logging in to a server may take.
    pub server_connect_timeout: Span,
    /// The pause after a failed login.
    pub server_login_retry: Span,
    /// A server unused for longer is checked before it is handed out; zero: at every hand-out.
    pub server_check_delay: Span,
    /// How long a cancel request may wait.
    pub cancel_wait_timeout: Span,
    /// Hand out the server that was unused the longest instead of the one used last.
    pub server_round_robin: bool,
    /// The most connects to a server that a pool begins within a second.
    pub connects_per_second: u32,
    /// The most prepared statements a client may hold.
    pub client_statements: u32,
    /// The most bytes of statement text that the process keeps; the same for all pools.
    pub statement_memory: u64,
}

/// Where in the file each setting stands, by its dotted name (`pools.app.size`, `pools.app`).
#[derive(Clone, Debug, Default)]
pub struct Lines(pub(crate) BTreeMap<String, usize>);

impl Lines {
    /// The line (from 1) of a dotted name, if the file has it.
    pub fn of(&self, name: &str) -> Option<usize> {
        self.0.get(name).copied()
    }
}

impl Method {
    /// The words that settings use, in the order of the variants.
    pub const WORDS: &'static [&'static str] = &["trust", "plain", "md5", "scram-sha-256"];
    const ALL: [Method; 4] = [Method::Trust, Method::Plain, Method::Md5, Method::ScramSha256];
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Method::WORDS[*self as usize])
    }
}

impl FromStr for Method {
    type Err = String;
    fn from_str(word: &str) -> Result<Method, String> {
        let found = Method::WORDS.iter().position(|w| *w == word);
        found.map(|i| Method::ALL[i]).ok_or_else(|| format!("must be one of {}", Method::WORDS.join(", ")))
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("name", &self.name)
            .field("target", &self.target)
            .field("database", &self.database)
            .field("user", &self.user)
            .field("password", &self.password.as_ref().map(|_| "(hidden)"))
            .field("mode", &self.mode)
            .field("on_dirty", &self.on_dirty)
            .field("limits", &self.limits)
            .finish()
    }
}
