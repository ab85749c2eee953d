//! A bounded list of records, in memory and, with a folder, in a file of one JSON line each: the oldest go first. Of a list
//! that is [shared](Journal::open_shared), those with most records lose their oldest one; of several with as many, those of
//! the larger owner.
//!
//! Adding a record never touches the disk; [`write_out`](Journal::write_out) does, on a thread that may block. A line
//! that can't be read is left out, and the file as it was is kept beside it. While the disk refuses a line, the list
//! continues in memory, [`retry`](Journal::retry) tries again, and the next success writes all of it. A file is
//! replaced as a whole when half of it is out of date.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::lock::lock;

/// The bounds of a list.
#[derive(Clone, Copy)]
pub struct JournalBounds {
    /// Records.
    pub records: usize,
    /// Bytes of their lines.
    pub bytes: usize,
}

/// A list of records.
pub struct Journal<T> {
    bounds: JournalBounds,
    /// Whether there is a folder.
    kept: bool,
    list: Mutex<List<T>>,
    file: Mutex<Option<JournalFile>>,
}

/// To whom a record belongs, of a list that several share: the larger owner, and the one within it.
type Share<T> = fn(&T) -> (&str, &str);

struct List<T> {
    share: Option<Share<T>>,
    /// Each with the length of its line.
    records: VecDeque<(T, usize)>,
    bytes: usize,
    /// Lines that are not in the file yet.
    unwritten: Vec<u8>,
    /// Why the last line is not in the file.
    error: Option<String>,
}

struct JournalFile {
    path: PathBuf,
    /// Bytes that the file has.
    length: usize,
    /// This process has written all of it. A file of an earlier one, or one that a write has failed on, is replaced.
    is_ours: bool,
    /// The last write has failed.
    failed: bool,
}

impl<T: Serialize + DeserializeOwned + Clone> Journal<T> {
    /// The list of an earlier process, in a file of this name; without a folder an empty one that ends with the
    /// process.
    pub fn open(folder: Option<&Path>, name: &str, bounds: JournalBounds) -> Journal<T> {
        Journal::open_with(folder, name, bounds, None)
    }

    /// The same, for a list that several share: `share` says to whom a record belongs.
    pub(crate) fn open_shared(folder: Option<&Path>, name: &str, bounds: JournalBounds, share: Share<T>) -> Journal<T> {
        Journal::open_with(folder, name, bounds, Some(share))
    }

    fn open_with(folder: Option<&Path>, name: &str, bounds: JournalBounds, share: Option<Share<T>>) -> Journal<T> {
        let list = List { share, records: VecDeque::new(), bytes: 0, unwritten: Vec::new(), error: None };
        let journal = Journal { bounds, kept: folder.is_some(), list: Mutex::new(list), file: Mutex::new(None) };
        if let Some(folder) = folder {
            let path = folder.join(name);
            let read = journal.read(&path);
            lock(&journal.list).error = read.err().map(|error| format!("{}: {error}", path.display()));
            *lock(&journal.file) = Some(JournalFile { path, length: 0, is_ours: false, failed: false });
        }
        journal
    }

    /// Adds a record; returns whether something is to be written out.
    pub fn push(&self, record: T) -> bool {
        let Ok(mut line) = serde_json::to_vec(&record) else { return false };
        line.push(b'\n');
        let mut list = lock(&self.list);
        list.push(record, line.len(), self.bounds);
        if self.kept && list.unwritten.len() + line.len() <= self.bounds.bytes {
            list.unwritten.extend(line);
        }
        self.kept
    }

    /// Writes what is not in the file yet. Blocks on the disk. Returns the error when there was none before.
    pub fn write_out(&self) -> Option<String> {
        let mut file = lock(&self.file);
        let file = file.as_mut()?;
        let unwritten = std::mem::take(&mut lock(&self.list).unwritten);
        if unwritten.is_empty() && !file.failed {
            return None;
        }
        let written = if file.is_ours && file.length + unwritten.len() <= 2 * self.bounds.bytes {
            file.append(&unwritten)
        } else {
            self.replace(file)
        };
        let mut list = lock(&self.list);
        let before = list.error.take();
        list.error = written.err().map(|error| format!("{}: {error}", file.path.display()));
        (file.is_ours, file.failed) = (list.error.is_none(), list.error.is_some());
        list.error.clone().filter(|_| before.is_none())
    }

