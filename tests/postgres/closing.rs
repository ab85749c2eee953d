//! The ways in which a connection ends, by epoll and by io_uring: each client reads the reason and then the end of the
//! stream, also one that is sending a long message meanwhile.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use weir_pgclient::{Connection, Frame};
use weir_pgwire::{HEAD, Head, put_front};
use weir_tests::{Batch, Mode, Setup, Site, WATCHER, line_of, users};

/// More than sockets hold.
const LONG: usize = 8 << 20;

/// When the client sends a long message: at once, or when it could read why it is refused.
#[derive(Clone, Copy, PartialEq)]
enum Sends {
    AtOnce,
    WhenRefused,
}
use Sends::{AtOnce, WhenRefused};

/// A way in which a connection ends.
struct Way {
    /// A setting, its value for this connection and the one after it.
    setting: Option<(&'static str, &'static str, &'static str)>,
    /// A client that is about to be refused.
    client: fn(&Site) -> TcpStream,
    sends: Sends,
    /// The beginning of the last message.
    last: &'static str,
}

const WAYS: &[Way] = &[
    Way { setting: None, client: wrong_password, sends: AtOnce, last: "Error 28P01 password authentication failed" },
    Way { setting: None, client: no_database, sends: AtOnce, last: "Error 3D000 no such database: nowhere" },
    Way { setting: None, client: unknown_message, sends: AtOnce, last: "Error 08P01 protocol violation" },
    Way { setting: None, client: killed, sends: AtOnce, last: "Error 57P01 admin forced disconnect" },
    Way { setting: None, client: terminated, sends: WhenRefused, last: "Error 57P01 terminating connection" },
    Way { setting: None, client: console, sends: AtOnce, last: "Error 08P01" },
    Way {
        setting: None,
        client: one_too_many,
        sends: AtOnce,
        last: "Error 53300 client connections exceeded (max_user_client_connections)",
    },
    Way {
        setting: Some(("client_login_timeout", "1", "60")),
        client: silent,
        sends: WhenRefused,
        last: "Error 08P01 client_login_timeout",
    },
    Way {
        setting: Some(("client_idle_timeout", "1", "0")),
        client: logged_in,
        sends: WhenRefused,
        last: "Error 57P05 client_idle_timeout",
    },
    Way {
        setting: Some(("idle_transaction_timeout", "1", "0")),
        client: in_transaction,
        sends: WhenRefused,
        last: "Error 25P03 idle transaction timeout",
    },
    Way {
        setting: Some(("query_timeout", "1", "0")),
        client: sleeping,
        sends: AtOnce,
        last: "Error 57014 query timeout",
    },
    Way {
        setting: Some(("max_packet_size", "1000000", "2147483647")),
        client: logged_in,
        sends: AtOnce,
        last: "Error 54000 message too long (max_packet_size)",
    },
];

fn opened(site: &Site) -> TcpStream {
    let stream = Connection::open(&site.params()).unwrap().into_tcp().unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

fn startup(user: &str, database: &str) -> Vec<u8> {
    let mut message = Vec::new();
    put_front::startup(&mut message, &[("user", user), ("database", database)], 0);
    message
}

/// A client that has given this password.
fn proving(site: &Site, (user, password): (&str, &str), database: &str) -> TcpStream {
    let mut stream = opened(site);
    let mut message = startup(user, database);
    put_front::password(&mut message, password.as_bytes());
    stream.write_all(&message).unwrap();
    stream
}

fn wrong_password(site: &Site) -> TcpStream {
    proving(site, (users::APP.name, "a guess"), "app")
}

fn no_database(site: &Site) -> TcpStream {
    proving(site, (users::APP.name, users::APP.password), "nowhere")
}

fn silent(site: &Site) -> TcpStream {
    let mut stream = opened(site);
    stream.write_all(&[0, 0]).unwrap();
    stream
}

fn one_too_many(site: &Site) -> TcpStream {
    proving(site, (users::OTHER.name, users::OTHER.password), "app")
}

fn logged_in(site: &Site) -> TcpStream {
    let stream = site.connect().into_tcp().unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

/// A client that has sent this, and received an answer that ends with `end`.
fn answered(site: &Site, batch: &Batch, end: &[u8]) -> TcpStream {
    let mut stream = logged_in(site);
    stream.write_all(batch.bytes()).unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(end) {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        answer.extend(byte);
    }
    stream
}

fn unknown_message(site: &Site) -> TcpStream {
    let mut stream = logged_in(site);
    stream.write_all(b"!\0\0\0\x04").unwrap();
    stream
}

fn in_transaction(site: &Site) -> TcpStream {
    answered(site, &Batch::new().query("begin"), b"Z\0\0\0\x05T")
}

fn sleeping(site: &Site) -> TcpStream {
    let mut stream = logged_in(site);
    stream.write_all(Batch::new().query("select pg_sleep(600)").bytes()).unwrap();
    stream
}

fn killed(site: &Site) -> TcpStream {
    let stream = logged_in(site);
    let port = stream.local_addr().unwrap().port().to_string();
    let clients = site.weir().show("CLIENTS");
    let row = (0..clients.rows.len()).find(|row| clients.get(*row, "port") == Some(&port)).expect("it is listed");
    site.weir().command(&format!("KILL_CLIENT {}", clients.get(row, "id").unwrap())).unwrap();
    stream
}

/// A client whose server is terminated.
fn terminated(site: &Site) -> TcpStream {
    let stream = answered(site, &Batch::new().query("begin"), b"Z\0\0\0\x05T");
    let terminate = "select pg_terminate_backend(pid) from pg_stat_activity where state = 'idle in transaction' and \
                     datname = current_database()";
    site.superuser().query(terminate).unwrap();
    stream
}

fn console(site: &Site) -> TcpStream {
    let mut stream = proving(site, WATCHER, "pgbouncer");
    stream.write_all(b"!\0\0\0\x04").unwrap();
    stream
}

/// The last message that a client receives before the end of the stream.
fn last(mut stream: TcpStream, sends: Sends) -> Result<String, String> {
    if sends == WhenRefused {
        stream.peek(&mut [0]).map_err(|error| format!("nothing came: {error}"))?;
    }
    let mut writer = stream.try_clone().unwrap();
    let sending = thread::spawn(move || writer.write_all(Batch::new().query(&"-".repeat(LONG)).bytes()));
    let mut bytes = Vec::new();
    let read = stream.read_to_end(&mut bytes);
    sending.join().unwrap().map_err(|error| format!("could not send: {error}"))?;
    read.map_err(|error| format!("{error} after {}", bytes.escape_ascii()))?;
    let (mut rest, mut last) = (&bytes[..], "nothing".to_owned());
    while let Ok(Some(head)) = Head::parse(rest) {
        let (message, more) = rest.split_at_checked(HEAD + head.body as usize).ok_or("a message is cut")?;
        last = line_of(&Frame { tag: head.tag, body: message[HEAD..].to_vec() });
        rest = more;
    }
    if rest.is_empty() { Ok(last) } else { Err(format!("a message is cut after {last}")) }
}

#[test]
fn whoever_is_refused_reads_why_and_the_end_of_the_stream() {
    for io in ["epoll", "io_uring"] {
        let limited = format!("[users.{}]\nmax_user_client_connections = 1", users::OTHER.name);
        let setup = Setup::new(Mode::Transaction).auth("plain").general(&format!("io = \"{io}\"")).more(&limited);
        let site = Site::with(setup, Mode::Transaction);
        let _first = Connection::connect(&site.params_of(users::OTHER)).unwrap();
        let mut console = site.weir().console();
        for way in WAYS {
            if let Some((name, value, _)) = way.setting {
                console.query(&format!("SET {name} = {value}")).unwrap();
            }
            let last = last((way.client)(&site), way.sends);
            if let Some((name, _, value)) = way.setting {
                console.query(&format!("SET {name} = {value}")).unwrap();
            }
            assert!(last.as_ref().is_ok_and(|last| last.starts_with(way.last)), "{io}: {}: {last:?}", way.last);
        }
        // As long as a client stays, so does the process.
        let _last = site.connect();
        site.weir().skip_final_checks();
        // A client is accepted when it has sent something.
        let (mut late, startup) = (opened(&site), startup(users::APP.name, "app"));
        late.write_all(&startup[..4]).unwrap();
        site.weir().command("SHUTDOWN WAIT_FOR_CLIENTS").unwrap();
        late.write_all(&startup[4..]).unwrap();
        let last = last(late, AtOnce);
        assert_eq!(last.as_deref(), Ok("Error 57P01 pooler is shutting down"), "{io}");
    }
}
