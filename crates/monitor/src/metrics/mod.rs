//! `/metrics`: the workers' reports, for Prometheus and other readers of OpenMetrics (its specification, 1.0).
//!
//! Owns which metrics there are; `text` and `telemetry` write them. Names follow Prometheus's conventions: base units, `_total`
//! for counters. Databases and users are labels, and with a `*` database their number has no limit: beyond [`MOST`] the
//! rest is one sum, `(others)`.

mod alerts;
mod cluster;
mod family;
mod process;
#[cfg(test)]
mod tests;
mod text;
mod times;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use weir_admin::{
    BusyWorker, ClusterView, DatabaseStats, FAULT_KINDS, Fault, Health, LastReload, PoolCounters, PoolRecord,
    PrimaryRecord, PrimaryState, Refusals, Report, ServiceState, StatementTotals, Stats, shared_servers,
};
use weir_config::Config;

use crate::alerts::AlertWatch;
use crate::ask::Workers;
use crate::cpu::Cpu;
use crate::error::MonitorError;
use crate::export_counts::{ExportCounter, ExportCounts};
use crate::figures::{Clients, Servers, seconds, seconds_of};
use crate::lock::lock;
use alerts::AlertFigures;
#[cfg(test)]
pub(crate) use family::Buckets;
pub(crate) use family::{Family, Kind, Labels, Sink, Unit, Value};
use process::Process;
pub use text::MetricsFormat;
use text::TextSink;
use times::{OTHERS, Timed};

/// Databases and pools with labels of their own.
const MOST: usize = 1000;

/// All figures, by the names that become labels.
#[derive(Debug)]
struct Figures {
    version: &'static str,
    max_clients: u32,
    login_clients: u32,
    console_clients: u32,
    serving: ServiceState,
    draining: bool,
    /// By database and user.
    pools: BTreeMap<(String, String), PoolRecord>,
    /// By database and user; without both for clients that had no pool.
    refusals: BTreeMap<(String, String), Refusals>,
    /// By database.
    stats: BTreeMap<String, (Stats, PoolCounters)>,
    times: Timed,
    statements: StatementTotals,
    cpu: Cpu,
    process: Process,
    last_reload: Option<LastReload>,
    exports: ExportCounts,
    alerts: AlertFigures,
    cluster: Option<Arc<ClusterView>>,
    /// By database: where pools that want a primary write.
    primaries: BTreeMap<String, PrimaryRecord>,
    faults: Arc<[Fault]>,
    /// By configured pool: its size.
    sizes: BTreeMap<String, u32>,
    /// By the name of a database server whose connections pools share: the most, and what its pools have.
    shared: BTreeMap<String, (u32, u32)>,
    /// By database: servers that are given back to other pools.
    giving_back: BTreeMap<String, u32>,
}

/// The figures of the last scrape, for those while a worker is busy; cheap to clone.
#[derive(Clone, Default)]
pub struct LastFigures(Arc<Mutex<Option<Arc<Figures>>>>);

/// All metrics of one moment.
#[derive(Debug)]
pub(crate) struct Scrape {
    figures: Arc<Figures>,
    /// The worker that is busy; then the figures are those of the scrape before.
    busy: Option<BusyWorker>,
}

impl LastFigures {
    /// The text of all metrics; while a worker is busy, of those of the scrape before.
    ///
    /// # Errors
    /// The workers do not answer, or one is busy and there was no scrape before.
    pub async fn scrape(
        &self,
        workers: &Workers,
        version: &'static str,
        exports: &ExportCounter,
        alerts: &AlertWatch,
        format: MetricsFormat,
    ) -> Result<String, MonitorError> {
        let scrape = match workers.prompt_report().await {
            Ok((report, config)) => {
                let scrape = Scrape::new(report, &config, version, exports.now(), alerts);
                *lock(&self.0) = Some(scrape.figures.clone());
                scrape
            }
            Err(MonitorError::Busy(busy)) => {
                let figures = lock(&self.0).clone().ok_or(MonitorError::Busy(busy))?;
                Scrape { figures, busy: Some(busy) }
            }
            Err(error) => return Err(error),
        };
        Ok(scrape.text(format))
    }
}

