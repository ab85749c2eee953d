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

use weir_auth::{Hba, IdentMaps, Ldap, Method, RequireAuth};
use weir_base::{OnDirty, PoolMode, Span, Target};

use crate::accounts::Accounts;
use crate::origin::{ConfigWarning, FileFormat, Locations};
use crate::users::Users;

/// Everything the operator said, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Where clients connect.
    pub listen: Listen,
    /// Who may log in.
    pub auth: Auth,
    /// Users who may do everything on the console.
    pub admin_users: Vec<String>,
    /// Users who may look at everything on the console.
    pub stats_users: Vec<String>,
    /// Worker threads.
    pub workers: u16,
    /// When clients of one pool live on several of them.
    pub spread: Spread,
    /// What workers wait for their sockets with.
    pub io: SocketIo,
    /// The most clients at once; the runtime lowers it to what the descriptors allow.
    pub max_clients: u32,
    /// How often averages are formed and, if asked for, logged.
    pub stats_period: Span,
    /// What is logged.
    pub log: Log,
    /// The mode of pools that do not name their own.
    pub mode: PoolMode,
    /// What pools that do not say otherwise do with a server that a client changed.
    pub on_dirty: OnDirty,
    /// Whether clients are warned of session state that they lose, in pools that do not say otherwise.
    pub warn_on_dirty: bool,
    /// Run at the release of a server in session mode, in pools that do not say otherwise; empty: nothing is.
    pub reset_query: String,
    /// Run at each release, whatever the mode, in pools that do not say otherwise.
    pub reset_always: bool,
    /// Run before a server is handed out that was unused for long, in pools that do not say otherwise. `None`: nothing
    /// is, an empty text is an empty query.
    pub check_query: Option<String>,
    /// How servers may ask our logins for a proof, in pools that do not say otherwise.
    pub require_auth: RequireAuth,
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
    /// After this long a SUSPEND closes what could not be flushed; zero: it waits as long as it takes.
    pub suspend_timeout: Span,
    /// The pool of every database that has none of its own (`*`): a pattern, whose name and database are the client's.
    pub fallback: Option<Arc<Pool>>,
    /// A pool made of `fallback` that is unused for longer is forgotten; zero: never.
    pub autodb_idle_timeout: Span,
    /// A pool without clients for longer closes its servers and is forgotten; zero: never.
    pub pool_idle_timeout: Span,
    /// Rules of single users, by name.
    pub users: BTreeMap<String, UserRules>,
    /// The most server connections of a user, over all pools; 0 is unlimited.
    pub max_user_connections: u32,
    /// The most logins under way at once at one host and port, over all pools; 0 is unlimited.
    pub max_logins_per_host: u32,
    /// The most clients of a user, over all pools; 0 is unlimited.
    pub max_user_client_connections: u32,
    /// The most clients of an address; 0 is unlimited.
    pub max_address_connections: u32,
    /// Encryption, towards clients and towards servers.
    pub tls: Tls,
    /// Settings of encryption that SET made and whose files can't be used yet: `tls` stays in force until they can.
    pub pending_tls: Option<Box<Tls>>,
    /// How names of servers are looked up.
    pub dns: Dns,
    /// What the process does with itself.
    pub process: Process,
    /// The control plane.
    pub web: Web,
    /// Adds the client's address to its application_name.
    pub application_name_add_host: bool,
    /// A notice for each client that logs in; empty: none.
    pub login_notify_message: String,
    /// Refuses the simple protocol's queries.
    pub disable_pqexec: bool,
    /// The longest message that is passed on, in bytes.
    pub max_packet_size: u32,
    /// Closes servers at once instead of at their release, after RECONNECT or a change of their address.
    pub server_fast_close: bool,
    /// Values of PgBouncer's settings that do nothing here, by PgBouncer's name; they are only shown.
    pub inert: BTreeMap<&'static str, String>,
    /// The file all this was read from.
    pub source: PathBuf,
    /// How that file is written.
    pub format: FileFormat,
    /// Where each setting stands, for messages.
    pub locations: Locations,
    /// What a reader found odd, and could live with.
    pub remarks: Vec<ConfigWarning>,
    /// The files that hold passwords of pools and secrets of users, each once.
    pub password_files: Vec<PathBuf>,
    /// What is to be said in the log when this configuration takes effect.
    pub warnings: Vec<String>,
}

