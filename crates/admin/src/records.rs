//! A worker's report about itself: plain data that is sent in messages and merged over workers.
//!
//! Knows no configuration and no table. A report is a snapshot without references into a worker. Merging does not
//! depend on the order of the workers, except for the order of connections, which the tables sort.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use weir_base::{PoolMode, Span, Target};

use crate::applications::Applications;
use crate::change::{ConsoleDeed, LastReload};
use crate::cluster::ClusterView;
use crate::fault::Fault;
use crate::finding::Finding;
use crate::health::{PoolHealth, Symptoms, UnresponsiveHost};
use crate::pins::{PinCounts, PinRecord};
use crate::primaries::{PatroniRecord, PrimaryRecord, PrimaryWaits};
use crate::refusals::RefusalRecord;
use crate::refused_logins::RefusedLogins;
use crate::statements::{SpanRecord, StatementRecord, StatementTotals};
use crate::stats::DatabaseStats;
use crate::traffic::TrafficRecord;

/// The state of one worker, or of all after merging: the source of the console, the API and the metrics.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Pools of databases and users, without the console's own.
    pub pools: Vec<PoolRecord>,
    /// The health of configured pools that no client has used yet, by name; filled with [`PoolRecord::health`].
    pub unused: BTreeMap<String, PoolHealth>,
    /// Counters, one entry a database.
    pub stats: Vec<DatabaseStats>,
    /// Counters of the console: its commands, each of which is a query and a transaction.
    pub console_stats: DatabaseStats,
    /// Refused clients, one entry a pool, and one for those without.
    pub refusals: Vec<RefusalRecord>,
    /// Refused logins by who, from where and why.
    pub refused_logins: RefusedLogins,
    /// How the last reload of the configuration ended; `None` before the first one.
    pub last_reload: Option<LastReload>,
    /// Clients that have logged in, by the user that they log in as and by database, the console's too. Empty where no
    /// table needs them.
    pub clients_by_user: BTreeMap<String, BTreeMap<String, UserClients>>,
    /// Clients of the console.
    pub console_clients: u32,
    /// Clients that are not logged in yet.
    pub login_clients: u32,
    /// Whether queries are served.
    pub serving: ServiceState,
    /// Databases paused by name, whether they have a pool or not.
    pub paused: BTreeSet<String>,
    /// A shutdown has begun, and waits for clients or servers.
    pub draining: bool,
    /// How far a drain is, which closes clients; `None`: there is none.
    pub drain: Option<DrainRecord>,
    /// Databases that refuse new clients.
    pub disabled: BTreeSet<String>,
    /// The worker's memory by kind of object, for SHOW MEM; PgBouncer's names where it has such objects.
    pub memory: Vec<MemoryRecord>,
    /// Names of servers that were looked up.
    pub dns: Vec<DnsRecord>,
    /// Peers to which requests to cancel were passed on.
    pub peers: Vec<PeerPoolRecord>,
    /// The cluster, as this node sees it, if there is one.
    pub cluster: Option<Arc<ClusterView>>,
    /// Hosts of servers that give no answer.
    pub unresponsive: HashMap<Target, UnresponsiveHost>,
    /// How many servers pools give back to others of their database server, by database; worker 0 knows.
    pub giving_back: BTreeMap<String, u32>,
    /// Where pools that want a primary write; worker 0 knows.
    pub primaries: Vec<PrimaryRecord>,
    /// What Patroni says of the hosts of pools; worker 0 knows.
    pub patroni: Vec<PatroniRecord>,
    /// What one worker answers to a step of a pool's move.
    pub primary_waits: PrimaryWaits,
    /// What operators have changed at the console lately, the oldest first.
    pub console_deeds: Vec<ConsoleDeed>,
    /// What is wrong with Weir itself, the worst first.
    pub faults: Arc<[Fault]>,
    /// What was found out about slow pools, by database.
    pub findings: Arc<BTreeMap<String, Finding>>,
    /// Figures of the table of statements.
    pub statement_totals: StatementTotals,
    /// The statistics of statements, where they were requested.
    pub statements: Vec<StatementRecord>,
    /// The time of all statements, those without a record too, by database and user, in microseconds.
    pub statement_time: BTreeMap<(String, String), u64>,
    /// Queries with a `traceparent` that have ended, where they were requested.
    pub spans: Vec<SpanRecord>,
    /// How many spans were left out since the last request.
    pub spans_dropped: u64,
    /// What was recorded of pools' traffic, where it was requested.
    pub traffic: Vec<TrafficRecord>,
}

