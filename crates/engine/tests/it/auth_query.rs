//! Secrets from an auth_query, an input at a time.

use std::sync::Arc;

use crate::common::*;
use weir_base::{ClientAddr, ConnId, Span};
use weir_config::{Config, Method};
use weir_engine::port::{Input, WorkResult};
use weir_pgwire::{ErrorFields, ResultColumn, ResultColumnType, put_back, put_front};

/// All users but `asker` need an auth_query, with type plain; the pool `db` has `size` servers for each user.
fn asking(size: u32) -> Config {
    let mut config = config(size);
    config.auth.method = Method::Plain;
    config.auth.query_user = Some("asker".into());
    config.auth.query_cache = Span::from_secs(5);
    config.auth.users = Arc::new([("asker", "secret"), ("admin", "secret")].into_iter().collect());
    config
}

/// The server's answer about a user.
fn about(user: &str, secret: Option<&str>) -> Vec<u8> {
    let mut bytes = head();
    put_back::data_row(&mut bytes, &[Some(user.as_bytes()), secret.map(str::as_bytes)]);
    bytes.extend(done("SELECT 1", b'I'));
    bytes
}

fn no_user() -> Vec<u8> {
    let mut bytes = head();
    bytes.extend(done("SELECT 0", b'I'));
    bytes
}

fn head() -> Vec<u8> {
    let mut bytes = Vec::new();
    put_back::parse_complete(&mut bytes);
    put_back::bind_complete(&mut bytes);
    let column = |name| ResultColumn { name, kind: ResultColumnType::Text };
    put_back::row_description(&mut bytes, &[column("rolname"), column("rolpassword")]);
    bytes
}

/// A server receives the auth_query for this user.
fn asked(world: &mut World, server: ConnId, user: &str) {
    let received = world.received(server);
    assert!(
        says(&received, "pg_catalog.pg_authid") && says(&received, user),
        "{:?}",
        String::from_utf8_lossy(&received)
    );
}

#[test]
fn an_unlisted_user_is_looked_up_and_logs_in() {
    let mut world = World::new(asking(2));
    let ann = world.arrival("ann", "db");
    assert!(world.is_paused(ann), "it waits for the answer");
    let asker = world.server();
    asked(&mut world, asker, "ann");
    world.bytes(asker, &about("ann", Some("hush")));
    assert_eq!(world.received(ann), [b'R', 0, 0, 0, 8, 0, 0, 0, 3], "its password is requested");
    world.bytes(ann, &password("hush"));
    let own = world.server();
    assert!(own != asker, "its pool is another one");
    assert!(world.received(ann).ends_with(&ready(b'I')));
}

#[test]
fn clients_of_one_user_wait_for_one_query_and_the_answer_is_kept() {
    let mut world = World::new(asking(2));
    let first = world.arrival("ann", "db");
    let second = world.arrival("ann", "db");
    let asker = world.server();
    asked(&mut world, asker, "ann");
    world.bytes(asker, &about("ann", Some("hush")));
    assert!(!world.received(first).is_empty() && !world.received(second).is_empty());
    let third = world.arrival("ann", "db");
    assert!(!world.received(third).is_empty(), "the answer is known");
    assert!(world.received(asker).is_empty());
    world.pass(Span::from_secs(6));
    world.arrival("ann", "db");
    asked(&mut world, asker, "ann");
}

#[test]
fn a_wrong_password_makes_the_next_client_ask_again() {
    let mut world = World::new(asking(2));
    let ann = world.arrival("ann", "db");
    let asker = world.server();
    world.bytes(asker, &about("ann", Some("hush")));
    world.received(asker);
    world.bytes(ann, &password("new"));
    assert!(says(&world.received(ann), "password authentication failed"));
    world.arrival("ann", "db");
    asked(&mut world, asker, "ann");
}

#[test]
fn an_answer_about_a_user_is_kept_and_forgotten_alike_whether_the_user_exists() {
    for answer in [about("ann", Some("hush")), no_user()] {
        let mut config = asking(2);
        config.auth.query_cache = Span::from_secs(5);
        let mut world = World::new(config);
        let ann = world.arrival("ann", "db");
        let asker = world.server();
        world.bytes(asker, &answer);
        world.received(asker);
        world.pass(Span::from_millis(4_900));
        let other = world.arrival("ann", "db");
        assert!(!world.received(other).is_empty() && world.received(asker).is_empty(), "the answer is kept");
        world.bytes(ann, &password("wrong"));
        if let Some(job) = world.requested_help() {
            world.input(Input::JobDone { job, result: WorkResult::Salted([9; 32]) });
        }
        assert!(says(&world.received(ann), "password authentication failed"));
        world.arrival("ann", "db");
        asked(&mut world, asker, "ann");
    }
}

