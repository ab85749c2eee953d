//! The audit log: who changed what, from where, and the result. The last entries are kept, all changes are in the log.
//!
//! An entry is written when its request ends, also when the client did not wait for the answer. It never contains a
//! body, so no secret; text from clients is escaped here. Three lists are separate, so that refused requests remove no
//! entry of a change: what was done, what was refused to a known user, and what was refused to an unauthenticated
//! client. The last are counted by address, only some of them are logged, and none reaches the disk; the first two
//! lists survive a restart in the folder of `[web] history`. Old and new values are those of the version that the
//! request made (`versions`), which has its number.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::http::{Method, StatusCode, Uri};
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use weir_admin::ConsoleDeed;
use weir_base::Printable;
use weir_http::network;
use weir_monitor::{Journal, JournalBounds, Workers, lock};

/// Entries of each list, and the bytes of those on disk.
const MOST: usize = 1000;
const BOUNDS: JournalBounds = JournalBounds { records: MOST, bytes: 1 << 20 };
/// The longest name and path of an entry, in characters.
const LONGEST_NAME: usize = 64;
const LONGEST_PATH: usize = 256;
/// The method of what was done at the console.
const CONSOLE: &str = "CONSOLE";
/// Log lines for refused unauthenticated requests, within a time.
const LINES: u32 = 20;
const WINDOW: Duration = Duration::from_secs(10);

/// A request that changed something, or tried to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct AuditEntry {
    /// Seconds since 1970; if it stands for several requests, the time of the last.
    pub(crate) at: f64,
    /// A user or a token; none where no login is configured.
    pub(crate) user: Option<String>,
    pub(crate) from: String,
    pub(crate) method: String,
    pub(crate) path: String,
    /// The answer's status; none if the client did not wait for it.
    pub(crate) status: Option<u16>,
    /// How many such requests of this address were refused; this is the last of them.
    pub(crate) times: u64,
    /// The number of the request, also after a restart: later ones have greater numbers.
    pub(crate) request: u64,
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
    known: Arc<Lists>,
    unknown: Arc<Mutex<Unknown>>,
    next: Arc<AtomicU64>,
    /// The last command of the console: see [`ConsoleDeed::at`].
    console: Arc<AtomicU64>,
    workers: Workers,
}

/// The entries of known users.
struct Lists {
    done: Journal<AuditEntry>,
    refused: Journal<AuditEntry>,
}

#[derive(Default)]
struct Unknown {
    /// With the network of each sender.
    entries: VecDeque<(IpAddr, AuditEntry)>,
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
    /// With the entries of earlier processes in a folder, if there is one.
    pub(crate) fn new(workers: Workers, folder: Option<&Path>) -> Audit {
        let list = |name| Journal::open(folder, name, BOUNDS);
        let known = Arc::new(Lists { done: list("audit.done"), refused: list("audit.refused") });
        let next = Arc::new(AtomicU64::new(weir_monitor::now().as_micros() as u64));
        Audit { known, unknown: Arc::default(), next, console: Arc::default(), workers }
    }

    /// A request begins; its sender has shown no login yet.
    pub(crate) fn begin(&self, from: IpAddr, method: &Method, uri: &Uri) -> PendingEntry {
        let at = weir_monitor::now().as_secs_f64();
        let (method, path) = (shown(method.as_str(), LONGEST_NAME), shown(uri.path(), LONGEST_PATH));
        let of = Requester::Anonymous(network(from));
        let from = from.to_canonical().to_string();
        let request = self.number();
        let entry = AuditEntry { at, user: None, from, method, path, status: None, times: 1, request };
        PendingEntry { audit: self.clone(), of, entry }
    }

    /// A number for a request, or a change that Weir makes by itself.
    pub(crate) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// A change that Weir made by itself, under this name and [`number`](Audit::number).
    pub(crate) fn note(&self, by: &str, path: &str, status: StatusCode, request: u64) {
        let entry = AuditEntry {
            at: weir_monitor::now().as_secs_f64(),
            user: Some(by.to_owned()),
            from: "itself".to_owned(),
            method: Method::POST.to_string(),
            path: shown(path, LONGEST_PATH),
            status: Some(status.as_u16()),
            times: 1,
            request,
        };
        self.write(Requester::Permitted, entry);
    }

    /// Takes in what operators have changed at the console: those that are new.
    pub(crate) fn take_console(&self, deeds: &[ConsoleDeed]) {
        for deed in deeds {
            if self.console.fetch_max(deed.at, Ordering::Relaxed) >= deed.at {
                continue;
            }
            let entry = AuditEntry {
                at: deed.at as f64 / 1e6,
                user: Some(shown(&deed.user, LONGEST_NAME)),
                from: deed.from.clone(),
                method: CONSOLE.to_owned(),
                path: shown(&console_path(deed), LONGEST_PATH),
                status: Some(StatusCode::OK.as_u16()),
                times: 1,
                request: self.number(),
            };
            // The log has the command already.
            self.keep(Requester::Permitted, entry);
        }
    }

