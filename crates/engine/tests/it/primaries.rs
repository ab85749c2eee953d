//! Pools that write to one of several hosts: a host that takes no writes any more is left, and no client gets a server
//! of a new one before the old one is left.

use std::sync::Arc;

use weir_base::{ConnId, Host, PoolMode, Span, Target};
use weir_config::{Config, OnServerDown, PoolConfig, SessionAttrs};
use weir_engine::port::{Input, PrintedPassword, Signal, WorkResult};
use weir_pgwire::put_back;

use crate::common::*;

const A: &str = "10.0.0.1";
const B: &str = "10.0.0.2";

fn target(name: &str) -> Target {
    Target { host: Host::parse(name), port: 5432 }
}

fn with(change: impl FnOnce(&mut PoolConfig)) -> Config {
    let mut config = config(4);
    let mut pool = PoolConfig::clone(&config.pools["db"]);
    pool.targets = [A, B].map(target).into();
    pool.session_attrs = SessionAttrs::ReadWrite;
    change(&mut pool);
    config.pools.insert("db".into(), Arc::new(pool));
    config
}

fn status(name: &str, value: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_back::parameter_status(&mut bytes, name, value);
    bytes
}

/// What a server sends at its login; `standby`: it is one.
fn login(standby: bool) -> Vec<u8> {
    reports(standby, false)
}

/// As [`login`]; `read_only`: so are the user's transactions there by default.
fn reports(standby: bool, read_only: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_back::auth_ok(&mut bytes);
    bytes.extend(status("in_hot_standby", if standby { "on" } else { "off" }));
    bytes.extend(status("default_transaction_read_only", if read_only { "on" } else { "off" }));
    put_back::backend_key_data(&mut bytes, 77, &[1, 2, 3, 4]);
    put_back::ready(&mut bytes, b'I');
    bytes
}

/// The next connect is to this host, which lets it in.
fn log_in(world: &mut World, host: &str, standby: bool) -> ConnId {
    log_in_with(world, host, &login(standby))
}

fn log_in_with(world: &mut World, host: &str, reports: &[u8]) -> ConnId {
    let server = world.connecting().expect("a server is requested");
    assert_eq!(world.last_target().map(|target| target.host), Some(Host::parse(host)));
    let remote = Some(host.parse().unwrap());
    world.input(Input::Connected { conn: server, local: "127.0.0.1:5000".into(), remote });
    world.received(server);
    world.bytes(server, reports);
    server
}

/// A client of a pool that writes to `A`, and its server there.
fn client_at_a(world: &mut World) -> (ConnId, ConnId) {
    let client = world.arrival("ann", "db");
    let server = log_in(world, A, false);
    assert!(world.received(client).ends_with(&ready(b'I')), "it is welcome");
    (client, server)
}

/// A client in a transaction at `A`; and a second one, for which `B` is found fit, as `A` takes no connection.
fn two_primaries(world: &mut World) -> (ConnId, ConnId, ConnId, ConnId) {
    let (first, old) = client_at_a(world);
    world.bytes(first, &query("begin"));
    world.bytes(old, &done("BEGIN", b'T'));
    world.received(old);
    let second = world.arrival("ann", "db");
    world.received(second);
    world.bytes(second, &query("insert"));
    let refused = world.connecting().expect("a server is requested");
    world.fail(refused, "connection refused");
    let new = log_in(world, B, false);
    (first, old, second, new)
}

fn error(sqlstate: &str, status: u8) -> Vec<u8> {
    let fields = weir_pgwire::ErrorFields {
        severity: "ERROR",
        sqlstate,
        message: "cannot execute INSERT in a read-only transaction",
        detail: None,
        hint: None,
    };
    let mut bytes = Vec::new();
    put_back::error(&mut bytes, &fields);
    put_back::ready(&mut bytes, status);
    bytes
}

#[test]
fn nothing_is_sent_to_a_new_primary_before_the_last_transaction_at_the_old_one_has_ended() {
    let mut world = World::new(with(|_| {}));
    let (first, old, second, new) = two_primaries(&mut world);
    assert!(!says(&world.received(new), "insert"), "the old one is in use");
    world.bytes(first, &query("commit"));
    assert!(!says(&world.received(new), "insert"));
    world.bytes(old, &done("COMMIT", b'I'));
    assert!(says(&world.received(first), "COMMIT") && !world.is_open(old));
    assert!(says(&world.received(new), "insert"));
    world.bytes(new, &done("INSERT 0 1", b'I'));
    world.bytes(first, &query("again"));
    assert!(says(&world.received(new), "again") && world.connecting().is_none(), "all go there now");
    assert!(says(&world.received(second), "INSERT"));
}

