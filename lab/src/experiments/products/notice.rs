//! The notice of the page's address: a file below `weir-lab/`, which Weir's panel reads.
//!
//! Locked while the page is served, so that the file of a killed lab is ignored. If it can't be written, the page is
//! served all the same.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

/// The file in the folder.
const FILE: &str = "products.url";

/// The notice; dropping it removes the file.
pub(super) struct Notice {
    path: PathBuf,
    _locked: Flock<File>,
}

impl Notice {
    /// Writes it into the folder, which is created if missing. `None`: another lab has put its own there, or it can't
    /// be written.
    pub(super) fn put(folder: &Path, url: &str) -> Option<Notice> {
        fs::create_dir_all(folder).ok()?;
        let path = folder.join(FILE);
        let file = File::options().create(true).write(true).truncate(false).open(&path).ok()?;
        let mut locked = Flock::lock(file, FlockArg::LockExclusiveNonblock).ok()?;
        locked.set_len(0).and_then(|()| writeln!(locked, "{url}")).ok()?;
        Some(Notice { path, _locked: locked })
    }
}

impl Drop for Notice {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        // A folder with reports stays.
        let _ = self.path.parent().map(fs::remove_dir);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_lab_at_a_time_puts_a_notice_and_takes_it_and_its_folder_away() {
        let place = weir_pglocal::TempFolder::new().unwrap();
        let folder = place.path().join("weir-lab");
        let notice = Notice::put(&folder, "http://127.0.0.1:1/").unwrap();
        assert!(Notice::put(&folder, "http://127.0.0.1:2/").is_none());
        assert_eq!(fs::read_to_string(folder.join(FILE)).unwrap(), "http://127.0.0.1:1/\n");
        drop(notice);
        assert!(!folder.exists());
        fs::create_dir_all(folder.join("a-report")).unwrap();
        drop(Notice::put(&folder, "http://127.0.0.1:3/").unwrap());
        assert!(folder.join("a-report").exists() && !folder.join(FILE).exists());
    }
}
