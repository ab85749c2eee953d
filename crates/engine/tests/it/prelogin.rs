//! Unauthenticated clients: the limits of their memory, connections and time.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use crate::common::*;
use weir_base::{ClientAddr, ConnId, Span};
use weir_config::{Config, Method, PeerRules};
use weir_engine::port::{Input, WorkResult};
use weir_pgwire::{AuthRequest, HEAD, backend, put_front};

/// The reserved memory of each client, and what one and all of them may hold beyond it.
const OWN_SHARE: usize = 2 << 10;
const MOST_OF_ALL: usize = 16 << 20;

fn tcp() -> ClientAddr {
    ClientAddr::Tcp(SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), 5000)))
}

/// Whether a client from this address is accepted.
fn accepted(world: &mut World, from: ClientAddr) -> Option<ConnId> {
    let conn = world.visitor_from(from);
    world.is_open(conn).then_some(conn)
}

/// The first bytes of a packet of 10,000 bytes, which never completes.
fn begun(length: usize) -> Vec<u8> {
    let mut bytes = 10_000_u32.to_be_bytes().to_vec();
    bytes.extend_from_slice(&[0, 3, 0, 0]);
    bytes.resize(length, b'x');
    bytes
}

#[test]
fn memory_of_unauthenticated_clients_is_bounded_for_each_and_for_all_and_is_released() {
    let mut config = config(1);
    config.max_clients = 10_000;
    let mut world = World::new(config);
    let mut holders = Vec::new();
    let refused = loop {
        let conn = world.socket();
        world.input_only(Input::Accepted { conn, from: tcp() });
        world.bytes_only(conn, &begun(9_900));
        if !world.is_open(conn) {
            break conn;
        }
        holders.push(conn);
    };
    assert!(says(&world.received(refused), "too many clients are logging in at once"));
    let held = world.engine.inspect().held_before_login();
    assert!(held <= MOST_OF_ALL && held > MOST_OF_ALL - 10_000, "{held}");
    assert!(holders.len() >= MOST_OF_ALL / 10_000, "{}", holders.len());
    // A client with an ordinary startup packet is accepted nevertheless.
    world.client();
    let small = world.visitor();
    world.bytes_only(small, &begun(OWN_SHARE));
    assert!(world.is_open(small));
    // By a timeout, and by disconnecting.
    let (left, stay) = holders.split_at(holders.len() / 2);
    left.iter().for_each(|conn| world.gone(*conn));
    assert!(world.engine.inspect().held_before_login() <= stay.len() * 8_000);
    world.pass(Span::from_secs(61));
    assert!(stay.iter().all(|conn| !world.is_open(*conn)));
    assert_eq!(world.engine.inspect().held_before_login(), 0);
}

#[test]
fn an_address_whose_clients_hold_all_of_it_makes_room_for_another_one() {
    let mut config = config(1);
    config.max_clients = 10_000;
    let mut world = World::new(config);
    let flood: Vec<ConnId> = (0..MOST_OF_ALL / 7_000).filter_map(|_| accepted(&mut world, tcp())).collect();
    flood.iter().for_each(|conn| world.bytes(*conn, &begun(9_900)));
    let open = |world: &World| flood.iter().filter(|conn| world.is_open(**conn)).count();
    let before = open(&world);
    assert!(before < flood.len(), "all of it is held");
    let other = ClientAddr::Tcp(SocketAddr::from((Ipv4Addr::new(192, 0, 2, 2), 5000)));
    let quiet = accepted(&mut world, other).expect("it is accepted");
    world.bytes(quiet, &begun(9_900));
    assert!(world.is_open(quiet) && open(&world) == before - 1, "{} of {before} are left", open(&world));
    let gave_way = flood.iter().filter(|conn| !world.is_open(**conn));
    let refused: Vec<ConnId> = gave_way.copied().collect();
    for conn in refused {
        assert!(says(&world.received(conn), "too many clients are logging in at once"));
    }
    // The flood itself has no room.
    let more = accepted(&mut world, tcp()).expect("it is accepted");
    world.bytes(more, &begun(9_900));
    assert!(!world.is_open(more) && world.is_open(quiet));
    assert!(world.engine.inspect().held_before_login() <= MOST_OF_ALL);
}