#[test]
fn a_transaction_at_the_old_primary_that_takes_too_long_is_cut_off() {
    let mut world = World::new(with(|_| {}));
    let (first, old, _, new) = two_primaries(&mut world);
    world.pass(Span::from_millis(900));
    assert!(world.is_open(old) && !says(&world.received(new), "insert"));
    world.pass(Span::from_millis(200));
    assert!(says(&world.received(first), "the primary has moved"));
    assert!(!world.is_open(old) && !world.is_open(first) && says(&world.received(new), "insert"));
}

#[test]
fn a_session_at_the_old_primary_ends_between_its_transactions() {
    let mut world = World::new(with(|pool| pool.policy.mode = PoolMode::Session));
    let (first, old) = client_at_a(&mut world);
    world.bytes(first, &query("select 1"));
    world.bytes(old, &done("SELECT 1", b'I'));
    world.received(first);
    let second = world.arrival("ann", "db");
    world.received(second);
    world.bytes(second, &query("insert"));
    let refused = world.connecting().expect("a server is requested");
    world.fail(refused, "connection refused");
    let new = log_in(&mut world, B, false);
    assert!(says(&world.received(first), "57P01") && !world.is_open(first) && !world.is_open(old));
    assert!(says(&world.received(new), "insert"));
}

#[test]
fn another_host_that_is_fit_does_not_take_a_pool_back_at_once() {
    let mut world = World::new(with(|_| {}));
    let (first, old, second, new) = two_primaries(&mut world);
    world.bytes(first, &query("commit"));
    world.bytes(old, &done("COMMIT", b'I'));
    world.bytes(new, &done("INSERT 0 1", b'I'));
    world.gone(new);
    world.received(second);
    world.bytes(second, &query("more"));
    let refused = world.connecting().expect("a server is requested");
    assert_eq!(world.last_target().map(|target| target.host), Some(Host::parse(B)), "where the pool writes");
    world.fail(refused, "connection refused");
    // The other one was down a moment ago.
    world.pass(Span::from_millis(40));
    let other = log_in(&mut world, A, false);
    assert!(!world.is_open(other), "it has just come from there");
    assert!(world.is_open(second));
}

#[test]
fn a_primary_that_reports_to_be_a_standby_is_left_with_all_its_servers() {
    for report in [status("in_hot_standby", "on"), status("default_transaction_read_only", "on")] {
        let mut world = World::new(with(|_| {}));
        let (first, one) = client_at_a(&mut world);
        world.bytes(first, &query("begin"));
        world.bytes(one, &done("BEGIN", b'T'));
        let second = world.arrival("ann", "db");
        world.bytes(second, &query("select 1"));
        let two = log_in(&mut world, A, false);
        world.bytes(two, &done("SELECT 1", b'I'));
        world.bytes(two, &report);
        assert!(!world.is_open(two) && world.is_open(one), "a transaction goes on");
        world.bytes(first, &query("commit"));
        world.bytes(one, &done("COMMIT", b'I'));
        assert!(!world.is_open(one));
        world.bytes(second, &query("insert"));
        let new = log_in(&mut world, B, false);
        assert!(says(&world.received(new), "insert"));
    }
}

#[test]
fn a_host_that_refuses_a_write_is_asked_and_left() {
    for is_read_only in [true, false] {
        let mut world = World::new(with(|_| {}));
        let (client, server) = client_at_a(&mut world);
        world.bytes(client, &query("insert"));
        world.received(server);
        world.bytes(server, &error("25006", b'I'));
        assert!(says(&world.received(client), "25006"));
        assert!(says(&world.received(server), "pg_is_in_recovery"), "it is asked");
        world.bytes(client, &query("insert again"));
        world.bytes(server, &done(if is_read_only { "SELECT 1" } else { "SELECT 0" }, b'I'));
        assert_eq!(world.is_open(server), !is_read_only);
        if is_read_only {
            let new = log_in(&mut world, B, false);
            assert!(says(&world.received(new), "insert again"));
        } else {
            assert!(says(&world.received(server), "insert again"), "the client had asked for it");
        }
    }
}

