//! The listening sockets that one process gives to another, each with what it is for.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What a listening socket is for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum ListenerKind {
    /// Clients by TCP.
    Tcp,
    /// Clients over the Unix socket of this path; whether its file is removed with the process.
    Unix(PathBuf, bool),
    /// The control plane's HTTP.
    Web,
    /// The next take-over.
    Upgrade(PathBuf),
    /// No socket: where the old process's standard error goes.
    Errors,
}

/// Listening sockets that are offered, or were.
pub(crate) type Offered = Vec<(ListenerKind, OwnedFd)>;