    /// All entries, the newest first.
    pub(crate) fn all(&self) -> Vec<AuditEntry> {
        let copy = |list: &Journal<AuditEntry>| list.newest_first(|entries| entries.cloned().collect::<Vec<_>>());
        let mut all = copy(&self.known.done);
        all.extend(copy(&self.known.refused));
        all.extend(lock(&self.unknown).entries.iter().map(|(_, entry)| entry.clone()));
        all.sort_unstable_by_key(|entry| std::cmp::Reverse(entry.request));
        all
    }

    /// Why the entries will not survive a restart; none if they will.
    pub(crate) fn why_not_persisted(&self) -> Option<String> {
        self.known.done.why_not_persisted().or_else(|| self.known.refused.why_not_persisted())
    }

    /// The error of the disk, if the last entries could not be written, after another try.
    pub(crate) fn retry(&self) -> Option<String> {
        let (done, refused) = (self.known.done.retry(), self.known.refused.retry());
        done.or(refused)
    }

    fn write(&self, of: Requester, entry: AuditEntry) {
        let user = entry.user.as_deref().unwrap_or("(no login)");
        let outcome = entry.status.map_or("nobody waited".to_owned(), |status| status.to_string());
        let AuditEntry { from, method, path, .. } = &entry;
        let line = format!("control plane: {user} from {from}: {method} {path}: {outcome}");
        let (logged, left_out) = {
            let mut unknown = lock(&self.unknown);
            let logged = !matches!(of, Requester::Anonymous(_)) || unknown.lines.take(Instant::now());
            (logged, if logged { std::mem::take(&mut unknown.lines.left_out) } else { 0 })
        };
        self.keep(of, entry);
        if left_out > 0 {
            self.workers.log(format!("control plane: {left_out} more requests without a login were refused"));
        }
        if logged {
            self.workers.log(line);
        }
    }

    fn keep(&self, of: Requester, entry: AuditEntry) {
        let refused = entry.status.is_some_and(|status| status >= 400);
        let to_write = match of {
            Requester::Permitted if !refused => self.known.done.push(entry),
            Requester::Permitted | Requester::Authenticated => self.known.refused.push(entry),
            Requester::Anonymous(network) => return lock(&self.unknown).keep(network, entry),
        };
        if !to_write {
            return;
        }
        let known = self.known.clone();
        // `faults` reports an error.
        let write = move || {
            known.done.write_out();
            known.refused.write_out();
        };
        // A disk may be slow, and must not delay other requests.
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(write)),
            Err(_) => write(),
        }
    }
}

impl Unknown {
    fn keep(&mut self, network: IpAddr, mut entry: AuditEntry) {
        let same = |(of, one): &(IpAddr, AuditEntry)| *of == network && one.status == entry.status;
        if let Some(at) = self.entries.iter().position(same) {
            entry.times += self.entries.remove(at).map_or(0, |(_, before)| before.times);
        }
        push(&mut self.entries, (network, entry));
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

    /// The number of the request.
    pub(crate) fn request(&self) -> u64 {
        self.entry.request
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

/// The path of the request that does the same as a command of the console, so that both have the same words.
fn console_path(deed: &ConsoleDeed) -> String {
    let act = deed.command.to_ascii_lowercase().replace(['_', ' '], "-");
    match &deed.object {
        Some(id) if deed.command == "KILL_CLIENT" => format!("/api/v1/clients/{id}"),
        Some(pool) => format!("/api/v1/pools/{}/{act}", encoded(pool)),
        None => format!("/api/v1/{act}"),
    }
}

/// A name as a part of a path.
fn encoded(name: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(byte);
    name.bytes().map(|byte| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
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

#[cfg(test)]
mod tests {
    use weir_admin::{Control, ControlRequest, Deliver};

    use super::*;

    struct Ended;

    impl Control for Ended {
        fn ask(&self, _: ControlRequest, _: Deliver) -> u64 {
            0
        }

        fn forget(&self, _: u64) {}
    }

    #[test]
    fn what_was_changed_at_the_console_is_an_entry_once_with_its_user_and_address() {
        let audit = Audit::new(Workers::new(Arc::new(Ended)), None);
        let deed = |at, command, object: Option<&str>| ConsoleDeed {
            at,
            user: "admin".to_owned(),
            from: "127.0.0.1".to_owned(),
            command,
            object: object.map(str::to_owned),
        };
        let mut deeds = vec![deed(1_000_000, "PAUSE", Some("my shop"))];
        audit.take_console(&deeds);
        deeds.extend([deed(2_000_000, "KILL_CLIENT", Some("7")), deed(3_000_000, "SUSPEND", None)]);
        audit.take_console(&deeds);
        let said = |of: &AuditEntry| (of.at, of.path.clone());
        let paths = ["/api/v1/suspend", "/api/v1/clients/7", "/api/v1/pools/my%20shop/pause"];
        let found = audit.all();
        assert_eq!(
            found.iter().map(said).collect::<Vec<_>>(),
            [(3.0, paths[0].to_owned()), (2.0, paths[1].to_owned()), (1.0, paths[2].to_owned())]
        );
        let who = (found[2].user.as_deref(), found[2].from.as_str(), found[2].method.as_str(), found[2].status);
        assert_eq!(who, (Some("admin"), "127.0.0.1", CONSOLE, Some(200)));
    }
}
