//! The dashboard and the alert rules in `monitoring/`, evaluated by a real Prometheus that scrapes a real Weir under
//! load.
//!
//! Skipped, with a line that reports it, where no Prometheus is installed.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use weir_pglocal::TempFolder;
use weir_tests::{Api, Batch, Mode, Setup, Site, ask, within};

use crate::has;

const MONITORING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../monitoring");
/// What Grafana would choose for these scrapes.
const RATE_INTERVAL: &str = "30s";
const TIMEOUT: Duration = Duration::from_secs(90);

/// Killed at the end.
struct Prometheus {
    child: Child,
    api: Api,
    _folder: TempFolder,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prometheus {
    /// Scrapes Weir each second, and evaluates the project's rules.
    fn scraping(weir: Api) -> Prometheus {
        let folder = TempFolder::new().expect("a temporary folder");
        let config = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [\"{MONITORING}/alerts.yml\"]\n\
             scrape_configs: [{{job_name: weir, static_configs: [{{targets: [\"{}\"]}}]}}]\n",
            weir.address()
        );
        fs::write(folder.path().join("prometheus.yml"), config).expect("a file in our folder");
        let api = Api::default();
        let mut command = Command::new("prometheus");
        command.current_dir(folder.path()).arg("--config.file=prometheus.yml").arg("--storage.tsdb.path=data");
        command.arg(format!("--web.listen-address={}", api.address()));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("prometheus is installed");
        Prometheus { child, api, _folder: folder }
    }

    /// The values of an instant query.
    fn query(&self, expression: &str) -> Result<Vec<f64>, String> {
        let encoded: String = expression.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let (status, text) = self.api.ask("GET", &format!("/api/v1/query?query={encoded}"), "");
        let answer: Value = serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))?;
        if status != 200 || answer["status"] != "success" {
            return Err(format!("{expression}: {text}"));
        }
        let series = answer["data"]["result"].as_array().ok_or(format!("{expression}: {text}"))?;
        let value = |one: &Value| one["value"][1].as_str().and_then(|value| value.parse().ok());
        series.iter().map(|one| value(one).ok_or(format!("{expression}: {one}"))).collect()
    }

    /// Waits until a query returns a number.
    #[track_caller]
    fn has_data(&self, expression: &str) {
        within(TIMEOUT, expression, || {
            let values = self.query(expression)?;
            let good = !values.is_empty() && values.iter().all(|value| value.is_finite());
            if good { Ok(()) } else { Err(format!("{values:?}")) }
        });
    }
}

/// Every `expr` of a dashboard, with its variables replaced by what Grafana sends for *All*.
fn expressions(dashboard: &Value) -> Vec<String> {
    match dashboard {
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(key, value)| match value {
                Value::String(text) if key == "expr" => {
                    vec![
                        text.replace("$instance", ".*")
                            .replace("$database", ".*")
                            .replace("$__rate_interval", RATE_INTERVAL),
                    ]
                }
                _ => expressions(value),
            })
            .collect(),
        Value::Array(values) => values.iter().flat_map(expressions).collect(),
        _ => Vec::new(),
    }
}

/// For some seconds: transactions, prepared statements, a client that idles in a transaction, one that waits, refusals
/// by a full pool, and an error of the server.
fn work(site: &Site) {
    let mut client = site.connect();
    for _ in 0..20 {
        ask(&mut client, &Batch::new().run("SELECT $1::int", &["1"]).sync(), 1);
        thread::sleep(Duration::from_millis(100));
    }
    drop(client);
    let end = Instant::now() + Duration::from_secs(8);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut idle = site.connect();
            idle.query("BEGIN").unwrap();
            thread::sleep(end.saturating_duration_since(Instant::now()));
            idle.query("COMMIT").unwrap();
        });
        for _ in 0..3 {
            scope.spawn(|| {
                while Instant::now() < end {
                    let mut client = site.connect();
                    for _ in 0..20 {
                        // A refusal, or the error of the server: both are what the panels show.
                        let _ = client.query("SELECT pg_sleep(0.01)");
                    }
                    let mut client = site.connect();
                    let _ = client.query("DO $$ BEGIN RAISE EXCEPTION 'full' USING ERRCODE = '53100'; END $$");
                }
            });
        }
        scope.spawn(|| {
            while Instant::now() < end {
                let mut client = site.connect();
                let _ = client.query("SELECT pg_sleep(2)");
            }
        });
    });
}

#[test]
#[cfg_attr(not(feature = "long"), ignore = "needs a Prometheus; runs with the feature long")]
fn prometheus_evaluates_each_expression_of_the_dashboard_and_of_the_alerts() {
    if !has("monitoring/grafana.json and alerts.yml", &["prometheus --version", "promtool --version"]) {
        return;
    }
    let weir = Api::default();
    let setup = Setup::new(Mode::Transaction).size(2).limit("query_wait_timeout = 1").more(&weir.section());
    let site = Site::with(setup, Mode::Transaction);
    let prometheus = Prometheus::scraping(weir);
    prometheus.has_data("up{job=\"weir\"} == 1");
    work(&site);
    let text = fs::read_to_string(format!("{MONITORING}/grafana.json")).expect("the dashboard");
    let dashboard: Value = serde_json::from_str(&text).expect("JSON");
    let panels = expressions(&dashboard);
    assert!(panels.len() >= 25, "{panels:?}");
    for expression in &panels {
        assert!(!expression.contains('$'), "a variable that this test does not know: {expression}");
        prometheus.has_data(expression);
    }
    // The two lists of the dashboard's variables.
    prometheus.has_data("count by (instance) (weir_build_info)");
    prometheus.has_data("count by (database) (weir_pool_size)");
    rules(&prometheus);
}

/// Each rule can be evaluated, and both sides of its comparison have data.
fn rules(prometheus: &Prometheus) {
    let text = fs::read_to_string(format!("{MONITORING}/alerts.yml")).expect("the rules");
    let rules: Vec<&str> = text.lines().filter_map(|line| line.trim().strip_prefix("expr: ")).collect();
    assert!(rules.len() >= 9, "{rules:?}");
    for rule in rules {
        prometheus.query(rule).unwrap();
        let expression = rule.replace("[5m]", &format!("[{RATE_INTERVAL}]"));
        let sides: Vec<&str> = expression.split(" > ").flat_map(|side| side.split(" == ")).collect();
        assert_eq!(sides.len(), 2, "{expression}");
        for side in sides.iter().filter(|side| side.parse::<f64>().is_err()) {
            prometheus.has_data(side);
        }
    }
}
