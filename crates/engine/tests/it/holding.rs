//! How long a client may hold a server: timeouts depend on what is held, and a pipeline ends if other clients wait.

use weir_base::{ConnId, PoolMode, Span};
use weir_engine::port::{Input, Signal};
use weir_pgwire::{Of, put_back, put_front};

use crate::common::*;

const LIMIT: u64 = 5;

/// One pool of one server, with these timeouts in seconds: query, idle transaction, transaction.
fn timed(mode: PoolMode, limits: [u64; 3]) -> World {
    let mut config = config(1);
    let [query, idle, transaction] = limits.map(Span::from_secs);
    (config.limits.query_timeout, config.limits.idle_transaction_timeout) = (query, idle);
    config.limits.transaction_timeout = transaction;
    config.policy.mode = mode;
    add_pool(&mut config, "db", 1);
    World::new(config)
}

fn linked(world: &mut World) -> (ConnId, ConnId) {
    let client = world.arrival("ann", "db");
    let server = world.server();
    world.received(client);
    (client, server)
}

fn seconds(world: &mut World, seconds: u64) {
    world.pass(Span::from_secs(seconds));
}

fn message(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut bytes);
    bytes
}

fn parse() -> Vec<u8> {
    message(|b| put_front::parse(b, b"", b"select 1\0\0\0"))
}

fn flush() -> Vec<u8> {
    message(put_front::flush)
}

fn copy_in_response() -> Vec<u8> {
    vec![b'G', 0, 0, 0, 7, 0, 0, 0]
}

fn copy_data(length: usize) -> Vec<u8> {
    let mut bytes = vec![b'd'];
    bytes.extend_from_slice(&(length as u32 + 4).to_be_bytes());
    bytes.resize(5 + length, b'x');
    bytes
}

