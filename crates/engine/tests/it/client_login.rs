//! Which clients may log in, from where and how, and the errors of refused clients: an input at a time.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::common::*;
use weir_auth::{Hba, IdentMaps};
use weir_base::{ClientAddr, ConnId, Span};
use weir_config::{Config, Method};
use weir_engine::port::{Certificate, Input, Secured, Signal, WorkResult};
use weir_pgwire::{ErrorFields, put_back, put_front};

/// The pool `db`, and these rules.
fn ruled(rules: &str, maps: &str) -> Config {
    let mut config = config(2);
    config.auth.hba = Some(Arc::new(Hba::parse(rules, &|_| Err(String::new())).unwrap()));
    config.auth.ident = Arc::new(IdentMaps::parse(maps).unwrap());
    config
}

fn tcp(from: &str) -> ClientAddr {
    ClientAddr::Tcp(from.parse::<SocketAddr>().unwrap())
}

/// A client from this address with this user and database.
fn from(world: &mut World, address: ClientAddr, user: &str, database: &str) -> ConnId {
    let conn = world.visitor_from(address);
    world.bytes(conn, &startup(user, database));
    conn
}

/// The client has been refused with this text.
#[track_caller]
fn refused(world: &mut World, conn: ConnId, text: &str) {
    let received = world.received(conn);
    assert!(says(&received, text) && !world.is_open(conn), "{:?}", String::from_utf8_lossy(&received));
}

/// The client is admitted, and at most waits for its first server.
#[track_caller]
fn is_in(world: &mut World, conn: ConnId) {
    if let Some(server) = world.connecting() {
        world.log_in(server);
    }
    let received = world.received(conn);
    assert!(received.ends_with(&ready(b'I')), "{:?}", String::from_utf8_lossy(&received));
}

/// A helper looks up the name of its operating system's user.
fn named(world: &mut World, name: Option<&str>) {
    let job = world.requested_help().expect("a helper is asked");
    world.input(Input::JobDone { job, result: WorkResult::UserName(name.map(str::to_owned)) });
}

#[test]
fn the_first_rule_that_matches_decides() {
    let rules = "host db ann 10.0.0.0/8 trust\nhost db ann 0.0.0.0/0 reject\nhost all admin all md5\n";
    let mut world = World::new(ruled(rules, ""));
    let near = from(&mut world, tcp("10.1.2.3:1"), "ann", "db");
    is_in(&mut world, near);
    let far = from(&mut world, tcp("11.1.2.3:1"), "ann", "db");
    refused(&mut world, far, "login rejected");
    let other = from(&mut world, tcp("10.1.2.3:1"), "bob", "db");
    refused(&mut world, other, "no authentication method is found");
    let local = from(&mut world, unix(1), "ann", "db");
    refused(&mut world, local, "no authentication method is found");
    let asked = from(&mut world, tcp("10.1.2.3:1"), "admin", "db");
    assert!(world.is_open(asked) && world.received(asked).starts_with(b"R\0\0\0\x0c\0\0\0\x05"), "md5 is requested");
}

#[test]
fn a_peer_is_the_operating_systems_user_or_one_that_the_map_pairs_with_it() {
    let rules = "local db ann peer\nlocal db admin peer map=staff\n";
    let mut world = World::new(ruled(rules, "staff deborah admin"));
    let ann = from(&mut world, unix(5), "ann", "db");
    assert!(world.is_paused(ann), "a helper looks up its name");
    named(&mut world, Some("ann"));
    is_in(&mut world, ann);
    let other = from(&mut world, unix(5), "ann", "db");
    assert!(world.requested_help().is_none(), "the name is known");
    is_in(&mut world, other);
    let wrong = from(&mut world, unix(6), "ann", "db");
    named(&mut world, Some("bob"));
    refused(&mut world, wrong, "unix socket login rejected");
    let mapped = from(&mut world, unix(7), "admin", "db");
    named(&mut world, Some("deborah"));
    is_in(&mut world, mapped);
    let nameless = from(&mut world, unix(8), "ann", "db");
    named(&mut world, None);
    refused(&mut world, nameless, "unix socket login rejected");
}

#[test]
fn a_user_of_the_operating_system_is_looked_up_once_however_many_wait_for_it() {
    let mut world = World::new(ruled("local all all peer", ""));
    let all: Vec<ConnId> = (0..3).map(|_| from(&mut world, unix(5), "ann", "db")).collect();
    let other = from(&mut world, unix(6), "ann", "db");
    named(&mut world, Some("ann"));
    for conn in all {
        is_in(&mut world, conn);
    }
    assert!(world.is_paused(other));
    let job = world.requested_help().expect("the other one's name");
    assert!(world.requested_help().is_none());
    world.input(Input::JobDone { job, result: WorkResult::UserName(None) });
    refused(&mut world, other, "unix socket login rejected");
}

