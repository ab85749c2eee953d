//! Hostile and malformed requests: each is refused, within bounds, and the next client is served.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;
use weir_web::{Timeouts, WebOptions, WebServer};

use crate::common::{options, request, send, web};

/// Enough for a busy machine; no test waits for all of it.
const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(100);

/// A control plane with these timeouts.
fn impatient(timeouts: Timeouts) -> WebServer {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    WebServer::start(WebOptions { timeouts, ..options(any) }).expect("a free port")
}

fn connect(web: &WebServer) -> TcpStream {
    let stream = TcpStream::connect(web.bound()[0]).expect("it listens");
    stream.set_read_timeout(Some(LONG)).expect("a time");
    stream
}

/// Reads until the other side closes; it must.
fn rest(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Ok(_) => {}
        // The server closed without reading all that we sent.
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "it must close"),
    }
    String::from_utf8_lossy(&answer).into_owned()
}

#[track_caller]
fn refused((status, _, body): (u16, String, String), expected: u16, what: &str) {
    assert_eq!(status, expected, "{what}: {body}");
    let error: Value = serde_json::from_str(&body).unwrap_or_else(|error| panic!("{what}: {error}: {body}"));
    assert!(!error["error"].as_str().expect("a text").is_empty(), "{what}");
}

#[test]
fn no_path_leads_out_of_what_is_served() {
    let web = web();
    for path in [
        "/../../etc/passwd",
        "/..%2f..%2f..%2fetc%2fpasswd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/assets/../../../Cargo.toml",
        "/assets/..%2f..%2fCargo.toml",
        "/assets/%2e%2e%2findex.html",
        "/assets/..%5c..%5cindex.html",
        "/assets/%00index.html",
        "//etc/passwd",
        "/lab/..%2f..%2fetc/passwd",
        "/lab/%2e%2e/raw/passwd",
        "/lab/none/raw/..%2f..%2fetc%2fpasswd",
        "/api/v1/../../healthz",
        "/api/v1/pools/../../../healthz",
    ] {
        refused(request(&web, "GET", path, "", ""), 404, path);
    }
    // The name of a pool may be anything: no other path is reached, and the workers have ended.
    assert_eq!(request(&web, "POST", "/api/v1/pools/..%2f..%2freload/pause", "", "").0, 503);
    refused(request(&web, "POST", "/api/v1/pools/%ff%fe/pause", "", ""), 400, "no text");
}

#[test]
fn a_body_that_says_it_is_too_long_is_refused_before_any_of_it_has_come() {
    let web = web();
    for (method, path) in [("POST", "/api/v1/pools"), ("POST", "/api/v1/login"), ("PUT", "/api/v1/settings/x")] {
        for length in ["65537", "10000000000", "9223372036854775807"] {
            let mut stream = connect(&web);
            let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json");
            write!(stream, "{head}\r\nContent-Length: {length}\r\n\r\n").expect("it reads");
            let answer = rest(&mut stream);
            assert!(answer.starts_with("HTTP/1.1 413 "), "{path} {length}: {answer}");
        }
    }
    // A chunked body is refused where it becomes too long.
    let mut stream = connect(&web);
    let head = "POST /api/v1/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json";
    write!(stream, "{head}\r\nTransfer-Encoding: chunked\r\n\r\n").expect("it reads");
    let chunk = format!("1000\r\n{}\r\n", " ".repeat(0x1000));
    while stream.write_all(chunk.as_bytes()).is_ok() {}
    let nonsense = "Content-Length: 5\r\nContent-Length: 6\r\n";
    let text = format!("POST /api/v1/login HTTP/1.1\r\nHost: localhost\r\n{nonsense}\r\nhello");
    let mut stream = connect(&web);
    stream.write_all(text.as_bytes()).expect("it reads");
    assert!(rest(&mut stream).starts_with("HTTP/1.1 400 "));
    assert_eq!(request(&web, "GET", "/api/v1/openapi.json", "", "").0, 200);
}

#[test]
fn a_body_that_does_not_come_is_given_up() {
    for timeouts in
        [Timeouts { request: SHORT, ..Timeouts::default() }, Timeouts { body: SHORT, ..Timeouts::default() }]
    {
        let web = impatient(timeouts);
        for path in ["/api/v1/login", "/api/v1/pools"] {
            let mut stream = connect(&web);
            let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json");
            write!(stream, "{head}\r\nContent-Length: 30\r\n\r\n{{\"user\"").expect("it reads");
            let answer = rest(&mut stream);
            assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
        }
    }
    let web = web();
    assert_eq!(request(&web, "GET", "/api/v1/openapi.json", "", "").0, 200);
}

