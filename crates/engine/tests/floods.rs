//! What a flood leaves in one engine: no more than the caches that `docs/limits.md` lists. A program of its own, as it
//! counts the memory of the whole process, in bytes that are allocated: it does not depend on the allocator.

mod common;

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use weir_base::{ConnId, Span};
use weir_pgwire::{Of, put_back, put_front, tag};

use common::*;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// What a flood may leave, in bytes: buffers for waiting clients, texts without a holder, keys of accepted statements.
const LEFT: usize = 900 << 10;
/// A read of the runtime's.
const READ: usize = 64 << 10;

/// A flood, from nothing to the end of its client.
type Flood = fn(&mut World);

const FLOODS: &[(&str, Flood)] = &[
    ("names of statements", |world| {
        client(world, |number, bytes| put_front::parse_text(bytes, name(number).as_bytes(), text(number), &[]), 5_000);
    }),
    ("statements that are closed again", |world| {
        let one = |number, bytes: &mut Vec<u8>| {
            put_front::parse_text(bytes, name(number).as_bytes(), text(number), &[]);
            put_front::close(bytes, Of::Statement, name(number).as_bytes());
        };
        client(world, one, 6_000);
    }),
    ("large statements", |world| {
        let one = |number, bytes: &mut Vec<u8>| {
            let text = format!("select {number} -- {}", "x".repeat(700_000));
            put_front::parse_text(bytes, name(number % 2).as_bytes(), text, &[]);
            put_front::close(bytes, Of::Statement, name(number % 2).as_bytes());
        };
        client(world, one, 20);
    }),
    ("unnamed statements", |world| {
        client(world, |number, bytes| put_front::parse_text(bytes, b"", text(number), &[]), 5_000);
    }),
    ("a deep pipeline", |world| {
        let one = |number, bytes: &mut Vec<u8>| {
            put_front::parse_text(bytes, name(number % 100).as_bytes(), text(number), &[]);
            put_front::bind_no_params(bytes, b"", name(number % 100).as_bytes());
            put_front::execute(bytes, b"", 0);
            put_front::close(bytes, Of::Statement, name(number % 100).as_bytes());
        };
        client(world, one, 6_000);
    }),
    ("closes of what is not there", |world| {
        client(world, |number, bytes| put_front::close(bytes, Of::Statement, name(number).as_bytes()), 20_000);
    }),
    ("statements in SQL", |world| {
        client(world, |number, bytes| put_front::query(bytes, format!("prepare p{number} as select 1")), 5_000);
    }),
    ("values of parameters", |world| {
        client(world, |number, bytes| put_front::query(bytes, format!("set application_name = 'n{number}'")), 5_000);
    }),
    ("commands at the console", |world| {
        console(world, |_, bytes| put_front::query(bytes, "show version"), 30_000);
    }),
    ("tables at the console", |world| console(world, |_, bytes| put_front::query(bytes, "show clients"), 1_000)),
    ("errors at the console", |world| console(world, |_, bytes| put_front::query(bytes, "x".repeat(5_000)), 1_000)),
    ("garbage before the login", |world| {
        for _ in 0..1_500 {
            let stranger = world.visitor();
            world.bytes_only(stranger, &[b'x'; 4_000]);
            leave(world, stranger);
        }
    }),
    ("half a startup packet of many clients", |world| {
        let strangers: Vec<ConnId> = (0..2_000).map(|_| world.visitor()).collect();
        strangers.iter().for_each(|stranger| world.bytes_only(*stranger, &[0, 0, 16, 0, 0, 3, 0, 0, b'u']));
        strangers.into_iter().for_each(|stranger| leave(world, stranger));
    }),
    ("logins", |world| {
        for _ in 0..2_000 {
            let client = arrive(world);
            leave(world, client);
        }
    }),
    ("users that do not exist", |world| {
        for number in 0..2_000 {
            let client = world.arrival(&format!("nobody{number}"), "db");
            leave(world, client);
        }
    }),
    ("databases that do not exist", |world| {
        for number in 0..2_000 {
            let client = world.arrival("ann", &format!("nothing{number}"));
            leave(world, client);
        }
    }),
    ("requests to cancel", |world| {
        for number in 0..2_000_u32 {
            let stranger = world.visitor();
            let mut bytes = Vec::new();
            put_front::cancel_request(&mut bytes, number, &number.to_be_bytes());
            world.bytes_only(stranger, &bytes);
            leave(world, stranger);
        }
    }),
    ("clients that wait for servers", |world| {
        let clients: Vec<ConnId> = (0..2_000).map(|_| arrive(world)).collect();
        clients.iter().for_each(|client| world.bytes_only(*client, &query(&"x".repeat(3_000))));
        clients.into_iter().for_each(|client| leave(world, client));
    }),
];

