//! Servers that are away: which clients wait for them, for how long, how often they are tried, and the errors.

use std::sync::Arc;

use weir_base::{ConnId, Host, Span, Target};
use weir_config::{Config, FileFormat, OnServerDown, PoolConfig};
use weir_pgwire::put_back;

use crate::common::*;

fn with(change: impl FnOnce(&mut PoolConfig)) -> Config {
    let mut config = config(2);
    let mut pool = PoolConfig::clone(&config.pools["db"]);
    change(&mut pool);
    config.pools.insert("db".into(), Arc::new(pool));
    config
}

fn hosts(names: &[&str]) -> Vec<Target> {
    names.iter().map(|name| Target { host: Host::parse(name), port: 5432 }).collect()
}

/// The server answers our login with an error.
fn answers(world: &mut World, server: ConnId, sqlstate: &str, message: &str) {
    world.input(weir_engine::port::Input::Connected { conn: server, local: "127.0.0.1:5000".into(), remote: None });
    let mut bytes = Vec::new();
    let fields = weir_pgwire::ErrorFields { severity: "FATAL", sqlstate, message, detail: None, hint: None };
    put_back::error(&mut bytes, &fields);
    world.bytes(server, &bytes);
}

/// Every connect fails for a while; returns how many there were.
fn away_for(world: &mut World, span: Span) -> u32 {
    let (end, mut connects) = (world.now + span, 0);
    loop {
        while let Some(server) = world.connecting() {
            connects += 1;
            world.fail(server, "connection refused");
        }
        if world.now >= end {
            return connects;
        }
        let next = world.engine.next_deadline().min(end);
        world.pass(next.since(world.now));
    }
}

/// The connects that are under way reach the server, and it accepts the logins.
fn back(world: &mut World) {
    while let Some(server) = world.connecting() {
        world.log_in(server);
    }
}

#[test]
fn clients_wait_while_their_server_is_away_and_are_served_within_a_twentieth_of_a_second_after_it_is_back() {
    let mut world = World::new(with(|pool| pool.limits.query_wait_notify = Span::ZERO));
    let known = world.arrival("ann", "db");
    let server = world.server();
    world.forget(known);
    world.gone(server);
    world.bytes(known, &query("select 1"));
    let newcomer = world.arrival("ann", "db");
    let connects = away_for(&mut world, Span::from_secs(30));
    assert!(world.received(known).is_empty() && world.is_open(known));
    assert!(world.is_open(newcomer));
    assert!((600..=750).contains(&connects), "one attempt every 40 to 50 ms, {connects} in 30 s");
    world.pass(Span::from_millis(50));
    let server = world.server();
    assert!(world.received(server).ends_with(&query("select 1")));
    assert!(world.is_open(newcomer));
}

#[test]
fn a_client_that_waits_while_no_server_is_open_is_notified_of_the_cause() {
    let mut world = World::new(with(|pool| pool.limits.query_wait_notify = Span::from_secs(1)));
    let known = world.arrival("ann", "db");
    let server = world.server();
    world.forget(known);
    world.gone(server);
    world.bytes(known, &query("select 1"));
    away_for(&mut world, Span::from_secs(5));
    let notice = world.received(known);
    assert!(says(&notice, "client being queued"), "{}", String::from_utf8_lossy(&notice));
    assert!(says(&notice, "Logins have failed for") && says(&notice, "No server connection is open."));
}

#[test]
fn a_client_of_a_pool_that_never_had_a_server_waits_for_the_first() {
    let mut world = World::new(config(2));
    let client = world.arrival("ann", "db");
    away_for(&mut world, Span::from_secs(4));
    assert!(world.received(client).is_empty());
    world.pass(Span::from_millis(50));
    back(&mut world);
    assert!(world.received(client).ends_with(&ready(b'I')));
}

#[test]
fn what_passes_by_itself_is_waited_for_and_what_does_not_is_an_error_at_once() {
    let passing = [
        ("57P03", "the database system is starting up"),
        ("57P03", "the database system is shutting down"),
        ("57P01", "terminating connection due to administrator command"),
    ];
    for (sqlstate, message) in passing {
        let mut world = World::new(config(1));
        let client = world.arrival("ann", "db");
        let server = world.connecting().unwrap();
        answers(&mut world, server, sqlstate, message);
        assert!(world.received(client).is_empty(), "{message}");
        world.pass(Span::from_millis(50));
        back(&mut world);
        assert!(world.received(client).ends_with(&ready(b'I')), "{message}");
    }
    for (sqlstate, message) in
        [("28P01", "wrong password"), ("3D000", "no such database"), ("53300", "too many clients")]
    {
        let mut world = World::new(config(1));
        let client = world.arrival("ann", "db");
        let server = world.connecting().unwrap();
        answers(&mut world, server, sqlstate, message);
        assert!(says(&world.received(client), message), "{message}");
    }
}

