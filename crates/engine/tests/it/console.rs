//! Commands at the console, executed by one worker's engine, an input at a time.

use weir_base::{ConnId, Span};
use weir_config::Config;
use weir_engine::port::{Input, Signal};
use weir_pgwire::put_front;

use crate::common::*;

/// An operator with all rights; the login messages are dropped.
fn console(world: &mut World) -> ConnId {
    let console = world.arrival("admin", "pgbouncer");
    assert!(world.received(console).ends_with(&ready(b'I')));
    console
}

/// Sends a command; returns the immediate reply.
fn command(world: &mut World, console: ConnId, text: &str) -> Vec<u8> {
    world.bytes(console, &query(text));
    world.received(console)
}

/// Sends a command that must succeed at once.
fn obeyed(world: &mut World, console: ConnId, text: &str, tag: &str) {
    let received = command(world, console, text);
    assert_eq!(received, done(tag, b'I'), "{text}: {}", String::from_utf8_lossy(&received));
}

/// Sends a command that must fail at once with this text.
fn fails(world: &mut World, console: ConnId, text: &str, why: &str) {
    let received = command(world, console, text);
    assert!(says(&received, why) && received.ends_with(&ready(b'I')), "{text}: {}", String::from_utf8_lossy(&received));
}

/// The number of messages of this kind.
fn count(mut received: &[u8], tag: u8) -> usize {
    let mut count = 0;
    while let [first, length @ ..] = received {
        let length = u32::from_be_bytes(length[..4].try_into().expect("four bytes")) as usize;
        count += usize::from(*first == tag);
        received = &received[1 + length..];
    }
    count
}

/// A client whose query runs on the only server, and that server.
fn at_work(config: Config) -> (World, ConnId, ConnId) {
    let mut world = World::new(config);
    let client = world.arrival("ann", "db");
    let server = world.server();
    world.received(client);
    world.bytes(client, &query("select 1"));
    world.received(server);
    (world, client, server)
}

#[test]
fn an_operator_may_leave_before_the_answer_comes() {
    let mut world = World::new(config(1));
    for text in ["SHOW VERSION", "SHOW POOLS", "RECONNECT"] {
        let console = console(&mut world);
        world.bytes_only(console, &query(text));
        // The worker has the command; its answer is under way.
        assert!(world.deliver_message(), "{text}");
        world.reset(console);
        assert_eq!(world.received(console), b"", "{text}");
    }
}

#[test]
fn a_suspend_is_answered_when_all_sockets_are_flushed() {
    let (mut world, client, server) = at_work(config(1));
    let console = console(&mut world);
    world.input(Input::Blocked { conn: client });
    assert_eq!(command(&mut world, console, "SUSPEND"), b"", "the client has not taken everything");
    assert!(world.is_paused(client) && world.is_paused(server));
    world.input(Input::Drained { conn: client });
    assert_eq!(world.received(console), done("SUSPEND", b'I'));
    assert!(world.is_paused(client) && world.is_paused(server), "nothing is read until RESUME");
    assert!(says(&command(&mut world, console, "SHOW STATE"), "suspended\0\0\0\x03yes"));
    fails(&mut world, console, "SUSPEND", "already suspended/paused");
    fails(&mut world, console, "PAUSE db", "already suspended/paused");
    fails(&mut world, console, "KILL", "already suspended/paused");
    obeyed(&mut world, console, "RESUME", "RESUME");
    assert!(!world.is_paused(client) && !world.is_paused(server));
    world.bytes(server, &done("SELECT 1", b'I'));
    assert_eq!(world.received(client), done("SELECT 1", b'I'));
    assert!(world.is_open(server), "servers are kept");
}

