//! A model of etcd: linearizable, with requests that arrive late, twice as late, or never, and replies that get lost.

use std::collections::BTreeMap;

use crate::record::Store;
use crate::request::{Key, Reply, Request, Revision, Stored, Value};

#[derive(Default)]
pub(super) struct Etcd {
    keys: BTreeMap<Key, (Revision, Value)>,
    revision: Revision,
}

impl Etcd {
    pub(super) fn execute(&mut self, request: &Request) -> Reply {
        match request {
            Request::ReadAll => self.read(|_, _| true),
            Request::ReadMembers => self.read(|key, _| matches!(key, Key::Member(_))),
            Request::ReadPools(after) => self.read(|key, revision| matches!(key, Key::Pool(_)) && revision > *after),
            Request::Commit(txn) => {
                let at = |key: &Key| self.keys.get(key).map_or(0, |(revision, _)| *revision);
                let is_other = txn.store.is_some_and(|store| self.store() != Some(store));
                if is_other || txn.compares.iter().any(|(key, revision)| at(key) != *revision) {
                    return Reply::Conflict;
                }
                self.revision += 1;
                for (key, value) in &txn.puts {
                    match value {
                        Some(value) => self.keys.insert(key.clone(), (self.revision, value.clone())),
                        None => self.keys.remove(key),
                    };
                }
                Reply::Committed(self.revision)
            }
        }
    }

    fn read(&self, wanted: impl Fn(&Key, Revision) -> bool) -> Reply {
        let stored = |(key, (revision, value)): (&Key, &(Revision, Value))| Stored {
            key: key.clone(),
            revision: *revision,
            value: value.clone(),
        };
        Reply::Read(self.revision, self.keys.iter().filter(|(key, (at, _))| wanted(key, *at)).map(stored).collect())
    }

    /// Etcd comes back without anything.
    pub(super) fn lose_all(&mut self) {
        *self = Etcd::default();
    }

    pub(super) fn store(&self) -> Option<Store> {
        match self.keys.get(&Key::Store) {
            Some((_, Value::Store(store))) => Some(*store),
            _ => None,
        }
    }

    pub(super) fn pool(&self, name: &str) -> Option<&crate::record::PoolRecord> {
        match self.keys.get(&Key::Pool(name.to_owned())) {
            Some((_, Value::Pool(record))) => Some(record),
            _ => None,
        }
    }
}
