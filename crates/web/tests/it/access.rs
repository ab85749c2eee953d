//! Access control: logins, roles, tokens, requests from foreign pages, and the audit log.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use weir_admin::{ConfigAccess, Control, ControlRequest, Deliver};
use weir_config::{Account, Accounts, WebRole};
use weir_web::{Timeouts, Versions, WebOptions, WebServer, WebTls, hash_password, hash_token};

use crate::common::Nowhere;

const PASSWORD: &str = "correct horse";

/// Workers that have ended, and a file of accounts that can be changed.
struct Stage {
    web: WebServer,
    file: Arc<File>,
}

#[derive(Default)]
struct File(Mutex<Arc<Accounts>>, Mutex<Vec<String>>);

impl Control for File {
    fn ask(&self, request: ControlRequest, deliver: Deliver) -> u64 {
        if let ControlRequest::Log(line) = request {
            self.1.lock().unwrap().push(line);
        }
        drop(deliver);
        1
    }

    fn forget(&self, _: u64) {}
}

impl ConfigAccess for File {
    fn accounts(&self) -> Arc<Accounts> {
        self.0.lock().unwrap().clone()
    }
}

fn users() -> Accounts {
    static HASH: LazyLock<String> = LazyLock::new(|| hash_password(PASSWORD).unwrap());
    let account = |role: WebRole| (role.name().to_owned(), Account { role, hash: HASH.clone() });
    let token = |role: WebRole| (role.name().to_owned(), Account { role, hash: hash_token(role.name()) });
    Accounts {
        users: WebRole::ALL.into_iter().map(account).collect(),
        tokens: WebRole::ALL.into_iter().map(token).collect::<BTreeMap<_, _>>(),
        ..Accounts::default()
    }
}

fn options(file: &Arc<File>) -> WebOptions {
    let addresses = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
    WebOptions {
        addresses,
        inherited: Vec::new(),
        history: None,
        versions: Versions::open(None),
        send: Arc::new(|_| Err("nothing is sent here".to_owned())),
        lab: None,
        tls: None,
        control: file.clone(),
        config: file.clone(),
        probes: Arc::new(Nowhere),
        timeouts: Timeouts::default(),
        version: "test",
    }
}

impl Stage {
    fn new(accounts: Accounts) -> Stage {
        let file = Arc::new(File(Mutex::new(Arc::new(accounts)), Mutex::default()));
        Stage { web: WebServer::start(options(&file)).expect("a free port"), file }
    }

    /// The status, the head and the body of an answer; `more` are lines of its head.
    fn ask(&self, method: &str, path: &str, more: &str, body: &Value) -> (u16, String, Value) {
        let mut stream = TcpStream::connect(self.web.bound()[0]).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time");
        talk(&mut stream, method, path, more, body)
    }

    fn get(&self, path: &str, more: &str) -> (u16, String, Value) {
        self.ask("GET", path, more, &Value::Null)
    }

    /// Logs in; returns the header line with the cookie.
    fn login(&self, user: &str) -> String {
        let (status, head, me) = self.ask("POST", "/api/v1/login", "", &json!({ "user": user, "password": PASSWORD }));
        assert_eq!((status, &me["user"], &me["login_needed"]), (200, &user.into(), &true.into()), "{me}");
        let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).expect("a cookie").to_owned();
        for flag in ["httponly", "samesite=strict", "path=/", "max-age=43200"] {
            assert!(cookie.to_ascii_lowercase().contains(flag), "{flag} is not in {cookie}");
        }
        format!("Cookie: other=1; {}\r\n", cookie.split(';').next().unwrap_or_default())
    }
}

fn talk(stream: &mut (impl Read + Write), method: &str, path: &str, more: &str, body: &Value) -> (u16, String, Value) {
    let body = body.to_string();
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n{more}\r\n{body}"
    )
    .expect("it reads");
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    // An end without close_notify is an end, too; a stream of events has none.
    while let Ok(count @ 1..) = stream.read(&mut piece) {
        answer.extend_from_slice(&piece[..count]);
        if String::from_utf8_lossy(&answer).contains("text/event-stream") {
            break;
        }
    }
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, head.to_owned(), serde_json::from_str(body).unwrap_or_default())
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

const PAGE: &str = "X-Weir-Panel: 1\r\n";