/// The clients of a user on a database.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UserClients {
    /// All clients of the user on the database.
    pub clients: u32,
    /// The clients among them that wait for a server.
    pub waiting: u32,
}

impl UserClients {
    /// Adds other clients.
    pub fn add(&mut self, other: UserClients) {
        self.clients += other.clients;
        self.waiting += other.waiting;
    }
}

/// The last look-up of a host name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DnsRecord {
    /// The name.
    pub hostname: String,
    /// The rest of the answer's time to live.
    pub ttl: Span,
    /// The answer.
    pub addresses: Vec<IpAddr>,
}

/// How far a drain is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DrainRecord {
    /// What it does now.
    pub phase: DrainPhase,
    /// How long that takes; `None`: as long as clients are left.
    pub left: Option<Span>,
}

/// What a drain does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DrainPhase {
    /// New clients are still accepted; health checks say that the process is not ready.
    Announced,
    /// Clients are closed, each between two transactions.
    Closing,
    /// The drain's time is over: transactions that run may end.
    Ending,
}

impl DrainPhase {
    /// The phase as operators see it.
    pub fn name(self) -> &'static str {
        match self {
            DrainPhase::Announced => "announced",
            DrainPhase::Closing => "closing clients",
            DrainPhase::Ending => "waiting for transactions",
        }
    }
}

/// Whether the whole process serves queries (SHOW STATE).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum ServiceState {
    /// Queries are served.
    #[default]
    Active,
    /// After PAUSE without a database: clients wait.
    Paused,
    /// After SUSPEND: sockets are not read.
    Suspended,
}

/// One pool: the servers of one user on one database.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolRecord {
    /// The database as clients name it.
    pub database: String,
    /// The user that logs in to the server.
    pub user: String,
    /// Clients that are linked to a server, or idle.
    pub cl_active: u32,
    /// Clients that wait for a server.
    pub cl_waiting: u32,
    /// Cancel requests on their way to a server.
    pub cl_active_cancel_req: u32,
    /// Cancel requests that wait for a connection of their own.
    pub cl_waiting_cancel_req: u32,
    /// Servers linked to a client.
    pub sv_active: u32,
    /// Servers among them whose client is idle in a transaction.
    pub sv_idle_in_transaction: u32,
    /// Clients that keep their server for what they have left there.
    pub pinned: PinCounts,
    /// Connections that carry a cancel request.
    pub sv_active_cancel: u32,
    /// Servers that are withheld until a cancel request for them is done.
    pub sv_being_canceled: u32,
    /// Servers ready for the next client.
    pub sv_idle: u32,
    /// Servers that were idle longer than `server_check_delay`.
    pub sv_used: u32,
    /// Servers that run a reset or a check query.
    pub sv_tested: u32,
    /// Servers that connect or log in.
    pub sv_login: u32,
    /// The wait of the oldest waiting client.
    pub maxwait: Span,
    /// The statements that the pool's clients hold, in bytes.
    pub statement_bytes: u64,
    /// The pool mode.
    pub mode: PoolMode,
    /// What else decides the pool's health.
    pub symptoms: Symptoms,
    /// The pool's health: of a merged report that [`crate::HealthWatch::observe`] has seen.
    pub health: PoolHealth,
    /// Which applications the pool's clients have been. Not a part of a sum of pools.
    pub applications: Arc<Applications>,
}

impl PoolRecord {
    /// A pool without clients and servers.
    pub fn new(database: impl Into<String>, user: impl Into<String>, mode: PoolMode) -> Self {
        PoolRecord {
            database: database.into(),
            user: user.into(),
            cl_active: 0,
            cl_waiting: 0,
            cl_active_cancel_req: 0,
            cl_waiting_cancel_req: 0,
            sv_active: 0,
            sv_idle_in_transaction: 0,
            pinned: PinCounts::default(),
            sv_active_cancel: 0,
            sv_being_canceled: 0,
            sv_idle: 0,
            sv_used: 0,
            sv_tested: 0,
            sv_login: 0,
            maxwait: Span::ZERO,
            statement_bytes: 0,
            mode,
            symptoms: Symptoms::default(),
            health: PoolHealth::default(),
            applications: Arc::default(),
        }
    }

