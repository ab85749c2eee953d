//! Several servers for one pool, and servers whose names change their addresses.

use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use weir_pgclient::Connection;
use weir_pglocal::free_port;
use weir_tests::{Mode, Postgres, Setup, Weir, eventually, users};

/// A Weir whose pool has these ports of 127.0.0.1, in the databases `app` of each.
pub(crate) fn weir(ports: &[u16], setup: Setup) -> Weir {
    let database = Postgres::shared().database();
    let hosts = vec!["\"127.0.0.1\""; ports.len()].join(", ");
    let toml = setup
        .toml(&database)
        .replace(&format!("port = {}\n", database.postgres().port()), &format!("port = {ports:?}\n"))
        .replace("[pools.app]\nhost = \"127.0.0.1\"\n", &format!("[pools.app]\nhost = [{hosts}]\n"))
        .replace(&format!("database = \"{}\"", database.name()), "database = \"postgres\"");
    Weir::start(&toml, &setup.userlist())
}

pub(crate) fn connect(weir: &Weir) -> Connection {
    let params = weir.params(users::APP.name, "app").password(users::APP.password);
    Connection::connect(&params).unwrap_or_else(|error| panic!("{error}\n{}", weir.log()))
}

pub(crate) fn port_of(client: &mut Connection) -> u16 {
    client.value("SELECT inet_server_port()").unwrap().expect("a port").parse().unwrap()
}

#[test]
fn connections_are_spread_over_all_hosts() {
    let (a, b) = (Postgres::private(), Postgres::private());
    let weir = weir(&[a.port(), b.port()], Setup::new(Mode::Session).size(4));
    let mut clients: Vec<_> = (0..4).map(|_| connect(&weir)).collect();
    let ports: Vec<u16> = clients.iter_mut().map(port_of).collect();
    for port in [a.port(), b.port()] {
        assert_eq!(ports.iter().filter(|p| **p == port).count(), 2, "{ports:?}");
    }
}

#[test]
fn with_balancing_off_one_host_serves_until_it_is_gone() {
    let (a, b) = (Postgres::private(), Postgres::private());
    let setup = Setup::new(Mode::Transaction).size(2).pool("load_balance_hosts = \"disable\"");
    let weir = weir(&[a.port(), b.port()], setup);
    let mut client = connect(&weir);
    assert_eq!(port_of(&mut client), a.port());
    a.server().shutdown();
    eventually("the other serves", || match client.value("SELECT inet_server_port()") {
        Ok(Some(port)) if port == b.port().to_string() => Ok(()),
        other => {
            client = connect(&weir);
            Err(other)
        }
    });
}

#[test]
fn a_host_that_is_down_affects_no_client() {
    let b = Postgres::private();
    let down = free_port().unwrap();
    let weir = weir(&[down, b.port()], Setup::new(Mode::Transaction).size(2));
    for _ in 0..3 {
        assert_eq!(port_of(&mut connect(&weir)), b.port());
    }
}

#[test]
fn when_all_hosts_are_down_the_reason_of_each_is_reported() {
    let (a, b) = (free_port().unwrap(), free_port().unwrap());
    let weir = weir(&[a, b], Setup::new(Mode::Transaction).size(2).pool("on_server_down = \"refuse\""));
    let params = weir.params(users::APP.name, "app").password(users::APP.password);
    let error = Connection::connect(&params).map(drop).unwrap_err().to_string();
    assert!(error.contains(&format!("127.0.0.1:{a}: ")) && error.contains(&format!("127.0.0.1:{b}: ")), "{error}");
}

#[test]
fn writes_go_where_writes_are_taken() {
    let (a, b) = (Postgres::private(), Postgres::private());
    a.superuser("postgres").query("ALTER SYSTEM SET default_transaction_read_only = on").unwrap();
    a.superuser("postgres").query("SELECT pg_reload_conf()").unwrap();
    eventually("it is read-only", || match a.superuser("postgres").value("SHOW default_transaction_read_only") {
        Ok(Some(on)) if on == "on" => Ok(()),
        other => Err(other),
    });
    for (attrs, expected) in [("read-write", b.port()), ("read-only", a.port()), ("primary", a.port())] {
        let setup = Setup::new(Mode::Transaction).size(2).pool(&format!("target_session_attrs = \"{attrs}\""));
        let weir = weir(&[a.port(), b.port()], setup);
        for _ in 0..2 {
            assert_eq!(port_of(&mut connect(&weir)), expected, "{attrs}");
        }
    }
}