/// The database servers whose connections pools share: the most, and what their pools have.
fn shared(pools: &[PoolRecord], config: &Config) -> BTreeMap<String, (u32, u32)> {
    let first = shared_servers(pools, config).into_iter().take(MOST);
    first.map(|(name, (rules, open))| (name.to_owned(), (rules.max_connections, open))).collect()
}

impl Scrape {
    pub(crate) fn new(
        report: Report,
        config: &Config,
        version: &'static str,
        exports: ExportCounts,
        alerts: &AlertWatch,
    ) -> Scrape {
        let targets = alerts.targets().into_iter().filter(|target| target.configured).collect();
        let alerts = AlertFigures { firing: alerts.count_firing() as u32, targets };
        let figures = Figures::new(report, config, version, Cpu::now());
        Scrape { figures: Arc::new(Figures { exports, alerts, process: Process::now(), ..figures }), busy: None }
    }

    fn text(&self, format: MetricsFormat) -> String {
        let mut text = TextSink::new(format);
        self.write(&mut text);
        text.finish()
    }

    /// Writes all metrics.
    pub(crate) fn write(&self, to: &mut dyn Sink) {
        let help =
            "How long a worker has been busy without a break; if it is not 0, all else is as of an earlier scrape";
        let busy = self.busy.map_or(0.0, |busy| seconds(busy.busy));
        to.single(Family::gauge("weir_worker_busy", help).in_seconds(), busy);
        self.figures.process(to);
        self.figures.of_pools(to);
        if let Some(view) = &self.figures.cluster {
            cluster::write(view, MOST, to);
        }
        self.figures.of_databases(to);
    }
}

impl Figures {
    fn new(report: Report, config: &Config, version: &'static str, cpu: Cpu) -> Figures {
        let mut figures = Figures {
            version,
            max_clients: config.max_clients,
            login_clients: report.login_clients,
            console_clients: report.console_clients,
            statements: report.statement_totals,
            serving: report.serving,
            cluster: report.cluster,
            primaries: report.primaries.into_iter().take(MOST).map(|it| (it.database.clone(), it)).collect(),
            faults: report.faults,
            draining: report.draining,
            pools: BTreeMap::new(),
            refusals: BTreeMap::new(),
            stats: BTreeMap::new(),
            times: Timed::default(),
            cpu,
            process: Process::default(),
            last_reload: report.last_reload,
            exports: ExportCounts::default(),
            alerts: AlertFigures::default(),
            shared: shared(&report.pools, config),
            giving_back: report.giving_back.iter().take(MOST).map(|(name, count)| (name.to_owned(), *count)).collect(),
            sizes: config.pools.iter().take(MOST).map(|(name, pool)| (name.to_owned(), pool.limits.size)).collect(),
        };
        for pool in report.pools {
            let key = labels(figures.pools.len(), &pool.database, &pool.user);
            figures.pools.entry(key).and_modify(|sum| sum.add(&pool)).or_insert(pool);
        }
        for record in &report.refusals {
            let (database, user) = record.pool.as_ref().map_or(("", ""), |(database, user)| (database, user));
            let key = labels(figures.refusals.len(), database, user);
            figures.refusals.entry(key).or_default().add(&record.refusals);
        }
        for of in &report.stats {
            let DatabaseStats { database, total, counters, .. } = of;
            let (key, _) = labels(figures.stats.len(), database, "");
            let (stats, counted) = figures.stats.entry(key).or_default();
            stats.add(total);
            counted.add_counts(counters);
            figures.times.add(of);
        }
        figures
    }
}

/// The labels of a name: its own as long as there is room, else those of the sum.
fn labels(taken: usize, database: &str, user: &str) -> (String, String) {
    if taken < MOST { (database.to_owned(), user.to_owned()) } else { (OTHERS.to_owned(), String::new()) }
}

/// A counter of a database: its name, its help, and what it counts.
struct Counter {
    name: &'static str,
    help: &'static str,
    of: fn(&Stats, &PoolCounters) -> u64,
}