    /// The number of clients in all states.
    pub fn clients(&self) -> u32 {
        self.cl_active + self.cl_waiting + self.cl_active_cancel_req + self.cl_waiting_cancel_req
    }

    /// The number of connections to servers in all states.
    pub fn servers(&self) -> u32 {
        self.sv_active
            + self.sv_active_cancel
            + self.sv_being_canceled
            + self.sv_idle
            + self.sv_used
            + self.sv_tested
            + self.sv_login
    }

    /// Servers that are logged in.
    pub fn connected(&self) -> u32 {
        self.sv_active + self.sv_being_canceled + self.sv_tested + self.free()
    }

    /// Servers among them that are ready for a client.
    pub(crate) fn free(&self) -> u32 {
        self.sv_idle + self.sv_used
    }

    /// The key of a pool, which is also the sort key.
    pub(crate) fn key(&self) -> (&str, &str) {
        (&self.database, &self.user)
    }

    /// Adds another part of the pool, or another pool where both are shown as one.
    pub fn add(&mut self, other: &PoolRecord) {
        self.cl_active += other.cl_active;
        self.cl_waiting += other.cl_waiting;
        self.cl_active_cancel_req += other.cl_active_cancel_req;
        self.cl_waiting_cancel_req += other.cl_waiting_cancel_req;
        self.sv_active += other.sv_active;
        self.sv_idle_in_transaction += other.sv_idle_in_transaction;
        self.pinned.add(&other.pinned);
        self.sv_active_cancel += other.sv_active_cancel;
        self.sv_being_canceled += other.sv_being_canceled;
        self.sv_idle += other.sv_idle;
        self.sv_used += other.sv_used;
        self.sv_tested += other.sv_tested;
        self.sv_login += other.sv_login;
        self.maxwait = self.maxwait.max(other.maxwait);
        self.statement_bytes += other.statement_bytes;
        self.symptoms.add(&other.symptoms);
        self.health.add(&other.health);
    }

    /// Adds another worker's part of the pool; returns true, so that `dedup_by` drops it.
    fn merge(&mut self, other: &PoolRecord) -> bool {
        self.add(other);
        if !other.applications.list().is_empty() {
            Arc::make_mut(&mut self.applications).merge(&other.applications);
        }
        true
    }
}

/// One connection: a client's or a server's.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SocketRecord {
    /// The connection's number, unique in the process for all time; KILL_CLIENT accepts it.
    pub id: u64,
    /// The user that logged in; empty while unknown.
    pub user: String,
    /// The database as clients name it; empty while unknown.
    pub database: String,
    /// PgBouncer's name. Clients: `active` (linked), `idle`, `waiting`, `active_cancel_req`, `waiting_cancel_req`,
    /// `login`. Servers: `active`, `idle`, `used`, `tested`, `new`, `active_cancel`, `being_canceled`.
    pub state: &'static str,
    /// `logical`, `physical`, or `none`; empty is `none`.
    pub replication: &'static str,
    /// The other end's address, `unix` for a Unix socket.
    pub addr: String,
    /// The other end's port.
    pub port: u16,
    /// Our end's address, `unix` for a Unix socket.
    pub local_addr: String,
    /// Our end's port.
    pub local_port: u16,
    /// When the peer connected: microseconds since 1970.
    pub connect_time: u64,
    /// When the peer's latest request began: microseconds since 1970.
    pub request_time: u64,
    /// How long the peer's current request has waited or run.
    pub wait: Span,
    /// Whether the connection is marked for close.
    pub close_needed: bool,
    /// A number that the peer's `link` repeats; unique among all connections of the process.
    pub ptr: u64,
    /// The `ptr` of the connection that this connection is linked to.
    pub link: Option<u64>,
    /// The process id at the other end: of a Unix socket's client, or of the server; 0 if unknown.
    pub remote_pid: u32,
    /// Of a server of a pool that nodes share: when its backend began, microseconds since 1970 by the server's clock.
    /// With the process id, which is used again, it identifies the backend.
    pub remote_started: Option<u64>,
    /// The TLS version and cipher; empty without TLS.
    pub tls: String,
    /// The application_name; empty if the peer gave none.
    pub application_name: String,
    /// The number of the connection's prepared statements.
    pub prepared_statements: u32,
    /// Of a server: why it stays linked, in words; none if only the pool mode is the reason, or if it is not linked.
    pub held_for: Option<&'static str>,
    /// Why the client keeps its server between transactions; none if it does not.
    pub pinned: Option<Box<PinRecord>>,
    /// Of a server: when its transaction began, microseconds since 1970.
    pub transaction_time: Option<u64>,
    /// Of a server: when its query began, microseconds since 1970.
    pub query_time: Option<u64>,
}