#[test]
fn a_peer_that_leaves_while_its_name_is_looked_up_is_forgotten() {
    let mut world = World::new(ruled("local all all peer", ""));
    let ann = from(&mut world, unix(5), "ann", "db");
    world.gone(ann);
    named(&mut world, Some("ann"));
    assert!(!world.is_open(ann));
}

#[test]
fn a_certificate_logs_in_the_user_that_it_names() {
    let mut world = World::new(ruled("hostssl db all all cert", ""));
    for (name, enters) in [(Some("ann"), true), (Some("bob"), false), (None, false)] {
        let conn = world.visitor_from(tcp("10.0.0.1:1"));
        let certificate = name.map(|name| Certificate { common_name: name.into() });
        let description = "TLSv1.3".into();
        let tls = Box::new(Secured { description, certificate, alpn: None, binding: None });
        world.input(Input::Secured { conn, tls });
        world.bytes(conn, &startup("ann", "db"));
        match enters {
            true => is_in(&mut world, conn),
            false => refused(&mut world, conn, "certificate authentication failed"),
        }
    }
    let plain = from(&mut world, tcp("10.0.0.1:1"), "ann", "db");
    refused(&mut world, plain, "no authentication method is found");
}

#[test]
fn unauthenticated_clients_learn_neither_which_databases_nor_which_users_there_are() {
    let mut config = config(1);
    config.auth.method = Method::Plain;
    let mut world = World::new(config);
    for (user, database) in [("ann", "nothing"), ("nobody", "db"), ("nobody", "nothing"), ("ann", "db")] {
        let conn = from(&mut world, tcp("10.0.0.1:1"), user, database);
        let asked = world.received(conn);
        assert!(asked.starts_with(b"R\0\0\0\x08\0\0\0\x03"), "{user} {database}: a password is requested");
        world.bytes(conn, &password("guess"));
        refused(&mut world, conn, "password authentication failed");
    }
    let known = from(&mut world, tcp("10.0.0.1:1"), "ann", "nothing");
    world.bytes(known, &password("secret"));
    refused(&mut world, known, "no such database: nothing");
}

#[test]
fn the_console_is_for_listed_users_and_for_the_owner_of_the_process() {
    let mut config = config(1);
    config.auth.method = Method::Plain;
    let mut world = World::new(config);
    let owner = from(&mut world, unix(OWN_UID), "pgbouncer", "pgbouncer");
    assert!(world.received(owner).ends_with(&ready(b'I')), "no password is requested");
    for (address, user) in [(unix(OWN_UID), "ann"), (tcp("127.0.0.1:1"), "pgbouncer")] {
        let conn = from(&mut world, address, user, "pgbouncer");
        world.received(conn);
        world.bytes(conn, &password("guess"));
        refused(&mut world, conn, "password authentication failed");
    }
    for (user, words) in [("ann", Some("not allowed")), ("admin", None)] {
        let conn = from(&mut world, tcp("127.0.0.1:1"), user, "weir");
        world.bytes(conn, &password("secret"));
        match words {
            Some(words) => refused(&mut world, conn, words),
            None => assert!(world.received(conn).ends_with(&ready(b'I'))),
        }
    }
}

#[test]
fn a_shutdown_that_waits_accepts_operators_and_waits_neither_for_them_nor_for_silent_clients() {
    let mut world = World::new(config(1));
    let client = world.client();
    let idle = world.visitor_from(unix(1));
    world.signal(Signal::ShutdownClients);
    let operator = from(&mut world, unix(OWN_UID), "pgbouncer", "pgbouncer");
    assert!(world.received(operator).ends_with(&ready(b'I')));
    let late = from(&mut world, unix(1), "ann", "db");
    refused(&mut world, late, "pooler is shutting down");
    assert!(!world.has_exited());
    world.gone(client);
    assert!(world.has_exited() && world.is_open(idle));
}

#[test]
fn a_failed_login_is_answered_later_each_time_and_no_other_client_waits() {
    let mut config = config(1);
    config.auth.method = Method::Plain;
    config.auth.failure_delay = Span::from_secs(1);
    let mut world = World::new(config);
    for pause in [1, 2, 4] {
        let conn = from(&mut world, tcp("10.0.0.1:1"), "ann", "db");
        world.received(conn);
        world.bytes(conn, &password("guess"));
        world.pass(Span::from_millis(pause * 1_000 - 1));
        assert!(world.is_open(conn) && world.is_paused(conn) && world.received(conn).is_empty());
        // With random jitter the delay is a little longer.
        world.pass(Span::from_millis(1 + pause * 250));
        refused(&mut world, conn, "password authentication failed");
    }
    let good = from(&mut world, tcp("10.0.0.1:1"), "ann", "db");
    world.bytes(good, &password("secret"));
    is_in(&mut world, good);
    let elsewhere = from(&mut world, tcp("10.0.0.2:1"), "ann", "db");
    world.received(elsewhere);
    world.bytes(elsewhere, &password("guess"));
    world.pass(Span::from_millis(1_250));
    refused(&mut world, elsewhere, "password authentication failed");
}