#[test]
fn a_connection_that_ends_in_its_login_or_takes_too_long_is_waited_for() {
    let mut world = World::new(with(|pool| pool.limits.first_server_timeout = Span::ZERO));
    let client = world.arrival("ann", "db");
    let server = world.connecting().unwrap();
    world.input(weir_engine::port::Input::Connected { conn: server, local: "127.0.0.1:5000".into(), remote: None });
    world.reset(server);
    world.pass(Span::from_millis(50));
    assert!(world.connecting().is_some(), "it is tried again, and hangs");
    world.pass(world.engine.next_deadline().since(world.now).max(Span::from_secs(16)));
    assert!(world.received(client).is_empty() && world.is_open(client));
    back(&mut world);
    assert!(world.received(client).ends_with(&ready(b'I')));
}

#[test]
fn a_pool_may_refuse_its_clients_instead() {
    let mut world = World::new(with(|pool| pool.limits.on_server_down = OnServerDown::Refuse));
    let client = world.arrival("ann", "db");
    let server = world.connecting().unwrap();
    world.fail(server, "connection refused");
    assert!(says(&world.received(client), "connection refused"));
    let next = world.arrival("ann", "db");
    assert!(says(&world.received(next), "connection refused") && world.connecting().is_none());
    // A server that starts up is waited for nevertheless.
    world.pass(Span::from_secs(1));
    let client = world.arrival("ann", "db");
    let server = world.connecting().unwrap();
    answers(&mut world, server, "57P03", "the database system is starting up");
    assert!(world.received(client).is_empty());
}

#[test]
fn the_wait_ends_with_query_wait_timeout_and_its_detail_has_the_servers_error() {
    let mut world = World::new(with(|pool| pool.limits.query_wait_timeout = Span::from_secs(3)));
    let client = world.arrival("ann", "db");
    away_for(&mut world, Span::from_millis(2_900));
    assert!(world.received(client).is_empty());
    away_for(&mut world, Span::from_millis(200));
    let received = world.received(client);
    assert!(
        says(&received, "query_wait_timeout") && says(&received, "C08006") && says(&received, "connection refused")
    );
}

#[test]
fn in_an_ini_query_timeout_covers_the_wait_and_errors_have_the_code_of_pgbouncer() {
    let mut config = with(|pool| pool.limits.query_wait_timeout = Span::from_secs(30));
    config.format = FileFormat::Ini;
    config.limits.query_timeout = Span::from_secs(3);
    let mut world = World::new(config);
    let client = world.arrival("ann", "db");
    away_for(&mut world, Span::from_millis(3_100));
    let received = world.received(client);
    assert!(says(&received, "Mquery_timeout") && says(&received, "C08P01"));
}

#[test]
fn a_client_that_logs_in_waits_no_longer_than_a_login_may_take() {
    let mut config = config(1);
    config.client_login_timeout = Span::from_secs(4);
    let mut world = World::new(config);
    let client = world.arrival("ann", "db");
    away_for(&mut world, Span::from_secs(5));
    let received = world.received(client);
    assert!(says(&received, "client_login_timeout (server down)") && says(&received, "HStart PostgreSQL, or correct"));
    assert!(says(&received, "DThe pooler could not log in for pool \"db\"") && says(&received, "connection refused"));
}

#[test]
fn a_client_of_a_pool_that_never_had_a_server_gets_the_reason_soon_and_others_wait() {
    let mut world = World::new(with(|pool| pool.limits.query_wait_notify = Span::ZERO));
    let first = world.arrival("ann", "db");
    away_for(&mut world, Span::from_millis(4_900));
    assert!(world.received(first).is_empty());
    away_for(&mut world, Span::from_millis(200));
    let received = world.received(first);
    assert!(says(&received, "connection refused") && says(&received, "C08006"));
    assert!(
        says(&received, "DThe pooler could not log in for pool \"db\"")
            && says(&received, "HStart PostgreSQL, or correct")
    );
    // The next one has as much time, and the pool is tried again for it.
    let second = world.arrival("ann", "db");
    away_for(&mut world, Span::from_millis(4_900));
    assert!(world.received(second).is_empty());
    world.pass(Span::from_millis(50));
    let server = world.server();
    assert!(world.received(second).ends_with(&ready(b'I')));
    // The pool has had a server now.
    world.gone(server);
    let third = world.arrival("ann", "db");
    away_for(&mut world, Span::from_secs(30));
    assert!(world.is_open(third));
}

#[test]
fn a_first_server_that_starts_up_is_waited_for_and_one_that_is_silent_as_long_as_a_login_may_take() {
    let mut world = World::new(with(|pool| pool.limits.query_wait_notify = Span::ZERO));
    let client = world.arrival("ann", "db");
    let end = world.now + Span::from_secs(20);
    while world.now < end {
        if let Some(server) = world.connecting() {
            answers(&mut world, server, "57P03", "the database system is starting up");
        }
        world.pass(world.engine.next_deadline().min(end).since(world.now));
    }
    assert!(world.received(client).is_empty() && world.is_open(client));
    away_for(&mut world, Span::from_secs(2));
    assert!(says(&world.received(client), "connection refused"), "it is no longer starting up");

    let mut world = World::new(config(1));
    let client = world.arrival("ann", "db");
    assert!(world.connecting().is_some());
    let end = world.now + Span::from_secs(14);
    while world.now < end {
        world.pass(world.engine.next_deadline().min(end).since(world.now));
    }
    assert!(world.received(client).is_empty(), "the first attempt is under way");
    world.pass(Span::from_secs(1));
    world.pass(Span::from_secs(1));
    assert!(says(&world.received(client), "did not finish the login within server_connect_timeout"));
}

