//! Limits that several pools share, pools made from the fallback, and slots that are reused, an input at a time.

use std::sync::Arc;

use crate::common::*;
use weir_base::{ConnId, Span};
use weir_config::{Config, OnServerDown, PoolShare, ServerRules};
use weir_engine::port::Signal;
use weir_pgwire::{ErrorFields, put_back};

/// Two users, each with a pool of five servers on `db`, which may have `most` servers in all.
fn limited(most: u32) -> Config {
    let mut config = config(5);
    config.auth.users = Arc::new([("ann", "secret"), ("bob", "secret"), ("admin", "secret")].into_iter().collect());
    config.limits.max_db_connections = most;
    config.limits.query_wait_timeout = Span::from_secs(60);
    add_pool(&mut config, "db", 5);
    add_pool(&mut config, "other", 5);
    config
}

/// A client that is ready.
fn client(world: &mut World, user: &str, database: &str) -> ConnId {
    let conn = world.arrival(user, database);
    if let Some(server) = world.connecting() {
        world.log_in(server);
    }
    assert!(world.received(conn).ends_with(&ready(b'I')), "{user} is welcome at {database}");
    conn
}

fn table(world: &mut World, what: &str) -> String {
    let admin = world.arrival("admin", "pgbouncer");
    world.received(admin);
    world.bytes(admin, &query(&format!("SHOW {what}")));
    let text = String::from_utf8_lossy(&world.received(admin)).into_owned();
    world.gone(admin);
    text
}

/// The server refuses a login.
fn refuse(world: &mut World, server: ConnId, sqlstate: &str, message: &str) {
    world.input(weir_engine::port::Input::Connected { conn: server, local: String::new(), remote: None });
    let mut bytes = Vec::new();
    put_back::error(&mut bytes, &ErrorFields { severity: "FATAL", sqlstate, message, detail: None, hint: None });
    world.received(server);
    world.bytes(server, &bytes);
}

#[test]
fn an_idle_server_of_another_user_makes_room_and_a_busy_one_is_waited_for() {
    let mut world = World::new(limited(1));
    let ann = client(&mut world, "ann", "db");
    // Ann's server is idle: it is closed for Bob.
    let bob = world.arrival("bob", "db");
    let server = world.server();
    assert!(world.received(bob).ends_with(&ready(b'I')));
    world.bytes(bob, &query("SELECT 1"));
    world.bytes(ann, &query("SELECT 2"));
    assert!(world.connecting().is_none(), "the only server is busy");
    world.received(server);
    world.bytes(server, &done("SELECT 1", b'I'));
    assert!(!world.is_open(server), "it is idle, and Ann waits");
    let server = world.server();
    assert!(says(&world.received(server), "SELECT 2"));
}

#[test]
fn a_user_has_a_limit_of_servers_over_all_databases() {
    let mut config = limited(0);
    config.max_user_connections = 1;
    let mut world = World::new(config);
    let first = client(&mut world, "ann", "db");
    let second = client(&mut world, "ann", "other");
    world.bytes(second, &query("SELECT 1"));
    world.bytes(first, &query("SELECT 2"));
    assert!(world.connecting().is_none());
    client(&mut world, "bob", "db");
    world.gone(second);
    let server = world.server();
    assert!(says(&world.received(server), "SELECT 2"), "the closed server returned its permit");
}

#[test]
fn a_connect_that_fails_gives_its_permit_back() {
    let mut config = limited(1);
    config.limits.on_server_down = OnServerDown::Refuse;
    add_pool(&mut config, "db", 5);
    let mut world = World::new(config);
    let ann = world.arrival("ann", "db");
    let server = world.connecting().expect("a connect");
    world.refuse_connect(server, "no route");
    assert!(!world.is_open(ann));
    client(&mut world, "bob", "db");
}

