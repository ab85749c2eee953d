//! Why a pool is slow now: what holds its servers, what is blocked behind that, and which clients wait.
//!
//! Pure functions of what Weir knows of its connections and what the pool's server shows. Only what runs and waits at
//! this moment counts; averages and sizes do not.

mod chains;
mod gather;
mod process;

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use weir_admin::{
    Activity, ClientNames, Finding, Health, LockWait, PinCounts, PoolHealth, SocketRecord, identifier, quoted,
};
use weir_base::{PoolMode, plural};

use crate::activity_probe::ProbedActivity;
use crate::pool_health::Affected;
use crate::words::span;
use chains::chains;
pub use gather::current;
pub(crate) use gather::{POOLS, Suspects, Unseen};
pub use process::ProcessKey;
pub(crate) use process::{Client, Process};

/// From this time on, a query, a transaction or a wait is long: in seconds.
pub(crate) const LONG: f64 = 1.0;
/// The most holders, blocked backends of a holder, and waiting clients that are listed.
const LISTED: usize = 50;
/// From this share of the servers in use on, they are the cause.
const HALF: f64 = 0.5;

/// The connections of a pool at a moment.
#[derive(Default)]
pub(crate) struct PoolNow {
    pub(crate) name: String,
    pub(crate) size: u32,
    pub(crate) mode: PoolMode,
    /// Servers that have a client.
    pub(crate) servers: Vec<SocketRecord>,
    /// Clients that have a server or wait for one.
    pub(crate) clients: Vec<SocketRecord>,
    /// Microseconds since 1970.
    pub(crate) at: u64,
    /// The worst of the pool's states, and whether that is the cause by itself: the server is away, or an operator has
    /// paused the pool.
    pub(crate) health: PoolHealth,
    pub(crate) explained: bool,
    /// A limit of Weir that pools share and that is reached, with its value: `max_user_connections = 2 of user app`.
    pub(crate) limit: Option<String>,
}

/// Why a pool is slow.
#[derive(Clone, Debug, Serialize)]
pub struct Incident {
    /// The pool's name.
    pub pool: String,
    /// The kind of the cause.
    pub cause: IncidentCause,
    /// The cause in a few words: those of the pool's health, where that is the cause.
    pub title: &'static str,
    /// The cause in a sentence, with its figures.
    pub text: String,
    /// What to do.
    pub advice: &'static str,
    /// How long the longest query, transaction or wait of the pool has lasted.
    pub seconds: f64,
    /// Clients that wait for a server.
    pub clients_waiting: usize,
    /// Clients that wait for a server or for a lock, and the users and applications with the most of them.
    clients_affected: usize,
    affected: Vec<Affected>,
    oldest_wait_seconds: f64,
    size: u32,
    servers_in_use: usize,
    seen: Seen,
    holders: Vec<Holder>,
    waiting: Vec<Client>,
    /// Whether the pool's health is the cause by itself.
    #[serde(skip)]
    explained: bool,
}

/// The cause of an incident.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum IncidentCause {
    /// A backend holds a lock that queries of the pool wait for.
    Blocked,
    /// Commits wait for a synchronous standby, with their locks.
    Unconfirmed,
    /// Clients hold servers in transactions in which they send nothing.
    IdleInTransaction,
    /// In session mode: clients hold servers between their transactions.
    IdleSessions,
    /// Clients keep servers between their transactions for the state that they have left there.
    Pins,
    /// Clients do not read the results of their queries, and so hold servers.
    UnreadResults,
    /// One application has most of the servers, with long queries.
    OneApplication,
    /// Long queries have all servers.
    LongQueries,
    /// The server gives no answer, can't be reached, or rejects the login: the state of the pool's health says which.
    ServerDown,
    /// Queries end in errors of the server.
    Failing,
    /// An operator has paused the pool.
    Paused,
    /// Queries take far longer than before, and no other cause is seen.
    Slow,
    /// Fewer servers are open than the pool may have: for a reason that its health has, or that is not known.
    FewerServers,
}

