//! A drain closes clients, each between two of its transactions, at a pace.

use weir_base::{ConnId, PoolMode, Span};
use weir_engine::port::Signal;
use weir_pgwire::put_front;

use crate::common::*;

/// What a client gets that is closed.
const LEAVING: &str = "terminating connection due to administrator command";

/// A worker that drains over this time, and these clients of it; all have been idle for a minute.
fn idle(drain_time: Span, clients: usize) -> (World, Vec<ConnId>) {
    let mut config = config(2);
    config.drain_time = drain_time;
    config.max_clients = 1000;
    config.client_login_timeout = Span::ZERO;
    let mut world = World::new(config);
    let clients = (0..clients).map(|_| world.client()).collect();
    world.pass(Span::from_secs(60));
    (world, clients)
}

fn open(world: &World, clients: &[ConnId]) -> usize {
    clients.iter().filter(|client| world.is_open(**client)).count()
}

/// Whether a client was told to connect again, and closed.
fn was_sent_away(world: &mut World, client: ConnId) -> bool {
    let said = world.received(client);
    let is_whole = [LEAVING, "SFATAL\0", "C57P01\0", "HConnect again"].iter().all(|part| says(&said, part));
    is_whole && !world.is_open(client)
}

#[test]
fn idle_clients_are_closed_evenly_over_the_time_and_then_the_process_exits() {
    let (mut world, clients) = idle(Span::from_secs(10), 50);
    world.signal(Signal::Drain);
    for second in 1..=9 {
        world.pass(Span::from_secs(1));
        let expected = 50 - 5 * second;
        assert!((expected..expected + 3).contains(&open(&world, &clients)), "after {second} s");
        assert!(!world.has_exited());
    }
    world.pass(Span::from_secs(2));
    assert!(world.has_exited());
    assert!(clients.into_iter().all(|client| was_sent_away(&mut world, client)));
}

#[test]
fn without_a_time_all_idle_clients_are_closed_at_once_and_others_soon_after_their_answer() {
    let (mut world, mut clients) = idle(Span::ZERO, 4);
    let busy = clients.pop().expect("four");
    world.bytes(busy, &query("select 1"));
    let server = world.servers()[0];
    world.signal(Signal::Drain);
    world.pass(Span::ZERO);
    assert!(clients.into_iter().all(|client| was_sent_away(&mut world, client)));
    world.pass(Span::from_secs(60));
    assert!(world.is_open(busy) && world.received(busy).is_empty() && !world.has_exited());
    world.bytes(server, &done("SELECT 1", b'I'));
    assert_eq!(world.received(busy), done("SELECT 1", b'I'));
    world.pass(Span::from_millis(10));
    assert!(world.is_open(busy), "its application may not have seen the answer");
    world.pass(Span::from_millis(100));
    assert!(was_sent_away(&mut world, busy) && world.has_exited());
}

#[test]
fn a_client_in_a_transaction_is_not_interrupted() {
    let (mut world, clients) = idle(Span::from_secs(1), 1);
    world.bytes(clients[0], &query("begin"));
    let server = world.servers()[0];
    world.bytes(server, &done("BEGIN", b'T'));
    world.signal(Signal::Drain);
    for _ in 0..3 {
        world.pass(Span::from_secs(60));
        world.bytes(clients[0], &query("select 1"));
        world.bytes(server, &done("SELECT 1", b'T'));
        assert!(world.is_open(clients[0]) && !says(&world.received(clients[0]), LEAVING));
    }
    world.bytes(clients[0], &query("commit"));
    world.bytes(server, &done("COMMIT", b'I'));
    world.pass(Span::from_secs(1));
    assert!(was_sent_away(&mut world, clients[0]) && world.has_exited());
}

#[test]
fn what_still_runs_has_shutdown_timeout_after_the_drains_time() {
    let mut config = config(1);
    (config.drain_time, config.shutdown_timeout) = (Span::from_secs(10), Span::from_secs(5));
    let mut world = World::new(config);
    let client = world.client();
    world.bytes(client, &query("select pg_sleep(3600)"));
    world.signal(Signal::Drain);
    world.pass(Span::from_secs(14));
    assert!(!world.has_exited());
    world.pass(Span::from_secs(2));
    assert!(world.has_exited());
}