#[test]
fn made_up_names_displace_no_answers_about_real_ones() {
    let mut config = asking(2);
    config.auth.query_cache = Span::from_secs(600);
    config.max_clients = 100_000;
    let mut world = World::new(config);
    world.arrival("ann", "db");
    let asker = world.server();
    for number in 0..5_000 {
        world.bytes_only(asker, &if number == 0 { about("ann", Some("hush")) } else { no_user() });
        world.received(asker);
        let conn = world.socket();
        world.input_only(Input::Accepted { conn, from: ClientAddr::Unix { pid: 1, uid: 5 } });
        let mut startup = Vec::new();
        put_front::startup(&mut startup, &[("user", format!("nobody{number}").as_str()), ("database", "db")], 0);
        world.bytes_only(conn, &startup);
        while world.deliver_message() {}
    }
    world.bytes_only(asker, &no_user());
    while world.deliver_message() {}
    world.received(asker);
    let ann = world.arrival("ann", "db");
    assert!(
        !world.received(ann).is_empty() && world.received(asker).is_empty(),
        "the answer about her is still cached"
    );
}

#[test]
fn an_unknown_user_gets_the_same_challenge_as_a_known_one() {
    let verifier = weir_auth::ScramVerifier::from_salted(&[1; 32], vec![7; 16], 20_000).to_string();
    for method in [Method::Md5, Method::ScramSha256] {
        let mut config = asking(2);
        config.auth.method = method;
        let mut world = World::new(config);
        world.arrival("ann", "db");
        let asker = world.server();
        world.bytes(asker, &about("ann", Some(&verifier)));
        let mut challenge = |user: &str, database: &str| {
            let conn = world.arrival(user, database);
            if database == "db" && user != "ann" {
                world.bytes(asker, &no_user());
            }
            let asked = world.received(conn);
            assert_eq!(asked.get(8), Some(&10), "{method}: {user} gets a request for SASL: {asked:?}");
            let mut first = Vec::new();
            put_front::sasl_initial(&mut first, "SCRAM-SHA-256", b"n,,n=,r=abc");
            world.bytes(conn, &first);
            says(&world.received(conn), ",i=20000")
        };
        // A known user, an unknown one, and one of a database that does not exist.
        for (user, database) in [("ann", "db"), ("eve", "db"), ("eve", "none")] {
            assert!(challenge(user, database), "{method}: {user} of {database}");
        }
    }
}

#[test]
fn an_unknown_user_a_null_secret_and_an_empty_one_fail_alike() {
    for answer in [no_user(), about("eve", None), about("eve", Some("")), about("ann", Some("hush"))] {
        let mut world = World::new(asking(2));
        let eve = world.arrival("eve", "db");
        let asker = world.server();
        world.bytes(asker, &answer);
        assert_eq!(world.received(eve), [b'R', 0, 0, 0, 8, 0, 0, 0, 3], "it gets the same request as any user");
        world.bytes(eve, &password("hush"));
        assert!(world.port.asked.iter().all(|asked| !matches!(asked, Call::Connect(_))));
        if world.is_open(eve) {
            // The comparison takes time in this test.
            continue;
        }
        assert!(says(&world.received(eve), "password authentication failed"));
    }
}

#[test]
fn an_error_of_the_query_refuses_and_the_next_client_asks_again() {
    let mut world = World::new(asking(2));
    let ann = world.arrival("ann", "db");
    let asker = world.server();
    let mut bytes = Vec::new();
    let fields = ErrorFields {
        severity: "ERROR",
        sqlstate: "42501",
        message: "permission denied for table pg_authid",
        detail: None,
        hint: None,
    };
    put_back::error(&mut bytes, &fields);
    put_back::ready(&mut bytes, b'I');
    world.bytes(asker, &bytes);
    let received = world.received(ann);
    assert!(says(&received, "bouncer config error") && !says(&received, "permission"), "the text is only for the log");
    world.received(asker);
    world.arrival("ann", "db");
    asked(&mut world, asker, "ann");
}

#[test]
fn a_server_lost_in_the_middle_of_a_query_is_replaced() {
    let mut world = World::new(asking(2));
    let ann = world.arrival("ann", "db");
    let asker = world.server();
    world.gone(asker);
    let other = world.server();
    asked(&mut world, other, "ann");
    world.bytes(other, &about("ann", Some("hush")));
    assert!(!world.received(ann).is_empty());
    let bob = world.arrival("bob", "db");
    for attempt in 0..3 {
        let server = if attempt == 0 { other } else { world.server() };
        world.gone(server);
    }
    assert!(says(&world.received(bob), "server conn crashed?"), "not for ever");
}

#[test]
fn a_query_waits_for_a_server_that_cant_be_reached() {
    let mut world = World::new(asking(2));
    let ann = world.arrival("ann", "db");
    let server = world.connecting().expect("a connect");
    world.refuse_connect(server, "no route");
    assert!(world.received(ann).is_empty());
    world.pass(Span::from_millis(50));
    let server = world.server();
    asked(&mut world, server, "ann");
}

