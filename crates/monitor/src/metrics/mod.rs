//! `/metrics`: the workers' reports, for Prometheus and other readers of OpenMetrics (its specification, 1.0).
//!
//! Names follow Prometheus's conventions: base units, `_total` for counters. Databases and users are labels, and with
//! a `*` database their number has no limit: beyond [`MOST`] the rest is one sum, `(others)`.

mod alerts;
mod cluster;
mod labels;
mod process;
#[cfg(test)]
mod tests;
mod text;
mod times;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeGaugeValue, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::{Registry, Unit};
use weir_admin::{
    BusyWorker, ClusterView, DatabaseStats, FAULT_KINDS, Fault, Health, LastReload, PoolCounters, PoolRecord,
    PrimaryRecord, PrimaryState, Refusals, Report, ServiceState, StatementTotals, Stats, shared_servers,
};
use weir_config::Config;

use crate::alerts::AlertWatch;
use crate::ask::Workers;
use crate::error::MonitorError;
use crate::export_counts::{ExportCounter, ExportCounts};
use crate::figures::{Clients, Servers, seconds, seconds_of};
use crate::lock::lock;
use crate::watch::Cpu;
use alerts::AlertFigures;
use labels::{OTHERS, count_of, escaped};
use process::Process;
pub use text::MetricsFormat;
use times::Timed;

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

/// What a scrape is answered with.
#[derive(Debug)]
struct Scrape {
    figures: Arc<Figures>,
    /// The worker that is busy; then the figures are those of the scrape before.
    busy: Option<BusyWorker>,
}

impl LastFigures {
    /// All metrics as OpenMetrics; while a worker is busy, those of the scrape before.
    ///
    /// # Errors
    /// The workers do not answer, or one is busy and there was no scrape before.
    pub async fn scrape(
        &self,
        workers: &Workers,
        version: &'static str,
        exports: &ExportCounter,
        alerts: &AlertWatch,
    ) -> Result<String, MonitorError> {
        let scrape = match workers.prompt_report().await {
            Ok((report, config)) => {
                let figures = Arc::new(figures(report, &config, version, exports.now(), alerts));
                *lock(&self.0) = Some(figures.clone());
                Scrape { figures, busy: None }
            }
            Err(MonitorError::Busy(busy)) => {
                let figures = lock(&self.0).clone().ok_or(MonitorError::Busy(busy))?;
                Scrape { figures, busy: Some(busy) }
            }
            Err(error) => return Err(error),
        };
        Ok(text(scrape))
    }
}

/// All metrics as OpenMetrics.
pub(crate) fn open_metrics(
    report: Report,
    config: &Config,
    version: &'static str,
    exports: ExportCounts,
    alerts: &AlertWatch,
) -> String {
    text(Scrape { figures: Arc::new(figures(report, config, version, exports, alerts)), busy: None })
}

/// The database servers whose connections pools share: the most, and what their pools have.
fn shared(pools: &[PoolRecord], config: &Config) -> BTreeMap<String, (u32, u32)> {
    let first = shared_servers(pools, config).into_iter().take(MOST);
    first.map(|(name, (rules, open))| (escaped(name), (rules.max_connections, open))).collect()
}

fn figures(
    report: Report,
    config: &Config,
    version: &'static str,
    exports: ExportCounts,
    alerts: &AlertWatch,
) -> Figures {
    let targets = alerts.targets().into_iter().filter(|target| target.configured).collect();
    let alerts = AlertFigures { firing: alerts.count_firing() as u32, targets };
    Figures { exports, alerts, process: Process::now(), ..Figures::new(report, config, version, Cpu::now()) }
}

fn text(scrape: Scrape) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(scrape));
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = encode(&mut text, &registry);
    text
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
            primaries: report.primaries.into_iter().take(MOST).map(|it| (escaped(&it.database), it)).collect(),
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
            giving_back: report.giving_back.iter().take(MOST).map(|(name, count)| (escaped(name), *count)).collect(),
            sizes: config.pools.iter().take(MOST).map(|(name, pool)| (escaped(name), pool.limits.size)).collect(),
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
    if taken < MOST { (escaped(database), escaped(user)) } else { (OTHERS.to_owned(), String::new()) }
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

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (to, figures) = (&mut encoder, &self.figures);
        let help =
            "How long a worker has been busy without a break; if it is not 0, all else is as of an earlier scrape";
        let busy = self.busy.map_or(0.0, |busy| seconds(busy.busy));
        to.encode_descriptor("weir_worker_busy", help, Some(&Unit::Seconds), MetricType::Gauge)?.encode_gauge(&busy)?;
        figures.process(to)?;
        figures.of_pools(to)?;
        if let Some(view) = &figures.cluster {
            cluster::encode(view, MOST, to)?;
        }
        figures.of_databases(to)
    }
}

