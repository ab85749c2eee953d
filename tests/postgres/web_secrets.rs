//! Stored secrets, which can't be extracted from a Weir over its API: pools are pointed at an attacker's server.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use weir_pglocal::Signal;
use weir_tests::{Api, Mode, Setup, Site, users};

/// A server that requests a password of every client, first in cleartext and then by md5, and records all bytes.
struct Attacker {
    address: SocketAddr,
    received: Arc<Mutex<Vec<u8>>>,
}

impl Attacker {
    fn new() -> Attacker {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, received) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<u8>>>::default());
        let taken = received.clone();
        thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                let Ok(mut stream) = stream else { return };
                let _ = stream.set_read_timeout(Some(Duration::from_secs(2)));
                let mut bytes = [0; 2048];
                let mut take = |stream: &mut std::net::TcpStream| {
                    let count = stream.read(&mut bytes).unwrap_or(0);
                    taken.lock().unwrap().extend_from_slice(&bytes[..count]);
                    bytes[..count].to_vec()
                };
                // An SSLRequest is declined.
                if take(&mut stream).get(4..8) == Some(&[0x04, 0xd2, 0x16, 0x2f]) {
                    let _ = stream.write_all(b"N");
                    take(&mut stream);
                }
                let asks: &[u8] = if number % 2 == 0 { &[b'R', 0, 0, 0, 8, 0, 0, 0, 3] } else { &MD5 };
                let _ = stream.write_all(asks);
                take(&mut stream);
            }
        });
        Attacker { address, received }
    }

    fn received(&self) -> Vec<u8> {
        self.received.lock().unwrap().clone()
    }
}

const MD5: [u8; 13] = [b'R', 0, 0, 0, 12, 0, 0, 0, 5, 1, 2, 3, 4];

struct Stage {
    site: Site,
    api: Api,
    attacker: Attacker,
}

