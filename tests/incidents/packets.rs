//! Packets with impossible parts: settings without a name, lengths beyond any message. Each is answered or closed at
//! once, in every phase of a connection, and delays no other client.

use std::time::Duration;

use weir_pgclient::{Connection, Error};
use weir_pgwire::{put_back, put_front, tag};
use weir_tests::{Certificates, Ini, Mode, Setup, Site, users};

use crate::report::{Report, size};
use crate::servers::{Case, run, welcome};

const TIMEOUT: Duration = Duration::from_secs(30);

/// More CPU time than a process that only answers needs, and far less than one that spins.
const MAX_SECONDS: f64 = 10.0;

fn packet(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut packet = Vec::new();
    write(&mut packet);
    packet
}

/// The CPU time of a process, in seconds.
fn cpu(site: &Site) -> f64 {
    let cpu = weir_pglocal::proc::cpu(site.weir().pid()).expect("it runs");
    cpu.total() as f64 / weir_pglocal::proc::TICKS_PER_SECOND
}

/// All bytes up to the end of the connection, or up to a request for a password.
#[track_caller]
fn answer(client: &mut Connection, what: &str) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        match client.read_bytes(TIMEOUT) {
            Ok(bytes) => all.extend_from_slice(&bytes),
            Err(Error::Timeout) => panic!("{what}: neither answered nor closed: {}", all.escape_ascii()),
            Err(_) => return all,
        }
        if all.first() == Some(&tag::back::AUTHENTICATION) {
            return all;
        }
    }
}

/// `options` as a hostile client may write them.
fn options() -> Vec<String> {
    let words =
        ["-c=", "-c =", "-c", "-c=x", "-c ==", "--=", "--", "-", "--c=", "-c a=", "-c a", "=", "\\", "-c\\", "-c \\"];
    let mut all: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    all.extend(words.iter().map(|word| format!(" {word} ")));
    all.extend(words.iter().map(|word| format!("-c geqo=off {word}")));
    all.extend(words.iter().map(|word| format!("{word} -c geqo=off")));
    all.extend(words.iter().map(|word| word.repeat(9_000 / word.len())));
    all.extend(words.iter().map(|word| format!("{word} ").repeat(9_000 / (word.len() + 1))));
    all.extend(
        ["\t", " ", "\\ ", "\\\\", "\r\n\x0b\x0c", "'", "\"", "-c 'a=b'", "é=", "-cé=ü"].map(|odd| odd.repeat(400)),
    );
    all.push("-c geqo=off ".repeat(750));
    all
}

/// A startup packet whose `options` have a setting without a name (`-c=`) made PgBouncer's parser spin. Weir answers
/// every form of it at once, with an error or with the login, and uses no CPU time for it.
#[test]
fn options_of_any_shape_are_answered_at_once() {
    let report = Report::begin();
    let mut tried = 0;
    for site in [Site::transaction(1), Site::ini(&Ini::new())] {
        let before = cpu(&site);
        for options in options() {
            let mut client = Connection::open(&site.params()).unwrap();
            let user = [("user", users::APP.name), ("database", "app"), ("options", options.as_str())];
            client.send_bytes(&packet(|buffer| put_front::startup(buffer, &user, 0))).unwrap();
            let received = answer(&mut client, &options);
            assert!(matches!(received.first(), Some(b'E' | b'R')), "{options:?}: {}", received.escape_ascii());
            tried += 1;
        }
        let used = cpu(&site) - before;
        assert!(used < MAX_SECONDS, "{used} s of a core");
        assert_eq!(site.connect().value("SELECT 'fine'").unwrap().as_deref(), Some("fine"));
    }
    report.figure(format!("{tried} startup packets, each answered at once"));
}

/// Impossible lengths, and lengths around the limits of integer types.
const LENGTHS: [u32; 12] = [
    0,
    1,
    3,
    0x4000_0005,
    0x7fff_fffb,
    0x7fff_fffc,
    0x7fff_ffff,
    0x8000_0000,
    0x8000_0001,
    0x8000_0004,
    0xffff_fffb,
    0xffff_ffff,
];

/// The phase in which a client sends such a length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    First,
    Declined,
    Cancel,
    Password(&'static str),
    Response,
    LoggedIn,
    Copying,
}

const PHASES: [Phase; 9] = [
    Phase::First,
    Phase::Declined,
    Phase::Cancel,
    Phase::Password("plain"),
    Phase::Password("md5"),
    Phase::Password("scram-sha-256"),
    Phase::Response,
    Phase::LoggedIn,
    Phase::Copying,
];

/// A connection in this phase, and the bytes before the length there: nothing, or a tag.
fn reach(site: &Site, phase: Phase) -> (Connection, Vec<u8>) {
    let startup = packet(|b| put_front::startup(b, &[("user", users::APP.name), ("database", "app")], 0));
    match phase {
        Phase::First | Phase::Cancel => (Connection::open(&site.params()).unwrap(), Vec::new()),
        Phase::Declined => {
            let mut client = Connection::open(&site.params()).unwrap();
            for request in [put_front::ssl_request, put_front::gss_request] {
                client.send_bytes(&packet(request)).unwrap();
                assert_eq!(client.read_bytes(TIMEOUT).unwrap(), b"N");
            }
            (client, Vec::new())
        }
        Phase::Password(_) | Phase::Response => {
            let mut client = Connection::open(&site.params()).unwrap();
            client.send_bytes(&startup).unwrap();
            client.read_frame(TIMEOUT).unwrap();
            if phase == Phase::Response {
                let first = b"n,,n=,r=abcdefghijklmnopqrstuvwx";
                client.send_bytes(&packet(|b| put_front::sasl_initial(b, "SCRAM-SHA-256", first))).unwrap();
                client.read_frame(TIMEOUT).unwrap();
            }
            (client, b"p".to_vec())
        }
        Phase::LoggedIn => (site.connect(), b"Q".to_vec()),
        Phase::Copying => {
            let mut client = site.connect();
            client
                .send_bytes(&packet(|b| put_front::query(b, "COPY (SELECT 1) TO STDOUT; COPY pg_temp.t FROM STDIN")))
                .unwrap();
            (client, b"d".to_vec())
        }
    }
}

