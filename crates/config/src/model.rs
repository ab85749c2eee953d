//! The settings as values: typed, checked, complete, and the same for every file format.
//!
//! Invariants: each pool's limits are resolved (its own over the global ones over the defaults); no `Debug` output
//! holds a secret.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use weir_auth::{Hba, IdentMaps, Ldap, Method, Oauth, RequireAuth};
use weir_base::{ClientAddr, Host, OnDirty, PoolMode, Span, StateKinds, Target};

use crate::accounts::Accounts;
use crate::keepalive::Keepalive;
use crate::origin::{ConfigWarning, FileFormat, Locations};
use crate::password_source::{PasswordCommand, PasswordSource, TokenSource};
use crate::patroni::Patroni;
pub use crate::shares::{PoolShare, ServerRules};
use crate::users::Users;

/// The whole configuration, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Where clients connect.
    pub listen: Listen,
    /// Who may log in.
    pub auth: Auth,
    /// Users who may do everything on the console.
    pub admin_users: Vec<String>,
    /// Users who may read everything on the console.
    pub stats_users: Vec<String>,
    /// Worker threads; [`Config::AUTO_WORKERS`] until [`Config::set_workers`] has replaced it.
    pub workers: u16,
    /// When clients of one pool are spread over several workers.
    pub spread: Spread,
    /// How workers wait for their sockets.
    pub io: SocketIo,
    /// The limit of clients; the runtime lowers it to what the descriptor limit allows.
    pub max_clients: u32,
    /// The descriptors that may be open and those that all clients and servers need, where the runtime has lowered it.
    pub lacks_files: Option<(u64, u64)>,
    /// The interval over which averages are computed and, if configured, logged.
    pub stats_period: Span,
    /// How many statements each worker counts; 0: none.
    pub track_statements: u32,
    /// What is logged.
    pub log: Log,
    /// The policy of pools without their own.
    pub policy: Policy,
    /// The limits of pools without their own.
    pub limits: Limits,
    /// The pools, by the name that clients give as their database.
    pub pools: BTreeMap<String, Arc<PoolConfig>>,
    /// Startup parameters that are ignored instead of refused.
    pub ignore_startup_parameters: Vec<String>,
    /// What happens to other startup parameters that are not tracked.
    pub untracked_startup_parameters: UntrackedParameters,
    /// Parameters that follow a client from server to server, besides the ones that always do.
    pub track_extra_parameters: Vec<String>,
    /// How long a login of a client may take; zero: no limit.
    pub client_login_timeout: Span,
    /// When a shutdown stops waiting for clients; zero: never.
    pub shutdown_timeout: Span,
    /// How long a signal's shutdown is only announced to load balancers, and new clients are still accepted; may be
    /// zero.
    pub shutdown_delay: Span,
    /// Over how long a drain closes clients; zero: at once.
    pub drain_time: Span,
    /// How long clients that are not free stay with a process that another one takes over from; zero: as long as they
    /// are not.
    pub upgrade_timeout: Span,
    /// When a SUSPEND closes connections that could not be flushed; zero: never.
    pub suspend_timeout: Span,
    /// The pool for every database without its own (`*`): a template, whose name and database are the client's.
    pub fallback: Option<Arc<PoolConfig>>,
    /// A pool made from `fallback` is dropped when unused for longer; zero: never.
    pub autodb_idle_timeout: Span,
    /// A pool without clients for longer closes its servers and is forgotten; zero: never.
    pub pool_idle_timeout: Span,
    /// The number of this process among its peers; 0: it has none.
    pub peer_id: u16,
    /// The other processes behind the same address, by their numbers; its own may be among them.
    pub peers: BTreeMap<u16, PeerRules>,
    /// Rules of single users, by name.
    pub users: BTreeMap<String, UserRules>,
    /// Database servers whose connections pools share, by name.
    pub servers: BTreeMap<String, ServerRules>,
    /// The most server connections of a user, over all pools; 0 is unlimited.
    pub max_user_connections: u32,
    /// The limit of concurrent logins at one host and port, over all pools; 0 is unlimited.
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
    /// Settings of the process itself.
    pub process: Process,
    /// The control plane.
    pub web: Web,
    /// The other nodes.
    pub cluster: Cluster,
    /// Messages about problems.
    pub alerts: Alerts,
    /// Metrics and spans for a collector.
    pub telemetry: Telemetry,
    /// Adds the client's address to its application_name.
    pub application_name_add_host: bool,
    /// A notice for each client that logs in; empty: no notice.
    pub login_notify_message: String,
    /// Refuses the simple protocol's queries.
    pub disable_pqexec: bool,
    /// The longest message that is passed on, in bytes.
    pub max_packet_size: u32,
    /// Closes servers at once instead of at their release, after RECONNECT or a change of their address.
    pub server_fast_close: bool,
    /// Values of PgBouncer's settings without effect here, by PgBouncer's name; only shown.
    pub inert: BTreeMap<&'static str, String>,
    /// The file from which the configuration was read.
    pub source: PathBuf,
    /// The format of that file.
    pub format: FileFormat,
    /// The file and line of each setting, for messages.
    pub locations: Locations,
    /// The readers' warnings.
    pub remarks: Vec<ConfigWarning>,
    /// The files with passwords of pools and secrets of users, each once.
    pub password_files: Vec<PathBuf>,
    /// Lines for the log when this configuration takes effect.
    pub warnings: Vec<String>,
}

