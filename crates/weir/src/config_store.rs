//! The configuration of a running process: its file, and what was changed over the control plane.
//!
//! Owns the order of a change: read the file again and see that nobody else has changed it, make the change on its text,
//! check the whole as at the start, and that no stored secret goes to a new place, and only then write. What can't be written is kept here, and laid over the file at each
//! reload. Reads and changes go one at a time. Must not know how the result reaches the workers.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_admin::{ChangeError, ConfigAccess, Persisted, PoolTestResult};
use weir_config::{
    Accounts, Config, ConfigErrors, Edit, Edits, EntryKind, FileFormat, Keys, Operation, Severity, rewrite,
};
use weir_runtime::Fit;

use crate::replace::{Fault, replace};
use crate::{exposed, load, trial};

/// A configuration's file, and what is in force of it.
pub(crate) struct ConfigStore {
    file: PathBuf,
    /// What the command line changes in each configuration that is read.
    adjust: Box<dyn Fn(&mut Config) + Send + Sync>,
    held: Mutex<Held>,
    /// Those of what is held: asked for with each request, so nobody may wait for a change here.
    accounts: Mutex<Arc<Accounts>>,
}

struct Held {
    /// The file as it was read.
    text: String,
    /// What was changed, and is not in the file.
    edits: Edits,
    config: Arc<Config>,
}

/// A change that has not been made yet.
struct Plan {
    /// All that would not be in the file, should it not be written.
    edits: Edits,
    /// The file's next text, or why it can't have one.
    text: Result<String, String>,
    config: Arc<Config>,
}

impl ConfigStore {
    /// Reads the file. The configuration is as the file has it: not adjusted.
    pub(crate) fn open(
        file: &Path,
        adjust: impl Fn(&mut Config) + Send + Sync + 'static,
    ) -> Result<(ConfigStore, Config), ConfigErrors> {
        let (text, mut config) = load::load_text(file)?;
        config.warnings = exposed::warnings(&config);
        let held = Held { text, edits: Edits::default(), config: Arc::new(config.clone()) };
        let (held, accounts) = (Mutex::new(held), Mutex::new(config.web.accounts.clone()));
        Ok((ConfigStore { file: file.to_owned(), adjust: Box::new(adjust), held, accounts }, config))
    }

    /// Reads the file again, and lays over it what it could not take.
    pub(crate) fn reload(&self) -> Result<Arc<Config>, String> {
        let mut held = self.held();
        let read = load::load_text_with(&self.file, &held.edits);
        let (text, mut config) = read.map_err(|mistakes| mistakes.to_string())?;
        config.warnings = exposed::warnings(&config);
        (self.adjust)(&mut config);
        let config = Arc::new(config);
        *self.accounts.lock().unwrap_or_else(PoisonError::into_inner) = config.web.accounts.clone();
        (held.text, held.config) = (text, config.clone());
        Ok(config)
    }

    /// Makes a change, or none.
    pub(crate) fn change(&self, edit: &Edit, fit: Fit<'_>) -> Result<(Arc<Config>, Persisted), ChangeError> {
        let mut held = self.held();
        self.check_unchanged(&held)?;
        let plan = self.plan(&held, edit)?;
        let config = fit(plan.config.clone()).map_err(ChangeError::Unfit)?;
        let written = plan.text.map_err(Fault::Refused).and_then(|text| self.write(&mut held, text));
        let kept = match written {
            Ok(()) => Persisted::InFile,
            Err(Fault::Changed) => return Err(self.changed_by_hand()),
            Err(Fault::Refused(why)) => {
                held.edits = plan.edits;
                Persisted::InMemory(why)
            }
        };
        held.config = plan.config;
        Ok((config, kept))
    }