/// What the pool's server showed.
#[derive(Clone, Debug, Serialize)]
struct Seen {
    /// The user that looked.
    by: Option<String>,
    /// Whether the user may see what all backends do.
    complete: bool,
    /// Why the user may not see what all backends do.
    reason: Option<String>,
}

/// A backend that holds something up.
#[derive(Clone, Debug, Serialize)]
struct Holder {
    #[serde(flatten)]
    process: Process,
    /// The backends that wait for its locks, directly or behind others, the longest first.
    blocks: Vec<Process>,
    /// How many these are, listed or not.
    blocks_total: usize,
    /// The one of them behind which most others wait that the holder itself does not block, and how many these are.
    #[serde(skip)]
    queued: Option<(Process, usize)>,
}

impl PoolNow {
    /// Whether something lasts long, so that the pool's server is worth a look.
    pub(crate) fn is_suspect(&self) -> bool {
        let since = |at: Option<u64>| at.map_or(0.0, |at| self.at.saturating_sub(at) as f64 / 1e6);
        let long = |server: &SocketRecord| since(server.query_time).max(since(server.transaction_time)) >= LONG;
        self.servers.iter().any(long) || self.oldest_wait() >= LONG
    }

    /// Whose clients have the most of the servers, as the end of a sentence.
    fn most_servers(&self) -> String {
        let names = self.servers.iter().filter_map(|server| {
            let client = self.clients.iter().find(|client| server.link == Some(client.ptr))?;
            Some(client.application_name.as_str())
        });
        let Some((name, count)) = most_of(names) else { return String::new() };
        let servers = plural(self.servers.len() as u64, "server in use", "servers in use");
        format!("; {} has {count} of {servers}", quoted(name))
    }

    pub(crate) fn oldest_wait(&self) -> f64 {
        self.waiting().map(|client| client.wait.micros() as f64 / 1e6).fold(0.0, f64::max)
    }

    fn waiting(&self) -> impl Iterator<Item = &SocketRecord> {
        self.clients.iter().filter(|client| client.state == "waiting")
    }
}

/// The incident of a pool, if there is one.
pub(crate) fn incident(of: &PoolNow, look: Option<&ProbedActivity>) -> Option<Incident> {
    let activity = look.and_then(|look| look.as_ref().as_ref().ok());
    let holders = holders(of, activity);
    let mut waiting: Vec<Client> = of.waiting().map(Client::of).collect();
    waiting.sort_by(|a, b| b.wait_seconds.total_cmp(&a.wait_seconds));
    let clients_waiting = waiting.len();
    let blocked = holders.iter().flat_map(|holder| &holder.blocks).filter_map(|process| process.client.as_ref());
    let (mut affected, mut clients_affected) = (ClientNames::default(), 0);
    for client in waiting.iter().chain(blocked.clone()) {
        affected.count(&client.user, &client.application_name, 1);
        clients_affected += 1;
    }
    waiting.truncate(LISTED);
    let (cause, text) = if of.explained {
        let cause = match of.health.state {
            Health::Paused => IncidentCause::Paused,
            Health::Failing => IncidentCause::Failing,
            Health::CannotGrow => IncidentCause::FewerServers,
            _ => IncidentCause::ServerDown,
        };
        // Also those that were refused, and those whose server is away.
        clients_affected = clients_affected.max(of.health.clients() as usize);
        affected = if of.health.affected.is_empty() { affected } else { of.health.affected.clone() };
        (cause, explained(&of.health, clients_waiting, of.oldest_wait()))
    } else {
        cause(of, &holders, clients_waiting).or_else(|| slow(&of.health))?
    };
    if cause == IncidentCause::Slow && clients_affected == 0 {
        (clients_affected, affected) = (of.health.clients() as usize, of.health.affected.clone());
    }
    let (title, advice) = match cause {
        _ if of.explained => (of.health.state.name(), of.health.advice()),
        IncidentCause::Slow => (cause.words(), of.health.advice()),
        IncidentCause::Blocked => (cause.words(), holders.first().map_or("", Holder::advice)),
        IncidentCause::FewerServers if of.limit.is_some() => {
            (cause.words(), "Raise this limit of Weir, or lower what else uses it. A larger size changes nothing.")
        }
        _ => (cause.words(), cause.advice()),
    };
    let since = of.health.since;
    let lasts = if (of.explained || cause == IncidentCause::Slow) && since > 0 {
        of.at.saturating_sub(since) as f64 / 1e6
    } else {
        of.oldest_wait()
    };
    let seconds = holders.iter().flat_map(|holder| holder.blocks.iter().chain([&holder.process]));
    Some(Incident {
        pool: of.name.clone(),
        cause,
        title,
        text,
        advice,
        seconds: seconds.map(Process::seconds).fold(lasts, f64::max),
        clients_waiting,
        clients_affected,
        affected: Affected::most(&affected),
        oldest_wait_seconds: of.oldest_wait(),
        size: of.size,
        servers_in_use: of.servers.len(),
        seen: Seen::of(look),
        holders,
        waiting,
        explained: of.explained,
    })
}

