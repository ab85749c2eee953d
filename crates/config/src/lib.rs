//! The configuration: text in, values out.
//!
//! Owns the table of settings and its readers: Weir's TOML, and PgBouncer's ini. Does no I/O: `load` reaches files and
//! the environment through the functions that it is given, so it behaves the same in a test, in a simulator and in
//! production.

mod access;
mod accounts;
mod address;
mod ciphers;
mod connstr;
mod convert;
mod defaults;
mod describe;
mod edit;
mod elsewhere;
mod encryption;
mod error;
mod field;
mod ini;
mod keepalive;
mod kind;
mod load;
mod lookup;
mod man;
mod model;
mod names;
mod oidc;
mod origin;
mod password_source;
mod patroni;
mod patroni_questions;
mod pool_keys;
mod pool_text;
mod queries;
mod reference;
mod reload;
mod review;
mod secrets;
mod server_password;
mod services;
mod set;
mod settings;
mod shares;
mod show;
mod suggest;
mod syntax;
mod table;
mod tls;
mod toml;
mod toml_key;
mod units;
mod unknown_key;
mod users;
mod web_role;
mod wording;
mod write;

pub use accounts::{Account, Accounts, web_listen_error};
pub use ciphers::{CipherSuite, resolve_ciphers, resolve_tls13};
pub use convert::to_toml;
pub use describe::{SettingText, describe};
pub use edit::{
    Assignment, ENCRYPTED, Edit, Edits, EntryKind, Exposure, KeyChange, Keys, NotRestored, Operation, Replace, Restore,
    SALT, SecretForm, ShownValue, Value, changes, concerns_cluster, find_exposure, find_of_node, find_plain_secret,
    find_source, hide_queries, is_blank, is_settable, merge, node_part, outline, outline_changes, panel_address,
    pool_keys, replace_secrets, restore, rewrite, secret_form, shared_part, shared_sections, user_keys, with_verifiers,
};
pub use encryption::{Encryption, FailedAttempt};
pub use error::{ConfigError, ConfigErrors};
pub use keepalive::Keepalive;
pub use load::{load, load_lenient, load_with};
pub use lookup::{AUTH_QUERY, AuthLookup};
pub use man::{escape_roff, reference_roff};
pub use model::{
    Alerts, Auth, Balance, Cluster, Concealed, Config, Dns, Limits, Listen, ListenBy, Log, LogFormat, MAX_PEER_ID,
    Network, OnServerDown, PeerRules, Policy, PoolConfig, PoolShare, Process, ServerCondition, ServerRules,
    SessionAttrs, SocketIo, Spread, SslMode, Telemetry, Tls, TlsProtocols, TlsSide, UntrackedParameters, UserRules,
    WatchFiles, Web,
};
pub use names::{HEALTH_STATES, HOST_NAME, RESERVED_DATABASES, SYSLOG_FACILITIES};
pub use oidc::Oidc;
pub use origin::{ConfigWarning, FileFormat, Location, Locations};
pub use password_source::{PasswordCommand, PasswordSource, TokenService, TokenSource, Vault};
pub use patroni::{Patroni, PatroniQuestion};
pub use pool_keys::{PoolKey, pool_key_table};
pub use queries::{HIDDEN_QUERY, is_query};
pub use reference::reference_markdown;
pub use reload::{Change, Differences, Successor, differences};
pub use review::{CLOSING_DESCRIPTORS, ConfigFinding, HostLimits, Severity, max_servers, reserved_descriptors, review};
pub use server_password::ServerPassword;
pub use set::{SetError, apply_tls, is_about_tls, set};
pub use show::{ShowRow, show};
pub use suggest::nearest;
pub use units::{moment, moment_text, span as read_time};
pub use users::{UserlistError, Users, rewrite_userlist};
pub use web_role::WebRole;
pub use weir_auth::{Method, ShownRule};
