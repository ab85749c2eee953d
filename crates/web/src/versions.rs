//! The versions of the configuration: each change that workers adopted, with its author, what differs, and the file's
//! outline to return to.
//!
//! Owns their numbers and the list, in memory and in the folder of `[web] history`. Bounded in number and bytes. Holds
//! no secret: differences and outlines are made without any (`weir_config::changes`, `weir_config::outline`).

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::time::timeout;
use weir_admin::{Adopted, ConfigHistory};
use weir_config::KeyChange;
use weir_http::Reader;
use weir_monitor::{Journal, JournalBounds, lock};

/// The bounds of the list.
const BOUNDS: JournalBounds = JournalBounds { records: 500, bytes: 8 << 20 };
/// A longer outline, in bytes, is not kept: its version can only be read.
const LONGEST_OUTLINE: usize = 1 << 20;
/// Differences of a version that are kept, and the characters of each value.
const MOST_CHANGES: usize = 200;
const LONGEST_VALUE: usize = 200;
/// How long the record of an adopted change may take; a change of a whole cluster is recorded when its node adopts it.
const RECORD_TIMEOUT: Duration = Duration::from_secs(1);
/// Why a version has no outline.
const UNREADABLE: &str = "the file could not be read";
/// The file.
const FILE: &str = "config.versions";

/// One key with another value; see [`KeyChange`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Difference {
    pub(crate) object: String,
    pub(crate) key: String,
    pub(crate) old: Option<String>,
    pub(crate) new: Option<String>,
}

/// A version of the configuration.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Version {
    pub(crate) number: u64,
    /// Seconds since 1970.
    pub(crate) at: f64,
    pub(crate) user: Option<String>,
    pub(crate) from: String,
    /// `api`, `console`, `signal`, `watch` or `start`.
    pub(crate) via: String,
    /// `CHANGE`, `RELOAD`, `SET` or `START`.
    pub(crate) command: String,
    pub(crate) comment: Option<String>,
    pub(crate) changes: Vec<Difference>,
    /// How many more there were.
    pub(crate) more_changes: usize,
    /// The number of its request in the audit log; 0 without one.
    pub(crate) request: u64,
    /// The file to return to; or why there is none.
    pub(crate) outline: Result<String, String>,
}

/// The versions; cheap to clone.
#[derive(Clone)]
pub struct Versions(Arc<Inner>);

struct Inner {
    list: Journal<Version>,
    /// The last number, and the outline of the file as last seen.
    last: Mutex<Last>,
    /// Wakes those who wait for a version.
    recorded: Notify,
}

#[derive(Default)]
struct Last {
    number: u64,
    outline: Option<String>,
    /// The last request that changed nothing.
    without_difference: u64,
}

impl std::fmt::Debug for Versions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Versions").finish_non_exhaustive()
    }
}

impl Versions {
    /// The versions of earlier processes in a folder; without one, none, and they end with the process.
    pub fn open(folder: Option<&Path>) -> Versions {
        let list: Journal<Version> = Journal::open(folder, FILE, BOUNDS);
        let last = list.newest_first(|versions| {
            let mut last = Last::default();
            for version in versions {
                last.number = last.number.max(version.number);
                if let (None, Ok(outline)) = (&last.outline, &version.outline) {
                    last.outline = Some(outline.clone());
                }
            }
            last
        });
        Versions(Arc::new(Inner { list, last: Mutex::new(last), recorded: Notify::new() }))
    }

    /// Up to `most` versions that `wanted` accepts, the newest first.
    pub(crate) fn list(&self, most: usize, wanted: impl Fn(&Version) -> bool) -> Vec<Version> {
        self.0.list.newest_first(|versions| versions.filter(|version| wanted(version)).take(most).cloned().collect())
    }

    /// The version of this number.
    pub(crate) fn get(&self, number: u64) -> Option<Version> {
        self.list(1, |version| version.number == number).pop()
    }

    /// The versions that `list` returns, with the last number, both of one moment.
    pub(crate) fn page(&self, most: usize, wanted: impl Fn(&Version) -> bool) -> (Vec<Version>, u64) {
        let last = lock(&self.0.last);
        (self.list(most, wanted), last.number)
    }