#[test]
fn an_unauthenticated_client_may_send_a_little_ahead_and_not_more() {
    let mut config = config(1);
    config.auth.method = Method::Plain;
    let mut world = World::new(config);
    let conn = world.visitor();
    let ahead = [password("secret"), query("select 1")].concat();
    world.bytes(conn, &[startup("ann", "db"), ahead].concat());
    let server = world.server();
    assert!(says(&world.received(server), "select 1"), "what was sent ahead is processed after the login");
    assert_eq!(world.engine.inspect().held_before_login(), 0);
    for database in ["db", "weir"] {
        let conn = world.arrival("ann", database);
        world.bytes(conn, &vec![b'p'; 33 << 10]);
        assert!(says(&world.received(conn), "protocol violation") && !world.is_open(conn), "{database}");
    }
    assert_eq!(world.engine.inspect().held_before_login(), 0);
}

/// A Weir with a small limit of clients, and so many unauthenticated clients that no further TCP client is accepted.
fn full_of_connections(max_clients: u32) -> (World, Vec<ConnId>) {
    let mut config = config(1);
    config.max_clients = max_clients;
    config.auth.method = Method::Plain;
    let mut world = World::new(config);
    let mut others = Vec::new();
    while let Some(conn) = accepted(&mut world, tcp()) {
        others.push(conn);
        assert!(others.len() < 1_000, "there is no limit");
    }
    (world, others)
}

#[test]
fn operators_log_in_by_the_unix_socket_however_many_others_are_connected() {
    let (mut world, others) = full_of_connections(50);
    // Local clients have a limit of their own, and may reach that too.
    let mut locals = 0;
    while accepted(&mut world, unix(1234)).is_some() {
        locals += 1;
        assert!(locals < 100, "there is no limit");
    }
    assert!(locals > 0);
    for (uid, user, secret) in [(OWN_UID, "pgbouncer", None), (0, "admin", Some("secret"))] {
        let operator = accepted(&mut world, unix(uid)).expect("there is a place for operators");
        world.bytes(operator, &startup(user, "pgbouncer"));
        if let Some(secret) = secret {
            world.bytes(operator, &password(secret));
        }
        assert!(world.received(operator).ends_with(&ready(b'I')), "{user} is at the console");
    }
    assert!(others.iter().all(|conn| world.is_open(*conn)), "no client was closed so soon");
}

#[test]
fn unauthenticated_clients_make_room_for_clients_and_for_administrators() {
    let (mut world, others) = full_of_connections(50);
    assert_eq!(accepted(&mut world, tcp()), None, "they connected just now");
    world.pass(Span::from_secs(6));
    let admin = accepted(&mut world, tcp()).expect("one makes room");
    assert!(!world.is_open(others[0]) && world.is_open(others[1]), "the oldest goes first");
    assert!(says(&world.received(others[0]), "too many clients are logging in at once"));
    world.bytes(admin, &startup("admin", "pgbouncer"));
    world.bytes(admin, &password("secret"));
    assert!(world.received(admin).ends_with(&ready(b'I')), "an administrator by TCP");
    for _ in 0..49 {
        let conn = accepted(&mut world, tcp()).expect("there is room for clients");
        world.bytes(conn, &startup("ann", "db"));
        world.bytes(conn, &password("secret"));
        if let Some(server) = world.connecting() {
            world.log_in(server);
        }
        assert!(world.received(conn).ends_with(&ready(b'I')), "a client logs in");
    }
    // Logged-in clients stay.
    world.pass(Span::from_secs(6));
    let more = accepted(&mut world, tcp()).expect("there is room for a refusal");
    world.bytes(more, &startup("ann", "db"));
    assert!(says(&world.received(more), "no more connections allowed"));
}

fn tcp_from(last: u8) -> ClientAddr {
    ClientAddr::Tcp(SocketAddr::from((Ipv4Addr::new(192, 0, 2, last), 5000)))
}