/// Ways to hold a server without progress. Each puts `world` in a state in which the client must act next.
type Way = (&'static str, fn(&mut World, ConnId, ConnId));

const IDLE_WAYS: [Way; 9] = [
    ("a Parse and a Describe, flushed and answered", |world, client, server| {
        let describe = message(|b| put_front::describe(b, Of::Statement, b""));
        world.bytes(client, &[parse(), describe, flush()].concat());
        world.bytes(server, &[b"1\0\0\0\x04t\0\0\0\x06\0\0".to_vec(), vec![b'n', 0, 0, 0, 4]].concat());
    }),
    ("a Parse without Flush or Sync", |world, client, _| world.bytes(client, &parse())),
    ("half a query", |world, client, _| {
        let text = query(&format!("select '{}'", "x".repeat(20_000)));
        world.bytes(client, &text[..10_000]);
    }),
    ("half a query behind a Parse", |world, client, _| {
        let text = query(&format!("select '{}'", "x".repeat(20_000)));
        world.bytes(client, &[&parse()[..], &text[..10_000]].concat());
    }),
    ("a transaction", |world, client, server| {
        world.bytes(client, &query("begin"));
        world.bytes(server, &done("BEGIN", b'T'));
    }),
    ("a failed transaction", |world, client, server| {
        world.bytes(client, &query("begin; select 1/0"));
        world.bytes(server, &ready(b'E'));
    }),
    ("a COPY without data", |world, client, server| {
        world.bytes(client, &query("copy t from stdin"));
        world.bytes(server, &copy_in_response());
    }),
    ("a Flush alone", |world, client, _| world.bytes(client, &[parse(), flush()].concat())),
    ("a failed pipeline without a Sync", |world, client, server| {
        world.bytes(client, &[parse(), flush()].concat());
        let fields = weir_pgwire::ErrorFields {
            severity: "ERROR",
            sqlstate: "42601",
            message: "syntax error",
            detail: None,
            hint: None,
        };
        world.bytes(server, &message(|b| put_back::error(b, &fields)));
    }),
];

#[test]
fn a_client_that_holds_a_server_in_silence_is_timed_out_whatever_was_sent_last() {
    for mode in [PoolMode::Transaction, PoolMode::Session] {
        for (what, hold) in IDLE_WAYS {
            let mut world = timed(mode, [0, LIMIT, 0]);
            let (client, server) = linked(&mut world);
            hold(&mut world, client, server);
            if what == "a Flush alone" {
                // The server may be working until it has answered.
                seconds(&mut world, LIMIT + 1);
                assert!(world.is_open(client), "{what}");
                world.bytes(server, b"1\0\0\0\x04");
            }
            seconds(&mut world, LIMIT - 1);
            assert!(world.is_open(client), "{mode:?}: {what}: too early");
            seconds(&mut world, 2);
            assert!(says(&world.received(client), "idle transaction timeout"), "{mode:?}: {what}");
            assert!(!world.is_open(client) && !world.is_open(server), "{mode:?}: {what}");
        }
    }
}

#[test]
fn transaction_timeout_counts_from_the_first_request_however_the_transaction_began() {
    for (what, hold) in IDLE_WAYS {
        let mut world = timed(PoolMode::Transaction, [0, 0, LIMIT]);
        let (client, server) = linked(&mut world);
        hold(&mut world, client, server);
        seconds(&mut world, LIMIT + 1);
        assert!(says(&world.received(client), "transaction timeout"), "{what}");
        assert!(!world.is_open(server), "{what}");
    }
    let mut world = timed(PoolMode::Transaction, [0, 0, LIMIT]);
    let (client, server) = linked(&mut world);
    world.bytes(client, &query("begin; select pg_sleep(3600)"));
    seconds(&mut world, LIMIT + 1);
    assert!(says(&world.received(client), "transaction timeout") && !world.is_open(server));
}

#[test]
fn query_timeout_counts_only_while_an_answer_is_pending() {
    let idle_ways =
        ["a Parse and a Describe, flushed and answered", "half a query", "a transaction", "a failed transaction"];
    for (what, hold) in IDLE_WAYS.into_iter().filter(|(what, _)| idle_ways.contains(what)) {
        let mut world = timed(PoolMode::Transaction, [LIMIT, 0, 0]);
        let (client, server) = linked(&mut world);
        hold(&mut world, client, server);
        seconds(&mut world, 10 * LIMIT);
        assert!(world.is_open(client) && world.is_open(server), "{what}");
    }
    for (what, hold) in IDLE_WAYS.into_iter().filter(|(what, _)| what.contains("COPY") || what.contains("Flush alone"))
    {
        let mut world = timed(PoolMode::Transaction, [LIMIT, 0, 0]);
        let (client, server) = linked(&mut world);
        hold(&mut world, client, server);
        seconds(&mut world, LIMIT + 1);
        assert!(says(&world.received(client), "query timeout"), "{what}");
    }
}

#[test]
fn each_transaction_and_each_query_of_a_pipeline_is_timed_by_itself() {
    let mut world = timed(PoolMode::Transaction, [LIMIT, 0, LIMIT]);
    let (client, server) = linked(&mut world);
    world.bytes(client, &[query("one"), query("two"), query("three"), query("four")].concat());
    for _ in 0..3 {
        seconds(&mut world, LIMIT - 1);
        world.bytes(server, &done("SELECT 1", b'I'));
    }
    assert!(world.is_open(client));
    seconds(&mut world, LIMIT + 1);
    assert!(!world.is_open(client) && !world.is_open(server), "the fourth one takes too long");
    // A chain of transactions is many transactions, too.
    let mut world = timed(PoolMode::Transaction, [0, 0, LIMIT]);
    let (client, server) = linked(&mut world);
    world.bytes(client, &query("begin"));
    world.bytes(server, &done("BEGIN", b'T'));
    for _ in 0..3 {
        seconds(&mut world, LIMIT - 1);
        world.bytes(client, &query("commit and chain"));
        world.bytes(server, &done("COMMIT", b'T'));
    }
    assert!(world.is_open(client));
    seconds(&mut world, LIMIT - 2);
    world.bytes(client, &query("rollback to savepoint a"));
    world.bytes(server, &done("ROLLBACK", b'T'));
    seconds(&mut world, 3);
    assert!(!world.is_open(client), "a savepoint is no end");
}

#[test]
fn a_byte_now_and_then_is_no_progress_but_data_is() {
    for (behind, what) in
        [(query(&format!("select '{}'", "x".repeat(20_000))), "a query"), (copy_data(20_000), "COPY data")]
    {
        let mut world = timed(PoolMode::Transaction, [0, LIMIT, 0]);
        let (client, server) = linked(&mut world);
        if what == "COPY data" {
            world.bytes(client, &query("copy t from stdin"));
            world.bytes(server, &copy_in_response());
        }
        world.bytes(client, &behind[..10_000]);
        for byte in &behind[10_000..10_000 + LIMIT as usize + 1] {
            if world.is_open(client) {
                world.bytes(client, &[*byte]);
            }
            seconds(&mut world, 1);
        }
        assert!(!world.is_open(client) && !world.is_open(server), "{what}");
    }
    let mut world = timed(PoolMode::Transaction, [0, LIMIT, 0]);
    let (client, server) = linked(&mut world);
    world.bytes(client, &query("copy t from stdin"));
    world.bytes(server, &copy_in_response());
    for _ in 0..10 {
        seconds(&mut world, LIMIT - 1);
        world.bytes(client, &copy_data(10));
    }
    let long = copy_data(100_000);
    for part in long.chunks(10_000) {
        seconds(&mut world, LIMIT - 1);
        world.bytes(client, part);
    }
    assert!(world.is_open(client), "it moves");
    // Input that gives the server nothing to do does not count.
    let mut world = timed(PoolMode::Transaction, [0, LIMIT, 0]);
    let (client, server) = linked(&mut world);
    world.bytes(client, &query("begin"));
    world.bytes(server, &done("BEGIN", b'T'));
    for _ in 0..=LIMIT {
        if world.is_open(client) {
            world.bytes(client, &[flush(), copy_data(3)].concat());
        }
        seconds(&mut world, 1);
    }
    assert!(!world.is_open(client));
}

#[test]
fn a_client_that_does_not_read_holds_its_server_and_a_server_that_does_not_read_is_not_waited_for() {
    for mode in [PoolMode::Transaction, PoolMode::Session] {
        let mut world = timed(mode, [0, LIMIT, 0]);
        let (client, server) = linked(&mut world);
        world.bytes(client, &query("copy t to stdout"));
        world.bytes(server, b"H\0\0\0\x07\0\0\0");
        world.input(Input::Blocked { conn: client });
        assert!(world.is_paused(server));
        seconds(&mut world, LIMIT - 1);
        world.input(Input::Drained { conn: client });
        world.input(Input::Blocked { conn: client });
        seconds(&mut world, LIMIT - 1);
        assert!(world.is_open(client), "it has read all that waited");
        seconds(&mut world, 2);
        assert!(!world.is_open(client) && !world.is_open(server));
    }
    let mut world = timed(PoolMode::Transaction, [0, LIMIT, 0]);
    let (client, server) = linked(&mut world);
    world.bytes(client, &query("copy t from stdin"));
    world.bytes(server, &copy_in_response());
    world.bytes(client, &copy_data(10));
    world.input(Input::Blocked { conn: server });
    seconds(&mut world, 3 * LIMIT);
    assert!(world.is_open(client), "it is the server's move");
    world.input(Input::Drained { conn: server });
    seconds(&mut world, LIMIT + 1);
    assert!(!world.is_open(client));
}

#[test]
fn a_new_time_out_reaches_clients_that_hold_a_server_already() {
    let mut world = timed(PoolMode::Transaction, [0, 0, 0]);
    let (client, server) = linked(&mut world);
    world.bytes(client, &query("begin"));
    world.bytes(server, &done("BEGIN", b'T'));
    seconds(&mut world, 100);
    world.signal(Signal::Reload);
    let mut config = config(1);
    config.limits.idle_transaction_timeout = Span::from_secs(LIMIT);
    add_pool(&mut config, "db", 1);
    world.config_read(config);
    seconds(&mut world, 1);
    assert!(!world.is_open(client) && !world.is_open(server));
}

#[test]
fn in_session_mode_nothing_is_held_between_transactions() {
    let mut world = timed(PoolMode::Session, [LIMIT, LIMIT, LIMIT]);
    let (client, server) = linked(&mut world);
    world.bytes(client, &query("select 1"));
    world.bytes(server, &done("SELECT 1", b'I'));
    seconds(&mut world, 10 * LIMIT);
    assert!(world.is_open(client) && world.is_open(server));
}

#[test]
fn a_pipeline_goes_on_after_the_waiting_clients() {
    let mut world = World::new(config(1));
    let (greedy, server) = linked(&mut world);
    let other = world.client();
    world.bytes(greedy, &[query("one"), query("two")].concat());
    world.bytes(other, &query("mine"));
    world.bytes(greedy, &query("three"));
    assert_eq!(world.received(server), [query("one"), query("two")].concat(), "a client waits: no more is sent ahead");
    assert!(world.is_paused(greedy));
    world.bytes(server, &done("SELECT 1", b'I'));
    assert_eq!(world.received(server), b"");
    world.bytes(server, &done("SELECT 2", b'I'));
    assert_eq!(world.received(server), query("mine"), "its transactions are over");
    assert_eq!(world.received(greedy), [done("SELECT 1", b'I'), done("SELECT 2", b'I')].concat());
    world.bytes(server, &done("SELECT mine", b'I'));
    assert_eq!((world.received(other), world.received(server)), (done("SELECT mine", b'I'), query("three")));
    assert!(!world.is_paused(greedy));
}

#[test]
fn a_transaction_in_a_pipeline_is_not_split_for_waiting_clients() {
    let mut world = World::new(config(1));
    let (greedy, server) = linked(&mut world);
    let other = world.client();
    world.bytes(greedy, &query("begin"));
    world.bytes(other, &query("mine"));
    world.bytes(greedy, &[query("two"), query("commit"), query("next")].concat());
    world.bytes(server, &done("BEGIN", b'T'));
    assert_eq!(world.received(server), [query("begin"), query("two")].concat());
    world.bytes(server, &done("SELECT 2", b'T'));
    assert_eq!(world.received(server), query("commit"));
    world.bytes(server, &done("COMMIT", b'I'));
    assert_eq!(world.received(server), query("mine"));
    world.bytes(server, &done("SELECT mine", b'I'));
    assert_eq!(world.received(server), query("next"));
}

#[test]
fn no_more_than_a_few_segments_are_sent_ahead_and_the_rest_follows_in_order() {
    let mut world = World::new(config(1));
    let (client, server) = linked(&mut world);
    let texts: Vec<Vec<u8>> = (0..100).map(|i| query(&format!("q{i}"))).collect();
    world.bytes(client, &texts.concat());
    let (mut sent, mut answered) = (world.received(server), 0);
    assert!(sent.len() < texts.concat().len() / 4, "{} bytes", sent.len());
    while answered < 100 {
        assert!(sent.len() > texts[..answered].concat().len(), "the server has something to do at {answered}");
        world.bytes(server, &done("SELECT 1", b'I'));
        sent.extend(world.received(server));
        answered += 1;
    }
    assert_eq!(sent, texts.concat());
    assert!(!world.is_paused(client));
}

#[test]
fn a_pipeline_ends_for_pause_reconnect_and_a_session_keeps_its_own() {
    let mut world = World::new(config(1));
    let (greedy, server) = linked(&mut world);
    world.bytes(greedy, &query("one"));
    world.signal(Signal::Pause);
    world.bytes(greedy, &query("two"));
    world.bytes(server, &done("SELECT 1", b'I'));
    assert!(!world.is_open(server) && world.is_open(greedy), "PAUSE is not held up");
    world.signal(Signal::Resume);
    let server = world.server();
    assert_eq!(world.received(server).len(), query("two").len());
    let mut world = timed(PoolMode::Session, [0, 0, 0]);
    let (client, server) = linked(&mut world);
    world.bytes(client, &query("one"));
    let second = world.client();
    world.bytes(second, &query("mine"));
    world.bytes(client, &vec![query("more"); 40].concat());
    assert_eq!(world.received(server).len(), query("one").len() + 40 * query("more").len());
}

/// The process id and the secret of a cancel key.
pub(crate) fn key_of(welcome: &[u8]) -> (u32, Vec<u8>) {
    let at = welcome.windows(5).position(|w| w == [b'K', 0, 0, 0, 12]).expect("a key") + 5;
    (u32::from_be_bytes(welcome[at..at + 4].try_into().unwrap()), welcome[at + 4..at + 8].to_vec())
}

fn cancel(world: &mut World, (pid, key): &(u32, Vec<u8>)) {
    let visitor = world.visitor();
    world.bytes(visitor, &message(|b| put_front::cancel_request(b, *pid, key)));
    assert!(!world.is_open(visitor), "it is done at once");
}

#[test]
fn a_cancel_that_is_read_before_the_query_that_it_means_cancels_it() {
    let mut world = World::new(config(1));
    let client = world.arrival("ann", "db");
    let server = world.server();
    let (pid, key) = key_of(&world.received(client));
    let visitor = world.visitor();
    // Both have arrived, and the worker reads the later one first.
    world.bytes_only(visitor, &message(|b| put_front::cancel_request(b, pid, &key)));
    assert!(world.is_open(visitor), "it is not answered before all is read");
    world.bytes_only(client, &query("select pg_sleep(60)"));
    assert!(world.connecting().is_none());
    assert!(world.deliver_message());
    let line = world.connecting().expect("a connection for the request");
    world.input(Input::Connected { conn: line, local: String::new(), remote: None });
    assert!(!world.received(line).is_empty() && world.is_open(visitor));
    world.gone(line);
    assert!(!world.is_open(visitor));
    world.bytes(server, &done("SELECT 1", b'I'));
    assert!(world.received(client).ends_with(&ready(b'I')));
}

#[test]
fn a_cancel_whose_sender_is_gone_is_carried_out_and_one_of_a_client_that_does_nothing_has_no_effect() {
    let mut world = World::new(config(1));
    let client = world.arrival("ann", "db");
    let server = world.server();
    let (pid, key) = key_of(&world.received(client));
    let request = message(|b| put_front::cancel_request(b, pid, &key));
    let visitor = world.visitor();
    world.bytes_only(visitor, &request);
    world.gone(visitor);
    assert!(world.connecting().is_none());
    world.received(server);
    world.bytes(client, &query("select 1"));
    assert_eq!(world.received(server), query("select 1"), "the client was idle");
    world.bytes(server, &done("SELECT 1", b'I'));
    let visitor = world.visitor();
    world.bytes_only(visitor, &request);
    world.bytes_only(client, &query("select 2"));
    world.gone(visitor);
    assert!(world.connecting().is_some(), "the query that was on its way is cancelled");
}

/// A world whose limit for cancel requests is a second; a client that runs a query, its server, and its key.
fn running() -> (World, ConnId, ConnId, (u32, Vec<u8>)) {
    let mut config = config(1);
    config.limits.cancel_wait_timeout = Span::from_secs(1);
    let mut world = World::new(config);
    let client = world.arrival("ann", "db");
    let server = world.server();
    let key = key_of(&world.received(client));
    world.bytes(client, &query("select pg_sleep(60)"));
    (world, client, server, key)
}

#[test]
fn a_cancel_whose_sender_has_waited_too_long_does_not_hit_a_later_query() {
    let (mut world, client, server, (pid, key)) = running();
    let request = message(|b| put_front::cancel_request(b, pid, &key));
    let visitor = world.visitor();
    world.pass(Span::from_millis(500));
    world.bytes(visitor, &request);
    let line = world.connecting().expect("a connection for the request");
    world.pass(Span::from_millis(600));
    assert!(!world.is_open(visitor) && !world.is_open(line), "the request has ended with its sender");
    assert!(world.is_open(server) && world.is_open(client));

    // Another sender's request goes on.
    let visitor = world.visitor();
    world.pass(Span::from_millis(500));
    world.bytes(visitor, &request);
    let line = world.connecting().expect("a connection for the request");
    let other = world.visitor();
    world.bytes(other, &request);
    world.pass(Span::from_millis(600));
    assert!(!world.is_open(visitor) && world.is_open(other) && world.is_open(line));
}

#[test]
fn a_cancel_that_is_sent_keeps_its_sender_until_the_server_has_closed() {
    let (mut world, _, _, (pid, key)) = running();
    let visitor = world.visitor();
    world.pass(Span::from_millis(500));
    world.bytes(visitor, &message(|b| put_front::cancel_request(b, pid, &key)));
    let line = world.connecting().expect("a connection for the request");
    world.input(Input::Connected { conn: line, local: String::new(), remote: None });
    assert!(!world.received(line).is_empty());
    world.pass(Span::from_millis(700));
    assert!(world.is_open(visitor), "the server may still cancel the query");
    world.gone(line);
    assert!(!world.is_open(visitor));
}

#[test]
fn a_cancel_of_a_client_that_waits_ends_its_request_and_not_its_connection() {
    let mut world = World::new(config(1));
    let (holder, server) = linked(&mut world);
    let waiting = world.arrival("ann", "db");
    let key = key_of(&world.received(waiting));
    world.bytes(holder, &query("begin"));
    world.received(server);
    let bind = message(|b| put_front::bind_no_params(b, b"", b""));
    let execute = message(|b| put_front::execute(b, b"", 0));
    let sync = message(put_front::sync);
    for request in [query("mine"), [parse(), bind, execute, sync].concat()] {
        world.bytes(waiting, &request);
        assert!(world.is_paused(waiting));
        cancel(&mut world, &key);
        let received = world.received(waiting);
        assert!(says(&received, "57014") && says(&received, "canceling statement due to user request"), "{received:?}");
        assert!(received.ends_with(&ready(b'I')) && !world.is_paused(waiting));
        assert_eq!(received.iter().filter(|byte| **byte == b'Z').count(), 1);
    }
    cancel(&mut world, &key);
    assert_eq!(world.received(waiting), b"", "it has no request");
    world.bytes(waiting, &query("again"));
    world.bytes(server, &done("ROLLBACK", b'I'));
    assert_eq!(world.received(server), query("again"));
    world.bytes(server, &done("SELECT 1", b'I'));
    assert_eq!(world.received(waiting), done("SELECT 1", b'I'));
}

#[test]
fn a_cancel_before_a_clients_work_has_begun_stops_that_and_no_query_of_ours() {
    let mut world = World::new(config(1));
    let (_, server) = linked(&mut world);
    let client = world.visitor();
    let startup = [("user", "ann"), ("database", "db"), ("TimeZone", "Asia/Tokyo")];
    world.bytes(client, &message(|b| put_front::startup(b, &startup, 0)));
    let key = key_of(&world.received(client));
    world.bytes(client, &query("mine"));
    assert!(says(&world.received(server), "SET TimeZone"));
    cancel(&mut world, &key);
    assert!(world.connecting().is_none(), "nothing is sent to the server");
    let mut agreed = message(|b| put_back::parameter_status(b, "TimeZone", "Asia/Tokyo"));
    agreed.extend(done("SET", b'I'));
    world.bytes(server, &agreed);
    let received = world.received(client);
    assert!(says(&received, "57014") && received.ends_with(&ready(b'I')));
    assert_eq!(world.received(server), b"");
    world.bytes(client, &query("again"));
    assert_eq!(world.received(server), query("again"));
}

#[test]
fn a_value_that_a_server_refuses_costs_its_client_and_no_server() {
    for mode in [PoolMode::Transaction, PoolMode::Session] {
        let mut world = timed(mode, [0, 0, 0]);
        let (_, server) = linked(&mut world);
        for _ in 0..3 {
            let client = world.visitor();
            let startup = [("user", "ann"), ("database", "db"), ("TimeZone", "nonsense"), ("extra_float_digits", "3")];
            world.bytes(client, &message(|b| put_front::startup(b, &startup, 0)));
            world.received(client);
            world.bytes(client, &query("mine"));
            assert!(says(&world.received(server), "SET TimeZone='nonsense'"));
            let words = "invalid value for parameter \"TimeZone\": \"nonsense\"";
            let fields = weir_pgwire::ErrorFields {
                severity: "ERROR",
                sqlstate: "22023",
                message: words,
                detail: None,
                hint: None,
            };
            let mut answer = message(|b| put_back::error(b, &fields));
            answer.extend(ready(b'I'));
            world.bytes(server, &answer);
            let received = world.received(client);
            assert!(says(&received, words) && says(&received, "22023"), "the server's own words");
            assert!(!world.is_open(client) && world.is_open(server), "{mode:?}");
            if says(&world.received(server), "DISCARD ALL") {
                world.bytes(server, &done("DISCARD ALL", b'I'));
            }
        }
        assert!(world.connecting().is_none(), "no other server is opened");
        let next = world.client();
        world.bytes(next, &query("mine"));
        if says(&world.received(server), "RESET extra_float_digits") {
            world.bytes(server, &done("RESET", b'I'));
            assert_eq!(world.received(server), query("mine"));
        }
        world.bytes(server, &done("SELECT 1", b'I'));
        assert!(world.received(next).ends_with(&done("SELECT 1", b'I')));
    }
}
