//! The configuration of a cluster's node: its file's own part, with the part that all nodes share.
//!
//! Owns which shared revision a reload tries, and the way of a change to etcd. A revision is tried whole: if it does
//! not fit, the former one stays in force.

use std::sync::{Arc, PoisonError};

use weir_admin::{Author, ChangeError, ChangeSource, Persisted};
use weir_config::{Config, ConfigErrors, Edit, Edits, Restore, rewrite};
use weir_runtime::Reread;

use crate::error::StoreError;
use crate::load::{self, NodeTexts};
use crate::shared_config::{AdoptionStatus, Revised, SharedConfig, SharedSettings};

use super::state::{ConfigStore, Current, Plan, SharedTexts, Written, nowhere, restored_text};

impl Plan {
    /// An error if a secret would be in etcd in the clear.
    pub(super) fn check_secrets(&self) -> Result<(), ChangeError> {
        let Written::Shared(text) = &self.text else { return Ok(()) };
        weir_config::find_plain_secret(text).map_or(Ok(()), |(key, help)| {
            Err(ChangeError::Unfit(format!(
                "{key} would be in etcd in the clear: {help}; see weir cluster apply --help"
            )))
        })
    }
}

impl ConfigStore {
    /// What the cluster may know about this node's configuration; `None` without a cluster.
    pub fn status(&self) -> Option<AdoptionStatus> {
        self.shared.as_ref().map(SharedConfig::status)
    }

    /// Etcd's store has this revision, and the shared configuration this one, if it was read.
    pub fn seen(&self, store: i64, value: Option<(i64, String)>) {
        if let Some(shared) = &self.shared {
            shared.seen(store, value);
        }
    }

    /// The author of the revision that the next reload is to adopt, if there is one: then a reload must follow, and
    /// [`adoption_ended`](ConfigStore::adoption_ended).
    pub fn next_adoption(&self) -> Option<(i64, Author)> {
        let Revised { revision, settings } = self.shared.as_ref()?.next_trial()?;
        let SharedSettings { user, comment, node, .. } = settings;
        Some((revision, Author { user, from: node, via: ChangeSource::Cluster, comment, request: 0 }))
    }

    /// The reload that was to adopt a revision has ended. Returns a warning.
    pub fn adoption_ended(&self, result: Result<(), &str>) -> Option<String> {
        let shared = self.shared.as_ref()?;
        let why = match result {
            Ok(()) => return shared.adopted(),
            Err(why) => why,
        };
        let refused = shared.candidate(false).map(|candidate| candidate.revision);
        shared.refused(why);
        let mut current = self.current();
        // The revision was valid, and could not be served.
        if current.running.as_ref().map(|running| running.revision) == refused {
            current.running = current.former.take();
            let edits = current.edits.clone();
            let former = match current.shared() {
                Some(running) => {
                    let texts = NodeTexts { own: &current.file, shared: &running.settings.text };
                    self.load_shared(texts, &edits).ok()
                }
                None => load::load_changed(&self.file, &current.file, &edits).ok().map(|c| (current.file.clone(), c)),
            };
            if let Some((text, mut config)) = former {
                (self.adjust)(&mut config);
                *self.accounts.lock().unwrap_or_else(PoisonError::into_inner) = config.web.accounts.clone();
                (current.text, current.config) = (text, Arc::new(config));
            }
        }
        None
    }