/// Each method of each path in openapi.json.
fn operations() -> Vec<(String, String)> {
    let description: Value = serde_json::from_str(include_str!("../../src/api/openapi.json")).expect("JSON");
    let paths = description["paths"].as_object().expect("paths").clone();
    let all = paths.into_iter().flat_map(|(path, methods)| {
        let methods: Vec<String> = methods.as_object().expect("methods").keys().cloned().collect();
        methods.into_iter().map(move |method| (method.to_ascii_uppercase(), path.clone()))
    });
    all.map(|(method, path)| {
        let path = path.replace("{name}", "app").replace("{key}", "max_clients").replace("{id}", "7");
        (method, path.replace("{report}", "quick").replace("{file}", "report.html"))
    })
    .collect()
}

#[test]
fn without_accounts_whoever_can_connect_may_do_everything() {
    let stage = Stage::new(Accounts::default());
    let (status, _, me) = stage.get("/api/v1/me", "");
    assert_eq!((status, me), (200, json!({ "user": null, "role": "admin", "login_needed": false })));
    assert_eq!(stage.ask("POST", "/api/v1/reload", "", &Value::Null).0, 503, "the workers have ended");
}

#[test]
fn without_a_login_nothing_but_health_and_the_description_is_answered() {
    let stage = Stage::new(users());
    let free = ["/healthz", "/readyz", "/api/v1/openapi.json", "/api/v1/login", "/api/v1/logout"];
    for (method, path) in operations() {
        for login in ["", &bearer("nobody"), "Cookie: weir_session=nonsense\r\n", "Authorization: Basic YTpi\r\n"] {
            let (status, head, _) = stage.ask(&method, &path, &format!("{login}{PAGE}"), &json!({}));
            if path.starts_with("/api/v1/oidc/") {
                // A browser follows them as links: back to the login page.
                assert!(status == 303 && head.contains("?login="), "{method} {path}: {head}");
            } else if free.contains(&path.as_str()) {
                assert_ne!(status, 401, "{method} {path}");
            } else {
                assert_eq!(status, 401, "{method} {path} with {login}");
                assert!(head.to_ascii_lowercase().contains("www-authenticate: bearer"));
            }
        }
    }
    assert_eq!(stage.get("/", "").0, 200, "the page asks for the login");
}

#[test]
fn each_role_may_do_what_is_its_and_no_more() {
    let stage = Stage::new(users());
    let of_operators = [
        "/pause",
        "/resume",
        "/reconnect",
        "/retry",
        "/switch",
        "/kill",
        "/disable",
        "/enable",
        "/reload",
        "/clients/7",
        "/alerts/test",
        "/silences",
        "/silences/7",
        "/statements/reset",
        "/start-record",
        "/stop-record",
    ];
    let free = ["/api/v1/login", "/api/v1/logout"];
    for (method, path) in operations() {
        let changes = method != "GET" && !free.contains(&path.as_str());
        let may = |role: WebRole| match role {
            WebRole::Admin => true,
            WebRole::Operator => !changes || of_operators.iter().any(|end| path.ends_with(end)),
            WebRole::Viewer => !changes && !["/api/v1/audit", "/api/v1/config/pending"].contains(&path.as_str()),
        };
        for role in WebRole::ALL {
            let name = role.name();
            let (status, _, error) = stage.ask(&method, &path, &bearer(name), &json!({}));
            assert_eq!(status != 403, may(role), "{method} {path} as {name} is {status}: {error}");
            assert_ne!(status, 401, "{method} {path} as {name}, unless it logs in anew");
        }
    }
}

#[test]
fn a_session_begins_with_a_password_and_ends_with_the_account_or_a_logout() {
    let stage = Stage::new(users());
    let wrong = |user: &str, password: &str| {
        let (status, head, _) = stage.ask("POST", "/api/v1/login", "", &json!({ "user": user, "password": password }));
        assert!(!head.to_ascii_lowercase().contains("set-cookie"));
        status
    };
    assert_eq!((wrong("admin", "wrong horse"), wrong("nobody", PASSWORD), wrong("", "")), (401, 401, 401));
    assert_eq!(wrong("admin", &"x".repeat(5_000)), 401);
    let session = stage.login("operator");
    let (status, _, me) = stage.get("/api/v1/me", &session);
    assert_eq!((status, me), (200, json!({ "user": "operator", "role": "operator", "login_needed": true })));
    let changing = |more: &str| stage.ask("POST", "/api/v1/reload", more, &Value::Null).0;
    assert_eq!(changing(&session), 403, "not from the page");
    assert_eq!(changing(&format!("{session}{PAGE}")), 503, "the workers have ended");
    assert_eq!(changing(&format!("{session}{PAGE}Origin: http://evil.example\r\n")), 403);
    assert_eq!(stage.ask("POST", "/api/v1/logout", &format!("{session}{PAGE}"), &Value::Null).0, 204);
    assert_eq!(stage.get("/api/v1/me", &session).0, 401);
    // With another password, and without the account, it ends too.
    let (mut changed, mut removed) = (users(), users());
    changed.users.get_mut("viewer").expect("it is there").hash = hash_password("another").unwrap();
    removed.users.remove("viewer");
    for accounts in [changed, removed] {
        let session = stage.login("viewer");
        assert_eq!(stage.get("/api/v1/me", &session).0, 200);
        *stage.file.0.lock().unwrap() = Arc::new(accounts);
        assert_eq!(stage.get("/api/v1/me", &session).0, 401);
        *stage.file.0.lock().unwrap() = Arc::new(users());
    }
}

