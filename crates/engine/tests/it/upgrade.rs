//! Several processes, each of which takes over from the one before.

use weir_base::{ConnId, Span};
use weir_engine::port::{Input, UpgradeStep};

use crate::common::*;

/// A process with an idle server gives what is free.
fn giving() -> (World, ConnId) {
    let mut old = World::new(config(1));
    let client = old.arrival("ann", "db");
    let server = old.server();
    old.gone(client);
    old.input(Input::Upgrade(UpgradeStep::Export));
    (old, server)
}

#[test]
fn a_pool_that_comes_while_the_next_process_takes_over_goes_on_to_it() {
    let (mut old, _) = giving();
    let (pool, _) = old.port.given.remove(0);
    let mut middle = World::new(config(1));
    middle.input(Input::Upgrade(UpgradeStep::Export));
    middle.port.given.clear();
    middle.input(Input::Imported { value: &pool, socket: None });
    assert_eq!(middle.port.given.first().map(|(value, _)| value), Some(&pool), "it has what the servers have reported");
}

#[test]
fn a_server_whose_reports_did_not_come_is_replaced_and_no_error_for_a_client() {
    let (mut old, server) = giving();
    old.port.given.clear();
    old.input(Input::Detached { conn: server });
    let (value, socket) = old.port.given.remove(0);
    assert_eq!(socket, Some(server));
    let mut new = World::new(config(1));
    let moved = new.arrived_socket();
    new.input(Input::Imported { value: &value, socket: Some(moved) });
    let client = new.arrival("ann", "db");
    new.server();
    assert!(new.received(client).ends_with(&ready(b'I')));
    assert!(!new.is_open(moved), "it is closed");
}

#[test]
fn the_pools_of_clients_go_first_and_the_others_a_few_each_round() {
    const UNUSED: usize = 5;
    let mut config = config(1);
    config.limits.server_idle_timeout = Span::from_secs(1);
    (0..=UNUSED).for_each(|number| add_pool(&mut config, &format!("pool{number}"), 1));
    let mut old = World::new(config);
    for number in 0..UNUSED {
        let client = old.arrival("ann", &format!("pool{number}"));
        old.server();
        old.gone(client);
    }
    old.pass(Span::from_secs(2));
    assert!(old.servers().is_empty());
    let client = old.arrival("ann", &format!("pool{UNUSED}"));
    old.server();
    let mut round = || {
        old.input(Input::Upgrade(UpgradeStep::Export));
        let pools = old.port.given.iter().filter(|(_, socket)| socket.is_none()).count();
        old.port.given.clear();
        (pools, old.is_detaching(client))
    };
    // The pool, and how many servers it has.
    assert_eq!(round(), (2, true), "the client leaves at once");
    assert_eq!([round().0, round().0, round().0, round().0], [PER_TURN, PER_TURN, 1, 0]);
}

/// A pool of two whose only server is in a transaction, while another process takes over.
struct Busy {
    old: World,
    server: ConnId,
    client: ConnId,
}

impl Busy {
    fn new() -> Busy {
        let mut old = World::new(config(2));
        let client = old.arrival("ann", "db");
        let server = old.server();
        old.bytes(client, &query("BEGIN"));
        old.bytes(server, &done("BEGIN", b'T'));
        old.input(Input::Upgrade(UpgradeStep::Export));
        Busy { old, server, client }
    }

    /// A client that comes late, and waits for a server: it was accepted before the other process was known to serve.
    fn late(&mut self, text: &str) -> ConnId {
        self.old.pass(Span::from_millis(1));
        let late = self.old.client();
        self.old.bytes(late, &query(text));
        assert!(self.old.is_paused(late) && self.old.connecting().is_none(), "no server is opened here");
        late
    }

    /// What the other process is given, with these clients.
    fn give(&mut self, clients: &[ConnId]) -> Vec<(Vec<u8>, Option<ConnId>)> {
        self.old.input(Input::Upgrade(UpgradeStep::Export));
        clients.iter().for_each(|client| {
            assert!(self.old.is_detaching(*client), "it leaves with its request");
            self.old.input(Input::Detached { conn: *client });
        });
        std::mem::take(&mut self.old.port.given)
    }
}