impl Figures {
    fn process(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut build = to.encode_descriptor("weir_build", "What runs", None, MetricType::Info)?;
        build.encode_info(&[("version", escaped(self.version))])?;
        let flags = [
            (
                "weir_serving",
                "1 while queries are served; 0 while all is paused or suspended",
                self.serving == ServiceState::Active,
            ),
            ("weir_draining", "1 while a shutdown waits for clients or servers", self.draining),
        ];
        for (name, help, flag) in flags {
            to.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&u32::from(flag))?;
        }
        let counts = [
            ("weir_max_clients", "The most clients at once", self.max_clients),
            ("weir_login_clients", "Clients that have not logged in yet", self.login_clients),
            ("weir_console_clients", "Operators at the console", self.console_clients),
        ];
        for (name, help, count) in counts {
            to.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&count)?;
        }
        self.reload(to)?;
        self.process.encode(to)?;
        self.statements(to)?;
        self.telemetry(to)?;
        self.alerts.encode(to)?;
        let help = "Faults of Weir itself: that have consequences now, and that will have";
        let mut family = to.encode_descriptor("weir_faults", help, None, MetricType::Gauge)?;
        for (kind, state, problem) in
            FAULT_KINDS.iter().flat_map(|kind| [(*kind, "now", true), (*kind, "ahead", false)])
        {
            let count = self.faults.iter().filter(|fault| (fault.kind, fault.problem) == (kind, problem)).count();
            family.encode_family(&[("kind", kind), ("state", state)])?.encode_gauge(&(count as u32))?;
        }
        let help = "CPU time of each worker's thread";
        let mut family = to.encode_descriptor("weir_worker_cpu", help, Some(&Unit::Seconds), MetricType::Counter)?;
        for (worker, seconds) in self.cpu.seconds() {
            let labels = [("worker", worker.to_string())];
            family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, f64>(&seconds, None)?;
        }
        Ok(())
    }

    /// How the configuration was last read again.
    fn reload(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let last = self.last_reload.as_ref();
        let worked = last.is_none_or(|last| last.error.is_none());
        let help = "1 if the last reload worked, or there was none";
        let gauge = to.encode_descriptor("weir_config_last_reload_successful", help, None, MetricType::Gauge)?;
        { gauge }.encode_gauge(&u32::from(worked))?;
        if let Some(at) = last.and_then(|last| last.worked_at) {
            let (name, help) = ("weir_config_last_reload_success_timestamp", "When the last reload worked, since 1970");
            let gauge = to.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Gauge)?;
            { gauge }.encode_gauge(&(at as f64 / 1e6))?;
        }
        let help = "Settings that have another value in the file, which needs a restart";
        let mut family = to.encode_descriptor("weir_config_restart_needed", help, None, MetricType::Gauge)?;
        for setting in last.iter().flat_map(|last| &last.restart) {
            family.encode_family(&[("setting", setting.as_str())])?.encode_gauge(&1_u32)?;
        }
        Ok(())
    }

    /// What was sent to a collector.
    fn telemetry(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Requests to the collector of [telemetry]";
        let mut family = to.encode_descriptor("weir_telemetry_exports", help, None, MetricType::Counter)?;
        for (signal, sent, failed) in self.exports.named() {
            for (outcome, count) in [("sent", sent), ("failed", failed)] {
                count_of(&mut family, &[("signal", signal), ("outcome", outcome)], count)?;
            }
        }
        let none: Option<&Exemplar<NoLabelSet, f64>> = None;
        let help = "Spans that there was no room for, or that the collector did not get";
        let family = to.encode_descriptor("weir_telemetry_spans_dropped", help, None, MetricType::Counter)?;
        { family }.encode_counter(&self.exports.spans_dropped, none)
    }

    /// The totals of the table of statements; the API shows the statements themselves.
    fn statements(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let StatementTotals { tracked, capacity, calls, run, evicted } = self.statements;
        let gauges = [
            ("weir_statements_tracked", "Statements that are counted one by one", tracked),
            ("weir_statements_capacity", "The most of them; 0: none are counted", capacity),
        ];
        for (name, help, value) in gauges {
            to.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&(value as f64))?;
        }
        let counters = [
            ("weir_statement_calls", "Executions of statements, where they are counted", None, calls as f64),
            ("weir_statement_run", "Their time on servers", Some(&Unit::Seconds), run as f64 / 1e6),
            ("weir_statements_evicted", "Statements that made room for others in the table", None, evicted as f64),
        ];
        for (name, help, unit, value) in counters {
            let none: Option<&Exemplar<NoLabelSet, f64>> = None;
            to.encode_descriptor(name, help, unit, MetricType::Counter)?.encode_counter(&value, none)?;
        }
        Ok(())
    }

    fn of_pools(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Clients of a pool; active ones are linked to a server or idle";
        self.of_states(to, "weir_pool_clients", help, |pool| Clients::of(pool).named())?;
        let help = "Connections of a pool to its server";
        self.of_states(to, "weir_pool_servers", help, |pool| Servers::of(pool).named())?;
        self.health(to)?;
        let name = "weir_pool_servers_idle_in_transaction";
        let help = "Servers whose client is in a transaction, and asks nothing";
        let family = to.encode_descriptor(name, help, None, MetricType::Gauge)?;
        self.of_each(family, |pool| pool.sv_idle_in_transaction)?;
        let help = "Clients that keep their server for session state that they have left there, by its kind";
        self.of_labels(to, "weir_pinned_clients", help, "reason", |pool| pool.pinned.named())?;
        let (name, help) = ("weir_pool_longest_wait", "How long the oldest waiting client has waited");
        let family = to.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Gauge)?;
        self.of_each(family, |pool| seconds(pool.maxwait))?;
        let (name, help) = ("weir_pool_statement_memory", "Prepared statements that clients of a pool hold");
        let family = to.encode_descriptor(name, help, Some(&Unit::Bytes), MetricType::Gauge)?;
        self.of_each(family, |pool| pool.statement_bytes)?;
        let help = "Clients that were refused or dropped, by class: overload or failure";
        let mut family = to.encode_descriptor("weir_refusals", help, None, MetricType::Counter)?;
        for ((database, user), refusals) in &self.refusals {
            for (class, count) in refusals.named() {
                let labels = [("database", database.as_str()), ("user", user), ("class", class)];
                count_of(&mut family, &labels, count)?;
            }
        }
        let mut family =
            to.encode_descriptor("weir_pool_size", "The most servers of a pool", None, MetricType::Gauge)?;
        for (name, size) in &self.sizes {
            family.encode_family(&[("database", name.as_str())])?.encode_gauge(size)?;
        }
        self.of_shares(to)?;
        self.of_primaries(to)
    }

    /// Of database servers whose connections pools share.
    fn of_shares(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "The most connections of the pools that share a database server";
        let mut family = to.encode_descriptor("weir_shared_server_limit", help, None, MetricType::Gauge)?;
        for (name, (most, _)) in &self.shared {
            family.encode_family(&[("server", name.as_str())])?.encode_gauge(most)?;
        }
        let help = "Connections of the pools that share a database server";
        let mut family = to.encode_descriptor("weir_shared_server_connections", help, None, MetricType::Gauge)?;
        for (name, (_, open)) in &self.shared {
            family.encode_family(&[("server", name.as_str())])?.encode_gauge(open)?;
        }
        let help = "Servers that a pool gives back to others of its database server, as they become free";
        let mut family = to.encode_descriptor("weir_pool_giving_back", help, None, MetricType::Gauge)?;
        for (name, count) in &self.giving_back {
            family.encode_family(&[("database", name.as_str())])?.encode_gauge(count)?;
        }
        Ok(())
    }

    /// Of pools that want a primary.
    fn of_primaries(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "1 while a pool that wants a primary has one; 0 while it looks for one or moves";
        let mut family = to.encode_descriptor("weir_primary_known", help, None, MetricType::Gauge)?;
        for (name, primary) in &self.primaries {
            let known = u32::from(primary.state == PrimaryState::Known);
            family.encode_family(&[("database", name.as_str())])?.encode_gauge(&known)?;
        }
        let help = "Times that a pool has moved to another primary";
        let mut family = to.encode_descriptor("weir_primary_moves", help, None, MetricType::Counter)?;
        for (name, primary) in &self.primaries {
            count_of(&mut family, &[("database", name.as_str())], primary.moves)?;
        }
        let (name, help) = ("weir_primary_move_longest_wait", "How long a client waited for the last move at the most");
        let mut family = to.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Gauge)?;
        for (name, primary) in &self.primaries {
            let longest = seconds(primary.waits.longest);
            family.encode_family(&[("database", name.as_str())])?.encode_gauge(&longest)?;
        }
        Ok(())
    }

    /// The state of each pool, one of which is 1; and since when.
    fn health(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "The state of a pool's health: 1 for the one that it is in";
        self.of_states(to, "weir_pool_health", help, |pool| {
            Health::ALL.map(|state| (state.name(), u32::from(pool.health.state == state)))
        })?;
        let (name, help) = ("weir_pool_health_since_timestamp", "When the state of a pool's health began; 0: unknown");
        let family = to.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Gauge)?;
        self.of_each(family, |pool| seconds_of(pool.health.since))?;
        let (name, help) = (
            "weir_pool_health_clients",
            "Clients that feel the state, at least: waiting or refused since it began, without an answer, behind a lock, with errors",
        );
        let family = to.encode_descriptor(name, help, None, MetricType::Gauge)?;
        self.of_each(family, |pool| pool.health.clients() as f64)
    }

    /// One gauge a pool.
    fn of_each<V: EncodeGaugeValue>(&self, mut family: MetricEncoder<'_>, of: fn(&PoolRecord) -> V) -> fmt::Result {
        for ((database, user), pool) in &self.pools {
            let labels = [("database", database.as_str()), ("user", user)];
            family.encode_family(&labels)?.encode_gauge(&of(pool))?;
        }
        Ok(())
    }

    fn of_states<const N: usize>(
        &self,
        to: &mut DescriptorEncoder<'_>,
        name: &str,
        help: &str,
        states: fn(&PoolRecord) -> [(&'static str, u32); N],
    ) -> fmt::Result {
        self.of_labels(to, name, help, "state", states)
    }

    fn of_labels<const N: usize>(
        &self,
        to: &mut DescriptorEncoder<'_>,
        name: &str,
        help: &str,
        label: &str,
        states: fn(&PoolRecord) -> [(&'static str, u32); N],
    ) -> fmt::Result {
        let mut family = to.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for ((database, user), pool) in &self.pools {
            for (state, count) in states(pool) {
                let labels = [("database", database.as_str()), ("user", user), (label, state)];
                family.encode_family(&labels)?.encode_gauge(&count)?;
            }
        }
        Ok(())
    }

    fn of_databases(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        for (counters, unit) in [(&COUNTERS[..], None), (&BYTES[..], Some(&Unit::Bytes))] {
            for Counter { name, help, of } in counters {
                let mut family = to.encode_descriptor(name, help, unit, MetricType::Counter)?;
                for (database, (stats, counters)) in &self.stats {
                    count_of(&mut family, &[("database", database.as_str())], of(stats, counters))?;
                }
            }
        }
        let help = "Errors that servers sent to clients";
        let mut family = to.encode_descriptor("weir_server_errors", help, None, MetricType::Counter)?;
        for (database, (_, counters)) in &self.stats {
            for (sqlstate, count) in counters.errors.by_code() {
                count_of(&mut family, &[("database", database.as_str()), ("sqlstate", &sqlstate)], count)?;
            }
        }
        let help = "Session state that clients lost at the end of a transaction, or were refused";
        let mut family = to.encode_descriptor("weir_session_state_lost", help, None, MetricType::Counter)?;
        for (database, (_, counters)) in &self.stats {
            for (kind, count) in counters.lost.named() {
                for (outcome, count) in [("lost", count.lost), ("refused", count.refused)] {
                    let labels = [("database", database.as_str()), ("kind", kind), ("outcome", outcome)];
                    count_of(&mut family, &labels, count)?;
                }
            }
        }
        let help = "Texts that left session state, and had run before without a question about what they leave";
        let mut family = to.encode_descriptor("weir_state_found_late", help, None, MetricType::Counter)?;
        for (database, (_, counters)) in &self.stats {
            for (kind, count) in counters.lost.named() {
                count_of(&mut family, &[("database", database.as_str()), ("kind", kind)], count.late)?;
            }
        }
        self.times.encode(to)
    }
}
