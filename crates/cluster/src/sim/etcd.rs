//! A model of etcd: linearizable, with requests that arrive late, twice as late, or never, and replies that get lost.

use std::collections::BTreeMap;

use crate::record::Store;
use crate::request::{Revision, StoreKey, StoreReply, StoreRequest, StoreValue, Stored};

#[derive(Default)]
pub(super) struct Etcd {
    keys: BTreeMap<StoreKey, (Revision, StoreValue)>,
    revision: Revision,
}

impl Etcd {
    pub(super) fn execute(&mut self, request: &StoreRequest) -> StoreReply {
        match request {
            StoreRequest::ReadAll => self.read(|_, _| true),
            StoreRequest::ReadMembers => self.read(|key, _| matches!(key, StoreKey::Member(_))),
            StoreRequest::ReadPools(after) => {
                self.read(|key, revision| matches!(key, StoreKey::Pool(_)) && revision > *after)
            }
            StoreRequest::Commit(txn) => {
                let at = |key: &StoreKey| self.keys.get(key).map_or(0, |(revision, _)| *revision);
                let is_other = txn.store.is_some_and(|store| self.store() != Some(store));
                if is_other || txn.compares.iter().any(|(key, revision)| at(key) != *revision) {
                    return StoreReply::Conflict;
                }
                self.revision += 1;
                for (key, value) in &txn.puts {
                    match value {
                        Some(value) => self.keys.insert(key.clone(), (self.revision, value.clone())),
                        None => self.keys.remove(key),
                    };
                }
                StoreReply::Committed(self.revision)
            }
        }
    }

    fn read(&self, wanted: impl Fn(&StoreKey, Revision) -> bool) -> StoreReply {
        let stored = |(key, (revision, value)): (&StoreKey, &(Revision, StoreValue))| Stored {
            key: key.clone(),
            revision: *revision,
            value: value.clone(),
        };
        StoreReply::Read(
            self.revision,
            self.keys.iter().filter(|(key, (at, _))| wanted(key, *at)).map(stored).collect(),
        )
    }

    /// Etcd comes back without anything.
    pub(super) fn lose_all(&mut self) {
        *self = Etcd::default();
    }

    pub(super) fn store(&self) -> Option<Store> {
        match self.keys.get(&StoreKey::Store) {
            Some((_, StoreValue::Store(store))) => Some(*store),
            _ => None,
        }
    }

    pub(super) fn pool(&self, name: &str) -> Option<&crate::record::PoolShares> {
        match self.keys.get(&StoreKey::Pool(name.to_owned())) {
            Some((_, StoreValue::Pool(record))) => Some(record),
            _ => None,
        }
    }
}
