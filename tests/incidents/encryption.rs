//! Encryption: bytes from before it are never used, and its cost is bounded.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use weir_pgclient::{Connection, Error};
use weir_pgwire::put_front;
use weir_tests::{Certificates, Mode, Setup, Site, encrypting_postgres, users};

use crate::report::{Report, size};

const TIMEOUT: Duration = Duration::from_secs(30);

fn packet(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut packet = Vec::new();
    write(&mut packet);
    packet
}

/// All bytes up to the end of the connection, which must come.
#[track_caller]
fn until_closed(client: &mut Connection) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        match client.read_bytes(TIMEOUT) {
            Ok(bytes) => all.extend_from_slice(&bytes),
            Err(Error::Timeout) => panic!("the connection is not closed after {all:?}"),
            Err(_) => return all,
        }
    }
}

/// A client, or an attacker between it and the pooler, sends cleartext bytes after an encryption request: one byte,
/// part of a handshake, a startup packet, a query. Whether encryption is offered or not, none of these bytes is taken
/// as encrypted input: the connection is closed before any login begins.
#[test]
fn bytes_stuffed_before_a_handshake_close_the_connection() {
    let report = Report::begin();
    let certificates = Certificates::new();
    let offered = Site::with(certificates.setup(Setup::new(Mode::Transaction), "allow"), Mode::Transaction);
    let required =
        Site::with(certificates.setup(Setup::new(Mode::Transaction).console_by_socket(), "require"), Mode::Transaction);
    let declined = Site::transaction(1);
    let startup = packet(|b| put_front::startup(b, &[("user", users::APP.name), ("database", "app")], 0));
    let query = packet(|b| put_front::query(b, "SELECT 1"));
    let mut stuffed: Vec<Vec<u8>> =
        vec![vec![0], vec![0x16], b"S".to_vec(), vec![0x16, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3]];
    stuffed.extend([startup.clone(), query.clone(), [startup.clone(), query].concat(), vec![b'x'; 100_000]]);
    stuffed.extend((1..startup.len()).map(|end| startup[..end].to_vec()));
    let mut tried = 0;
    for (site, offers) in [(&offered, true), (&required, true), (&declined, false)] {
        for request in [put_front::ssl_request, put_front::gss_request] {
            for stuffing in &stuffed {
                let mut client = Connection::open(&site.params()).unwrap();
                let _ = client.send_bytes(&[packet(request), stuffing.clone()].concat());
                let _ = client.shutdown_write();
                let answer = until_closed(&mut client);
                let begun = answer.windows(5).any(|bytes| bytes[0] == b'R' && bytes[1..4] == [0, 0, 0]);
                assert!(!begun, "offered: {offers}: a login has begun: {}", answer.escape_ascii());
                tried += 1;
            }
        }
    }
    report.figure(format!("{tried} stuffed requests of clients, no login begun"));
}

/// A server, or an attacker in front of it, sends bytes after the one-byte answer to an encryption request. In every
/// mode the connection is closed: no byte of a login follows, and the waiting client gets the reason.
#[test]
fn bytes_stuffed_after_a_servers_answer_close_the_connection() {
    let report = Report::begin();
    let mut welcome = b"S".to_vec();
    welcome.extend_from_slice(&crate::servers::welcome());
    let mut tried = 0;
    for answer in [&b"SS"[..], b"S\x16\x03\x01", b"NR\0\0\0\x08\0\0\0\0", b"SE\0\0\0\x08SX\0\0", &welcome] {
        for mode in ["require", "verify-ca", "verify-full"] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = listener.local_addr().unwrap().port();
            let (received, hear) = mpsc::channel();
            let answer = answer.to_vec();
            // The thread ends with the process.
            thread::spawn(move || {
                for mut socket in listener.incoming().flatten() {
                    let mut request = [0; 8];
                    if socket.read_exact(&mut request).is_ok() && socket.write_all(&answer).is_ok() {
                        let mut more = [0; 4096];
                        let count = socket.read(&mut more).unwrap_or(0);
                        let _ = received.send(more[..count].to_vec());
                    }
                }
            });
            let certificates = Certificates::new();
            let more = format!(
                "[tls.server]\nmode = \"{mode}\"\nca_file = \"ca.crt\"\n[pools.stuffed]\nhost = \"127.0.0.1\"\n\
                 port = {port}\nuser = \"x\"\npassword = \"y\"\nserver_connect_timeout = \"2s\"\n\
                 server_login_retry = \"100ms\"\non_server_down = \"refuse\"\n"
            );
            let setup = Setup::new(Mode::Transaction).file("ca.crt", certificates.authority()).more(&more);
            let site = Site::with(setup, Mode::Transaction);
            let params = site.weir().params(users::APP.name, "stuffed").password(users::APP.password);
            let outcome = Connection::connect(&params).and_then(|mut client| client.value("SELECT 1"));
            let error = outcome.expect_err("there is no such server");
            assert!(error.server().is_some(), "{mode}: {error}");
            let bytes_seen = hear.recv_timeout(TIMEOUT).expect("Weir has connected");
            assert!(
                !bytes_seen.windows(5).any(|bytes| bytes == b"user\0"),
                "a login in cleartext: {}",
                bytes_seen.escape_ascii()
            );
            site.weir().skip_final_checks();
            tried += 1;
        }
    }
    report.figure(format!("{tried} stuffed answers of servers, no login begun"));
}