/// Where clients connect.
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
    /// The group of the Unix socket's file; `None`: the process's own.
    pub unix_socket_group: Option<String>,
    /// Connections the system may hold ready for us to accept.
    pub backlog: u32,
    /// Several processes may listen on the same port (SO_REUSEPORT).
    pub reuse_port: bool,
    /// The networks of balancers whose clients come with a PROXY header (v1 or v2), as `address/bits`; empty: none
    /// does.
    pub proxy_from: Vec<Network>,
    /// How vanished ends of connections are noticed.
    pub keepalive: Keepalive,
}

/// A range of addresses: those whose first `bits` bits are those of `address`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// Any address of it.
    pub address: IpAddr,
    /// How many leading bits count.
    pub bits: u8,
}

/// How the system notices that the other end of a connection has vanished. Zero: the system's own value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Keepalive {
    /// Whether it asks at all.
    pub on: bool,
    /// Silence before the first question (TCP_KEEPIDLE).
    pub idle: Span,
    /// The pause between questions (TCP_KEEPINTVL).
    pub interval: Span,
    /// Unanswered questions until it is given up (TCP_KEEPCNT).
    pub count: u32,
    /// How long sent bytes may stay unacknowledged (TCP_USER_TIMEOUT).
    pub user_timeout: Span,
    /// The system's buffers of each socket, in bytes (SO_SNDBUF, SO_RCVBUF).
    pub buffer: u32,
}

/// Who may log in, and how it is proven.
#[derive(Clone, Debug, PartialEq)]
pub struct Auth {
    /// How a client proves who it is.
    pub method: Method,
    /// The file of users, resolved against the folder of the settings file.
    pub file: Option<PathBuf>,
    /// The users and their secrets.
    pub users: Arc<Users>,
    /// The file of rules for [`Method::Hba`], and the rules; read with that method only.
    pub hba_file: Option<PathBuf>,
    /// The rules of `hba_file`, which then decide instead of `method`.
    pub hba: Option<Arc<Hba>>,
    /// The file of ident maps; read with [`Method::Hba`] only.
    pub ident_file: Option<PathBuf>,
    /// The maps of `ident_file`.
    pub ident: Arc<IdentMaps>,
    /// Where and how passwords are checked with [`Method::Ldap`], as written; it may hold a password.
    pub ldap_options: Option<String>,
    /// The same, read; present with [`Method::Ldap`], unless rules decide.
    pub ldap: Option<Arc<Ldap>>,
    /// The service of PAM that checks passwords with [`Method::Pam`].
    pub pam_service: String,
    /// The user who asks the server about users that `file` does not list (`auth_user`); `None`: nobody does.
    pub query_user: Option<String>,
    /// What is asked (`auth_query`): one parameter, the user's name; the first two columns are the user and the secret.
    pub query: String,
    /// Where it is asked (`auth_dbname`); `None`: in the client's database.
    pub query_database: Option<String>,
    /// How long an answer may be used again; zero: not at all.
    pub query_cache: Span,
    /// Whether a user whom no server knows is treated as one with another password; otherwise the client learns it.
    pub hide_unknown_users: bool,
    /// How often passwords that are stored as such are hashed for SCRAM.
    pub scram_iterations: u32,
    /// The pause before a client is told that its login failed; it doubles with each failure from the same address, up
    /// to 32 times. Zero: none.
    pub failure_delay: Span,
}