    /// What a change would come to.
    fn plan(&self, held: &Held, edit: &Edit) -> Result<Plan, ChangeError> {
        check_name(&held.config, edit)?;
        weir_config::find_password_source(edit)
            .map_or(Ok(()), |exposure| Err(ChangeError::Exposes(Box::new(exposure))))?;
        let mut edits = held.edits.clone();
        edits.add(edit.clone());
        if let (FileFormat::Toml, true, Some(file)) = (held.config.format, edits.list_users(), &held.config.auth.file) {
            return Err(ChangeError::ListedElsewhere(file.display().to_string()));
        }
        let text = match held.config.format {
            FileFormat::Ini => {
                Err("a pgbouncer.ini is not written to; \"weir convert\" makes a weir.toml of it".to_owned())
            }
            FileFormat::Toml => {
                rewrite(&held.text, &edits).ok_or_else(|| "what is to be changed is in no section".to_owned())
            }
        };
        let read = match &text {
            Ok(text) => self.read(text, &Edits::default()),
            Err(_) => self.read(&held.text, &edits),
        };
        let config = read.map_err(|mistakes| ChangeError::Invalid(Box::new(mistakes.first().clone())))?;
        if let Some(exposure) = weir_config::find_exposure(&held.config, &config, edit) {
            return Err(ChangeError::Exposes(Box::new(exposure)));
        }
        let findings = weir_config::review(&config, &load::facts());
        match findings.into_iter().find(|finding| finding.severity == Severity::Error) {
            Some(finding) => Err(ChangeError::Unfit(finding.text)),
            None => Ok(Plan { edits, text, config }),
        }
    }

    fn write(&self, held: &mut Held, text: String) -> Result<(), Fault> {
        // What was only in memory until now is written with it.
        replace(&self.file, &held.text, &text)?;
        (held.text, held.edits) = (text, Edits::default());
        Ok(())
    }

    /// Somebody else's change would be lost. A file that can't be read any more can't be written either: that is said
    /// when it is tried.
    fn check_unchanged(&self, held: &Held) -> Result<(), ChangeError> {
        match load::read(&self.file) {
            Ok(text) if text != held.text => Err(self.changed_by_hand()),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(self.changed_by_hand()),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    fn changed_by_hand(&self) -> ChangeError {
        ChangeError::ChangedByHand(self.file.display().to_string())
    }

    fn read(&self, text: &str, edits: &Edits) -> Result<Arc<Config>, ConfigErrors> {
        let mut config = load::load_changed(&self.file, text, edits)?;
        config.warnings = exposed::warnings(&config);
        (self.adjust)(&mut config);
        Ok(Arc::new(config))
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConfigAccess for ConfigStore {
    fn accounts(&self) -> Arc<Accounts> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn try_pool(&self, name: &str, keys: Keys) -> Result<Result<PoolTestResult, String>, ChangeError> {
        let config = {
            let held = self.held();
            // With a pool that is there, what is not said is as it is: its password need not be given again for its own server.
            let act = if has(&held.config, name) { Operation::Alter(keys) } else { Operation::Create(keys) };
            self.plan(&held, &Edit::Pool(name.to_owned(), act))?.config
        };
        let fallback = config.fallback.as_ref().filter(|pool| pool.name == name);
        let pool = config.pools.get(name).or(fallback);
        let pool = pool.ok_or_else(|| ChangeError::Missing(EntryKind::Pool, name.to_owned()))?;
        Ok(trial::try_pool(&config, pool))
    }
}

fn has(config: &Config, pool: &str) -> bool {
    config.pools.contains_key(pool) || config.fallback.as_ref().is_some_and(|fallback| fallback.name == pool)
}

fn check_name(config: &Config, edit: &Edit) -> Result<(), ChangeError> {
    let (about, name, act, there) = match edit {
        Edit::Pool(name, act) => (EntryKind::Pool, name, act, has(config, name)),
        Edit::User(name, act) => (EntryKind::User, name, act, config.has_user(name)),
        Edit::Setting(_) => return Ok(()),
    };
    match act {
        Operation::Create(_) if there => Err(ChangeError::NameTaken(about, name.clone())),
        Operation::Alter(_) | Operation::Drop if !there => Err(ChangeError::Missing(about, name.clone())),
        _ => Ok(()),
    }
}