/// At which of these milliseconds a refused write has `asks` say that the host is asked or looked at.
fn looks(world: &mut World, (client, server): (ConnId, ConnId), asks: impl Fn(&mut World) -> bool) -> Vec<u64> {
    let mut looks = Vec::new();
    for millis in (0..10_000).step_by(250) {
        world.bytes(client, &query("insert"));
        world.received(server);
        world.bytes(server, &error("25006", b'I'));
        assert!(says(&world.received(client), "25006") && world.is_open(server));
        looks.extend(asks(world).then_some(millis));
        world.pass(Span::from_millis(250));
    }
    looks
}

#[test]
fn a_session_that_asks_for_read_only_transactions_costs_no_connection() {
    let mut world = World::new(with(|pool| pool.policy.mode = PoolMode::Session));
    let session = client_at_a(&mut world);
    let looks = looks(&mut world, session, |world| world.connecting().is_some());
    assert!(looks.is_empty(), "the server would have reported it: {looks:?}");
    let (client, server) = session;
    world.bytes(client, &query("insert"));
    let mut answer = status("default_transaction_read_only", "on");
    answer.extend(error("25006", b'I'));
    world.bytes(server, &answer);
    assert!(world.connecting().is_some(), "it reports it");
}

#[test]
fn a_server_that_does_not_report_its_role_is_looked_at_less_and_less() {
    let mut world = World::new(with(|pool| pool.policy.mode = PoolMode::Session));
    let client = world.arrival("ann", "db");
    let mut silent = Vec::new();
    put_back::auth_ok(&mut silent);
    put_back::backend_key_data(&mut silent, 77, &[1, 2, 3, 4]);
    put_back::ready(&mut silent, b'I');
    let server = log_in_with(&mut world, A, &silent);
    world.bytes(server, &done("SELECT 0", b'I'));
    world.received(client);
    let looks = looks(&mut world, (client, server), |world| {
        let Some(look) = world.connecting() else { return false };
        let remote = Some(A.parse().unwrap());
        world.input(Input::Connected { conn: look, local: "127.0.0.1:5000".into(), remote });
        world.bytes(look, &silent);
        world.bytes(look, &done("SELECT 0", b'I'));
        world.gone(look);
        true
    });
    assert_eq!(looks, [0, 1_000, 3_000, 7_000]);
}

#[test]
fn a_server_is_asked_less_and_less_whether_it_takes_writes() {
    let mut world = World::new(with(|_| {}));
    let (client, server) = client_at_a(&mut world);
    let looks = looks(&mut world, (client, server), |world| {
        let asks = says(&world.received(server), "pg_is_in_recovery");
        if asks {
            world.bytes(server, &done("SELECT 0", b'I'));
        }
        asks
    });
    assert_eq!(looks, [0, 1_000, 3_000, 7_000]);
}

#[test]
fn a_login_that_finds_the_primary_a_standby_has_its_other_servers_closed() {
    let mut world = World::new(with(|_| {}));
    let (first, one) = client_at_a(&mut world);
    world.bytes(first, &query("begin"));
    world.bytes(one, &done("BEGIN", b'T'));
    let second = world.arrival("ann", "db");
    world.bytes(second, &query("insert"));
    log_in(&mut world, A, true);
    world.bytes(first, &query("commit"));
    world.bytes(one, &done("COMMIT", b'I'));
    assert!(!world.is_open(one));
}

#[test]
fn a_user_whose_own_transactions_are_read_only_moves_nobody_else() {
    let mut world = World::new(with(|_| {}));
    let (first, one) = client_at_a(&mut world);
    world.bytes(first, &query("begin"));
    world.bytes(one, &done("BEGIN", b'T'));
    let second = world.arrival("admin", "db");
    for _ in 0..3 {
        // A round, and a pause after it.
        let asked = log_in_with(&mut world, A, &reports(false, true));
        world.bytes(asked, &done("SELECT 0", b'I'));
        assert!(world.connecting().is_none() && world.is_open(second), "it waits before the next round");
        world.bytes(first, &query("commit"));
        world.bytes(one, &done("COMMIT", b'I'));
        assert!(world.is_open(one), "the other user's server stays");
        world.bytes(first, &query("begin"));
        world.bytes(one, &done("BEGIN", b'T'));
        assert!(world.connecting().is_none());
        world.pass(Span::from_secs(1));
    }
}