#[test]
fn a_wait_that_times_out_gets_an_error_and_leaves_nothing_behind() {
    let mut config = limited(1);
    config.client_login_timeout = Span::ZERO;
    let mut world = World::new(config);
    let ann = client(&mut world, "ann", "db");
    world.bytes(ann, &query("BEGIN"));
    let bob = world.arrival("bob", "db");
    world.pass(Span::from_secs(61));
    assert!(says(&world.received(bob), "query_wait_timeout"));
    let bob = world.arrival("bob", "db");
    world.reset(bob);
    world.gone(ann);
    world.pass(Span::from_secs(1));
    client(&mut world, "bob", "db");
}

#[test]
fn a_reload_that_sets_a_limit_counts_the_servers_that_are_there() {
    let mut world = World::new(limited(0));
    let ann = client(&mut world, "ann", "db");
    let again = client(&mut world, "ann", "db");
    world.bytes(ann, &query("BEGIN"));
    world.bytes(again, &query("BEGIN"));
    let server = world.server();
    world.signal(Signal::Reload);
    world.config_read(limited(2));
    let bob = world.arrival("bob", "db");
    assert!(world.connecting().is_none(), "two are there");
    world.signal(Signal::Reload);
    world.config_read(limited(3));
    world.server();
    assert!(world.received(bob).ends_with(&ready(b'I')), "room for three");
    world.signal(Signal::Reload);
    world.config_read(limited(0));
    world.gone(server);
    world.bytes(bob, &query("BEGIN"));
    client(&mut world, "ann", "other");
}

#[test]
fn a_reload_that_lifts_the_limit_serves_waiting_clients() {
    let mut world = World::new(limited(1));
    let ann = client(&mut world, "ann", "db");
    world.bytes(ann, &query("BEGIN"));
    let bob = world.arrival("bob", "db");
    assert!(world.connecting().is_none());
    world.signal(Signal::Reload);
    world.config_read(limited(0));
    world.pass(Span::from_secs(1));
    world.server();
    assert!(world.received(bob).ends_with(&ready(b'I')));
}

/// `db` and `other` share two connections, one of which is guaranteed to `other`.
fn shares() -> Config {
    let mut config = limited(0);
    config.servers.insert("s".to_owned(), ServerRules { max_connections: 2, guaranteed: 0 });
    for (name, guaranteed) in [("db", 0), ("other", 1)] {
        let pool = config.pools.get_mut(name).expect("it is there");
        Arc::make_mut(pool).share = PoolShare { server: Some("s".into()), guaranteed, weight: 1 };
    }
    config.sum_guarantees();
    config
}

#[test]
fn a_storm_gives_a_server_back_at_the_end_of_a_transaction_though_its_clients_wait() {
    let mut world = World::new(shares());
    let ann = world.arrival("ann", "db");
    let one = world.server();
    world.bytes(ann, &query("BEGIN"));
    world.bytes(one, &done("BEGIN", b'T'));
    let again = client(&mut world, "ann", "db");
    world.bytes(again, &query("BEGIN"));
    let two = world.server();
    world.bytes(two, &done("BEGIN", b'T'));
    let third = client(&mut world, "ann", "db");
    world.bytes(third, &query("SELECT 3"));
    let other = world.arrival("ann", "other");
    assert!(world.connecting().is_none(), "both are in use");
    world.bytes(ann, &query("COMMIT"));
    world.bytes(one, &done("COMMIT", b'I'));
    assert!(!world.is_open(one), "it is given back");
    world.server();
    assert!(world.received(other).ends_with(&ready(b'I')));
    // What is left beyond the guarantee is the storm's.
    world.bytes(again, &query("COMMIT"));
    world.received(two);
    world.bytes(two, &done("COMMIT", b'I'));
    assert!(says(&world.received(two), "SELECT 3"));
    assert!(world.is_open(two));
}

#[test]
fn a_pool_that_shares_no_more_keeps_what_it_was_to_give_back() {
    let mut world = World::new(shares());
    let ann = world.arrival("ann", "db");
    let one = world.server();
    world.bytes(ann, &query("BEGIN"));
    world.bytes(one, &done("BEGIN", b'T'));
    let again = client(&mut world, "ann", "db");
    world.bytes(again, &query("BEGIN"));
    world.server();
    world.arrival("ann", "other");
    assert!(world.connecting().is_none(), "both are in use");
    world.signal(Signal::Reload);
    world.config_read(limited(0));
    world.bytes(ann, &query("COMMIT"));
    world.bytes(one, &done("COMMIT", b'I'));
    assert!(world.is_open(one));
}