#[test]
fn who_guesses_must_wait() {
    let stage = Stage::new(users());
    let guess = || stage.ask("POST", "/api/v1/login", "", &json!({ "user": "admin", "password": "guess" }));
    let answers: Vec<_> = (0..12).map(|_| guess()).collect();
    assert!(answers[..10].iter().all(|(status, ..)| *status == 401));
    assert_eq!((answers[10].0, answers[11].0), (429, 429));
    assert!(answers[10].1.to_ascii_lowercase().contains("retry-after: "), "{}", answers[10].1);
    assert_eq!(stage.get("/api/v1/me", &bearer("viewer")).0, 200, "tokens are not guessed at");
}

#[test]
fn what_others_try_changes_no_answer_to_the_right_password() {
    let stage = Stage::new(users());
    let guess = |user: &str| stage.ask("POST", "/api/v1/login", "", &json!({ "user": user, "password": "guess" })).0;
    // All of them have one address, as behind a proxy.
    for number in 0..15 {
        assert_eq!(guess(&format!("nobody {number}")), 401);
        stage.login("viewer");
        assert_eq!(guess("admin"), if number < 10 { 401 } else { 429 }, "a login of one's own gives no more guesses");
    }
    stage.login("operator");
}

#[test]
fn what_was_done_and_tried_is_written_down_without_secrets() {
    let stage = Stage::new(users());
    stage.ask("POST", "/api/v1/login", "", &json!({ "user": "admin", "password": "hush hush" }));
    stage.ask("POST", "/api/v1/pools", &bearer("viewer"), &json!({ "name": "a", "password": "hush hush" }));
    stage.ask("DELETE", "/api/v1/pools/a%0Ab", &bearer("admin"), &Value::Null);
    stage.get("/api/v1/pools", &bearer("viewer"));
    let (status, _, audit) = stage.get("/api/v1/audit", &bearer("operator"));
    let entries = audit["entries"].as_array().expect("entries");
    let shown: Vec<_> =
        entries.iter().map(|entry| (&entry["user"], &entry["method"], &entry["path"], &entry["status"])).collect();
    let entry = |user: &str, method: &str, path: &str, status: u16| json!([user, method, path, status]);
    assert_eq!(status, 200);
    assert_eq!(
        json!(shown),
        json!([
            entry("admin", "DELETE", "/api/v1/pools/a%0Ab", 503),
            entry("viewer", "POST", "/api/v1/pools", 403),
            entry("admin", "POST", "/api/v1/login", 401),
        ])
    );
    assert!(entries.iter().all(|entry| entry["from"] == "127.0.0.1") && !audit.to_string().contains("hush"));
}

