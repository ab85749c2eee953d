//! `/metrics`: what the workers report, in the text format of OpenMetrics (its specification, 1.0), which Prometheus reads.
//!
//! Names follow Prometheus's conventions: base units, `_total` for what only grows. Databases and users are labels, and
//! with a `*` database there may be any number of them: beyond [`MOST`] the rest is one sum, `(others)`.

use std::collections::BTreeMap;
use std::fmt;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::{Registry, Unit};
use weir_admin::{DatabaseStats, PoolRecord, Refusals, Report, Serving, Stats};
use weir_config::Config;

use crate::ask::Workers;
use crate::error::ApiError;
use crate::figures::{Clients, Servers, seconds, seconds_of};

/// Databases, and pools, that have labels of their own.
const MOST: usize = 1000;
/// The label of the rest.
const OTHERS: &str = "(others)";
/// The version of OpenMetrics that is written.
const FORMAT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Everything that is shown, by the names that become labels.
#[derive(Debug)]
struct Figures {
    version: &'static str,
    max_clients: u32,
    login_clients: u32,
    console_clients: u32,
    serving: Serving,
    draining: bool,
    /// By database and user.
    pools: BTreeMap<(String, String), PoolRecord>,
    /// By database and user; without both for clients that had no pool.
    refusals: BTreeMap<(String, String), Refusals>,
    /// By database.
    stats: BTreeMap<String, Stats>,
    /// By configured pool: the most servers that it may have.
    sizes: BTreeMap<String, u32>,
}

/// Answers a scrape.
pub(crate) async fn metrics(
    State(workers): State<Workers>,
    State(version): State<&'static str>,
) -> Result<impl IntoResponse, ApiError> {
    let (report, config) = workers.report().await?;
    Ok(([(CONTENT_TYPE, FORMAT)], text(Figures::new(report, &config, version))))
}

fn text(figures: Figures) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(figures));
    let mut text = String::new();
    // A string takes everything.
    let _ = encode(&mut text, &registry);
    text
}

impl Figures {
    fn new(report: Report, config: &Config, version: &'static str) -> Figures {
        let mut figures = Figures {
            version,
            max_clients: config.max_clients,
            login_clients: report.login_clients,
            console_clients: report.console_clients,
            serving: report.serving,
            draining: report.draining,
            pools: BTreeMap::new(),
            refusals: BTreeMap::new(),
            stats: BTreeMap::new(),
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
        for DatabaseStats { database, total, .. } in &report.stats {
            let (key, _) = labels(figures.stats.len(), database, "");
            figures.stats.entry(key).or_default().add(total);
        }
        figures
    }
}

/// A name's own labels as long as there is room for them.
fn labels(taken: usize, database: &str, user: &str) -> (String, String) {
    if taken < MOST { (escaped(database), escaped(user)) } else { (OTHERS.to_owned(), String::new()) }
}

/// A label's value as the format wants it (OpenMetrics, "ABNF"): whoever names a database may not write our lines.
fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

/// A counter of a database: its name, its help, and what it counts.
struct Counter {
    name: &'static str,
    help: &'static str,
    of: fn(&Stats) -> u64,
}

const COUNTERS: [Counter; 6] = [
    Counter {
        name: "weir_transactions",
        help: "Transactions; a query outside of one counts as one",
        of: |stats| stats.xact_count,
    },
    Counter {
        name: "weir_queries",
        help: "Queries: simple ones, and groups up to a Sync",
        of: |stats| stats.query_count,
    },
    Counter {
        name: "weir_server_assignments",
        help: "Times that a server was given to a client",
        of: |stats| stats.server_assignment_count,
    },
    Counter {
        name: "weir_client_parses",
        help: "Named statements that clients prepared",
        of: |stats| stats.client_parse_count,
    },
    Counter {
        name: "weir_server_parses",
        help: "Named statements that were prepared on servers",
        of: |stats| stats.server_parse_count,
    },
    Counter { name: "weir_binds", help: "Binds of prepared statements", of: |stats| stats.bind_count },
];

/// Times, which the workers count in microseconds.
const TIMES: [Counter; 3] = [
    Counter { name: "weir_client_wait", help: "Time that clients waited for a server", of: |stats| stats.wait_time },
    Counter { name: "weir_query", help: "Time spent on queries", of: |stats| stats.query_time },
    Counter {
        name: "weir_transaction",
        help: "Time spent in transactions, idle ones too",
        of: |stats| stats.xact_time,
    },
];

const BYTES: [Counter; 2] = [
    Counter { name: "weir_received", help: "Bytes received from clients", of: |stats| stats.received },
    Counter { name: "weir_sent", help: "Bytes sent to clients", of: |stats| stats.sent },
];

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let to = &mut encoder;
        self.process(to)?;
        self.of_pools(to)?;
        self.of_databases(to)
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
                self.serving == Serving::Active,
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
        Ok(())
    }

    fn of_pools(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Clients of a pool; active ones are linked to a server or idle";
        self.of_states(to, "weir_pool_clients", help, |pool| Clients::of(pool).named())?;
        let help = "Connections of a pool to its server";
        self.of_states(to, "weir_pool_servers", help, |pool| Servers::of(pool).named())?;
        let help = "How long the oldest waiting client has waited";
        let mut family =
            to.encode_descriptor("weir_pool_longest_wait", help, Some(&Unit::Seconds), MetricType::Gauge)?;
        for ((database, user), pool) in &self.pools {
            let labels = [("database", database.as_str()), ("user", user)];
            family.encode_family(&labels)?.encode_gauge(&seconds(pool.maxwait))?;
        }
        let help = "Clients that were refused or dropped, overload told apart from failure";
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
        Ok(())
    }

    fn of_states<const N: usize>(
        &self,
        to: &mut DescriptorEncoder<'_>,
        name: &str,
        help: &str,
        states: fn(&PoolRecord) -> [(&'static str, u32); N],
    ) -> fmt::Result {
        let mut family = to.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for ((database, user), pool) in &self.pools {
            for (state, count) in states(pool) {
                let labels = [("database", database.as_str()), ("user", user), ("state", state)];
                family.encode_family(&labels)?.encode_gauge(&count)?;
            }
        }
        Ok(())
    }

    fn of_databases(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        for (counters, unit) in [(&COUNTERS[..], None), (&BYTES[..], Some(&Unit::Bytes))] {
            for Counter { name, help, of } in counters {
                let mut family = to.encode_descriptor(name, help, unit, MetricType::Counter)?;
                for (database, stats) in &self.stats {
                    count_of(&mut family, &[("database", database.as_str())], of(stats))?;
                }
            }
        }
        for Counter { name, help, of } in &TIMES {
            let mut family = to.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Counter)?;
            for (database, stats) in &self.stats {
                let time = seconds_of(of(stats));
                let labels = [("database", database.as_str())];
                family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, f64>(&time, None)?;
            }
        }
        Ok(())
    }
}

