//! Connected clients that move to another worker: they go on, and are found there.

use weir_base::{Span, WorkerId};
use weir_config::Spread;
use weir_engine::port::Input;
use weir_pgwire::put_front;

use crate::common::{Call, config, done, query, ready, says};
use crate::holding::key_of;
use crate::lending::Pair;

/// A client that has logged in at the owner of its pool, its server, and its cancel key.
fn inhabited(pair: &mut Pair) -> (usize, usize, (u32, Vec<u8>)) {
    let client = pair.client();
    let server = pair.server().expect("a client wants one");
    let welcome = pair.received(client);
    assert!(welcome.ends_with(&ready(b'I')));
    pair.received(server);
    (client, server, key_of(&welcome))
}

/// A pool that is served by its owner alone.
fn alone() -> Pair {
    let mut config = config(1);
    config.spread = Spread::Busy;
    config.admin_users = vec!["ann".to_owned()];
    Pair::with(config)
}

/// Worker 0 orders that clients move from the worker of this one to the other. Returns the two.
fn order(pair: &mut Pair, client: usize) -> (usize, usize) {
    let from = pair.worker(client);
    let ids = [from, 1 - from].map(|worker| WorkerId(worker as u16));
    pair.worlds[0].engine.want_moves(ids[0], ids[1]);
    pair.worlds[0].input(Input::Load(1));
    (from, 1 - from)
}

fn answers(pair: &mut Pair, client: usize, server: usize, text: &str) {
    pair.send(client, &query(text));
    pair.deliver();
    assert!(says(&pair.received(server), text));
    pair.send(server, &done(text, b'I'));
    pair.deliver();
    assert!(says(&pair.received(client), text));
}

/// Messages arrive, but no socket is detached, until one is to be.
fn receive_until_detaching(pair: &mut Pair) {
    let detaching = |pair: &Pair| {
        pair.worlds.iter().any(|world| world.port.asked.iter().any(|asked| matches!(asked, Call::Detach(_))))
    };
    while !detaching(pair) {
        assert!(pair.receive(), "a client is to move");
    }
}

fn moved(pair: &Pair) -> u64 {
    pair.worlds.iter().map(|world| world.engine.inspect().clients_moved()).sum()
}

#[test]
fn a_client_that_has_moved_goes_on_and_its_key_still_means_it() {
    let mut pair = alone();
    let (client, server, (pid, secret)) = inhabited(&mut pair);
    let (home, other) = order(&mut pair, client);
    pair.deliver();
    assert_eq!((pair.worker(client), moved(&pair)), (other, 1));
    answers(&mut pair, client, server, "SELECT 1");
    for there in [other, home] {
        assert_eq!(pair.worker(client), there);
        pair.send(client, &query("SELECT pg_sleep(60)"));
        pair.deliver();
        assert!(says(&pair.received(server), "pg_sleep"));
        let visitor = pair.visitor();
        let mut request = Vec::new();
        put_front::cancel_request(&mut request, pid, &secret);
        pair.send(visitor, &request);
        pair.deliver();
        let line = pair.worlds[there].connecting().expect("its server is to cancel it");
        pair.worlds[there].input(Input::Connected { conn: line, local: String::new(), remote: None });
        assert!(!pair.worlds[there].received(line).is_empty());
        pair.worlds[there].gone(line);
        pair.send(server, &done("SELECT", b'I'));
        pair.deliver();
        let received = pair.received(client);
        assert!(says(&received, "SELECT"), "{received:?}");
        assert!(!pair.is_open(visitor));
        if there == other {
            order(&mut pair, client);
            pair.deliver();
        }
    }
    pair.worlds.iter().for_each(|world| world.engine.inspect().check());
}

#[test]
fn a_cancel_that_meets_its_client_on_the_way_follows_it() {
    let mut pair = alone();
    let (client, server, (pid, secret)) = inhabited(&mut pair);
    let (home, other) = order(&mut pair, client);
    receive_until_detaching(&mut pair);
    let visitor = pair.visitor();
    let mut request = Vec::new();
    put_front::cancel_request(&mut request, pid, &secret);
    pair.send(visitor, &request);
    // The request is at the client's home before the client has left.
    pair.receive();
    assert_eq!(pair.worker(client), home);
    while pair.worker(client) == home {
        assert!(pair.detach() || pair.receive());
    }
    // The query has arrived with the socket, and is read before the request.
    pair.send(client, &query("SELECT pg_sleep(60)"));
    pair.deliver();
    assert_eq!((pair.worker(client), pair.is_open(visitor)), (other, false));
    assert!(says(&pair.received(client), "canceling statement due to user request"), "it waited for the server");
    answers(&mut pair, client, server, "SELECT 1");
}

