//! The API and the metrics of a Weir with a real server.

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use weir_pglocal::TempFolder;
use weir_tests::{Api, Ini, Mode, Setup, Site, eventually, weir_binary, within};

/// A site with an API.
fn site(setup: Setup) -> (Site, Api) {
    let api = Api::default();
    (Site::with(setup.more(&api.section()), Mode::Transaction), api)
}

fn transaction(size: u32) -> Setup {
    Setup::new(Mode::Transaction).size(size)
}

/// Waits until a pool fulfils the condition.
#[track_caller]
fn pool(api: Api, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
    eventually(what, || {
        let pool = api.get("/api/v1/pools/app");
        if fits(&pool) { Ok(pool) } else { Err(pool.to_string()) }
    })
}

#[test]
fn a_pool_shows_its_settings_its_clients_its_servers_and_its_counters() {
    let (site, api) = site(transaction(3));
    let mut one = site.connect();
    let mut two = site.connect();
    one.query("SELECT 1").unwrap();
    two.query("BEGIN").unwrap();
    let seen = pool(api, "one holds a server", |pool| pool["servers"]["active"] == 1);
    assert_eq!((&seen["size"], &seen["mode"], &seen["configured"]), (&3.into(), &"transaction".into(), &true.into()));
    assert_eq!((&seen["clients"]["active"], &seen["clients"]["waiting"]), (&2.into(), &0.into()));
    assert!(seen["totals"]["transactions"].as_u64().unwrap() >= 1, "{seen}");
    assert_eq!(seen["users"].as_array().unwrap().len(), 1);
    assert!(!seen.to_string().contains("password"), "secrets are never shown");
    let list = api.get("/api/v1/pools");
    assert!(list["pools"].as_array().unwrap().iter().any(|pool| pool["name"] == "app") && list["next"].is_null());
    assert_eq!(api.ask("GET", "/api/v1/pools/nowhere", "").0, 404);
}

#[test]
fn a_server_shows_its_hold_reason_and_since_when() {
    let (site, api) = site(transaction(2));
    let mut idle = site.connect();
    idle.query("BEGIN").unwrap();
    let mut busy = site.connect();
    let held = |why: &str, query: bool| {
        eventually(why, || {
            let list = api.get("/api/v1/servers?pool=app&state=active");
            let servers = list["connections"].as_array().expect("a list");
            let found = servers.iter().find(|server| {
                let [began, asked] = ["transaction_at", "query_at"].map(|key| server[key].is_number());
                server["held_for"] == why && began && asked == query && server["linked_to"].is_number()
            });
            found.map(|_| ()).ok_or(list.to_string())
        });
    };
    held("in transaction", false);
    thread::scope(|scope| {
        let sleep = scope.spawn(|| busy.query("SELECT pg_sleep(60)").map(|_| ()));
        held("replies outstanding", true);
        let server = api.get("/api/v1/servers?pool=app&state=active");
        let by_hold = |server: &&Value| server["held_for"] == "replies outstanding";
        let pid = server["connections"].as_array().unwrap().iter().find(by_hold).unwrap()["process_id"].clone();
        idle.query(&format!("SELECT pg_cancel_backend({pid})")).unwrap();
        assert!(sleep.join().unwrap().is_err(), "it was cancelled");
    });
    idle.query("COMMIT").unwrap();
    await_no_hold_reason(api);
}

/// A server without a client has no hold reason.
fn await_no_hold_reason(api: Api) {
    eventually("no client holds a server", || {
        let list = api.get("/api/v1/servers?pool=app");
        let servers = list["connections"].as_array().expect("a list");
        let free = |server: &Value| {
            ["held_for", "transaction_at", "query_at", "linked_to"].iter().all(|key| server[*key].is_null())
        };
        if servers.iter().all(free) { Ok(()) } else { Err(list.to_string()) }
    });
}

