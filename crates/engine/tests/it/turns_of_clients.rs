//! Turns of clients: one that sends thousands of messages at once does not delay the others for all of them.

use weir_pgwire::put_front;

use crate::common::*;

/// What one turn reads (`MAX_MESSAGES` in `sessions.rs`).
const MESSAGES: u32 = 512;
/// A Sync, which Weir answers itself outside of a transaction.
const SYNC: &[u8] = b"S\0\0\0\x04";

#[test]
fn what_a_client_sends_too_much_of_waits_for_the_next_round_and_is_answered_in_full() {
    let mut world = World::new(config(1));
    let client = world.client();
    let flood = MESSAGES as usize * 3 + 7;
    world.bytes_only(client, &SYNC.repeat(flood));
    let first = world.received(client).len();
    assert_eq!(first, MESSAGES as usize * ready(b'I').len(), "no more in one turn");
    assert!(world.is_paused(client), "and no more is read");
    let mut turns = 1;
    let mut answered = first;
    while world.deliver_message() {
        turns += 1;
        answered += world.received(client).len();
    }
    assert_eq!((turns, answered), (4, flood * ready(b'I').len()));
    assert!(!world.is_paused(client));
}

#[test]
fn of_new_statements_one_turn_stores_only_a_few_and_of_known_ones_as_many_as_of_other_messages() {
    let mut world = World::new(config(1));
    let client = world.client();
    let statements = |name: &str| {
        let mut bytes = Vec::new();
        for number in 0..200 {
            put_front::parse_text(&mut bytes, format!("{name}{number}").as_bytes(), format!("select {number}"), &[]);
        }
        bytes
    };
    let mut turns = |bytes: &[u8]| {
        world.bytes_only(client, bytes);
        let mut turns = 1;
        while world.deliver_message() {
            turns += 1;
        }
        turns
    };
    assert_eq!(turns(&statements("new")), 200 / (MESSAGES / 25 + 1) + 1);
    assert_eq!(turns(&statements("known")), 1);
}
