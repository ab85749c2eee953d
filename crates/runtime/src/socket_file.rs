//! Files of Unix sockets: made, found stale, removed.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with};

/// How many other processes use the files of this process's sockets: one that takes over, one that is taken over from.
/// While there is any, this process removes none, since either may end first. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileUsers(Arc<AtomicUsize>);

impl FileUsers {
    /// Another process uses the files from now on.
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }

    /// Another process uses the files no more.
    pub(crate) fn remove(&self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }

    fn any(&self) -> bool {
        self.0.load(Ordering::Acquire) > 0
    }
}

/// A Unix socket's file; removed with this value, if it is still there and no other process's.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
    users: FileUsers,
}

impl SocketFile {
    /// The file of a socket that is bound to `path`.
    pub(crate) fn of(path: &Path, users: &FileUsers) -> io::Result<SocketFile> {
        Ok(SocketFile { path: path.to_owned(), identity: identity(path)?, users: users.clone() })
    }

    /// The file's path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if !self.users.any() && identity(&self.path).is_ok_and(|found| found == self.identity) {
            // The folder may have become unwritable; the next start removes the file then.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A socket that is not blocking, and not inherited by programs that are started.
pub(crate) fn stream_socket(family: AddressFamily) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(family, SocketType::STREAM, flags, None)?)
}

/// # Errors
///
/// `InvalidInput`: the path is too long for a socket.
pub(crate) fn unix_address(path: &Path) -> io::Result<SocketAddrUnix> {
    SocketAddrUnix::new(path).map_err(|_| ErrorKind::InvalidInput.into())
}

/// Binds a Unix socket that only this user may connect to.
pub(crate) fn bind_private(path: &Path, users: &FileUsers) -> io::Result<(UnixListener, SocketFile)> {
    remove_stale(path)?;
    let socket = stream_socket(AddressFamily::UNIX)?;
    bind(&socket, &unix_address(path)?)?;
    let file = SocketFile::of(path, users)?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    listen(&socket, 8)?;
    Ok((socket.into(), file))
}

/// Removes a socket that a process left behind: only a socket, and only if nothing answers on it.
pub(crate) fn remove_stale(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(io::Error::new(ErrorKind::AlreadyExists, "a file of this name exists and is no socket"));
        }
        Ok(_) => {}
    }
    // Without blocking: one whose queue is full is alive, too.
    let probe = stream_socket(AddressFamily::UNIX)?;
    match connect(&probe, &unix_address(path)?).map_err(|error| io::Error::from(error).kind()) {
        Err(ErrorKind::ConnectionRefused) => fs::remove_file(path),
        Err(ErrorKind::NotFound) => Ok(()),
        Ok(()) | Err(ErrorKind::WouldBlock) => Err(ErrorKind::AddrInUse.into()),
        Err(kind) => Err(kind.into()),
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|m| (m.dev(), m.ino()))
}