/// Where clients connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Addresses to listen on; `*` has become 0.0.0.0 and `::`. Empty: no TCP.
    pub addresses: Vec<IpAddr>,
    /// An address that can't be listened on is left out, with a warning, if there is another one: of an ini, whose
    /// list may have an address that a cluster moves between machines.
    pub skip_unusable: bool,
    /// The port; also a part of the Unix socket's name.
    pub port: u16,
    /// The folder of the Unix socket; `None`: no Unix socket.
    pub unix_socket_dir: Option<PathBuf>,
    /// The permission bits of the Unix socket.
    pub unix_socket_mode: u32,
    /// The group of the Unix socket's file; `None`: the process's own.
    pub unix_socket_group: Option<String>,
    /// The listen backlog.
    pub backlog: u32,
    /// Several processes may listen on the same port (SO_REUSEPORT).
    pub reuse_port: bool,
    /// A TCP client is accepted when it has sent something (TCP_DEFER_ACCEPT).
    pub defer_accept: bool,
    /// The networks of load balancers that send a PROXY header (v1 or v2), as `address/bits`; empty: none.
    pub proxy_from: Vec<Network>,
    /// TCP keepalive and socket options.
    pub keepalive: Keepalive,
}

/// A range of addresses: those whose first `bits` bits are those of `address`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// Any address of the network.
    pub address: IpAddr,
    /// The number of leading bits that count.
    pub bits: u8,
}

/// Authentication of clients.
#[derive(Clone, Debug, PartialEq)]
pub struct Auth {
    /// The authentication method.
    pub method: Method,
    /// The file of users, resolved against the folder of the settings file.
    pub file: Option<PathBuf>,
    /// The users and their secrets.
    pub users: Arc<Users>,
    /// The file of rules for [`Method::Hba`], and the rules; read with that method only.
    pub hba_file: Option<PathBuf>,
    /// The rules of `hba_file`, which then decide instead of `method`.
    pub hba: Option<Arc<Hba>>,
    /// The file of ident maps; read with [`Method::Hba`] and [`Method::Oauth`] only.
    pub ident_file: Option<PathBuf>,
    /// The maps of `ident_file`.
    pub ident: Arc<IdentMaps>,
    /// Where and how passwords are checked with [`Method::Ldap`], as written; it may hold a password.
    pub ldap_options: Option<String>,
    /// The options of [`Method::Ldap`], parsed; present with that method only, unless rules decide.
    pub ldap: Option<Arc<Ldap>>,
    /// Which tokens are accepted with [`Method::Oauth`], as written.
    pub oauth_options: Option<String>,
    /// The options of [`Method::Oauth`], parsed; present with that method only, unless rules decide.
    pub oauth: Option<Arc<Oauth>>,
    /// The service of PAM that checks passwords with [`Method::Pam`].
    pub pam_service: String,
    /// The user who asks the server about users that `file` does not list (`auth_user`); `None`: nobody does.
    pub query_user: Option<String>,
    /// The query (`auth_query`): one parameter, the user's name; its first two columns are the user and the secret.
    pub query: String,
    /// The database of the query (`auth_dbname`); `None`: the database of the client.
    pub query_database: Option<String>,
    /// How long an answer may be used again; zero: not at all.
    pub query_cache: Span,
    /// Whether a user whom no server knows is treated as one with another password; otherwise the client learns it.
    pub hide_unknown_users: bool,
    /// How often passwords that are stored as such are hashed for SCRAM.
    pub scram_iterations: u32,
    /// The delay of a failed login's error; it doubles with each failure from the same address, up to 32 times. Zero:
    /// none.
    pub failure_delay: Span,
}