const COUNTERS: [Counter; 10] = [
    Counter {
        name: "weir_transactions",
        help: "Transactions; a query outside of one counts as one",
        of: |stats, _| stats.xact_count,
    },
    Counter {
        name: "weir_queries",
        help: "Queries: simple ones, and groups up to a Sync",
        of: |stats, _| stats.query_count,
    },
    Counter {
        name: "weir_server_assignments",
        help: "Times that a server was given to a client",
        of: |stats, _| stats.server_assignment_count,
    },
    Counter {
        name: "weir_client_parses",
        help: "Named statements that clients prepared",
        of: |stats, _| stats.client_parse_count,
    },
    Counter {
        name: "weir_server_parses",
        help: "Named statements that were prepared on servers",
        of: |stats, _| stats.server_parse_count,
    },
    Counter { name: "weir_binds", help: "Binds of prepared statements", of: |stats, _| stats.bind_count },
    Counter { name: "weir_client_logins", help: "Clients that logged in", of: |_, counters| counters.logins },
    Counter {
        name: "weir_clients_moved",
        help: "Connected clients that have moved to another worker",
        of: |_, counters| counters.clients_moved,
    },
    Counter {
        name: "weir_server_connects",
        help: "Connections to servers that were begun",
        of: |_, counters| counters.connects,
    },
    Counter {
        name: "weir_notification_gaps",
        help: "Times that a client that listens may have missed notifications, since the server that listens for it was lost",
        of: |_, counters| counters.notification_gaps,
    },
];

const BYTES: [Counter; 2] = [
    Counter { name: "weir_received", help: "Bytes received from clients", of: |stats, _| stats.received },
    Counter { name: "weir_sent", help: "Bytes sent to clients", of: |stats, _| stats.sent },
];

impl Figures {
    fn process(&self, to: &mut dyn Sink) {
        to.family(Family::info("weir_build", "What runs"));
        to.point(&[("version", self.version)], Value::from(true));
        let flags = [
            (
                "weir_serving",
                "1 while queries are served; 0 while all is paused or suspended",
                self.serving == ServiceState::Active,
            ),
            ("weir_draining", "1 while a shutdown waits for clients or servers", self.draining),
        ];
        for (name, help, flag) in flags {
            to.single(Family::gauge(name, help), flag);
        }
        let counts = [
            ("weir_max_clients", "The most clients at once", self.max_clients),
            ("weir_login_clients", "Clients that have not logged in yet", self.login_clients),
            ("weir_console_clients", "Operators at the console", self.console_clients),
        ];
        for (name, help, count) in counts {
            to.single(Family::gauge(name, help), count);
        }
        self.reload(to);
        self.process.write(to);
        self.statements(to);
        self.telemetry(to);
        self.alerts.write(to);
        let help = "Faults of Weir itself: that have consequences now, and that will have";
        to.family(Family::gauge("weir_faults", help));
        for (kind, state, problem) in
            FAULT_KINDS.iter().flat_map(|kind| [(*kind, "now", true), (*kind, "ahead", false)])
        {
            let count = self.faults.iter().filter(|fault| (fault.kind, fault.problem) == (kind, problem)).count();
            to.point(&[("kind", kind), ("state", state)], (count as u64).into());
        }
        to.family(Family::counter("weir_worker_cpu", "CPU time of each worker's thread").in_seconds());
        for (worker, seconds) in self.cpu.seconds() {
            to.point(&[("worker", &worker.to_string())], seconds.into());
        }
    }

    /// How the configuration was last read again.
    fn reload(&self, to: &mut dyn Sink) {
        let last = self.last_reload.as_ref();
        let worked = last.is_none_or(|last| last.error.is_none());
        let help = "1 if the last reload worked, or there was none";
        to.single(Family::gauge("weir_config_last_reload_successful", help), worked);
        if let Some(at) = last.and_then(|last| last.worked_at) {
            let (name, help) = ("weir_config_last_reload_success_timestamp", "When the last reload worked, since 1970");
            to.single(Family::gauge(name, help).in_seconds(), at as f64 / 1e6);
        }
        let help = "Settings that have another value in the file, which needs a restart";
        to.family(Family::gauge("weir_config_restart_needed", help));
        for setting in last.iter().flat_map(|last| &last.restart) {
            to.point(&[("setting", setting)], true.into());
        }
    }