/// A process takes these values in; returns the sockets' handles there.
fn takes(world: &mut World, given: &[(Vec<u8>, Option<ConnId>)]) -> Vec<ConnId> {
    let mut sockets = Vec::new();
    for (value, socket) in given {
        let socket = socket.map(|_| world.arrived_socket());
        sockets.extend(socket);
        world.input(Input::Imported { value, socket });
    }
    sockets
}

#[test]
fn a_client_that_waits_while_the_old_servers_are_in_transactions_moves_with_its_request_and_its_age() {
    let mut busy = Busy::new();
    let (first, second) = (busy.late("SELECT 'first'"), busy.late("SELECT 'second'"));
    let (pool, late) = (busy.give(&[]), busy.give(&[first, second]));
    let mut new = World::new(config(2));
    takes(&mut new, &pool);
    new.now = new.now + Span::from_secs(1);
    let runs = new.arrival("ann", "db");
    let server = new.server();
    new.bytes(runs, &query("SELECT 1"));
    let own = new.client();
    new.bytes(own, &query("SELECT 'own'"));
    let moved = takes(&mut new, &late);
    assert!(moved.iter().all(|client| new.is_paused(*client)), "both wait");
    assert!(new.connecting().is_none(), "the other one of two is at the old process");
    new.received(server);
    new.bytes(server, &done("SELECT 1", b'I'));
    for (client, text) in [(moved[0], "SELECT 'first'"), (moved[1], "SELECT 'second'"), (own, "SELECT 'own'")] {
        assert!(says(&new.received(server), text), "the oldest is served first");
        new.bytes(server, &done("SELECT 1", b'I'));
        assert!(new.received(client).ends_with(&ready(b'I')));
    }
    assert!(!new.is_paused(moved[0]), "it is read again");
}

#[test]
fn a_client_that_waits_and_could_not_leave_waits_on() {
    let mut busy = Busy::new();
    let late = busy.late("SELECT 1");
    let given = busy.give(&[late]);
    let Busy { mut old, server, client } = busy;
    old.input(Input::Upgrade(UpgradeStep::Abort));
    let back = takes(&mut old, given.get(given.len() - 1..).unwrap());
    let another = old.server();
    assert!(says(&old.received(another), "SELECT 1"), "nobody takes over any more: the pool's size is its own");
    old.bytes(another, &done("SELECT 1", b'I'));
    assert!(old.received(back[0]).ends_with(&ready(b'I')));
    old.bytes(client, &query("COMMIT"));
    old.bytes(server, &done("COMMIT", b'I'));
    assert!(old.received(client).ends_with(&ready(b'I')));
}

#[test]
fn clients_that_wait_move_through_a_process_that_is_upgraded_in_turn() {
    let mut busy = Busy::new();
    let (first, second) = (busy.late("SELECT 'first'"), busy.late("SELECT 'second'"));
    let (pool, given) = (busy.give(&[]), busy.give(&[first, second]));
    let mut middle = World::new(config(2));
    takes(&mut middle, &pool);
    middle.input(Input::Upgrade(UpgradeStep::Export));
    for client in takes(&mut middle, &given) {
        assert!(middle.is_detaching(client));
        middle.input(Input::Detached { conn: client });
    }
    // The last process's clock shows less than that of the first one, whose turn began later.
    let mut new = World::new(config(2));
    let moved = takes(&mut new, &middle.port.given);
    let server = new.server();
    let own = new.client();
    new.bytes(own, &query("SELECT 'own'"));
    let mut served = Vec::new();
    for _ in 0..3 {
        let sent = new.received(server);
        served.extend(["first", "second", "own"].into_iter().filter(|text| says(&sent, text)));
        new.bytes(server, &done("SELECT 1", b'I'));
    }
    served.sort_unstable();
    assert_eq!(served, ["first", "own", "second"]);
    for client in [moved[0], moved[1], own] {
        assert!(new.received(client).ends_with(&ready(b'I')));
    }
}