/// The control plane's HTTP server.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Web {
    /// Addresses to listen on; empty: none. Addresses beyond the loopback require TLS and accounts.
    pub addresses: Vec<IpAddr>,
    /// The port.
    pub port: u16,
    /// The certificate, PEM; with it, all connections use TLS.
    pub tls_cert_file: Option<PathBuf>,
    /// The certificate's key, PEM.
    pub tls_key_file: Option<PathBuf>,
    /// The accounts; empty: every client on this machine is an admin.
    pub accounts: Arc<Accounts>,
    /// The folder for the history of pools; `None`: it is kept in memory.
    pub history: Option<PathBuf>,
    /// The folder of the lab's reports; `None`: the panel lists no reports.
    pub lab: Option<PathBuf>,
}

/// Nodes that share the budgets of pools through etcd (`[cluster]`).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Cluster {
    /// The addresses of etcd; empty: there is no cluster.
    pub etcd: Vec<String>,
    /// The cluster's name.
    pub name: String,
    /// The name of this node.
    pub node: String,
    /// The host at which other nodes reach this one, at its port; empty: one of those that it listens on.
    pub address: String,
    /// How many server connections of each pool the node keeps without etcd.
    pub floor: u32,
    /// How long shares are valid without a renewal.
    pub lease: Span,
    /// The file for the node's floors; `None`: they are not kept.
    pub state: Option<PathBuf>,
    /// The user of etcd; empty: none.
    pub user: String,
    /// The file with the password of etcd's user.
    pub password_file: Option<PathBuf>,
    /// The authorities for etcd's certificate, PEM; `None`: the operating system's.
    pub ca_file: Option<PathBuf>,
    /// The certificate of this node towards etcd, PEM.
    pub cert_file: Option<PathBuf>,
    /// The certificate's key, PEM.
    pub key_file: Option<PathBuf>,
    /// The keys that encrypt secrets of the configuration that nodes share.
    pub secrets_key_file: Option<PathBuf>,
}

/// Messages about problems (`[alerts]`). Each target is an address, or `env:NAME` or `file:/PATH` where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alerts {
    /// The name of this Weir in messages.
    pub source: String,
    /// Alertmanager's address.
    pub alertmanager: Option<String>,
    /// An incoming webhook of Slack.
    pub slack: Option<String>,
    /// A routing key of PagerDuty's Events API v2.
    pub pagerduty_key: Option<String>,
    /// The address of that API.
    pub pagerduty_url: String,
    /// Any receiver of JSON.
    pub webhook: Option<String>,
    /// The states of health that are alerts.
    pub states: Vec<String>,
    /// How long a condition lasts before it is an alert.
    pub hold: Span,
    /// The time after which a message is repeated.
    pub repeat: Span,
    /// Waiting clients of a pool; 0 is off.
    pub clients_waiting: u32,
    /// The 95th percentile of the waits of a pool; 0 is off.
    pub wait_p95: Span,
    /// Errors of a pool's servers a second; 0 is off.
    pub errors_per_second: u32,
    /// Clients of the process in per cent of `max_clients`; 0 is off.
    pub clients_percent: u32,
}