#[test]
fn a_pause_waits_for_servers_is_undone_when_it_takes_too_long_and_holds_queries() {
    let (site, api) = site(transaction(2));
    let mut client = site.connect();
    client.query("BEGIN").unwrap();
    let (status, why) = api.post("/api/v1/pools/app/pause?timeout=1");
    assert_eq!(status, 409, "{why}");
    assert_eq!(pool(api, "it continues", |pool| pool["paused"] == false)["paused"], false);
    client.query("COMMIT").unwrap();
    assert_eq!(api.post("/api/v1/pools/app/pause"), (204, String::new()));
    thread::scope(|scope| {
        let query = scope.spawn(|| client.value("SELECT 7").unwrap());
        pool(api, "it waits", |pool| pool["clients"]["waiting"] == 1 && pool["paused"] == true);
        assert_eq!(api.post("/api/v1/pools/app/resume").0, 204);
        assert_eq!(query.join().unwrap().as_deref(), Some("7"));
    });
    let (status, why) = api.post("/api/v1/pools/app/resume");
    assert_eq!((status, why.as_str()), (409, "database app is not paused"));
    assert_eq!(api.post("/api/v1/pools/nowhere/pause").0, 404);
}

#[test]
fn readiness_follows_a_pause_of_everything_and_liveness_does_not() {
    let (_site, api) = site(transaction(1));
    let health = |path| api.ask("GET", path, "");
    assert_eq!((health("/healthz").0, health("/readyz").0), (200, 200));
    assert_eq!(api.post("/api/v1/pause").0, 204);
    assert_eq!((health("/healthz").0, health("/readyz")), (200, (503, "paused\n".to_owned())));
    assert_eq!(api.get("/api/v1/status")["state"], "paused");
    assert_eq!(api.post("/api/v1/resume").0, 204);
    assert_eq!(health("/readyz").0, 200);
}

#[test]
fn clients_are_listed_in_pages_and_one_of_them_can_be_dropped() {
    let (site, api) = site(transaction(2));
    let mut clients: Vec<_> = (0..7).map(|_| site.connect()).collect();
    let (mut after, mut ids) = (String::new(), Vec::new());
    loop {
        let page = api.get(&format!("/api/v1/clients?pool=app&limit=3{after}"));
        let connections = page["connections"].as_array().unwrap();
        assert!(connections.len() <= 3);
        ids.extend(connections.iter().map(|client| client["id"].as_u64().unwrap()));
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 7);
    assert!(api.get("/api/v1/clients?pool=other")["connections"].as_array().unwrap().is_empty());
    assert!(api.get("/api/v1/clients?state=waiting")["connections"].as_array().unwrap().is_empty());
    assert_eq!(api.ask("DELETE", &format!("/api/v1/clients/{}", ids[0]), ""), (204, String::new()));
    let lost = clients.iter_mut().filter_map(|client| client.query("SELECT 1").err()).count();
    assert_eq!(lost, 1);
    assert_eq!(api.ask("DELETE", &format!("/api/v1/clients/{}", ids[0]), "").0, 404);
    eventually("a server is idle", || {
        let servers = api.get("/api/v1/servers");
        if servers["connections"][0]["state"] == "idle" { Ok(()) } else { Err(servers) }
    });
}

#[test]
fn an_ini_may_have_an_api_too() {
    let api = Api::default();
    let ini = api.keys().into_iter().fold(Ini::transaction(1), |ini, (key, value)| ini.set(key, &value));
    let site = Site::ini(&ini);
    site.connect().query("SELECT 1").unwrap();
    assert_eq!(api.get("/api/v1/pools/app")["size"], 1);
}

