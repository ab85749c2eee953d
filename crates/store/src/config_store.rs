//! The configuration of a running process: its file, and the changes of the control plane.
//!
//! Owns the order of a change: read the file again and compare it with the text in force, make the change on its text,
//! check the whole as at the start, check that no stored secret goes to a new host, and only then write. A change that
//! can't be written is kept here and applied over the file at each reload. Reads and changes go one at a time. Must not
//! know how the result reaches the workers.
//!
//! On a node of a cluster with a shared configuration, the text in force is the file's own part with the shared one
//! (`shared`); changes of the shared part go to etcd.

mod shared;
mod state;
mod user_list;

pub use state::ConfigStore;

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use weir_admin::{
    Adopted, Author, CertificateExpiry, ChangeError, ChangePreview, ChangeRequest, ConfigAccess, ConfigHistory,
    Persisted, PlannedPool,
};
use weir_config::{
    Accounts, Config, ConfigErrors, Edit, Edits, EntryKind, FileFormat, Keys, Operation, Restore, Severity, rewrite,
};
use weir_runtime::{Fit, Reread};

use crate::error::StoreError;
use crate::file_marks::{self, Marks};
use crate::load::{self, NodeTexts};
use crate::readable_secrets;
use crate::replace::{NewText, ReplaceError, replace};
use crate::shared_config::SharedConfig;
use state::{Current, Plan, SharedTexts, Written, nowhere, other_shape, restored_text};
use user_list::UserList;

/// Why a change of an ini stays in memory.
const INI: &str = "a pgbouncer.ini is not written to; \"weir convert\" makes a weir.toml of it";

impl ConfigStore {
    /// Reads the file, and the shared configuration of its cluster, which `connect` reaches. The configuration is
    /// without the command line.
    pub fn open(
        file: &Path,
        adjust: impl Fn(&mut Config) + Send + Sync + 'static,
        connect: impl FnOnce(&Config) -> Result<Option<SharedConfig>, StoreError>,
    ) -> Result<(ConfigStore, Config), ConfigErrors> {
        // A file that changes while it is read has another mark than this one.
        let first_marks = file_marks::look(load::load(file)?.watched_files());
        let (text, mut config) = load::load_text(file)?;
        let (mut running, mut in_force, mut warnings) = (None, text.clone(), Vec::new());
        let shared = connect(&config).unwrap_or_else(|why| {
            // The node's thread reports it as an error of the start.
            warnings.push(why.to_string());
            None
        });
        if let Some(shared) = &shared {
            let (started, more) = shared.start(|settings| {
                let edits = Edits::default();
                match settings.ended {
                    true => load::load_own(file, &text, &edits),
                    false => load::load_merged(
                        file,
                        NodeTexts { own: &text, shared: &shared.secrets().open(&settings.text)? },
                        &edits,
                    ),
                }
            });
            warnings.extend(more);
            if let Some((revised, (merged, loaded))) = started {
                (running, in_force, config) = (Some(revised), merged, loaded);
            }
        }
        config.warnings = readable_secrets::warnings(&config);
        config.warnings.extend(warnings);
        let (edits, former) = (Edits::default(), None);
        let current = Current { file: text, text: in_force, running, former, edits, config: Arc::new(config.clone()) };
        let (current, accounts) = (Mutex::new(current), Mutex::new(config.web.accounts.clone()));
        let (file, adjust) = (file.to_owned(), Box::new(adjust));
        Ok((
            ConfigStore {
                file,
                adjust,
                current,
                shared,
                accounts,
                history: OnceLock::new(),
                text_hasher: RandomState::new(),
                first_marks,
            },
            config,
        ))
    }

    /// Reads the file again, or only those that it names, and applies the changes that could not be written.
    pub fn reload(&self, reread: Reread) -> Result<Arc<Config>, StoreError> {
        let mut current = self.current();
        let read = match (reread, &self.shared) {
            (Reread::All, None) => load::load_text_with(&self.file, &current.edits).map_err(StoreError::from),
            (Reread::Named, None) => load::load_changed(&self.file, &current.text, &current.edits)
                .map(|config| (current.text.clone(), config))
                .map_err(StoreError::from),
            (reread, Some(shared)) => self.reload_shared(&mut current, shared, reread),
        };
        let (text, mut config) = read?;
        self.check_emptied(&current, &text)?;
        if current.shared().is_none() {
            current.file.clone_from(&text);
        }
        config.warnings = readable_secrets::warnings(&config);
        (self.adjust)(&mut config);
        let config = Arc::new(config);
        *self.accounts.lock().unwrap_or_else(PoisonError::into_inner) = config.web.accounts.clone();
        (current.text, current.config) = (text, config.clone());
        Ok(config)
    }