/// Metrics and spans for an OpenTelemetry collector (`[telemetry]`). Without an endpoint there are none.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Telemetry {
    /// The collector's address for OTLP over HTTP, without `/v1/metrics`.
    pub endpoint: Option<String>,
    /// Headers of its requests, `NAME=REFERENCE`.
    pub headers: Vec<String>,
    /// The time between two exports of metrics.
    pub interval: Span,
    /// What identifies this Weir, `KEY=VALUE`.
    pub resource: Vec<String>,
    /// The authorities for the collector's certificate, PEM; none: the operating system's.
    pub ca_file: Option<PathBuf>,
    /// Whether metrics are sent.
    pub metrics: bool,
    /// Whether queries with a `traceparent` have spans.
    pub spans: bool,
}

impl Telemetry {
    /// Whether spans are made.
    pub fn makes_spans(&self) -> bool {
        self.spans && self.endpoint.is_some()
    }
}

/// Text that no `Debug` output shows.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Concealed(pub Option<String>);

impl fmt::Debug for Concealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "(hidden)" } else { "None" })
    }
}

/// Rules of one user (`[users]`); for unset ones the pool's or the process's value holds.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct UserRules {
    /// Whether the user may not log in.
    pub disabled: bool,
    /// The pools that the user's clients may use; empty: all.
    pub pools: Vec<String>,
    /// The secret before the present one, a SCRAM verifier with the same salt.
    pub former_secret: Concealed,
    /// When that one ends, in seconds since 1970; 0: it is not valid.
    pub former_secret_until: u64,
    /// The pool mode.
    pub mode: Option<PoolMode>,
    /// The size of each of the user's pools.
    pub pool_size: Option<u32>,
    /// The reserve of each of the user's pools.
    pub reserve_size: Option<u32>,
    /// The limit of server connections, over all pools; 0 is unlimited.
    pub max_connections: Option<u32>,
    /// The limit of clients, over all pools; 0 is unlimited.
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

/// The highest number of a peer: a cancel key has fourteen bits for it (PgBouncer).
pub const MAX_PEER_ID: u16 = 16_383;

/// Another process behind the same address (`[peers]`), to which requests to cancel are passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerRules {
    /// The host where the peer alone is reached, as written.
    pub host: String,
    /// The peer's port.
    pub port: u16,
    /// How many requests are passed on at once; `None`: as many as a pool has servers, 0: any number.
    pub pool_size: Option<u32>,
}

impl PeerRules {
    /// The address of the peer.
    pub fn target(&self) -> Target {
        Target { host: Host::parse(&self.host), port: self.port }
    }
}

/// Encryption.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Tls {
    /// Towards clients: `mode` is what clients must do.
    pub client: TlsSide,
    /// Towards servers: `mode` is libpq's.
    pub server: TlsSide,
}

/// TLS of one side. Paths are resolved against the settings file's folder.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TlsSide {
    /// The required protection.
    pub mode: SslMode,
    /// Our private key, PEM.
    pub key_file: Option<PathBuf>,
    /// Our certificate and its chain, PEM.
    pub cert_file: Option<PathBuf>,
    /// The certificate authorities for the other side's certificate, PEM.
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

/// The required protection (libpq's `sslmode`); later ones require more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum SslMode {
    /// No encryption.
    #[default]
    Disable,
    /// Clients choose; TLS is requested from a server only after it refused a connection without TLS.
    Allow,
    /// Clients choose; TLS is requested from a server, which is used without it if it refuses.
    Prefer,
    /// Encrypted, with any certificate.
    Require,
    /// Encrypted, with a certificate that chains to `ca_file`.
    VerifyCa,
    /// As `VerifyCa`, and the certificate names the host (for clients: as `VerifyCa`).
    VerifyFull,
}

/// Allowed TLS versions. TLS 1.0 and 1.1 are not supported.
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

/// DNS look-ups of servers.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Dns {
    /// The longest time that an answer is cached, whatever its own TTL is.
    pub max_ttl: Span,
    /// How long the answer that a name does not exist is cached.
    pub nxdomain_ttl: Span,
    /// The file that is used in place of /etc/resolv.conf.
    pub resolv_conf: Option<PathBuf>,
}

