//! The configuration that the nodes of a cluster share: one value in etcd, the last good one on disk, and which runs
//! here.
//!
//! Owns the adoption's state, the form of the value, and the file beside the floors. Must not know etcd's protocol, nor
//! how a configuration is read: the configuration store tries a revision, and the cluster's thread reports what etcd
//! has.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use serde_json::{Value as Json, json};
use weir_cluster::{Adoption, Outcome, Revision};

use crate::error::StoreError;
use crate::shared_secrets::SharedSecrets;

/// The longest text, in bytes: etcd takes requests up to 1.5 MiB, and the value is in base64 in it.
const LONGEST: usize = 1 << 20;

/// The keys of a text in a value: of one in force, and of the last one.
const TEXT: &str = "text";
const FORMER: &str = "former";

/// What etcd has: the text, and who wrote it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SharedSettings {
    /// The shared part of a weir.toml; its secrets are encrypted. If it is ended: the last one.
    pub text: String,
    /// The shared configuration was ended: each node has its own file's.
    pub ended: bool,
    /// The author's reason.
    pub comment: Option<String>,
    /// Who wrote it: a user of the operating system.
    pub user: Option<String>,
    /// Where: the node's name.
    pub node: String,
    /// When, in seconds since 1970 by the writer's clock.
    pub at: u64,
}

/// A revision with its settings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Revised {
    /// Etcd's revision of the last change.
    pub revision: Revision,
    /// The value.
    pub settings: SharedSettings,
}

/// Where the value is: etcd.
pub trait SettingsSource: Send {
    /// The value with the revision of its last change; `None`: there is none yet.
    fn read(&mut self) -> Result<Option<(Revision, String)>, StoreError>;
    /// Replaces the value if it still has this revision, 0 for none; returns the new revision, or `None` if it has
    /// another.
    fn replace(&mut self, over: Revision, value: &str) -> Result<Option<Revision>, StoreError>;
}

impl SharedSettings {
    /// Settings that are written now.
    pub fn new(text: String, node: &str) -> SharedSettings {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let at = now.map_or(0, |now| now.as_secs());
        SharedSettings { text, ended: false, comment: None, user: None, node: node.to_owned(), at }
    }

    /// The value in etcd.
    pub(crate) fn encode(&self) -> String {
        let SharedSettings { text, ended, comment, user, node, at } = self;
        // Without a text, as a version that does not know an end must not adopt it.
        let key = if *ended { FORMER } else { TEXT };
        json!({ key: text, "comment": comment, "user": user, "node": node, "at": at }).to_string()
    }

    /// Reads a value; unknown fields are ignored.
    pub fn decode(value: &str) -> Result<SharedSettings, StoreError> {
        let json: Json = serde_json::from_str(value).map_err(|error| StoreError::Value(error.to_string()))?;
        let text = |key: &str| json[key].as_str().map(str::to_owned);
        let ended = text(TEXT).is_none();
        Ok(SharedSettings {
            text: text(TEXT).or_else(|| text(FORMER)).ok_or(StoreError::NoText)?,
            ended,
            comment: text("comment"),
            user: text("user"),
            node: text("node").unwrap_or_default(),
            at: json["at"].as_u64().unwrap_or_default(),
        })
    }
}

/// What a node publishes about its configuration.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AdoptionStatus {
    /// The revision in force; 0: the node's own file only.
    pub revision: Revision,
    /// A newer revision that was refused, and why.
    pub refused: Option<(Revision, String)>,
    /// No newer revision is known.
    pub is_newest: bool,
    /// The revision in force is the end of the shared configuration: the node has its own file's.
    pub ended: bool,
}

/// See the head of the file.
pub struct SharedConfig {
    source: Mutex<Box<dyn SettingsSource>>,
    node: String,
    file: Option<PathBuf>,
    secrets: SharedSecrets,
    state: Mutex<State>,
}

struct State {
    adoption: Adoption,
    /// The revision in force is an end.
    ended: bool,
    /// The revision that the next reload tries.
    candidate: Option<Revised>,
    /// The last revision that was refused: a RELOAD tries it again.
    refused: Option<Revised>,
}

