//! Clients, servers and their links.

use weir_base::{ConnId, OnDirty, PoolMode, Span};
use weir_engine::port::{Input, Signal};
use weir_pgwire::{put_back, put_front};

use crate::common::*;

#[test]
fn a_client_is_welcomed_when_the_first_server_is_ready() {
    let mut world = World::new(config(2));
    let client = world.arrival("ann", "db");
    assert_eq!(world.received(client), b"", "the server's parameters are not known yet");
    let server = world.server();
    let received = world.received(client);
    assert!(says(&received, "TimeZone\0UTC") && received.ends_with(&ready(b'I')));
    let second = world.arrival("ann", "db");
    assert!(world.received(second).ends_with(&ready(b'I')), "the next one need not wait");
    assert!(world.is_open(server) && world.connecting().is_none());
}

#[test]
fn clients_wait_in_order_and_a_released_server_goes_on_in_the_same_turn() {
    let mut world = World::new(config(1));
    let first = world.arrival("ann", "db");
    let server = world.server();
    world.received(first);
    let (second, third) = (world.client(), world.client());
    for (client, text) in [(first, "one"), (second, "two"), (third, "three")] {
        world.bytes(client, &query(text));
    }
    assert_eq!(world.received(server), query("one"));
    assert!(world.is_paused(second) && world.is_paused(third) && !world.is_paused(first));
    world.bytes(server, &done("SELECT 1", b'I'));
    assert_eq!((world.received(first), world.received(server)), (done("SELECT 1", b'I'), query("two")));
    assert!(!world.is_paused(second));
    world.bytes(server, &done("SELECT 2", b'I'));
    assert_eq!((world.received(second), world.received(server)), (done("SELECT 2", b'I'), query("three")));
}

#[test]
fn a_client_that_leaves_while_it_waits_is_given_no_server() {
    let mut world = World::new(config(1));
    let first = world.arrival("ann", "db");
    let server = world.server();
    let (second, third) = (world.client(), world.client());
    for (client, text) in [(first, "one"), (second, "two"), (third, "three")] {
        world.bytes(client, &query(text));
    }
    // Both are paused. The first one is being answered, and may still want to read that.
    world.input(Input::Ending { conn: second });
    world.input(Input::Ending { conn: first });
    assert!(!world.is_open(second) && world.is_open(first) && world.is_open(third));
    world.received(server);
    world.bytes(server, &done("SELECT 1", b'I'));
    assert_eq!(world.received(server), query("three"), "the client of two has left");
}

#[test]
fn a_client_that_has_gone_is_dropped_with_a_server_that_falls_silent() {
    let mut world = World::new(config(1));
    let client = world.arrival("ann", "db");
    let server = world.server();
    world.received(client);
    let mut goodbye = Vec::new();
    put_front::terminate(&mut goodbye);
    world.bytes(client, &[query("one"), query("two"), goodbye].concat());
    assert!(world.is_paused(client), "it is answered first");
    world.pass(Span::from_secs(3_600));
    world.input(Input::Ending { conn: client });
    world.pass(Span::from_secs(50));
    world.bytes(server, &done("SELECT 1", b'I'));
    world.pass(Span::from_secs(50));
    assert!(world.is_open(client) && world.is_open(server), "as long as its server answers");
    assert_eq!(world.received(client), done("SELECT 1", b'I'));
    world.pass(Span::from_secs(11));
    assert!(!world.is_open(client) && !world.is_open(server));
}

#[test]
fn a_client_that_has_gone_is_not_dropped_while_its_messages_are_on_their_way() {
    let mut world = World::new(config(1));
    let client = world.arrival("ann", "db");
    let server = world.server();
    world.bytes(client, &query("copy t from stdin"));
    world.input(Input::Blocked { conn: server });
    world.input(Input::Ending { conn: client });
    world.pass(Span::from_secs(300));
    assert!(world.is_open(client) && world.is_open(server));
    world.input(Input::Drained { conn: server });
    assert!(!world.is_paused(client), "it is read to its end");
    world.gone(client);
    assert!(!world.is_open(server));
}