    /// Why the last line is not in the file, after another try if a write has failed; none without a folder. Blocks on
    /// the disk only then.
    pub fn retry(&self) -> Option<String> {
        lock(&self.list).error.as_ref()?;
        self.write_out();
        lock(&self.list).error.clone()
    }

    /// Why the list will not survive a restart; none if it will.
    pub fn why_not_persisted(&self) -> Option<String> {
        if !self.kept {
            return Some("[web] history names no folder".to_owned());
        }
        lock(&self.list).error.clone()
    }

    /// Calls `make` with the records, the newest first.
    pub fn newest_first<R>(&self, make: impl FnOnce(&mut dyn Iterator<Item = &T>) -> R) -> R {
        make(&mut lock(&self.list).records.iter().rev().map(|(record, _)| record))
    }

    /// The newest record of each number, the newest first: of the records of one number the last one counts.
    pub(crate) fn newest_of_each(&self, number: impl Fn(&T) -> u64) -> Vec<T> {
        let mut seen = BTreeSet::new();
        self.newest_first(|all| all.filter(|record| seen.insert(number(record))).cloned().collect())
    }

    /// Reads a file. No file is an empty one.
    fn read(&self, path: &Path) -> io::Result<()> {
        let mut bytes = Vec::new();
        match File::open(path) {
            // Never more than a process writes.
            Ok(file) => file.take(4 * self.bounds.bytes as u64).read_to_end(&mut bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut list = lock(&self.list);
        let mut damaged = !bytes.is_empty() && !bytes.ends_with(b"\n");
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match serde_json::from_slice(line) {
                Ok(record) => list.push(record, line.len() + 1, self.bounds),
                Err(_) => damaged = true,
            }
        }
        if damaged {
            fs::copy(path, with_end(path, ".damaged"))?;
        }
        Ok(())
    }

    /// Writes a file beside it, and renames that: a reader finds the old one or the new one.
    fn replace(&self, file: &mut JournalFile) -> io::Result<()> {
        let mut text = Vec::new();
        {
            let mut list = lock(&self.list);
            for (record, _) in &list.records {
                serde_json::to_writer(&mut text, record)?;
                text.push(b'\n');
            }
            list.unwritten.clear();
        }
        let beside = with_end(&file.path, ".new");
        let _ = fs::remove_file(&beside);
        if let Some(folder) = file.path.parent() {
            fs::create_dir_all(folder)?;
        }
        let written = create(&beside).and_then(|mut new| new.write_all(&text).and_then(|()| new.sync_data()));
        let written = written.and_then(|()| fs::rename(&beside, &file.path));
        if written.is_err() {
            let _ = fs::remove_file(&beside);
        }
        file.length = text.len();
        written
    }
}

impl<T> List<T> {
    fn push(&mut self, record: T, length: usize, bounds: JournalBounds) {
        self.records.push_back((record, length));
        self.bytes += length;
        while self.records.len() > bounds.records || self.bytes > bounds.bytes {
            let Some((_, gone)) = self.records.remove(self.next_to_go()) else { return };
            self.bytes -= gone;
        }
    }

    /// The place of the oldest record, of a list that several share of those with most.
    fn next_to_go(&self) -> usize {
        let Some(share) = self.share else { return 0 };
        let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        self.records.iter().for_each(|(record, _)| *counts.entry(share(record)).or_default() += 1);
        let mut all: BTreeMap<&str, usize> = BTreeMap::new();
        counts.iter().for_each(|((larger, _), count)| *all.entry(larger).or_default() += count);
        let size = |of: (&str, &str)| (counts.get(&of).copied(), all.get(of.0).copied());
        let most = counts.keys().map(|of| size(*of)).max();
        self.records.iter().position(|(record, _)| Some(size(share(record))) == most).unwrap_or(0)
    }
}

impl JournalFile {
    fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let mut file = OpenOptions::new().append(true).open(&self.path)?;
        file.write_all(lines)?;
        self.length += lines.len();
        Ok(())
    }
}