impl Incident {
    /// What the workers are to know of the incident: who holds the lock, or the servers. None where the pool's health
    /// says it already.
    pub(crate) fn finding(&self, at: u64) -> Option<Finding> {
        if self.explained || self.cause == IncidentCause::Slow {
            return None;
        }
        let is_lock = matches!(self.cause, IncidentCause::Blocked | IncidentCause::Unconfirmed);
        let lock = is_lock.then(|| self.lock_wait(at));
        Some(Finding::new(at, lock, &self.text, self.advice))
    }

    fn lock_wait(&self, at: u64) -> LockWait {
        let commits = || unconfirmed(&self.holders);
        let longest =
            self.holders.iter().map(Holder::longest).chain(commits().map(Process::seconds)).fold(0.0, f64::max);
        let mut lock = LockWait { since: at.saturating_sub((longest * 1e6) as u64), ..LockWait::default() };
        let behind = self.holders.iter().flat_map(|holder| &holder.blocks).chain(commits());
        for client in behind.filter_map(|process| process.client.as_ref()) {
            lock.clients += 1;
            lock.names.count(&client.user, &client.application_name, 1);
        }
        lock
    }
}

/// Backends that hold locks, then servers with long queries and transactions; in both groups the longest first.
fn holders(of: &PoolNow, activity: Option<&Activity>) -> Vec<Holder> {
    let clients: HashMap<u64, &SocketRecord> = of.clients.iter().map(|client| (client.ptr, client)).collect();
    let servers: BTreeMap<u32, &SocketRecord> = of.servers.iter().map(|server| (server.remote_pid, server)).collect();
    let backends = activity.map_or(&[][..], |activity| &activity.backends);
    let process = |process_id: u32| {
        let backend = backends.iter().find(|backend| backend.key.process_id == process_id);
        let shown = backend.map_or_else(|| Process::unknown(process_id), Process::shown);
        match servers.get(&process_id) {
            Some(server) => shown.linked(server, server.link.and_then(|link| clients.get(&link).copied()), of.at),
            None => shown,
        }
    };
    let ours = |process_id: &u32| servers.contains_key(process_id);
    let chains: Vec<_> =
        chains(backends).into_iter().filter(|chain| ours(&chain.holder) || chain.blocked.iter().any(ours)).collect();
    let mut holders: Vec<Holder> = chains
        .iter()
        .map(|chain| Holder::new(process(chain.holder), chain.blocked.iter().map(|one| process(*one)).collect()))
        .collect();
    holders.sort_by(|a, b| b.longest().total_cmp(&a.longest()));
    let involved = |one: &u32| chains.iter().any(|chain| chain.holder == *one || chain.blocked.contains(one));
    let mut others: Vec<Process> = servers
        .keys()
        .filter(|one| !involved(one))
        .map(|one| process(*one))
        .filter(|one| one.lasts() >= LONG)
        .collect();
    others.sort_by(|a, b| b.lasts().total_cmp(&a.lasts()));
    holders.extend(others.into_iter().map(|process| Holder::new(process, Vec::new())));
    holders.truncate(LISTED);
    holders
}

/// The backends whose commit waits for a standby.
fn unconfirmed(holders: &[Holder]) -> impl Iterator<Item = &Process> {
    holders.iter().map(|holder| &holder.process).filter(|process| process.is_unconfirmed())
}