#[test]
fn the_lab_s_reports_are_listed_and_read() {
    let folder = TempFolder::new().unwrap();
    let report = folder.path().join("size-quick");
    fs::create_dir(&report).unwrap();
    let claims = r#"[{"text": "more is less", "verdict": "held", "why": "3 < 4"}]"#;
    let json = format!(
        r#"{{"format": 1, "began": "2026-01-31T10:15:00Z", "length": "quick",
            "experiments": [{{"id": "size", "title": "The pool's size", "claims": {claims}}}]}}"#
    );
    fs::write(report.join("report.json"), json).unwrap();
    fs::write(report.join("report.html"), "<!DOCTYPE html>").unwrap();
    let api = Api::default();
    let ini = api.keys().into_iter().fold(Ini::transaction(1), |ini, (key, value)| ini.set(key, &value));
    let _site = Site::ini(&ini.set("web_lab", folder.path().display().to_string()));
    let shelf = api.get("/api/v1/lab");
    assert_eq!(shelf["reports"][0]["experiments"][0]["verdicts"]["held"], 1, "{shelf}");
    assert_eq!(api.ask("GET", "/lab/size-quick/report.html", ""), (200, "<!DOCTYPE html>".to_owned()));
    assert_eq!(api.ask("GET", "/lab/size-quick/%2e%2e%2fweir.toml", "").0, 404);
}

#[test]
fn a_pool_that_is_too_small_gets_advice_that_its_database_can_serve() {
    let (site, api) = site(transaction(2));
    const TIMEOUT: Duration = Duration::from_secs(180);
    let (ended, begin) = (AtomicBool::new(false), Instant::now());
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut client = site.connect();
                while !ended.load(Ordering::Relaxed) && begin.elapsed() < 2 * TIMEOUT {
                    client.query("SELECT pg_sleep(0.02)").unwrap();
                }
            });
        }
        let advice = within(TIMEOUT, "there is advice", || {
            // Half a minute of history is needed first.
            thread::sleep(Duration::from_millis(500));
            let advice = api.get("/api/v1/advice")["advice"][0].clone();
            if advice["pool"] == "app" { Ok(advice) } else { Err(advice) }
        });
        ended.store(true, Ordering::Relaxed);
        assert_eq!(advice["sign"], "waits_and_servers_busy", "{advice}");
        let figure = |name: &str| advice["evidence"][name].as_f64().unwrap_or_else(|| panic!("{name}: {advice}"));
        assert!(advice["change"]["size"].as_u64() > Some(2) && figure("servers_needed") > 1.0, "{advice}");
        assert!(figure("connections_free") < figure("max_connections"), "{advice}");
        assert!(advice["text"].as_str().unwrap().contains("room for"), "{advice}");
    });
}

#[test]
fn metrics_count_what_was_done() {
    let (site, api) = site(transaction(1));
    let mut client = site.connect();
    (0..5).for_each(|_| drop(client.query("SELECT 1").unwrap()));
    let figure =
        |text: &str, name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
    let text = eventually("five are counted", || {
        let (status, text) = api.ask("GET", "/metrics", "");
        assert_eq!(status, 200);
        match figure(&text, "weir_transactions_total{database=\"app\"}") {
            Some(count) if count >= 5.0 => Ok(text),
            _ => Err(text),
        }
    });
    assert_eq!(figure(&text, "weir_pool_size{database=\"app\"}"), Some(1.0));
    assert!(text.contains("weir_pool_servers{database=\"app\""), "{text}");
    let timed = figure(&text, "weir_query_seconds_bucket{le=\"+Inf\",database=\"app\"}");
    assert_eq!(timed, figure(&text, "weir_queries_total{database=\"app\"}"), "{text}");
    assert!(!text.contains("# EOF"), "that is OpenMetrics, which was not requested");
}

#[test]
fn many_api_requests_at_once_affect_no_client() {
    let (site, api) = site(transaction(2));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(move || {
                for path in ["/api/v1/pools", "/metrics", "/api/v1/clients", "/api/v1/status"].repeat(5) {
                    assert_eq!(api.ask("GET", path, "").0, 200);
                }
            });
        }
        let mut client = site.connect();
        (0..200).for_each(|_| drop(client.query("SELECT 1").unwrap()));
    });
}

