//! Connections to servers until they are up: encryption, several hosts, required roles, and Weir's own queries.

use std::net::IpAddr;
use std::sync::Arc;

use weir_base::{ConnId, Host, OnDirty, PoolMode, Span, Target};
use weir_config::{Balance, Config, OnServerDown, PoolConfig, SessionAttrs, SslMode};
use weir_engine::port::{Handshake, Input, Secured, Signal};
use weir_pgwire::{put_back, put_front};

use crate::common::*;

fn with(change: impl FnOnce(&mut PoolConfig)) -> Config {
    let mut config = config(1);
    let mut pool = PoolConfig::clone(&config.pools["db"]);
    change(&mut pool);
    config.pools.insert("db".into(), Arc::new(pool));
    config
}

fn encrypting(mode: SslMode) -> World {
    let mut config = config(1);
    config.tls.server.mode = mode;
    World::new(config)
}

fn hosts(names: &[&str]) -> Vec<Target> {
    names.iter().map(|name| Target { host: Host::parse(name), port: 5432 }).collect()
}

fn ssl_request() -> Vec<u8> {
    let mut bytes = Vec::new();
    put_front::ssl_request(&mut bytes);
    bytes
}

fn secured() -> Box<Secured> {
    let description = "TLSv1.3/TLS_AES_256_GCM_SHA384".to_owned();
    Box::new(Secured { description, certificate: None, alpn: None, binding: None })
}

fn connected(world: &mut World, server: ConnId) {
    connected_to(world, server, "127.0.0.1");
}

fn connected_to(world: &mut World, server: ConnId, address: &str) {
    let remote = Some(address.parse().unwrap());
    world.input(Input::Connected { conn: server, local: "127.0.0.1:5000".into(), remote });
}

/// A refusal of the login by the server itself.
fn refuse(world: &mut World, server: ConnId, sqlstate: &'static str, message: &str) {
    let mut bytes = Vec::new();
    let fields = weir_pgwire::ErrorFields { severity: "FATAL", sqlstate, message, detail: None, hint: None };
    put_back::error(&mut bytes, &fields);
    world.bytes(server, &bytes);
}

fn unreachable(world: &mut World, server: ConnId) {
    world.fail(server, "connection refused");
}

/// A server accepts the login, and reports its role in replication.
fn let_in(world: &mut World, server: ConnId, standby: Option<bool>) {
    let mut bytes = Vec::new();
    put_back::auth_ok(&mut bytes);
    for name in ["in_hot_standby", "default_transaction_read_only"] {
        let on = standby.map(|standby| if standby && name == "in_hot_standby" { "on" } else { "off" });
        on.into_iter().for_each(|on| put_back::parameter_status(&mut bytes, name, on));
    }
    put_back::backend_key_data(&mut bytes, 77, &[1, 2, 3, 4]);
    put_back::ready(&mut bytes, b'I');
    world.received(server);
    world.bytes(server, &bytes);
}

#[test]
fn a_server_that_can_encrypt_is_logged_in_to_after_the_handshake() {
    for mode in [SslMode::Prefer, SslMode::Require, SslMode::VerifyFull] {
        let mut world = encrypting(mode);
        let client = world.arrival("ann", "db");
        let server = world.connecting().unwrap();
        connected(&mut world, server);
        assert_eq!(world.received(server), ssl_request());
        world.bytes(server, b"S");
        let host = Host::parse("127.0.0.1");
        assert!(world.shook(server, &Handshake::Connect { host, mode, direct: false }));
        assert_eq!(world.received(server), b"", "nothing is sent before the handshake is done");
        world.input(Input::Secured { conn: server, tls: secured() });
        assert!(says(&world.received(server), "database\0db"));
        let_in(&mut world, server, None);
        assert!(world.received(client).ends_with(&ready(b'I')));
    }
}