#[test]
fn an_idle_server_that_sends_anything_is_closed() {
    let mut parameter = Vec::new();
    put_back::parameter_status(&mut parameter, "TimeZone", "Asia/Tokyo");
    let fields =
        |severity| put_back::ErrorFields { severity, sqlstate: "57P01", message: "m", detail: None, hint: None };
    let (mut notice, mut error) = (Vec::new(), Vec::new());
    put_back::notice(&mut notice, &fields("WARNING"));
    put_back::error(&mut error, &fields("FATAL"));
    for unsolicited in [notice, error, parameter] {
        let mut world = World::new(config(1));
        let client = world.arrival("ann", "db");
        let server = world.server();
        world.received(client);
        world.bytes(server, &unsolicited);
        assert!(!world.is_open(server) && world.is_open(client));
        assert_eq!(world.received(client), b"", "it was not meant for a client");
    }
}

#[test]
fn a_transaction_keeps_its_server() {
    let mut world = World::new(config(1));
    let first = world.arrival("ann", "db");
    let server = world.server();
    let second = world.client();
    world.bytes(first, &query("begin"));
    world.bytes(second, &query("select 2"));
    world.bytes(server, &done("BEGIN", b'T'));
    assert_eq!(world.received(server), query("begin"));
    world.bytes(first, &query("commit"));
    world.bytes(server, &done("COMMIT", b'I'));
    assert!(world.received(server).ends_with(&query("select 2")));
}

#[test]
fn a_client_that_leaves_in_a_transaction_costs_its_server() {
    let mut world = World::new(config(1));
    let client = world.arrival("ann", "db");
    let server = world.server();
    world.bytes(client, &query("begin"));
    world.bytes(server, &done("BEGIN", b'T'));
    world.gone(client);
    assert!(!world.is_open(server));
}

#[test]
fn a_client_that_leaves_between_transactions_leaves_its_server_to_others() {
    let mut world = World::new(config(1));
    let client = world.arrival("ann", "db");
    let server = world.server();
    world.bytes(client, &query("select 1"));
    world.bytes(server, &done("SELECT 1", b'I'));
    world.gone(client);
    assert!(world.is_open(server));
    let next = world.client();
    world.received(server);
    world.bytes(next, &query("select 2"));
    assert_eq!(world.received(server), query("select 2"));
}

#[test]
fn a_dirty_server_is_reset_closed_or_kept() {
    for policy in [OnDirty::Reset, OnDirty::Refuse, OnDirty::Close, OnDirty::Keep] {
        let mut config = config(1);
        config.policy.on_dirty = policy;
        add_pool(&mut config, "db", 1);
        let mut world = World::new(config);
        let client = world.arrival("ann", "db");
        let server = world.server();
        let second = world.client();
        // Refused only if the text certainly leaves state after its transaction.
        let text = if policy == OnDirty::Refuse { "call p()" } else { "set work_mem = '1MB'" };
        world.bytes(client, &query(text));
        world.received(server);
        world.bytes(second, &query("select 2"));
        world.bytes(server, &done("SET", b'I'));
        let received = world.received(server);
        match policy {
            OnDirty::Reset | OnDirty::Refuse => {
                assert!(says(&received, "RESET ALL") && !says(&received, "select 2"), "the next client waits for it");
                world.bytes(server, &done("RESET", b'I'));
                assert_eq!(world.received(server), query("select 2"));
            }
            OnDirty::Close => assert!(!world.is_open(server) && world.connecting().is_some()),
            OnDirty::Keep => assert_eq!(received, query("select 2")),
        }
    }
}

#[test]
fn a_full_client_stops_its_server_and_a_full_server_its_client() {
    let mut world = World::new(config(1));
    let client = world.arrival("ann", "db");
    let server = world.server();
    world.bytes(client, &query("select 1"));
    world.input(Input::Blocked { conn: client });
    assert!(world.is_paused(server) && world.is_paused(client));
    world.input(Input::Drained { conn: client });
    assert!(!world.is_paused(server) && !world.is_paused(client));
    world.input(Input::Blocked { conn: server });
    assert!(world.is_paused(client) && !world.is_paused(server));
    world.input(Input::Drained { conn: server });
    assert!(!world.is_paused(client));
}

