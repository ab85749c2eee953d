//! Pools that ask Patroni which host is their primary: what it says decides which host is tried, and when; PostgreSQL
//! decides whether it is used.

use std::sync::Arc;

use weir_base::{ConnId, Host, Span, Target};
use weir_config::{Config, Patroni, PoolConfig, SessionAttrs};
use weir_engine::port::{Input, WorkResult};
use weir_pgwire::put_back;

use crate::common::*;

const HOSTS: [&str; 2] = ["10.0.0.1", "10.0.0.2"];
const YES: Result<u16, &str> = Ok(200);
const NO: Result<u16, &str> = Ok(503);
const SILENT: Result<u16, &str> = Err("no answer");

fn with(attrs: SessionAttrs) -> Config {
    let mut config = config(4);
    let mut pool = PoolConfig::clone(&config.pools["db"]);
    pool.targets = HOSTS.map(|name| Target { host: Host::parse(name), port: 5432 }).into();
    pool.session_attrs = attrs;
    let api = HOSTS.map(|host| format!("http://{host}:8008")).into();
    pool.patroni = Arc::new(Patroni { api, interval: Span::from_secs(1), ..Patroni::default() });
    config.pools.insert("db".into(), Arc::new(pool));
    config
}

/// Patroni is asked about both hosts, and says this.
#[track_caller]
fn patroni_says(world: &mut World, answers: [Result<u16, &str>; 2]) {
    let jobs: Vec<u64> = answers.iter().map(|_| world.requested_help().expect("it is asked")).collect();
    assert_eq!(world.requested_help(), None, "once");
    for (job, answer) in jobs.into_iter().zip(answers) {
        world.input(Input::JobDone { job, result: WorkResult::Patroni(answer.map_err(str::to_owned)) });
    }
}

/// As [`patroni_says`], where it is asked often.
fn patroni_says_if_asked(world: &mut World, answers: [Result<u16, &str>; 2]) {
    while let Some(first) = world.requested_help() {
        let jobs = [Some(first), world.requested_help()].into_iter().flatten();
        for (job, answer) in jobs.zip(answers) {
            world.input(Input::JobDone { job, result: WorkResult::Patroni(answer.map_err(str::to_owned)) });
        }
    }
}

/// A world in which Patroni has said this before the first client comes.
fn world(attrs: SessionAttrs, answers: [Result<u16, &str>; 2]) -> World {
    let mut world = World::new(with(attrs));
    world.pass(Span::from_millis(1));
    patroni_says(&mut world, answers);
    world
}

fn host_of(world: &World) -> String {
    world.last_target().map(|target| target.host.to_string()).unwrap_or_default()
}

/// A login begins at this host, which says whether it is a standby.
#[track_caller]
fn log_in(world: &mut World, host: &str, standby: bool) -> ConnId {
    let server = world.connecting().expect("a server is requested");
    assert_eq!(host_of(world), host);
    world.input(Input::Connected { conn: server, local: "127.0.0.1:5000".into(), remote: Some(host.parse().unwrap()) });
    let mut bytes = Vec::new();
    put_back::auth_ok(&mut bytes);
    put_back::parameter_status(&mut bytes, "in_hot_standby", if standby { "on" } else { "off" });
    put_back::parameter_status(&mut bytes, "default_transaction_read_only", "off");
    put_back::backend_key_data(&mut bytes, 77, &[1, 2, 3, 4]);
    put_back::ready(&mut bytes, b'I');
    world.received(server);
    world.bytes(server, &bytes);
    server
}

#[test]
fn the_host_that_patroni_names_is_tried_first_and_without_an_answer_the_first_one() {
    use SessionAttrs::{PreferStandby, Primary, ReadWrite, Standby};
    for (attrs, answers, first) in [
        (ReadWrite, [NO, YES], 1),
        (Primary, [SILENT, YES], 1),
        (ReadWrite, [SILENT, SILENT], 0),
        (ReadWrite, [NO, NO], 0),
        (Standby, [NO, YES], 1),
        (PreferStandby, [NO, YES], 1),
        (Standby, [YES, NO], 0),
    ] {
        let mut world = world(attrs, answers);
        assert!(world.connecting().is_none(), "nobody needs a server");
        let client = world.arrival("ann", "db");
        log_in(&mut world, HOSTS[first], attrs == Standby || attrs == PreferStandby);
        assert!(world.received(client).ends_with(&ready(b'I')), "{attrs} {answers:?}");
    }
}

#[test]
fn connections_to_standbys_take_turns_at_those_that_patroni_names() {
    let mut world = world(SessionAttrs::Standby, [NO, YES]);
    for _ in 0..3 {
        let client = world.arrival("ann", "db");
        if let Some(server) = world.connecting() {
            assert_eq!(host_of(&world), HOSTS[1]);
            world.fail(server, "connection refused");
            assert!(world.connecting().is_some());
            assert_eq!(host_of(&world), HOSTS[0], "then the other one");
            return;
        }
        world.received(client);
    }
    panic!("no server was requested");
}

