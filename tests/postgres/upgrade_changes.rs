//! What operators and callers of the API ask while one process takes over from another: it holds, or is refused.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use weir_pgclient::Connection;
use weir_pglocal::{Signal, send_signal};
use weir_tests::{Api, Mode, Postgres, Setup, eventually, users, weir_binary};

use crate::upgrade::{Ends, FORMAT, Replaced, hello, wait_for_end};

/// A Weir with an API, and a pool beside the first one.
fn with_api(size: u32) -> (Replaced, Api) {
    let api = Api::default();
    let more = format!("{}[pools.two]\nhost = \"127.0.0.1\"\nport = 1\n", api.section());
    (Replaced::new(Setup::new(Mode::Transaction).size(size).more(&more)), api)
}

fn pool(name: &str) -> String {
    json!({ "name": name, "host": "127.0.0.1", "port": 1, "user": "app", "password": "app" }).to_string()
}

/// A command of the console, as its error where it has one.
fn command(weir: &Replaced, command: &str) -> Result<(), String> {
    weir.site.weir().command(command).map(drop).map_err(|error| error.to_string())
}

#[test]
fn from_the_offer_on_nothing_is_changed_until_the_take_over_has_failed() {
    let (weir, api) = with_api(2);
    let file = weir.site.weir().folder().join("weir.toml");
    let before = std::fs::read_to_string(&file).unwrap();
    let (offered, kind, _) = hello(&weir, FORMAT);
    assert_eq!(kind, 3, "an offer");
    let requests = [
        ("POST", "/api/v1/pools", pool("new")),
        ("PATCH", "/api/v1/users/app", json!({ "disabled": true }).to_string()),
        ("PUT", "/api/v1/settings/max_client_conn", json!({ "value": "77" }).to_string()),
        ("POST", "/api/v1/reload", String::new()),
        ("POST", "/api/v1/pools/two/pause", String::new()),
        ("POST", "/api/v1/pools/two/disable", String::new()),
    ];
    for (method, path, body) in requests {
        let (head, answer) = raw(api, method, path, &body);
        assert!(head.starts_with("HTTP/1.1 503") && head.contains("retry-after: 1"), "{method} {path}: {head}{answer}");
        assert!(answer.contains("an upgrade is under way"), "{answer}");
    }
    let commands = [
        "PAUSE two",
        "PAUSE",
        "SUSPEND",
        "KILL two",
        "DISABLE two",
        "ENABLE two",
        "RECONNECT",
        "RELOAD",
        "SHUTDOWN",
        "SET max_client_conn = 9",
        "SET client_tls_sslmode = 'disable'",
    ];
    for asked in commands {
        let error = command(&weir, asked).expect_err(asked);
        assert!(error.contains("an upgrade is under way"), "{asked}: {error}");
    }
    send_signal(weir.pid, Signal::SIGUSR1);
    eventually("the signal is refused", || {
        let log = weir.site.weir().log();
        if log.contains("got SIGUSR1 while another process takes over, ignoring") { Ok(()) } else { Err(log) }
    });
    assert!(command(&weir, "SHOW POOLS").is_ok() && weir.site.connect().query("SELECT 1").is_ok(), "it serves on");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before);
    drop(offered);
    eventually("the take-over has failed", || command(&weir, "DISABLE two"));
    assert_eq!(api.ask("POST", "/api/v1/pools", &pool("new")).0, 201);
    assert!(std::fs::read_to_string(&file).unwrap().contains("[pools.new]"));
}