/// Where the control plane is reached by HTTP.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Web {
    /// Addresses to listen on; empty: nowhere. Others than those of the loopback want encryption and logins.
    pub addresses: Vec<IpAddr>,
    /// The port.
    pub port: u16,
    /// The certificate, PEM; with it, all connections are encrypted.
    pub tls_cert_file: Option<PathBuf>,
    /// Its key, PEM.
    pub tls_key_file: Option<PathBuf>,
    /// Who may come, and what they may do; empty: everybody on this machine, everything.
    pub accounts: Arc<Accounts>,
    /// The folder of the history of pools; `None`: it is kept in memory.
    pub history: Option<PathBuf>,
    /// The folder of the lab's reports; `None`: the panel lists none.
    pub lab: Option<PathBuf>,
}

/// Rules of one user (`[users]`); what is not given is the pool's or the process's.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct UserRules {
    /// How long a client keeps its server.
    pub mode: Option<PoolMode>,
    /// The size of each of the user's pools.
    pub pool_size: Option<u32>,
    /// The reserve of each of the user's pools.
    pub reserve_size: Option<u32>,
    /// The most server connections, over all pools; 0 is unlimited.
    pub max_connections: Option<u32>,
    /// The most clients, over all pools; 0 is unlimited.
    pub max_client_connections: Option<u32>,
    /// How long a query may run.
    pub query_timeout: Option<Span>,
    /// How long a client may wait for a server.
    pub query_wait_timeout: Option<Span>,
    /// How long a transaction may idle.
    pub idle_transaction_timeout: Option<Span>,
    /// How long a transaction may last.
    pub transaction_timeout: Option<Span>,
    /// How long a client without a server may idle.
    pub client_idle_timeout: Option<Span>,
}

/// Encryption.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Tls {
    /// Towards clients: `mode` is what is asked of them.
    pub client: TlsSide,
    /// Towards servers: `mode` is libpq's.
    pub server: TlsSide,
}

/// Encryption of one side. Paths are resolved against the settings file's folder.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TlsSide {
    /// What is wanted.
    pub mode: SslMode,
    /// Our private key, PEM.
    pub key_file: Option<PathBuf>,
    /// Our certificate and those that lead to its root, PEM.
    pub cert_file: Option<PathBuf>,
    /// The certificates that the other side's must lead to, PEM.
    pub ca_file: Option<PathBuf>,
    /// Towards servers: begins with the handshake instead of asking for it (libpq's `sslnegotiation=direct`).
    pub direct: bool,
    /// The versions allowed.
    pub protocols: TlsProtocols,
    /// Cipher suites of TLS 1.2 by OpenSSL's names and groups, as written (`default`, `HIGH:!aNULL` …).
    pub ciphers: String,
    /// Cipher suites of TLS 1.3 by their names, as written; empty: the default ones.
    pub tls13_ciphers: String,
}

/// What is wanted of the other side (libpq's `sslmode`); later ones want more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum SslMode {
    /// No encryption.
    #[default]
    Disable,
    /// Clients choose; servers are asked for it only after they refused us without.
    Allow,
    /// Clients choose; servers are asked for it, and do without if they have none.
    Prefer,
    /// Encrypted, whoever it is.
    Require,
    /// Encrypted, with a certificate that leads to `ca_file`.
    VerifyCa,
    /// As before, and for the host's name (of clients: as before).
    VerifyFull,
}

/// Versions of TLS that are allowed. TLS 1.0 and 1.1 are not available.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TlsProtocols {
    /// TLS 1.2.
    pub tls12: bool,
    /// TLS 1.3.
    pub tls13: bool,
}

impl Default for TlsProtocols {
    fn default() -> Self {
        TlsProtocols { tls12: true, tls13: true }
    }
}

/// How names of servers are looked up.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Dns {
    /// The longest time that an answer is used, whatever its own says.
    pub max_ttl: Span,
    /// How long a name that does not exist is not asked for again.
    pub nxdomain_ttl: Span,
    /// Another file than /etc/resolv.conf.
    pub resolv_conf: Option<PathBuf>,
}

/// What the process does with itself.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Process {
    /// Where its process id is written.
    pub pid_file: Option<PathBuf>,
    /// The operating system's user that it becomes, if it was started by root.
    pub user: Option<String>,
    /// Whether a crash may leave an image of the memory, in which the secrets are.
    pub core_dumps: bool,
}