    /// Reads what a reload is to put in force: the revision on trial or, with the file itself, one that was refused, or
    /// else what is in force.
    pub(super) fn reload_shared(
        &self,
        current: &mut Current,
        shared: &SharedConfig,
        reread: Reread,
    ) -> Result<(String, Config), StoreError> {
        let file = match reread {
            Reread::All => load::read(&self.file).map_err(|error| StoreError::file(&self.file, error))?,
            Reread::Named => current.file.clone(),
        };
        if let Some(candidate) = shared.candidate(reread == Reread::All) {
            let on_trial = shared.is_on_trial(candidate.revision);
            let loaded = match candidate.settings.ended {
                true => load::load_own(&self.file, &file, &current.edits),
                false => {
                    let texts = NodeTexts { own: &file, shared: &candidate.settings.text };
                    self.load_shared(texts, &current.edits)
                }
            };
            match loaded {
                Ok(loaded) => {
                    if !on_trial {
                        drop(shared.in_force(&candidate));
                    }
                    current.file = file;
                    if current.running.as_ref() != Some(&candidate) {
                        current.former = current.running.replace(candidate);
                    }
                    return Ok(loaded);
                }
                Err(why) if on_trial => return Err(why),
                Err(_) => {}
            }
        }
        let loaded = match current.shared() {
            Some(running) => {
                let texts = NodeTexts { own: &file, shared: &running.settings.text };
                self.load_shared(texts, &current.edits)?
            }
            None => {
                let config = load::load_changed(&self.file, &file, &current.edits)?;
                (file.clone(), config)
            }
        };
        current.file = file;
        Ok(loaded)
    }

    /// What a change on a node with a shared configuration writes.
    pub(super) fn plan_on_node(&self, current: &Current, edit: &Edit, edits: &Edits) -> Result<Written, ChangeError> {
        let Some(running) = current.shared() else { return Err(ChangeError::Fixed) };
        let shape = || ChangeError::Unfit("the cluster's configuration has another shape than this version".to_owned());
        if !weir_config::concerns_cluster(edit) {
            return Ok(rewrite(&current.file, edits).map_or_else(nowhere, Written::File));
        }
        let text = &running.settings.text;
        let text = match edit {
            // An earlier version of what the nodes share: this node's own part stays.
            Edit::Restore(restore) => {
                let outline = weir_config::shared_part(&restore.outline).ok_or_else(shape)?;
                restored_text(text, &Restore { outline, secrets: restore.secrets.clone() })?
            }
            edit => rewrite(text, &Edits::from(edit.clone())).ok_or_else(shape)?,
        };
        let secrets = self.shared.as_ref().map(SharedConfig::secrets).ok_or(ChangeError::Fixed)?;
        Ok(secrets.seal(&text, None).map(Written::Shared)?)
    }

    /// A shared text with its secrets in the clear.
    pub(super) fn opened(&self, text: &str) -> Result<String, StoreError> {
        self.shared.as_ref().map_or_else(|| Ok(text.to_owned()), |shared| shared.secrets().open(text))
    }

    /// Reads as [`load::load_merged`] does, with a shared text whose secrets are encrypted.
    fn load_shared(&self, texts: NodeTexts<'_>, edits: &Edits) -> Result<(String, Config), StoreError> {
        load::load_merged(&self.file, NodeTexts { shared: &self.opened(texts.shared)?, ..texts }, edits)
    }

    /// The configuration with a text of the file and a shared one, whose secrets are in the clear.
    pub(super) fn read_merged(&self, texts: NodeTexts<'_>, edits: &Edits) -> Result<Arc<Config>, ConfigErrors> {
        let text = weir_config::merge(texts.own, texts.shared);
        self.read(text.as_deref().unwrap_or(texts.own), None, edits)
    }

    /// Writes a shared text into etcd, over the one in force here.
    pub(super) fn publish(
        &self,
        current: &mut Current,
        texts: SharedTexts,
        author: &Author,
        config: Arc<Config>,
    ) -> Result<Persisted, ChangeError> {
        let (Some(shared), Some(running)) = (&self.shared, current.shared()) else { return Err(ChangeError::Fixed) };
        let merged = weir_config::merge(&current.file, &texts.opened).ok_or(StoreError::NotToml)?;
        let (user, comment) = (author.user.clone(), author.comment.clone());
        let settings = SharedSettings { user, comment, ..SharedSettings::new(texts.sealed, shared.node()) };
        let written =
            shared.publish(running.revision, &settings).map_err(|why| ChangeError::ClusterAway(why.to_string()))?;
        let revised = Revised { revision: written.ok_or(ChangeError::ChangedInCluster)?, settings };
        // A disk that is full is reported at the next adoption; the value is in etcd.
        drop(shared.in_force(&revised));
        current.former = current.running.replace(revised);
        (current.text, current.config) = (merged, config);
        Ok(Persisted::InFile)
    }
}