    /// The number of the version that the request of this number has made, which is recorded while the workers adopt
    /// it; if it has made none, the last one.
    pub(crate) async fn made_by(&self, request: u64) -> u64 {
        let made = async {
            loop {
                let recorded = self.0.recorded.notified();
                if let Some(number) = self.find_made_by(request) {
                    return number;
                }
                recorded.await;
            }
        };
        timeout(RECORD_TIMEOUT, made).await.unwrap_or_else(|_| self.latest())
    }

    fn find_made_by(&self, request: u64) -> Option<u64> {
        let last = lock(&self.0.last);
        if request == 0 || last.without_difference == request {
            return Some(last.number);
        }
        self.list(1, |version| version.request == request).first().map(|version| version.number)
    }

    /// Why the versions will not survive a restart; none if they will.
    pub(crate) fn why_not_persisted(&self) -> Option<String> {
        self.0.list.why_not_persisted()
    }

    /// The error of the disk, if the last version could not be written, after another try.
    pub(crate) fn retry(&self) -> Option<String> {
        self.0.list.retry()
    }

    fn add(&self, mut version: Version) -> Option<String> {
        {
            let mut last = lock(&self.0.last);
            last.number += 1;
            version.number = last.number;
            if let Ok(outline) = &version.outline {
                last.outline = Some(outline.clone());
            }
            if version.outline.as_ref().is_ok_and(|outline| outline.len() > LONGEST_OUTLINE) {
                version.outline = Err("the file is too long to be kept".to_owned());
            }
            // Under the same lock: a reader of the last number finds its version in the list.
            self.0.list.push(version);
        }
        self.0.recorded.notify_waiters();
        self.0.list.write_out()
    }
}

impl ConfigHistory for Versions {
    fn started(&self, outline: Result<String, String>) {
        let before = lock(&self.0.last).outline.clone();
        let same = outline.as_ref().ok() == before.as_ref() && before.is_some();
        if same {
            return;
        }
        let differences = match (&before, &outline) {
            (Some(before), Ok(now)) => weir_config::outline_changes(before, now).unwrap_or_default(),
            _ => Vec::new(),
        };
        let version = Version {
            user: None,
            from: String::new(),
            via: "start".to_owned(),
            command: "START".to_owned(),
            comment: None,
            request: 0,
            ..Version::of(differences, outline)
        };
        self.add(version);
    }

    fn adopted(&self, adopted: &Adopted, outline: Result<String, String>) -> Option<String> {
        let before = lock(&self.0.last).outline.clone();
        let mut differences = weir_config::changes(&adopted.before, &adopted.after);
        // A setting that needs a restart differs in the file only.
        if let (Some(before), Ok(now)) = (&before, &outline) {
            let known = |all: &[KeyChange], one: &KeyChange| {
                all.iter().any(|it| (&it.object, &it.key) == (&one.object, &one.key))
            };
            let in_file = weir_config::outline_changes(before, now).unwrap_or_default();
            let others: Vec<_> = in_file.into_iter().filter(|one| !known(&differences, one)).collect();
            differences.extend(others);
        }
        let author = &adopted.author;
        if differences.is_empty() {
            lock(&self.0.last).without_difference = author.request;
            self.0.recorded.notify_waiters();
            return None;
        }
        self.add(Version {
            user: author.user.clone(),
            from: author.from.clone(),
            via: author.via.name().to_owned(),
            command: adopted.command.to_owned(),
            comment: author.comment.clone(),
            request: author.request,
            ..Version::of(differences, outline)
        })
    }

    /// Its version is in the list.
    fn latest(&self) -> u64 {
        lock(&self.0.last).number
    }
}

impl Version {
    fn of(mut differences: Vec<KeyChange>, outline: Result<String, String>) -> Version {
        let more_changes = differences.len().saturating_sub(MOST_CHANGES);
        differences.truncate(MOST_CHANGES);
        Version {
            number: 0,
            at: weir_monitor::now().as_secs_f64(),
            user: None,
            from: String::new(),
            via: String::new(),
            command: String::new(),
            comment: None,
            changes: differences.into_iter().map(Difference::from).collect(),
            more_changes,
            request: 0,
            outline,
        }
    }
}

