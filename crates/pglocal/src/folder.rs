//! A temporary folder that only its owner may enter, and that is gone when its value is.

use std::collections::hash_map::RandomState;
use std::fs::{self, DirBuilder};
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::os::unix::fs::{DirBuilderExt, chown};
use std::path::{Path, PathBuf};

use crate::Error;
use crate::account::{self, Account};

/// The longest path of a folder for a Unix socket: `sun_path` holds 108 bytes on Linux, 104 on macOS and the BSDs,
/// and `/run/.s.PGSQL.65535` with a zero byte follows (20 bytes).
const MAX_SOCKET_FOLDER: usize = 84;

/// A folder of our own, with mode 0700, removed when dropped.
#[derive(Debug)]
pub struct TempFolder {
    path: PathBuf,
}

impl TempFolder {
    /// Makes a folder `weir-…` below the system's temporary folder, short enough to hold a Unix socket.
    pub fn new() -> Result<Self, Error> {
        Self::owned_by(None)
    }

    /// Makes a folder as `new` does, gives it to `account`, and makes it in a place that `account` can reach.
    pub fn owned_by(account: Option<&Account>) -> Result<Self, Error> {
        let path = base(account).join(format!("weir-{:016x}", random()));
        DirBuilder::new().mode(0o700).create(&path).map_err(|e| Error::io(format!("create {}", path.display()), &e))?;
        let folder = TempFolder { path };
        if let Some(account) = account {
            chown(&folder.path, Some(account.uid), Some(account.gid))
                .map_err(|e| Error::io(format!("give {} to {}", folder.path.display(), account.name), &e))?;
        }
        Ok(folder)
    }

    /// The folder's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the folder now; a folder that is gone already is no error.
    pub(crate) fn remove(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        // A process on its way out may still have written a file while the folder was being emptied.
        for _ in 0..20 {
            if self.remove().is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }
}

/// `TMPDIR`, unless it is too deep for a socket or closed to the user who will own the folder.
fn base(account: Option<&Account>) -> PathBuf {
    let tmp = std::env::temp_dir();
    let short = tmp.as_os_str().len() + "/weir-0123456789abcdef".len() <= MAX_SOCKET_FOLDER;
    let reachable = account.is_none() || account::open_to_others(&tmp);
    if short && reachable { tmp } else { PathBuf::from("/tmp") }
}

/// 64 bits that differ at each call: std's hasher is seeded by the operating system.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_folders_differ_and_each_is_gone_with_its_value() {
        let (a, b) = (TempFolder::new().unwrap(), TempFolder::new().unwrap());
        assert_ne!(a.path(), b.path());
        let path = a.path().to_owned();
        fs::write(path.join("file"), "x").unwrap();
        drop(a);
        assert!(!path.exists());
        assert!(b.path().exists());
    }
}
