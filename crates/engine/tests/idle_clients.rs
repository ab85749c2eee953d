//! 250,000 idle clients in one engine: the cost of each is constant, and active ones are served. A program of its own,
//! as it counts the memory of the whole process.

mod common;

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

use common::*;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The clients, in steps.
const STEP: usize = 50_000;
const STEPS: usize = 5;
/// What a client may keep allocated in the engine, in bytes; tables that double are counted separately.
const EACH: usize = 640;

fn main() {
    let mut config = config(2);
    config.max_clients = u32::MAX;
    let mut world = World::new(config);
    let first = world.arrival("ann", "db");
    let server = world.server();
    let (ask, answer) = (query("select 1"), done("SELECT 1", b'I'));
    let mut costs = Vec::new();
    for step in 1..=STEPS {
        let region = Region::new(ALLOCATOR);
        world.idle_clients(STEP);
        let change = region.change();
        costs.push(change.bytes_allocated.saturating_sub(change.bytes_deallocated) / STEP);
        for _ in 0..1_000 {
            world.bytes_only(first, &ask);
            world.bytes_only(server, &answer);
        }
        let received = world.received(first);
        assert!(received.ends_with(&ready(b'I')), "who asks is answered beside {} idle clients", step * STEP);
        world.forget(server);
    }
    let transact = |world: &mut World| {
        world.bytes_only(first, &ask);
        world.bytes_only(server, &answer);
        world.forget(first);
        world.forget(server);
    };
    transact(&mut world);
    let region = Region::new(ALLOCATOR);
    (0..1_000).for_each(|_| transact(&mut world));
    assert_eq!(region.change().allocations, 0, "nor does anything grow when they ask");
    let mean = costs.iter().sum::<usize>() / STEPS;
    assert!(mean <= EACH, "an idle client costs {mean} bytes: {costs:?}");
    println!(
        "test result: ok. 1 passed; 0 failed; {} idle clients of {mean} bytes each (in steps: {costs:?})",
        STEP * STEPS
    );
}