/// What is logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// The file that is appended to; opened again at each reload. `None`: standard error.
    pub file: Option<PathBuf>,
    /// How lines are written.
    pub format: LogFormat,
    /// To the system's log too.
    pub syslog: bool,
    /// Under this name.
    pub syslog_ident: String,
    /// Under this facility.
    pub syslog_facility: String,

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

/// What workers wait for their sockets with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum SocketIo {
    /// io_uring where the kernel has it and lets us, epoll elsewhere.
    #[default]
    Auto,
    /// Readiness, and a call for each read and write.
    Epoll,
    /// Completions, one call a round; epoll all the same where there is none, with a warning.
    IoUring,
}

/// How lines of the log are written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum LogFormat {
    /// PgBouncer's form.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
    /// For the journal: without the time, with its priority in front.
    Journal,
}

/// One pool: a server, how to log in there, and the rules of sharing.
#[derive(Clone, PartialEq)]
pub struct Pool {
    /// The name that clients give as their database.
    pub name: String,
    /// The servers, at least one; several are the places of one database.
    pub targets: Vec<Target>,
    /// How connections are spread over several servers.
    pub balance: Balance,
    /// Which of them are good for anything (libpq's `target_session_attrs`).
    pub session_attrs: SessionAttrs,
    /// The database on the server.
    pub database: String,
    /// The user on the server; `None`: each client's own, and one pool a user.
    pub user: Option<String>,
    /// The password of `user` on the server.
    pub password: Option<Arc<str>>,
    /// How long a client keeps its server.
    pub mode: PoolMode,
    /// What happens to a server that a client changed.
    pub on_dirty: OnDirty,
    /// Whether clients are warned of session state that they lose.
    pub warn_on_dirty: bool,
    /// Run at the release of a server in session mode (`server_reset_query`); empty: nothing is.
    pub reset_query: String,
    /// Run at each release, whatever the mode (`server_reset_query_always`).
    pub reset_always: bool,
    /// Run before a server is handed out that was unused for long (`server_check_query`); `None`: nothing is, an empty
    /// text is an empty query.
    pub check_query: Option<String>,
    /// How servers may ask our logins for a proof.
    pub require_auth: RequireAuth,
    /// Run on each new server before its first client (`connect_query`).
    pub connect_query: Option<String>,
    /// Parameters that our own logins ask for: client_encoding, DateStyle, TimeZone, application_name.
    pub startup: Vec<(String, String)>,
    /// Overrides [`Auth::query_user`] for this pool.
    pub auth_user: Option<String>,
    /// Overrides [`Auth::query`] for this pool.
    pub auth_query: Option<String>,
    /// Overrides [`Auth::query_database`] for this pool.
    pub auth_database: Option<String>,
    /// The limits, resolved.
    pub limits: Limits,
}

/// How the connections of a pool are spread over its servers (`load_balance_hosts`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Balance {
    /// In turn.
    #[default]
    RoundRobin,
    /// The first one that can be reached; the others are for the time when it can't.
    Disable,
}

/// When clients of one pool are spread over several workers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Spread {
    /// When the worker where the pool lives is busy, and another one is not.
    #[default]
    Busy,
    /// In turn, however little there is to do.
    Always,
    /// Not at all.
    Never,
}

/// Which servers are good for a pool (libpq's `target_session_attrs`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum SessionAttrs {
    /// All.
    #[default]
    Any,
    /// Those that take writes by default.
    ReadWrite,
    /// Those that do not.
    ReadOnly,
    /// Those that are not in recovery.
    Primary,
    /// Those in recovery.
    Standby,
    /// Those in recovery, or any if there is none.
    PreferStandby,
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
    /// The most server connections of the database, over all its pools; 0 is unlimited.
    pub max_db_connections: u32,
    /// The most clients of the database, over all its pools; 0 is unlimited.
    pub max_db_client_connections: u32,
    /// The most prepared statements a client may hold.
    pub client_statements: u32,
    /// The most bytes of statements that a client may hold; 0 is an eighth of all. [`Limits::client_share`] says how
    /// many.
    pub client_statement_memory: u64,
    /// The most bytes of statements that a pool may hold; 0 is half of all. [`Limits::pool_share`] says how many.
    pub pool_statement_memory: u64,
    /// The most bytes of statements that the process keeps; the same for all pools.
    pub statement_memory: u64,
}

