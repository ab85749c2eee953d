//! Changes of the configuration by the control plane: the result of a change, and why one was refused.
//!
//! Must not know how a file is written, or its path.

use std::fmt;
use std::sync::Arc;

use weir_base::Target;
use weir_config::{Accounts, Config, ConfigError, Differences, Edit, EntryKind, Exposure, KeyChange, Keys};

use crate::activity::{Activity, BackendKey, BackendSignal, LookedAt, ServerCapacity};
use crate::certificate::CertificateExpiry;

/// The way by which a change of the configuration came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChangeSource {
    /// The control plane: a script or the panel.
    Api,
    /// SET or RELOAD at the console.
    Console,
    /// A signal to the process.
    Signal,
    /// A file that is watched has changed.
    Watch,
    /// Another node, or `weir cluster apply`, has changed the cluster's configuration.
    Cluster,
}

impl ChangeSource {
    /// The way's name in lists.
    pub fn name(self) -> &'static str {
        match self {
            ChangeSource::Api => "api",
            ChangeSource::Console => "console",
            ChangeSource::Signal => "signal",
            ChangeSource::Watch => "watch",
            ChangeSource::Cluster => "cluster",
        }
    }
}

/// Who changes the configuration, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Author {
    /// The user or the token; none where no login is needed, and for a signal.
    pub user: Option<String>,
    /// The author's address; empty for a signal.
    pub from: String,
    /// The way by which the change came.
    pub via: ChangeSource,
    /// The author's reason, if one was given.
    pub comment: Option<String>,
    /// The request of the control plane, as the audit log numbers it; 0 for others.
    pub request: u64,
}

/// A command of the console that changed something.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConsoleDeed {
    /// When: microseconds since 1970. Later ones have greater numbers.
    pub at: u64,
    /// The operator, and from where: an address, or `unix`.
    pub user: String,
    /// See `user`.
    pub from: String,
    /// The command, and what it is about: [`Command::deed`](crate::Command::deed).
    pub command: &'static str,
    /// See `command`.
    pub object: Option<String>,
}

impl Author {
    /// The author of a reload by a signal.
    pub fn signal() -> Author {
        Author { user: None, from: String::new(), via: ChangeSource::Signal, comment: None, request: 0 }
    }

    /// The author of a reload because a watched file has changed.
    pub fn watch() -> Author {
        Author { via: ChangeSource::Watch, ..Author::signal() }
    }
}

/// How a reload of the configuration ended, or a change of its file by the control plane. Later ones are greater.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LastReload {
    /// When: microseconds since 1970.
    pub at: u64,
    /// Why the file could not be used, in lines; `None` after a reload that worked.
    pub error: Option<String>,
    /// The settings of the file that have another value until a restart.
    pub restart: Vec<String>,
    /// When the last one worked: microseconds since 1970; `None` if there was none since the start.
    pub worked_at: Option<u64>,
}

/// A configuration that all workers are adopting, for those who keep a history of it.
#[derive(Clone, Debug)]
pub struct Adopted {
    /// Who has changed the configuration.
    pub author: Author,
    /// The command: `RELOAD`, `SET` or `CHANGE`.
    pub command: &'static str,
    /// The configuration that was in force.
    pub before: Arc<Config>,
    /// The configuration that workers adopt.
    pub after: Arc<Config>,
}

/// What a change would do, without making it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ChangePreview {
    /// The keys with another value.
    pub changes: Vec<KeyChange>,
    /// The effect of the change on pools and settings.
    pub differences: Differences,
    /// Secrets, by their keys, that must be given with the change: then nothing else is known.
    pub secrets: Vec<String>,
    /// Which texts of the file, and of those that it names, a reload would read: another number for another text, in
    /// this process. None where the change is not a reload.
    pub text: Option<u64>,
}

/// A change that the control plane requests.
#[derive(Clone, PartialEq, Debug)]
pub struct ChangeRequest {
    /// What is changed.
    pub edit: Edit,
    /// The last version of the configuration that the caller knows: with a later one nothing is changed.
    pub latest: Option<u64>,
}

impl From<Edit> for ChangeRequest {
    fn from(edit: Edit) -> ChangeRequest {
        ChangeRequest { edit, latest: None }
    }
}

/// Where a change is stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Persisted {
    /// In the file: it survives a restart.
    InFile,
    /// In memory, until the process ends; holds why it is not in the file.
    InMemory(String),
}