    /// An error if a file that had settings has none any more: it was caught while it is written, or its disk is full. An
    /// empty file is for a start.
    fn check_emptied(&self, current: &Current, text: &str) -> Result<(), StoreError> {
        let is_emptied = current.config.format == FileFormat::Toml
            && weir_config::is_blank(text)
            && !weir_config::is_blank(&current.text);
        if is_emptied { Err(StoreError::Emptied(self.file.clone())) } else { Ok(()) }
    }

    /// The files whose changes are adopted without a RELOAD.
    pub(crate) fn watched_files(&self) -> BTreeSet<PathBuf> {
        self.current().config.watched_files()
    }

    /// Those files as they were before they were read for the first time.
    pub(crate) fn first_marks(&self) -> &Marks {
        &self.first_marks
    }

    /// The configuration in force, without what SET has changed.
    pub fn in_force(&self) -> Arc<Config> {
        self.current().config.clone()
    }

    /// The file.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Keeps a history from here on, which begins with the file as it was read.
    pub fn keep_history(&self, history: Arc<dyn ConfigHistory>) {
        let outline = outline(&self.current());
        history.started(outline);
        drop(self.history.set(history));
    }

    /// Workers are about to adopt a configuration. Returns an error of the history's disk, for the log.
    pub fn record(&self, adopted: &Adopted) -> Option<String> {
        let outline = match adopted.command {
            "SET" => Err("it was not in the file, and held until the next reload".to_owned()),
            _ => outline(&self.current()),
        };
        self.history.get()?.adopted(adopted, outline)
    }

    /// Makes a change, or returns why not.
    pub fn change(
        &self,
        wanted: &ChangeRequest,
        author: &Author,
        fit: Fit<'_>,
    ) -> Result<(Arc<Config>, Persisted), ChangeError> {
        let mut current = self.current();
        self.check_unchanged(&current)?;
        self.check_latest(wanted.latest)?;
        let edit = user_list::stored(&wanted.edit, &current.config)?;
        let plan = self.plan(&current, &edit)?;
        plan.check_secrets()?;
        let config = fit(plan.config.clone()).map_err(ChangeError::Unfit)?;
        let kept = match plan.text {
            Written::Shared(text) => {
                let shared = SharedTexts { sealed: text, opened: plan.shared.unwrap_or_default() };
                return self.publish(&mut current, shared, author, plan.config).map(|kept| (config, kept));
            }
            _ => self.keep(&mut current, plan, &edit)?,
        };
        Ok((config, kept))
    }

    /// Writes a change into the file, and into the list of users: a user who is removed is kept out first, and one who
    /// is added is let in last. What can't be written is kept in memory.
    fn keep(&self, current: &mut Current, plan: Plan, edit: &Edit) -> Result<Persisted, ChangeError> {
        let (first, last) = plan.users.map_or((None, None), UserList::in_order);
        let mut left = user_list::Left::default();
        first.into_iter().for_each(|list| left.write(list));
        let written = match plan.text {
            Written::File(text) => {
                let secret = plan.config.has_secrets(&self.file);
                self.write(current, text, secret, plan.shared.as_deref())
            }
            Written::Nowhere(_) if plan.edits.is_empty() => {
                current.edits = Edits::default();
                Ok(())
            }
            Written::Nowhere(why) => Err(ReplaceError::Refused(why)),
            // `publish` writes that.
            Written::Shared(_) => Ok(()),
        };
        let why = match written {
            Ok(()) => None,
            Err(ReplaceError::Changed) => return Err(self.changed_by_hand()),
            // A return to an earlier version replaces the whole file, so it can't be kept in memory as a change.
            Err(ReplaceError::Refused(why)) if matches!(edit, Edit::Restore(_)) => return Err(ChangeError::Unfit(why)),
            Err(ReplaceError::Refused(why)) => {
                current.edits = plan.edits;
                Some(why)
            }
        };
        last.into_iter().for_each(|list| left.write(list));
        current.edits.put_secrets(left.secrets);
        current.config = plan.config;
        Ok(why.or(left.why).map_or(Persisted::InFile, Persisted::InMemory))
    }

