//! Files that the configuration names, and whether they have changed: looked at once a second, by a thread of its own.
//!
//! A change is what stat(2) of the path shows, through symbolic links: so a file that is replaced by a rename, and a
//! folder that a link is switched away from (as Kubernetes does), are changes as well as a file that is written in
//! place. A reload follows when a file looked the same twice, so that a file is not read half-written. Each state is
//! tried once: one that is invalid stays without effect until the file changes again. Must not know what a reload does.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use weir_config::{Config, WatchFiles};
use weir_runtime::{Handle, Reread, Signal, StartError};

use crate::config_store::ConfigStore;

/// Between two looks.
const PAUSE: Duration = Duration::from_secs(1);

/// The state of a file: device, inode, size, and when it was written and changed, in nanoseconds; none, if it is
/// missing.
type Mark = Option<(u64, u64, u64, i128, i128)>;

/// The states of files, by their paths.
type Marks = BTreeMap<PathBuf, Mark>;

/// The thread; dropping it ends it.
pub struct Watcher {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    /// Starts the thread, if a file is to be watched.
    pub fn start(config: &Config, store: Arc<ConfigStore>, handle: Handle) -> Result<Option<Watcher>, StartError> {
        if config.process.watch_files == WatchFiles::Off {
            return Ok(None);
        }
        let ended = Arc::new(AtomicBool::new(false));
        let stop = ended.clone();
        let mut states = FileStates::new(look(&store));
        let watch = move || {
            while !stop.load(Ordering::Acquire) {
                thread::park_timeout(PAUSE);
                let Some(changed) = states.settle(look(&store)) else { continue };
                let own = changed.iter().any(|path| path == store.file());
                handle.signal(Signal::Reread(if own { Reread::All } else { Reread::Named }));
            }
        };
        let thread = thread::Builder::new().name("weir-watch".into()).spawn(watch);
        let thread = thread.map_err(|error| StartError::new(format!("can't start a thread: {error}")))?;
        Ok(Some(Watcher { ended, thread: Some(thread) }))
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The thread only looks at files; a panic there has been printed.
            let _ = thread.join();
        }
    }
}

/// FileStates at the files that the configuration in force names.
fn look(store: &ConfigStore) -> Marks {
    store.watched_files().into_iter().map(|path| (path.clone(), mark(&path))).collect()
}

fn mark(path: &PathBuf) -> Mark {
    let about = fs::metadata(path).ok()?;
    let nanos = |seconds: i64, nanos: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
    let (written, changed) = (nanos(about.mtime(), about.mtime_nsec()), nanos(about.ctime(), about.ctime_nsec()));
    Some((about.dev(), about.ino(), about.size(), written, changed))
}

/// What was seen, and what a reload has had.
struct FileStates {
    tried: Marks,
    last: Marks,
}

impl FileStates {
    fn new(first: Marks) -> FileStates {
        FileStates { tried: first.clone(), last: first }
    }

    /// Takes the next look; returns the files that have changed since the last reload, if all of them look as they did
    /// before. A file that is missing is not read: it may be about to be replaced. One that is named for the first time
    /// was read by the reload that named it.
    fn settle(&mut self, now: Marks) -> Option<Vec<PathBuf>> {
        let settled = now == self.last;
        self.last = now;
        if !settled {
            return None;
        }
        let changed = |(path, mark): &(&PathBuf, &Mark)| {
            mark.is_some() && self.tried.get(*path).is_some_and(|tried| tried != *mark)
        };
        let changed: Vec<PathBuf> = self.last.iter().filter(changed).map(|(path, _)| path.clone()).collect();
        self.tried.retain(|path, _| self.last.contains_key(path));
        for (path, mark) in self.last.iter().filter(|(_, mark)| mark.is_some()) {
            self.tried.insert(path.clone(), *mark);
        }
        (!changed.is_empty()).then_some(changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(files: &[(&str, u64)]) -> Marks {
        let mark = |size: u64| (size != 0).then_some((1, 1, size, 0, 0));
        files.iter().map(|(path, size)| (PathBuf::from(path), mark(*size))).collect()
    }

    #[test]
    fn a_change_is_reported_once_when_the_file_looks_the_same_twice() {
        let mut states = FileStates::new(marks(&[("a", 1), ("b", 1)]));
        assert_eq!(states.settle(marks(&[("a", 1), ("b", 1)])), None);
        assert_eq!(states.settle(marks(&[("a", 2), ("b", 1)])), None, "it may be half-written");
        assert_eq!(states.settle(marks(&[("a", 3), ("b", 1)])), None);
        assert_eq!(states.settle(marks(&[("a", 3), ("b", 1)])), Some(vec!["a".into()]));
        assert_eq!(states.settle(marks(&[("a", 3), ("b", 1)])), None, "an invalid file is tried once");
    }

    #[test]
    fn a_missing_file_waits_for_its_successor_and_a_new_name_is_no_change() {
        let mut states = FileStates::new(marks(&[("a", 1)]));
        assert_eq!((states.settle(marks(&[("a", 0)])), states.settle(marks(&[("a", 0)]))), (None, None));
        assert_eq!(states.settle(marks(&[("a", 2), ("c", 1)])), None);
        assert_eq!(states.settle(marks(&[("a", 2), ("c", 1)])), Some(vec!["a".into()]));
        assert_eq!(states.settle(marks(&[("c", 1)])), None);
        assert_eq!(states.settle(marks(&[("c", 2)])), None);
        assert_eq!(states.settle(marks(&[("c", 2)])), Some(vec!["c".into()]));
    }

    #[test]
    fn a_link_that_is_switched_changes_the_files_behind_it() {
        let folder = std::env::temp_dir().join(format!("weir-watch-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        for version in ["1", "2"] {
            fs::create_dir_all(folder.join(version)).unwrap();
            fs::write(folder.join(version).join("users.txt"), "same").unwrap();
        }
        let link = |version: &str| {
            std::os::unix::fs::symlink(version, folder.join("new")).unwrap();
            fs::rename(folder.join("new"), folder.join("..data")).unwrap();
        };
        link("1");
        let file = folder.join("..data/users.txt");
        let before = mark(&file);
        link("2");
        assert!(before.is_some() && mark(&file).is_some() && mark(&file) != before);
        fs::remove_dir_all(&folder).unwrap();
    }
}
