//! What `/metrics` shows of a report; and that the files in `monitoring` use only names of existing metrics.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};

use weir_admin::{ClusterPool, PoolHealth, RefusalRecord};
use weir_base::{PoolMode, Span};

use super::*;

fn report(pools: usize) -> Report {
    let record = |n: usize| {
        let mut pool = PoolRecord::new(format!("app{n}"), "ann", PoolMode::Transaction);
        (pool.cl_waiting, pool.sv_active, pool.maxwait) = (2, 1, Span::from_micros(1_500_000));
        pool.statement_bytes = 4_096;
        let since = 1_500_000;
        pool.health =
            PoolHealth { state: Health::Stalled, since, waiting: 2, refused_clients: 5, ..PoolHealth::default() };
        pool
    };
    let stats = |n: usize| {
        let mut counters = PoolCounters::default();
        counters.logins = 7;
        counters.errors.count(*b"23505", 2);
        counters.times().wait.count_many(0, 3);
        counters.times().wait.count(2_500_000);
        let total = Stats { xact_count: 10, wait_time: 2_500_000, ..Stats::default() };
        DatabaseStats { database: format!("app{n}"), total, counters, ..DatabaseStats::default() }
    };
    let refusals = (0..pools)
        .map(|n| RefusalRecord { pool: Some((format!("app{n}"), "ann".into())), ..RefusalRecord::default() })
        .collect();
    Report {
        pools: (0..pools).map(record).collect(),
        stats: (0..pools).map(stats).collect(),
        refusals,
        ..Report::default()
    }
}

fn scrape(figures: Figures) -> Scrape {
    Scrape { figures: Arc::new(figures), busy: None }
}

fn lines(report: Report) -> Vec<String> {
    let figures = Figures::new(report, &Config::default(), "weir \"test\"", Cpu::of([(1, 2.5)]));
    scrape(figures).text(MetricsFormat::OpenMetrics).lines().map(str::to_owned).collect()
}

#[test]
fn figures_have_base_units_and_names_that_prometheus_expects() {
    let lines = lines(report(1));
    for wanted in [
        "weir_build_info{version=\"weir \\\"test\\\"\"} 1",
        "weir_pool_clients{database=\"app0\",user=\"ann\",state=\"waiting\"} 2",
        "weir_pool_servers{database=\"app0\",user=\"ann\",state=\"active\"} 1",
        "weir_pool_statement_memory_bytes{database=\"app0\",user=\"ann\"} 4096",
        "weir_pool_longest_wait_seconds{database=\"app0\",user=\"ann\"} 1.5",
        "weir_pool_health{database=\"app0\",user=\"ann\",state=\"stalled\"} 1",
        "weir_pool_health{database=\"app0\",user=\"ann\",state=\"healthy\"} 0",
        "weir_pool_health_since_timestamp_seconds{database=\"app0\",user=\"ann\"} 1.5",
        "weir_pool_health_clients{database=\"app0\",user=\"ann\"} 5.0",
        "weir_transactions_total{database=\"app0\"} 10",
        "weir_client_wait_seconds_sum{database=\"app0\"} 2.5",
        "weir_client_wait_seconds_bucket{le=\"2.097152\",database=\"app0\"} 3",
        "weir_client_wait_seconds_bucket{le=\"+Inf\",database=\"app0\"} 4",
        "weir_client_wait_seconds_count{database=\"app0\"} 4",
        "weir_server_errors_total{database=\"app0\",sqlstate=\"23505\"} 2",
        "weir_client_logins_total{database=\"app0\"} 7",
        "weir_worker_cpu_seconds_total{worker=\"1\"} 2.5",
        "weir_serving 1",
    ] {
        assert!(lines.iter().any(|line| line == wanted), "no {wanted} in {lines:#?}");
    }
    assert_eq!(lines.last().map(String::as_str), Some("# EOF"));
}