    /// The configuration after a change, without making it.
    fn plan(&self, current: &Current, edit: &Edit) -> Result<Plan, ChangeError> {
        check_name(&current.config, edit)?;
        weir_config::find_source(edit).map_or(Ok(()), |exposure| Err(ChangeError::Exposes(Box::new(exposure))))?;
        let mut edits = current.edits.clone();
        edits.add(edit.clone());
        if current.config.format == FileFormat::Toml && weir_config::is_blank(&current.text) {
            edits.add(weir_config::panel_address());
        }
        let users = match (current.shared(), &current.config.auth.file) {
            // Each node has a list of its own.
            (Some(_), Some(file)) if edits.list_users() => {
                return Err(ChangeError::ListedElsewhere(file.display().to_string()));
            }
            (Some(_), _) => None,
            (None, _) => UserList::plan(&current.config, &current.edits, &mut edits)?,
        };
        let text = match (current.config.format, edit) {
            (FileFormat::Ini, Edit::Restore(_)) => return Err(ChangeError::Unfit(INI.to_owned())),
            (FileFormat::Ini, _) => Written::Nowhere(INI.to_owned()),
            (FileFormat::Toml, edit) if current.shared().is_some() => self.plan_on_node(current, edit, &edits)?,
            (FileFormat::Toml, Edit::Restore(restore)) => Written::File(restored(current, restore)?),
            (FileFormat::Toml, _) => rewrite(&current.text, &edits).map_or_else(nowhere, Written::File),
        };
        let shared = match (&text, current.shared()) {
            (Written::Shared(text), _) => Some(self.opened(text)?),
            (Written::File(_), Some(running)) => Some(self.opened(&running.settings.text)?),
            _ => None,
        };
        let read = match (&text, &shared) {
            (Written::File(text), None) => self.read(text, users.as_ref(), &Edits::default()),
            (Written::File(text), Some(shared)) => self.read_merged(NodeTexts { own: text, shared }, &Edits::default()),
            (Written::Shared(_), shared) => {
                let shared = shared.as_deref().unwrap_or_default();
                self.read_merged(NodeTexts { own: &current.file, shared }, &current.edits)
            }
            (Written::Nowhere(_), _) => self.read(&current.text, users.as_ref(), &edits),
        };
        let config = read.map_err(|mistakes| ChangeError::Invalid(Box::new(mistakes.first().clone())))?;
        if let Some(exposure) = weir_config::find_exposure(&current.config, &config, edit) {
            return Err(ChangeError::Exposes(Box::new(exposure)));
        }
        let findings = weir_config::review(&config, &load::facts());
        match findings.into_iter().find(|finding| finding.severity == Severity::Error) {
            Some(finding) => Err(ChangeError::Unfit(finding.message())),
            None => Ok(Plan { edits, text, users, shared, config }),
        }
    }

    /// Writes a text into the file, which is its owner's alone if it has secrets. `shared`: the text that nodes share, with
    /// its secrets in the clear.
    fn write(
        &self,
        current: &mut Current,
        text: String,
        secret: bool,
        shared: Option<&str>,
    ) -> Result<(), ReplaceError> {
        // Changes that were only in memory are written with it.
        if text != current.file {
            replace(&self.file, &current.file, NewText { text: &text, secret })?;
        }
        let merged = shared.and_then(|shared| weir_config::merge(&text, shared));
        current.text = merged.unwrap_or_else(|| text.clone());
        (current.file, current.edits) = (text, Edits::default());
        Ok(())
    }

