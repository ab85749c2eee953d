//! Changes of the configuration that are asked for from outside: what became of one, and why one was not made.
//!
//! Must not know how a file is written, or where it lies.

use std::fmt;
use std::sync::Arc;

use weir_config::{Accounts, ConfigError, EntryKind, Exposure, Keys};

/// Where a change that was made is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Persisted {
    /// In the file: it outlasts the process.
    InFile,
    /// In memory, until the process ends: why it is not in the file.
    InMemory(String),
}

/// Why nothing was changed. Never holds a secret.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChangeError {
    /// There is one of this name already.
    NameTaken(EntryKind, String),
    /// There is none of this name.
    Missing(EntryKind, String),
    /// The configuration would not be valid.
    Invalid(Box<ConfigError>),
    /// Users are listed in this file, which is nobody's to write to but the operator's.
    ListedElsewhere(String),
    /// A stored secret would go where it has not gone before.
    Exposes(Box<Exposure>),
    /// The configuration would be valid, but could not be served: why.
    Unfit(String),
    /// The file is not as it was when it was read; holds its path.
    ChangedByHand(String),
    /// Nothing can be changed where this process runs.
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
            ChangeError::ChangedByHand(file) => write!(f, "{file} was changed by hand since it was read"),
            ChangeError::Fixed => f.write_str("this process has no configuration that could be changed"),
        }
    }
}

impl std::error::Error for ChangeError {}

/// What a server said when a pool's login was tried.
#[derive(Clone, PartialEq, Debug)]
pub struct PoolTestResult {
    /// Whether the connection was encrypted.
    pub encrypted: bool,
    /// Its version, as in `15.18`.
    pub version: String,
    /// How long connecting, logging in and asking took, in milliseconds.
    pub milliseconds: f64,
    /// How many connections it takes.
    pub max_connections: u64,
    /// How many of them it keeps for superusers.
    pub superuser_reserved_connections: u64,
    /// How many are open now, this one included.
    pub connections: u64,
}

/// The configuration, as far as the control plane looks at it past the workers.
pub trait ConfigAccess: Send + Sync {
    /// Who may come to the control plane, as the file has it that was read last.
    fn accounts(&self) -> Arc<Accounts>;

    /// Tries a pool before it is made: waits for its server, so on a thread that may wait.
    ///
    /// Logs in where the pool would. The inner error is the server's, or the network's.
    ///
    /// # Errors
    /// The pool could not be made like this.
    fn try_pool(&self, pool: &str, keys: Keys) -> Result<Result<PoolTestResult, String>, ChangeError>;
}