impl State {
    /// This revision is in force when the process starts.
    fn begin(&mut self, revised: &Revised) {
        self.adoption = Adoption::new(revised.revision);
        self.ended = revised.settings.ended;
    }
}

impl SharedConfig {
    /// `floors`: the file of the node's floors; the last good settings are in a file beside it.
    pub fn new(
        source: Box<dyn SettingsSource>,
        node: &str,
        floors: Option<&Path>,
        secrets: SharedSecrets,
    ) -> SharedConfig {
        let state = State { adoption: Adoption::default(), ended: false, candidate: None, refused: None };
        let file = floors.map(|floors| appended(floors, ".settings"));
        SharedConfig { source: Mutex::new(source), node: node.to_owned(), file, secrets, state: Mutex::new(state) }
    }

    /// Chooses what to start with: etcd's settings if they fit, or else those on disk. Returns what `fits` returned for
    /// them, and warnings.
    pub(crate) fn start<T>(
        &self,
        fits: impl Fn(&SharedSettings) -> Result<T, StoreError>,
    ) -> (Option<(Revised, T)>, Vec<String>) {
        let mut warnings = Vec::new();
        match lock(&self.source).read() {
            Ok(Some((revision, value))) => match SharedSettings::decode(&value).and_then(|settings| {
                let fit = fits(&settings)?;
                Ok((Revised { revision, settings }, fit))
            }) {
                Ok((revised, fit)) => {
                    warnings.extend(self.keep(&revised));
                    self.state().begin(&revised);
                    return (Some((revised, fit)), warnings);
                }
                Err(why) => {
                    warnings.push(format!("cluster: revision {revision} of the configuration can't be used: {why}"));
                    let stored = self.stored_or_warn(&fits, &mut warnings);
                    let mut state = self.state();
                    if let Some((revised, _)) = &stored {
                        state.begin(revised);
                    }
                    state.adoption.seen(revision, value.clone());
                    let _ = state.adoption.next_trial();
                    state.adoption.tried(Outcome::Refused(why.to_string()));
                    state.refused = SharedSettings::decode(&value).ok().map(|settings| Revised { revision, settings });
                    return (stored, warnings);
                }
            },
            Ok(None) => {}
            Err(why) => warnings.push(format!("cluster: {why}")),
        }
        let stored = self.stored_or_warn(&fits, &mut warnings);
        if let Some((revised, _)) = &stored {
            self.state().begin(revised);
            warnings.push(format!("cluster: revision {} of the configuration is used, from disk", revised.revision));
        }
        (stored, warnings)
    }

    fn stored_or_warn<T>(
        &self,
        fits: impl Fn(&SharedSettings) -> Result<T, StoreError>,
        warnings: &mut Vec<String>,
    ) -> Option<(Revised, T)> {
        let stored = self.stored().transpose()?;
        let fit = stored.and_then(|stored| fits(&stored.settings).map(|fit| (stored, fit)));
        fit.map_err(|why| warnings.push(format!("cluster: the configuration on disk can't be used: {why}"))).ok()
    }

    /// How secrets are encrypted.
    pub(crate) fn secrets(&self) -> &SharedSecrets {
        &self.secrets
    }

    /// The name of this node.
    pub(crate) fn node(&self) -> &str {
        &self.node
    }

    /// Etcd's store has this revision, and the value this one, if it was read.
    pub(crate) fn seen(&self, store: Revision, value: Option<(Revision, String)>) {
        let mut state = self.state();
        state.adoption.store_is_at(store);
        if let Some((revision, value)) = value {
            state.adoption.seen(revision, value);
        }
    }

    /// The next revision to try, for the next reload; one at a time.
    pub(crate) fn next_trial(&self) -> Option<Revised> {
        let mut state = self.state();
        let (revision, value) = state.adoption.next_trial()?;
        match SharedSettings::decode(value) {
            Ok(settings) => {
                state.candidate = Some(Revised { revision, settings });
                state.candidate.clone()
            }
            Err(why) => {
                state.adoption.tried(Outcome::Refused(why.to_string()));
                None
            }
        }
    }