#[test]
fn a_standby_is_not_used_for_writes_until_it_is_promoted() {
    let (primary, standby) = (Postgres::private(), Postgres::private());
    standby.demote();
    let ports = [standby.port(), primary.port()];
    let start = |attrs: &str| {
        let down = if attrs == "standby" { "refuse" } else { "wait" };
        let more =
            format!("target_session_attrs = \"{attrs}\"\non_server_down = \"{down}\"\nserver_login_retry = \"100ms\"");
        weir(&ports, Setup::new(Mode::Transaction).size(2).pool(&more))
    };
    for (attrs, expected) in [("read-only", standby.port()), ("prefer-standby", standby.port())] {
        assert_eq!(port_of(&mut connect(&start(attrs))), expected, "{attrs}");
    }
    let (reads, writes) = (start("standby"), start("read-write"));
    let (mut reader, mut writer) = (connect(&reads), connect(&writes));
    assert_eq!((port_of(&mut reader), port_of(&mut writer)), (standby.port(), primary.port()));
    primary.server().shutdown();
    standby.superuser("postgres").query("SELECT pg_promote()").unwrap();
    eventually("writes go to the new primary", || match writer.value("SELECT inet_server_port()") {
        Ok(Some(port)) if port == standby.port().to_string() => Ok(()),
        other => {
            let params = writes.params(users::APP.name, "app").password(users::APP.password);
            writer = Connection::connect(&params).map_err(|error| format!("{error}"))?;
            Err(format!("{other:?}"))
        }
    });
    eventually("there is no standby any more", || match reader.value("SELECT 1") {
        Err(error) if error.to_string().contains("server is not in hot standby mode") => Ok(()),
        other => {
            let params = reads.params(users::APP.name, "app").password(users::APP.password);
            match Connection::connect(&params) {
                Ok(connection) => reader = connection,
                Err(error) if error.to_string().contains("server is not in hot standby mode") => return Ok(()),
                Err(error) => return Err(format!("{error}")),
            }
            Err(format!("{other:?}"))
        }
    });
}

/// A DNS server with one name, whose address may change; its answers have a TTL of a second. While it is silent, names
/// that begin with `silent` get no answer.
struct NameServer {
    /// Questions that had no answer.
    unanswered: Arc<AtomicUsize>,
    silent: Arc<AtomicBool>,
    address: Arc<Mutex<Option<Ipv4Addr>>>,
    port: u16,
}

impl NameServer {
    fn start() -> NameServer {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let address = Arc::new(Mutex::new(Some(Ipv4Addr::LOCALHOST)));
        let current = address.clone();
        let (unanswered, silent) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(true)));
        let (count, is_silent) = (unanswered.clone(), silent.clone());
        thread::spawn(move || {
            let mut buffer = [0; 512];
            while let Ok((length, from)) = socket.recv_from(&mut buffer) {
                let question = &buffer[..length];
                if question[13..].starts_with(b"silent") && is_silent.load(Ordering::Relaxed) {
                    count.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                let mut answer = question.to_vec();
                answer[2] |= 0x80;
                let wants_v4 = question[length - 3] == 1;
                match *current.lock().unwrap() {
                    Some(address) if wants_v4 => {
                        answer[7] = 1;
                        answer.extend_from_slice(b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x01\x00\x04");
                        answer.extend_from_slice(&address.octets());
                    }
                    Some(_) => {}
                    // SERVFAIL.
                    None => answer[3] |= 2,
                }
                let _ = socket.send_to(&answer, from);
            }
        });
        NameServer { unanswered, silent, address, port }
    }

    fn set(&self, address: Option<Ipv4Addr>) {
        *self.address.lock().unwrap() = address;
    }
}