#[test]
fn a_command_finds_a_client_that_is_on_its_way() {
    let mut pair = alone();
    let (client, ..) = inhabited(&mut pair);
    let console = pair.console();
    let (from, _) = order(&mut pair, client);
    receive_until_detaching(&mut pair);
    assert!(pair.detach(), "its socket is free");
    pair.send(console, &query("KILL db"));
    // The other worker would have the command before the client.
    while pair.receive_from(0) {}
    pair.deliver();
    assert!(says(&pair.received(client), "database removed") || !pair.is_open(client), "from {from}");
    assert!(!pair.is_open(client));
    assert!(says(&pair.received(console), "KILL"));
}

#[test]
fn a_client_whose_socket_is_not_free_holds_nobody_and_stays() {
    let mut pair = alone();
    let (client, server, _) = inhabited(&mut pair);
    let console = pair.console();
    let (from, _) = order(&mut pair, client);
    receive_until_detaching(&mut pair);
    pair.send(console, &query("SHOW POOLS"));
    while pair.receive() {}
    assert!(!says(&pair.received(console), "SHOW"), "the batch is under way");
    pair.worlds.iter_mut().for_each(|world| world.pass(Span::from_millis(200)));
    while pair.receive() {}
    assert!(says(&pair.received(console), "SHOW"));
    pair.deliver();
    assert_eq!((pair.worker(client), moved(&pair)), (from, 0));
    answers(&mut pair, client, server, "SELECT 1");
}

#[test]
fn clients_leave_a_worker_that_is_busy_and_rest_where_they_are_and_one_stays() {
    let mut pair = alone();
    let (first, server, _) = inhabited(&mut pair);
    let clients = [first, pair.client(), pair.client()];
    let home = pair.worker(first);
    let away = |pair: &Pair| clients.iter().filter(|client| pair.worker(**client) != home).count();
    let works = |pair: &mut Pair, span| {
        clients.iter().for_each(|client| answers(pair, *client, server, "SELECT 1"));
        pair.pass(span);
        away(pair)
    };
    pair.worlds[home].input(Input::Load(100));
    pair.deliver();
    assert_eq!(works(&mut pair, Span::from_millis(900)), 0, "it may be a burst");
    assert_eq!(works(&mut pair, Span::from_millis(300)), 1);
    for _ in 0..4 {
        works(&mut pair, Span::from_secs(1));
    }
    assert_eq!(works(&mut pair, Span::from_secs(1)), 2, "one alone stays");
    pair.worlds[home].input(Input::Load(0));
    pair.worlds[1 - home].input(Input::Load(100));
    pair.deliver();
    assert_eq!(works(&mut pair, Span::from_secs(1)), 2, "they have just come");
    for _ in 0..10 {
        works(&mut pair, Span::from_secs(1));
    }
    assert_eq!(works(&mut pair, Span::from_secs(1)), 1);
}

#[test]
fn a_cancel_for_a_client_whose_socket_is_not_free_waits_for_it_and_does_not_go_round() {
    let mut pair = alone();
    let (client, server, (pid, secret)) = inhabited(&mut pair);
    let (home, _) = order(&mut pair, client);
    receive_until_detaching(&mut pair);
    // Nobody reads what was sent to the client: its socket stays.
    pair.worlds.iter_mut().for_each(|world| world.pass(Span::from_millis(200)));
    let mut request = Vec::new();
    put_front::cancel_request(&mut request, pid, &secret);
    let world = &mut pair.worlds[home];
    let before = world.messages();
    world.input(Input::CancelRequest { pid, secret: &secret });
    world.input(Input::CancelRequest { pid, secret: &secret });
    assert_eq!(world.messages(), before, "it goes nowhere");
    pair.deliver();
    assert_eq!(pair.worker(client), home);
    answers(&mut pair, client, server, "SELECT 1");
}
