//! Replication connections: what a client sends reaches its server, all of it and in order, and a stream ends with its
//! client.

use weir_base::ConnId;
use weir_pgwire::put_front;

use crate::common::{World, config, query};

/// A client that asks for a server of its own, with these bytes sent ahead, and that server.
fn replicating(world: &mut World, ahead: &[u8]) -> (ConnId, ConnId) {
    let client = world.visitor();
    let mut bytes = Vec::new();
    put_front::startup(&mut bytes, &[("user", "ann"), ("database", "db"), ("replication", "database")], 0);
    bytes.extend_from_slice(ahead);
    world.bytes(client, &bytes);
    let server = world.server();
    (client, server)
}

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    [&[tag][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
}

/// Whether these bytes have been sent, perhaps with others around them.
fn received(received: &[u8], bytes: &[u8]) -> bool {
    received.windows(bytes.len()).any(|part| part == bytes)
}

#[test]
fn what_comes_with_the_end_of_a_stream_reaches_its_server() {
    let mut world = World::new(config(2));
    let (client, server) = replicating(&mut world, b"");
    world.bytes(client, &query("START_REPLICATION 0/0"));
    world.received(server);
    let status = message(b'd', b"r: written up to here");
    world.bytes(client, &[&status[..], &message(b'X', b"")].concat());
    assert!(received(&world.received(server), &status));
    assert!(!world.is_open(server) && !world.is_open(client));
}

#[test]
fn messages_that_were_begun_ahead_of_a_stream_are_read_as_they_are() {
    // The second half of this message reads like a Terminate.
    let [first, second] = [message(b'd', b"0123456789X\0\0\0\x04"), message(b'd', b"more")];
    for cut in [first.len() - 5, 3, 1] {
        let mut world = World::new(config(2));
        let (client, server) = replicating(&mut world, &first[..cut]);
        world.bytes(client, &[&first[cut..], &second].concat());
        assert!(world.is_open(client) && world.is_open(server), "cut at {cut}");
        assert!(received(&world.received(server), &[&first[..], &second].concat()));
    }
    let mut world = World::new(config(2));
    let (client, server) = replicating(&mut world, &[query("IDENTIFY_SYSTEM"), message(b'X', b"")].concat());
    assert!(!world.is_open(client) && !world.is_open(server), "it has left already");
}