#[test]
fn heads_that_do_not_come_are_given_up_and_the_next_are_answered() {
    let web = impatient(Timeouts { head: SHORT, ..Timeouts::default() });
    let begun = ["", "G", "GET /healthz HTTP/1.1\r\n", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: "];
    // More than are served at once.
    let mut slow: Vec<_> = (0..200).map(|number| (connect(&web), begun[number % begun.len()])).collect();
    for (stream, text) in &mut slow {
        // The first of them may be closed already.
        let _ = stream.write_all(text.as_bytes());
    }
    assert_eq!(request(&web, "GET", "/api/v1/openapi.json", "", "").0, 200);
    for (stream, _) in &mut slow {
        let answer = rest(stream);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
}

#[test]
fn no_client_keeps_a_health_check_from_being_answered() {
    let web = web();
    let begun = [
        "",
        "GET /healthz HTTP/1.1\r\nHost: loc",
        // Bodies that never come, and answers that the client does not read.
        "POST /api/v1/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 90\r\n\r\n{",
        "GET /api/v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "POST /api/v1/pools HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 90\r\n\r\n{",
    ];
    for text in begun {
        let mut many: Vec<_> = (0..300).map(|_| connect(&web)).collect();
        // The first of them may be closed already.
        many.iter_mut().for_each(|stream| drop(stream.write_all(text.as_bytes())));
        // The workers have ended; the control plane reports it.
        assert_eq!(request(&web, "GET", "/healthz", "", "").0, 503, "{text}");
        assert_eq!(request(&web, "GET", "/api/v1/openapi.json", "", "").0, 200, "{text}");
    }
}

#[test]
fn bodies_that_are_no_json_or_too_deep_are_refused() {
    let web = web();
    let head = |kind: &str, length: usize| {
        format!(
            "POST /api/v1/pools HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{kind}Content-Length: {length}\r\n\r\n"
        )
    };
    for kind in
        ["", "text/plain", "application/xml", "application/x-www-form-urlencoded", "multipart/form-data", "\u{e9}"]
    {
        let kind = if kind.is_empty() { String::new() } else { format!("Content-Type: {kind}\r\n") };
        refused(send(&web, &format!("{}{{}}", head(&kind, 2))), 415, &kind);
    }
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let body = format!("{{\"name\": \"a\", \"size\": {}1{}}}", open.repeat(5_000), close.repeat(5_000));
        refused(request(&web, "POST", "/api/v1/pools", "", &body), 400, open);
        let (status, _, text) = request(&web, "POST", "/api/v1/pools", "", &open.repeat(10_000));
        assert!(status == 400 || status == 422, "{status}: {text}");
    }
    for body in ["\u{feff}{}", "{\"name\": \"\\ud800\"}", "{\"name\": 1e999}", "nul", ""] {
        let (status, _, text) = request(&web, "POST", "/api/v1/pools", "", body);
        assert!((400..500).contains(&status), "{body}: {status} {text}");
    }
}

#[test]
fn what_is_no_request_is_refused() {
    let web = web();
    for text in [
        "GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
        "GET  / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET /\u{0} HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET / HTTP/1.1\r\nHost localhost\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: nonsense\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "\u{16}\u{3}\u{1}\u{0}\u{5}hello\r\n\r\n",
    ] {
        let mut stream = connect(&web);
        stream.write_all(text.as_bytes()).expect("it reads");
        let answer = rest(&mut stream);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{text:?}: {answer}");
    }
    for method in ["TRACE", "CONNECT", "OPTIONS", "PROPFIND"] {
        let (status, _, _) = request(&web, method, "/api/v1/pools", "", "");
        assert!((400..500).contains(&status), "{method}: {status}");
    }
}

#[test]
fn a_thousand_who_want_events_leave_room_for_a_question() {
    let web = web();
    let ask = |web: &WebServer| {
        let mut stream = connect(web);
        stream.write_all(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it reads");
        stream
    };
    let mut streams: Vec<_> = (0..1_000).map(|_| ask(&web)).collect();
    // Behind all of them.
    assert_eq!(request(&web, "GET", "/api/v1/openapi.json", "", "").0, 200);
    let statuses: Vec<String> = streams
        .iter_mut()
        .map(|stream| {
            let mut status = [0; 12];
            stream.read_exact(&mut status).expect("each is answered");
            String::from_utf8_lossy(&status[9..]).into_owned()
        })
        .collect();
    let count = |status: &str| statuses.iter().filter(|one| *one == status).count();
    assert_eq!((count("200"), count("429")), (64, 936));
}
