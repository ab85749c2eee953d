//! The description in `openapi.json`, compared with the API's behaviour; and what the API refuses to every client.

use std::net::TcpStream;

use serde_json::Value;
use weir_web::WebServer;

use crate::common::{options, request, send, web};

fn description() -> Value {
    serde_json::from_str(include_str!("../../src/api/openapi.json")).expect("JSON")
}

fn body_for(path: &str) -> &'static str {
    if path.contains("/login") {
        "{\"user\": \"ann\", \"password\": \"x\"}"
    } else if path.contains("/pools") {
        "{\"name\": \"app\", \"host\": \"h\"}"
    } else {
        "{\"value\": \"1\"}"
    }
}

#[test]
fn every_path_of_the_description_is_there_with_its_methods_and_no_others() {
    let web = web();
    let description = description();
    let paths = description["paths"].as_object().expect("paths");
    for (path, methods) in paths {
        let concrete = path.replace("{name}", "app").replace("{key}", "max_clients").replace("{id}", "7");
        let concrete = concrete.replace("{report}", "quick").replace("{file}", "report.html");
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
            let (status, _, body) = request(&web, method, &concrete, "", body_for(path));
            let Some(operation) = methods.get(method.to_ascii_lowercase()) else {
                assert_eq!(status, 405, "{method} {path}");
                continue;
            };
            let responses = operation["responses"].as_object().expect("responses");
            assert!(responses.contains_key(&status.to_string()), "{method} {path} answered {status}: {body}");
            assert_ne!(status, 405);
        }
    }
    assert_eq!(request(&web, "GET", "/api/v1/openapi.json", "", "").2, include_str!("../../src/api/openapi.json"));
    assert_eq!(request(&web, "GET", "/api/v2/pools", "", "").0, 404);
    assert_eq!(request(&web, "GET", "/../../etc/passwd", "", "").0, 404);
}

#[test]
fn errors_are_json_and_answers_may_not_be_cached_or_framed() {
    let web = web();
    let (status, head, body) = request(&web, "GET", "/api/v1/pools", "", "");
    assert_eq!(status, 503, "the workers have ended");
    let body: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(body["error"], "the process ends");
    for header in ["content-security-policy: default-src 'none'", "x-content-type-options: nosniff", "no-store"] {
        assert!(head.contains(header), "{header} is not in {head}");
    }
}

#[test]
fn other_hosts_and_other_origins_are_refused() {
    let web = web();
    let foreign = send(&web, "GET /api/v1/pools HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n");
    assert_eq!(foreign.0, 421);
    let cross = "Origin: http://evil.example\r\n";
    assert_eq!(request(&web, "POST", "/api/v1/reload", cross, "").0, 403);
    assert_eq!(request(&web, "DELETE", "/api/v1/clients/1", "Sec-Fetch-Site: cross-site\r\n", "").0, 403);
    assert_eq!(request(&web, "POST", "/api/v1/reload", "Origin: http://localhost\r\n", "").0, 403);
    let page = "Origin: http://localhost\r\nX-Weir-Panel: 1\r\n";
    assert_eq!(request(&web, "POST", "/api/v1/reload", page, "").0, 503);
}

#[test]
fn what_can_not_be_meant_is_a_clear_error() {
    let web = web();
    for (method, path, body, status) in [
        ("GET", "/api/v1/pools?limit=0", "", 400),
        ("GET", "/api/v1/pools?limit=1001", "", 400),
        ("GET", "/api/v1/pools?limt=1", "", 400),
        ("GET", "/api/v1/clients?after=x", "", 400),
        ("GET", "/api/v1/clients?after=1-2-3-4", "", 400),
        ("DELETE", "/api/v1/clients/x", "", 400),
        ("POST", "/api/v1/pause?timeout=0", "", 400),
        ("POST", "/api/v1/pools/%ff/pause", "", 400),
        ("PUT", "/api/v1/settings/max_clients", "{", 400),
        ("PUT", "/api/v1/settings/max_clients", "{\"value\": 5}", 422),
        ("PUT", "/api/v1/settings/max_clients", "{\"value\": \"5\", \"other\": 1}", 422),
        ("POST", "/api/v1/pools", "{}", 400),
        ("POST", "/api/v1/pools", "{\"name\": 7}", 400),
        ("POST", "/api/v1/pools", "{\"name\": \"a\", \"size\": {}}", 400),
        ("POST", "/api/v1/pools", "{\"name\": \"a\", \"size\": 1, \"pool_size\": 2}", 400),
        ("POST", "/api/v1/pools", "[]", 422),
        ("PATCH", "/api/v1/pools/app", "{\"size\": [1, null]}", 400),
        ("PATCH", "/api/v1/pools/app", "{\"size\": ", 400),
        ("POST", "/api/v1/pools/test", "{\"host\": \"h\"}", 400),
    ] {
        let (answered, _, text) = request(&web, method, path, "", body);
        assert_eq!(answered, status, "{method} {path} {body}: {text}");
        let error: Value = serde_json::from_str(&text).expect("JSON");
        assert!(!error["error"].as_str().expect("a text").is_empty());
    }
    let long = "x".repeat(70_000);
    assert_eq!(request(&web, "PUT", "/api/v1/settings/max_clients", "", &long).0, 413);
    let long = format!("X-Long: {long}\r\n");
    assert_eq!(request(&web, "GET", "/healthz", &long, "").0, 431);
}

#[test]
fn a_port_that_is_taken_is_said_at_the_start() {
    let first = web();
    let error = WebServer::start(options(first.bound()[0])).expect_err("it is taken");
    // Who starts the server adds the setting, and the program that listens there.
    assert_eq!(error.taken_address(), Some(first.bound()[0]));
    assert!(error.to_string().ends_with("the address is in use"), "{error}");
}

#[test]
fn connections_beyond_the_limit_take_the_place_of_those_that_ask_nothing() {
    let web = web();
    let idle: Vec<_> = (0..128).map(|_| TcpStream::connect(web.bound()[0]).expect("it listens")).collect();
    assert_eq!(request(&web, "GET", "/api/v1/openapi.json", "", "").0, 200);
    let is_closed = |stream: &TcpStream| {
        stream.set_nonblocking(true).expect("a socket");
        matches!(stream.peek(&mut [0]), Ok(0))
    };
    let closed: Vec<bool> = idle.iter().map(is_closed).collect();
    assert!(closed[0] && !closed[127], "the oldest goes first");
    assert!(closed.iter().filter(|closed| !**closed).count() <= 96, "of one address there are this many at most");
}
