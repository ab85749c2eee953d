//! What stat(2) shows of files: a file whose mark is another one has changed, or another one has its path.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The state of a file: device, inode, size, and when it was written and changed, in nanoseconds; none, if it is
/// missing.
pub(crate) type Mark = Option<(u64, u64, u64, i128, i128)>;

/// The states of files, by their paths.
pub(crate) type Marks = BTreeMap<PathBuf, Mark>;

/// Looks at these files, through symbolic links.
pub(crate) fn look(files: BTreeSet<PathBuf>) -> Marks {
    files.into_iter().map(|path| (path.clone(), mark(&path))).collect()
}

/// Looks at one file.
pub(crate) fn mark(path: &Path) -> Mark {
    let about = fs::metadata(path).ok()?;
    let nanos = |seconds: i64, nanos: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
    let (written, changed) = (nanos(about.mtime(), about.mtime_nsec()), nanos(about.ctime(), about.ctime_nsec()));
    Some((about.dev(), about.ino(), about.size(), written, changed))
}