#[test]
fn a_client_that_leaves_before_its_refusal_is_sent_leaves_nothing_behind() {
    let mut config = config(1);
    config.auth.method = Method::Plain;
    config.auth.failure_delay = Span::from_secs(1);
    let mut world = World::new(config);
    let conn = from(&mut world, tcp("10.0.0.1:1"), "ann", "db");
    world.bytes(conn, &password("guess"));
    world.gone(conn);
    world.pass(Span::from_secs(5));
    assert!(!world.is_open(conn));
}

/// Load balancers in 10.9.0.0/16 send PROXY headers.
fn balanced() -> Config {
    let mut config = ruled("host db ann 192.0.2.7/32 trust", "");
    config.listen.proxy_from = vec!["10.9.0.0/16".parse().unwrap()];
    config
}

#[test]
fn behind_a_balancer_the_address_in_its_header_counts() {
    let mut world = World::new(balanced());
    let header = b"PROXY TCP4 192.0.2.7 10.9.0.1 5000 6432\r\n";
    let conn = world.visitor_from(tcp("10.9.0.1:77"));
    world.bytes(conn, &header[..20]);
    let rest = [&header[20..], &startup("ann", "db")].concat();
    world.bytes(conn, &rest);
    is_in(&mut world, conn);
    assert_eq!(
        world.engine.inspect().inside().map(|(.., from)| from.clone()).collect::<Vec<_>>(),
        [tcp("192.0.2.7:5000")]
    );
    let other = world.visitor_from(tcp("10.9.0.1:77"));
    world.bytes(other, &[b"PROXY TCP4 192.0.2.8 10.9.0.1 5000 6432\r\n", &startup("ann", "db")[..]].concat());
    refused(&mut world, other, "no authentication method is found");
    let itself = world.visitor_from(tcp("10.9.0.1:77"));
    world.bytes(itself, &[b"PROXY UNKNOWN\r\n", &startup("ann", "db")[..]].concat());
    refused(&mut world, itself, "no authentication method is found");
}

#[test]
fn the_loopback_of_a_balancer_is_not_this_machines() {
    for (balancer, header, is_let_in) in [
        ("10.9.0.1:77", "PROXY TCP4 127.0.0.1 10.9.0.1 5000 6432\r\n", false),
        ("10.9.0.1:77", "PROXY TCP6 ::ffff:127.0.0.1 ::1 5000 6432\r\n", false),
        ("127.0.0.1:77", "PROXY TCP4 127.0.0.1 127.0.0.1 5000 6432\r\n", true),
    ] {
        let mut config = ruled("host db ann 127.0.0.1/32 trust", "");
        config.listen.proxy_from = vec!["10.9.0.0/16".parse().unwrap(), "127.0.0.0/8".parse().unwrap()];
        let mut world = World::new(config);
        let conn = world.visitor_from(tcp(balancer));
        world.bytes(conn, &[header.as_bytes(), &startup("ann", "db")[..]].concat());
        if is_let_in {
            is_in(&mut world, conn);
        } else {
            refused(&mut world, conn, "no authentication method is found");
        }
    }
}

#[test]
fn a_balancer_must_name_its_client_and_no_other_peer_may() {
    let mut world = World::new(balanced());
    let mute = world.visitor_from(tcp("10.9.0.1:77"));
    world.bytes(mute, &startup("ann", "db"));
    assert!(!world.is_open(mute) && world.received(mute).is_empty(), "it is closed without an error");
    let liar = world.visitor_from(tcp("192.0.2.9:77"));
    world.bytes(liar, b"PROXY TCP4 192.0.2.7 10.9.0.1 5000 6432\r\n");
    assert!(!world.is_open(liar) && world.received(liar).is_empty(), "it is no startup packet");
    let slow = world.visitor_from(tcp("10.9.0.1:77"));
    world.pass(Span::from_secs(3600));
    refused(&mut world, slow, "client_login_timeout");
}

#[test]
fn a_client_gets_its_host_in_application_name_and_a_login_notice() {
    let mut config = config(1);
    config.application_name_add_host = true;
    config.login_notify_message = "mind the gap".into();
    let mut world = World::new(config);
    let conn = world.visitor_from(tcp("10.0.0.1:5"));
    let mut bytes = Vec::new();
    put_front::startup(&mut bytes, &[("user", "ann"), ("database", "db"), ("application_name", "psql")], 0);
    world.bytes(conn, &bytes);
    let server = world.server();
    assert!(says(&world.received(conn), "mind the gap"));
    world.bytes(conn, &query("select 1"));
    assert!(says(&world.received(server), "psql - 10.0.0.1:5"), "the server gets the name before the query");
}