#[test]
fn a_handshake_at_once_asks_nothing_and_wants_the_protocol_named() {
    for alpn in [Some(b"postgresql".to_vec()), None] {
        let mut config = config(1);
        (config.tls.server.mode, config.tls.server.direct) = (SslMode::Require, true);
        let mut world = World::new(config);
        let client = world.arrival("ann", "db");
        let server = world.connecting().unwrap();
        connected(&mut world, server);
        assert_eq!(world.received(server), b"", "no SSLRequest");
        let host = Host::parse("127.0.0.1");
        assert!(world.shook(server, &Handshake::Connect { host, mode: SslMode::Require, direct: true }));
        let named = alpn.is_some();
        world.input(Input::Secured { conn: server, tls: Box::new(Secured { alpn, ..*secured() }) });
        assert_eq!(world.is_open(server), named);
        if named {
            let_in(&mut world, server, None);
            assert!(world.received(client).ends_with(&ready(b'I')));
        } else {
            assert!(says(&world.received(client), "without ALPN protocol negotiation"));
        }
    }
}

#[test]
fn settings_of_encryption_replace_servers_and_a_refused_login_is_tried_again_at_once() {
    let mut world = encrypting(SslMode::Disable);
    let client = world.arrival("ann", "db");
    let server = world.connecting().unwrap();
    connected(&mut world, server);
    let_in(&mut world, server, None);
    assert!(world.received(client).ends_with(&ready(b'I')));
    let change = |world: &mut World, mode| {
        let mut next = config(1);
        next.tls.server.mode = mode;
        world.signal(Signal::Reload);
        world.config_read(next);
    };
    change(&mut world, SslMode::Disable);
    assert!(world.is_open(server), "nothing has changed");
    change(&mut world, SslMode::Require);
    assert!(!world.is_open(server), "it may be less secure than the settings allow");
}

#[test]
fn a_server_without_encryption_is_taken_or_refused_as_the_mode_says() {
    let mut world = encrypting(SslMode::Prefer);
    world.arrival("ann", "db");
    let server = world.connecting().unwrap();
    connected(&mut world, server);
    world.received(server);
    world.bytes(server, b"N");
    assert!(says(&world.received(server), "database\0db"), "on the same connection");
    let mut world = encrypting(SslMode::Require);
    let client = world.arrival("ann", "db");
    let server = world.connecting().unwrap();
    connected(&mut world, server);
    world.bytes(server, b"N");
    assert!(!world.is_open(server) && says(&world.received(client), "server refused SSL"));
}

#[test]
fn bytes_before_the_handshake_cost_the_connection() {
    for (answer, error) in [
        (&b"SE"[..], "received unencrypted data after SSL response"),
        (b"NR\0\0\0\x08\0\0\0\0", "received unencrypted data after SSL response"),
        (b"E", "bad sslreq answer"),
    ] {
        let mut world = encrypting(SslMode::Prefer);
        let client = world.arrival("ann", "db");
        let server = world.connecting().unwrap();
        connected(&mut world, server);
        world.bytes(server, answer);
        assert!(!world.is_open(server) && says(&world.received(client), error));
    }
}

#[test]
fn prefer_does_without_after_a_failed_handshake_and_allow_with_after_a_refusal() {
    let mut world = encrypting(SslMode::Prefer);
    world.arrival("ann", "db");
    let server = world.connecting().unwrap();
    connected(&mut world, server);
    world.bytes(server, b"S");
    world.shake_fails(server);
    let second = world.connecting().expect("another connection, at once");
    connected(&mut world, second);
    assert!(says(&world.received(second), "database\0db"));

    let mut world = encrypting(SslMode::Allow);
    let client = world.arrival("ann", "db");
    let server = world.connecting().unwrap();
    connected(&mut world, server);
    assert!(says(&world.received(server), "database\0db"), "plain first");
    refuse(&mut world, server, "28000", "no pg_hba.conf entry for host, no encryption");
    assert_eq!(world.received(client), b"");
    let second = world.connecting().expect("another connection, at once");
    connected(&mut world, second);
    assert_eq!(world.received(second), ssl_request());
    world.bytes(second, b"N");
    assert!(says(&world.received(client), "server refused SSL"), "there is no third attempt");
    assert!(world.connecting().is_none());
}

#[test]
fn no_encryption_is_requested_over_a_unix_socket() {
    let mut config = with(|pool| pool.targets = hosts(&["/run/postgresql"]));
    config.tls.server.mode = SslMode::VerifyFull;
    let mut world = World::new(config);
    world.arrival("ann", "db");
    let server = world.connecting().unwrap();
    connected(&mut world, server);
    assert!(says(&world.received(server), "database\0db"));
}