/// The sentence about commits that do not end, as no standby confirms them.
fn commits_wait(holders: &[Holder], waiting: usize) -> Option<String> {
    let commits: Vec<&Process> = unconfirmed(holders).filter(|process| process.seconds() >= LONG).collect();
    let longest = commits.iter().map(|process| process.seconds()).reduce(f64::max)?;
    let queue = if waiting > 0 { format!("; {} for a server", clients_wait(waiting)) } else { String::new() };
    Some(format!(
        "{} {} for a synchronous standby (SyncRep), the first for {}{queue}.",
        plural(commits.len() as u64, "commit", "commits"),
        if commits.len() == 1 { "waits" } else { "wait" },
        span(longest)
    ))
}

/// The cause and its sentence, by what is worst: commits that do not end, a lock, an idle holder, long queries, missing servers.
fn cause(of: &PoolNow, holders: &[Holder], waiting: usize) -> Option<(IncidentCause, String)> {
    if let Some(text) = commits_wait(holders, waiting) {
        return Some((IncidentCause::Unconfirmed, text));
    }
    // A lock that is held for a moment is as usual as a queue of a moment.
    if let Some(holder) = holders.iter().find(|holder| holder.blocks_total > 0 && holder.longest() >= LONG) {
        return Some((IncidentCause::Blocked, holder.sentence(waiting)));
    }
    // A wait of a moment is what a queue is for.
    if waiting == 0 || of.oldest_wait() < LONG {
        return None;
    }
    let wait = format!("{} for a server, the first for {}", clients_wait(waiting), span(of.oldest_wait()));
    let (all, long) = (of.servers.len() as f64, || holders.iter().map(|holder| &holder.process));
    let idle: Vec<&Process> = long().filter(|process| process.idles()).collect();
    if of.mode != PoolMode::Session && !idle.is_empty() && idle.len() as f64 >= all * HALF {
        let first = idle[0];
        let names = idle.iter().filter_map(|process| process.client.as_ref());
        let most = most_of(names.map(|client| client.application_name.as_str()));
        let most = most.map(|(name, count)| format!(", {count} of them {}", quoted(name))).unwrap_or_default();
        let text = format!(
            "{wait}; {} of {} {} idle in transactions{most}, the longest {}, for {}.",
            idle.len(),
            plural(of.servers.len() as u64, "server in use", "servers in use"),
            if idle.len() == 1 { "is" } else { "are" },
            first.owner(),
            span(first.seconds())
        );
        return Some((IncidentCause::IdleInTransaction, text));
    }
    let idle =
        of.servers.iter().filter(|server| server.query_time.is_none() && server.transaction_time.is_none()).count();
    if of.mode == PoolMode::Session && idle > 0 && idle as f64 >= all * HALF {
        let text = format!(
            "{wait}; {idle} of {} idle in sessions.",
            plural(of.servers.len() as u64, "server in use", "servers in use")
        );
        return Some((IncidentCause::IdleSessions, text));
    }
    if let Some(text) = pins(of) {
        return Some((IncidentCause::Pins, format!("{wait}; {text}.")));
    }
    if let Some(limit) = &of.limit {
        return Some((IncidentCause::FewerServers, format!("{wait}: {limit} is reached{}.", of.most_servers())));
    }
    if of.size > 0 && of.servers.len() < of.size as usize {
        let are = if of.servers.len() == 1 { "is" } else { "are" };
        let text = format!("{wait}, and only {} of {} servers {are} in use.", of.servers.len(), of.size);
        return Some((IncidentCause::FewerServers, text));
    }
    // If some servers end their work soon, the queue moves, and its length is a matter of sizes.
    if (long().count() as f64) < all * 0.9 || holders.is_empty() {
        return None;
    }
    let unread: Vec<&Process> = long().filter(|process| process.is_unread()).collect();
    if let Some(first) = unread.first().filter(|_| unread.len() as f64 >= all * HALF) {
        let (text, owner) = (format!("{wait}; {} of {}", unread.len(), of.servers.len()), first.owner());
        let longest = span(first.seconds());
        return Some((
            IncidentCause::UnreadResults,
            format!(
                "{text} servers have results that their clients do not read, the longest of {owner}, for {longest}."
            ),
        ));
    }
    let most = most_of(long().filter_map(|process| process.client.as_ref()).map(|it| it.application_name.as_str()));
    // Where it is alone, nobody else waits for it.
    let alone = most.is_some_and(|(name, _)| of.clients.iter().all(|client| client.application_name == name));
    let longest = format!(
        "the longest query, of {}, runs for {}",
        holders[0].process.owner(),
        span(holders[0].process.seconds())
    );
    match most {
        Some((name, count)) if !alone && count > 1 && count as f64 > all * HALF => Some((
            IncidentCause::OneApplication,
            format!("{wait}; {} has {count} of {} servers; {longest}.", quoted(name), of.servers.len()),
        )),
        _ => Some((
            IncidentCause::LongQueries,
            match of.servers.len() {
                1 => format!("{wait}; the only server runs a long query; {longest}."),
                servers => format!("{wait}; all {servers} servers run long queries; {longest}."),
            },
        )),
    }
}