#[test]
fn a_query_waits_in_the_pools_order_and_not_longer_than_query_wait_timeout() {
    let mut config = asking(1);
    config.auth.users = Arc::new([("asker", "secret")].into_iter().collect());
    config.limits.query_wait_timeout = Span::from_secs(3);
    add_pool(&mut config, "db", 1);
    let mut world = World::new(config);
    let asker = world.arrival("asker", "db");
    world.bytes(asker, &password("secret"));
    let server = world.server();
    world.bytes(asker, &query("SELECT 1"));
    let ann = world.arrival("ann", "db");
    assert!(world.connecting().is_none(), "the pool is full");
    world.received(server);
    world.bytes(server, &done("SELECT 1", b'I'));
    asked(&mut world, server, "ann");
    world.bytes(server, &about("ann", Some("hush")));
    assert!(!world.received(ann).is_empty());
    world.bytes(asker, &query("SELECT 1"));
    let bob = world.arrival("bob", "db");
    world.pass(Span::from_secs(4));
    assert!(says(&world.received(bob), "query_wait_timeout"));
}

#[test]
fn a_server_that_does_not_answer_is_closed_and_its_client_does_not_wait_for_ever() {
    let mut world = World::new(asking(2));
    let ann = world.arrival("ann", "db");
    for _ in 0..3 {
        world.server();
        world.pass(Span::from_secs(20));
    }
    assert!(!world.is_open(ann));
}

#[test]
fn the_log_says_why_a_user_that_a_server_was_asked_about_does_not_get_in() {
    for (hides, answer, why) in [
        (true, no_user(), "login refused: no such user: it is not listed, and the server"),
        (false, no_user(), "login refused: no such user: it is not listed, and the server"),
        (true, about("ann", None), "login refused: no password is known: the server that auth_query asks has none"),
        (true, about("ann", Some("other")), "login refused: wrong password"),
    ] {
        let mut config = asking(1);
        config.auth.hide_unknown_users = hides;
        let mut world = World::new(config);
        world.port.logged = Some(Vec::new());
        let ann = world.arrival("ann", "db");
        let server = world.server();
        world.bytes(server, &answer);
        if world.is_open(ann) {
            world.bytes(ann, &password("hush"));
        }
        if let Some(job) = world.requested_help() {
            world.input(Input::JobDone { job, result: WorkResult::Salted([9; 32]) });
        }
        let lines = world.port.logged.take().unwrap();
        assert!(lines.iter().any(|line| line.contains(why)), "{why}: {lines:#?}");
        assert!(!world.is_open(ann) && !lines.iter().any(|line| line.contains("hush")), "{lines:#?}");
    }
}

#[test]
fn a_client_that_leaves_withdraws_its_query() {
    let mut config = asking(1);
    config.auth.users = Arc::new([("asker", "secret")].into_iter().collect());
    let mut world = World::new(config);
    let asker = world.arrival("asker", "db");
    world.bytes(asker, &password("secret"));
    let server = world.server();
    world.bytes(asker, &query("SELECT 1"));
    let ann = world.arrival("ann", "db");
    world.reset(ann);
    world.received(server);
    world.bytes(server, &done("SELECT 1", b'I'));
    assert!(world.received(server).is_empty(), "the query was withdrawn");
}

#[test]
fn a_database_that_is_not_configured_is_logged_and_refused() {
    let mut config = asking(1);
    config.auth.query_database = Some("elsewhere".into());
    let mut world = World::new(config);
    let ann = world.arrival("ann", "db");
    assert!(says(&world.received(ann), "bouncer config error"));
    assert!(world.connecting().is_none());
}

#[test]
fn operators_may_be_looked_up_where_a_database_for_it_is_named() {
    let mut config = asking(1);
    config.admin_users = vec!["ann".into()];
    let mut world = World::new(config.clone());
    let ann = world.arrival("ann", "pgbouncer");
    let received = world.received(ann);
    assert!(
        says(&received, "no such user of the console") && says(&received, "User \"ann\" is not listed"),
        "{received:?}"
    );
    let ini = Config { format: weir_config::FileFormat::Ini, ..config.clone() };
    let mut world = World::new(ini);
    let ann = world.arrival("ann", "pgbouncer");
    assert!(says(&world.received(ann), "bouncer config error"), "PgBouncer's text");
    config.auth.query_database = Some("db".into());
    let mut world = World::new(config);
    let ann = world.arrival("ann", "pgbouncer");
    let server = world.server();
    world.bytes(server, &about("ann", Some("hush")));
    world.bytes(ann, &password("hush"));
    assert!(world.received(ann).ends_with(&ready(b'I')));
}

