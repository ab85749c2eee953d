//! Metrics and spans for a collector: what arrives is what happened, and a collector that fails has no effect on
//! clients.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use weir_pglocal::free_port;
use weir_tests::{Api, Batch, Mode, Receiver, Setup, Site, ask, eventually};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

/// A site whose telemetry goes to an address, with more lines of that section.
fn site(endpoint: &str, lines: &str, size: u32) -> (Site, Api) {
    let api = Api::default();
    let more = format!("{}[telemetry]\notlp_endpoint = \"{endpoint}\"\ninterval = 1\n{lines}", api.section());
    let setup = Setup::new(Mode::Transaction).size(size).general("track_statements = 50").more(&more);
    (Site::with(setup, Mode::Transaction), api)
}

/// The comment of a trace; `number` tells traces apart.
fn traced(number: u32, flags: &str) -> String {
    format!("/*application='x',traceparent='00-{}{number:04}-{PARENT}-{flags}'*/", &TRACE[..28])
}

fn metrics(body: &Value) -> &[Value] {
    body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().map_or(&[], Vec::as_slice)
}

/// The spans of a trace in the order of their start, of all that was received.
fn spans<'a>(bodies: impl IntoIterator<Item = &'a Value>, number: u32) -> Vec<Value> {
    let trace = format!("{}{number:04}", &TRACE[..28]);
    let of = |body: &Value| body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().cloned().unwrap_or_default();
    let mut all: Vec<Value> =
        bodies.into_iter().flat_map(of).filter(|span| span["traceId"] == trace.as_str()).collect();
    all.sort_by_key(|span| span["startTimeUnixNano"].as_str().unwrap_or_default().to_owned());
    all
}

#[track_caller]
fn spans_at(receiver: &Receiver, number: u32, wanted: usize) -> Vec<Value> {
    eventually("spans", || {
        let bodies: Vec<Value> = receiver.all().into_iter().map(|one| one.body).collect();
        let found = spans(&bodies, number);
        if found.len() == wanted { Ok(found) } else { Err(format!("{found:?} of {bodies:?}")) }
    })
}

fn attribute<'a>(of: &'a Value, name: &str) -> Option<&'a str> {
    let found = of["attributes"].as_array()?.iter().find(|one| one["key"] == name)?;
    found["value"]["stringValue"].as_str()
}

fn nanoseconds(span: &Value, key: &str) -> u64 {
    span[key].as_str().and_then(|text| text.parse().ok()).unwrap_or_default()
}

#[test]
fn metrics_arrive_with_their_kinds_headers_and_attributes() {
    let receiver = Receiver::start();
    let secret = std::env::temp_dir().join(format!("weir-otlp-secret-{}", std::process::id()));
    fs::write(&secret, "Bearer abc\n").unwrap();
    let lines = format!(
        "otlp_headers = [\"Authorization=file:{}\"]\nresource = [\"service.name=eu\", \"zone=a\"]\n",
        secret.display()
    );
    let (site, api) = site(&receiver.url(""), &lines, 2);
    site.connect().query("SELECT 1").unwrap();
    let counted = |body: &Value| {
        let queries = metrics(body).iter().find(|metric| metric["name"] == "weir_queries");
        queries.is_some_and(|metric| metric["sum"]["dataPoints"][0]["asInt"] != "0")
    };
    let body = receiver.find("v1/metrics", counted);
    let resource = &body["resourceMetrics"][0]["resource"];
    assert_eq!((attribute(resource, "service.name"), attribute(resource, "zone")), (Some("eu"), Some("a")));
    let named = |name: &str| metrics(&body).iter().find(|metric| metric["name"] == name).unwrap().clone();
    assert_eq!(attribute(&named("weir_queries")["sum"]["dataPoints"][0], "database"), Some("app"));
    let times = &named("weir_query_seconds")["histogram"]["dataPoints"][0];
    let counts = times["bucketCounts"].as_array().unwrap();
    assert_eq!(counts.len(), times["explicitBounds"].as_array().unwrap().len() + 1);
    let sum: u64 = counts.iter().map(|count| count.as_str().unwrap().parse::<u64>().unwrap()).sum();
    assert_eq!(times["count"], sum.to_string());
    assert!(receiver.all().iter().all(|one| one.head.contains("authorization: bearer abc")));
    // The families are the same as for Prometheus.
    let text = api.ask("GET", "/metrics", "").1;
    let families = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let missing: Vec<_> = families
        .map(|name| name.trim_end_matches("_total").trim_end_matches("_info"))
        .filter(|name| text.lines().any(|line| line.starts_with(name)))
        .filter(|name| !metrics(&body).iter().any(|metric| metric["name"] == *name))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    fs::remove_file(&secret).unwrap();
}

