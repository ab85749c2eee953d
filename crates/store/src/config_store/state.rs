//! What a configuration store has: the file, the text and the configuration in force, and changes that are prepared.

use std::hash::RandomState;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use weir_admin::{ChangeError, ConfigHistory};
use weir_config::{Accounts, Config, ConfigErrors, Edits, NotRestored, Restore};

use crate::shared_config::{Revised, SharedConfig};
use crate::{load, readable_secrets};

use super::user_list::UserList;

/// The configuration's file, and the configuration in force.
pub struct ConfigStore {
    pub(super) file: PathBuf,
    /// Applies the command line to each configuration that is read.
    pub(super) adjust: Box<dyn Fn(&mut Config) + Send + Sync>,
    pub(super) current: Mutex<Current>,
    /// The configuration that a cluster's nodes share; none without a cluster.
    pub(super) shared: Option<SharedConfig>,
    /// The accounts in force, under a lock of their own: each request reads them, and must not wait for a change.
    pub(super) accounts: Mutex<Arc<Accounts>>,
    /// The history of the configuration; none before serving.
    pub(super) history: OnceLock<Arc<dyn ConfigHistory>>,
    /// With keys of this process: a hash that others see says nothing of the file's secrets.
    pub(super) text_hasher: RandomState,
}

pub(super) struct Current {
    /// The file's text as last read.
    pub(super) file: String,
    /// The text in force: the file's, or its own part with the shared configuration.
    pub(super) text: String,
    /// The shared revision in force, and the one before. It may be the end of the shared configuration.
    pub(super) running: Option<Revised>,
    pub(super) former: Option<Revised>,
    /// Changes that are not in the file.
    pub(super) edits: Edits,
    pub(super) config: Arc<Config>,
}

impl Current {
    /// The shared configuration in force.
    pub(super) fn shared(&self) -> Option<&Revised> {
        self.running.as_ref().filter(|running| !running.settings.ended)
    }
}

/// A change, prepared but not made.
pub(super) struct Plan {
    /// All changes that would not be in the file, if it can't be written.
    pub(super) edits: Edits,
    /// What is to be written.
    pub(super) text: Written,
    /// The list of users in a file of its own, if that is to be written too.
    pub(super) users: Option<UserList>,
    /// The shared text after it, with its secrets in the clear; none where nodes share none, or nothing is written.
    pub(super) shared: Option<String>,
    pub(super) config: Arc<Config>,
}

/// A new text that nodes share.
pub(super) struct SharedTexts {
    /// As etcd gets it: its secrets are encrypted.
    pub(super) sealed: String,
    /// With its secrets in the clear.
    pub(super) opened: String,
}

/// Where the text of a change goes.
pub(super) enum Written {
    /// Into the file: its new text.
    File(String),
    /// Into etcd: the new text of the shared configuration.
    Shared(String),
    /// The file can't be written; holds why.
    Nowhere(String),
}

impl ConfigStore {
    /// The configuration that a text, a list of users and changes of it make, checked as a whole.
    pub(super) fn read(
        &self,
        text: &str,
        users: Option<&UserList>,
        edits: &Edits,
    ) -> Result<Arc<Config>, ConfigErrors> {
        let list = users.map(|list| (list.path.as_path(), list.after.as_str()));
        let texts: Vec<_> = [(self.file.as_path(), text)].into_iter().chain(list).collect();
        let mut config = load::load_replaced(&self.file, &texts, edits)?;
        config.warnings = readable_secrets::warnings(&config);
        (self.adjust)(&mut config);
        Ok(Arc::new(config))
    }

    pub(super) fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn nowhere() -> Written {
    Written::Nowhere("what is to be changed is in no section".to_owned())
}

pub(super) fn other_shape() -> ChangeError {
    ChangeError::Unfit("the file has another shape than this version".to_owned())
}

pub(super) fn restored_text(text: &str, restore: &Restore) -> Result<String, ChangeError> {
    weir_config::restore(text, restore).map_err(|why| match why {
        NotRestored::Unreadable => other_shape(),
        NotRestored::Secrets(keys) => ChangeError::SecretsNeeded(keys),
        NotRestored::Places(keys) => ChangeError::Unfit(format!(
            "{} names a place to read a secret from, or to send one to, which only the file may: change the file, and RELOAD",
            keys.join(", ")
        )),
    })
}