#[test]
fn requests_that_are_refused_push_out_no_entry_of_a_change_and_fill_no_log() {
    let stage = Stage::new(users());
    stage.ask("POST", "/api/v1/reload", &bearer("admin"), &Value::Null);
    stage.ask("POST", "/api/v1/reload", &bearer("viewer"), &Value::Null);
    let (done, tried) = (stage.file.1.lock().unwrap().len(), 2_500);
    let mut stream = TcpStream::connect(stage.web.bound()[0]).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    for number in 0..tried {
        let head =
            format!("POST /api/v1/pools/p{number}/pause HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let (mut line, mut length) = (String::new(), 0);
        while line != "\r\n" {
            line.clear();
            reader.read_line(&mut line).unwrap();
            length = line.strip_prefix("content-length: ").map_or(length, |text| text.trim().parse().unwrap());
        }
        reader.read_exact(&mut vec![0; length]).unwrap();
    }
    let (_, _, audit) = stage.get("/api/v1/audit?limit=1000", &bearer("operator"));
    let entries = audit["entries"].as_array().expect("entries");
    let shown = |entry: &Value| json!([entry["user"], entry["path"], entry["status"], entry["times"]]);
    assert_eq!(
        entries.iter().map(shown).collect::<Vec<_>>(),
        [
            json!([null, format!("/api/v1/pools/p{}/pause", tried - 1), 401, tried]),
            json!(["viewer", "/api/v1/reload", 403, 1]),
            json!(["admin", "/api/v1/reload", 503, 1]),
        ]
    );
    let lines = stage.file.1.lock().unwrap().len() - done;
    assert!(lines < tried / 10, "{lines} lines");
}

#[test]
fn what_others_write_is_escaped_in_the_audit_and_in_the_log() {
    let stage = Stage::new(users());
    let evil = "\u{202e}nimda\n2026-11-21 10:00 LOG all is well\u{9b}2J\u{2028}";
    stage.ask("POST", "/api/v1/login", "", &json!({ "user": evil, "password": "x" }));
    stage.ask("POST", "/api/v1/pools/\u{202e}\u{9b}/pause", &bearer("viewer"), &Value::Null);
    let (_, _, audit) = stage.get("/api/v1/audit", &bearer("operator"));
    let log = stage.file.1.lock().unwrap().clone();
    let entries = audit["entries"].as_array().expect("entries");
    let fields = entries.iter().flat_map(|entry| [&entry["user"], &entry["path"]]).filter_map(Value::as_str);
    for text in fields.chain(log.iter().map(String::as_str)) {
        assert!(!text.chars().any(weir_base::is_hidden), "{text:?}");
    }
    assert!(
        entries.iter().any(|entry| entry["user"].as_str().is_some_and(|user| user.starts_with("\\u{202e}nimda\\n")))
    );
    assert!(log.iter().any(|line| line.contains("\\u{202e}nimda\\n2026")), "{log:?}");
}

#[test]
fn whoever_is_not_known_sends_a_short_body_at_once() {
    let file = Arc::new(File(Mutex::new(Arc::new(users())), Mutex::default()));
    let timeouts = Timeouts { body: Duration::from_millis(100), ..Timeouts::default() };
    let stage = Stage { web: WebServer::start(WebOptions { timeouts, ..options(&file) }).expect("a free port"), file };
    let connect = || {
        let stream = TcpStream::connect(stage.web.bound()[0]).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    };
    let head = |length: usize| {
        let head = "POST /api/v1/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json";
        format!("{head}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n")
    };
    let answer = |mut stream: TcpStream| {
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer[..12.min(answer.len())]).into_owned()
    };
    let mut slow = connect();
    slow.write_all(format!("{}{{", head(90)).as_bytes()).unwrap();
    assert_eq!(answer(slow), "HTTP/1.1 408");
    let mut long = connect();
    long.write_all(format!("{}{}", head(20_000), " ".repeat(20_000)).as_bytes()).unwrap();
    assert_eq!(answer(long), "HTTP/1.1 413");
}

#[test]
fn others_than_this_machine_are_served_only_with_encryption_and_logins() {
    let outside = SocketAddr::from(([192, 0, 2, 1], 0));
    let pair = Pair::new("outside");
    pair.make();
    let refused = |accounts: Accounts, tls: bool| {
        let file = Arc::new(File(Mutex::new(Arc::new(accounts)), Mutex::default()));
        let options = WebOptions { addresses: vec![outside], tls: tls.then(|| pair.read()), ..options(&file) };
        WebServer::start(options).expect_err("it would be open").to_string()
    };
    let (neither, no_tls, nobody) =
        (refused(Accounts::default(), false), refused(users(), false), refused(Accounts::default(), true));
    assert!(neither.contains("tls_cert_file") && neither.contains("[web.users]"), "{neither}");
    assert!(no_tls.contains("tls_cert_file") && !no_tls.contains("[web.users]"), "{no_tls}");
    assert!(nobody.contains("weir account") && !nobody.contains("tls_cert_file"), "{nobody}");
    let elsewhere = refused(users(), true);
    assert!(elsewhere.contains("can't listen"), "it would have served: {elsewhere}");
}

/// A certificate for `localhost` and its key, in files of a temporary folder.
struct Pair(PathBuf);