#[test]
fn nothing_is_sent_within_a_pipeline() {
    let (mut world, clients) = idle(Span::ZERO, 1);
    let mut bytes = Vec::new();
    put_front::parse(&mut bytes, b"", b"select 1\0\0\0");
    put_front::flush(&mut bytes);
    world.bytes(clients[0], &bytes);
    world.signal(Signal::Drain);
    world.pass(Span::from_secs(60));
    assert!(world.is_open(clients[0]) && world.received(clients[0]).is_empty());
    // A message of which a part is here, too.
    let (mut world, clients) = idle(Span::ZERO, 1);
    world.bytes(clients[0], &query("select 1")[..9]);
    world.signal(Signal::Drain);
    world.pass(Span::from_secs(60));
    assert!(world.is_open(clients[0]) && world.received(clients[0]).is_empty());
    world.bytes(clients[0], &query("select 1")[9..]);
    let server = world.servers()[0];
    world.bytes(server, &done("SELECT 1", b'I'));
    world.pass(Span::from_secs(1));
    assert!(world.received(clients[0]).starts_with(&done("SELECT 1", b'I')) && !world.is_open(clients[0]));
}

#[test]
fn clients_that_hold_a_session_are_closed_last_and_their_servers_are_given_back() {
    let (mut world, clients) = idle(Span::from_secs(10), 4);
    drop(world);
    let mut config = config(2);
    config.drain_time = Span::from_secs(10);
    config.client_login_timeout = Span::ZERO;
    add_pool(&mut config, "sessions", 2);
    let pool = config.pools.get_mut("sessions").expect("it was added");
    std::sync::Arc::make_mut(pool).policy.mode = PoolMode::Session;
    world = World::new(config);
    let holds = world.arrival("ann", "sessions");
    let server = world.server();
    world.bytes(holds, &query("select 1"));
    world.bytes(server, &done("SELECT 1", b'I'));
    let free: Vec<ConnId> = clients.iter().map(|_| world.client()).collect();
    world.pass(Span::from_secs(60));
    world.received(holds);
    world.received(server);
    world.signal(Signal::Drain);
    world.pass(Span::from_millis(8_500));
    assert_eq!((open(&world, &free), world.is_open(holds)), (0, true));
    // It has rested since the end of a long query only.
    world.bytes(holds, &query("select pg_sleep(3)"));
    world.pass(Span::from_secs(3));
    world.bytes(server, &done("SELECT 1", b'I'));
    assert_eq!(world.received(holds), done("SELECT 1", b'I'));
    world.pass(Span::from_millis(10));
    assert!(world.is_open(holds));
    world.received(server);
    world.pass(Span::from_secs(2));
    assert!(was_sent_away(&mut world, holds));
    assert!(world.is_open(server) && says(&world.received(server), "DISCARD ALL"), "the next client may have it");
}

#[test]
fn a_replication_connection_is_closed_when_no_other_client_is_left_and_then_the_console() {
    let (mut world, clients) = idle(Span::from_secs(10), 2);
    let console = world.arrival("admin", "weir");
    let replica = world.visitor();
    let mut bytes = Vec::new();
    put_front::startup(&mut bytes, &[("user", "ann"), ("database", "db"), ("replication", "database")], 0);
    world.bytes(replica, &bytes);
    let server = world.server();
    world.received(console);
    world.received(replica);
    world.bytes(console, &query("SHUTDOWN DRAIN"));
    assert!(says(&world.received(console), "SHUTDOWN"));
    world.pass(Span::from_secs(6));
    assert!(world.is_open(replica) && open(&world, &clients) == 1);
    world.pass(Span::from_secs(5));
    assert_eq!(open(&world, &clients), 0);
    for last in [replica, console] {
        assert!(says(&world.received(last), "pooler is shutting down") && !world.is_open(last));
    }
    assert!(!world.is_open(server) && world.has_exited());
}

