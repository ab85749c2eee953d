//! Changes of the configuration by the control plane: the result of a change, and why one was refused.
//!
//! Must not know how a file is written, or its path.

use std::fmt;
use std::sync::Arc;

use weir_config::{Accounts, Config, ConfigError, Differences, Edit, EntryKind, Exposure, KeyChange, Keys};

use crate::certificate::CertificateExpiry;
use crate::probes::PlannedPool;

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

/// The versions of the configuration that there were: who stores the configuration tells them, and compares numbers.
pub trait ConfigHistory: Send + Sync {
    /// The process starts with a file of this outline, or why there is none: a version, unless it is the last one's.
    /// Blocks on the disk, like [`adopted`](ConfigHistory::adopted).
    fn started(&self, outline: Result<String, String>);

    /// Workers adopt a configuration, whose file has this outline, or why there is none. Returns an error of the disk
    /// for the log, once.
    fn adopted(&self, adopted: &Adopted, outline: Result<String, String>) -> Option<String>;

    /// The number of the last version.
    fn latest(&self) -> u64;
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

    /// When the file was last written, in microseconds since 1970, and how many bytes it has: another value is another
    /// file. Blocks on the disk; none where there is no file, or it can't be seen.
    fn file_stamp(&self) -> Option<(u64, u64)> {
        None
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
    fn preview_reload(&self, in_force: &Config) -> Result<ChangePreview, ChangeError> {
        let _ = in_force;
        Err(ChangeError::Fixed)
    }

    /// The configuration with this pool as a change would make it, for a test of it before. Keys that are left out keep
    /// their values, so that the password of a known pool is not needed again.
    ///
    /// # Errors
    /// The pool's keys are invalid.
    fn plan_pool(&self, pool: &str, keys: Keys) -> Result<PlannedPool, ChangeError> {
        let _ = (pool, keys);
        Err(ChangeError::Fixed)
    }
}
