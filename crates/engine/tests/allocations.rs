//! In steady state the relay allocates nothing. A program of its own and without the test harness, whose main thread
//! allocates at any time: this test counts the whole process.

mod common;

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

use common::*;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() {
    let mut world = World::new(config(1));
    let first = world.arrival("ann", "db");
    let server = world.server();
    let second = world.client();
    let (ask, answer) = (query("select 1"), done("SELECT 1", b'I'));
    let transact = |world: &mut World| {
        world.bytes_only(first, &ask);
        world.bytes_only(second, &ask);
        world.bytes_only(server, &answer);
        world.bytes_only(server, &answer);
        [first, second, server].into_iter().for_each(|conn| world.forget(conn));
        world.port.asked.clear();
    };
    (0..100).for_each(|_| transact(&mut world));
    let region = Region::new(ALLOCATOR);
    (0..1_000).for_each(|_| transact(&mut world));
    let change = region.change();
    assert_eq!((change.allocations, change.reallocations), (0, 0), "2,000 transactions");
    println!("test result: ok. 1 passed; 0 failed; relaying allocates nothing even when clients wait");
}
