//! Several processes, each of which takes over from the one before.

use weir_base::Peer;
use weir_engine::port::{HandOver, Input};

use crate::common::*;

/// A process with an idle server gives what is free.
fn giving() -> (World, Peer) {
    let mut old = World::new(config(1));
    let client = old.arrival("ann", "db");
    let server = old.server();
    old.gone(client);
    old.input(Input::HandOver(HandOver::Give));
    (old, server)
}

#[test]
fn a_pool_that_comes_while_the_next_process_takes_over_goes_on_to_it() {
    let (mut old, _) = giving();
    let (pool, _) = old.port.given.remove(0);
    let mut middle = World::new(config(1));
    middle.input(Input::HandOver(HandOver::Give));
    middle.port.given.clear();
    middle.input(Input::Inherited { value: &pool, socket: None });
    assert_eq!(middle.port.given.first().map(|(value, _)| value), Some(&pool), "it has what the servers have reported");
}

#[test]
fn a_server_whose_reports_did_not_come_is_replaced_and_no_error_for_a_client() {
    let (mut old, server) = giving();
    old.port.given.clear();
    old.input(Input::Detached { peer: server });
    let (value, socket) = old.port.given.remove(0);
    assert_eq!(socket, Some(server));
    let mut new = World::new(config(1));
    let moved = new.arrived_socket();
    new.input(Input::Inherited { value: &value, socket: Some(moved) });
    let client = new.arrival("ann", "db");
    new.server();
    assert!(new.received(client).ends_with(&ready(b'I')));
    assert!(!new.is_open(moved), "it is closed");
}