/// Settings of the process itself.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Process {
    /// The PID file.
    pub pid_file: Option<PathBuf>,
    /// The operating system's user to switch to, if started by root.
    pub user: Option<String>,
    /// Whether core dumps are allowed; they contain the secrets.
    pub core_dumps: bool,
    /// The files whose changes are adopted without a RELOAD.
    pub watch_files: WatchFiles,
}

/// The files whose changes are adopted without a RELOAD; each word includes the ones before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum WatchFiles {
    /// No file.
    Off,
    /// The file of users, as PgBouncer does.
    Users,
    /// Each file that a setting names: certificates, keys, users, rules, passwords.
    #[default]
    Named,
    /// The settings' own file, too.
    All,
}

/// Logging.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// The file that is appended to; opened again at each reload. `None`: standard error.
    pub file: Option<PathBuf>,
    /// The format of lines.
    pub format: LogFormat,
    /// Whether lines go to syslog too.
    pub syslog: bool,
    /// The syslog identity.
    pub syslog_ident: String,
    /// The syslog facility.
    pub syslog_facility: String,

    /// Whether logins are logged.
    pub connections: bool,
    /// Whether disconnections are logged, with their reasons.
    pub disconnections: bool,
    /// Whether errors that the pooler itself sends to clients are logged.
    pub pooler_errors: bool,
    /// Whether the averages of each period are logged.
    pub stats: bool,
    /// Statements that run for this long are logged, by their fingerprint; zero: none.
    pub min_duration_statement: Span,
    /// The share of these statements that is logged, in per cent.
    pub statement_sample_percent: u8,
    /// More detail with each step; 0 is the usual amount.
    pub verbose: u8,
}

/// How workers wait for their sockets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum SocketIo {
    /// io_uring where the kernel has it and lets us, epoll elsewhere.
    #[default]
    Auto,
    /// epoll: readiness, and a call for each read and write.
    Epoll,
    /// io_uring: completions, one call a round; epoll with a warning where io_uring is not available.
    IoUring,
}

/// The format of log lines.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum LogFormat {
    /// PgBouncer's format.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
    /// For systemd's journal: without the time, with a priority prefix.
    Journal,
}

/// One pool: its servers, the login there, and the rules of pooling.
#[derive(Clone, PartialEq)]
pub struct PoolConfig {
    /// The name that clients give as their database.
    pub name: String,
    /// The servers, at least one; several are hosts of one database.
    pub targets: Vec<Target>,
    /// How connections are spread over several servers.
    pub balance: Balance,
    /// Which servers may be used (libpq's `target_session_attrs`).
    pub session_attrs: SessionAttrs,
    /// Where Patroni says which host is the primary.
    pub patroni: Arc<Patroni>,
    /// The database on the server.
    pub database: String,
    /// The user on the server; `None`: each client's own, with a pool for each user.
    pub user: Option<String>,
    /// The password of `user` on the server.
    pub password: Option<Arc<str>>,
    /// What prints that password, where it is not in the configuration; see [`PoolConfig::password_source`].
    pub password_command: Arc<PasswordCommand>,
    /// The service that makes it, where neither has it.
    pub token_source: Option<Arc<TokenSource>>,
    /// The policy, resolved.
    pub policy: Policy,
    /// Runs on each new server before its first client (`connect_query`).
    pub connect_query: Option<String>,
    /// Startup parameters of our logins: client_encoding, DateStyle, TimeZone, application_name.
    pub startup: Vec<(String, String)>,
    /// Overrides [`Auth::query_user`] for this pool.
    pub auth_user: Option<String>,
    /// Overrides [`Auth::query`] for this pool.
    pub auth_query: Option<String>,
    /// Overrides [`Auth::query_database`] for this pool.
    pub auth_database: Option<String>,
    /// The limits, resolved.
    pub limits: Limits,
    /// Its share of a database server's connections.
    pub share: PoolShare,
}

/// How the connections of a pool are spread over its servers (`load_balance_hosts`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Balance {
    /// Round robin.
    #[default]
    RoundRobin,
    /// The first reachable one, in the listed order.
    Disable,
}

