//! The Unix socket where a process that takes over finds the one that serves, in a folder of its user's: nobody else
//! can take its name.

use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::unistd::{Uid, User, geteuid};
use weir_config::Listen;

use crate::socket_file::{FileUsers, SocketFile, bind_private};

/// Folders that are tried, where others may have taken the name of the first ones.
const TRIES: u32 = 16;

/// The socket's path for a configuration: in a folder of the server's user, which is below that of the clients' Unix
/// socket, unless anybody may write there; else below the folder that a supervisor made for the service
/// (`RUNTIME_DIRECTORY`), for root below `/run`, or below the folder for temporary files. `user`: the one that the
/// server switches to.
pub fn upgrade_socket(listen: &Listen, user: Option<&str>) -> PathBuf {
    let own = server_user(user);
    let exported = || std::env::var_os("RUNTIME_DIRECTORY").map(PathBuf::from);
    let run = || own.is_root().then(|| PathBuf::from("/run")).filter(|folder| folder.is_dir());
    let clients = listen.unix_socket_dir.clone().filter(|folder| !is_public(folder));
    let base = clients.or_else(exported).or_else(run).unwrap_or_else(std::env::temp_dir);
    folder_below(&base, own).join(listen.port.to_string())
}

/// The user that the server runs as.
pub(super) fn server_user(user: Option<&str>) -> Uid {
    let named = user.filter(|_| geteuid().is_root()).and_then(|name| User::from_name(name).ok().flatten());
    named.map_or_else(geteuid, |user| user.uid)
}

/// The first folder that is the user's, or that nobody has made yet.
fn folder_below(base: &Path, own: Uid) -> PathBuf {
    let first = base.join(format!(".weir-{own}"));
    let others = (1..TRIES).map(|number| base.join(format!(".weir-{own}-{number}")));
    let usable = |folder: &PathBuf| match fs::symlink_metadata(folder) {
        Ok(found) => is_own(&found, own),
        Err(error) => error.kind() == ErrorKind::NotFound,
    };
    std::iter::once(first.clone()).chain(others).find(usable).unwrap_or(first)
}

/// Makes a folder for this user alone, if it is not there.
fn make_folder(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        Ok(()) | Err(_) => {}
    }
    if is_own(&fs::symlink_metadata(folder)?, geteuid()) {
        return Ok(());
    }
    let text = format!("{} is not a folder of this user's alone", folder.display());
    Err(io::Error::new(ErrorKind::PermissionDenied, text))
}

/// Whether a path is a folder, not a link to one, that only this user may use.
fn is_own(found: &fs::Metadata, own: Uid) -> bool {
    found.is_dir() && found.uid() == own.as_raw() && found.mode() & 0o077 == 0
}

/// Whether anybody may make files in a folder.
fn is_public(folder: &Path) -> bool {
    fs::metadata(folder).is_ok_and(|found| found.mode() & 0o002 != 0)
}

/// The socket, bound.
#[derive(Debug)]
pub struct UpgradeSocket {
    pub(super) listener: UnixListener,
    pub(super) file: SocketFile,
}

impl UpgradeSocket {
    /// Binds the socket, in a folder for the server's user alone; a file that no process serves any more is replaced.
    pub(crate) fn bind(path: &Path, users: &FileUsers) -> io::Result<UpgradeSocket> {
        if let Some(folder) = path.parent() {
            make_folder(folder)?;
        }
        let (listener, file) = bind_private(path, users)?;
        Ok(UpgradeSocket { listener, file })
    }

    /// A socket that came from another process.
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

    #[test]
    fn a_folder_that_is_another_s_or_open_to_others_is_passed_over() {
        let base = std::env::temp_dir().join(format!("weir-upgrade-{}", std::process::id()));
        let _ = fs::remove_dir_all(&base);
        fs::create_dir(&base).unwrap();
        let own = geteuid();
        let first = folder_below(&base, own);
        make_folder(&first).unwrap();
        assert_eq!((folder_below(&base, own), fs::metadata(&first).unwrap().mode() & 0o777), (first.clone(), 0o700));
        // Others have taken the name: by a folder that they may use, by a link, by a file.
        fs::set_permissions(&first, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        let (second, third) = (base.join(format!(".weir-{own}-1")), base.join(format!(".weir-{own}-2")));
        assert_eq!(folder_below(&base, own), second);
        std::os::unix::fs::symlink("/", &second).unwrap();
        fs::write(&third, "").unwrap();
        assert_eq!(folder_below(&base, own), base.join(format!(".weir-{own}-3")));
        for taken in [&first, &second, &third] {
            assert_eq!(make_folder(taken).unwrap_err().kind(), ErrorKind::PermissionDenied);
        }
        assert!(is_public(&first) && !is_public(&base) && !is_public(&base.join("nowhere")));
        fs::remove_dir_all(&base).unwrap();
    }
}