#[test]
fn a_query_with_a_sampled_trace_has_spans_over_every_protocol_and_no_other_has() {
    let receiver = Receiver::start();
    let (site, _api) = site(&receiver.url(""), "spans = true\nmetrics = false\n", 2);
    let mut client = site.connect();
    client.query(&format!("SELECT pg_sleep(0.05), 'secret' {}", traced(1, "01"))).unwrap();
    ask(&mut client, &Batch::new().run(&format!("SELECT $1::int {}", traced(2, "01")), &["4"]).sync(), 1);
    let named = Batch::new().parse("s", &format!("SELECT 1, $1::int {}", traced(3, "01")));
    ask(&mut client, &named.bind("", "s", &["5"]).execute("", 0).sync(), 1);
    client.query(&format!("SELECT 1 {}", traced(4, "00"))).unwrap();
    client.query("SELECT 2").unwrap();
    let _ = client.query(&format!("SELECT 1/0 {}", traced(5, "01")));
    for (number, text) in [(1, "select pg_sleep(?), ?"), (2, "select $?"), (3, "select ?, $?")] {
        let found = spans_at(&receiver, number, 1);
        let span = &found[0];
        assert_eq!(
            (&span["name"], &span["parentSpanId"], &span["kind"]),
            (&"execute".into(), &PARENT.into(), &3.into())
        );
        assert_eq!((attribute(span, "db.namespace"), span.get("status")), (Some("app"), None));
        let said = attribute(span, "db.query.text").unwrap();
        assert!(!said.contains("secret") && said.starts_with(&text[..7]), "{said}");
    }
    let slept = &spans_at(&receiver, 1, 1)[0];
    let took = nanoseconds(slept, "endTimeUnixNano") - nanoseconds(slept, "startTimeUnixNano");
    assert!((50_000_000..5_000_000_000).contains(&took), "{took}");
    assert_eq!(spans_at(&receiver, 5, 1)[0]["status"]["code"], 2);
    assert_eq!(spans_at(&receiver, 4, 0).len(), 0);
    assert_eq!(receiver.count("v1/metrics"), 0);
}

#[test]
fn a_wait_for_a_server_is_a_span_before_the_execution() {
    let receiver = Receiver::start();
    let (site, _api) = site(&receiver.url("/"), "spans = true\nmetrics = false\n", 1);
    let mut holder = site.connect();
    holder.query("BEGIN").unwrap();
    let params = site.params();
    let waiter = thread::spawn(move || {
        let mut client = weir_pgclient::Connection::connect(&params).unwrap();
        client.query(&format!("SELECT 1 {}", traced(7, "01"))).unwrap();
    });
    thread::sleep(Duration::from_millis(300));
    holder.query("COMMIT").unwrap();
    waiter.join().unwrap();
    let found = spans_at(&receiver, 7, 2);
    assert_eq!((&found[0]["name"], &found[1]["name"]), (&"wait".into(), &"execute".into()));
    assert_eq!(found[0]["endTimeUnixNano"], found[1]["startTimeUnixNano"]);
    let waited = nanoseconds(&found[0], "endTimeUnixNano") - nanoseconds(&found[0], "startTimeUnixNano");
    assert!(waited > 100_000_000, "{waited}");
}

#[test]
fn requests_of_a_pipeline_have_their_own_traces_and_skipped_ones_none() {
    let receiver = Receiver::start();
    let (site, _api) = site(&receiver.url(""), "spans = true\nmetrics = false\n", 1);
    let mut client = site.connect();
    let batch = Batch::new()
        .run(&format!("SELECT 1 {}", traced(1, "01")), &[])
        .run("SELECT now()", &[])
        .run(&format!("SELECT 1/$1::int {}", traced(2, "01")), &["0"])
        .run(&format!("SELECT pg_backend_pid() {}", traced(3, "01")), &[])
        .sync()
        .run(&format!("SELECT version() {}", traced(4, "01")), &[])
        .sync();
    ask(&mut client, &batch, 2);
    for (number, failed) in [(1, false), (2, true), (4, false)] {
        assert_eq!(spans_at(&receiver, number, 1)[0].get("status").is_some(), failed, "{number}");
    }
    assert_eq!(spans_at(&receiver, 3, 0).len(), 0, "the server has skipped it");
}