#[test]
fn a_flood_of_one_origin_makes_room_for_others_and_not_for_itself() {
    let mut config = config(1);
    config.max_clients = 50;
    config.auth.method = Method::Plain;
    let mut world = World::new(config);
    let quiet = accepted(&mut world, tcp_from(7)).expect("it is the first");
    let mut flood = Vec::new();
    while let Some(conn) = accepted(&mut world, tcp()) {
        flood.push(conn);
        assert!(flood.len() < 1_000, "there is no limit");
    }
    assert_eq!(accepted(&mut world, tcp_from(8)), None, "they may be logging in");
    world.pass(Span::from_secs(1));
    assert_eq!(accepted(&mut world, tcp()), None, "its own clients are not old enough");
    for last in 8..18 {
        assert!(accepted(&mut world, tcp_from(last)).is_some(), "another origin's is let in");
    }
    let closed: Vec<bool> = flood.iter().map(|conn| !world.is_open(*conn)).collect();
    assert!(closed[..10].iter().all(|closed| *closed) && !closed[10..].contains(&true), "the oldest of the flood");
    world.pass(Span::from_secs(5));
    // The quiet one is the oldest of all now.
    assert!(accepted(&mut world, tcp()).is_some() && world.is_open(quiet));
    assert!(!world.is_open(flood[10]), "a flood displaces itself");
    world.bytes(quiet, &startup("ann", "db"));
    world.bytes(quiet, &password("secret"));
    assert!(world.connecting().is_some(), "it logs in");
}

#[test]
fn requests_to_cancel_make_room_and_are_passed_on_nevertheless() {
    let mut config = config(1);
    config.max_clients = 50;
    config.peer_id = 1;
    config.peers.insert(2, PeerRules { host: "192.0.2.200".into(), port: 6432, pool_size: Some(1) });
    let mut world = World::new(config);
    let mut flood = Vec::new();
    while let Some(conn) = accepted(&mut world, tcp()) {
        // The key of a client of the other process, which does not answer.
        world.bytes(conn, &[0, 0, 0, 16, 4, 210, 22, 46, 0, 2, 0, 79, 1, 1, 1, 67]);
        flood.push(conn);
        assert!(flood.len() < 1_000, "there is no limit");
    }
    let first = world.connecting().expect("one request is passed on");
    assert!(world.connecting().is_none(), "the others wait");
    world.pass(Span::from_secs(1));
    for last in [8, 9] {
        assert!(accepted(&mut world, tcp_from(last)).is_some(), "another origin's client is let in");
    }
    assert!(!world.is_open(flood[0]) && !world.is_open(flood[1]) && world.is_open(flood[2]));
    world.gone(first);
    assert!(world.connecting().is_some(), "the request of the closed one is next");
}

#[test]
fn another_worker_makes_room_when_it_is_asked() {
    let mut config = config(1);
    config.max_clients = 10;
    let mut world = World::with_workers(config, 2);
    while accepted(&mut world, tcp()).is_some() {}
    world.port.messages.clear();
    world.pass(Span::from_millis(20));
    accepted(&mut world, tcp());
    assert!(!world.port.messages.is_empty(), "the other worker is asked");
}

#[test]
fn unknown_users_cost_no_hashing() {
    let mut config = config(1);
    config.auth.method = Method::ScramSha256;
    config.max_clients = 10_000;
    let mut world = World::new(config);
    let mut first = Vec::new();
    put_front::sasl_initial(&mut first, "SCRAM-SHA-256", b"n,,n=,r=abcdefghijklmnopqrstuvwx");
    let challenge = |world: &mut World, user: &str| {
        let conn = world.arrival(user, "db");
        world.received(conn);
        world.bytes(conn, &first);
        let received = world.received(conn);
        let Ok(AuthRequest::SaslContinue(text)) = backend::authentication(&received[HEAD..]) else {
            panic!("{received:?}")
        };
        let text = String::from_utf8_lossy(text).into_owned();
        text.split_once(",s=").unwrap().1.to_owned()
    };
    for number in 0..100 {
        challenge(&mut world, &format!("nobody{number}"));
        assert!(world.requested_help().is_none(), "nothing is hashed for an unknown user");
    }
    // A listed user gets the same request, equally fast.
    assert_eq!(challenge(&mut world, "ann").len(), challenge(&mut world, "bob").len());
    assert!(world.requested_help().is_some() && world.requested_help().is_none());
}