/// Requests to cancel that are passed on to one peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PeerPoolRecord {
    /// The peer's number.
    pub peer_id: u16,
    /// Requests that have a connection, or are about to.
    pub active: u32,
    /// Requests that wait for one.
    pub waiting: u32,
    /// Connections that carry one.
    pub sent: u32,
}

/// One kind of thing that a worker keeps in memory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MemoryRecord {
    /// The kind's name, such as `client_cache`.
    pub name: &'static str,
    /// The size of one, in bytes.
    pub size: u64,
    /// How many are used.
    pub used: u64,
    /// How many are free.
    pub free: u64,
}

impl Report {
    /// The records of each database's pools.
    pub fn by_database(&self) -> BTreeMap<&str, Vec<&PoolRecord>> {
        let mut records: BTreeMap<&str, Vec<&PoolRecord>> = BTreeMap::new();
        self.pools.iter().for_each(|pool| records.entry(&pool.database).or_default().push(pool));
        records
    }

    /// The number of servers that are logged in as each user.
    pub fn servers_by_user(&self) -> BTreeMap<&str, u32> {
        let mut servers = BTreeMap::new();
        self.pools.iter().for_each(|pool| *servers.entry(pool.user.as_str()).or_default() += pool.servers());
        servers
    }

    /// The clients of a user, over all databases.
    pub fn clients_of(&self, user: &str) -> UserClients {
        let mut all = UserClients::default();
        self.clients_by_user.get(user).into_iter().flatten().for_each(|(_, clients)| all.add(*clients));
        all
    }

    /// Adds another worker's report. Pools and counters of the same name are summed; connections are appended.
    pub fn merge(&mut self, other: Report) {
        self.pools.extend(other.pools);
        self.pools.sort_by(|a, b| a.key().cmp(&b.key()));
        self.pools.dedup_by(|b, a| a.key() == b.key() && a.merge(b));
        self.console_stats.merge(&other.console_stats);
        self.stats.extend(other.stats);
        self.stats.sort_by(|a, b| a.database.cmp(&b.database));
        self.stats.dedup_by(|b, a| a.database == b.database && a.merge(b));
        self.refusals.extend(other.refusals);
        RefusalRecord::merge(&mut self.refusals);
        self.refused_logins.merge(other.refused_logins);
        // The worker that was asked for it knows how it ended.
        self.last_reload = self.last_reload.take().max(other.last_reload);
        self.memory.extend(other.memory);
        self.memory.sort_by_key(|m| (m.name, m.size));
        self.memory.dedup_by(|b, a| (a.name, a.size) == (b.name, b.size) && a.merge(b));
        self.dns.extend(other.dns);
        self.peers.extend(other.peers);
        self.cluster = self.cluster.take().or(other.cluster);
        self.giving_back.extend(other.giving_back);
        self.primaries.extend(other.primaries);
        self.patroni.extend(other.patroni);
        self.primary_waits.add(other.primary_waits);
        self.console_deeds.extend(other.console_deeds);
        self.console_deeds.sort_by_key(|deed| deed.at);
        // One worker knows them.
        if self.faults.is_empty() {
            self.faults = other.faults;
        }
        if self.findings.is_empty() {
            self.findings = other.findings;
        }
        for (target, host) in other.unresponsive {
            let known = self.unresponsive.entry(target).or_insert(host);
            if (host.proved, known.since) > (known.proved, host.since) {
                *known = host;
            }
        }
        // Each worker looks up for itself; the youngest answer speaks for all.
        self.dns.sort_by(|a, b| (&a.hostname, b.ttl).cmp(&(&b.hostname, a.ttl)));
        self.dns.dedup_by(|b, a| a.hostname == b.hostname);
        for (name, databases) in other.clients_by_user {
            let own = self.clients_by_user.entry(name).or_default();
            databases.into_iter().for_each(|(database, clients)| own.entry(database).or_default().add(clients));
        }
        self.console_clients += other.console_clients;
        self.login_clients += other.login_clients;
        self.serving = self.serving.max(other.serving);
        self.draining |= other.draining;
        self.drain = self.drain.or(other.drain);
        self.paused.extend(other.paused);
        self.disabled.extend(other.disabled);
        self.statement_totals.add(&other.statement_totals);
        self.statements.extend(other.statements);
        StatementRecord::merge(&mut self.statements);
        self.spans.extend(other.spans);
        self.spans_dropped += other.spans_dropped;
        self.traffic.extend(other.traffic);
        TrafficRecord::merge(&mut self.traffic);
        for (pool, run) in other.statement_time {
            *self.statement_time.entry(pool).or_default() += run;
        }
    }