#[test]
fn a_collector_that_fails_is_logged_once_and_counted_and_delays_no_query() {
    let receiver = Receiver::start();
    receiver.status.store(503, Ordering::Relaxed);
    let (site, api) = site(&receiver.url(""), "spans = true\n", 2);
    let mut client = site.connect();
    for number in 0..20 {
        client.query(&format!("SELECT 1 {}", traced(number, "01"))).unwrap();
    }
    let value = |name: &str| {
        let text = api.ask("GET", "/metrics", "").1;
        let line = text.lines().find_map(|line| line.strip_prefix(name)).map(|rest| rest.trim().to_owned());
        line.and_then(|value| value.parse::<u64>().ok()).unwrap_or_default()
    };
    eventually("failures are counted", || {
        let failed = value("weir_telemetry_exports_total{signal=\"metrics\",outcome=\"failed\"}");
        let dropped = value("weir_telemetry_spans_dropped_total");
        if failed >= 3 && dropped >= 20 { Ok(()) } else { Err(format!("{failed} {dropped}")) }
    });
    let lines = || {
        let log = site.weir().log();
        (
            log.matches("telemetry: the collector can't be reached").count(),
            log.matches("the collector works again").count(),
        )
    };
    assert_eq!(lines(), (1, 0));
    receiver.status.store(200, Ordering::Relaxed);
    eventually("it works again", || if lines() == (1, 1) { Ok(()) } else { Err(format!("{:?}", lines())) });
}

#[test]
fn a_reload_begins_and_ends_the_exports() {
    let receiver = Receiver::start();
    let (site, api) = site(&receiver.url(""), "", 2);
    eventually("metrics", || if receiver.count("v1/metrics") > 0 { Ok(()) } else { Err("none".to_owned()) });
    let file = site.weir().folder().join("weir.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("otlp_endpoint", "# otlp_endpoint")).unwrap();
    assert_eq!(api.post("/api/v1/reload").0, 204);
    thread::sleep(Duration::from_millis(1500));
    let before = receiver.count("v1/metrics");
    site.connect().query(&format!("SELECT 1 {}", traced(1, "01"))).unwrap();
    thread::sleep(Duration::from_millis(2500));
    assert_eq!((receiver.count("v1/metrics"), receiver.count("v1/traces")), (before, 0));
    fs::write(&file, text.replace("interval = 1", "interval = 1\nspans = true")).unwrap();
    assert_eq!(api.post("/api/v1/reload").0, 204);
    site.connect().query(&format!("SELECT 1 {}", traced(2, "01"))).unwrap();
    spans_at(&receiver, 2, 1);
    eventually("metrics again", || if receiver.count("v1/metrics") > before { Ok(()) } else { Err("none".to_owned()) });
}

/// The receiver of the OpenTelemetry collector; ends with this.
struct Collector {
    child: Child,
    lines: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_receiver_of_the_opentelemetry_collector_takes_metrics_and_spans() {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/otlp-collector");
    if !program.exists() {
        weir_tests::skipped("the test with the OpenTelemetry collector, which tests/otlp/build.sh makes");
        return;
    }
    let port = free_port().unwrap();
    let endpoint = format!("127.0.0.1:{port}");
    let mut child = Command::new(&program).arg(&endpoint).stdout(Stdio::piped()).spawn().unwrap();
    let (output, lines) = (child.stdout.take().unwrap(), Arc::<Mutex<Vec<(String, Value)>>>::default());
    let list = lines.clone();
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let (kind, json) = line.split_once(' ').unwrap_or((&line, "null"));
            list.lock().unwrap().push((kind.to_owned(), serde_json::from_str(json).unwrap()));
        }
    });
    let collector = Collector { child, lines };
    let received = |kind: &str| {
        let lines = collector.lines.lock().unwrap();
        lines.iter().filter(|(of, _)| of == kind).map(|(_, body)| body.clone()).collect::<Vec<_>>()
    };
    eventually("it listens", || if received("ready").is_empty() { Err("not yet") } else { Ok(()) });
    let (site, api) = site(&format!("http://{endpoint}"), "spans = true\n", 2);
    site.connect().query(&format!("SELECT 1 {}", traced(1, "01"))).unwrap();
    eventually("metrics", || {
        let all = received("metrics");
        let kinds = ["sum", "gauge", "histogram"];
        let has = |kind: &&str| all.iter().any(|body| metrics(body).iter().any(|metric| metric.get(*kind).is_some()));
        if kinds.iter().all(has) { Ok(()) } else { Err(format!("{all:?}")) }
    });
    let found = eventually("spans", || {
        let all = received("traces");
        let found = spans(&all, 1);
        if found.is_empty() { Err(format!("{all:?}")) } else { Ok(found) }
    });
    assert_eq!(found[0]["parentSpanId"], PARENT);
    let text = api.ask("GET", "/metrics", "").1;
    assert!(
        text.contains("weir_telemetry_exports_total{signal=\"metrics\",outcome=\"failed\"} 0"),
        "nothing is rejected"
    );
}