/// A pool with `users` whose clients all wait.
fn many_users(users: usize) -> World {
    let names: Vec<String> = (0..users).map(|number| format!("user{number}")).collect();
    let mut config = with(|pool| pool.limits.server_connect_timeout = Span::from_secs(15));
    config.max_logins_per_host = 0;
    let listed = names.iter().map(|name| (name.as_str(), "secret")).chain([("admin", "secret")]);
    config.auth.users = Arc::new(listed.collect());
    let mut world = World::new(config);
    for name in &names {
        world.arrival(name, "db");
    }
    world
}

/// All connects that have begun since the last call.
fn connects(world: &mut World) -> Vec<ConnId> {
    std::iter::from_fn(|| world.connecting()).collect()
}

#[test]
fn the_pools_of_many_users_look_for_their_primary_once() {
    let mut world = many_users(100);
    let mut looks = 0;
    // Both hosts are standbys for 3 s.
    for _ in 0..300 {
        for server in connects(&mut world) {
            looks += 1;
            let remote = Some(A.parse().unwrap());
            world.input(Input::Connected { conn: server, local: "127.0.0.1:5000".into(), remote });
            world.bytes(server, &login(true));
        }
        world.pass(Span::from_millis(10));
    }
    assert!((20..=60).contains(&looks), "{looks} logins in 3 s, one in 100 to 200 ms for each of two hosts");
    let server = loop {
        world.pass(Span::from_millis(10));
        if let Some(server) = world.connecting() {
            break server;
        }
    };
    let remote = Some(A.parse().unwrap());
    world.input(Input::Connected { conn: server, local: "127.0.0.1:5000".into(), remote });
    world.bytes(server, &login(false));
    assert_eq!(connects(&mut world).len(), 99, "all others know");
}

#[test]
fn a_look_that_takes_long_does_not_hold_up_the_others() {
    let mut world = many_users(3);
    assert_eq!(connects(&mut world).len(), 1);
    world.pass(Span::from_millis(990));
    assert_eq!(connects(&mut world).len(), 0);
    world.pass(Span::from_millis(20));
    assert_eq!(connects(&mut world).len(), 1);
}

#[test]
fn a_look_that_is_refused_is_followed_by_another_users() {
    let mut world = many_users(3);
    refuse(&mut world, A, "28P01");
    let next = connects(&mut world);
    assert_eq!(next.len(), 2, "the first one's at the other host, the second one's");
}

/// A server that refuses the login of its host's next client.
fn refuse(world: &mut World, host: &str, sqlstate: &str) {
    let server = world.connecting().expect("a server is requested");
    assert_eq!(world.last_target().map(|target| target.host), Some(Host::parse(host)));
    world.input(Input::Connected { conn: server, local: "127.0.0.1:5000".into(), remote: None });
    let fields = weir_pgwire::ErrorFields { severity: "FATAL", sqlstate, message: "no", detail: None, hint: None };
    let mut bytes = Vec::new();
    put_back::error(&mut bytes, &fields);
    world.bytes(server, &bytes);
}

/// `ann` is in a transaction at `A`; a server is requested for `admin`, who needs one, too.
fn two_users(world: &mut World) -> (ConnId, ConnId, ConnId) {
    let (first, one) = client_at_a(world);
    world.bytes(first, &query("begin"));
    world.bytes(one, &done("BEGIN", b'T'));
    world.received(first);
    let second = world.arrival("admin", "db");
    (first, one, second)
}

#[test]
fn a_login_that_the_primary_refuses_for_what_it_is_is_tried_at_no_other_host() {
    let about_logins = ["28P01", "28000", "3D000", "53300", "42501", "55000", "22023", "57P04", "P0001", "0A000"];
    for sqlstate in about_logins {
        let mut world = World::new(with(|_| {}));
        let (first, one, second) = two_users(&mut world);
        refuse(&mut world, A, sqlstate);
        assert!(world.connecting().is_none(), "{sqlstate}: the other host is not tried");
        assert!(says(&world.received(second), sqlstate), "{sqlstate}: its client knows");
        world.bytes(first, &query("commit"));
        world.bytes(one, &done("COMMIT", b'I'));
        assert!(world.is_open(one) && world.is_open(first), "{sqlstate}");
    }
}

#[test]
fn a_primary_that_lets_nobody_in_is_left_for_another_host() {
    for sqlstate in ["57P01", "57P02", "57P03", "53100", "53200", "58030", "XX001", "F0000", "08P01"] {
        let mut world = World::new(with(|_| {}));
        let (first, one, second) = two_users(&mut world);
        refuse(&mut world, A, sqlstate);
        let new = log_in(&mut world, B, false);
        world.bytes(first, &query("commit"));
        world.bytes(one, &done("COMMIT", b'I'));
        assert!(!world.is_open(one), "{sqlstate}");
        world.bytes(second, &query("insert"));
        assert!(says(&world.received(new), "insert"), "{sqlstate}");
    }
}