fn main() {
    let mut most = ("", 0);
    for (what, flood) in FLOODS {
        let mut world = World::new(config(2));
        // What the first of its kind allocates.
        client(&mut world, |number, bytes| put_front::parse_text(bytes, b"", text(number), &[]), 10);
        console(&mut world, |_, bytes| put_front::query(bytes, "show pools"), 3);
        rest(&mut world);
        let region = Region::new(ALLOCATOR);
        flood(&mut world);
        rest(&mut world);
        let change = region.change();
        let left = change.bytes_allocated.saturating_sub(change.bytes_deallocated);
        assert!(change.bytes_allocated > 100 << 10, "{what}: that was no flood");
        assert!(left <= LEFT, "{what}: {left} bytes are left");
        if left > most.1 {
            most = (what, left);
        }
    }
    let (what, left) = most;
    println!("test result: ok. {} passed; 0 failed; {left} bytes are left at the most, by {what}", FLOODS.len());
}

fn name(number: u32) -> String {
    format!("name_{number}")
}

fn text(number: u32) -> String {
    format!("select {number}, 'some text of a usual length', now()")
}

/// A client that sends these messages and a Sync behind every hundred of them, and leaves.
fn client(world: &mut World, message: impl Fn(u32, &mut Vec<u8>), count: u32) {
    let client = arrive(world);
    flood(world, client, &message, count);
}

/// An operator who sends these messages, and leaves.
fn console(world: &mut World, message: impl Fn(u32, &mut Vec<u8>), count: u32) {
    let console = world.arrival("admin", "pgbouncer");
    flood(world, console, &message, count);
}

fn flood(world: &mut World, from: ConnId, message: &impl Fn(u32, &mut Vec<u8>), count: u32) {
    let mut bytes = Vec::new();
    for number in 0..count {
        message(number, &mut bytes);
        if number % 100 == 99 || number + 1 == count {
            if bytes[0] != tag::front::QUERY {
                put_front::sync(&mut bytes);
            }
            for read in bytes.chunks(READ) {
                settle(world);
                if world.is_paused(from) {
                    // One whose texts are megabytes long is paced.
                    world.pass_only(Span::from_secs(10));
                    settle(world);
                }
                assert!(world.is_open(from) && !world.is_paused(from), "the client is read again");
                world.bytes_only(from, read);
            }
            bytes.clear();
        }
        world.forget(from);
    }
    settle(world);
    leave(world, from);
}

/// A client that is ready.
fn arrive(world: &mut World) -> ConnId {
    let client = world.arrival("ann", "db");
    settle(world);
    assert!(world.received(client).ends_with(&ready(b'I')), "it is welcome");
    client
}

fn leave(world: &mut World, client: ConnId) {
    settle(world);
    if world.is_open(client) {
        world.gone(client);
    }
    world.received(client);
}

/// The servers have answered everything, and the engine has done what follows.
fn settle(world: &mut World) {
    loop {
        while world.deliver_message() {}
        while let Some(server) = world.connecting() {
            world.log_in(server);
        }
        world.port.asked.clear();
        let servers = world.servers();
        let asked: Vec<(ConnId, Vec<u8>)> =
            servers.into_iter().map(|server| (server, world.received(server))).collect();
        let mut any = false;
        for (server, asked) in asked {
            let replies = replies(&asked);
            any |= !replies.is_empty();
            for read in replies.chunks(READ) {
                world.bytes_only(server, read);
                while world.deliver_message() {}
            }
        }
        if !any && world.messages() == 0 {
            return;
        }
    }
}

/// What a server replies to these messages, all of which succeed.
fn replies(mut asked: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let [tag, length @ ..] = asked {
        let length = u32::from_be_bytes(length[..4].try_into().expect("four bytes")) as usize;
        match *tag {
            tag::front::PARSE => put_back::parse_complete(&mut bytes),
            tag::front::BIND => put_back::bind_complete(&mut bytes),
            tag::front::CLOSE => put_back::close_complete(&mut bytes),
            tag::front::EXECUTE => put_back::command_complete(&mut bytes, "SELECT 0"),
            tag::front::SYNC => put_back::ready(&mut bytes, b'I'),
            tag::front::QUERY if asked[5..=length] == [0] => {
                put_back::empty_query(&mut bytes);
                put_back::ready(&mut bytes, b'I');
            }
            tag::front::QUERY => bytes.extend(done(command(&asked[5..=length]), b'I')),
            other => panic!("a server does not expect {}", char::from(other)),
        }
        asked = &asked[1 + length..];
    }
    bytes
}

/// The tag of the command in a query.
fn command(text: &[u8]) -> &'static str {
    match text.first() {
        Some(b'p' | b'P') => "PREPARE",
        Some(b's' | b'S') => "SET",
        _ => "SELECT 0",
    }
}

/// Time passes, and the test's own records are dropped.
fn rest(world: &mut World) {
    settle(world);
    world.pass_only(Span::from_secs(70));
    world.drop_records();
}