#[test]
fn a_server_that_was_stopped_for_one_client_is_read_from_for_the_next() {
    let mut world = World::new(config(1));
    let client = world.arrival("ann", "db");
    let server = world.server();
    world.bytes(client, &query("select 1"));
    world.bytes(server, &done("SELECT 1", b'I'));
    world.bytes(client, &query("select 2"));
    world.input(Input::Blocked { conn: client });
    assert!(world.is_paused(server));
    world.gone(client);
    assert!(!world.is_open(server), "it was not done");
}

#[test]
fn no_error_is_sent_in_the_middle_of_a_servers_message() {
    let mut world = World::new(config(1));
    let client = world.arrival("ann", "db");
    let server = world.server();
    world.bytes(client, &query("select 1"));
    world.received(client);
    let mut row = Vec::new();
    put_back::data_row(&mut row, &[Some(&[b'x'; 100])]);
    world.bytes(server, &row[..50]);
    world.gone(server);
    assert_eq!(world.received(client), row[..50], "an error would be read as the rest of the row");
    assert!(!world.is_open(client));
}

#[test]
fn a_client_whose_server_is_lost_between_messages_gets_an_error() {
    let mut world = World::new(config(1));
    let client = world.arrival("ann", "db");
    let server = world.server();
    world.bytes(client, &query("select 1"));
    world.received(client);
    world.gone(server);
    let received = world.received(client);
    assert!(says(&received, "server conn crashed?") && says(&received, "see PostgreSQL's log"));
    assert!(!world.is_open(client));
}

#[test]
fn a_query_that_takes_too_long_ends_with_its_client_and_server() {
    let mut config = config(1);
    config.limits.query_timeout = Span::from_secs(5);
    add_pool(&mut config, "db", 1);
    let mut world = World::new(config);
    let client = world.arrival("ann", "db");
    let server = world.server();
    world.bytes(client, &query("select 1"));
    world.pass(Span::from_secs(4));
    assert!(world.is_open(client));
    world.pass(Span::from_secs(2));
    assert!(says(&world.received(client), "query timeout"));
    assert!(!world.is_open(client) && !world.is_open(server));
}

#[test]
fn answers_that_came_in_time_are_not_too_late_because_weir_was_stopped() {
    // As after a SIGSTOP: all deadlines have passed, and the first input is one answer of two.
    let mut config = config(2);
    config.limits.query_timeout = Span::from_secs(5);
    add_pool(&mut config, "db", 2);
    let mut world = World::new(config);
    let first = world.arrival("ann", "db");
    let one = world.server();
    let second = world.client();
    world.bytes(first, &query("select 1"));
    world.bytes(second, &query("select 2"));
    let two = world.server();
    world.now = world.now + Span::from_secs(60);
    world.bytes(one, &done("SELECT 1", b'I'));
    world.bytes(two, &done("SELECT 2", b'I'));
    world.input(Input::Tick);
    assert!(world.received(first).ends_with(&done("SELECT 1", b'I')) && world.is_open(first));
    assert!(world.received(second).ends_with(&done("SELECT 2", b'I')) && world.is_open(second));
}

#[test]
fn a_client_that_waits_too_long_for_a_server_gets_an_error() {
    let mut config = config(1);
    config.limits.query_wait_timeout = Span::from_secs(5);
    add_pool(&mut config, "db", 1);
    let mut world = World::new(config);
    let first = world.arrival("ann", "db");
    world.server();
    let second = world.client();
    world.bytes(first, &query("select 1"));
    world.bytes(second, &query("select 2"));
    world.pass(Span::from_secs(6));
    assert!(says(&world.received(second), "query_wait_timeout"));
    assert!(world.is_open(first) && !world.is_open(second));
}