/// The name of most, and how many these are; none where that is the empty one.
fn most_of<'n>(names: impl Iterator<Item = &'n str>) -> Option<(&'n str, usize)> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    names.for_each(|name| *counts.entry(name).or_default() += 1);
    counts.into_iter().max_by_key(|(_, count)| *count).filter(|(name, _)| !name.is_empty())
}

/// What is said of servers that idle clients keep for the state that they have left there, where that is most servers:
/// `4 of 5 servers in use are kept by idle clients for what they have left there (listen: 4), most by "jobs" of shop (3), the
/// longest for 2 min`.
fn pins(of: &PoolNow) -> Option<String> {
    let kept = || of.servers.iter().filter_map(|server| Some((server.link?, server.pinned.as_deref()?)));
    let mut counts = PinCounts::default();
    let mut names = ClientNames::default();
    for (link, pin) in kept().filter(|(_, pin)| pin.idle_since.is_some()) {
        counts.count_record(pin);
        if let Some(client) = of.clients.iter().find(|client| client.ptr == link) {
            names.count(&client.user, &client.application_name, 1);
        }
    }
    if counts.clients == 0 || f64::from(counts.clients) < of.servers.len() as f64 * HALF {
        return None;
    }
    let most = names.most(1).pop().map(|most| {
        let name = match most.application_name.as_str() {
            "" => "clients without a name".to_owned(),
            name => quoted(name),
        };
        format!(", most by {name} of {} ({})", identifier(&most.user), most.clients)
    });
    let idle = kept().filter_map(|(_, pin)| Some(of.at.saturating_sub(pin.idle_since?) as f64 / 1e6));
    let longest = idle.fold(0.0, f64::max);
    Some(format!(
        "{} of {} are kept by idle clients for what they have left there ({}){}, the longest for {}",
        counts.clients,
        plural(of.servers.len() as u64, "server in use", "servers in use"),
        counts.in_words(),
        most.unwrap_or_default(),
        span(longest)
    ))
}

/// A state of health as the cause, in its own words.
fn explained(health: &PoolHealth, waiting: usize, wait: f64) -> String {
    let unanswered = health.unanswered as usize;
    let mut parts = Vec::new();
    if waiting > 0 {
        parts.push(format!("{} for a server, the first for {}", clients_wait(waiting), span(wait)));
    }
    if unanswered > 0 {
        parts.push(format!("{} no answer", plural(unanswered as u64, "client gets", "clients get")));
    }
    let clients = if parts.is_empty() { String::new() } else { format!("; {}", parts.join(", ")) };
    match &health.error {
        Some(error) => {
            format!("The pool is in the state \"{}\": {} ({}){clients}.", health.state, error.message, error.sqlstate)
        }
        None => format!("The pool is in the state \"{}\"{clients}.", health.state),
    }
}

/// That the pool's queries are slow, in the words of its health.
fn slow(health: &PoolHealth) -> Option<(IncidentCause, String)> {
    let is_slow = health.state == Health::Slow;
    is_slow.then(|| {
        (IncidentCause::Slow, health.cause().unwrap_or_else(|| "Queries take far longer than before.".to_owned()))
    })
}