/// Why a change was refused. Never holds a secret.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChangeError {
    /// The name is taken.
    NameTaken(EntryKind, String),
    /// The name does not exist.
    Missing(EntryKind, String),
    /// The configuration would be invalid.
    Invalid(Box<ConfigError>),
    /// Users are listed in this file, which each node of a cluster has for itself.
    ListedElsewhere(String),
    /// A stored secret would be sent to a new target.
    Exposes(Box<Exposure>),
    /// The configuration would be valid, but could not be served; holds why.
    Unfit(String),
    /// The configuration has changed since the caller looked; its last version.
    Overtaken(u64),
    /// The file has changed since it was read; holds its path.
    ChangedByHand(String),
    /// The file has changed since the preview of its reload.
    NotAsPreviewed,
    /// Secrets of an earlier version, by their keys, that were not stored, and that the file does not have any more.
    SecretsNeeded(Vec<String>),
    /// The cluster's configuration has changed since this node adopted it.
    ChangedInCluster,
    /// The cluster's configuration can't be written; holds why. It is unchanged, or the change appears later.
    ClusterAway(String),
    /// The process has no configuration file.
    Fixed,
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChangeError::NameTaken(about, name) => write!(f, "there is a {about} {name} already"),
            ChangeError::Missing(about, name) => write!(f, "no such {about}: {name}"),
            ChangeError::Invalid(error) => f.write_str(&error.message),
            ChangeError::ListedElsewhere(file) => {
                write!(f, "users and their passwords are listed in {file}, which is not written to")
            }
            ChangeError::Exposes(exposure) => f.write_str(&exposure.message),
            ChangeError::Unfit(why) => f.write_str(why),
            ChangeError::Overtaken(latest) => {
                write!(f, "the configuration has changed since: it is version {latest} now")
            }
            ChangeError::ChangedByHand(file) => write!(f, "{file} was changed by hand since it was read"),
            ChangeError::NotAsPreviewed => f.write_str("the file has changed since the preview of its reload"),
            ChangeError::ChangedInCluster => {
                f.write_str("the cluster's configuration has changed since this node adopted it")
            }
            ChangeError::ClusterAway(why) => write!(f, "the cluster's configuration can't be written: {why}"),
            ChangeError::SecretsNeeded(keys) => write!(f, "secrets are not stored: give {}", keys.join(", ")),
            ChangeError::Fixed => f.write_str("this process has no configuration that could be changed"),
        }
    }
}

impl std::error::Error for ChangeError {}

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

/// The control plane's access to the configuration, beside the workers.
pub trait ConfigAccess: Send + Sync {
    /// The accounts of the control plane, from the file as last read. Called for each request; cheap.
    fn accounts(&self) -> Arc<Accounts>;

    /// When the certificates that a configuration names expire. Reads their files, so it blocks; one that can't be read
    /// is left out.
    fn certificates(&self, config: &Config) -> Vec<CertificateExpiry> {
        let _ = config;
        Vec::new()
    }

    /// What a change would do. Reads the file; writes nothing, and asks no worker.
    ///
    /// # Errors
    /// The errors of the change itself; missing secrets are no error here.
    fn preview(&self, edit: &Edit) -> Result<ChangePreview, ChangeError> {
        let _ = edit;
        Err(ChangeError::Fixed)
    }

    /// What a reload of the file would do to the configuration that is in force. Reads the file and those that it names;
    /// some milliseconds for each hundred pools.
    ///
    /// # Errors
    /// The mistakes of the file.
    fn preview_reload(&self, in_force: &Config) -> Result<ChangePreview, String> {
        let _ = in_force;
        Err(ChangeError::Fixed.to_string())
    }

    /// Tests a pool before it is made. Blocks until its server has answered, so callers use a thread for blocking
    /// work.
    ///
    /// Logs in like the pool would. The inner error is the server's, or the network's.
    ///
    /// # Errors
    /// The pool's keys are invalid.
    fn try_pool(&self, pool: &str, keys: Keys) -> Result<Result<PoolTestResult, String>, ChangeError>;

    /// Logs in to this Weir as a client of a pool, and sends a query. Blocks like [`try_pool`](ConfigAccess::try_pool).
    ///
    /// # Errors
    /// What the client gets, and what to do about it.
    fn try_user(&self, user: &str, pool: &str, password: &str) -> Result<UserTestResult, UserTestError> {
        let _ = (user, pool, password);
        let message = ChangeError::Fixed.to_string();
        Err(UserTestError { message, sqlstate: String::new(), detail: None, hint: None })
    }

    /// Reads from a pool's server which backends run, and which wait for which, with the pool's own login. Blocks like
    /// [`try_pool`](ConfigAccess::try_pool); one connection and one query, with limits on time, rows and bytes.
    ///
    /// # Errors
    /// Why nothing can be read, in words: no login is known, or the server's error.
    fn activity(&self, pool: &str) -> Result<Activity, String> {
        Err(format!("the server of {pool} can't be reached from here"))
    }

    /// Keeps one connection to each server that one of these pools leads to, with such a pool's own login, so that
    /// [`activity`](ConfigAccess::activity), [`capacity`](ConfigAccess::capacity) and [`signal`](ConfigAccess::signal)
    /// work when the server takes no more connections; closes those to other servers. To be called every few seconds
    /// with all such pools. Blocks likewise, where a connection has to be opened. A pool whose connections several
    /// nodes share has none.
    fn keep_looks(&self, pools: &[LookedAt]) {
        let _ = pools;
    }

    /// Asks one server of a pool for its limit of connections and for those that are open, with the pool's own login.
    /// Blocks likewise; one connection and two queries.
    ///
    /// # Errors
    /// As for [`activity`](ConfigAccess::activity).
    fn capacity(&self, pool: &str, server: &Target) -> Result<ServerCapacity, String> {
        Err(format!("{server}, a server of {pool}, can't be reached from here"))
    }

    /// Sends a signal to a backend of a pool's server, with the pool's own login. Blocks likewise. Returns whether the
    /// backend still did what the key says; if not, it gets no signal.
    ///
    /// # Errors
    /// As for [`activity`](ConfigAccess::activity); also that the pool's user may not do this.
    fn signal(&self, pool: &str, backend: BackendKey, signal: BackendSignal) -> Result<bool, String> {
        let _ = (backend, signal);
        Err(format!("the server of {pool} can't be reached from here"))
    }
}