impl Stage {
    fn new(setup: Setup) -> Stage {
        let api = Api::default();
        let site = Site::with(setup.more(&api.section()), Mode::Transaction);
        Stage { site, api, attacker: Attacker::new() }
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let (status, text) = self.api.ask(method, path, &body.to_string());
        (status, serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
    }

    /// Refused because of a secret, with a hint what to do.
    #[track_caller]
    fn refused(&self, method: &str, path: &str, body: &Value, key: &str) {
        let (status, response) = self.ask(method, path, body);
        assert_eq!((status, response["key"].as_str()), (400, Some(key)), "{method} {path} {body}: {response}");
        assert!(response["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{response}");
    }

    /// The keys that point a pool at the attacker.
    fn there(&self, more: &Value) -> Value {
        let mut keys = json!({ "host": "127.0.0.1", "port": self.attacker.address.port() });
        keys.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        keys
    }

    fn file(&self) -> String {
        std::fs::read_to_string(self.site.weir().folder().join("weir.toml")).unwrap()
    }
}

#[test]
fn a_stored_password_is_sent_to_no_other_host() {
    let stage = Stage::new(Setup::new(Mode::Transaction).size(2));
    let before = stage.file();
    let moved = stage.there(&json!({ "name": "app" }));
    stage.refused("POST", "/api/v1/pools/test", &moved, "password");
    stage.refused("PATCH", "/api/v1/pools/app", &stage.there(&json!({})), "password");
    stage.refused("PATCH", "/api/v1/pools/app", &stage.there(&json!({ "user": "other" })), "password");
    let socket = json!({ "name": "app", "host": "/tmp" });
    stage.refused("POST", "/api/v1/pools/test", &socket, "password");
    // The secrets of listed users: the first user, a named one, and an auth_user.
    for path in ["/api/v1/pools/test", "/api/v1/pools"] {
        stage.refused("POST", path, &stage.there(&json!({ "name": "new" })), "user");
        stage.refused("POST", path, &stage.there(&json!({ "name": "new", "user": users::APP.name })), "password");
        let asks = json!({ "name": "new", "user": "u", "password": "p", "auth_user": users::APP.name });
        stage.refused("POST", path, &stage.there(&asks), "auth_user");
        let file = json!({ "name": "new", "user": "u", "password_file": "userlist.txt" });
        stage.refused("POST", path, &stage.there(&file), "password_file");
        let variable = json!({ "name": "new", "user": "u", "password_env": "PATH" });
        stage.refused("POST", path, &stage.there(&variable), "password_env");
        let program = json!({ "name": "new", "user": "u", "password_command": ["/bin/sh", "-c", "true"] });
        stage.refused("POST", path, &stage.there(&program), "password_command");
    }
    stage.refused("PATCH", "/api/v1/pools/app", &json!({ "password_command": ["/bin/true"] }), "password_command");
    stage.refused("PATCH", "/api/v1/pools/app", &json!({ "password_source": ["google"] }), "password_source");
    let (status, response) = stage.ask("PUT", "/api/v1/settings/server_tls_sslmode", &json!({ "value": "disable" }));
    assert_eq!(status, 400, "the default is prefer: {response}");
    assert_eq!((stage.file(), stage.attacker.received()), (before, Vec::new()), "no connection was made");
    stage.site.connect().query("SELECT 1").unwrap();
}

#[test]
fn a_pool_moves_with_its_password_which_is_never_tried_in_cleartext() {
    let stage = Stage::new(Setup::new(Mode::Transaction).size(2));
    let given = json!({ "name": "app", "password": "given again" });
    let (status, response) = stage.ask("POST", "/api/v1/pools/test", &stage.there(&given));
    assert_eq!((status, &response["ok"]), (200, &false.into()), "{response}");
    assert!(response["error"].as_str().unwrap().contains("in clear text"), "{response}");
    let (status, response) = stage.ask("POST", "/api/v1/pools/test", &stage.there(&given));
    assert_eq!((status, &response["ok"]), (200, &false.into()), "by md5: {response}");
    let received = stage.attacker.received();
    let has = |word: &str| received.windows(word.len()).any(|bytes| bytes == word.as_bytes());
    assert!(has("md5") && !has("given again") && !has(users::APP.password));
    assert_eq!(stage.ask("PATCH", "/api/v1/pools/app", &stage.there(&given)).0, 400, "\"name\" is no key of it");
    let moved = stage.there(&json!({ "password": "given again" }));
    assert_eq!(stage.ask("PATCH", "/api/v1/pools/app", &moved).0, 200);
    // Back again, with the password that is stored now.
    let back = json!({ "port": stage.site.database().postgres().port() });
    stage.refused("PATCH", "/api/v1/pools/app", &back, "password");
    let back = json!({ "port": stage.site.database().postgres().port(), "password": users::APP.password });
    assert_eq!(stage.ask("PATCH", "/api/v1/pools/app", &back).0, 200);
    stage.site.connect().query("SELECT 1").unwrap();
}

#[test]
fn a_shutdown_does_not_wait_for_a_server_that_is_tried() {
    let stage = Stage::new(Setup::new(Mode::Transaction).size(2));
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let body = json!({ "name": "new", "host": "127.0.0.1", "port": port, "user": "u", "password": "p" }).to_string();
    let api = stage.api;
    let asks = thread::spawn(move || {
        let mut stream = std::net::TcpStream::connect(api.address()).unwrap();
        let head =
            format!("POST /api/v1/pools/test HTTP/1.1\r\nHost: {}\r\nContent-Length: {}", api.address(), body.len());
        write!(stream, "{head}\r\nContent-Type: application/json\r\n\r\n{body}").unwrap();
        stream.read_to_end(&mut Vec::new()).map(drop)
    });
    let (mut server, _) = silent.accept().unwrap();
    // Each read of the trial gets a byte: the trial lasts its full time.
    let drips = thread::spawn(move || {
        let mut message = [&[b'N', 0, 0, 100, 0][..], &[b'x'; 10_000]].concat().into_iter();
        while message.next().is_some_and(|byte| server.write_all(&[byte]).is_ok()) {
            thread::sleep(Duration::from_millis(20));
        }
    });
    let begun = std::time::Instant::now();
    let weir = stage.site.weir();
    weir.skip_final_checks();
    weir.signal(Signal::SIGTERM);
    weir.wait_for_exit();
    assert!(begun.elapsed() < Duration::from_secs(8), "a trial takes ten: {:?}", begun.elapsed());
    let _ = asks.join().unwrap();
    drips.join().unwrap();
}