#[test]
fn a_suspend_keeps_idle_servers_and_hands_none_out() {
    let mut world = World::new(config(1));
    let client = world.client();
    let second = world.client();
    let server = ConnId::new(2, 1);
    assert!(world.is_open(server));
    world.received(server);
    world.bytes(client, &query("select 1"));
    world.bytes(second, &query("select 2"));
    assert!(world.is_paused(second), "it waits");
    world.bytes(server, &done("SELECT 1", b'I'));
    world.bytes(server, &done("SELECT 2", b'I'));
    world.received(server);
    let console = console(&mut world);
    obeyed(&mut world, console, "SUSPEND", "SUSPEND");
    world.pass(Span::from_secs(4000));
    assert!(world.is_open(server), "its time-outs sleep");
    let newcomer = world.visitor();
    assert!(world.is_paused(newcomer), "newcomers wait until RESUME");
    obeyed(&mut world, console, "RESUME", "RESUME");
    assert!(!world.is_paused(client) && !world.is_paused(second) && !world.is_paused(newcomer));
}

#[test]
fn no_time_out_passes_during_a_suspend() {
    let (mut world, client, server) = at_work(config(1));
    let second = world.client();
    world.bytes(second, &query("select 2"));
    let console = console(&mut world);
    obeyed(&mut world, console, "SUSPEND", "SUSPEND");
    world.pass(Span::from_secs(600));
    assert!(world.is_open(client) && world.is_open(server) && world.is_open(second));
    world.signal(Signal::Resume);
    assert!(!world.is_open(second), "query_wait_timeout was due long ago");
    assert!(world.is_open(client) && world.is_open(server));
}

#[test]
fn what_can_not_be_flushed_is_closed_after_suspend_timeout() {
    let mut config = config(1);
    config.suspend_timeout = Span::from_secs(10);
    let (mut world, client, server) = at_work(config);
    let console = console(&mut world);
    world.input(Input::Blocked { conn: client });
    assert_eq!(command(&mut world, console, "SUSPEND"), b"");
    world.pass(Span::from_secs(9));
    assert!(world.is_open(client) && world.received(console).is_empty());
    world.pass(Span::from_secs(2));
    assert!(!world.is_open(client) && says(&world.received(client), "suspend_timeout"));
    assert!(!world.is_open(server), "it was in the middle of something");
    assert_eq!(world.received(console), done("SUSPEND", b'I'));
}

#[test]
fn a_suspend_ends_when_the_last_operator_leaves() {
    let (mut world, client, server) = at_work(config(1));
    let (first, second) = (console(&mut world), console(&mut world));
    obeyed(&mut world, first, "SUSPEND", "SUSPEND");
    world.gone(first);
    assert!(world.is_paused(client) && world.is_paused(server));
    world.gone(second);
    assert!(!world.is_paused(client) && !world.is_paused(server));
}

#[test]
fn a_suspend_that_is_ended_early_is_answered_with_an_error() {
    let (mut world, client, _) = at_work(config(1));
    let console = console(&mut world);
    world.input(Input::Blocked { conn: client });
    assert_eq!(command(&mut world, console, "SUSPEND"), b"");
    world.signal(Signal::Resume);
    assert!(says(&world.received(console), "pooler is not paused/suspended"));
}

/// The process id and the secret in the login messages.
fn key_of(received: &[u8]) -> (u32, Vec<u8>) {
    let at = received.windows(5).position(|w| w == [b'K', 0, 0, 0, 12]).expect("a key") + 5;
    let pid = u32::from_be_bytes(received[at..at + 4].try_into().expect("four bytes"));
    (pid, received[at + 4..at + 8].to_vec())
}