fn clients_wait(count: usize) -> String {
    format!("{} {}", plural(count as u64, "client", "clients"), if count == 1 { "waits" } else { "wait" })
}

impl Holder {
    fn new(process: Process, mut blocks: Vec<Process>) -> Holder {
        blocks.sort_by(|a, b| b.seconds().total_cmp(&a.seconds()));
        let (blocks_total, queued) = (blocks.len(), queued(&process, &blocks));
        blocks.truncate(LISTED);
        Holder { process, blocks, blocks_total, queued }
    }

    /// What to do about the holder's lock.
    fn advice(&self) -> &'static str {
        let process = &self.process;
        if self.queued.is_some() {
            return "A larger pool would be blocked as well. Cancel the query that the others wait behind: they go on at once. Then \
                    end the transaction that holds the lock, and run that query again.";
        }
        match (process.process_id, process.client.is_some(), process.idles()) {
            (0, ..) => {
                "A larger pool would be blocked as well. End the prepared transaction on the server, with COMMIT PREPARED or \
                 ROLLBACK PREPARED: pg_prepared_xacts lists it."
            }
            (_, true, true) => {
                "A larger pool would be blocked as well. Let the holder end its transaction, drop its client, or terminate \
                 its backend. If the application often leaves transactions open, set idle_transaction_timeout."
            }
            (_, true, false) => {
                "A larger pool would be blocked as well. Wait until the holder's query has ended, cancel it, drop its client, \
                 or terminate its backend."
            }
            _ if process.is_hidden() => {
                "A larger pool would be blocked as well. The holder is not a client of this pool, whose user may not end it: \
                 let its owner end its transaction, or terminate it on the server (pg_terminate_backend)."
            }
            _ => {
                "A larger pool would be blocked as well. The holder is not a client of this pool: let its owner end its \
                 transaction, or terminate its backend."
            }
        }
    }

    fn longest(&self) -> f64 {
        self.blocks.iter().map(Process::seconds).fold(0.0, f64::max)
    }

    fn sentence(&self, waiting: usize) -> String {
        let process = &self.process;
        let what = match process.process_id {
            0 => "a prepared transaction, which pg_prepared_xacts shows".to_owned(),
            pid if process.of_pool || !process.user.is_empty() => format!("process {pid} ({})", process.owner()),
            pid => format!("process {pid}"),
        };
        let does = match (process.idles(), process.state.as_deref(), process.transaction_seconds) {
            (true, ..) => format!(", idle in its transaction for {}", span(process.seconds())),
            (_, Some("active"), _) => format!(", whose query runs for {}", span(process.seconds())),
            (_, _, Some(seconds)) => format!(", {} into its transaction", span(seconds)),
            _ => String::new(),
        };
        let queries = plural(self.blocks_total as u64, "query waits", "queries wait");
        let longest = span(self.longest());
        let clients = if waiting > 0 { format!(", and {} for a server", clients_wait(waiting)) } else { String::new() };
        if let Some((first, behind)) = &self.queued {
            let behind = plural(*behind as u64, "query waits", "queries wait");
            let (pid, owner, waited) = (first.process_id, first.owner(), span(first.seconds()));
            return format!(
                "Blocked: {behind} behind process {pid} ({owner}), whose query has itself waited for {waited} for a lock of \
                 {what}{does}{clients}."
            );
        }
        format!("Blocked by {what}{does}: {queries} for its locks, the first for {longest}{clients}.")
    }
}

/// The first in a lock's queue: the blocked backend behind which most of the others wait, that do not wait for the holder
/// itself, if these are more than half of all. Cancelling it frees them (PostgreSQL documentation, pg_blocking_pids: also who
/// is ahead in the queue).
fn queued(holder: &Process, blocks: &[Process]) -> Option<(Process, usize)> {
    let waits_for = |of: &Process, id: u32| {
        of.waits_for_table() && of.blocked_by.contains(&id) && !of.blocked_by.contains(&holder.process_id)
    };
    let behind = |one: &Process| blocks.iter().filter(|other| waits_for(other, one.process_id)).count();
    let first = blocks.iter().map(|one| (one, behind(one))).max_by_key(|(_, behind)| *behind)?;
    let (one, behind) = first;
    (behind * 2 > blocks.len()).then(|| (one.clone(), behind))
}