#[test]
fn a_login_that_is_refused_before_the_primary_is_known_is_tried_at_the_next_host() {
    let mut world = World::new(with(|_| {}));
    let client = world.arrival("ann", "db");
    refuse(&mut world, A, "28P01");
    log_in(&mut world, B, false);
    assert!(world.received(client).ends_with(&ready(b'I')));
}

#[test]
fn a_user_whose_own_transactions_are_read_only_is_let_in_at_no_other_host_that_takes_writes() {
    for is_hosts in [false, true] {
        let mut world = World::new(with(|_| {}));
        let (first, one, second) = two_users(&mut world);
        let asked = log_in_with(&mut world, A, &reports(false, true));
        assert!(says(&world.received(asked), "pg_is_in_recovery"), "it is asked why");
        world.bytes(asked, &done(if is_hosts { "SELECT 1" } else { "SELECT 0" }, b'I'));
        assert!(!world.is_open(asked));
        if !is_hosts {
            assert!(world.connecting().is_none() && world.is_open(second), "the other host is not tried");
            world.bytes(first, &query("commit"));
            world.bytes(one, &done("COMMIT", b'I'));
            assert!(world.is_open(one), "the other user's server stays");
            continue;
        }
        log_in(&mut world, B, false);
        world.bytes(first, &query("commit"));
        world.bytes(one, &done("COMMIT", b'I'));
        assert!(!world.is_open(one));
    }
}

/// The program prints no password: that says nothing about a host.
#[test]
fn a_login_without_a_password_moves_nobody() {
    for hangs in [false, true] {
        let mut world = World::new(with(|pool| {
            let argv = vec!["/bin/print".to_owned()];
            pool.password_command = Arc::new(weir_config::PasswordCommand { argv, ..Default::default() });
            pool.user = Some("ann".into());
            pool.policy.require_auth = weir_auth::RequireAuth::Any;
            pool.limits.server_connect_timeout = Span::from_secs(5);
        }));
        let first = world.arrival("ann", "db");
        let server = world.connecting().expect("a server is requested");
        world.input(Input::Connected { conn: server, local: "127.0.0.1:5000".into(), remote: None });
        let job = world.requested_help().expect("the program runs");
        let printed = PrintedPassword { password: "secret".into(), is_new: true, about: None, overdue: None };
        world.input(Input::JobDone { job, result: WorkResult::Password(Ok(printed)) });
        world.bytes(server, &login(false));
        world.received(first);
        world.bytes(first, &query("begin"));
        world.bytes(server, &done("BEGIN", b'T'));
        let second = world.arrival("ann", "db");
        world.bytes(second, &query("insert"));
        let next = world.connecting().expect("a server is requested");
        world.input(Input::Connected { conn: next, local: "127.0.0.1:5000".into(), remote: None });
        let job = world.requested_help().expect("the program runs");
        if hangs {
            world.pass(Span::from_millis(5_010));
        } else {
            let failed = Err("it exits with status 1".to_owned());
            world.input(Input::JobDone { job, result: WorkResult::Password(failed) });
        }
        assert!(
            !world.is_open(next) && world.is_open(second) && world.connecting().is_none(),
            "no other host is tried"
        );
        world.pass(Span::from_secs(2));
        assert!(world.connecting().is_some());
        assert_eq!(world.last_target().map(|target| target.host), Some(Host::parse(A)));
    }
}

#[test]
fn a_login_that_finds_the_primary_a_standby_waits_before_the_next_round() {
    let mut world = World::new(with(|pool| pool.targets = pool.targets[..1].into()));
    let (first, one) = client_at_a(&mut world);
    world.bytes(first, &query("begin"));
    world.bytes(one, &done("BEGIN", b'T'));
    let second = world.arrival("ann", "db");
    world.bytes(second, &query("insert"));
    log_in(&mut world, A, true);
    assert!(world.connecting().is_none(), "it was the only host");
    world.bytes(first, &query("commit"));
    world.bytes(one, &done("COMMIT", b'I'));
    assert!(!world.is_open(one));
}