#[test]
fn a_look_up_is_under_the_limit_and_makes_room_for_the_one_it_let_in() {
    let mut config = limited(1);
    config.auth.method = weir_config::Method::Plain;
    config.auth.query_user = Some("bob".into());
    config.auth.users = Arc::new([("bob", "secret")].into_iter().collect());
    let mut world = World::new(config);
    let ann = world.arrival("ann", "db");
    let asker = world.server();
    let mut bytes = Vec::new();
    put_back::parse_complete(&mut bytes);
    put_back::bind_complete(&mut bytes);
    put_back::data_row(&mut bytes, &[Some(b"ann"), Some(b"hush")]);
    bytes.extend(done("SELECT 1", b'I'));
    world.bytes(asker, &bytes);
    let mut password = Vec::new();
    weir_pgwire::put_front::password(&mut password, b"hush");
    world.received(ann);
    world.bytes(ann, &password);
    assert!(!world.is_open(asker), "its server makes room");
    world.server();
    assert!(world.received(ann).ends_with(&ready(b'I')));
}

/// Any database is served.
fn any_database() -> Config {
    let mut config = limited(0);
    let mut pool = (*config.pools["db"]).clone();
    (pool.name, pool.database) = (String::new(), String::new());
    config.fallback = Some(Arc::new(pool));
    config.autodb_idle_timeout = Span::from_secs(100);
    config.limits.server_idle_timeout = Span::from_secs(10);
    config
}

#[test]
fn a_database_made_on_demand_is_forgotten_when_it_is_unused() {
    let mut world = World::new(any_database());
    let ann = client(&mut world, "ann", "mine");
    assert!(table(&mut world, "STATS").contains("mine"));
    world.pass(Span::from_secs(10_000));
    assert!(table(&mut world, "STATS").contains("mine"), "Ann is still there");
    world.gone(ann);
    world.pass(Span::from_secs(10_000));
    assert!(!table(&mut world, "STATS").contains("mine"), "with its statistics");
    client(&mut world, "ann", "mine");
}

#[test]
fn a_database_that_does_not_exist_leaves_nothing_behind() {
    let mut world = World::new(any_database());
    for n in 0..50 {
        let ann = world.arrival("ann", &format!("invented{n}"));
        let server = world.connecting().expect("a connect");
        refuse(&mut world, server, "3D000", "database \"invented\" does not exist");
        assert!(says(&world.received(ann), "does not exist"));
    }
    assert!(!table(&mut world, "STATS").contains("invented"));
}

#[test]
fn a_named_pool_takes_the_place_of_one_made_on_demand() {
    let mut world = World::new(any_database());
    let ann = client(&mut world, "ann", "mine");
    let mut config = any_database();
    add_pool(&mut config, "mine", 1);
    world.signal(Signal::Reload);
    world.config_read(config);
    world.gone(ann);
    world.pass(Span::from_secs(10_000));
    assert!(table(&mut world, "STATS").contains("mine"), "it is not on demand any more");
    world.signal(Signal::Reload);
    world.config_read(any_database());
    world.pass(Span::from_secs(10_000));
    assert!(!table(&mut world, "STATS").contains("mine"));
}

#[test]
fn a_pool_without_clients_is_given_up_after_pool_idle_timeout() {
    let mut config = limited(1);
    config.pool_idle_timeout = Span::from_secs(30);
    let mut world = World::new(config);
    let ann = world.arrival("ann", "db");
    let server = world.server();
    world.pass(Span::from_secs(100));
    assert!(world.is_open(server), "Ann is still there");
    world.gone(ann);
    world.pass(Span::from_secs(31));
    assert!(!world.is_open(server));
    client(&mut world, "ann", "db");
}