#[test]
fn a_cancel_goes_to_the_servers_address_and_is_encrypted_like_it() {
    let mut config = with(|pool| pool.targets = hosts(&["db.example"]));
    config.tls.server.mode = SslMode::Require;
    let mut world = World::new(config);
    let client = world.arrival("ann", "db");
    let server = world.connecting().unwrap();
    connected(&mut world, server);
    world.bytes(server, b"S");
    world.input(Input::Secured { conn: server, tls: secured() });
    let_in(&mut world, server, None);
    let key = key_of(&world.received(client));
    world.bytes(client, &query("select pg_sleep(60)"));
    let canceller = world.visitor();
    world.bytes(canceller, &key);
    assert_eq!(world.last_target().map(|target| target.host), Some(Host::parse("127.0.0.1")));
    let cancel = world.connecting().unwrap();
    connected(&mut world, cancel);
    assert_eq!(world.received(cancel), ssl_request());
    world.bytes(cancel, b"S");
    let handshake = Handshake::Connect { host: Host::parse("db.example"), mode: SslMode::Require, direct: false };
    assert!(world.shook(cancel, &handshake), "its certificate is for the name");
    world.input(Input::Secured { conn: cancel, tls: secured() });
    assert!(world.received(cancel).ends_with(&[1, 2, 3, 4]));
}

/// The cancel request for a client's key.
fn key_of(welcome: &[u8]) -> Vec<u8> {
    let at = welcome.windows(5).position(|w| w == b"K\0\0\0\x0c").expect("a key") + 5;
    let pid = u32::from_be_bytes(welcome[at..at + 4].try_into().unwrap());
    let mut bytes = Vec::new();
    put_front::cancel_request(&mut bytes, pid, &welcome[at + 4..at + 8]);
    bytes
}