impl Pair {
    fn new(name: &str) -> Pair {
        let folder = std::env::temp_dir().join(format!("weir-web-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Pair(folder)
    }

    /// Makes a certificate, and returns the configuration of a client that trusts only it.
    fn make(&self) -> Arc<ClientConfig> {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        std::fs::write(self.certificate(), made.cert.pem()).unwrap();
        std::fs::write(self.key(), made.signing_key.serialize_pem()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone()).unwrap();
        let provider = Arc::new(tokio_rustls::rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        Arc::new(config.with_root_certificates(roots).with_no_client_auth())
    }

    fn certificate(&self) -> PathBuf {
        self.0.join("api.crt")
    }

    fn key(&self) -> PathBuf {
        self.0.join("api.key")
    }

    fn read(&self) -> Arc<WebTls> {
        Arc::new(WebTls::read(&self.certificate(), &self.key()).unwrap())
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

type Encrypted = StreamOwned<ClientConnection, TcpStream>;

fn connect(web: &WebServer, trust: &Arc<ClientConfig>) -> Encrypted {
    let connection = ClientConnection::new(trust.clone(), ServerName::try_from("localhost").unwrap()).unwrap();
    StreamOwned::new(connection, TcpStream::connect(web.bound()[0]).unwrap())
}

#[test]
fn with_a_certificate_everything_is_encrypted() {
    let pair = Pair::new("tls");
    let trust = pair.make();
    let file = Arc::new(File(Mutex::new(Arc::new(users())), Mutex::default()));
    let web = WebServer::start(WebOptions { tls: Some(pair.read()), ..options(&file) }).expect("a free port");
    let login = |origin: &str| {
        let body = json!({ "user": "admin", "password": PASSWORD });
        talk(&mut connect(&web, &trust), "POST", "/api/v1/login", &format!("{PAGE}Origin: {origin}\r\n"), &body)
    };
    let (status, head, _) = login("https://localhost");
    assert_eq!(status, 200);
    assert!(
        head.contains("; Secure") && head.contains("__host-weir_session=") | head.contains("__Host-weir_session="),
        "{head}"
    );
    assert_eq!(login("http://localhost").0, 403);
    // Plain text is no handshake.
    let mut plain = TcpStream::connect(web.bound()[0]).unwrap();
    plain.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
}

#[test]
fn a_certificate_is_read_again_for_new_connections_and_one_that_can_not_be_used_changes_nothing() {
    let pair = Pair::new("again");
    let old = pair.make();
    let tls = pair.read();
    let file = Arc::new(File(Mutex::new(Arc::new(users())), Mutex::default()));
    let web = WebServer::start(WebOptions { tls: Some(tls.clone()), ..options(&file) }).expect("a free port");
    let mut before = connect(&web, &old);
    before.conn.complete_io(&mut before.sock).unwrap();
    let new = pair.make();
    std::fs::write(pair.certificate(), "none").unwrap();
    let why = tls.read_again().err().expect("there is none").to_string();
    assert!(why.contains("api.crt") && why.contains("tls_cert_file"), "{why}");
    let handshake = |trust| {
        let mut stream = connect(&web, trust);
        stream.conn.complete_io(&mut stream.sock).is_ok()
    };
    assert_eq!((handshake(&old), handshake(&new)), (true, false));
    std::fs::remove_file(pair.certificate()).unwrap();
    // A pipe without a writer, and a file without an end, must not hold up a reload.
    rustix::fs::mkfifoat(rustix::fs::CWD, pair.certificate(), rustix::fs::Mode::RWXU).unwrap();
    let why = tls.read_again().err().expect("it is a pipe").to_string();
    assert!(why.contains("api.crt: not a regular file"), "{why}");
    std::fs::remove_file(pair.certificate()).unwrap();
    std::fs::File::create(pair.certificate()).unwrap().set_len(1 << 42).unwrap();
    let why = tls.read_again().err().expect("it is too large").to_string();
    assert!(why.contains("api.crt: it is larger than 16 MiB"), "{why}");
    let new = pair.make();
    drop(tls.read_again().unwrap());
    assert_eq!((handshake(&old), handshake(&new)), (true, false), "it is not in force yet");
    tls.read_again().unwrap()();
    assert_eq!((handshake(&old), handshake(&new)), (false, true));
    assert_eq!(talk(&mut before, "GET", "/readyz", "", &Value::Null).0, 503, "it continues");
}