    /// What was sent to a collector.
    fn telemetry(&self, to: &mut dyn Sink) {
        to.family(Family::counter("weir_telemetry_exports", "Requests to the collector of [telemetry]"));
        for (signal, sent, failed) in self.exports.named() {
            for (outcome, count) in [("sent", sent), ("failed", failed)] {
                to.point(&[("signal", signal), ("outcome", outcome)], count.into());
            }
        }
        let help = "Spans that there was no room for, or that the collector did not get";
        to.single(Family::counter("weir_telemetry_spans_dropped", help), self.exports.spans_dropped);
    }

    /// The totals of the table of statements; the API shows the statements themselves.
    fn statements(&self, to: &mut dyn Sink) {
        let StatementTotals { tracked, capacity, calls, run, evicted } = self.statements;
        let gauge = |name, help| Family::gauge(name, help);
        to.single(gauge("weir_statements_tracked", "Statements that are counted one by one"), tracked as f64);
        to.single(gauge("weir_statements_capacity", "The most of them; 0: none are counted"), capacity as f64);
        let help = "Executions of statements, where they are counted";
        to.single(Family::counter("weir_statement_calls", help), calls as f64);
        let time = Family::counter("weir_statement_run", "Their time on servers").in_seconds();
        to.single(time, run as f64 / 1e6);
        let help = "Statements that made room for others in the table";
        to.single(Family::counter("weir_statements_evicted", help), evicted as f64);
    }

    fn of_pools(&self, to: &mut dyn Sink) {
        let help = "Clients of a pool; active ones are linked to a server or idle";
        self.of_states(to, "weir_pool_clients", help, |pool| Clients::of(pool).named());
        let help = "Connections of a pool to its server";
        self.of_states(to, "weir_pool_servers", help, |pool| Servers::of(pool).named());
        self.health(to);
        let name = "weir_pool_servers_idle_in_transaction";
        let help = "Servers whose client is in a transaction, and asks nothing";
        self.of_each(to, Family::gauge(name, help), |pool| pool.sv_idle_in_transaction.into());
        let help = "Clients that keep their server for session state that they have left there, by its kind";
        self.of_labels(to, "weir_pinned_clients", help, "reason", |pool| pool.pinned.named());
        let longest = Family::gauge("weir_pool_longest_wait", "How long the oldest waiting client has waited");
        self.of_each(to, longest.in_seconds(), |pool| seconds(pool.maxwait).into());
        let (name, help) = ("weir_pool_statement_memory", "Prepared statements that clients of a pool hold");
        self.of_each(to, Family::gauge(name, help).in_unit(Unit::Bytes), |pool| pool.statement_bytes.into());
        let help = "Clients that were refused or dropped, by class: overload or failure";
        to.family(Family::counter("weir_refusals", help));
        for ((database, user), refusals) in &self.refusals {
            for (class, count) in refusals.named() {
                to.point(&[("database", database), ("user", user), ("class", class)], count.into());
            }
        }
        to.family(Family::gauge("weir_pool_size", "The most servers of a pool"));
        by_database(to, &self.sizes, |size| (*size).into());
        self.of_shares(to);
        self.of_primaries(to);
    }

    /// Of database servers whose connections pools share.
    fn of_shares(&self, to: &mut dyn Sink) {
        let help = "The most connections of the pools that share a database server";
        to.family(Family::gauge("weir_shared_server_limit", help));
        for (name, (most, _)) in &self.shared {
            to.point(&[("server", name)], (*most).into());
        }
        let help = "Connections of the pools that share a database server";
        to.family(Family::gauge("weir_shared_server_connections", help));
        for (name, (_, open)) in &self.shared {
            to.point(&[("server", name)], (*open).into());
        }
        let help = "Servers that a pool gives back to others of its database server, as they become free";
        to.family(Family::gauge("weir_pool_giving_back", help));
        by_database(to, &self.giving_back, |count| (*count).into());
    }