#[test]
fn busy_clients_are_closed_after_a_moments_rest_in_the_second_half() {
    let (mut world, clients) = idle(Span::from_secs(10), 20);
    let server = world.servers()[0];
    world.signal(Signal::Drain);
    let mut left = Vec::new();
    for _ in 0..20 {
        world.pass(Span::from_millis(500));
        for client in clients.iter().filter(|client| world.is_open(**client)).copied().collect::<Vec<_>>() {
            world.bytes(client, &query("select 1"));
            world.bytes(server, &done("SELECT 1", b'I'));
            assert_eq!(world.received(client), done("SELECT 1", b'I'), "nothing follows an answer");
        }
        left.push(open(&world, &clients));
    }
    assert!(left[8] >= 19, "none is idle for long enough: {left:?}");
    assert!((8..=12).contains(&left[14]) && left[19] == 0, "{left:?}");
    world.pass(Span::from_secs(1));
    assert!(world.has_exited());
}

#[test]
fn a_client_that_never_rests_is_answered_by_the_error_when_the_time_is_over() {
    for mode in [PoolMode::Transaction, PoolMode::Session] {
        let mut config = config(1);
        (config.drain_time, config.policy.mode) = (Span::from_secs(1), mode);
        add_pool(&mut config, "db", 1);
        let mut world = World::new(config);
        let client = world.client();
        let server = world.servers()[0];
        world.signal(Signal::Drain);
        for _ in 0..150 {
            world.pass(Span::from_millis(10));
            world.received(server);
            world.bytes(client, &query("select 1"));
            if !world.is_open(client) {
                break;
            }
            world.bytes(server, &done("SELECT 1", b'I'));
            assert_eq!(world.received(client), done("SELECT 1", b'I'));
        }
        assert!(was_sent_away(&mut world, client), "{mode:?}");
        assert!(!says(&world.received(server), "select 1"), "nothing of the request was sent to a server");
        world.pass(Span::from_secs(1));
        assert!(world.has_exited());
    }
}

#[test]
fn term_drains_where_a_time_for_it_is_set_and_else_waits() {
    for (delay, time, drains) in [(0, 0, false), (0, 1, true), (1, 0, true)] {
        let mut config = config(1);
        (config.shutdown_delay, config.drain_time) = (Span::from_secs(delay), Span::from_secs(time));
        let mut world = World::new(config);
        let client = world.client();
        world.signal(Signal::ShutdownClients);
        world.pass(Span::from_secs(60));
        assert_eq!((world.is_open(client), world.has_exited()), (!drains, drains));
    }
}

#[test]
fn a_client_that_logs_in_when_a_drain_begins_is_closed_with_it() {
    let mut config = config(1);
    config.drain_time = Span::from_secs(1);
    let mut world = World::new(config);
    let client = world.arrival("ann", "db");
    world.signal(Signal::Drain);
    world.pass(Span::from_millis(500));
    assert!(world.is_open(client), "it waits for the first server");
    world.pass(Span::from_secs(1));
    assert!(says(&world.received(client), "pooler is shutting down") && world.has_exited());
}

#[test]
fn a_command_to_drain_ends_a_wait_for_clients_and_a_second_one_changes_nothing() {
    let (mut world, clients) = idle(Span::from_secs(10), 2);
    world.signal(Signal::Drain);
    world.pass(Span::from_secs(6));
    world.signal(Signal::Drain);
    world.pass(Span::from_secs(5));
    assert!(world.has_exited(), "it has not begun again");
    let (mut other, idle) = idle(Span::ZERO, 1);
    let console = other.arrival("admin", "weir");
    other.bytes(console, &query("SHUTDOWN WAIT_FOR_CLIENTS"));
    other.pass(Span::from_secs(60));
    assert!(other.is_open(idle[0]));
    other.signal(Signal::Drain);
    other.pass(Span::ZERO);
    assert!(was_sent_away(&mut other, idle[0]) && other.has_exited());
    assert_eq!(clients.len(), 2);
}
