//! Why a configuration can't be read, put in force, or shared: each error is one line, but for the mistakes of a file.

use std::fmt;
use std::path::{Path, PathBuf};

use weir_admin::ChangeError;
use weir_config::{ConfigError, ConfigErrors, ConfigFinding, ENCRYPTED};

/// See the head of the file. Never holds a secret.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoreError {
    /// A file can't be read: which, and why.
    File(PathBuf, String),
    /// A file that had settings has none any more.
    Emptied(PathBuf),
    /// The mistakes of a configuration in files.
    Mistakes(Box<ConfigErrors>),
    /// The first mistake of a merged configuration, whose lines are in no file.
    Mistake(Box<ConfigError>),
    /// The settings are valid, and can't be served here.
    Unfit(Box<ConfigFinding>),
    /// A file has no pools, and would have none after the end of the shared configuration.
    NoPools(PathBuf),
    /// The cluster's configuration, or this node's file, can't be merged with the other.
    NotToml,
    /// The value in etcd can't be read: why.
    Value(String),
    /// The value in etcd has no text.
    NoText,
    /// The shared text has this many bytes, and this many are possible.
    TooLong(usize, usize),
    /// Etcd did not do what was requested: its client's error.
    Source(String),
    /// A key that only a node's own file may have: which, and why.
    OfNode(String, &'static str),
    /// A secret is encrypted, and the keys can't be read: its place, and why.
    Encrypted(String, Box<StoreError>),
    /// No file with keys is set.
    NoKeyFile,
    /// The file has no key.
    NoKey(PathBuf),
    /// A line of the file is no key.
    BadKey(PathBuf, usize),
    /// Others than its owner can read the file with keys: its mode.
    Exposed(PathBuf, u32),
    /// The secret at this place does not have the encrypted form.
    Damaged(String),
    /// The secret at a place needs a key that the file does not have.
    OtherKey {
        /// The place.
        place: String,
        /// The id of the key.
        key: String,
        /// The file, and the ids of its keys.
        file: PathBuf,
        /// The ids of its keys.
        here: Vec<String>,
    },
    /// The secret at a place was changed, or is that of another place or of another cluster than this one.
    Foreign(String, String),
    /// The operating system has no random numbers.
    NoRandomNumbers,
    /// A secret can't be encrypted.
    NotEncrypted,
}

impl StoreError {
    pub(crate) fn file(file: &Path, why: impl fmt::Display) -> StoreError {
        StoreError::File(file.to_owned(), why.to_string())
    }

    /// An error of etcd's client.
    pub fn source(why: impl fmt::Display) -> StoreError {
        StoreError::Source(why.to_string())
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::File(file, why) => write!(f, "{}: {why}", file.display()),
            StoreError::Emptied(file) => write!(f, "{}: there is no setting in it any more", file.display()),
            StoreError::Mistakes(mistakes) => mistakes.fmt(f),
            StoreError::Mistake(mistake) => {
                f.write_str(&mistake.message)?;
                mistake.hint.iter().try_for_each(|hint| write!(f, "; {hint}"))
            }
            StoreError::Unfit(finding) => f.write_str(&finding.message()),
            StoreError::NoPools(file) => write!(
                f,
                "{} has no pools, and would have none after the end of the shared configuration: put pools into it (weir cluster \
                 export --plain prints those that were shared), and RELOAD",
                file.display()
            ),
            StoreError::NotToml => f.write_str("the cluster's configuration, or this node's file, is not TOML"),
            StoreError::Value(why) => write!(f, "the value in etcd: {why}"),
            StoreError::NoText => f.write_str("the value in etcd has no text"),
            StoreError::TooLong(length, longest) => {
                write!(f, "the configuration has {length} bytes; etcd takes {longest}")
            }
            StoreError::Source(why) => f.write_str(why),
            StoreError::OfNode(key, why) => write!(f, "{key} can't be shared: {why}"),
            StoreError::Encrypted(place, why) => write!(f, "{place} is encrypted: {why}"),
            StoreError::NoKeyFile => f.write_str(
                "set \"secrets_key_file\" in [cluster] to the file with the cluster's key, and restart this node",
            ),
            StoreError::NoKey(file) => write!(f, "{} has no key: weir cluster key makes one", file.display()),
            StoreError::BadKey(file, line) => {
                write!(f, "{}: line {line} is no key: 32 bytes in base64 or hex", file.display())
            }
            StoreError::Exposed(file, mode) => {
                let file = file.display();
                write!(f, "{file} can be read by others than its owner (mode {mode:04o}): chmod 600 {file}")
            }
            StoreError::Damaged(place) => {
                write!(f, "{place} is damaged: \"{ENCRYPTED}\" and base64 are expected; give the secret again")
            }
            StoreError::OtherKey { place, key, file, here } => write!(
                f,
                "{place} is encrypted with the key {key}, and {} has {}: add that key to it, and RELOAD",
                file.display(),
                here.join(", ")
            ),
            StoreError::Foreign(place, cluster) => write!(
                f,
                "{place} can't be decrypted: it was changed, or was encrypted for another place, or for another cluster than \
                 {cluster}; give the secret again"
            ),
            StoreError::NoRandomNumbers => f.write_str("the operating system has no random numbers"),
            StoreError::NotEncrypted => f.write_str("a secret can't be encrypted"),
        }
    }
}

impl std::error::Error for StoreError {}

impl From<ConfigErrors> for StoreError {
    fn from(mistakes: ConfigErrors) -> StoreError {
        StoreError::Mistakes(Box::new(mistakes))
    }
}

impl From<StoreError> for ChangeError {
    fn from(why: StoreError) -> ChangeError {
        ChangeError::Unfit(why.to_string())
    }
}
