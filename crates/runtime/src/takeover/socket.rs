//! The Unix socket where a process that takes over finds the one that serves.

use std::io;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use weir_config::Listen;

use crate::socket_file::{SocketFile, bind_private};

/// The socket's path for a configuration: beside the clients' Unix socket; without one, in the folder that a supervisor
/// made for the service (`RUNTIME_DIRECTORY`), or in the folder for temporary files. Only processes of the same user, and
/// root's, are believed there, so it does not matter who else may write to it.
pub fn upgrade_socket(listen: &Listen) -> PathBuf {
    let given = || std::env::var_os("RUNTIME_DIRECTORY").map(PathBuf::from);
    let folder = listen.unix_socket_dir.clone().or_else(given).unwrap_or_else(std::env::temp_dir);
    folder.join(format!(".s.weir.{}", listen.port))
}

/// The socket, bound.
#[derive(Debug)]
pub struct UpgradeSocket {
    pub(super) listener: UnixListener,
    pub(super) file: SocketFile,
}

impl UpgradeSocket {
    /// Binds it; a file that no process serves any more is replaced.
    pub(crate) fn bind(path: &Path) -> io::Result<UpgradeSocket> {
        let (listener, file) = bind_private(path)?;
        Ok(UpgradeSocket { listener, file })
    }

    /// One that came from another process.
    pub(crate) fn inherited(listener: UnixListener, path: &Path) -> io::Result<UpgradeSocket> {
        Ok(UpgradeSocket { listener, file: SocketFile::of(path)? })
    }
}

/// Whether the process at the other end is one of ours, or root's.
pub(super) fn is_trusted(stream: &std::os::unix::net::UnixStream) -> bool {
    use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
    let own = nix::unistd::geteuid().as_raw();
    getsockopt(stream, PeerCredentials).is_ok_and(|who| who.uid() == own || who.uid() == 0 || own == 0)
}