/// Reads a result of this many megabytes with psql, and returns the time.
fn read(parameters: &str, megabytes: usize) -> Duration {
    let rows = megabytes * 1000;
    let sql = format!("COPY (SELECT repeat(md5(i::text), 32) FROM generate_series(1, {rows}) i) TO STDOUT");
    let began = Instant::now();
    let mut psql = Command::new("psql");
    psql.env("PGPASSWORD", users::APP.password).args(["-X", "-q", "-w", "-c", &sql, parameters]);
    let mut child = psql.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("psql runs");
    let mut out = child.stdout.take().expect("it is piped");
    let mut buffer = vec![0; 1 << 16];
    let mut total = 0;
    while let Ok(count @ 1..) = out.read(&mut buffer) {
        total += count;
    }
    let status = child.wait().expect("it ends");
    assert!(status.success(), "{parameters}");
    assert_eq!(total, rows * 1025, "{parameters}");
    began.elapsed()
}

/// 40 MB are read over TLS alternately from PostgreSQL directly and through Weir, with encryption on both sides: every
/// byte arrives, and the time in relation to the direct way is a figure. A pooler that encrypts small pieces one by
/// one, or wakes for each record, takes many times as long, or for ever.
#[test]
fn forty_megabytes_over_tls_take_about_as_long_as_directly() {
    let report = Report::begin();
    let (postgres, authority) = encrypting_postgres();
    let certificates = Certificates::new();
    let setup = Setup::new(Mode::Transaction).file("server-ca.crt", &authority);
    let setup = setup.more("[tls.server]\nmode = \"verify-full\"\nca_file = \"server-ca.crt\"\n");
    let site = Site::on(&postgres, certificates.setup(setup, "allow"), Mode::Transaction);
    let place = format!("host=127.0.0.1 user={} sslmode=require gssencmode=disable", users::APP.name);
    let direct = format!("{place} port={} dbname={}", postgres.port(), site.database().name());
    let through = format!("{place} port={} dbname=app", site.weir().port());
    let plain = through.replace("sslmode=require", "sslmode=disable");
    let encrypted = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    assert_eq!(site.connect().value(encrypted).unwrap().as_deref(), Some("t"), "the server's side is encrypted");
    let mut times: [Vec<Duration>; 3] = Default::default();
    for _ in 0..size(3, 9) {
        for (times, parameters) in times.iter_mut().zip([&direct, &through, &plain]) {
            times.push(read(parameters, 40));
        }
    }
    let [direct, through, plain] = times.map(|mut times| {
        times.sort();
        times[times.len() / 2]
    });
    let ratio = through.as_secs_f64() / direct.as_secs_f64();
    report.figure(format!(
        "40 MB: {} ms directly, {} ms through Weir with TLS on both sides ({ratio:.2} times), {} ms with TLS to the server \
         only",
        direct.as_millis(),
        through.as_millis(),
        plain.as_millis()
    ));
    // The incident took minutes, or for ever; the bound is generous because this machine may be busy.
    assert!(through < Duration::from_secs(60) + direct * 20, "{through:?} beside {direct:?}");
}