/// A file that only its owner can read.
fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: JournalBounds = JournalBounds { records: 5, bytes: 60 };

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let folder = std::env::temp_dir().join(format!("weir-journal-{}-{name}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir_all(&folder).expect("a folder");
            Folder(folder)
        }

        fn open(&self) -> Journal<String> {
            Journal::open(Some(&self.0), "list", BOUNDS)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn all(journal: &Journal<String>) -> Vec<String> {
        journal.newest_first(|records| records.cloned().collect())
    }

    fn put(journal: &Journal<String>, text: &str) -> Option<String> {
        assert!(journal.push(text.to_owned()));
        journal.write_out()
    }

    #[test]
    fn records_outlast_the_process_and_are_bounded_in_number_and_bytes() {
        let folder = Folder::new("bounds");
        let journal = folder.open();
        (0..40).for_each(|i| assert_eq!(put(&journal, &format!("r{i}")), None));
        let five = ["r39", "r38", "r37", "r36", "r35"];
        assert_eq!((all(&journal), journal.why_not_persisted()), (five.map(String::from).to_vec(), None));
        assert!(fs::metadata(folder.0.join("list")).expect("a file").len() <= 120);
        let journal = folder.open();
        assert_eq!(all(&journal), five);
        put(&journal, &"x".repeat(55));
        assert_eq!(all(&journal).len(), 1, "the bytes are full");
        assert_eq!(all(&folder.open()), [["x"; 55].concat()]);
    }

    #[test]
    fn a_damaged_file_costs_its_damaged_lines_only_and_is_kept_as_it_was() {
        let folder = Folder::new("damage");
        let text = b"\"one\"\n\xff\xfe{\n\"two\"\n\"thr";
        fs::write(folder.0.join("list"), text).expect("it is written");
        let journal = folder.open();
        assert_eq!(all(&journal), ["two", "one"]);
        put(&journal, "three");
        assert_eq!(all(&folder.open()), ["three", "two", "one"]);
        assert_eq!(fs::read(folder.0.join("list.damaged")).expect("it is kept"), text);
    }

    #[test]
    fn while_the_disk_refuses_the_list_goes_on_in_memory_and_is_written_later() {
        let folder = Folder::new("full");
        let journal = folder.open();
        put(&journal, "a");
        // A folder in the file's place refuses everybody, root too.
        fs::remove_file(folder.0.join("list")).expect("it was there");
        fs::create_dir(folder.0.join("list")).expect("a folder");
        assert!(put(&journal, "b").is_some_and(|error| error.contains("list")));
        assert_eq!(put(&journal, "c"), None, "it is reported once");
        assert!(journal.why_not_persisted().is_some() && all(&journal).len() == 3);
        assert!(journal.retry().is_some());
        fs::remove_dir(folder.0.join("list")).expect("it is empty");
        assert_eq!((journal.retry(), all(&folder.open()).len()), (None, 3), "without another record");
        assert_eq!((put(&journal, "d"), journal.why_not_persisted()), (None, None));
        assert_eq!(all(&folder.open()), ["d", "c", "b", "a"]);
    }

    #[test]
    fn of_a_shared_list_those_with_most_records_lose_their_oldest_and_it_stays_so_on_disk() {
        let folder = Folder::new("share");
        let open =
            || Journal::open_shared(Some(&folder.0), "list", BOUNDS, |record: &String| (record.split_at(1).0, ""));
        let journal = open();
        for record in ["a1", "b1", "c1", "c2", "b2", "c3", "c4", "c5"] {
            put(&journal, record);
        }
        assert_eq!(all(&journal), ["c5", "c4", "b2", "b1", "a1"]);
        assert_eq!(all(&open()), all(&journal));
    }

    #[test]
    fn where_all_have_as_many_records_the_larger_owner_loses_one() {
        let journal =
            Journal::open_shared(None, "list", BOUNDS, |record: &String| (record.split_at(1).0, record.as_str()));
        for record in ["a1", "b1", "b2", "b3", "b4", "b5", "b6"] {
            journal.push(record.to_owned());
        }
        assert_eq!(all(&journal), ["b6", "b5", "b4", "b3", "a1"]);
    }

    #[test]
    fn without_a_folder_nothing_is_written() {
        let journal = Journal::open(None, "list", BOUNDS);
        assert!(!journal.push("a".to_owned()) && journal.write_out().is_none());
        assert!(journal.why_not_persisted().is_some_and(|why| why.contains("[web] history")));
    }
}
