//! The audit log: who changed what, from where, and the result. The last entries in memory, all changes in the log.
//!
//! An entry is written when its request ends, also when the client did not wait for the answer. It never contains a
//! body, so no secret; text from clients is escaped here. Three lists are separate, so that refused requests remove no
//! entry of a change: what was done, what was refused to a known user, and what was refused to an unauthenticated
//! client. The last are counted by address, and only some of them are logged.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::http::{Method, StatusCode, Uri};
use serde::Serialize;
use weir_base::Printable;

use crate::admission::network;
use crate::ask::Workers;
use crate::clock;
use crate::lock::lock;

/// Entries of each list in memory.
const MOST: usize = 1000;
/// The longest name and path of an entry, in characters.
const LONGEST_NAME: usize = 64;
const LONGEST_PATH: usize = 256;
/// Log lines for refused unauthenticated requests, within a time.
const LINES: u32 = 20;
const WINDOW: Duration = Duration::from_secs(10);

/// A request that changed something, or tried to.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct AuditEntry {
    /// Seconds since 1970; if it stands for several requests, the time of the last.
    at: f64,
    /// A user or a token; none where no login is configured.
    user: Option<String>,
    from: String,
    method: String,
    path: String,
    /// The answer's status; none if the client did not wait for it.
    status: Option<u16>,
    /// How many such requests of this address were refused; this is the last of them.
    times: u64,
    #[serde(skip)]
    order: u64,
}

/// The list to which an entry belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Requester {
    /// A sender with the role that the request needs.
    Permitted,
    /// A logged-in sender without that role.
    Authenticated,
    /// An unauthenticated sender.
    Anonymous(IpAddr),
}

/// The last entries; cheap to clone.
#[derive(Clone)]
pub(crate) struct Audit {
    entries: Arc<Mutex<AuditLog>>,
    workers: Workers,
}

#[derive(Default)]
struct AuditLog {
    next: u64,
    done: VecDeque<AuditEntry>,
    refused: VecDeque<AuditEntry>,
    /// With the network of each sender.
    unknown: VecDeque<(IpAddr, AuditEntry)>,
    lines: LineLimit,
}

/// How many more lines of one kind are logged.
#[derive(Default)]
struct LineLimit {
    since: Option<Instant>,
    written: u32,
    left_out: u64,
}

/// A request under way. Dropping it writes its entry.
pub(crate) struct PendingEntry {
    audit: Audit,
    of: Requester,
    entry: AuditEntry,
}

impl Audit {
    pub(crate) fn new(workers: Workers) -> Audit {
        Audit { entries: Arc::default(), workers }
    }

    /// A request begins; its sender has shown no login yet.
    pub(crate) fn begin(&self, from: IpAddr, method: &Method, uri: &Uri) -> PendingEntry {
        let at = clock::now().as_secs_f64();
        let (method, path) = (shown(method.as_str(), LONGEST_NAME), shown(uri.path(), LONGEST_PATH));
        let of = Requester::Anonymous(network(from));
        let from = from.to_canonical().to_string();
        let entry = AuditEntry { at, user: None, from, method, path, status: None, times: 1, order: 0 };
        PendingEntry { audit: self.clone(), of, entry }
    }

    /// A change that Weir made by itself, under this name.
    pub(crate) fn note(&self, by: &str, path: &str, status: StatusCode) {
        let entry = AuditEntry {
            at: clock::now().as_secs_f64(),
            user: Some(by.to_owned()),
            from: "itself".to_owned(),
            method: Method::POST.to_string(),
            path: shown(path, LONGEST_PATH),
            status: Some(status.as_u16()),
            times: 1,
            order: 0,
        };
        self.write(Requester::Permitted, entry);
    }

    /// The last entries, the newest first.
    pub(crate) fn last(&self, most: usize) -> Vec<AuditEntry> {
        let entries = lock(&self.entries);
        let unknown = entries.unknown.iter().map(|(_, entry)| entry);
        let mut all: Vec<&AuditEntry> = entries.done.iter().chain(&entries.refused).chain(unknown).collect();
        all.sort_unstable_by_key(|entry| std::cmp::Reverse(entry.order));
        all.into_iter().take(most).cloned().collect()
    }

    fn write(&self, of: Requester, entry: AuditEntry) {
        let user = entry.user.as_deref().unwrap_or("(no login)");
        let outcome = entry.status.map_or("nobody waited".to_owned(), |status| status.to_string());
        let AuditEntry { from, method, path, .. } = &entry;
        let line = format!("control plane: {user} from {from}: {method} {path}: {outcome}");
        let mut entries = lock(&self.entries);
        let logged = !matches!(of, Requester::Anonymous(_)) || entries.lines.take(Instant::now());
        let left_out = if logged { std::mem::take(&mut entries.lines.left_out) } else { 0 };
        entries.keep(of, entry);
        drop(entries);
        if left_out > 0 {
            self.workers.log(format!("control plane: {left_out} more requests without a login were refused"));
        }
        if logged {
            self.workers.log(line);
        }
    }
}

impl AuditLog {
    fn keep(&mut self, of: Requester, mut entry: AuditEntry) {
        self.next += 1;
        entry.order = self.next;
        let refused = entry.status.is_some_and(|status| status >= 400);
        match of {
            Requester::Permitted if !refused => push(&mut self.done, entry),
            Requester::Permitted | Requester::Authenticated => push(&mut self.refused, entry),
            Requester::Anonymous(network) => {
                let same = |(of, one): &(IpAddr, AuditEntry)| *of == network && one.status == entry.status;
                if let Some(at) = self.unknown.iter().position(same) {
                    entry.times += self.unknown.remove(at).map_or(0, |(_, before)| before.times);
                }
                push(&mut self.unknown, (network, entry));
            }
        }
    }
}

fn push<T>(ring: &mut VecDeque<T>, entry: T) {
    if ring.len() >= MOST {
        ring.pop_front();
    }
    ring.push_back(entry);
}

impl LineLimit {
    /// Whether one more line is logged.
    fn take(&mut self, now: Instant) -> bool {
        if self.since.is_none_or(|since| now >= since + WINDOW) {
            (self.since, self.written) = (Some(now), 0);
        }
        if self.written < LINES {
            self.written += 1;
            return true;
        }
        self.left_out += 1;
        false
    }
}

impl PendingEntry {
    /// The sender is logged in; `admitted`: it has the role.
    pub(crate) fn by(mut self, user: Option<&str>, admitted: bool) -> PendingEntry {
        self.of = if admitted { Requester::Permitted } else { Requester::Authenticated };
        self.claims(user);
        self
    }

    /// The sender claims to be this user; not proven.
    pub(crate) fn claims(&mut self, user: Option<&str>) {
        self.entry.user = user.map(|user| shown(user, LONGEST_NAME));
    }

    /// The status of the answer.
    pub(crate) fn ends(mut self, status: StatusCode) {
        self.entry.status = Some(status.as_u16());
    }
}

/// A client's text, cut to `most` characters and escaped.
fn shown(text: &str, most: usize) -> String {
    let text: String = text.chars().take(most).collect();
    Printable(&text).to_string()
}

impl Drop for PendingEntry {
    fn drop(&mut self) {
        self.audit.write(self.of, self.entry.clone());
    }
}
