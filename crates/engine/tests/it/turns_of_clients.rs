//! Turns of clients: one that sends thousands of messages at once does not delay the others for all of them.

use weir_base::Span;
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

#[test]
fn a_client_whose_statement_is_megabytes_long_is_paced_and_loses_nothing() {
    let mut world = World::new(config(1));
    let (client, other) = (world.client(), world.client());
    let mut message = Vec::new();
    let text = format!("select 1 --{}", "x".repeat(2 << 20));
    put_front::parse_text(&mut message, b"long", text, &[]);
    message.extend_from_slice(SYNC);
    world.bytes_only(client, &message);
    assert!(world.is_paused(client), "2 MiB are more than one client may have read at once");
    world.bytes_only(other, SYNC);
    assert_eq!(world.received(other), ready(b'I'), "others are served");
    world.pass(Span::from_millis(700));
    assert!(world.is_paused(client));
    world.pass(Span::from_millis(100));
    assert!(!world.is_paused(client), "two hundred times as long as it took");
}