#[test]
fn a_request_that_was_not_sent_to_the_old_primary_is_sent_to_the_next_one() {
    let mut world = World::new(with(|pool| {
        pool.policy.check_query = Some("SELECT 'check'".into());
        pool.limits.server_check_delay = Span::from_secs(1);
    }));
    let (first, one) = client_at_a(&mut world);
    world.bytes(first, &query("begin"));
    world.bytes(one, &done("BEGIN", b'T'));
    let second = world.arrival("ann", "db");
    world.bytes(second, &query("select 1"));
    let two = log_in(&mut world, A, false);
    world.bytes(two, &done("SELECT 1", b'I'));
    world.pass(Span::from_secs(2));
    world.received(two);
    world.bytes(second, &query("insert"));
    assert!(says(&world.received(two), "check"), "it was unused for long");
    let mut report = status("in_hot_standby", "on");
    report.extend(done("COMMIT", b'I'));
    world.bytes(first, &query("commit"));
    world.bytes(one, &report);
    assert!(!world.is_open(two) && world.is_open(second));
    let new = log_in(&mut world, B, false);
    assert!(says(&world.received(new), "insert"));
}

#[test]
fn pools_that_take_any_host_are_not_fenced() {
    let mut world = World::new(with(|pool| pool.session_attrs = SessionAttrs::Any));
    let (first, old) = client_at_a(&mut world);
    world.bytes(first, &query("begin"));
    world.bytes(old, &done("BEGIN", b'T'));
    let second = world.arrival("ann", "db");
    world.bytes(second, &query("insert"));
    let new = log_in(&mut world, B, false);
    assert!(says(&world.received(new), "insert"));
}

/// An operator who has sent a command.
fn operator(world: &mut World, command: &str) -> ConnId {
    let operator = world.arrival("admin", "pgbouncer");
    world.received(operator);
    world.bytes(operator, &query(command));
    operator
}

#[test]
fn an_operator_moves_a_pool_while_its_clients_wait() {
    let mut world = World::new(with(|_| {}));
    let (first, old) = client_at_a(&mut world);
    world.bytes(first, &query("begin"));
    world.bytes(old, &done("BEGIN", b'T'));
    let operator = operator(&mut world, "SWITCH db 10.0.0.2:5432");
    let second = world.arrival("ann", "db");
    assert!(world.received(second).ends_with(&ready(b'I')));
    world.bytes(second, &query("insert"));
    assert!(world.connecting().is_none(), "it waits");
    assert_eq!(world.received(operator), b"");
    world.bytes(first, &query("commit"));
    world.bytes(old, &done("COMMIT", b'I'));
    assert!(!world.is_open(old));
    log_in(&mut world, B, true);
    world.pass(Span::from_millis(200));
    log_in(&mut world, B, true);
    assert_eq!(world.received(operator), b"", "it takes no writes yet");
    world.pass(Span::from_millis(400));
    let new = log_in(&mut world, B, false);
    assert!(says(&world.received(operator), "SWITCH"));
    assert!(says(&world.received(new), "insert"));
}

#[test]
fn a_switch_that_takes_too_long_or_is_withdrawn_goes_back() {
    for withdrawn in [false, true] {
        let mut world = World::new(with(|_| {}));
        let (client, old) = client_at_a(&mut world);
        let operator = operator(&mut world, "SWITCH db 10.0.0.2");
        assert!(!world.is_open(old), "it was idle");
        world.bytes(client, &query("insert"));
        let tried = world.connecting().expect("it is looked at");
        world.fail(tried, "connection refused");
        if withdrawn {
            world.gone(operator);
        } else {
            world.pass(Span::from_secs(31));
            assert!(says(&world.received(operator), "SWITCH failed"));
        }
        world.pass(Span::from_millis(200));
        let again = log_in(&mut world, A, false);
        assert!(says(&world.received(again), "insert"));
    }
}

/// How an operator's move ends, and the pool stays at `A`.
const ENDS: [&str; 4] = ["late", "withdrawn", "host removed", "no primary"];

fn end_switch(world: &mut World, operator: ConnId, how: &str) {
    match how {
        "late" => world.pass(Span::from_secs(31)),
        "withdrawn" => world.gone(operator),
        _ => {
            world.signal(Signal::Reload);
            world.config_read(with(|pool| {
                pool.policy.mode = PoolMode::Session;
                match how {
                    "host removed" => pool.targets = ["10.0.0.1", "10.0.0.3"].map(target).into(),
                    _ => pool.session_attrs = SessionAttrs::Any,
                }
            }));
        }
    }
    if how != "withdrawn" {
        assert!(says(&world.received(operator), "SWITCH failed"), "{how}");
    }
}