fn count_of(family: &mut MetricEncoder<'_>, labels: &impl EncodeLabelSet, count: u64) -> fmt::Result {
    let none: Option<&Exemplar<NoLabelSet, f64>> = None;
    family.encode_family(labels)?.encode_counter(&count, none)
}

#[cfg(test)]
mod tests {
    use weir_base::{Mode, Span};

    use super::*;

    fn report(pools: usize) -> Report {
        let record = |n: usize| {
            let mut pool = PoolRecord::new(format!("app{n}"), "ann", Mode::Transaction);
            (pool.cl_waiting, pool.sv_active, pool.maxwait) = (2, 1, Span::from_micros(1_500_000));
            pool
        };
        let stats = |n: usize| DatabaseStats {
            database: format!("app{n}"),
            total: Stats { xact_count: 10, wait_time: 2_500_000, ..Stats::default() },
            ..DatabaseStats::default()
        };
        Report { pools: (0..pools).map(record).collect(), stats: (0..pools).map(stats).collect(), ..Report::default() }
    }

    fn lines(report: Report) -> Vec<String> {
        let figures = Figures::new(report, &Config::default(), "weir \"test\"");
        text(figures).lines().map(str::to_owned).collect()
    }

    #[test]
    fn figures_have_base_units_and_names_that_prometheus_expects() {
        let lines = lines(report(1));
        for wanted in [
            "weir_build_info{version=\"weir \\\"test\\\"\"} 1",
            "weir_pool_clients{database=\"app0\",user=\"ann\",state=\"waiting\"} 2",
            "weir_pool_servers{database=\"app0\",user=\"ann\",state=\"active\"} 1",
            "weir_pool_longest_wait_seconds{database=\"app0\",user=\"ann\"} 1.5",
            "weir_transactions_total{database=\"app0\"} 10",
            "weir_client_wait_seconds_total{database=\"app0\"} 2.5",
            "weir_serving 1",
        ] {
            assert!(lines.iter().any(|line| line == wanted), "no {wanted} in {lines:#?}");
        }
        assert_eq!(lines.last().map(String::as_str), Some("# EOF"));
    }

    #[test]
    fn a_name_can_not_write_lines_of_its_own() {
        let mut hostile = report(1);
        hostile.pools[0].database = "a\"} 1\nweir_serving 0\n\\".into();
        let lines = lines(hostile);
        assert!(!lines.iter().any(|line| line == "weir_serving 0"), "{lines:#?}");
        let own = r#"weir_pool_clients{database="a\"} 1\nweir_serving 0\n\\",user="ann",state="waiting"} 2"#;
        assert!(lines.iter().any(|line| line == own), "{lines:#?}");
    }

    #[test]
    fn however_many_pools_there_are_the_labels_are_bounded_and_the_sums_are_right() {
        let lines = lines(report(MOST + 500));
        let of = |name: &str| lines.iter().filter(|line| line.starts_with(name)).collect::<Vec<_>>();
        assert_eq!(of("weir_transactions_total").len(), MOST + 1);
        assert!(lines.iter().any(|line| line == "weir_transactions_total{database=\"(others)\"} 5000"));
        let waiting = "weir_pool_clients{database=\"(others)\",user=\"\",state=\"waiting\"} 1000";
        assert!(lines.iter().any(|line| line == waiting));
        assert_eq!(of("weir_pool_longest_wait_seconds").len(), MOST + 1);
    }
}
