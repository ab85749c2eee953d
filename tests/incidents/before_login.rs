//! A client that has not logged in gets nothing, whatever it sends.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use weir_pgclient::{Connection, Error};
use weir_pgwire::{AuthRequest, backend, put_front, tag};
use weir_tests::{ADMIN, Mode, Setup, Site, users};

use crate::report::{Report, size};

const TIMEOUT: Duration = Duration::from_secs(30);

/// The phase of the login in which a client sends an unexpected message.
#[derive(Clone, Copy, Debug)]
enum State {
    /// No message was sent.
    Silent,
    /// A request for encryption was declined.
    Declined,
    /// The method was requested: cleartext, md5, SASL.
    Asked(&'static str),
    /// SASL's first message was answered.
    Challenged,
}

const STATES: [State; 6] = [
    State::Silent,
    State::Declined,
    State::Asked("plain"),
    State::Asked("md5"),
    State::Asked("scram-sha-256"),
    State::Challenged,
];

fn startup(user: &str, database: &str) -> Vec<u8> {
    let mut packet = Vec::new();
    put_front::startup(&mut packet, &[("user", user), ("database", database)], 0);
    packet
}

/// A packet without a tag.
fn packet(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut packet = Vec::new();
    write(&mut packet);
    packet
}

/// Brings a client into a state.
fn reach(site: &Site, state: State, database: &str) -> Connection {
    let mut client = Connection::open(&site.params()).unwrap();
    match state {
        State::Silent => {}
        State::Declined => {
            client.send_bytes(&packet(put_front::ssl_request)).unwrap();
            assert_eq!(client.read_bytes(TIMEOUT).unwrap(), b"N");
        }
        State::Asked(_) | State::Challenged => {
            client.send_bytes(&startup(users::APP.name, database)).unwrap();
            let frame = client.read_frame(TIMEOUT).unwrap();
            assert_eq!(frame.tag, tag::back::AUTHENTICATION);
            if let State::Challenged = state {
                let first = packet(|buffer| {
                    put_front::sasl_initial(buffer, "SCRAM-SHA-256", b"n,,n=,r=abcdefghijklmnopqrstuvwx");
                });
                client.send_bytes(&first).unwrap();
                let frame = client.read_frame(TIMEOUT).unwrap();
                assert!(matches!(backend::authentication(&frame.body), Ok(AuthRequest::SaslContinue(_))));
            }
        }
    }
    client
}

/// All kinds of messages: each possible tag, with no body, a body of zeros and a valid one; and the packets without a
/// tag.
fn messages(database: &str) -> Vec<(String, Vec<u8>)> {
    let mut all: Vec<(String, Vec<u8>)> = Vec::new();
    let tags: Vec<u8> = if size(false, true) { (0..=255).collect() } else { (b'!'..=b'~').collect() };
    for tag in tags {
        for body in [&b""[..], &[0], &[0; 8], b"SELECT 1\0", b"SCRAM-SHA-256\0\0\0\0\0"] {
            let length = (body.len() as u32 + 4).to_be_bytes();
            let name = format!("{:?} with {} bytes", char::from(tag), body.len());
            all.push((name, [&[tag][..], &length, body].concat()));
        }
    }
    for (name, user) in [("the same user", users::APP.name), ("another", users::OTHER.name), ("the admin", ADMIN.0)] {
        for database in [database, "weir", "pgbouncer", ""] {
            all.push((format!("a startup packet of {name} for {database:?}"), startup(user, database)));
        }
    }
    for version in [[0, 2, 0, 0], [0, 3, 0, 2], [0, 3, 255, 255], [0, 4, 0, 0]] {
        let mut old = startup(users::APP.name, database);
        old[4..8].copy_from_slice(&version);
        all.push((format!("a startup packet of version {version:?}"), old));
    }
    all.push(("SSLRequest".into(), packet(put_front::ssl_request)));
    all.push(("GSSENCRequest".into(), packet(put_front::gss_request)));
    all.push(("CancelRequest".into(), packet(|buffer| put_front::cancel_request(buffer, 1, &[1, 2, 3, 4]))));
    all.push(("a handshake".into(), vec![0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0]));
    all.push(("a PROXY header".into(), b"PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n".to_vec()));
    all
}

/// Sends one message in a state, and then a query, which must get no answer but a close.
fn send(site: &Site, state: State, database: &str, name: &str, message: &[u8]) {
    let mut client = reach(site, state, database);
    let ask = packet(|buffer| put_front::query(buffer, "SELECT current_user"));
    let _ = client.send_bytes(message).and_then(|()| client.send_bytes(&ask));
    let _ = client.shutdown_write();
    let mut bytes = Vec::new();
    loop {
        match client.read_bytes(TIMEOUT) {
            Ok(more) => bytes.extend_from_slice(&more),
            Err(Error::Timeout) => panic!("{state:?}: {name}: neither answered nor closed"),
            Err(_) => break,
        }
    }
    // Messages from the first complete one on; a declined request gets N.
    let mut rest = bytes.as_slice();
    while let [b'N', more @ ..] = rest {
        rest = more;
    }
    while let Ok(Some(head)) = weir_pgwire::Head::parse(rest) {
        let Some(body) = rest.get(weir_pgwire::HEAD..head.total()) else { break };
        let welcome =
            head.tag == tag::back::AUTHENTICATION && matches!(backend::authentication(body), Ok(AuthRequest::Ok));
        let more = [tag::back::READY, tag::back::DATA_ROW, tag::back::BACKEND_KEY_DATA].contains(&head.tag);
        assert!(!welcome && !more, "{state:?}: {name}: {}", bytes.escape_ascii());
        rest = &rest[head.total()..];
    }
}

/// In every state of a login, a client sends every kind of message: each tag with several bodies, startup packets for
/// itself, for other users and for the administrator, requests for encryption and for cancels, PROXY headers. No client
/// gets AuthenticationOk, a key, a row or ReadyForQuery, or a connection that hangs. A pooler that accepts a second
/// startup packet instead of a password logs its sender in as another user.
#[test]
fn no_message_out_of_order_logs_a_client_in() {
    let report = Report::begin();
    let sent = AtomicUsize::new(0);
    thread::scope(|scope| {
        for (number, state) in STATES.into_iter().enumerate() {
            let sent = &sent;
            scope.spawn(move || {
                let auth = if let State::Asked(auth) = state { auth } else { "scram-sha-256" };
                let site = Site::with(
                    Setup::new(Mode::Transaction).auth(auth).auth_line("failure_delay = 0"),
                    Mode::Transaction,
                );
                // Half of the states for a pool, half for the console, whose users have more rights.
                let database = if number % 2 == 0 || size(false, true) { "app" } else { "weir" };
                let databases = if size(false, true) { vec!["app", "weir"] } else { vec![database] };
                for database in databases {
                    for (name, message) in messages(database) {
                        // The login's own first packet is expected.
                        let begins = matches!(state, State::Silent | State::Declined) && message.first() == Some(&0);
                        if begins && message.get(4..6) == Some(&[0, 3]) {
                            continue;
                        }
                        send(&site, state, database, &name, &message);
                        sent.fetch_add(1, Ordering::Relaxed);
                    }
                }
                // The pooler itself still works.
                assert_eq!(site.connect().value("SELECT current_user::text").unwrap().as_deref(), Some("app"));
            });
        }
    });
    report.figure(format!("{} messages in {} states, no client logged in", sent.into_inner(), STATES.len()));
}