#[test]
fn a_session_goes_on_where_it_is_after_a_switch_that_failed() {
    for how in ENDS {
        let mut world = World::new(with(|pool| pool.policy.mode = PoolMode::Session));
        let (client, server) = client_at_a(&mut world);
        world.bytes(client, &query("begin"));
        world.bytes(server, &done("BEGIN", b'T'));
        let operator = operator(&mut world, "SWITCH db 10.0.0.2");
        end_switch(&mut world, operator, how);
        world.bytes(client, &query("commit"));
        world.bytes(server, &done("COMMIT", b'I'));
        let received = world.received(client);
        assert!(world.is_open(client) && !says(&received, "57P01"), "{how}: {}", String::from_utf8_lossy(&received));
        world.bytes(client, &query("select 1"));
        assert!(says(&world.received(server), "select 1"), "{how}");
    }
}

#[test]
fn a_server_is_kept_after_a_switch_that_failed_and_closed_if_an_operator_wants_that_too() {
    for reconnects in [false, true] {
        let mut world = World::new(with(|_| {}));
        let (client, server) = client_at_a(&mut world);
        world.bytes(client, &query("begin"));
        world.bytes(server, &done("BEGIN", b'T'));
        let operator = operator(&mut world, "SWITCH db 10.0.0.2");
        if reconnects {
            self::operator(&mut world, "RECONNECT db");
        }
        end_switch(&mut world, operator, "late");
        world.bytes(client, &query("commit"));
        world.bytes(server, &done("COMMIT", b'I'));
        assert_eq!(world.is_open(server), !reconnects);
    }
}

#[test]
fn a_pool_that_is_paused_is_moved_at_once_and_begins_at_its_new_host() {
    let mut world = World::new(with(|_| {}));
    let (client, server) = client_at_a(&mut world);
    operator(&mut world, "PAUSE db");
    assert!(!world.is_open(server));
    let switch = operator(&mut world, "SWITCH db 10.0.0.2");
    assert!(says(&world.received(switch), "SWITCH") && world.connecting().is_none(), "it opens nothing");
    world.bytes(client, &query("insert"));
    assert!(world.connecting().is_none());
    operator(&mut world, "RESUME db");
    let new = log_in(&mut world, B, false);
    assert!(says(&world.received(new), "insert"));
}

#[test]
fn a_pool_that_is_resumed_during_a_switch_waits_for_its_end() {
    let mut world = World::new(with(|_| {}));
    let (first, old) = client_at_a(&mut world);
    world.bytes(first, &query("begin"));
    world.bytes(old, &done("BEGIN", b'T'));
    operator(&mut world, "PAUSE db");
    let switch = operator(&mut world, "SWITCH db 10.0.0.2");
    operator(&mut world, "RESUME db");
    let second = world.arrival("ann", "db");
    world.received(second);
    world.bytes(second, &query("insert"));
    assert!(world.connecting().is_none(), "the old host is in use");
    world.bytes(first, &query("commit"));
    world.bytes(old, &done("COMMIT", b'I'));
    let new = log_in(&mut world, B, false);
    assert!(says(&world.received(switch), "SWITCH") && says(&world.received(new), "insert"));
}

#[test]
fn a_reload_that_removes_the_host_of_a_switch_ends_it() {
    for is_looking in [false, true] {
        let mut world = World::new(with(|_| {}));
        let (first, old) = client_at_a(&mut world);
        world.bytes(first, &query("begin"));
        world.bytes(old, &done("BEGIN", b'T'));
        let operator = operator(&mut world, "SWITCH db 10.0.0.2");
        if is_looking {
            world.bytes(first, &query("commit"));
            world.bytes(old, &done("COMMIT", b'I'));
            let tried = world.connecting().expect("it is looked at");
            world.fail(tried, "connection refused");
        }
        world.signal(Signal::Reload);
        world.config_read(with(|pool| pool.targets = ["10.0.0.3", A].map(target).into()));
        assert!(says(&world.received(operator), "has removed 10.0.0.2:5432"));
        let second = world.arrival("ann", "db");
        log_in(&mut world, A, false);
        assert!(world.received(second).ends_with(&ready(b'I')));
    }
}