#[test]
fn names_that_hang_do_not_hold_up_the_look_up_of_another() {
    const SILENT: usize = 8;
    let names = NameServer::start();
    let file = std::env::temp_dir().join(format!("weir-silent-{}-{}", std::process::id(), names.port));
    // A look-up of a silent name takes 15 seconds.
    fs::write(&file, format!("nameserver [127.0.0.1]:{}\noptions timeout:3 attempts:5\n", names.port)).unwrap();
    let setup = Setup::new(Mode::Transaction).limit("query_wait_timeout = 10");
    let mut more = format!("[dns]\nresolv_conf = \"{}\"\n", file.display());
    for number in 0..SILENT {
        let _ = writeln!(more, "[pools.silent{number}]\nhost = \"silent{number}.weir.example\"");
    }
    let database = Postgres::shared().database();
    let toml = setup
        .clone()
        .more(&more)
        .toml(&database)
        .replace("[pools.app]\nhost = \"127.0.0.1\"\n", "[pools.app]\nhost = \"db.weir.example\"\n");
    let weir = Weir::start(&toml, &setup.userlist());
    thread::scope(|scope| {
        let waiting: Vec<_> = (0..SILENT)
            .map(|number| {
                let pool = format!("silent{number}");
                let params = weir.params(users::APP.name, &pool).password(users::APP.password);
                scope.spawn(move || Connection::connect(&params).map(drop))
            })
            .collect();
        eventually("look-ups hang", || match names.unanswered.load(Ordering::Relaxed) {
            0..=3 => Err("fewer than two names are asked for"),
            _ => Ok(()),
        });
        assert_eq!(port_of(&mut connect(&weir)), database.postgres().port());
        waiting.into_iter().for_each(|client| assert!(client.join().unwrap().is_err()));
    });
    names.silent.store(false, Ordering::Relaxed);
    eventually("all look-ups end", || {
        let found = weir.show("DNS_HOSTS");
        if found.rows.len() > SILENT { Ok(()) } else { Err(found) }
    });
    let _ = fs::remove_file(file);
}

#[test]
fn a_name_that_moves_replaces_its_servers() {
    a_name_moves(Setup::new(Mode::Transaction).size(2));
}

#[test]
fn a_name_that_moves_replaces_servers_that_are_lent_to_another_worker() {
    a_name_moves(Setup::new(Mode::Transaction).size(2).workers(2).spread("always"));
}

fn a_name_moves(setup: Setup) {
    let postgres = Postgres::with(60, &[("listen_addresses", "127.0.0.1,127.0.0.2")]);
    let names = NameServer::start();
    let file = std::env::temp_dir().join(format!("weir-names-{}-{}", std::process::id(), names.port));
    fs::write(&file, format!("nameserver [127.0.0.1]:{}\noptions timeout:1 attempts:1\n", names.port)).unwrap();
    let setup = setup.more(&format!("[dns]\nresolv_conf = \"{}\"\n", file.display()));
    let database = postgres.database();
    let toml = setup
        .toml(&database)
        .replace("[pools.app]\nhost = \"127.0.0.1\"\n", "[pools.app]\nhost = \"db.weir.example\"\n");
    let weir = Weir::start(&toml, &setup.userlist());
    let mut client = connect(&weir);
    let mut holder = connect(&weir);
    let place = |client: &mut Connection| client.value("SELECT host(inet_server_addr())").unwrap().unwrap();
    holder.query("BEGIN").unwrap();
    assert_eq!((place(&mut client), place(&mut holder)), ("127.0.0.1".into(), "127.0.0.1".into()));
    let table = weir.show("DNS_HOSTS");
    assert_eq!((table.get(0, "hostname"), table.get(0, "addrs")), (Some("db.weir.example"), Some("127.0.0.1")));
    // A DNS failure affects no client.
    names.set(None);
    assert_eq!(place(&mut client), "127.0.0.1");
    names.set(Some(Ipv4Addr::new(127, 0, 0, 2)));
    eventually("new transactions go to the new address", || match place(&mut client) {
        new if new == "127.0.0.2" => Ok(()),
        old => Err(old),
    });
    assert_eq!(place(&mut holder), "127.0.0.1", "a transaction stays where it is");
    holder.query("COMMIT").unwrap();
    assert_eq!(place(&mut holder), "127.0.0.2");
    let _ = fs::remove_file(file);
}