/// Clients whose passwords are checked against a verifier, which costs a hash each.
fn costly() -> Config {
    let verifier = weir_auth::ScramVerifier::from_salted(&[1; 32], vec![7; 16], 4096).to_string();
    let mut config = config(1);
    config.auth.method = Method::Plain;
    config.max_clients = 10_000;
    config.auth.users = Arc::new([("ann", verifier.as_str())].into_iter().collect());
    config
}

fn guess(world: &mut World, text: &str) -> ConnId {
    guess_from(world, tcp(), text)
}

fn guess_from(world: &mut World, from: ClientAddr, text: &str) -> ConnId {
    let conn = world.socket();
    world.input_only(Input::Accepted { conn, from });
    world.bytes_only(conn, &startup("ann", "db"));
    world.received(conn);
    world.bytes_only(conn, &password(text));
    conn
}

#[test]
fn passwords_that_wait_for_a_helper_are_bounded_and_one_more_is_refused() {
    let mut world = World::new(costly());
    let conns: Vec<ConnId> = (0..1_200).map(|number| guess(&mut world, &format!("guess {number}"))).collect();
    let waiting = conns.iter().filter(|conn| world.is_open(**conn)).count();
    assert_eq!(waiting, 16 + 1_000);
    assert!(says(&world.received(conns[1_199]), "too many clients are logging in at once"));
    let jobs: Vec<u64> = std::iter::from_fn(|| world.requested_help()).collect();
    assert_eq!(jobs.len(), 16, "helpers have few of them");
    // Clients that disconnect make room, and cost nothing any more.
    conns[16..1_016]
        .iter()
        .for_each(|conn| world.input_only(Input::Closed { conn: *conn, cause: weir_engine::port::Gone::Eof }));
    let late = guess(&mut world, "late");
    assert!(world.is_open(late) && world.is_paused(late));
    for job in jobs {
        world.input_only(Input::JobDone { job, result: WorkResult::Salted([9; 32]) });
    }
    assert!(says(&world.received(conns[0]), "password authentication failed"));
    let next: Vec<u64> = std::iter::from_fn(|| world.requested_help()).collect();
    assert_eq!(next.len(), 1, "only who is still there");
    world.input_only(Input::JobDone { job: next[0], result: WorkResult::Salted([1; 32]) });
    assert!(world.connecting().is_some(), "it is in, and its server is requested");
}

#[test]
fn a_flood_of_passwords_does_not_delay_other_origins() {
    let mut world = World::new(costly());
    let flood: Vec<ConnId> = (0..1_016).map(|number| guess(&mut world, &format!("guess {number}"))).collect();
    let other = guess_from(&mut world, tcp_from(9), "right");
    assert!(world.is_open(other) && !world.is_open(flood[1_015]) && world.is_open(flood[1_014]));
    assert!(says(&world.received(flood[1_015]), "too many clients are logging in at once"));
    let jobs: Vec<u64> = std::iter::from_fn(|| world.requested_help()).collect();
    // Two more begin: one of the flood, which was first, and the other.
    for job in &jobs[..2] {
        world.input_only(Input::JobDone { job: *job, result: WorkResult::Salted([9; 32]) });
    }
    let next: Vec<u64> = std::iter::from_fn(|| world.requested_help()).collect();
    assert_eq!(next.len(), 2);
    world.input_only(Input::JobDone { job: next[0], result: WorkResult::Salted([9; 32]) });
    assert!(world.connecting().is_none(), "a wrong guess");
    world.input_only(Input::JobDone { job: next[1], result: WorkResult::Salted([1; 32]) });
    assert!(world.connecting().is_some(), "it is in, and its server is requested");
    assert!(!says(&world.received(other), "password authentication failed"));
}

#[test]
fn a_password_that_was_right_is_hashed_once_and_wrong_ones_are_not_remembered() {
    let mut world = World::new(costly());
    for (text, salted, hashes) in
        [("wrong", [9; 32], 1), ("wrong", [9; 32], 1), ("right", [1; 32], 1), ("right", [1; 32], 0)]
    {
        guess(&mut world, text);
        let jobs: Vec<u64> = std::iter::from_fn(|| world.requested_help()).collect();
        assert_eq!(jobs.len(), hashes, "{text}");
        for job in jobs {
            world.input_only(Input::JobDone { job, result: WorkResult::Salted(salted) });
        }
    }
}