#[test]
fn a_client_in_session_mode_goes_on_after_a_pipeline_that_was_too_deep() {
    let mut config = config(1);
    config.policy.mode = PoolMode::Session;
    add_pool(&mut config, "db", 1);
    let mut world = World::new(config);
    let client = world.arrival("ann", "db");
    let server = world.server();
    world.received(client);
    let mut pipeline = Vec::new();
    for _ in 0..32_767 {
        put_front::bind_no_params(&mut pipeline, b"", b"");
        put_front::execute(&mut pipeline, b"", 0);
    }
    put_front::sync(&mut pipeline);
    pipeline.extend_from_slice(&query("select 1"));
    pipeline.extend_from_slice(&query("select 2"));
    world.bytes(client, &pipeline);
    assert!(world.is_paused(client), "the server owes all that may be owed");
    world.received(server);
    let fields =
        weir_pgwire::ErrorFields { severity: "ERROR", sqlstate: "26000", message: "no", detail: None, hint: None };
    let mut answers = Vec::new();
    put_back::error(&mut answers, &fields);
    put_back::ready(&mut answers, b'I');
    answers.extend_from_slice(&done("SELECT 1", b'I'));
    world.bytes(server, &answers);
    assert_eq!(world.received(server), query("select 2"));
    assert!(!world.is_paused(client));
}

#[test]
fn a_cancel_reaches_only_what_runs_and_holds_the_server_until_it_is_over() {
    let mut world = World::new(config(1));
    let client = world.arrival("ann", "db");
    let server = world.server();
    let welcome = world.received(client);
    let at = welcome.windows(5).position(|w| w == [b'K', 0, 0, 0, 12]).expect("a key") + 5;
    let pid = u32::from_be_bytes(welcome[at..at + 4].try_into().unwrap());
    let key = welcome[at + 4..at + 8].to_vec();
    let ask = |world: &mut World, key: &[u8]| {
        let visitor = world.visitor();
        let mut request = Vec::new();
        put_front::cancel_request(&mut request, pid, key);
        world.bytes(visitor, &request);
        visitor
    };
    let idle = ask(&mut world, &key);
    assert!(!world.is_open(idle) && world.connecting().is_none(), "nothing runs");
    let second = world.client();
    world.bytes(client, &query("select 1"));
    world.bytes(second, &query("select 2"));
    let wrong = ask(&mut world, &[0; 4]);
    assert!(!world.is_open(wrong) && world.connecting().is_none(), "a wrong key gets no reply");
    let asker = ask(&mut world, &key);
    let line = world.connecting().expect("a connection of its own");
    world.input(Input::Connected { conn: line, local: String::new(), remote: None });
    let mut request = Vec::new();
    put_front::cancel_request(&mut request, 77, &[1, 2, 3, 4]);
    assert_eq!(world.received(line), request);
    world.received(server);
    world.bytes(server, &done("SELECT 1", b'I'));
    assert_eq!(world.received(server), b"", "a late cancel must not hit the next client");
    assert!(world.is_open(asker));
    world.gone(line);
    assert!(!world.is_open(asker));
    assert_eq!(world.received(server), query("select 2"));
}

#[test]
fn pause_waits_for_quiet_and_resume_goes_on() {
    let mut world = World::new(config(1));
    let client = world.arrival("ann", "db");
    let server = world.server();
    let second = world.client();
    let admin = world.arrival("admin", "pgbouncer");
    world.bytes(client, &query("begin"));
    world.bytes(server, &done("BEGIN", b'T'));
    world.received(admin);
    world.bytes(admin, &query("PAUSE"));
    assert_eq!(world.received(admin), b"", "a transaction is under way");
    world.bytes(second, &query("select 2"));
    world.bytes(client, &query("commit"));
    world.received(server);
    world.bytes(server, &done("COMMIT", b'I'));
    assert_eq!(world.received(admin), done("PAUSE", b'I'));
    assert!(!says(&world.received(server), "select 2"));
    world.bytes(admin, &query("RESUME"));
    let server = if world.is_open(server) { server } else { world.server() };
    assert_eq!(world.received(server), query("select 2"));
}

#[test]
fn reload_changes_pools_without_disconnecting_clients() {
    let mut world = World::new(config(1));
    let client = world.arrival("ann", "db");
    let server = world.server();
    let second = world.client();
    world.bytes(client, &query("begin"));
    world.bytes(second, &query("select 2"));
    world.signal(Signal::Reload);
    let mut larger = config(2);
    add_pool(&mut larger, "other", 1);
    world.config_read(larger);
    let another = world.server();
    assert_eq!(world.received(another), query("select 2"), "there is room for one more");
    let newcomer = world.arrival("ann", "other");
    assert!(world.connecting().is_some() && world.is_open(newcomer));
    world.signal(Signal::Reload);
    let mut without = config(2);
    without.pools.clear();
    world.config_read(without);
    assert!(world.is_open(client) && world.is_open(server), "a transaction continues");
    let late = world.arrival("ann", "db");
    assert!(says(&world.received(late), "no such database"));
}

