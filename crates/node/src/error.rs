//! Why a node can't do what it is to do: each error is one line for the log.

use std::fmt;
use std::path::{Path, PathBuf};

use weir_pgclient::Error;

/// See the head of the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NodeError {
    /// A file can't be used: which, and why.
    File(PathBuf, String),
    /// The key is not the certificate's.
    OtherKey {
        /// The file with the key.
        key: PathBuf,
        /// The file with the certificate.
        certificate: PathBuf,
        /// The library's reason.
        why: String,
    },
    /// Encryption is not available.
    Tls(String),
    /// Etcd did not do what was requested, or its answer did not arrive: its address, and why, with what to do.
    Etcd(String, String),
    /// Etcd has a value that can't be read: its key, and why.
    Damaged(String, String),
    /// Another node has this number in cancel keys.
    NumberLost(u16),
    /// All numbers for cancel keys are taken.
    NoNumber,
    /// Other nodes took each number that this one tried.
    NumbersRaced,
    /// The pool is not in this node's configuration.
    NoPool,
    /// A pool's server can't be asked: why, with its address.
    Server(String),
    /// The connections of a lost node were not ended in time.
    TooSlow,
    /// A thread can't be started, or has ended.
    Thread(String),
}

impl NodeError {
    pub(crate) fn file(file: &Path, why: impl fmt::Display) -> NodeError {
        NodeError::File(file.to_owned(), why.to_string())
    }

    pub(crate) fn server(target: impl fmt::Display, why: &Error) -> NodeError {
        NodeError::Server(format!("{target}: {why}"))
    }
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeError::File(file, why) => write!(f, "{}: {why}", file.display()),
            NodeError::OtherKey { key, certificate, why } => {
                write!(f, "{} is not the key of the certificate {}: {why}", key.display(), certificate.display())
            }
            NodeError::Tls(why) | NodeError::Server(why) | NodeError::Thread(why) => f.write_str(why),
            NodeError::Etcd(address, why) => write!(f, "etcd at {address}: {why}"),
            NodeError::Damaged(key, why) => write!(f, "{key}: {why}"),
            NodeError::NumberLost(number) => {
                write!(f, "another node has the number {number} in cancel keys: restart this one")
            }
            NodeError::NoNumber => f.write_str("no number for cancel keys is free in etcd"),
            NodeError::NumbersRaced => f.write_str("other nodes take all numbers for cancel keys"),
            NodeError::NoPool => f.write_str("the pool is not in this node's configuration"),
            NodeError::TooSlow => f.write_str("it took too long"),
        }
    }
}

impl std::error::Error for NodeError {}
