//! Another configuration while Weir serves: read again, changed by the control plane, or by a SET of encryption. A
//! helper does the work.
//!
//! Owns the order of these requests: one at a time, so that the configuration that was requested last is the one that
//! stays. What can't change without a restart is logged, and the old values stay, so that the configuration in force is
//! the one shown. Must not know how a configuration is sent to workers or taken over, or where it is stored.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use weir_admin::{Author, ChangeRequest, Command, LastReload, Persisted};
use weir_config::{Config, Successor};

use crate::admin::broadcasts::Caller;
use crate::common::{Cx, Job};
use crate::port::{Io, Reread, Work};

/// The source of the next configuration.
#[derive(Clone, Debug)]
pub(crate) enum Reload {
    /// RELOAD, its caller, who that is, and what is read.
    Read(Caller, Author, Reread),
    /// A change of the control plane, under its number.
    Change(u64, Arc<ChangeRequest>, Author),
    /// SET of encryption, whose files have to be read.
    SetTls(SetTls),
}

/// A SET of encryption.
#[derive(Clone, Debug)]
pub(crate) struct SetTls {
    pub(crate) caller: Caller,
    pub(crate) author: Author,
    pub(crate) key: String,
    pub(crate) value: String,
}

/// The requested configurations.
pub(crate) struct Reloads {
    /// A helper works on the first.
    queue: VecDeque<Reload>,
    /// The configuration that was last sent to the workers; the next SET builds on it.
    newest: Arc<Config>,
    /// Where changes are stored that workers are adopting, by the control plane's numbers.
    persisted: HashMap<u64, Persisted>,
    /// How the last one ended.
    last: Option<LastReload>,
    /// What SET has changed since the file was read.
    set_keys: BTreeSet<String>,
}

impl Reloads {
    pub(super) fn new(config: Arc<Config>) -> Reloads {
        Reloads {
            queue: VecDeque::new(),
            newest: config,
            persisted: HashMap::new(),
            last: None,
            set_keys: BTreeSet::new(),
        }
    }

    /// The configuration that was last sent to the workers.
    pub(crate) fn newest(&self) -> &Arc<Config> {
        &self.newest
    }

    /// Records the configuration that is sent to the workers, and by which command.
    pub(crate) fn set_newest(&mut self, config: Arc<Config>, command: &Command) {
        self.newest = config;
        match command {
            Command::Set { key, .. } => drop(self.set_keys.insert(key.clone())),
            // The file has all settings again.
            _ => self.set_keys.clear(),
        }
    }

    /// The settings that SET has changed since the file was read.
    pub(crate) fn set_keys(&self) -> &BTreeSet<String> {
        &self.set_keys
    }

    /// Whether a configuration is requested that no worker has been sent yet.
    pub(crate) fn are_under_way(&self) -> bool {
        !self.queue.is_empty()
    }

    /// How the last reload ended that this worker was asked for.
    pub(crate) fn last(&self) -> Option<&LastReload> {
        self.last.as_ref()
    }

    /// Records how a reload, or a change of the file, has ended at this time, in microseconds since 1970.
    pub(crate) fn ended(&mut self, at: u64, read: Result<&Successor, &String>) {
        let before = self.last.take();
        let restart = match read {
            Ok(read) => read.restart.iter().map(|change| change.key.clone()).collect(),
            Err(_) => before.as_ref().map(|last| last.restart.clone()).unwrap_or_default(),
        };
        let worked_at = if read.is_ok() { Some(at) } else { before.and_then(|last| last.worked_at) };
        self.last = Some(LastReload { at, error: read.err().cloned(), restart, worked_at });
    }

    /// Queues a configuration, which a helper makes after the earlier ones: [`Reloads::finish`].
    pub(crate) fn enqueue<I: Io>(&mut self, cx: &mut Cx<'_, I>, reload: Reload) {
        self.queue.push_back(reload);
        if self.queue.len() == 1 {
            self.start(cx);
        }
    }

    /// A helper has finished: returns the request. When the result is handled, the next one [starts](Reloads::start).
    pub(crate) fn finish(&mut self) -> Option<Reload> {
        self.queue.pop_front()
    }

    /// Passes the first request to a helper.
    pub(crate) fn start<I: Io>(&mut self, cx: &mut Cx<'_, I>) {
        let work = match self.queue.front() {
            None => return,
            Some(Reload::Read(_, _, reread)) => Work::LoadConfig(*reread, self.newest.clone()),
            Some(Reload::Change(_, wanted, author)) => {
                Work::ChangeConfig(wanted.clone(), author.clone(), self.newest.clone())
            }
            Some(Reload::SetTls(set)) => Work::ApplyTls(self.with_set(set)),
        };
        let job = cx.common.begin_job(Job::Reload);
        cx.io.submit_job(job, work);
    }

    /// The newest configuration with a SET of encryption pending in it.
    pub(crate) fn with_set(&self, set: &SetTls) -> Arc<Config> {
        // The value was checked when the SET came: a value that is valid once is always valid.
        weir_config::set(&self.newest, &set.key, &set.value).map_or_else(|_| self.newest.clone(), Arc::new)
    }

    /// Remembers where a change is stored until all workers have taken it over.
    pub(crate) fn set_persisted(&mut self, number: u64, persisted: Persisted) {
        self.persisted.insert(number, persisted);
    }

    /// All workers have adopted the configuration of this number; returns where it is stored, if it was a change.
    pub(crate) fn take_persisted(&mut self, number: u64) -> Option<Persisted> {
        self.persisted.remove(&number)
    }
}