#[test]
fn term_waits_for_clients_and_lets_no_more_in() {
    let mut world = World::new(config(1));
    let client = world.client();
    world.signal(Signal::ShutdownClients);
    assert!(world.port.asked.contains(&Call::Accept(false)) && !world.has_exited());
    let late = world.arrival("ann", "db");
    assert!(!world.is_open(late));
    world.gone(client);
    assert!(world.has_exited());
}

#[test]
fn a_shutdown_with_a_delay_serves_new_clients_until_it_begins() {
    for (signals, exits_early) in [(1, false), (2, true)] {
        let mut config = config(1);
        config.shutdown_delay = Span::from_secs(5);
        let mut world = World::new(config);
        let client = world.client();
        (0..signals).for_each(|_| world.signal(Signal::ShutdownClients));
        assert_eq!(world.has_exited(), exits_early, "a second TERM does not wait");
        if exits_early {
            continue;
        }
        world.pass(Span::from_secs(4));
        let late = world.arrival("ann", "db");
        assert!(world.is_open(late) && !world.port.asked.contains(&Call::Accept(false)));
        world.bytes(client, &query("begin"));
        world.pass(Span::from_secs(2));
        assert!(world.port.asked.contains(&Call::Accept(false)) && !world.has_exited());
        let later = world.arrival("ann", "db");
        assert!(!world.is_open(later) && !world.is_open(late) && world.is_open(client));
        world.gone(client);
        assert!(world.has_exited());
    }
}

#[test]
fn int_ends_the_delay_of_term() {
    let mut config = config(1);
    config.shutdown_delay = Span::from_secs(5);
    let mut world = World::new(config);
    world.client();
    world.signal(Signal::ShutdownClients);
    world.signal(Signal::ShutdownServers);
    assert!(world.port.asked.contains(&Call::Accept(false)));
    assert!(world.has_exited(), "no server is busy");
}

#[test]
fn the_pools_of_users_with_names_alike_are_spread_over_the_workers() {
    let mut config = config(1);
    config.max_clients = 1_000;
    let mut world = World::with_workers(config, 4);
    let arrivals: Vec<ConnId> = (0..200).map(|number| world.arrival(&format!("tenant_{number:03}"), "db")).collect();
    let elsewhere = arrivals.iter().filter(|conn| world.is_detaching(**conn)).count();
    assert!((100..190).contains(&elsewhere), "three in four, about: {elsewhere}");
}

#[test]
fn a_client_of_another_workers_pool_travels_there() {
    let mut config = config(1);
    (0..20).for_each(|i| add_pool(&mut config, &format!("db{i}"), 1));
    let mut world = World::with_workers(config, 2);
    let travels = (0..20).find_map(|i| {
        let conn = world.arrival("ann", &format!("db{i}"));
        world.port.asked.contains(&Call::Detach(conn)).then_some(conn)
    });
    let conn = travels.expect("some pool lives with the other worker");
    world.input(Input::Detached { conn });
    let (to, _, socket) = world.port.messages.pop_back().expect("it is sent");
    assert_eq!((to.0, socket), (1, Some(conn)));
}

#[test]
fn clients_beyond_the_limit_get_an_error() {
    let mut config = config(1);
    config.max_clients = 1;
    let mut world = World::new(config);
    let client = world.client();
    let second = world.arrival("ann", "db");
    assert!(says(&world.received(second), "no more connections allowed"));
    assert!(world.is_open(client) && !world.is_open(second));
    world.gone(client);
    let third = world.client();
    assert!(world.is_open(third), "a place is free again");
}

#[test]
fn a_login_that_takes_too_long_is_ended() {
    let mut world = World::new(config(1));
    let visitor = world.visitor();
    world.pass(Span::from_secs(3600));
    assert!(says(&world.received(visitor), "client_login_timeout"));
    assert!(!world.is_open(visitor));
}