#[test]
fn events_send_the_figures_of_a_pool_every_second() {
    let (site, api) = site(transaction(2));
    let mut client = site.connect();
    client.query("BEGIN").unwrap();
    let mut busy = site.connect();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                busy.query("SELECT 1").unwrap();
                assert!(busy.query("SELECT no_such_column").is_err());
            }
        });
        let received = api.events("/api/v1/events?pool=app").find(|event| {
            let pool = &event["pools"]["app"];
            pool["transactions_per_second"].as_f64() > Some(0.0) && pool["errors_per_second"].as_f64() > Some(0.0)
        });
        done.store(true, Ordering::Relaxed);
        let event = received.expect("events arrive until the wanted one");
        let pool = &event["pools"]["app"];
        assert!(pool["query_ms"]["p95"].as_f64() > Some(0.0) && pool["wait_ms"]["p50"] == 0.0, "{pool}");
        assert!(pool["errors"]["42703"].as_u64() > Some(0), "{pool}");
        assert!(pool["servers_idle_in_transaction"] == 1.0 && pool["clients_active"].as_f64() >= Some(1.0), "{pool}");
        assert!(event["workers"][0]["cpu"].is_number() && event["all"]["servers_active"].is_number(), "{event}");
    });
    assert_eq!(api.ask("GET", "/api/v1/events?pool=nowhere", "").0, 404);
}

#[test]
fn the_history_of_a_pool_survives_a_restart() {
    let folder = std::env::temp_dir().join(format!("weir-history-of-{}", std::process::id()));
    let api = Api::default();
    let more = format!("{}history = {:?}\n", api.section(), folder.join("of pools"));
    let known = |api: Api| {
        let history = api.get("/api/v1/pools/app/history?range=1h&series=clients_idle,servers_idle");
        assert_eq!(history["persisted"], true, "{}", history["reason"]);
        assert_eq!(history["at"].as_array().unwrap().len(), 3_600);
        let values = history["series"]["clients_idle"].as_array().unwrap().clone();
        values.iter().filter(|value| value.as_f64() == Some(1.0)).count()
    };
    let some = |api: Api| {
        eventually("figures are kept", || match known(api) {
            0..3 => Err("not yet three".to_owned()),
            count => Ok(count),
        })
    };
    let first = Site::with(transaction(1).more(&more), Mode::Transaction);
    let mut client = first.connect();
    client.query("SELECT 1").unwrap();
    let before = some(api);
    drop((client, first));
    let _second = Site::with(transaction(1).more(&more), Mode::Transaction);
    eventually("the folder is free", || match api.ask("GET", "/api/v1/pools/app/history", "") {
        (200, text) if text.contains("\"persisted\":true") => Ok(()),
        (_, text) => Err(text),
    });
    // Both processes may have written the second of the restart.
    assert!(known(api) + 1 >= before);
    // Until the first report the pools are unknown.
    eventually("the first figures are there", || match api.ask("GET", "/api/v1/pools/nowhere/history", "") {
        (404, _) => Ok(()),
        (_, text) => Err(text),
    });
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_probe_by_command_tells_ready_from_alive() {
    let (site, api) = site(transaction(2));
    let probe = |words: &[&str]| {
        let ran = Command::new(weir_binary()).arg("ready").args(words).output().unwrap();
        (ran.status.code(), String::from_utf8([ran.stdout, ran.stderr].concat()).unwrap())
    };
    assert_eq!(probe(&[&api.url()]), (Some(0), "ready\n".to_owned()));
    site.weir().console().query("PAUSE").unwrap();
    let (status, said) = probe(&[&api.url()]);
    assert!(status == Some(1) && said.contains("503: paused"), "{said}");
    assert_eq!(probe(&[&api.url(), "--alive"]), (Some(0), "alive\n".to_owned()));
    let (status, said) = probe(&["http://127.0.0.1:9"]);
    assert!(status == Some(1) && said.starts_with("weir: http://127.0.0.1:9: "), "{said}");
}

#[test]
fn top_prints_the_pools_once_for_a_script() {
    let (site, api) = site(transaction(2));
    site.connect().query("SELECT 1").unwrap();
    let top = |url: &str| Command::new(weir_binary()).args(["top", "--once", url]).output().unwrap();
    let shown = top(&api.url());
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(text.lines().any(|line| line.starts_with("app ")) && text.contains("wait p95"), "{text}");
    let unreachable = top("http://127.0.0.1:9");
    assert!(!unreachable.status.success() && String::from_utf8_lossy(&unreachable.stderr).contains("[web] address"));
}