    /// What a reload is to try before what is in force: the revision on trial. `refused`: or the one that was refused
    /// last.
    pub(crate) fn candidate(&self, refused: bool) -> Option<Revised> {
        let state = self.state();
        state.candidate.clone().or_else(|| state.refused.clone().filter(|_| refused))
    }

    /// Whether this revision is on trial by the cluster's thread.
    pub(crate) fn is_on_trial(&self, revision: Revision) -> bool {
        self.state().candidate.as_ref().is_some_and(|candidate| candidate.revision == revision)
    }

    /// The revision on trial is in force. Returns a warning about the disk.
    pub(crate) fn adopted(&self) -> Option<String> {
        let mut state = self.state();
        let candidate = state.candidate.take()?;
        state.adoption.tried(Outcome::Adopted);
        state.ended = candidate.settings.ended;
        state.refused = None;
        drop(state);
        self.keep(&candidate)
    }

    /// The revision on trial does not fit here.
    pub(crate) fn refused(&self, why: &str) {
        let mut state = self.state();
        state.refused = state.candidate.take();
        state.adoption.tried(Outcome::Refused(why.to_owned()));
    }

    /// This revision is in force without a trial: this node has written it, or a RELOAD has tried it again. Returns a
    /// warning about the disk.
    pub(crate) fn in_force(&self, revised: &Revised) -> Option<String> {
        let mut state = self.state();
        state.adoption.written(revised.revision);
        state.ended = revised.settings.ended;
        state.refused = None;
        drop(state);
        self.keep(revised)
    }

    /// Writes new settings over those of a revision; `None`: etcd has another revision.
    pub(crate) fn publish(&self, over: Revision, settings: &SharedSettings) -> Result<Option<Revision>, StoreError> {
        write_settings(lock(&self.source).as_mut(), over, settings)
    }

    /// What others may know.
    pub(crate) fn status(&self) -> AdoptionStatus {
        let state = self.state();
        let adoption = &state.adoption;
        AdoptionStatus {
            revision: adoption.running(),
            refused: adoption.refused().map(|(revision, why)| (revision, why.to_owned())),
            is_newest: adoption.is_newest(),
            ended: state.ended,
        }
    }

    fn stored(&self) -> Result<Option<Revised>, StoreError> {
        let Some(file) = &self.file else { return Ok(None) };
        let text = match crate::load::read(file) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(StoreError::file(file, error)),
        };
        let json: Json = serde_json::from_str(&text).map_err(|error| StoreError::file(file, error))?;
        let settings = SharedSettings::decode(json["value"].as_str().unwrap_or_default())?;
        Ok(Some(Revised { revision: json["revision"].as_i64().unwrap_or_default(), settings }))
    }

    /// Keeps settings on disk; returns a warning if that failed.
    fn keep(&self, revised: &Revised) -> Option<String> {
        let file = self.file.as_deref()?;
        let text = json!({ "revision": revised.revision, "value": revised.settings.encode() }).to_string();
        let kept = replace_file(file, &text);
        kept.err().map(|error| format!("cluster: the configuration can't be kept in {}: {error}", file.display()))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// Writes settings over those of a revision, and finds out whether a write without a reply was made.
pub fn write_settings(
    source: &mut dyn SettingsSource,
    over: Revision,
    settings: &SharedSettings,
) -> Result<Option<Revision>, StoreError> {
    if settings.text.len() > LONGEST {
        return Err(StoreError::TooLong(settings.text.len(), LONGEST));
    }
    let value = settings.encode();
    source.replace(over, &value).or_else(|error| match source.read() {
        Ok(Some((revision, found))) if found == value && revision > over => Ok(Some(revision)),
        _ => Err(error),
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn appended(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

fn replace_file(file: &Path, text: &str) -> io::Result<()> {
    let beside = appended(file, ".new");
    let mut to = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    to.write_all(text.as_bytes())?;
    to.sync_all()?;
    fs::rename(&beside, file)
}

#[cfg(test)]
#[path = "shared_config_tests.rs"]
mod tests;