#[test]
fn a_client_of_the_unix_socket_gets_its_process_and_machine_in_application_name() {
    let mut config = config(1);
    config.application_name_add_host = true;
    config.listen.port = 6432;
    let mut world = World::new(config);
    let conn = world.visitor_from(ClientAddr::Unix { pid: 17, uid: 5 });
    world.bytes(conn, &startup("ann", "db"));
    let server = world.server();
    world.bytes(conn, &query("select 1"));
    assert!(says(&world.received(server), "app - unix(17@db1):6432"));
}

#[test]
fn the_log_says_why_a_login_failed() {
    let listed = |secret: &str| {
        let mut config = config(1);
        config.auth.method = Method::Plain;
        config.auth.users = Arc::new([("ann", secret)].into_iter().collect());
        config
    };
    let reasons = |config: Config, user: &str, given: &str| {
        let mut world = World::new(config);
        world.port.logged = Some(Vec::new());
        let conn = from(&mut world, tcp("10.1.2.3:1"), user, "db");
        if world.is_open(conn) {
            world.bytes(conn, &password(given));
        }
        assert!(!world.is_open(conn));
        let lines = world.port.logged.take().unwrap();
        lines.into_iter().filter(|line| line.contains("login refused")).collect::<Vec<_>>()
    };
    let one = |found: Vec<String>, why: &str| {
        assert!(found.len() == 1 && found[0].ends_with(&format!("login refused: {why}")), "{why}: {found:#?}");
    };
    one(reasons(listed("secret"), "ann", "wrong"), "wrong password");
    one(reasons(listed("secret"), "bob", "wrong"), "no such user");
    one(reasons(listed("secret"), "ann", ""), "the client sent an empty password");
    one(reasons(listed(""), "ann", "x"), "user has an empty password");
    let rules = "host db ann 10.0.0.0/8 reject\n";
    one(reasons(ruled(rules, ""), "ann", ""), "a rule of the HBA file rejects it (line 1 of the HBA file)");
    one(reasons(ruled(rules, ""), "bob", ""), "no rule of the HBA file matches it");
}

#[test]
fn another_user_of_the_operating_system_learns_whose_the_consoles_own_user_is() {
    let mut world = World::new(config(1));
    let other = from(&mut world, unix(OWN_UID + 1), "pgbouncer", "pgbouncer");
    let received = world.received(other);
    assert!(says(&received, "for the operating-system user that runs the pooler"), "{received:?}");
    assert!(says(&received, "number 701, and the pooler as number 700") && says(&received, "sudo -u"), "{received:?}");
    assert!(!world.is_open(other));
    let own = from(&mut world, unix(OWN_UID), "pgbouncer", "pgbouncer");
    assert!(world.received(own).ends_with(&ready(b'I')));
    // A listed user that may use the console must prove its secret like others.
    let mut config = config(1);
    config.admin_users.push("pgbouncer".into());
    config.auth.users = Arc::new([("pgbouncer", "secret")].into_iter().collect());
    let mut world = World::new(config);
    let other = from(&mut world, unix(OWN_UID + 1), "pgbouncer", "pgbouncer");
    assert!(world.received(other).ends_with(&ready(b'I')), "with type trust it is logged in");
}

#[test]
fn a_servers_refusal_reaches_the_client_with_the_pool_and_the_server() {
    let mut config = config(1);
    let mut pool = (*config.pools["db"]).clone();
    (pool.user, pool.database) = (Some("app".into()), "shop".into());
    config.pools.insert("db".into(), Arc::new(pool));
    for (sqlstate, hint) in [
        ("3D000", "Correct the pool's database"),
        ("28P01", "where the pool has none, with the client's"),
        ("28000", "pg_hba"),
    ] {
        let mut world = World::new(config.clone());
        let ann = from(&mut world, tcp("10.1.2.3:1"), "ann", "db");
        let server = world.connecting().expect("a connect");
        world.input(Input::Connected { conn: server, local: String::new(), remote: None });
        let mut bytes = Vec::new();
        let fields =
            ErrorFields { severity: "FATAL", sqlstate, message: "the server's text", detail: None, hint: None };
        put_back::error(&mut bytes, &fields);
        world.bytes(server, &bytes);
        let received = world.received(ann);
        for part in [
            sqlstate,
            "Mthe server's text\0",
            "The pooler could not log in for pool \"db\": server 127.0.0.1:5432, database \"shop\", user \"app\".",
            hint,
        ] {
            assert!(says(&received, part), "{part}: {:?}", String::from_utf8_lossy(&received));
        }
    }
}