#[test]
fn a_pause_or_a_wait_is_withdrawn_by_a_cancel() {
    for text in ["PAUSE", "PAUSE db", "WAIT_CLOSE"] {
        let (mut world, _, server) = at_work(config(1));
        let other = console(&mut world);
        obeyed(&mut world, other, "RECONNECT", "RECONNECT");
        let console = world.arrival("admin", "pgbouncer");
        let (pid, secret) = key_of(&world.received(console));
        assert_eq!(command(&mut world, console, text), b"", "{text} waits");
        let canceller = world.visitor();
        let mut request = Vec::new();
        put_front::cancel_request(&mut request, pid, &secret);
        world.bytes(canceller, &request);
        assert!(says(&world.received(console), "canceling statement due to user request"), "{text}");
        world.bytes(server, &done("SELECT 1", b'I'));
        assert_eq!(world.received(console), b"", "{text}: no operator is answered twice");
        fails(&mut world, other, "RESUME", "pooler is not paused/suspended");
    }
}

#[test]
fn wait_close_is_answered_when_the_replaced_servers_are_gone() {
    let (mut world, _, server) = at_work(config(1));
    let console = console(&mut world);
    obeyed(&mut world, console, "WAIT_CLOSE", "WAIT_CLOSE");
    obeyed(&mut world, console, "RECONNECT db", "RECONNECT");
    assert_eq!(command(&mut world, console, "WAIT_CLOSE db"), b"", "it still works");
    world.bytes(server, &done("SELECT 1", b'I'));
    assert!(!world.is_open(server));
    assert_eq!(world.received(console), done("WAIT_CLOSE", b'I'));
    fails(&mut world, console, "WAIT_CLOSE nowhere", "no such database: nowhere");
}

#[test]
fn no_command_takes_the_entry_for_all_other_databases_as_a_name() {
    let mut config = config(1);
    config.fallback = config.pools.values().next().cloned();
    let mut world = World::new(config);
    let client = world.arrival("ann", "db");
    let _server = world.server();
    world.received(client);
    let console = console(&mut world);
    for verb in ["PAUSE", "RESUME", "RECONNECT", "RETRY", "KILL", "WAIT_CLOSE", "DISABLE", "ENABLE"] {
        for name in ["*", "\"*\""] {
            fails(&mut world, console, &format!("{verb} {name}"), "no such database: *");
            fails(&mut world, console, &format!("{verb} {name}"), "without a name apply to all databases");
        }
    }
    assert!(world.is_open(client));
    obeyed(&mut world, console, "PAUSE elsewhere", "PAUSE");
}

#[test]
fn a_missing_database_is_named_first_also_while_everything_is_paused() {
    let mut world = World::new(config(1));
    let console = console(&mut world);
    obeyed(&mut world, console, "PAUSE", "PAUSE");
    for verb in ["PAUSE", "KILL", "RESUME"] {
        fails(&mut world, console, &format!("{verb} nowhere"), "no such database: nowhere");
    }
    fails(&mut world, console, "PAUSE db", "already suspended/paused");
    fails(&mut world, console, " ; ", "invalid command ' ; ', use SHOW HELP;");
}

#[test]
fn a_disabled_database_takes_no_new_clients_and_keeps_the_old_ones() {
    let (mut world, client, server) = at_work(config(1));
    let console = console(&mut world);
    obeyed(&mut world, console, "DISABLE db", "DISABLE");
    let late = world.arrival("ann", "db");
    assert!(!world.is_open(late) && says(&world.received(late), "database \"db\" is disabled"));
    world.bytes(server, &done("SELECT 1", b'I'));
    assert_eq!(world.received(client), done("SELECT 1", b'I'));
    world.signal(Signal::Reload);
    world.config_read(config(2));
    let late = world.arrival("ann", "db");
    assert!(!world.is_open(late), "a reload changes nothing about it");
    obeyed(&mut world, console, "ENABLE db", "ENABLE");
    world.client();
    for verb in ["DISABLE", "ENABLE"] {
        fails(&mut world, console, verb, "a database is required");
        fails(&mut world, console, &format!("{verb} nowhere"), "no such database: nowhere");
        let verb = verb.to_lowercase();
        fails(&mut world, console, &format!("{verb} pgbouncer"), &format!("cannot {verb} admin db: pgbouncer"));
    }
}

