//! Alerts: a server that is away, reported to real receivers, resolved when it is back, silenced, without delaying
//! queries.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use weir_pglocal::free_port;
use weir_tests::{Api, FaultProxy, Mode, Postgres, Receiver, Setup, Site, eventually, within};

/// A site behind a proxy that can go away, with these lines of `[alerts]`.
fn site(lines: &str) -> (Site, FaultProxy, Api) {
    site_with("", lines)
}

/// A site behind a proxy that can go away, with these lines of `[alerts]` and of `[web]`.
fn site_with(web: &str, lines: &str) -> (Site, FaultProxy, Api) {
    let postgres = Postgres::shared();
    let proxy = FaultProxy::before(postgres.port());
    let api = Api::default();
    let more = format!("{}{web}[alerts]\nfor = 1\nsource = \"db1\"\n{lines}", api.section());
    let site = Site::on(&postgres, Setup::new(Mode::Transaction).size(2).more(&more), Mode::Transaction);
    let port = proxy.port();
    let file = site.weir().folder().join("weir.toml");
    let text = fs::read_to_string(&file).unwrap();
    let moved = text.replacen(&format!("port = {}", postgres.port()), &format!("port = {port}"), 1);
    fs::write(&file, moved).unwrap();
    assert_eq!(api.post("/api/v1/reload").0, 204);
    site.connect().query("SELECT 1").unwrap();
    (site, proxy, api)
}

/// The server goes away, with its open connections.
fn away(site: &Site, proxy: &FaultProxy) {
    proxy.refuse(true);
    site.weir().command("RECONNECT").unwrap();
    site.weir().command("RETRY app").unwrap();
}

fn firing(api: Api) -> Vec<Value> {
    let alerts = api.get("/api/v1/alerts")["alerts"].as_array().unwrap().clone();
    alerts.into_iter().filter(|alert| alert["state"] != "pending").collect()
}

#[test]
fn a_server_that_is_away_is_told_to_each_kind_of_target_and_resolved_when_it_is_back() {
    let receiver = Receiver::start();
    let secret = std::env::temp_dir().join(format!("weir-alert-url-{}", std::process::id()));
    fs::write(&secret, format!("{}\n", receiver.url("hook/SECRET"))).unwrap();
    let lines = format!(
        "webhook = \"file:{}\"\nslack = \"{}\"\npagerduty_key = \"ROUTING\"\npagerduty_url = \"{}\"\n",
        secret.display(),
        receiver.url("slack/TOKEN"),
        receiver.url("pagerduty"),
    );
    let (site, proxy, api) = site(&lines);
    away(&site, &proxy);
    let sent = receiver.find("hook/SECRET", |body| body["status"] == "firing");
    assert_eq!(
        (&sent["rule"], &sent["pool"], &sent["source"]),
        (&"cannot connect".into(), &"app".into(), &"db1".into())
    );
    // A login that is under way when the proxy begins to refuse ends in another way.
    let summary = sent["summary"].as_str().unwrap();
    let ways = ["could not connect", "closed the connection during the login"];
    assert!(ways.iter().any(|way| summary.contains(way)), "{sent}");
    let text = receiver.find("slack/TOKEN", |_| true)["text"].clone();
    assert!(text.as_str().unwrap().starts_with("*Alert: cannot connect app* (db1)"), "{text}");
    let event = receiver.find("pagerduty", |body| body["event_action"] == "trigger");
    assert_eq!((&event["routing_key"], &event["dedup_key"]), (&"ROUTING".into(), &"db1/app/cannot connect".into()));
    proxy.refuse(false);
    site.connect().query("SELECT 1").unwrap();
    let resolved = receiver.find("hook/SECRET", |body| body["status"] == "resolved");
    assert_eq!(resolved["fingerprint"], sent["fingerprint"]);
    receiver.find("pagerduty", |body| body["event_action"] == "resolve");
    assert_eq!((receiver.count("hook/SECRET"), receiver.count("slack/TOKEN")), (2, 2));
    // Targets are shown nowhere.
    let shown = [
        api.get("/api/v1/alerts").to_string(),
        api.get("/api/v1/settings").to_string(),
        api.get("/api/v1/config/versions/1").to_string(),
        site.weir().log(),
    ]
    .concat();
    assert!(["SECRET", "TOKEN", "ROUTING"].iter().all(|secret| !shown.contains(secret)));
    fs::remove_file(secret).unwrap();
}