#[test]
fn hosts_take_turns_or_the_good_one_stays() {
    for balance in [Balance::RoundRobin, Balance::Disable] {
        let mut config = with(|pool| {
            pool.targets = hosts(&["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
            pool.balance = balance;
            pool.limits.size = 3;
        });
        config.limits.size = 3;
        let mut world = World::new(config);
        let mut went = Vec::new();
        for i in 0..3 {
            let client = world.arrival("ann", "db");
            if i > 0 {
                world.bytes(client, &query("begin"));
            }
            if let Some(server) = world.connecting() {
                went.push(world.last_target().unwrap().to_string());
                world.log_in(server);
            }
            if i == 0 {
                world.bytes(client, &query("begin"));
            }
        }
        let expected = match balance {
            Balance::RoundRobin => ["10.0.0.1:5432", "10.0.0.2:5432", "10.0.0.3:5432"],
            Balance::Disable => ["10.0.0.1:5432"; 3],
        };
        assert_eq!(went, expected);
    }
}

#[test]
fn a_host_that_is_down_is_skipped_at_once_and_all_down_is_reported_with_each_ones_reason() {
    let mut world = World::new(with(|pool| {
        pool.targets = hosts(&["10.0.0.1", "10.0.0.2"]);
        pool.limits.on_server_down = OnServerDown::Refuse;
    }));
    let client = world.arrival("ann", "db");
    let first = world.connecting().unwrap();
    unreachable(&mut world, first);
    assert_eq!(world.received(client), b"");
    let second = world.connecting().expect("the other one, at once");
    assert_eq!(world.last_target().unwrap().to_string(), "10.0.0.2:5432");
    connected(&mut world, second);
    refuse(&mut world, second, "53300", "sorry, too many clients already");
    let received = world.received(client);
    assert!(says(&received, "10.0.0.1:5432: could not connect") && says(&received, "10.0.0.2:5432: sorry, too many"));
    assert!(says(&received, "C53300") && world.connecting().is_none(), "all were tried: the next round waits");
    world.pass(Span::from_secs(2));
    world.arrival("ann", "db");
    assert!(world.connecting().is_some());
}

#[test]
fn a_host_that_fails_twice_before_another_was_tried_is_not_all_hosts() {
    let mut world = World::new(with(|pool| pool.targets = hosts(&["10.0.0.1", "10.0.0.2"])));
    let client = world.arrival("ann", "db");
    let down = world.connecting().unwrap();
    unreachable(&mut world, down);
    let called_off = world.connecting().unwrap();
    let console = world.arrival("admin", "pgbouncer");
    world.bytes(console, &query("PAUSE db"));
    assert!(!world.is_open(called_off), "PAUSE calls the login off");
    world.pass(Span::from_millis(50));
    world.bytes(console, &query("RESUME db"));
    let down = world.connecting().unwrap();
    assert_eq!(world.last_target().unwrap().host, Host::parse("10.0.0.1"));
    unreachable(&mut world, down);
    assert!(world.is_open(client), "the other host is not known to be down");
    let server = world.connecting().unwrap();
    connected(&mut world, server);
    let_in(&mut world, server, None);
    assert!(world.received(client).ends_with(&ready(b'I')));
}

#[test]
fn a_host_that_hangs_is_given_up_for_the_next() {
    let mut world = World::new(with(|pool| pool.targets = hosts(&["10.0.0.1", "10.0.0.2"])));
    let client = world.arrival("ann", "db");
    let first = world.connecting().unwrap();
    let patience = config(1).limits.server_connect_timeout;
    world.pass(patience);
    assert!(!world.is_open(first) && !says(&world.received(client), "server_connect_timeout"));
    let second = world.server();
    assert!(world.received(client).ends_with(&ready(b'I')) && world.is_open(second));
}

#[test]
fn only_a_server_that_fits_is_taken() {
    let cases = [
        (SessionAttrs::Primary, Some(true), false),
        (SessionAttrs::Primary, Some(false), true),
        (SessionAttrs::ReadWrite, Some(true), false),
        (SessionAttrs::ReadWrite, Some(false), true),
        (SessionAttrs::ReadOnly, Some(true), true),
        (SessionAttrs::ReadOnly, Some(false), false),
        (SessionAttrs::Standby, Some(true), true),
        (SessionAttrs::Standby, Some(false), false),
        (SessionAttrs::Any, Some(true), true),
    ];
    for (attrs, standby, fits) in cases {
        let mut world = World::new(with(|pool| pool.session_attrs = attrs));
        let client = world.arrival("ann", "db");
        let server = world.connecting().unwrap();
        connected(&mut world, server);
        let_in(&mut world, server, standby);
        assert_eq!(world.is_open(server), fits, "{attrs:?} {standby:?}");
        assert_eq!(world.received(client).ends_with(&ready(b'I')), fits, "{attrs:?} {standby:?}");
    }
}

#[test]
fn a_server_that_does_not_report_its_role_is_asked() {
    for (attrs, rows, fits) in [
        (SessionAttrs::Primary, "SELECT 0", true),
        (SessionAttrs::Primary, "SELECT 1", false),
        (SessionAttrs::Standby, "SELECT 1", true),
        (SessionAttrs::ReadWrite, "SELECT 1", false),
    ] {
        let mut world = World::new(with(|pool| pool.session_attrs = attrs));
        let client = world.arrival("ann", "db");
        let server = world.connecting().unwrap();
        connected(&mut world, server);
        let_in(&mut world, server, None);
        assert!(says(&world.received(server), "SELECT 1 WHERE pg_catalog."));
        assert_eq!(world.received(client), b"", "it is not handed out before it has answered");
        world.bytes(server, &done(rows, b'I'));
        assert_eq!((world.is_open(server), world.received(client).ends_with(&ready(b'I'))), (fits, fits), "{attrs:?}");
    }
}

#[test]
fn prefer_standby_takes_any_after_all_were_looked_at() {
    let mut world = World::new(with(|pool| {
        pool.targets = hosts(&["10.0.0.1", "10.0.0.2"]);
        pool.session_attrs = SessionAttrs::PreferStandby;
    }));
    let client = world.arrival("ann", "db");
    for _ in 0..2 {
        let server = world.connecting().unwrap();
        connected(&mut world, server);
        let_in(&mut world, server, Some(false));
        assert!(!world.is_open(server));
    }
    let server = world.connecting().unwrap();
    connected(&mut world, server);
    let_in(&mut world, server, Some(false));
    assert!(world.is_open(server) && world.received(client).ends_with(&ready(b'I')));
}

#[test]
fn a_server_that_was_promoted_is_replaced_at_its_release() {
    let mut world = World::new(with(|pool| pool.session_attrs = SessionAttrs::Standby));
    let client = world.arrival("ann", "db");
    let server = world.connecting().unwrap();
    connected(&mut world, server);
    let_in(&mut world, server, Some(true));
    world.received(client);
    world.bytes(client, &query("select 1"));
    let mut bytes = Vec::new();
    put_back::parameter_status(&mut bytes, "in_hot_standby", "off");
    bytes.extend(done("SELECT 1", b'I'));
    world.bytes(server, &bytes);
    assert!(says(&world.received(client), "SELECT 1") && !world.is_open(server));
}

#[test]
fn a_new_server_begins_with_the_connect_query_and_may_fail_it() {
    for fails in [false, true] {
        let mut world = World::new(with(|pool| {
            pool.connect_query = Some("SET work_mem = '8MB'".into());
            pool.startup = vec![("application_name".into(), "app".into())];
        }));
        let client = world.arrival("ann", "db");
        let server = world.connecting().unwrap();
        connected(&mut world, server);
        assert!(says(&world.received(server), "application_name\0app\0"));
        let_in(&mut world, server, None);
        assert_eq!(world.received(server), query("SET work_mem = '8MB'"));
        assert_eq!(world.received(client), b"");
        let mut bytes = Vec::new();
        if fails {
            let fields = weir_pgwire::ErrorFields {
                severity: "ERROR",
                sqlstate: "42704",
                message: "no such parameter",
                detail: None,
                hint: None,
            };
            put_back::error(&mut bytes, &fields);
            put_back::ready(&mut bytes, b'I');
        } else {
            bytes = done("SET", b'I');
        }
        world.bytes(server, &bytes);
        assert!(world.received(client).ends_with(&ready(b'I')) && world.is_open(server));
    }
}

#[test]
fn a_connect_query_that_leaves_a_transaction_open_is_a_failed_login() {
    let mut world = World::new(with(|pool| pool.connect_query = Some("BEGIN".into())));
    let client = world.arrival("ann", "db");
    let server = world.connecting().unwrap();
    connected(&mut world, server);
    let_in(&mut world, server, None);
    world.bytes(server, &done("BEGIN", b'T'));
    assert!(!world.is_open(server) && says(&world.received(client), "connect_query left a transaction open"));
    assert!(world.connecting().is_none(), "and the next try waits");
}

#[test]
fn the_operators_queries_reset_and_check_and_a_reset_is_followed_by_the_connect_query() {
    let mut config = with(|pool| {
        pool.policy.reset_query = "SELECT clean()".into();
        pool.policy.reset_always = true;
        pool.policy.check_query = Some("SELECT check()".into());
        pool.connect_query = Some("SELECT hello()".into());
        pool.limits.server_check_delay = Span::ZERO;
    });
    config.limits.server_check_delay = Span::ZERO;
    let mut world = World::new(config);
    let client = world.arrival("ann", "db");
    let server = world.connecting().unwrap();
    connected(&mut world, server);
    let_in(&mut world, server, None);
    world.received(server);
    world.bytes(server, &done("SELECT 1", b'I'));
    world.received(client);
    world.bytes(client, &query("select 1"));
    assert_eq!(world.received(server), query("SELECT check()"));
    world.bytes(server, &done("SELECT 1", b'I'));
    assert_eq!(world.received(server), query("select 1"));
    world.bytes(server, &done("SELECT 1", b'I'));
    assert_eq!(world.received(server), query("SELECT clean()"), "always, in transaction mode too");
    world.bytes(server, &done("SELECT 1", b'I'));
    assert_eq!(world.received(server), query("SELECT hello()"));
    world.bytes(server, &done("SELECT 1", b'I'));
    world.bytes(client, &query("select 2"));
    assert_eq!(world.received(server), query("SELECT check()"));
}

#[test]
fn a_failing_reset_query_is_ignored_where_servers_are_kept_and_costs_the_server_otherwise() {
    for policy in [OnDirty::Keep, OnDirty::Reset] {
        let mut world = World::new(with(|pool| {
            pool.policy.mode = PoolMode::Session;
            pool.policy.on_dirty = policy;
            pool.policy.reset_query = "SELECT broken()".into();
        }));
        let client = world.arrival("ann", "db");
        let server = world.server();
        world.bytes(client, &query("select 1"));
        world.bytes(server, &done("SELECT 1", b'I'));
        world.received(server);
        world.gone(client);
        assert_eq!(world.received(server), query("SELECT broken()"));
        let mut bytes = Vec::new();
        let fields = weir_pgwire::ErrorFields {
            severity: "ERROR",
            sqlstate: "42883",
            message: "function broken() does not exist",
            detail: None,
            hint: None,
        };
        put_back::error(&mut bytes, &fields);
        put_back::ready(&mut bytes, b'I');
        world.bytes(server, &bytes);
        assert_eq!(world.is_open(server), policy == OnDirty::Keep);
    }
}

#[test]
fn fast_close_ends_sessions_on_servers_that_were_given_up() {
    for fast in [false, true] {
        let mut config = with(|pool| pool.policy.mode = PoolMode::Session);
        config.server_fast_close = fast;
        let mut world = World::new(config);
        let client = world.arrival("ann", "db");
        let server = world.server();
        world.bytes(client, &query("select 1"));
        world.bytes(server, &done("SELECT 1", b'I'));
        world.received(client);
        let console = world.arrival("admin", "pgbouncer");
        world.bytes(console, &query("RECONNECT"));
        assert_eq!((world.is_open(client), world.is_open(server)), (!fast, !fast));
        assert_eq!(says(&world.received(client), "database configuration changed"), fast);
    }
}

fn resolved(world: &mut World, addresses: &[&str]) {
    let addresses: Vec<IpAddr> = addresses.iter().map(|a| a.parse().unwrap()).collect();
    world.input(Input::Resolved { name: "db.example".into(), addresses, ttl: Span::from_secs(10) });
}

#[test]
fn servers_on_vanished_addresses_are_replaced_and_no_answer_closes_none() {
    let mut config = with(|pool| {
        pool.targets = hosts(&["db.example"]);
        pool.limits.size = 2;
    });
    config.limits.size = 2;
    let mut world = World::new(config);
    let client = world.arrival("ann", "db");
    resolved(&mut world, &["127.0.0.1"]);
    let server = world.connecting().unwrap();
    connected(&mut world, server);
    let_in(&mut world, server, None);
    world.bytes(client, &query("begin"));
    world.bytes(server, &done("BEGIN", b'T'));
    resolved(&mut world, &[]);
    resolved(&mut world, &["127.0.0.1", "127.0.0.2"]);
    assert!(world.is_open(server));
    resolved(&mut world, &["127.0.0.2"]);
    assert!(world.is_open(server), "its transaction is finished first");
    world.bytes(client, &query("commit"));
    world.bytes(server, &done("COMMIT", b'I'));
    assert!(!world.is_open(server));
    // An idle one is closed at once, and one that connected before the answer when it has logged in.
    world.bytes(client, &query("select 1"));
    let server = world.connecting().unwrap();
    connected_to(&mut world, server, "127.0.0.2");
    let_in(&mut world, server, None);
    world.bytes(server, &done("SELECT 1", b'I'));
    assert!(world.is_open(server));
    resolved(&mut world, &["127.0.0.9"]);
    assert!(!world.is_open(server));
    world.bytes(client, &query("select 2"));
    let server = world.connecting().unwrap();
    connected_to(&mut world, server, "127.0.0.9");
    resolved(&mut world, &["127.0.0.3"]);
    let_in(&mut world, server, None);
    assert!(!world.is_open(server));
}

#[test]
fn a_name_is_looked_up_again_while_servers_are_on_it() {
    let mut config = with(|pool| pool.targets = hosts(&["db.example"]));
    // In this mode only a client opens another server after the last one is lost.
    config.format = weir_config::FileFormat::Ini;
    let mut world = World::new(config);
    world.arrival("ann", "db");
    resolved(&mut world, &["127.0.0.1"]);
    let server = world.connecting().unwrap();
    connected(&mut world, server);
    let_in(&mut world, server, None);
    assert_eq!(world.lookups(), 0);
    world.pass(Span::from_secs(11));
    assert_eq!(world.lookups(), 1);
    world.pass(Span::from_secs(60));
    assert_eq!(world.lookups(), 1, "one at a time");
    resolved(&mut world, &["127.0.0.1"]);
    world.pass(Span::from_secs(11));
    assert_eq!(world.lookups(), 2);
    world.gone(server);
    resolved(&mut world, &["127.0.0.1"]);
    world.pass(Span::from_secs(60));
    assert_eq!(world.lookups(), 2, "no server is left there");
}