#[test]
fn a_reload_that_failed_or_needs_a_restart_is_seen() {
    let text = plain();
    for wanted in [
        "weir_config_last_reload_successful 1",
        "weir_config_last_reload_success_timestamp_seconds 1.5",
        "weir_config_restart_needed{setting=\"listen.port\"} 1",
    ] {
        assert!(text.lines().any(|line| line == wanted), "no {wanted} in {text}");
    }
    let reload = LastReload { at: 2, error: Some("no host".into()), restart: Vec::new(), worked_at: None };
    let failed = lines(Report { last_reload: Some(reload), ..report(1) });
    assert!(failed.iter().any(|line| line == "weir_config_last_reload_successful 0"), "{failed:#?}");
    assert!(!failed.iter().any(|line| line.contains("reload_success_timestamp_seconds")), "{failed:#?}");
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

/// A report with all metrics and one pool of the configuration, in Prometheus's format.
fn plain() -> String {
    let text = "[auth]\ntype = \"trust\"\n[auth.users]\nann = \"\"\n[pools.app0]\nhost = \"::1\"\n";
    let config = weir_config::load("weir.toml".as_ref(), &|_| Ok(text.to_owned()), &|_| None).expect("a pool");
    let pool = ClusterPool { name: "app0".into(), budget: 20, shares: Vec::new() };
    let cluster =
        ClusterView { cluster: "production".into(), node: "weir-1".into(), pools: vec![pool], ..Default::default() };
    let restart = vec!["listen.port".into()];
    let reload = LastReload { at: 1_500_000, error: None, restart, worked_at: Some(1_500_000) };
    let report = Report { cluster: Some(Arc::new(cluster)), last_reload: Some(reload), ..report(1) };
    let figures = Figures::new(report, &config, "test", Cpu::of([(0, 2.5)]));
    scrape(figures).text(MetricsFormat::Plain)
}

/// The names of metrics in a text.
fn names(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with("weir_")).collect()
}

#[test]
fn the_dashboard_and_the_alerts_ask_for_metrics_that_there_are() {
    let plain = plain();
    let offered: BTreeSet<&str> = plain.lines().filter_map(|line| line.split(['{', ' ']).next()).collect();
    for (file, text) in [
        ("grafana.json", include_str!("../../../../monitoring/grafana.json")),
        ("alerts.yml", include_str!("../../../../monitoring/alerts.yml")),
        ("cluster.yml", include_str!("../../../../monitoring/cluster.yml")),
    ] {
        let wanted = names(text);
        assert!(wanted.len() > 5, "{file} asks for {wanted:?}");
        let missing: Vec<_> = wanted.difference(&offered).collect();
        assert!(missing.is_empty(), "{file} asks for {missing:?}");
    }
    let dashboard: serde_json::Value =
        serde_json::from_str(include_str!("../../../../monitoring/grafana.json")).expect("JSON");
    assert_eq!(dashboard["uid"], "weir");
}

/// Whether promtool accepts this; true where promtool is not installed.
fn promtool(arguments: &[&str], input: &str) -> Result<(), String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../monitoring");
    let mut command = Command::new("promtool");
    let command = command.args(arguments).current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::piped());
    let Ok(mut child) = command.stderr(Stdio::piped()).spawn() else { return Ok(()) };
    child.stdin.take().map(|mut stdin| stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    let said = [output.stdout, output.stderr].concat();
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&said).into_owned()) }
}

#[test]
fn promtool_accepts_the_metrics_and_the_rules() {
    assert_eq!(promtool(&["check", "metrics"], &plain()), Ok(()));
    assert_eq!(promtool(&["check", "rules", "alerts.yml"], ""), Ok(()));
    assert_eq!(promtool(&["test", "rules", "alerts.test.yml"], ""), Ok(()));
    assert_eq!(promtool(&["check", "rules", "cluster.yml"], ""), Ok(()));
    assert_eq!(promtool(&["test", "rules", "cluster.test.yml"], ""), Ok(()));
}