    /// Of pools that want a primary.
    fn of_primaries(&self, to: &mut dyn Sink) {
        let help = "1 while a pool that wants a primary has one; 0 while it looks for one or moves";
        to.family(Family::gauge("weir_primary_known", help));
        by_database(to, &self.primaries, |primary| (primary.state == PrimaryState::Known).into());
        to.family(Family::counter("weir_primary_moves", "Times that a pool has moved to another primary"));
        by_database(to, &self.primaries, |primary| primary.moves.into());
        let (name, help) = ("weir_primary_move_longest_wait", "How long a client waited for the last move at the most");
        to.family(Family::gauge(name, help).in_seconds());
        by_database(to, &self.primaries, |primary| seconds(primary.waits.longest).into());
    }

    /// The state of each pool, one of which is 1; and since when.
    fn health(&self, to: &mut dyn Sink) {
        let help = "The state of a pool's health: 1 for the one that it is in";
        self.of_states(to, "weir_pool_health", help, |pool| {
            Health::ALL.map(|state| (state.name(), u32::from(pool.health.state == state)))
        });
        let (name, help) = ("weir_pool_health_since_timestamp", "When the state of a pool's health began; 0: unknown");
        self.of_each(to, Family::gauge(name, help).in_seconds(), |pool| seconds_of(pool.health.since).into());
        let (name, help) = (
            "weir_pool_health_clients",
            "Clients that feel the state, at least: waiting or refused since it began, without an answer, behind a lock, with errors",
        );
        self.of_each(to, Family::gauge(name, help), |pool| (pool.health.clients() as f64).into());
    }

    /// One point a pool.
    fn of_each(&self, to: &mut dyn Sink, family: Family<'_>, of: fn(&PoolRecord) -> Value<'static>) {
        to.family(family);
        for ((database, user), pool) in &self.pools {
            to.point(&[("database", database), ("user", user)], of(pool));
        }
    }

    fn of_states<const N: usize>(
        &self,
        to: &mut dyn Sink,
        name: &str,
        help: &str,
        states: fn(&PoolRecord) -> [(&'static str, u32); N],
    ) {
        self.of_labels(to, name, help, "state", states);
    }

    fn of_labels<const N: usize>(
        &self,
        to: &mut dyn Sink,
        name: &str,
        help: &str,
        label: &str,
        states: fn(&PoolRecord) -> [(&'static str, u32); N],
    ) {
        to.family(Family::gauge(name, help));
        for ((database, user), pool) in &self.pools {
            for (state, count) in states(pool) {
                to.point(&[("database", database), ("user", user), (label, state)], count.into());
            }
        }
    }

    fn of_databases(&self, to: &mut dyn Sink) {
        for Counter { name, help, of } in &COUNTERS {
            to.family(Family::counter(name, help));
            by_database(to, &self.stats, |(stats, counters)| of(stats, counters).into());
        }
        for Counter { name, help, of } in &BYTES {
            to.family(Family::counter(name, help).in_unit(Unit::Bytes));
            by_database(to, &self.stats, |(stats, counters)| of(stats, counters).into());
        }
        to.family(Family::counter("weir_server_errors", "Errors that servers sent to clients"));
        for (database, (_, counters)) in &self.stats {
            for (sqlstate, count) in counters.errors.by_code() {
                to.point(&[("database", database), ("sqlstate", &sqlstate)], count.into());
            }
        }
        let help = "Session state that clients lost at the end of a transaction, or were refused";
        to.family(Family::counter("weir_session_state_lost", help));
        for (database, (_, counters)) in &self.stats {
            for (kind, count) in counters.lost.named() {
                for (outcome, count) in [("lost", count.lost), ("refused", count.refused)] {
                    to.point(&[("database", database), ("kind", kind), ("outcome", outcome)], count.into());
                }
            }
        }
        let help = "Texts that left session state, and had run before without a question about what they leave";
        to.family(Family::counter("weir_state_found_late", help));
        for (database, (_, counters)) in &self.stats {
            for (kind, count) in counters.lost.named() {
                to.point(&[("database", database), ("kind", kind)], count.late.into());
            }
        }
        self.times.write(to);
    }
}

/// One point for each database.
fn by_database<T>(to: &mut dyn Sink, all: &BTreeMap<String, T>, of: impl Fn(&T) -> Value<'static>) {
    for (name, figures) in all {
        to.point(&[("database", name)], of(figures));
    }
}