impl Seen {
    fn of(look: Option<&ProbedActivity>) -> Seen {
        match look.map(AsRef::as_ref) {
            None => Seen { by: None, complete: false, reason: Some("the server was not asked".to_owned()) },
            Some(Err(reason)) => Seen { by: None, complete: false, reason: Some(reason.to_string()) },
            Some(Ok(activity)) => {
                let by = activity.user.to_string();
                let name = identifier(&by);
                let hidden = format!(
                    "{name} may not see what processes of other users do; GRANT pg_read_all_stats TO {name} shows it"
                );
                let reason = activity
                    .hidden
                    .then_some(hidden)
                    .or_else(|| activity.cut.then(|| "the server has too many busy processes to list all".to_owned()));
                Seen { by: Some(by), complete: reason.is_none(), reason }
            }
        }
    }
}

impl IncidentCause {
    /// The cause in a few words.
    pub(crate) fn words(self) -> &'static str {
        match self {
            IncidentCause::Blocked => "blocked",
            IncidentCause::Unconfirmed => "commits wait for a standby",
            IncidentCause::IdleInTransaction => "servers idle in transactions",
            IncidentCause::IdleSessions => "idle sessions have the servers",
            IncidentCause::Pins => "clients keep the servers for what they left",
            IncidentCause::UnreadResults => "results are not read",
            IncidentCause::OneApplication => "one application has the servers",
            IncidentCause::LongQueries => "long queries have all servers",
            IncidentCause::ServerDown => "the server is down",
            IncidentCause::Failing => "queries end in errors",
            IncidentCause::Paused => "paused",
            IncidentCause::Slow => Health::Slow.name(),
            IncidentCause::FewerServers => "fewer servers than allowed",
        }
    }

    fn advice(self) -> &'static str {
        match self {
            IncidentCause::Unconfirmed => {
                "See in pg_stat_replication whether the standbys of synchronous_standby_names are connected and keep up: without \
                 them no commit ends. Start them, or take them out of that setting and reload the server. A larger pool would wait as well."
            }
            IncidentCause::IdleInTransaction => {
                "A larger pool would be held as well. Drop the clients that idle longest; then end transactions sooner in the \
                 application, or set idle_transaction_timeout."
            }
            IncidentCause::IdleSessions => {
                "In session mode each client has a server until it disconnects. Drop clients that idle, or use transaction mode \
                 where they need no session; otherwise the size must be that of all sessions."
            }
            IncidentCause::Pins => {
                "Let the application remove such state when it does not use it (UNLISTEN, DEALLOCATE, CLOSE, DROP, unlock), use \
                 pg_advisory_xact_lock() and ON COMMIT DROP, or give it a pool of its own in session mode. Dropping its \
                 clients frees the servers at once. Until then raise size; max_pinned and pin_refuse bound what is kept."
            }
            IncidentCause::UnreadResults => {
                "Let these clients read their results, or drop them; idle_transaction_timeout ends such a standstill. A larger \
                 pool would be held as well."
            }
            IncidentCause::OneApplication => {
                "Cancel its queries, or drop its clients; then give it a pool of its own, so that others do not wait for it."
            }
            IncidentCause::LongQueries => {
                "Cancel what is not needed, and find out why the queries are slow; query_timeout bounds them. More servers \
                 make slow queries slower, if the database's CPU or disks are the limit."
            }
            IncidentCause::Slow
            | IncidentCause::Blocked
            | IncidentCause::ServerDown
            | IncidentCause::Failing
            | IncidentCause::Paused => "Look at the pool's state.",
            IncidentCause::FewerServers => {
                "The server, or a limit that pools share (max_user_connections, max_db_connections, max_connections of \
                 [servers], the cluster's budget), gives no more connections. A larger size changes nothing."
            }
        }
    }
}

#[cfg(test)]
mod tests;