#[test]
fn a_query_runs_as_its_own_user_where_the_database_forces_another() {
    let mut config = asking(1);
    let mut pool = (*config.pools["db"]).clone();
    pool.user = Some("app".into());
    pool.password = Some("of the app".into());
    pool.policy.require_auth = weir_auth::RequireAuth::Any;
    config.pools.insert("db".into(), Arc::new(pool));
    let mut world = World::new(config.clone());
    world.arrival("ann", "db");
    let server = world.connecting().expect("a connect");
    world.input(weir_engine::port::Input::Connected { conn: server, local: String::new(), remote: None });
    assert!(says(&world.received(server), "user\0asker\0"));
    let mut cleartext = Vec::new();
    put_back::auth_cleartext(&mut cleartext);
    world.bytes(server, &cleartext);
    assert_eq!(world.received(server), password("secret"), "its own password, not that of the database's user");
    let mut bytes = Vec::new();
    put_back::auth_ok(&mut bytes);
    put_back::ready(&mut bytes, b'I');
    world.bytes(server, &bytes);
    asked(&mut world, server, "ann");
    // A reload keeps the pool that runs the query.
    world.signal(weir_engine::port::Signal::Reload);
    world.config_read(config);
    assert!(world.is_open(server));
}

/// A client of this user from this address waits for an auth_query.
fn stranger(world: &mut World, address: [u8; 4], user: &str) -> ConnId {
    let conn = world.visitor_from(ClientAddr::Tcp((std::net::Ipv4Addr::from(address), 5000).into()));
    let mut startup = Vec::new();
    put_front::startup(&mut startup, &[("user", user), ("database", "db")], 0);
    world.bytes(conn, &startup);
    conn
}

#[test]
fn a_flood_of_unknown_users_from_one_address_delays_others_by_one_query_and_closes_its_own() {
    let mut config = asking(1);
    config.max_clients = 5_000;
    let mut world = World::new(config);
    let flood: Vec<ConnId> = (0..1100).map(|n| stranger(&mut world, [192, 0, 2, 1], &format!("invented{n}"))).collect();
    let refused = |world: &mut World| flood.iter().filter(|conn| !world.is_open(**conn)).count();
    let before = refused(&mut world);
    assert!((60..=100).contains(&before), "{before} are refused");
    let ann = stranger(&mut world, [192, 0, 2, 2], "ann");
    assert!(world.is_open(ann) && refused(&mut world) == before + 1, "the flood makes room");
    let asker = world.server();
    let mut queries = 0;
    loop {
        let received = world.received(asker);
        queries += 1;
        if says(&received, "ann") {
            break;
        }
        world.bytes(asker, &no_user());
        assert!(queries < 40, "others of its address are asked about first");
    }
    world.bytes(asker, &about("ann", Some("hush")));
    assert!(!world.received(ann).is_empty(), "its password is requested");
    // Whoever leaves makes room for the next one's query.
    for conn in flood {
        if world.is_open(conn) {
            world.gone(conn);
        }
    }
    stranger(&mut world, [192, 0, 2, 3], "bob");
    // The one that was sent already has to be answered.
    assert!(!says(&world.received(asker), "bob"));
    world.bytes(asker, &no_user());
    assert!(says(&world.received(asker), "bob"));
}

/// Connects fail for this long.
fn unreachable_for(world: &mut World, span: Span) {
    let end = world.now + span;
    while world.now < end {
        while let Some(server) = world.connecting() {
            world.fail(server, "connection refused");
        }
        let next = world.engine.next_deadline().min(end);
        world.pass(next.since(world.now));
    }
}

#[test]
fn where_no_server_is_reached_the_client_gets_the_reason_after_first_server_timeout() {
    let mut world = World::new(asking(1));
    let ann = world.arrival("ann", "db");
    unreachable_for(&mut world, Span::from_secs(4));
    assert!(world.received(ann).is_empty());
    unreachable_for(&mut world, Span::from_secs(2));
    let error = world.received(ann);
    assert!(says(&error, "connection refused") && says(&error, "could not log in for pool \"db\""), "{error:?}");
    let bob = world.arrival("bob", "db");
    unreachable_for(&mut world, Span::from_secs(1));
    assert!(world.received(bob).is_empty(), "its own wait has just begun");
}

#[test]
fn a_login_that_ends_before_the_answer_gives_the_reason() {
    let mut world = World::new(asking(1));
    let ann = world.arrival("ann", "db");
    let asker = world.server();
    asked(&mut world, asker, "ann");
    world.pass(Span::from_secs(61));
    let error = world.received(ann);
    assert!(says(&error, "client_login_timeout (server down)"), "{}", String::from_utf8_lossy(&error));
    assert!(says(&error, "auth_query") && says(&error, "has no answer yet"), "{}", String::from_utf8_lossy(&error));
}
