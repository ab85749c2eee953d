//! Many connections that never log in: they exhaust neither the memory, nor the console, nor the helper threads.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use weir_pgclient::{ConnectParams, Connection};
use weir_pglocal::raise_descriptors;
use weir_pgwire::put_front;
use weir_tests::{Certificates, Mode, Setup, Site, encrypting_postgres, eventually, users};

use crate::report::{Report, size};

fn packet(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut packet = Vec::new();
    write(&mut packet);
    packet
}

fn connect(site: &Site) -> TcpStream {
    TcpStream::connect(("127.0.0.1", site.weir().port())).expect("it listens")
}

/// Whether the other side keeps a connection, after a moment to close it.
fn is_kept(socket: &mut TcpStream) -> bool {
    socket.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout");
    match socket.read_exact(&mut [0; 1]) {
        Ok(()) => false,
        Err(error) => matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut),
    }
}

/// This many connections that send these bytes, and nothing more.
fn connections(site: &Site, number: usize, says: &[u8]) -> Vec<TcpStream> {
    let mut all = Vec::new();
    for _ in 0..number {
        let mut socket = connect(site);
        let _ = socket.write_all(says);
        all.push(socket);
    }
    all
}

/// The first message of a handshake (RFC 8446, section 4.1.2): the server has to sign its answer.
fn client_hello() -> Vec<u8> {
    let mut extensions: Vec<u8> = vec![0, 0x2b, 0, 3, 2, 3, 4];
    extensions.extend([0, 0x0a, 0, 4, 0, 2, 0, 0x1d]);
    extensions.extend([0, 0x0d, 0, 8, 0, 6, 4, 3, 8, 4, 4, 1]);
    extensions.extend([0, 0x33, 0, 38, 0, 36, 0, 0x1d, 0, 32]);
    extensions.extend([9; 32]);
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.extend([0, 0, 2, 0x13, 1, 1, 0]);
    body.extend((extensions.len() as u16).to_be_bytes());
    body.extend(extensions);
    let mut hello = vec![1, 0];
    hello.extend((body.len() as u16).to_be_bytes());
    hello.extend(body);
    let mut record = vec![0x16, 3, 1];
    record.extend((hello.len() as u16).to_be_bytes());
    record.extend(hello);
    record
}

/// Thousands of handshakes are begun and abandoned, and more of them all the time: new connections to servers, which
/// need a handshake of their own, and a reload, are as fast as ever. In one queue, each would wait behind all of them.
#[test]
fn half_open_handshakes_keep_neither_servers_nor_a_reload_waiting() {
    let report = Report::begin();
    raise_descriptors();
    let (postgres, _) = encrypting_postgres();
    let certificates = Certificates::new();
    let setup = Setup::new(Mode::Transaction).size(2).console_by_socket().auth_line("failure_delay = 0");
    let setup = certificates.setup(setup, "allow").more("[tls.server]\nmode = \"require\"\n");
    let site = Site::on(&postgres, setup, Mode::Transaction);
    let left = connections(&site, size(500, 5_000), &packet(put_front::ssl_request));
    for mut socket in &left {
        let mut answer = [0];
        socket.read_exact(&mut answer).expect("the request is answered");
        assert_eq!(&answer, b"S");
        socket.write_all(&client_hello()).expect("the bytes are accepted");
    }
    let (over, begun) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let Ok(mut socket) = TcpStream::connect(("127.0.0.1", site.weir().port())) else { continue };
                    let asked = socket.write_all(&packet(put_front::ssl_request));
                    if asked.and_then(|()| socket.read_exact(&mut [0])).is_ok() {
                        let _ = socket.write_all(&client_hello());
                    }
                    begun.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for round in 0..size(5, 50) {
            site.weir().command("RECONNECT").unwrap();
            site.weir().command("RELOAD").unwrap();
            let mut client = site.connect();
            let answer = client.value("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()");
            assert_eq!(answer.unwrap().as_deref(), Some("t"), "round {round}: a new server, encrypted");
            // Clients that complete their handshake can log in as well.
            let secret = users::APP.password;
            let params = site.weir().params(users::APP.name, "app").password(secret);
            Connection::connect(&params).unwrap().value("SELECT 1").unwrap();
        }
        over.store(true, Ordering::Relaxed);
    });
    drop(left);
    report.figure(format!("{} handshakes begun and left, every new server and reload succeeded", begun.into_inner()));
}