    /// The time of all statements by database and user, in microseconds.
    pub fn statement_shares(&self) -> HashMap<(&str, &str), u64> {
        self.statement_time.iter().map(|((database, user), run)| ((&**database, &**user), *run)).collect()
    }
}

impl MemoryRecord {
    /// Adds another worker's memory of this kind; returns true, so that `dedup_by` drops it.
    fn merge(&mut self, other: &MemoryRecord) -> bool {
        self.used += other.used;
        self.free += other.free;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Stats;

    fn worker(user: &str, waiting: u32, wait: u64) -> Report {
        let mut pool = PoolRecord::new("app", user, PoolMode::Transaction);
        pool.cl_waiting = waiting;
        pool.sv_active = 2;
        pool.maxwait = Span::from_micros(wait);
        let total = Stats { xact_count: 10, ..Stats::default() };
        let stats =
            DatabaseStats { database: "app".into(), total, period: Span::from_micros(wait), ..Default::default() };
        Report {
            pools: vec![pool],
            stats: vec![stats],
            clients_by_user: [(user.to_owned(), [("app".to_owned(), UserClients { clients: 1, waiting })].into())]
                .into(),
            login_clients: 1,
            memory: vec![MemoryRecord { name: "client_cache", size: 64, used: 1, free: 2 }],
            ..Report::default()
        }
    }

    #[test]
    fn one_pool_on_two_workers_is_one_row() {
        let mut report = worker("joe", 3, 500);
        report.merge(worker("joe", 4, 900));
        assert_eq!(report.pools.len(), 1);
        assert_eq!((report.pools[0].cl_waiting, report.pools[0].sv_active), (7, 4));
        assert_eq!((report.pools[0].clients(), report.pools[0].servers()), (7, 4));
        assert_eq!(report.pools[0].maxwait, Span::from_micros(900));
        assert_eq!(report.stats[0].total.xact_count, 20);
        assert_eq!(report.stats[0].period, Span::from_micros(900));
        assert_eq!((report.clients_of("joe"), report.login_clients), (UserClients { clients: 2, waiting: 7 }, 2));
        assert_eq!(report.memory, [MemoryRecord { name: "client_cache", size: 64, used: 2, free: 4 }]);
    }

    #[test]
    fn two_users_are_two_pools_of_one_database() {
        let mut report = worker("joe", 1, 1);
        report.merge(worker("ann", 1, 1));
        assert_eq!(report.pools.len(), 2);
        assert_eq!(report.stats.len(), 1);
    }

    #[test]
    fn a_pause_on_one_worker_shows() {
        let mut report = worker("joe", 0, 0);
        let mut other = worker("joe", 0, 0);
        other.serving = ServiceState::Paused;
        other.paused.insert("app".into());
        report.merge(other);
        assert!(report.paused.contains("app"));
        assert_eq!(report.serving, ServiceState::Paused);
    }
}
