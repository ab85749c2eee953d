//! An API under overload, and the pool beside it, which must not be affected.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use weir_tests::{Api, Mode, Setup, Site, eventually};

use crate::web_access::account;

fn ask(api: Api, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(api.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(text.as_bytes()).unwrap();
    stream
}

fn status(stream: &mut TcpStream) -> u16 {
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    String::from_utf8_lossy(&head[9..]).parse().unwrap()
}

#[test]
fn an_overload_of_the_api_is_refused_and_affects_no_client() {
    let api = Api::default();
    let site = Site::with(Setup::new(Mode::Transaction).size(2).more(&api.section()), Mode::Transaction);
    let host = api.address();
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let work = || {
            let mut client = site.connect();
            let mut done = 0_u64;
            while !ended.load(Ordering::Relaxed) || done == 0 {
                assert_eq!(client.value("SELECT 1").unwrap().as_deref(), Some("1"));
                done += 1;
            }
        };
        let clients: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        let events = format!("GET /api/v1/events HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let mut streams: Vec<_> = (0..1_000).map(|_| ask(api, &events)).collect();
        assert_eq!(api.ask("GET", "/healthz", "").0, 200, "after a thousand streams");
        let statuses: Vec<_> = streams.iter_mut().map(status).collect();
        let count = |wanted| statuses.iter().filter(|one| **one == wanted).count();
        assert_eq!((count(200), count(429)), (64, 936));
        for _ in 0..100 {
            for (head, expected) in [
                ("GET /api/v1/pools HTTP/1.1\r\nHost: evil.example\r\n".to_owned(), 421),
                (format!("POST /api/v1/pause HTTP/1.1\r\nHost: {host}\r\nOrigin: http://evil.example\r\n"), 403),
                (format!("POST /api/v1/pause HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\n"), 403),
                (format!("POST /api/v1/pools HTTP/1.1\r\nHost: {host}\r\nContent-Length: 9999999999\r\n"), 413),
                (format!("GET /..%2f..%2fetc%2fpasswd HTTP/1.1\r\nHost: {host}\r\n"), 404),
            ] {
                assert_eq!(status(&mut ask(api, &format!("{head}\r\n"))), expected, "{head}");
            }
        }
        assert_eq!(api.ask("GET", "/readyz", "").0, 200);
        ended.store(true, Ordering::Relaxed);
        clients.into_iter().for_each(|client| client.join().expect("no client was affected"));
    });
}

/// What the process may keep after many of the same requests, in KiB: less than the memory of one hashed password.
const KEPT: u64 = 14 << 10;

#[test]
fn nothing_that_needs_no_login_costs_memory_for_good() {
    let api = Api::default();
    let (user, _) = account(&["ann"], "correct horse\n");
    let section = format!("{}[web.users]\n{user}", api.section());
    let setup = Setup::new(Mode::Transaction).auth_line("failure_delay = 0").more(&section);
    let site = Site::with(setup, Mode::Transaction);
    let weir = site.weir();
    let description: Value = serde_json::from_str(&api.ask("GET", "/api/v1/openapi.json", "").1).unwrap();
    let paths: Vec<String> = description["paths"].as_object().unwrap().keys().cloned().collect();
    let log_in =
        |user: &str| api.ask("POST", "/api/v1/login", &format!("{{\"user\": \"{user}\", \"password\": \"x\"}}")).0;
    let send = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(("127.0.0.1", weir.port())).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    };
    let cancel = [&16_u32.to_be_bytes()[..], &80_877_102_u32.to_be_bytes(), &[0, 0, 0, 9], &[1, 2, 3, 4]].concat();
    let number = AtomicUsize::new(0);
    let next = || number.fetch_add(1, Ordering::Relaxed);
    let actions: [(&str, usize, &dyn Fn()); 7] = [
        ("a wrong password", 10, &|| assert!([401, 429].contains(&log_in("ann")))),
        ("an unknown user", 24, &|| assert_eq!(log_in(&format!("nobody {}", next())), 401)),
        ("each path", 4, &|| {
            for path in &paths {
                api.ask("GET", path, "");
                api.ask("POST", path, "{}");
            }
        }),
        ("garbage", 200, &|| send(&[b'x'; 4096])),
        ("a cancel request", 200, &|| send(&cancel)),
        ("a user of the pooler that is unknown", 100, &|| {
            let params = weir.params(&format!("nobody {}", next()), "app").password("x");
            assert!(weir_pgclient::Connection::connect(&params).is_err());
        }),
        ("a wrong password of the pooler", 20, &|| {
            let params = weir.params(weir_tests::users::APP.name, "app").password("x");
            assert!(weir_pgclient::Connection::connect(&params).is_err());
        }),
    ];
    // Threads, buffers and lists that are as large as they ever are.
    actions.iter().for_each(|(_, _, act)| act());
    for (what, times, act) in actions {
        let before = weir.memory().now;
        (0..times).for_each(|_| act());
        eventually(what, || {
            let kept = weir.memory().now.saturating_sub(before);
            if kept <= KEPT { Ok(()) } else { Err(format!("{kept} KiB are kept after {times} times {what}")) }
        });
    }
}