#[test]
fn a_silence_keeps_messages_back_and_outlasts_nothing_but_its_time() {
    let receiver = Receiver::start();
    let (site, proxy, api) = site(&format!("webhook = \"{}\"\n", receiver.url("hook")));
    let body = json!({ "pool": "app", "minutes": 5, "comment": "migration" });
    let (status, silence) = api.ask("POST", "/api/v1/silences", &body.to_string());
    assert_eq!(status, 201, "{silence}");
    let silence: Value = serde_json::from_str(&silence).unwrap();
    away(&site, &proxy);
    eventually("it is silenced", || {
        let alerts = firing(api);
        if alerts.iter().any(|alert| alert["state"] == "silenced") { Ok(()) } else { Err(format!("{alerts:?}")) }
    });
    assert_eq!(receiver.count("hook"), 0);
    assert_eq!(api.ask("DELETE", &format!("/api/v1/silences/{}", silence["id"]), "").0, 204);
    assert_eq!(receiver.find("hook", |_| true)["status"], "firing");
    assert_eq!(api.ask("POST", "/api/v1/silences", "{\"minutes\": 0}").0, 400);
}

#[test]
fn a_target_that_fails_is_tried_again_is_seen_and_delays_no_query() {
    let receiver = Receiver::start();
    receiver.status.store(503, Ordering::Relaxed);
    let (site, proxy, api) = site(&format!("webhook = \"{}\"\n", receiver.url("hook/SECRET")));
    away(&site, &proxy);
    let target = |api: Api| {
        let targets = api.get("/api/v1/alerts")["targets"].as_array().unwrap().clone();
        targets.into_iter().find(|target| target["kind"] == "webhook").unwrap()
    };
    eventually("its error is seen", || {
        let target = target(api);
        if target["error"] == "the answer was 503" { Ok(()) } else { Err(target.to_string()) }
    });
    assert!(receiver.count("hook/SECRET") >= 1);
    proxy.refuse(false);
    site.connect().query("SELECT 1").unwrap();
    let log = site.weir().log();
    assert_eq!(log.matches("alerts: webhook can't be reached: the answer was 503").count(), 1);
    assert!(!log.contains("SECRET"));
    receiver.status.store(200, Ordering::Relaxed);
    eventually("it is sent in the end", || {
        let target = target(api);
        if target["error"].is_null() && target["sent"] != 0 { Ok(()) } else { Err(target.to_string()) }
    });
    let (status, tested) = api.ask("POST", "/api/v1/alerts/test", "");
    assert!(status == 200 && tested.contains("\"ok\":true"), "{tested}");
    receiver.find("hook/SECRET", |body| body["rule"] == "test");
}

#[test]
fn a_target_that_can_not_be_reached_is_in_the_metrics_the_list_and_the_log() {
    let (site, proxy, api) = site(&format!("webhook = \"http://127.0.0.1:{}/SECRET\"\n", free_port().unwrap()));
    away(&site, &proxy);
    eventually("the metric has it", || {
        let (_, metrics) = api.ask("GET", "/metrics", "");
        let lines = ["weir_alert_target_failing{target=\"webhook\"} 1", "weir_alerts_firing 1"];
        if lines.iter().all(|line| metrics.contains(line)) { Ok(()) } else { Err(metrics) }
    });
    let targets = api.get("/api/v1/alerts")["targets"].clone();
    let webhook = targets.as_array().unwrap().iter().find(|target| target["kind"] == "webhook").unwrap();
    assert!(webhook["error"].as_str().unwrap().contains("refused") && webhook["error_since"].is_number(), "{webhook}");
    let log = site.weir().log();
    assert!(log.contains("alerts: webhook can't be reached: ") && !log.contains("SECRET"), "{log}");
}