impl Limits {
    /// The most bytes of statements that a client may hold.
    pub fn client_share(&self) -> u64 {
        if self.client_statement_memory > 0 { self.client_statement_memory } else { self.statement_memory / 8 }
    }

    /// The most bytes of statements that a pool may hold.
    pub fn pool_share(&self) -> u64 {
        if self.pool_statement_memory > 0 { self.pool_statement_memory } else { self.statement_memory / 2 }
    }

    /// The most servers of a pool for one user, its reserve among them; `None`: any number.
    pub fn max_servers(&self) -> Option<u64> {
        (self.size > 0).then(|| u64::from(self.size) + u64::from(self.reserve_size))
    }
}

/// Gives an enum the words that settings use, both ways.
macro_rules! words {
    ($kind:ident: $($variant:ident = $word:literal),+) => {
        impl $kind {
            /// The words that settings use, in the order of the variants.
            pub const WORDS: &'static [&'static str] = &[$($word),+];
        }

        impl fmt::Display for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $($kind::$variant => $word),+ })
            }
        }

        impl FromStr for $kind {
            type Err = String;
            fn from_str(word: &str) -> Result<$kind, String> {
                match word {
                    $($word => Ok($kind::$variant),)+
                    _ => Err(format!("must be one of {}", $kind::WORDS.join(", "))),
                }
            }
        }
    };
}

words!(SslMode: Disable = "disable", Allow = "allow", Prefer = "prefer", Require = "require", VerifyCa = "verify-ca",
    VerifyFull = "verify-full");
words!(SocketIo: Auto = "auto", Epoll = "epoll", IoUring = "io_uring");
words!(LogFormat: Text = "text", Json = "json", Journal = "journal");
words!(Spread: Busy = "busy", Always = "always", Never = "never");
words!(Balance: RoundRobin = "round-robin", Disable = "disable");
words!(SessionAttrs: Any = "any", ReadWrite = "read-write", ReadOnly = "read-only", Primary = "primary",
    Standby = "standby", PreferStandby = "prefer-standby");

impl Pool {
    /// The first server.
    ///
    /// # Panics
    /// For a pool without servers, which no reader makes.
    pub fn target(&self) -> &Target {
        self.targets.first().expect("a pool has a server")
    }

    /// All servers, as `host:port` with commas.
    pub fn places(&self) -> String {
        self.targets.iter().map(Target::to_string).collect::<Vec<_>>().join(",")
    }
}

impl Network {
    /// Whether an address belongs to it. An IPv4 address also counts in the form that IPv6 sockets give it.
    pub fn contains(&self, address: IpAddr) -> bool {
        let bits = u32::from(self.bits);
        match (self.address.to_canonical(), address.to_canonical()) {
            (IpAddr::V4(a), IpAddr::V4(b)) => bits == 0 || (a.to_bits() ^ b.to_bits()) >> (32 - bits.min(32)) == 0,
            (IpAddr::V6(a), IpAddr::V6(b)) => bits == 0 || (a.to_bits() ^ b.to_bits()) >> (128 - bits.min(128)) == 0,
            _ => false,
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl FromStr for Network {
    type Err = String;
    fn from_str(text: &str) -> Result<Network, String> {
        let expected = || "must be an address or address/bits, as in \"10.0.0.0/8\"".to_owned();
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| expected())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), str::parse).map_err(|_| expected())?;
        if bits <= most { Ok(Network { address, bits }) } else { Err(expected()) }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("name", &self.name)
            .field("targets", &self.targets)
            .field("database", &self.database)
            .field("user", &self.user)
            .field("password", &self.password.as_ref().map(|_| "(hidden)"))
            .field("mode", &self.mode)
            .field("on_dirty", &self.on_dirty)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