/// When clients of one pool are spread over several workers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Spread {
    /// When the pool's owner worker is busy, and another one is not.
    #[default]
    Busy,
    /// Round robin, at any load.
    Always,
    /// Never.
    Never,
}

/// Which servers a pool may use (libpq's `target_session_attrs`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum SessionAttrs {
    /// All servers.
    #[default]
    Any,
    /// Servers that accept writes by default.
    ReadWrite,
    /// Servers that do not accept writes by default.
    ReadOnly,
    /// Servers that are not in recovery.
    Primary,
    /// Servers in recovery.
    Standby,
    /// Servers in recovery, or any if there is none.
    PreferStandby,
}

/// What a server must be for a pool, and how it is asked about that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServerCondition {
    /// Whether it is about writes; otherwise about recovery.
    pub about_writes: bool,
    /// Returns a row, or none.
    pub query: &'static str,
    /// Whether a server that is fit returns a row.
    pub row: bool,
    /// Why another server is not fit.
    pub why: &'static str,
}

impl SessionAttrs {
    /// Whether only one of the pool's hosts can be fit at a time, the one that takes writes: the others copy from it.
    pub fn wants_primary(self) -> bool {
        matches!(self, SessionAttrs::ReadWrite | SessionAttrs::Primary)
    }

    /// The condition for servers (PostgreSQL documentation, libpq, `target_session_attrs`). That of `prefer-standby` holds
    /// while there is such a server.
    pub fn condition(self) -> Option<ServerCondition> {
        const RECOVERY: &str = "SELECT 1 WHERE pg_catalog.pg_is_in_recovery()";
        const READ_ONLY: &str = "SELECT 1 WHERE pg_catalog.current_setting('transaction_read_only') = 'on'";
        let (about_writes, query, row, why) = match self {
            SessionAttrs::Any => return None,
            SessionAttrs::ReadWrite => (true, READ_ONLY, false, "session is read-only"),
            SessionAttrs::ReadOnly => (true, READ_ONLY, true, "session is not read-only"),
            SessionAttrs::Primary => (false, RECOVERY, false, "server is in hot standby mode"),
            SessionAttrs::Standby | SessionAttrs::PreferStandby => {
                (false, RECOVERY, true, "server is not in hot standby mode")
            }
        };
        Some(ServerCondition { about_writes, query, row, why })
    }
}

/// By which connection clients of a pool listen. In the modes session and statement each uses its own server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ListenBy {
    /// In mode auto by one that all of them share, otherwise each by its own server.
    #[default]
    Auto,
    /// By one that all of them share.
    Shared,
    /// Each by its own server: in mode auto the client keeps it, in mode transaction it loses its channels with it.
    Own,
}

impl Listen {
    /// Whether a connection from this address begins with a PROXY header.
    pub fn is_proxy(&self, from: &ClientAddr) -> bool {
        let ClientAddr::Tcp(from) = from else { return false };
        self.proxy_from.iter().any(|network| network.contains(from.ip()))
    }
}

impl ListenBy {
    /// Whether the clients of a pool in this mode listen through one of its servers.
    pub fn is_shared_in(self, mode: PoolMode) -> bool {
        match mode {
            PoolMode::Auto => self != ListenBy::Own,
            PoolMode::Transaction => self == ListenBy::Shared,
            PoolMode::Session | PoolMode::Statement => false,
        }
    }
}

/// What happens to clients while no server of their pool can be reached.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum OnServerDown {
    /// Clients wait for a server, for `query_wait_timeout` at the most.
    #[default]
    Wait,
    /// Clients get the error of the last attempt at once.
    Refuse,
}

/// What happens to a startup parameter that does not follow a client as a tracked one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum UntrackedParameters {
    /// The client is refused.
    #[default]
    Refuse,
    /// The parameter is dropped.
    Ignore,
    /// The parameter is set on each server that the client gets.
    Set,
}