#[test]
fn a_reload_that_removes_a_database_forgets_what_was_stopped() {
    let mut world = World::new(config(1));
    let console = console(&mut world);
    obeyed(&mut world, console, "DISABLE db", "DISABLE");
    obeyed(&mut world, console, "PAUSE db", "PAUSE");
    let mut without = config(1);
    without.pools.clear();
    for next in [without, config(1)] {
        world.signal(Signal::Reload);
        world.config_read(next);
    }
    world.arrival("ann", "db");
    assert!(world.connecting().is_some(), "it is neither disabled nor paused");
}

#[test]
fn a_killed_database_stays_paused_until_resume() {
    for (kill, resume) in [("KILL", "RESUME"), ("KILL", "RESUME db"), ("KILL db", "RESUME db"), ("KILL db", "RESUME")] {
        let (mut world, client, server) = at_work(config(1));
        let console = console(&mut world);
        obeyed(&mut world, console, kill, "KILL");
        assert!(!world.is_open(client) && !world.is_open(server));
        assert!(says(&world.received(client), "database removed"));
        let next = world.client();
        world.bytes(next, &query("select 2"));
        assert!(world.connecting().is_none(), "{kill}: nothing happens before {resume}");
        obeyed(&mut world, console, resume, "RESUME");
        let server = world.server();
        assert_eq!(world.received(server), query("select 2"));
        fails(&mut world, console, "RESUME db", "database db is not paused");
    }
}

#[test]
fn pause_and_resume_refuse_with_the_texts_that_scripts_know() {
    let mut world = World::new(config(1));
    let console = console(&mut world);
    fails(&mut world, console, "RESUME", "pooler is not paused/suspended");
    fails(&mut world, console, "RESUME db", "database db is not paused");
    fails(&mut world, console, "PAUSE nowhere", "no such database: nowhere");
    fails(&mut world, console, "PAUSE pgbouncer", "cannot pause admin db: pgbouncer");
    obeyed(&mut world, console, "PAUSE", "PAUSE");
    fails(&mut world, console, "PAUSE", "already suspended/paused");
    fails(&mut world, console, "PAUSE db", "already suspended/paused");
    fails(&mut world, console, "RESUME db", "database db is not paused");
    obeyed(&mut world, console, "RESUME", "RESUME");
    obeyed(&mut world, console, "PAUSE db", "PAUSE");
    obeyed(&mut world, console, "PAUSE db", "PAUSE");
    fails(&mut world, console, "SUSPEND", "cannot suspend with paused databases");
    obeyed(&mut world, console, "PAUSE", "PAUSE");
    obeyed(&mut world, console, "RESUME db", "RESUME");
    world.arrival("ann", "db");
    assert!(world.connecting().is_none(), "the pause of everything still holds");
    obeyed(&mut world, console, "RESUME", "RESUME");
    assert!(world.connecting().is_some());
}

#[test]
fn a_pause_that_another_operator_ends_is_answered_with_an_error() {
    let (mut world, ..) = at_work(config(1));
    let (first, second) = (console(&mut world), console(&mut world));
    assert_eq!(command(&mut world, first, "PAUSE db"), b"");
    obeyed(&mut world, second, "RESUME db", "RESUME");
    assert!(says(&world.received(first), "pooler is not paused/suspended"));
}

#[test]
fn a_shutdown_during_a_suspend_is_immediate() {
    let (mut world, ..) = at_work(config(1));
    let console = console(&mut world);
    obeyed(&mut world, console, "SUSPEND", "SUSPEND");
    world.signal(Signal::ShutdownClients);
    assert!(world.has_exited());
}

/// The most rows that one input may make.
const PAGE: usize = 256;

