//! The Unix socket where a process that takes over finds the one that serves.

use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::unistd::{Uid, geteuid};
use weir_config::Listen;

use crate::socket_file::{FileUsers, SocketFile, bind_private};

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
    pub(crate) fn bind(path: &Path, users: &FileUsers) -> io::Result<UpgradeSocket> {
        let (listener, file) = bind_private(path, users)?;
        Ok(UpgradeSocket { listener, file })
    }

    /// One that came from another process.
    pub(crate) fn inherited(listener: UnixListener, path: &Path, users: &FileUsers) -> io::Result<UpgradeSocket> {
        Ok(UpgradeSocket { listener, file: SocketFile::of(path, users)? })
    }
}

/// Whether the process at the other end is one of this user's, or root's; or, where `also` names a user, that user's.
pub(super) fn is_trusted(stream: &UnixStream, also: Option<Uid>) -> bool {
    getsockopt(stream, PeerCredentials).is_ok_and(|who| trusts(Uid::from_raw(who.uid()), geteuid(), also))
}

/// Root believes no other user either, unless it is named: anybody may write to the folder for temporary files.
fn trusts(other: Uid, own: Uid, also: Option<Uid>) -> bool {
    other == own || other.is_root() || also == Some(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_user_is_believed_only_where_it_is_named() {
        let (root, ann, joe) = (Uid::from_raw(0), Uid::from_raw(1000), Uid::from_raw(1001));
        assert!(trusts(ann, ann, None) && trusts(root, ann, None) && trusts(root, root, None));
        assert!(!trusts(joe, ann, None) && !trusts(joe, root, None) && !trusts(joe, root, Some(ann)));
        assert!(trusts(ann, root, Some(ann)));
        let (one, _other) = UnixStream::pair().unwrap();
        assert!(is_trusted(&one, None), "a process is its own user's");
    }
}