#[test]
fn two_hundred_pools_try_their_host_no_more_often_than_one_and_all_go_on_when_it_is_back() {
    let mut config = config(1);
    config.max_logins_per_host = 0;
    (0..200).for_each(|number| add_pool(&mut config, &format!("db{number}"), 1));
    let mut world = World::new(config);
    let first = world.arrival("ann", "db");
    away_for(&mut world, Span::from_millis(1));
    let clients: Vec<ConnId> = (0..200).map(|number| world.arrival("ann", &format!("db{number}"))).collect();
    let connects = away_for(&mut world, Span::from_secs(2));
    assert!(connects <= 60, "{connects} connects in 2 s");
    world.pass(Span::from_millis(50));
    back(&mut world);
    for client in clients.into_iter().chain([first]) {
        assert!(world.received(client).ends_with(&ready(b'I')));
    }
}

#[test]
fn of_several_hosts_that_are_away_the_first_that_is_back_is_taken() {
    for (up, down) in [("10.0.0.1", "10.0.0.2"), ("10.0.0.2", "10.0.0.1")] {
        let mut world = World::new(with(|pool| pool.targets = hosts(&["10.0.0.1", "10.0.0.2"])));
        let client = world.arrival("ann", "db");
        away_for(&mut world, Span::from_secs(2));
        let back_at = world.now;
        while world.received(client).is_empty() {
            let next = world.engine.next_deadline();
            world.pass(next.since(world.now));
            while let Some(server) = world.connecting() {
                let target = world.last_target().unwrap().host;
                if target == Host::parse(up) {
                    world.log_in(server);
                    break;
                }
                assert_eq!(target, Host::parse(down));
                world.fail(server, "connection refused");
            }
        }
        assert!(world.now - back_at <= Span::from_millis(100), "{:?}", world.now - back_at);
    }
}

#[test]
fn a_host_that_is_away_costs_pools_with_another_one_nothing() {
    let mut config = with(|pool| pool.targets = hosts(&["10.0.0.1", "10.0.0.2"]));
    add_pool(&mut config, "alone", 1);
    let mut alone = PoolConfig::clone(&config.pools["alone"]);
    alone.targets = hosts(&["10.0.0.1"]);
    config.pools.insert("alone".into(), Arc::new(alone));
    let mut world = World::new(config);
    let waits = world.arrival("ann", "alone");
    away_for(&mut world, Span::from_millis(5));
    let served = world.arrival("ann", "db");
    assert_eq!(world.last_target().unwrap().host, Host::parse("10.0.0.2"), "the other one is known to be away");
    back(&mut world);
    assert!(world.received(served).ends_with(&ready(b'I')) && world.received(waits).is_empty());
}

#[test]
fn a_pool_that_lost_its_last_server_tries_until_it_is_back_though_no_client_wants_one() {
    let mut world = World::new(with(|_| {}));
    world.arrival("ann", "db");
    let server = world.server();
    world.gone(server);
    let tries = away_for(&mut world, Span::from_secs(60));
    assert!((4..=9).contains(&tries), "{tries} tries in a minute");
    world.pass(Span::from_secs(16));
    back(&mut world);
    assert_eq!(away_for(&mut world, Span::from_secs(60)), 0, "it is back");
    // With a pgbouncer.ini only a client opens the next one.
    let mut config = with(|_| {});
    config.format = FileFormat::Ini;
    let mut world = World::new(config);
    world.arrival("ann", "db");
    let server = world.server();
    world.gone(server);
    assert_eq!(away_for(&mut world, Span::from_secs(60)), 0);
}

#[test]
fn show_pools_has_the_health_of_a_pool_and_retry_tries_its_server_at_once() {
    let mut world = World::new(with(|_| {}));
    let console = world.arrival("admin", "pgbouncer");
    world.forget(console);
    let show = |world: &mut World, command: &str| {
        world.bytes(console, &query(command));
        world.received(console)
    };
    world.arrival("ann", "db");
    let server = world.connecting().expect("its first server");
    answers(&mut world, server, "28P01", "password authentication failed for user \"ann\"");
    let pools = show(&mut world, "SHOW POOLS");
    assert!(says(&pools, "login rejected"), "{}", String::from_utf8_lossy(&pools));
    assert!(says(&pools, "password authentication failed for user \"ann\" (28P01)"));
    assert!(world.connecting().is_none(), "it pauses");
    assert!(says(&show(&mut world, "RETRY db"), "RETRY"));
    let server = world.connecting().expect("a try at once");
    world.log_in(server);
    assert!(says(&show(&mut world, "SHOW POOLS"), "login rejected"), "for some seconds more");
    world.pass(Span::from_secs(10));
    assert!(says(&show(&mut world, "SHOW POOLS"), "healthy"));
    assert!(!says(&show(&mut world, "SHOW POOLS"), "login rejected"));
}