#[test]
fn an_alert_that_fires_goes_on_over_a_restart_with_its_start_and_without_a_second_message() {
    let folder = std::env::temp_dir().join(format!("weir-firing-of-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let receiver = Receiver::start();
    let web = format!("history = {folder:?}\n");
    let (site, proxy, api) = site_with(&web, &format!("webhook = \"{}\"\n", receiver.url("hook")));
    away(&site, &proxy);
    let first = receiver.find("hook", |body| body["status"] == "firing");
    eventually("it is on the disk", || match fs::read_to_string(folder.join("alerts.firing")) {
        Ok(text) if text.contains("\"sent\":1") => Ok(()),
        read => Err(format!("{read:?}")),
    });
    let since = firing(api)[0]["since"].clone();
    site.weir().kill9();
    site.weir().start_again();
    let known = eventually("it still fires", || firing(api).first().cloned().ok_or("nothing fires"));
    assert_eq!(known["since"], since, "its start is that of before");
    site.weir().command("RETRY app").unwrap();
    thread::sleep(Duration::from_secs(3));
    assert_eq!(receiver.count("hook"), 1, "no second message");
    proxy.refuse(false);
    site.weir().command("RETRY app").unwrap();
    let end = within(Duration::from_secs(120), "it is resolved", || {
        let received = receiver.all();
        let last = received.last().map(|one| one.body.clone()).filter(|body| body["status"] == "resolved");
        last.ok_or_else(|| format!("{received:?}"))
    });
    assert_eq!((&end["fingerprint"], &end["started_at"]), (&first["fingerprint"], &first["started_at"]), "{end}");
    fs::remove_dir_all(&folder).unwrap();
}

struct Alertmanager(Child);

impl Drop for Alertmanager {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_real_alertmanager_takes_the_alert_and_its_end() {
    const PROGRAM: &str = "/usr/bin/prometheus-alertmanager";
    if !Path::new(PROGRAM).exists() {
        weir_tests::skipped(&format!("the test with Alertmanager: there is no {PROGRAM}"));
        return;
    }
    let (port, folder) =
        (free_port().unwrap(), std::env::temp_dir().join(format!("weir-alertmanager-{}", std::process::id())));
    fs::create_dir_all(&folder).unwrap();
    let config = folder.join("config.yml");
    fs::write(&config, "route: {receiver: none}\nreceivers: [{name: none}]\n").unwrap();
    let mut command = Command::new(PROGRAM);
    command
        .arg(format!("--config.file={}", config.display()))
        .arg(format!("--storage.path={}", folder.display()))
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        .arg("--cluster.listen-address=")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let _alertmanager = Alertmanager(command.spawn().unwrap());
    eventually("it listens", || TcpStream::connect(("127.0.0.1", port)).map(drop).map_err(|error| error.to_string()));
    let (site, proxy, _api) = site(&format!("alertmanager = \"http://127.0.0.1:{port}\"\n"));
    away(&site, &proxy);
    let ask = || {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        write!(stream, "GET /api/v2/alerts HTTP/1.0\r\nHost: x\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        serde_json::from_str::<Value>(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    };
    let found = eventually("it has the alert", || {
        let alerts = ask();
        if alerts[0]["status"]["state"] == "active" { Ok(alerts[0].clone()) } else { Err(alerts.to_string()) }
    });
    assert_eq!(found["labels"]["alertname"], "WeirCannotConnect", "{found}");
    assert_eq!((&found["labels"]["pool"], &found["labels"]["severity"]), (&"app".into(), &"critical".into()));
    proxy.refuse(false);
    site.connect().query("SELECT 1").unwrap();
    eventually("it is over", || {
        let alerts = ask();
        if alerts.as_array().is_some_and(Vec::is_empty) { Ok(()) } else { Err(alerts.to_string()) }
    });
    let _ = fs::remove_dir_all(&folder);
}