/// Sends a request; returns the head of the answer in lower case, but for its first line, and the text.
fn raw(api: Api, method: &str, path: &str, body: &str) -> (String, String) {
    let mut stream = TcpStream::connect(api.address()).unwrap();
    let head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", api.address());
    write!(stream, "{head}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, text) =
        answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer to {method} {path}: {answer:?}"));
    (head.to_owned(), text.to_owned())
}

#[test]
fn changes_over_the_api_during_upgrades_are_answered_and_those_that_are_acknowledged_are_in_force() {
    let (mut weir, api) = with_api(2);
    let (stop, made) = (AtomicBool::new(false), AtomicUsize::new(0));
    let acknowledged = thread::scope(|scope| {
        let _ends = Ends(&stop);
        let callers: Vec<_> = (0..2)
            .map(|caller| {
                let (stop, made) = (&stop, &made);
                scope.spawn(move || {
                    let (mut acknowledged, mut number) = (Vec::new(), 0);
                    while !stop.load(Ordering::Relaxed) {
                        let name = format!("p{caller}_{number}");
                        number += 1;
                        match api.ask("POST", "/api/v1/pools", &pool(&name)) {
                            (201, _) => acknowledged.push(name),
                            (503, why) => assert!(why.contains("an upgrade is under way"), "{why}"),
                            (status, why) => panic!("{status}: {why}"),
                        }
                        made.fetch_add(1, Ordering::Relaxed);
                    }
                    acknowledged
                })
            })
            .collect();
        for _ in 0..6 {
            let before = made.load(Ordering::Relaxed);
            eventually("changes are asked for", || {
                let now = made.load(Ordering::Relaxed);
                if now > before + 3 { Ok(()) } else { Err(now) }
            });
            weir.upgrade();
        }
        stop.store(true, Ordering::Relaxed);
        callers.into_iter().flat_map(|caller| caller.join().unwrap()).collect::<Vec<_>>()
    });
    let names = |list: &Value| -> BTreeSet<String> {
        let pools = list["pools"].as_array().unwrap().iter();
        pools.map(|pool| pool["name"].as_str().unwrap().to_owned()).collect()
    };
    let in_force = names(&api.get("/api/v1/pools"));
    let lost: Vec<_> = acknowledged.iter().filter(|name| !in_force.contains(*name)).collect();
    assert!(!acknowledged.is_empty() && lost.is_empty(), "{lost:?} of {}", acknowledged.len());
    assert_eq!(api.ask("POST", "/api/v1/pools", &pool("last")).0, 201, "the file is as it was read");
}

#[test]
fn a_disabled_database_stays_disabled_over_an_upgrade_and_what_set_has_changed_is_named() {
    let mut weir = Replaced::new(Setup::new(Mode::Transaction).size(2).workers(2));
    let mut inside = weir.site.connect();
    command(&weir, "DISABLE app").unwrap();
    command(&weir, "SET max_client_conn = 77").unwrap();
    for upgrade in 0..2 {
        let (done, said, errors) = weir.command();
        weir.note(&said);
        assert!(done, "{said}{errors}");
        assert_eq!(errors.contains("what SET has made of max_client_conn ends"), upgrade == 0, "{errors}");
        let refused = Connection::connect(&weir.site.params()).map(drop).map_err(|error| error.to_string());
        assert!(refused.as_ref().is_err_and(|why| why.contains("is disabled")), "{refused:?}");
        assert_eq!(inside.value("SELECT 1").unwrap().as_deref(), Some("1"), "clients that are there stay");
    }
    command(&weir, "ENABLE app").unwrap();
    assert!(weir.site.connect().query("SELECT 1").is_ok());
}

#[test]
fn a_connection_to_the_api_that_the_old_process_has_accepted_is_answered_after_the_upgrade_too() {
    let (mut weir, api) = with_api(2);
    let old = weir.pid;
    let mut probe = TcpStream::connect(api.address()).unwrap();
    let mut stays = TcpStream::connect(api.address()).unwrap();
    // A request on another connection is answered behind the two.
    api.get("/api/v1/pools");
    weir.upgrade();
    // Long enough for an old process that ends at once.
    thread::sleep(Duration::from_millis(300));
    write!(probe, "GET /readyz HTTP/1.1\r\nHost: {}\r\n\r\n", api.address()).unwrap();
    let mut answer = String::new();
    probe.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("connection: close"), "{answer:?}");
    // One that sends nothing does not keep it.
    wait_for_end(old);
    assert_eq!(stays.read(&mut [0]).unwrap_or(0), 0);
}

#[test]
fn health_checks_during_upgrades_are_answered_with_200() {
    let (mut weir, api) = with_api(2);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _ends = Ends(&stop);
        for path in ["/readyz", "/healthz"] {
            let stop = &stop;
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let (head, text) = raw(api, "GET", path, "");
                    assert!(head.starts_with("HTTP/1.1 200"), "{path}: {head}{text}");
                }
            });
        }
        for _ in 0..6 {
            weir.upgrade_all();
        }
    });
}

#[test]
fn several_upgrades_at_the_same_moment_follow_one_another() {
    let size = 4;
    let (mut weir, _) = with_api(size);
    let (stop, most) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut loads: Vec<_> = (0..6).map(|_| weir.site.connect()).collect();
    let (mut sampler, params) = (weir.site.superuser(), weir.site.params());
    thread::scope(|scope| {
        let _ends = Ends(&stop);
        let (stop, most) = (&stop, &most);
        let count = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND usename = '{}'",
            users::APP.name
        );
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let now = sampler.value(&count).unwrap().and_then(|count| count.parse().ok()).unwrap();
                most.fetch_max(now, Ordering::Relaxed);
            }
        });
        for client in &mut loads {
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    client.query("SELECT pg_sleep(0.005)").unwrap();
                }
            });
        }
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                Connection::connect(&params).and_then(|mut client| client.query("SELECT 1")).unwrap();
            }
        });
        for _ in 0..3 {
            let folder = weir.site.weir().folder();
            let start = |_| {
                let mut command = Command::new(weir_binary());
                command.arg("upgrade").arg(folder.join("weir.toml")).stdout(Stdio::piped()).stderr(Stdio::piped());
                command.spawn().unwrap()
            };
            let old = weir.pid;
            let children: Vec<_> = (0..3).map(start).collect();
            let mut pids = vec![old];
            for child in children {
                let output = child.wait_with_output().unwrap();
                let (said, errors) =
                    (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr).into_owned());
                assert!(output.status.success(), "{said}{errors}");
                let pid = said.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap();
                Postgres::shared().server().reaper().watch(pid);
                pids.push(pid);
            }
            weir.pid = eventually("one process is left", || {
                let alive: Vec<u32> = pids.iter().copied().filter(|pid| crate::upgrade::runs(*pid)).collect();
                if let [last] = alive[..] { Ok(last) } else { Err(alive) }
            });
        }
    });
    // A login that an old process has begun may need one for a moment, when the new one has all others.
    assert!(most.into_inner() <= size as usize + 1, "servers of all processes");
}
