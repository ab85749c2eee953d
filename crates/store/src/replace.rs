//! Replaces a file as a whole: a reader finds the old text or the new one, also after a crash.
//!
//! The new text is written to a file beside it, with the same mode and owner, which is then renamed. On an error the
//! file is unchanged. A file with secrets that everybody on the machine could read is its owner's alone from then on.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

/// What a file is to have.
#[derive(Clone, Copy)]
pub(crate) struct NewText<'a> {
    pub(crate) text: &'a str,
    /// Whether it has secrets.
    pub(crate) secret: bool,
}

/// Why a file was not replaced.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ReplaceError {
    /// The file does not have the expected text.
    Changed,
    /// The file can't be replaced; holds why.
    Refused(String),
}

/// Replaces the text of the file at `path`, or of a link's target, if it still has the `expected` one. `secret`: whether
/// the new text has secrets.
pub(crate) fn replace(path: &Path, expected: &str, new: NewText<'_>) -> Result<(), ReplaceError> {
    let NewText { text, secret } = new;
    let refused = |error: io::Error| ReplaceError::Refused(format!("{} can't be written: {error}", path.display()));
    let target = fs::canonicalize(path).map_err(refused)?;
    let old = fs::metadata(&target).map_err(refused)?;
    if old.mode() & 0o222 == 0 || access(&target, AccessFlags::W_OK).is_err() {
        return Err(ReplaceError::Refused(format!("{} is read-only", path.display())));
    }
    let beside = name_beside(&target);
    let mode = mode(&old, secret);
    let done = write(&beside, (&old, mode), text).map_err(refused).and_then(|()| {
        // As late as possible: an edit after this check is lost.
        match fs::read_to_string(&target) {
            Ok(now) if now == expected => fs::rename(&beside, &target).map_err(refused),
            _ => Err(ReplaceError::Changed),
        }
    });
    match done {
        // The rename is done; if the folder can't be synced, it only becomes durable later.
        Ok(()) => drop(target.parent().map(|folder| File::open(folder).and_then(|folder| folder.sync_all()))),
        // The file may not exist.
        Err(_) => drop(fs::remove_file(&beside)),
    }
    done
}

/// The mode of the new file. Where others than the owner and the group have rights, nobody has thought of secrets, and
/// the group is anybody's.
fn mode(old: &Metadata, secret: bool) -> u32 {
    let mode = old.mode() & 0o7777;
    if secret && mode & 0o007 != 0 { mode & 0o700 } else { mode }
}

/// The temporary file's name: hidden, and the same each time, so that a crash leaves at most one.
fn name_beside(target: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(target.file_name().unwrap_or_default());
    name.push(".new");
    target.with_file_name(name)
}

fn write(path: &Path, (like, mode): (&Metadata, u32), text: &str) -> io::Result<()> {
    // Left by a crash. It is removed, not opened: it may be a link.
    let _ = fs::remove_file(path);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let own = file.metadata()?;
    if (own.uid(), own.gid()) != (like.uid(), like.gid()) {
        fchown(&file, Some(like.uid()), Some(like.gid()))?;
    }
    file.set_permissions(Permissions::from_mode(mode))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let folder = std::env::temp_dir().join(format!("weir-replace-{}-{name}", std::process::id()));
            fs::create_dir_all(&folder).unwrap();
            Folder(folder)
        }

        fn file(&self, name: &str, mode: u32) -> PathBuf {
            let path = self.0.join(name);
            fs::write(&path, "old").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        }

        fn names(&self) -> usize {
            fs::read_dir(&self.0).unwrap().count()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_file_keeps_its_mode_and_a_link_still_leads_to_it() {
        let folder = Folder::new("mode");
        let file = folder.file("weir.toml", 0o640);
        let link = folder.0.join("link.toml");
        symlink("weir.toml", &link).unwrap();
        // A file left by a crash is no obstacle, and a link is not followed.
        let other = folder.file("other", 0o600);
        symlink(&other, folder.0.join(".weir.toml.new")).unwrap();
        replace(&link, "old", NewText { text: "new", secret: true }).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o640);
        assert_eq!(fs::read_to_string(&other).unwrap(), "old");
        assert_eq!(folder.names(), 3);
    }

    #[test]
    fn a_file_that_everybody_can_read_is_its_owners_once_it_has_secrets() {
        let folder = Folder::new("secret");
        for (before, secret, after) in [
            (0o644, true, 0o600),
            (0o666, true, 0o600),
            (0o640, true, 0o640),
            (0o600, true, 0o600),
            (0o644, false, 0o644),
        ] {
            let file = folder.file("weir.toml", before);
            replace(&file, "old", NewText { text: "new", secret }).unwrap();
            assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, after, "{before:o} {secret}");
        }
    }

    #[test]
    fn nothing_happens_to_a_file_that_is_not_as_expected_or_read_only() {
        let folder = Folder::new("refused");
        let file = folder.file("weir.toml", 0o644);
        assert_eq!(replace(&file, "older", NewText { text: "new", secret: false }), Err(ReplaceError::Changed));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
        let Err(ReplaceError::Refused(why)) = replace(&file, "old", NewText { text: "new", secret: false }) else {
            panic!("it is read-only")
        };
        assert!(why.ends_with("is read-only"), "{why}");
        assert!(matches!(
            replace(&folder.0.join("none"), "", NewText { text: "new", secret: false }),
            Err(ReplaceError::Refused(_))
        ));
        assert_eq!((fs::read_to_string(&file).unwrap().as_str(), folder.names()), ("old", 1));
    }
}