#[test]
fn a_host_is_used_only_if_it_says_itself_that_it_takes_writes() {
    let mut world = world(SessionAttrs::ReadWrite, [NO, YES]);
    let client = world.arrival("ann", "db");
    log_in(&mut world, HOSTS[1], true);
    assert!(!world.received(client).ends_with(&ready(b'I')));
    log_in(&mut world, HOSTS[0], false);
    assert!(world.received(client).ends_with(&ready(b'I')));
}

#[test]
fn a_pool_moves_when_patroni_names_another_host_and_that_one_takes_writes() {
    for standby in [false, true] {
        let mut world = world(SessionAttrs::ReadWrite, [YES, NO]);
        let client = world.arrival("ann", "db");
        let old = log_in(&mut world, HOSTS[0], false);
        world.received(client);
        world.pass(Span::from_secs(6));
        world.bytes(client, &query("begin"));
        world.bytes(old, &done("BEGIN", b'T'));
        patroni_says(&mut world, [NO, YES]);
        let new = log_in(&mut world, HOSTS[1], standby);
        assert_eq!(world.is_open(new), !standby);
        assert!(world.is_open(old), "its transaction goes on");
        world.bytes(client, &query("commit"));
        world.bytes(old, &done("COMMIT", b'I'));
        assert_eq!(world.is_open(old), standby);
        world.pass(Span::from_millis(10));
        world.bytes(client, &query("insert"));
        assert!(says(&world.received(if standby { old } else { new }), "insert"));
    }
}

#[test]
fn a_login_that_hangs_elsewhere_is_given_up_and_patroni_may_be_wrong() {
    let mut world = world(SessionAttrs::ReadWrite, [NO, SILENT]);
    let client = world.arrival("ann", "db");
    let refused = world.connecting().expect("a server is requested");
    world.fail(refused, "connection refused");
    let hangs = world.connecting().expect("the next host is tried");
    assert_eq!(host_of(&world), HOSTS[1]);
    world.pass(Span::from_millis(150));
    patroni_says(&mut world, [YES, SILENT]);
    assert!(!world.is_open(hangs));
    for _ in 0..3 {
        let refused = world.connecting().expect("the host that Patroni names is tried");
        assert_eq!(host_of(&world), HOSTS[0]);
        world.fail(refused, "connection refused");
        let again = world.connecting().expect("then the other one");
        assert_eq!(host_of(&world), HOSTS[1]);
        world.pass(Span::from_millis(500));
        assert!(world.is_open(again), "Patroni says nothing new");
        world.pass(Span::from_millis(600));
        patroni_says(&mut world, [YES, SILENT]);
        assert!(!world.is_open(again), "it has had a second");
    }
    log_in(&mut world, HOSTS[0], false);
    assert!(world.received(client).ends_with(&ready(b'I')));
}

#[test]
fn a_pool_that_is_full_of_servers_that_hang_leaves_them_only_if_patroni_names_another_primary() {
    for named in [false, true] {
        let mut world = world(SessionAttrs::ReadWrite, [YES, NO]);
        let clients: Vec<ConnId> = (0..4).map(|_| world.arrival("ann", "db")).collect();
        let mut servers = vec![log_in(&mut world, HOSTS[0], false)];
        for (number, client) in clients.iter().enumerate() {
            world.bytes(*client, &query("insert"));
            if number > 0 {
                servers.push(log_in(&mut world, HOSTS[0], false));
            }
        }
        let waits = world.arrival("ann", "db");
        world.received(waits);
        world.bytes(waits, &query("insert"));
        assert!(world.connecting().is_none(), "the pool is full");
        let answers = [SILENT, if named { YES } else { NO }];
        for _ in 0..7 {
            patroni_says_if_asked(&mut world, answers);
            assert!(servers.iter().all(|server| world.is_open(*server)), "not for so long");
            world.pass(Span::from_millis(800));
        }
        patroni_says_if_asked(&mut world, answers);
        assert!(servers.iter().all(|server| world.is_open(*server) != named));
        if named {
            let told = world.received(clients[0]);
            assert!(says(&told, "the primary has moved"), "{}", String::from_utf8_lossy(&told));
            let new = log_in(&mut world, HOSTS[1], false);
            assert!(says(&world.received(new), "insert"));
        }
    }
}

#[test]
fn a_configuration_that_does_not_ask_patroni_has_no_hints() {
    let mut world = world(SessionAttrs::ReadWrite, [NO, YES]);
    let mut config = with(SessionAttrs::ReadWrite);
    let mut pool = PoolConfig::clone(&config.pools["db"]);
    pool.patroni = Arc::default();
    config.pools.insert("db".into(), Arc::new(pool));
    world.input(Input::Signal(weir_engine::port::Signal::Reload));
    world.config_read(config);
    world.pass(Span::from_secs(10));
    assert_eq!(world.requested_help(), None, "it is asked no more");
    world.arrival("ann", "db");
    log_in(&mut world, HOSTS[0], false);
}
