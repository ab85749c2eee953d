//! Who changed what, from where, and what came of it: the last of them in memory, all of them in the log.
//!
//! An entry is written when its request ends, also when whoever asked did not wait for the answer. Bodies are not looked
//! at, so no secret gets here.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use axum::http::{Method, StatusCode, Uri};
use serde::Serialize;

use crate::ask::Workers;
use crate::clock;
use crate::lock::lock;

/// Entries that are kept in memory.
const MOST: usize = 1000;
/// Bytes of a path that are kept.
const LONGEST_PATH: usize = 256;

/// Something that somebody did.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Entry {
    /// Seconds since 1970.
    at: f64,
    /// A user or a token; none where nobody logs in.
    user: Option<String>,
    from: String,
    method: String,
    path: String,
    /// The answer's status; none if nobody waited for it.
    status: Option<u16>,
}

/// The last entries; cheap to clone.
#[derive(Clone)]
pub(crate) struct Audit {
    entries: Arc<Mutex<VecDeque<Entry>>>,
    workers: Workers,
}

/// What somebody does now. Dropping it writes it down.
pub(crate) struct Doing {
    audit: Audit,
    entry: Entry,
}

impl Audit {
    pub(crate) fn new(workers: Workers) -> Audit {
        Audit { entries: Arc::default(), workers }
    }

    /// Somebody begins to do something.
    pub(crate) fn begin(&self, user: Option<String>, from: IpAddr, method: &Method, uri: &Uri) -> Doing {
        // A path comes percent-encoded: it is ASCII, without control characters.
        let path = uri.path().chars().take(LONGEST_PATH).collect();
        let from = from.to_canonical().to_string();
        let entry =
            Entry { at: clock::now().as_secs_f64(), user, from, method: method.to_string(), path, status: None };
        Doing { audit: self.clone(), entry }
    }

    /// The last entries, the newest first.
    pub(crate) fn last(&self, most: usize) -> Vec<Entry> {
        lock(&self.entries).iter().rev().take(most).cloned().collect()
    }

    fn write(&self, entry: Entry) {
        let user = entry.user.as_deref().unwrap_or("(no login)").escape_debug();
        let outcome = entry.status.map_or("nobody waited".to_owned(), |status| status.to_string());
        let Entry { from, method, path, .. } = &entry;
        self.workers.note(format!("control plane: {user} from {from}: {method} {path}: {outcome}"));
        let mut entries = lock(&self.entries);
        if entries.len() >= MOST {
            entries.pop_front();
        }
        entries.push_back(entry);
    }
}

impl Doing {
    /// What came of it.
    pub(crate) fn ends(mut self, status: StatusCode) {
        self.entry.status = Some(status.as_u16());
    }

    /// Who it was, where that shows only now.
    pub(crate) fn was(&mut self, user: &str) {
        self.entry.user = Some(user.to_owned());
    }
}

impl Drop for Doing {
    fn drop(&mut self) {
        self.audit.write(self.entry.clone());
    }
}