#[test]
fn a_pool_whose_primary_a_reload_removes_is_moved_behind_the_fence() {
    let mut world = World::new(with(|_| {}));
    let (first, old, second, new) = two_primaries(&mut world);
    world.bytes(first, &query("commit"));
    world.bytes(old, &done("COMMIT", b'I'));
    world.bytes(new, &done("INSERT 0 1", b'I'));
    world.bytes(second, &query("begin"));
    world.bytes(new, &done("BEGIN", b'T'));
    // It has just come to B.
    world.signal(Signal::Reload);
    world.config_read(with(|pool| pool.targets = [A].map(target).into()));
    world.bytes(first, &query("insert"));
    let back = log_in(&mut world, A, false);
    assert!(world.is_open(back) && !says(&world.received(back), "insert"), "B is in use");
    world.bytes(second, &query("commit"));
    world.bytes(new, &done("COMMIT", b'I'));
    assert!(says(&world.received(back), "insert"));
}

#[test]
fn a_pool_that_refuses_its_clients_while_its_server_is_down_waits_for_the_host_of_a_switch() {
    let mut world = World::new(with(|pool| pool.limits.on_server_down = OnServerDown::Refuse));
    let (client, _) = client_at_a(&mut world);
    let operator = operator(&mut world, "SWITCH db 10.0.0.2");
    world.bytes(client, &query("insert"));
    for _ in 0..3 {
        let tried = world.connecting().expect("it is looked at");
        world.fail(tried, "connection refused");
        assert!(world.is_open(client) && world.received(client).is_empty(), "it waits");
        world.pass(Span::from_millis(500));
    }
    let new = log_in(&mut world, B, false);
    assert!(says(&world.received(new), "insert") && says(&world.received(operator), "SWITCH"));
}

#[test]
fn a_reload_that_leaves_no_primary_ends_a_switch() {
    for is_looking in [false, true] {
        let mut world = World::new(with(|_| {}));
        let (first, old) = client_at_a(&mut world);
        world.bytes(first, &query("begin"));
        world.bytes(old, &done("BEGIN", b'T'));
        let operator = operator(&mut world, "SWITCH db 10.0.0.2");
        let second = world.arrival("ann", "db");
        world.received(second);
        world.bytes(second, &query("insert"));
        if is_looking {
            world.bytes(first, &query("commit"));
            world.bytes(old, &done("COMMIT", b'I'));
            let tried = world.connecting().expect("it is looked at");
            world.fail(tried, "connection refused");
        } else {
            assert!(world.connecting().is_none(), "it waits");
        }
        world.signal(Signal::Reload);
        world.config_read(with(|pool| pool.session_attrs = SessionAttrs::Any));
        let said = world.received(operator);
        assert!(says(&said, "SWITCH failed"), "{}", String::from_utf8_lossy(&said));
        world.pass(Span::from_millis(500));
        let server = world.connecting().expect("the pool goes on");
        let remote = Some("10.0.0.1".parse().unwrap());
        world.input(Input::Connected { conn: server, local: "127.0.0.1:5000".into(), remote });
        world.bytes(server, &login(false));
        assert!(says(&world.received(server), "insert"));
    }
}

#[test]
fn a_reload_that_leaves_no_primary_admits_a_login_that_waits_for_the_fence() {
    let mut world = World::new(with(|_| {}));
    let (_, _, _, new) = two_primaries(&mut world);
    assert!(!says(&world.received(new), "insert"));
    world.signal(Signal::Reload);
    world.config_read(with(|pool| pool.session_attrs = SessionAttrs::Any));
    let goes_on = says(&world.received(new), "insert");
    assert!(
        goes_on || (!world.is_open(new) && world.connecting().is_some()),
        "it waits no longer, or another one does"
    );
}

#[test]
fn only_a_host_of_a_pool_with_a_primary_can_be_switched_to() {
    for (attrs, command, answer) in [
        (SessionAttrs::ReadWrite, "SWITCH db 10.0.0.3", "is none of 10.0.0.1:5432, 10.0.0.2:5432"),
        (SessionAttrs::ReadWrite, "SWITCH nowhere 10.0.0.2", "no such database: nowhere"),
        (SessionAttrs::Any, "SWITCH db 10.0.0.2", "db has no primary"),
    ] {
        let mut world = World::new(with(|pool| pool.session_attrs = attrs));
        let operator = operator(&mut world, command);
        let said = world.received(operator);
        assert!(says(&said, answer), "{}", String::from_utf8_lossy(&said));
    }
}