#[test]
fn a_table_of_all_clients_comes_in_pieces_and_others_are_served_between_them() {
    let mut config = config(1);
    config.max_clients = 100_000;
    let mut world = World::new(config);
    let client = world.arrival("ann", "db");
    let server = world.server();
    world.idle_clients(50_000);
    let console = console(&mut world);
    world.received(client);
    world.bytes_only(console, &query("SHOW CLIENTS"));
    let (mut rows, mut turns) = (0, 0);
    loop {
        let received = world.received(console);
        let piece = count(&received, b'D');
        assert!(piece <= PAGE, "{piece} rows in one turn");
        (rows, turns) = (rows + piece, turns + 1);
        if received.ends_with(&ready(b'I')) {
            break;
        }
        world.bytes_only(client, &query("select 1"));
        world.bytes_only(server, &done("SELECT 1", b'I'));
        assert_eq!(world.received(client), done("SELECT 1", b'I'), "a query does not wait for the table");
        assert!(world.port.messages.len() <= 1, "one piece at a time is under way");
        assert!(world.deliver_message(), "the table continues");
    }
    assert_eq!(rows, 50_002, "the idle clients, the client and the console");
    assert!(turns > 50_000 / PAGE);
}

#[test]
fn a_console_that_does_not_read_is_sent_no_more() {
    let mut world = World::new(config(1));
    let client = world.arrival("ann", "db");
    world.server();
    world.idle_clients(5_000);
    let console = console(&mut world);
    let _ = client;
    let (mut rows, mut rounds) = (0, 0);
    world.bytes_only(console, &query("SHOW SOCKETS"));
    loop {
        // The socket accepts nothing; the page under way is still sent, and then no more are made.
        world.input_only(Input::Blocked { conn: console });
        while world.deliver_message() {}
        let received = world.received(console);
        let piece = count(&received, b'D');
        assert!(piece <= 2 * PAGE, "{piece} rows for a console that does not read");
        (rows, rounds) = (rows + piece, rounds + 1);
        world.input_only(Input::Drained { conn: console });
        if received.ends_with(&ready(b'I')) {
            break;
        }
    }
    assert_eq!(rows, 5_003, "clients, the console and a server");
    assert!(rounds > 5_000 / PAGE / 2);
    assert!(!world.is_paused(console), "it may type again");
}

#[test]
fn each_command_of_a_pipeline_has_a_turn_of_its_own() {
    for text in ["SHOW HELP", "SHOW VERSION", "SHOW CONFIG", "nonsense", "SET verbose = 0"] {
        let mut world = World::new(config(1));
        let console = console(&mut world);
        world.bytes_only(console, &query(text).repeat(100));
        let (mut answered, mut turns) = (0, 0);
        loop {
            let answers = count(&world.received(console), b'Z');
            assert!(answers <= 1, "{text}: {answers} answers in a turn");
            (answered, turns) = (answered + answers, turns + 1);
            if !world.deliver_message() {
                break;
            }
        }
        assert!(answered == 100 && turns >= 100 && !world.is_paused(console), "{text}: {answered} in {turns}");
    }
}

#[test]
fn messages_of_a_console_that_are_no_commands_are_handled_some_at_a_time() {
    let mut world = World::new(config(1));
    let console = console(&mut world);
    let sync = [b'S', 0, 0, 0, 4];
    world.bytes_only(console, &[sync.repeat(10_000), query("SHOW VERSION"), sync[..3].to_vec()].concat());
    let (mut answered, mut most) = (0, 0);
    loop {
        let answers = count(&world.received(console), b'Z');
        (answered, most) = (answered + answers, answers.max(most));
        if !world.deliver_message() {
            break;
        }
    }
    assert!(answered == 10_001 && most < 300, "{answered}, and {most} at once");
    assert!(!world.is_paused(console), "the rest of its last message may come");
}

#[test]
fn a_console_that_does_not_read_has_no_further_command_run() {
    let mut world = World::new(config(1));
    let console = console(&mut world);
    world.bytes_only(console, &query("SHOW HELP").repeat(50));
    world.input_only(Input::Blocked { conn: console });
    while world.deliver_message() {}
    assert_eq!(count(&world.received(console), b'Z'), 1);
    world.input_only(Input::Drained { conn: console });
    while world.deliver_message() {}
    assert_eq!(count(&world.received(console), b'Z'), 49);
    assert!(!world.is_paused(console));
}