/// What a pool does with servers between clients, and how it logs in to them. A pool's own value overrides the global one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The pool mode.
    pub mode: PoolMode,
    /// What happens to a server whose session state a client changed; [`PoolConfig::on_dirty`] says what is in force.
    pub on_dirty: OnDirty,
    /// Whether clients are warned of session state that they lose.
    pub warn_on_dirty: bool,
    /// Runs when a server is released in session mode (`server_reset_query`); empty: no query.
    pub reset_query: String,
    /// Runs `reset_query` at each release, in all modes (`server_reset_query_always`).
    pub reset_always: bool,
    /// Runs before a server that was unused for long is handed out (`server_check_query`); `None`: no query; an empty
    /// text is an empty query.
    pub check_query: Option<String>,
    /// The authentication methods that our logins accept from servers.
    pub require_auth: RequireAuth,
}

/// Sizes, numbers and times. A time of zero means no limit, unless its setting says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The limit of a pool's server connections.
    pub size: u32,
    /// Server connections kept open even when idle.
    pub min_size: u32,
    /// Server connections beyond `size` for clients that waited `reserve_timeout`.
    pub reserve_size: u32,
    /// How long a client must have waited before the reserve is used.
    pub reserve_timeout: Span,
    /// How many of a pool's servers clients may keep for what they have left, in percent of its size.
    pub max_pinned: u32,
    /// By which connection clients listen.
    pub listen: ListenBy,
    /// The kinds of state for which no client may keep a server.
    pub pin_refuse: StateKinds,
    /// Prepared statements kept on each server; 0 turns their sharing off.
    pub max_prepared_statements: u32,
    /// How long a client may wait for a server.
    pub query_wait_timeout: Span,
    /// The time after which a waiting client is sent a notice.
    pub query_wait_notify: Span,
    /// How long a query may run.
    pub query_timeout: Span,
    /// How long a transaction may be idle.
    pub idle_transaction_timeout: Span,
    /// How long a transaction may last.
    pub transaction_timeout: Span,
    /// How long a client without a server may be idle.
    pub client_idle_timeout: Span,
    /// The age at which an idle server connection is replaced.
    pub server_lifetime: Span,
    /// How long a server connection may be idle.
    pub server_idle_timeout: Span,
    /// How long a connect with its login may take.
    pub server_connect_timeout: Span,
    /// The pause after a failed login.
    pub server_login_retry: Span,
    /// What happens to clients while no server can be reached.
    pub on_server_down: OnServerDown,
    /// How long transactions at the old primary may go on once there is another; zero: not at all.
    pub old_primary_timeout: Span,
    /// How long SWITCH waits for a pool's new primary.
    pub switch_timeout: Span,
    /// How long a client's login waits for the first server of its pool; zero: as long as a login may take.
    pub first_server_timeout: Span,
    /// A server unused for longer is checked before it is handed out; zero: at every hand-out.
    pub server_check_delay: Span,
    /// How long a cancel request may wait.
    pub cancel_wait_timeout: Span,
    /// Hands out the server that was unused the longest instead of the one used last.
    pub server_round_robin: bool,
    /// How many connects to a server a pool may begin within a second.
    pub connects_per_second: u32,
    /// The most server connections of the database, over all its pools; 0 is unlimited.
    pub max_db_connections: u32,
    /// The most clients of the database, over all its pools; 0 is unlimited.
    pub max_db_client_connections: u32,
    /// How many prepared statements a client may hold.
    pub client_statements: u32,
    /// The limit of a client's statements, in bytes; 0 is an eighth of `statement_memory`. [`Limits::client_share`]
    /// computes it.
    pub client_statement_memory: u64,
    /// The limit of a pool's statements, in bytes; 0 is half of `statement_memory`. See [`Limits::pool_share`].
    pub pool_statement_memory: u64,
    /// The limit of all statements of the process, in bytes; the same for all pools.
    pub statement_memory: u64,
}

impl Limits {
    /// The limit of a client's statements, in bytes.
    pub fn client_share(&self) -> u64 {
        if self.client_statement_memory > 0 { self.client_statement_memory } else { self.statement_memory / 8 }
    }