    /// An error if the file was edited since, which a change would overwrite. A file that can't be read is reported
    /// when it is written.
    fn check_unchanged(&self, current: &Current) -> Result<(), ChangeError> {
        match load::read(&self.file) {
            Ok(text) if text != current.file => Err(self.changed_by_hand()),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(self.changed_by_hand()),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// An error if the configuration has a later version than the caller knows. Earlier changes are versions by now:
    /// workers have each of them recorded before the next one is made.
    fn check_latest(&self, known: Option<u64>) -> Result<(), ChangeError> {
        match (known, self.history.get().map(|history| history.latest())) {
            (Some(known), Some(latest)) if known != latest => Err(ChangeError::Overtaken(latest)),
            _ => Ok(()),
        }
    }

    /// Which text the file has, and which the files that it names.
    fn identify(&self, text: &str, config: &Config) -> u64 {
        let named = config.named_files().into_iter().map(|path| (load::read(&path).ok(), path));
        self.text_hasher.hash_one((text, named.collect::<Vec<_>>()))
    }

    fn changed_by_hand(&self) -> ChangeError {
        ChangeError::ChangedByHand(self.file.display().to_string())
    }
}

impl ConfigAccess for ConfigStore {
    fn accounts(&self) -> Arc<Accounts> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn certificates(&self, config: &Config) -> Vec<CertificateExpiry> {
        weir_runtime::certificate_expiries(config)
    }

    fn file_stamp(&self) -> Option<(u64, u64)> {
        let about = std::fs::metadata(&self.file).ok()?;
        let written = about.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
        Some((written.as_micros() as u64, about.len()))
    }

    fn preview(&self, edit: &Edit) -> Result<ChangePreview, ChangeError> {
        let current = self.current();
        self.check_unchanged(&current)?;
        match self.plan(&current, edit) {
            Ok(plan) => plan.check_secrets().map(|()| preview(&current.config, &plan.config)),
            Err(ChangeError::SecretsNeeded(secrets)) => Ok(ChangePreview { secrets, ..ChangePreview::default() }),
            Err(why) => Err(why),
        }
    }

    fn preview_reload(&self, in_force: &Config) -> Result<ChangePreview, ChangeError> {
        let text = load::read(&self.file).map_err(|error| StoreError::file(&self.file, error))?;
        // Reading thousands of pools takes long: no change waits for it.
        let (edits, shared) = {
            let current = self.current();
            self.check_emptied(&current, &text)?;
            (current.edits.clone(), current.shared().map(|running| running.settings.text.clone()))
        };
        let next = match shared {
            None => self.read(&text, None, &edits),
            Some(shared) => self.read_merged(NodeTexts { own: &text, shared: &self.opened(&shared)? }, &edits),
        };
        let next = next.map_err(StoreError::from)?;
        let text = Some(self.identify(&text, &next));
        Ok(ChangePreview { text, ..preview(in_force, &next) })
    }

    fn plan_pool(&self, name: &str, keys: Keys) -> Result<PlannedPool, ChangeError> {
        let config = {
            let current = self.current();
            let act = if has(&current.config, name) { Operation::Alter(keys) } else { Operation::Create(keys) };
            self.plan(&current, &Edit::Pool(name.to_owned(), act))?.config
        };
        let fallback = config.fallback.as_ref().filter(|pool| pool.name == name);
        let pool = config.pools.get(name).or(fallback).cloned();
        let pool = pool.ok_or_else(|| ChangeError::Missing(EntryKind::Pool, name.to_owned()))?;
        Ok(PlannedPool { config, pool })
    }
}

fn preview(before: &Config, after: &Config) -> ChangePreview {
    let (changes, differences) = (weir_config::changes(before, after), weir_config::differences(before, after));
    ChangePreview { changes, differences, ..ChangePreview::default() }
}

/// The outline of the file with the changes that are not in it; or why there is none.
fn outline(current: &Current) -> Result<String, String> {
    if current.config.format == FileFormat::Ini {
        return Err(INI.to_owned());
    }
    let text = rewrite(&current.text, &current.edits);
    text.and_then(|text| weir_config::outline(&text)).ok_or_else(|| "the file could not be read".to_owned())
}

/// The file's text after a return to an earlier version.
fn restored(current: &Current, restore: &Restore) -> Result<String, ChangeError> {
    let text = rewrite(&current.text, &current.edits).ok_or_else(other_shape)?;
    restored_text(&text, restore)
}

fn has(config: &Config, pool: &str) -> bool {
    config.pools.contains_key(pool) || config.fallback.as_ref().is_some_and(|fallback| fallback.name == pool)
}

fn check_name(config: &Config, edit: &Edit) -> Result<(), ChangeError> {
    let (about, name, act, there) = match edit {
        Edit::Pool(name, act) => (EntryKind::Pool, name, act, has(config, name)),
        Edit::User(name, act) => (EntryKind::User, name, act, config.has_user(name)),
        Edit::Setting(_) | Edit::Restore(_) => return Ok(()),
    };
    match act {
        Operation::Create(_) if there => Err(ChangeError::NameTaken(about, name.clone())),
        Operation::Alter(_) | Operation::Drop if !there => Err(ChangeError::Missing(about, name.clone())),
        _ => Ok(()),
    }
}