#[test]
fn a_table_that_is_being_sent_ends_at_a_cancel_or_with_its_console() {
    let mut world = World::new(config(1));
    world.arrival("ann", "db");
    world.server();
    world.idle_clients(1_000);
    let console = world.arrival("admin", "pgbouncer");
    let (pid, secret) = key_of(&world.received(console));
    let canceller = world.visitor();
    world.bytes_only(console, &query("SHOW CLIENTS"));
    let mut request = Vec::new();
    put_front::cancel_request(&mut request, pid, &secret);
    world.bytes_only(canceller, &request);
    assert!(says(&world.received(console), "canceling statement due to user request"));
    while world.deliver_message() {}
    assert_eq!(count(&world.received(console), b'D'), 0, "pages that come too late are dropped");
    world.bytes_only(console, &query("SHOW CLIENTS"));
    world.gone(console);
    while world.deliver_message() {}
}

#[test]
fn a_long_table_of_the_configuration_is_sent_in_pieces_too() {
    let mut config = config(1);
    for number in 0..1_000 {
        add_pool(&mut config, &format!("db{number}"), 1);
    }
    let mut world = World::new(config);
    let console = console(&mut world);
    world.bytes_only(console, &query("SHOW DATABASES"));
    let mut rows = 0;
    while world.deliver_message() {
        let piece = count(&world.received(console), b'D');
        assert!(piece <= PAGE);
        rows += piece;
    }
    assert_eq!(rows, 1_002, "the databases and the console");
}

#[test]
fn set_changes_a_setting_at_once_and_a_reload_restores_the_files_value() {
    let mut world = World::new(config(1));
    let console = console(&mut world);
    obeyed(&mut world, console, "SET max_client_conn = 77", "SET max_client_conn=77");
    obeyed(&mut world, console, "SET log_connections TO 1", "SET log_connections=1");
    let row = |world: &mut World| {
        let received = command(world, console, "SHOW CONFIG");
        let at = received.windows(15).position(|w| w == b"max_client_conn").expect("a row") + 15;
        let length = u32::from_be_bytes(received[at..at + 4].try_into().expect("four bytes")) as usize;
        String::from_utf8(received[at + 4..at + 4 + length].to_vec()).expect("a text")
    };
    assert_eq!(row(&mut world), "77", "both SETs hold");
    fails(&mut world, console, "SET no_such_setting = 1", "SET failed");
    let refused = command(&mut world, console, "SET listen_port = 5");
    assert!(says(&refused, "SET failed") && says(&refused, "listen_port can't be changed while Weir runs"));
    assert!(!says(&refused, "SET failed: "), "the message stands once, and the detail behind it");
    fails(&mut world, console, "SET max_client_conn = many", "SET failed");
    world.signal(Signal::Reload);
    let file = config(1);
    let before = file.max_clients.to_string();
    world.config_read(file);
    assert_eq!(row(&mut world), before);
}

#[test]
fn set_at_a_node_of_a_cluster_says_that_the_other_nodes_do_not_get_it() {
    for (etcd, notices) in [(vec![], 0), (vec!["http://127.0.0.1:2379".to_owned()], 1)] {
        let mut config = config(1);
        config.cluster.etcd = etcd;
        let mut world = World::new(config);
        let console = console(&mut world);
        fails(&mut world, console, "SET query_timeout = x", "query_timeout");
        for text in ["SET query_timeout = 7", "SET server_tls_sslmode = prefer"] {
            let received = command(&mut world, console, text);
            let found = received.windows(8).filter(|bytes| bytes == b"SET chan").count();
            assert_eq!(found, notices, "{text}: {}", String::from_utf8_lossy(&received));
        }
    }
}
