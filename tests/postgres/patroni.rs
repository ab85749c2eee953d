//! Pools that ask Patroni which host is their primary. Here something answers as Patroni's REST API does; with Patroni
//! itself it is `tests/cluster/patroni.py`.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use weir_pglocal::{TempFolder, free_port};
use weir_tests::{Certificates, Mode, Postgres, Setup, Weir, eventually};

use crate::hosts::{connect, port_of, weir};

/// Something that answers each request with a status, and notes what was requested.
#[derive(Clone)]
struct Api {
    port: u16,
    status: Arc<AtomicU16>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Api {
    fn new(status: u16) -> Api {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let api = Api { port, status: Arc::new(AtomicU16::new(status)), requests: Arc::default() };
        let served = api.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (Ok(mut stream), mut request) = (stream, [0; 1024]) else { return };
                let length = stream.read(&mut request).unwrap_or(0);
                let line = String::from_utf8_lossy(&request[..length]).lines().next().unwrap_or_default().to_owned();
                served.requests.lock().unwrap().push(line);
                let status = served.status.load(Ordering::SeqCst);
                let _ = write!(stream, "HTTP/1.0 {status} whatever\r\nContent-Type: application/json\r\n\r\n{{}}");
            }
        });
        api
    }

    fn says(&self, status: u16) {
        self.status.store(status, Ordering::SeqCst);
    }

    fn has_seen(&self, line: &str) -> bool {
        self.requests.lock().unwrap().iter().any(|request| request == line)
    }
}

fn setup(attrs: &str, api: &[String]) -> Setup {
    Setup::new(Mode::Transaction)
        .size(2)
        .workers(2)
        .pool(&format!("target_session_attrs = \"{attrs}\""))
        .pool(&format!("patroni_api = {api:?}"))
        .pool("patroni_interval = \"100ms\"")
}

/// What SHOW PATRONI has of the two hosts once it has something of both: the status, or the error.
fn said(weir: &Weir) -> [String; 2] {
    eventually("Patroni was asked", || {
        let shown = weir.show("PATRONI");
        let of = |row| shown.get(row, "status").or(shown.get(row, "error")).map(str::to_owned);
        match (of(0), of(1)) {
            (Some(first), Some(second)) => Ok([first, second]),
            other => Err(other),
        }
    })
}

#[test]
fn the_host_that_patroni_names_is_tried_first() {
    let (a, b) = (Postgres::private(), Postgres::private());
    let apis = [Api::new(503), Api::new(200)];
    let urls = apis.each_ref().map(|api| format!("http://127.0.0.1:{}/", api.port));
    let weir = weir(&[a.port(), b.port()], setup("read-write", &urls));
    assert_eq!(said(&weir), ["503", "200"]);
    let mut client = connect(&weir);
    assert_eq!(port_of(&mut client), b.port(), "both take writes");
    apis[1].says(503);
    apis[0].says(200);
    eventually("the pool moves", || match port_of(&mut client) {
        port if port == a.port() => Ok(()),
        port => Err(port),
    });
    assert_eq!(said(&weir), ["200", "503"]);
    assert!(apis.iter().all(|api| api.has_seen("GET /primary HTTP/1.1")));
}

#[test]
fn a_standby_is_tried_first_that_is_not_far_behind() {
    let (a, b) = (Postgres::private(), Postgres::private());
    let apis = [Api::new(503), Api::new(200)];
    let urls = apis.each_ref().map(|api| format!("http://127.0.0.1:{}", api.port));
    let setup = setup("prefer-standby", &urls).pool("patroni_max_lag = \"1MiB\"");
    let weir = weir(&[a.port(), b.port()], setup);
    assert_eq!(said(&weir), ["503", "200"]);
    assert_eq!(port_of(&mut connect(&weir)), b.port(), "none is a standby: in the second round any will do");
    assert!(apis.iter().all(|api| api.has_seen("GET /replica?lag=1048576 HTTP/1.1")));
}

#[test]
fn patroni_is_asked_with_tls_and_its_certificate_is_checked() {
    let (a, b) = (Postgres::private(), Postgres::private());
    let (authority, folder) = (Certificates::new(), TempFolder::new().unwrap());
    let at = |name: &str| folder.path().join(name);
    let (key, certificate) = authority.sign_for("patroni", "localhost");
    for (name, text) in [("key", &*key), ("crt", &certificate), ("ca", authority.authority())] {
        fs::write(at(name), text).unwrap();
    }
    fs::write(at("other"), Certificates::new().authority()).unwrap();
    let port = free_port().unwrap();
    // It answers every request with 200 and a page about the connection.
    let mut server = Command::new("openssl");
    server.args(["s_server", "-www", "-quiet", "-accept", &format!("127.0.0.1:{port}"), "-key"]);
    let server = server.arg(at("key")).arg("-cert").arg(at("crt")).stdin(Stdio::null()).stdout(Stdio::null());
    let mut server = server.stderr(Stdio::null()).spawn().unwrap();
    let urls = [format!("http://127.0.0.1:{}", free_port().unwrap()), format!("https://localhost:{port}")];
    for (file, trusted) in [("ca", true), ("other", false)] {
        let setup = setup("read-write", &urls).pool(&format!("patroni_ca_file = {:?}", at(file)));
        let weir = weir(&[a.port(), b.port()], setup);
        let ends = |[_, second]: [String; 2]| if (second == "200") == trusted { Ok(()) } else { Err(second) };
        eventually("it has answered", || ends(said(&weir)));
        assert!(trusted || said(&weir)[1].contains("certificate"), "{:?}", said(&weir));
        let expected = if trusted { b.port() } else { a.port() };
        assert_eq!(port_of(&mut connect(&weir)), expected, "{file}");
    }
    server.kill().unwrap();
    server.wait().unwrap();
}