/// Idle connections without a login use all client slots. Operators can still log in over the Unix socket at once;
/// clients and administrators by TCP as soon as the first idle connection has reached its timeout of a few seconds.
#[test]
fn connections_that_send_nothing_keep_neither_operators_nor_clients_out() {
    let report = Report::begin();
    let setup =
        Setup::new(Mode::Transaction).general("max_clients = 40").listen("defer_accept = false").console_by_socket();
    let site = Site::with(setup, Mode::Transaction);
    let mut silent = connections(&site, 200, b"");
    eventually("the slots are used", || {
        let mut more = connect(&site);
        if is_kept(&mut more) { Err("a slot is free") } else { Ok(()) }
    });
    let kept = silent.iter_mut().map(is_kept).filter(|kept| *kept).count();
    // By the Unix socket, as the owner of the process.
    let shown = site.weir().show("CLIENTS");
    assert!(!shown.rows.is_empty(), "the operator gets an answer with at least its own row");
    for user in [users::APP, users::OTHER] {
        eventually("a client logs in", || {
            let mut client = Connection::connect(&site.params_of(user)).map_err(|error| error.to_string())?;
            client.value("SELECT 1").map_err(|error| error.to_string())
        });
    }
    let admin = ConnectParams::tcp(([127, 0, 0, 1], site.weir().port()).into(), weir_tests::ADMIN.0, "weir");
    eventually("an administrator by TCP", || {
        let console = Connection::connect(&admin.clone().password(weir_tests::ADMIN.1));
        console.and_then(|mut console| console.query("SHOW VERSION")).map_err(|error| error.to_string())
    });
    report.figure(format!("{kept} connections that send nothing for 40 slots, operators and clients logged in"));
}

/// Each of many unauthenticated clients sends as much as it can: the beginning of a long startup packet, of a password,
/// of a handshake. Together they use no more memory than the bound for all of them.
#[test]
fn unauthenticated_clients_take_little_memory() {
    let report = Report::begin();
    raise_descriptors();
    let number = size(1_500, 8_000);
    let certificates = Certificates::new();
    let setup = Setup::new(Mode::Transaction).general("max_clients = 20000").console_by_socket();
    let site = Site::with(certificates.setup(setup, "allow"), Mode::Transaction);
    let before = site.weir().memory().now;
    let mut startup = 10_000_u32.to_be_bytes().to_vec();
    startup.extend([0, 3, 0, 0]);
    startup.resize(9_990, b'x');
    let mut password = packet(|b| put_front::startup(b, &[("user", users::APP.name), ("database", "app")], 0));
    password.extend([&b"p"[..], &16_000_u32.to_be_bytes(), &[b'x'; 15_900]].concat());
    let handshake = [&[0x16, 3, 1, 0x40, 0][..], &[1; 16_300]].concat();
    let mut groups = Vec::new();
    for says in [&startup, &password, &handshake] {
        groups.push(connections(&site, number / 3, says));
        // Other clients notice nothing.
        assert_eq!(site.connect().value("SELECT 'fine'").unwrap().as_deref(), Some("fine"));
    }
    // Twice 16 MiB for data beyond the clients' own shares, 2 KiB for each share, and the normal cost of a connection.
    let grown = site.weir().memory().peak.saturating_sub(before);
    let most = 2 * 16 * 1024 + number as u64 * 8;
    assert!(grown < most, "{grown} kB of {most} for {number} unauthenticated clients");
    drop(groups);
    report.figure(format!("{number} unauthenticated clients that send all they can: {} MB", grown / 1024));
}