    /// The limit of a pool's statements, in bytes.
    pub fn pool_share(&self) -> u64 {
        if self.pool_statement_memory > 0 { self.pool_statement_memory } else { self.statement_memory / 2 }
    }

    /// How many servers a pool may have for one user, with its reserve; `None`: no limit.
    pub fn max_servers(&self) -> Option<u64> {
        (self.size > 0).then(|| u64::from(self.size) + u64::from(self.reserve_size))
    }
}

/// Converts an enum to and from its words in the settings.
macro_rules! words {
    ($kind:ident: $($variant:ident = $word:literal),+) => {
        impl $kind {
            /// The words in the settings, in the order of the variants.
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
words!(WatchFiles: Off = "off", Users = "users", Named = "named", All = "all");
words!(SocketIo: Auto = "auto", Epoll = "epoll", IoUring = "io_uring");
words!(LogFormat: Text = "text", Json = "json", Journal = "journal");
words!(Spread: Busy = "busy", Always = "always", Never = "never");
words!(OnServerDown: Wait = "wait", Refuse = "refuse");
words!(ListenBy: Auto = "auto", Shared = "shared", Own = "own");
words!(UntrackedParameters: Refuse = "refuse", Ignore = "ignore", Set = "set");
words!(Balance: RoundRobin = "round-robin", Disable = "disable");
words!(SessionAttrs: Any = "any", ReadWrite = "read-write", ReadOnly = "read-only", Primary = "primary",
    Standby = "standby", PreferStandby = "prefer-standby");

impl PoolConfig {
    /// The first server.
    ///
    /// # Panics
    /// For a pool without servers, which no reader makes.
    pub fn target(&self) -> &Target {
        self.targets.first().expect("a pool has a server")
    }

    /// Whether the pool has a password of its own, or what makes it.
    pub fn has_password(&self) -> bool {
        self.password.is_some() || self.password_source().is_some()
    }

    /// What makes the pool's password, if something does.
    pub fn password_source(&self) -> Option<PasswordSource> {
        match &self.token_source {
            Some(source) => Some(PasswordSource::Token(source.clone())),
            None if self.password_command.argv.is_empty() => None,
            None => Some(PasswordSource::Command(self.password_command.clone())),
        }
    }

    /// What a connection to the pool's servers depends on: with another value of it, it is replaced. A password is not
    /// part of it: it counts at a login only, so a new one replaces no connection.
    pub fn connects_to(&self) -> impl PartialEq + fmt::Debug {
        let PoolConfig { targets, database, user, session_attrs, connect_query, startup, policy, .. } = self;
        (targets, database, user, session_attrs, connect_query, startup, policy.require_auth)
    }

    /// What happens to a server on which a client left state. In mode auto no client finds what another has left.
    #[inline]
    pub fn on_dirty(&self) -> OnDirty {
        match &self.policy {
            Policy { mode: PoolMode::Auto, on_dirty: OnDirty::Keep, .. } => OnDirty::Reset,
            policy => policy.on_dirty,
        }
    }

    /// Whether the pool's clients listen through one of its servers, as far as it has one to share.
    pub fn shares_listening(&self) -> bool {
        self.limits.listen.is_shared_in(self.policy.mode)
    }

    /// All servers, as `host:port` separated by commas.
    pub fn places(&self) -> String {
        self.targets.iter().map(Target::to_string).collect::<Vec<_>>().join(",")
    }
}

impl Network {
    /// Whether an address is in the network. An IPv4-mapped IPv6 address counts as its IPv4 address.
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
        let expected = || format!("must be an address or address/bits, as in \"10.0.0.0/8\", not {text:?}");
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| expected())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), str::parse).map_err(|_| expected())?;
        if bits <= most { Ok(Network { address, bits }) } else { Err(expected()) }
    }
}

impl fmt::Debug for PoolConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("name", &self.name)
            .field("targets", &self.targets)
            .field("database", &self.database)
            .field("user", &self.user)
            .field("password", &self.password.as_ref().map(|_| "(hidden)"))
            .field("mode", &self.policy.mode)
            .field("on_dirty", &self.policy.on_dirty)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