/// A header with a length above 2³¹ made PgBouncer wait for ever. Weir refuses it in every phase of a client's
/// connection: the connection is closed, and Weir neither waits for the bytes nor spins.
#[test]
fn a_length_beyond_any_message_ends_a_clients_connection_in_every_phase() {
    let report = Report::begin();
    let mut tried = 0;
    for phase in PHASES {
        let auth = if let Phase::Password(auth) = phase { auth } else { "scram-sha-256" };
        let setup = Setup::new(Mode::Transaction).auth(auth).auth_line("failure_delay = 0");
        let site = Site::with(setup, Mode::Transaction);
        let before = cpu(&site);
        for length in LENGTHS {
            // All at once, and byte by byte.
            for split in [false, true] {
                let (mut client, mut bytes) = reach(&site, phase);
                bytes.extend_from_slice(&length.to_be_bytes());
                match phase {
                    Phase::Cancel => bytes.extend_from_slice(&80_877_102_u32.to_be_bytes()),
                    Phase::First | Phase::Declined => bytes.extend_from_slice(&196_608_u32.to_be_bytes()),
                    _ => {}
                }
                bytes.extend_from_slice(b"SELECT 1\0");
                if split {
                    bytes.iter().for_each(|byte| drop(client.send_bytes(&[*byte])));
                } else {
                    let _ = client.send_bytes(&bytes);
                }
                let what = format!("{phase:?}: {length:#x}");
                loop {
                    match client.read_bytes(TIMEOUT) {
                        Ok(_) => {}
                        Err(Error::Timeout) => panic!("{what}: the connection is not closed"),
                        Err(_) => break,
                    }
                }
                tried += 1;
            }
        }
        let used = cpu(&site) - before;
        assert!(used < MAX_SECONDS, "{phase:?}: {used} s of a core");
        assert_eq!(site.connect().value("SELECT 'fine'").unwrap().as_deref(), Some("fine"), "{phase:?}");
    }
    report.figure(format!("{tried} headers in {} phases, each connection ended", PHASES.len()));
}

/// A server sends a header with a length beyond any message, in each phase of our login and after it: the server's
/// connection is closed, and the client gets an error.
#[test]
fn a_length_beyond_any_message_ends_a_servers_connection_in_every_phase() {
    let report = Report::begin();
    let mut cases = Vec::new();
    for length in LENGTHS {
        for tag in [b'R', b'S', b'K', b'Z', b'E', b'N', b'T', b'D', b'C', b'G', b'd', b'v'] {
            let bytes = [&[tag][..], &length.to_be_bytes(), b"\0\0\0\0\0\0\0\0"].concat();
            let sasl = packet(|b| put_back::auth_sasl(b, &["SCRAM-SHA-256"]));
            let places: [(&str, Vec<u8>); 4] = [
                ("first", Vec::new()),
                ("in SASL", sasl),
                ("behind AuthenticationOk", packet(put_back::auth_ok)),
                ("in an answer", welcome()),
            ];
            for (place, before) in places {
                let (name, bytes) = (format!("{}, {length:#x}, {place}", char::from(tag)), bytes.clone());
                cases.push(Case::new(name, move |wire| {
                    wire.send(&before)?;
                    if !before.is_empty() && before[0] == b'R' && before.len() > 9 {
                        wire.read()?;
                    }
                    wire.send(&bytes)?;
                    wire.wait_for_end()
                }));
            }
        }
    }
    let every = size(5, 1);
    let cases: Vec<Case> = cases.into_iter().step_by(every).collect();
    let count = run(cases, |_, transcript| match transcript.last().map(String::as_str) {
        Some("Silence") | None => Err("the client hangs".into()),
        _ if transcript.iter().any(|line| line.starts_with("Error")) => Ok(()),
        _ => Err("no error".into()),
    });
    report.figure(format!("{count} hostile servers, each connection ended"));
}

/// A client sends a header with a length beyond any message inside TLS.
#[test]
fn a_length_beyond_any_message_is_refused_within_encryption_too() {
    let certificates = Certificates::new();
    let site =
        Site::with(certificates.setup(Setup::new(Mode::Transaction).console_by_socket(), "require"), Mode::Transaction);
    for length in LENGTHS {
        let mut client = Connection::open(&site.params()).unwrap();
        // Bytes that are no TLS record end it: the length of a record is bounded too.
        let _ = client.send_bytes(&packet(put_front::ssl_request));
        assert_eq!(client.read_bytes(TIMEOUT).unwrap(), b"S");
        let _ = client.send_bytes(&[&[0x16, 3, 1][..], &length.to_be_bytes()[..2], &[0xff; 64]].concat());
        let _ = client.shutdown_write();
        loop {
            match client.read_bytes(TIMEOUT) {
                Ok(_) => {}
                Err(Error::Timeout) => panic!("{length:#x}: the connection is not closed"),
                Err(_) => break,
            }
        }
    }
}