impl Version {
    /// The version as this reader may see it.
    pub(crate) fn shown_to(mut self, reader: Reader) -> Version {
        if !reader.sees_queries() {
            self.changes.iter_mut().for_each(Difference::hide_query);
            let hidden = |outline: String| weir_config::hide_queries(&outline).ok_or_else(|| UNREADABLE.to_owned());
            self.outline = self.outline.and_then(hidden);
        }
        self
    }
}

impl Difference {
    /// Hides the values of a query: that they differ can still be seen.
    pub(crate) fn hide_query(&mut self) {
        if weir_config::is_query(&self.key) {
            for value in [&mut self.old, &mut self.new].into_iter().flatten() {
                weir_config::HIDDEN_QUERY.clone_into(value);
            }
        }
    }
}

impl From<KeyChange> for Difference {
    fn from(KeyChange { object, key, old, new }: KeyChange) -> Difference {
        let short = |value: Option<String>| value.map(|text| text.chars().take(LONGEST_VALUE).collect());
        Difference { object, key, old: short(old), new: short(new) }
    }
}

#[cfg(test)]
mod tests {
    use weir_admin::Author;
    use weir_config::Config;

    use super::*;

    fn size(size: u32) -> Arc<Config> {
        let text = format!(
            "[auth]\ntype = \"trust\"\n[pools.app]\nhost = \"db\"\nsize = {size}\npassword = \"x{size}\"\nuser = \"u\"\n"
        );
        Arc::new(weir_config::load(Path::new("weir.toml"), &|_| Ok(text.clone()), &|_| None).expect("it is valid"))
    }

    fn adopted(before: u32, after: u32) -> Adopted {
        Adopted { author: Author::signal(), command: "RELOAD", before: size(before), after: size(after) }
    }

    #[test]
    fn a_version_names_its_object_both_values_and_no_secret() {
        let versions = Versions::open(None);
        versions.started(Ok("[pools.app]\nsize = 5\n".to_owned()));
        versions.adopted(&adopted(5, 6), Ok("[pools.app]\nsize = 6\n".to_owned()));
        let list = versions.list(9, |_| true);
        assert_eq!(list.iter().map(|version| version.number).collect::<Vec<_>>(), [2, 1]);
        let text = serde_json::to_string(&list[0].changes).expect("JSON");
        assert!(text.contains(r#"{"object":"pool app","key":"size","old":"5","new":"6"}"#), "{text}");
        assert!(text.contains(r#""key":"password","old":"(secret)","new":"(another secret)""#), "{text}");
        assert!(!text.contains("x5") && !text.contains("x6"));
        // Nothing differs: no version.
        assert_eq!(versions.adopted(&adopted(6, 6), Ok("[pools.app]\nsize = 6\n".to_owned())), None);
        assert_eq!(versions.latest(), 2);
    }

    #[test]
    fn the_last_number_is_in_the_list_at_any_moment() {
        let versions = Versions::open(None);
        let writer = versions.clone();
        let writes = std::thread::spawn(move || {
            for size in 1..200 {
                writer.adopted(&adopted(size, size + 1), Ok(String::new()));
            }
        });
        while !writes.is_finished() {
            let (list, latest) = versions.page(1, |_| true);
            assert_eq!(list.first().map_or(0, |version| version.number), latest);
            let latest = versions.latest();
            assert!(latest == 0 || versions.get(latest).is_some());
        }
        writes.join().expect("it ends");
    }

    #[test]
    fn numbers_go_on_after_a_restart_and_a_file_that_was_edited_meanwhile_is_a_version() {
        let folder = std::env::temp_dir().join(format!("weir-versions-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let outline = |size: u32| Ok(format!("[pools.app]\nsize = {size}\n"));
        Versions::open(Some(&folder)).started(outline(1));
        Versions::open(Some(&folder)).started(outline(1));
        let versions = Versions::open(Some(&folder));
        assert_eq!(versions.latest(), 1, "the same file is the same version");
        versions.started(outline(2));
        let edited = Versions::open(Some(&folder)).get(2).expect("it is there");
        assert_eq!((edited.via.as_str(), edited.changes[0].new.as_deref()), ("start", Some("2")));
        assert_eq!(versions.why_not_persisted(), None);
        std::fs::remove_dir_all(&folder).expect("it goes");
    }
}
