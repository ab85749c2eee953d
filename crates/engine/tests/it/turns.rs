//! Many pools with one host: the limit of concurrent logins, their order, and a host that can't be reached.

use std::sync::Arc;

use weir_base::{ConnId, Span};
use weir_config::{Config, OnServerDown, Successor};
use weir_engine::port::{Input, Signal, WorkResult};

use crate::common::*;

/// This many pools with one host, and a limit of concurrent logins there.
fn many(pools: usize, most: u32) -> Config {
    let mut config = Config { max_logins_per_host: most, ..config(1) };
    (0..pools).for_each(|number| add_pool(&mut config, &format!("pool{number}"), 1));
    config
}

/// This many pools with one host, whose clients do not wait for a server that is down, and a limit of concurrent logins
/// there.
fn refusing(pools: usize, most: u32) -> Config {
    let mut config = many(0, most);
    config.limits.on_server_down = OnServerDown::Refuse;
    (0..pools).for_each(|number| add_pool(&mut config, &format!("pool{number}"), 1));
    config
}

/// A client of each pool connects.
fn all_come(world: &mut World, pools: usize) -> Vec<ConnId> {
    (0..pools).map(|number| world.arrival("ann", &format!("pool{number}"))).collect()
}

fn connecting(world: &mut World) -> Vec<ConnId> {
    std::iter::from_fn(|| world.connecting()).collect()
}

#[test]
fn a_host_gets_so_many_logins_at_once_and_all_pools_are_served_in_turn() {
    let mut world = World::new(many(10, 3));
    let clients = all_come(&mut world, 10);
    let mut under_way = connecting(&mut world);
    assert_eq!(under_way.len(), 3);
    for (served, client) in clients.iter().enumerate() {
        let server = under_way.remove(0);
        world.log_in(server);
        assert!(world.received(*client).ends_with(&ready(b'I')), "first come, first served: {served}");
        under_way.extend(connecting(&mut world));
        assert_eq!(under_way.len(), 3.min(10 - served - 1), "the next takes the turn");
    }
}

#[test]
fn a_login_that_fails_or_takes_too_long_makes_room_for_the_next() {
    let mut world = World::new(refusing(3, 1));
    let clients = all_come(&mut world, 3);
    let first = world.connecting().expect("one login");
    assert_eq!(world.connecting(), None);
    world.input(weir_engine::port::Input::Connected { conn: first, local: String::new(), remote: None });
    // The server does not answer.
    world.pass(Span::from_secs(16));
    assert!(says(&world.received(clients[0]), "server_connect_timeout"));
    let second = world.connecting().expect("the next has its turn");
    world.input(weir_engine::port::Input::Connected { conn: second, local: String::new(), remote: None });
    world.gone(second);
    // The server has ended a login: the next login begins a moment later.
    world.pass(Span::from_millis(50));
    let third = world.connecting().expect("and the last one");
    world.log_in(third);
    assert!(world.received(clients[2]).ends_with(&ready(b'I')));
}

#[test]
fn a_pool_in_the_queue_of_an_unreachable_host_fails_without_a_try() {
    let mut world = World::new(refusing(100, 2));
    let clients = all_come(&mut world, 100);
    let first = world.connecting().expect("a login");
    let second = world.connecting().expect("another one");
    world.refuse_connect(first, "Connection refused");
    let refused = clients.iter().filter(|client| says(&world.received(**client), "Connection refused")).count();
    assert_eq!(refused, 99, "all but the client of the login that is under way");
    assert_eq!(world.connecting(), None, "no other pool has tried");
    world.log_in(second);
}

#[test]
fn a_pool_that_leaves_the_queue_is_skipped() {
    let mut world = World::new(many(3, 1));
    let clients = all_come(&mut world, 3);
    let first = world.connecting().expect("one login");
    world.gone(clients[1]);
    world.log_in(first);
    let next = world.connecting().expect("the turn continues");
    world.log_in(next);
    assert!(world.received(clients[2]).ends_with(&ready(b'I')));
    assert_eq!(world.connecting(), None);
}

#[test]
fn a_reload_with_more_room_lets_more_of_the_queue_in() {
    let mut world = World::new(many(10, 1));
    let _clients = all_come(&mut world, 10);
    assert_eq!(connecting(&mut world).len(), 1);
    world.signal(weir_engine::port::Signal::Reload);
    world.config_read(many(10, 4));
    assert_eq!(connecting(&mut world).len(), 3, "four at once now");
}

#[test]
fn a_few_pools_adopt_a_configuration_each_turn_and_a_login_finds_none_under_an_older_one() {
    const POOLS: usize = 10;
    let mut world = World::new(many(POOLS, 64));
    all_come(&mut world, POOLS);
    connecting(&mut world).into_iter().for_each(|server| world.log_in(server));
    let newcomer = world.visitor();
    let mut moved = many(POOLS, 64);
    moved.pools.values_mut().for_each(|pool| Arc::make_mut(pool).targets[0].port += 1);
    let port = moved.pools["pool0"].targets[0].port;
    world.signal(Signal::Reload);
    let job = world.requested_help().expect("a helper was asked");
    let read = Successor::from(Arc::new(moved));
    world.input_only(Input::JobDone { job, result: WorkResult::Config(Ok(read)) });
    assert_eq!((world.servers().len(), world.messages()), (POOLS, 1), "the command is on its way");
    assert!(world.deliver_message());
    assert_eq!(world.servers().len(), POOLS - PER_TURN, "idle servers of the old address are closed");
    let mut startup = Vec::new();
    weir_pgwire::put_front::startup(&mut startup, &[("user", "ann"), ("database", "pool0")], 0);
    world.bytes_only(newcomer, &startup);
    world.connecting().expect("its pool has no server for it");
    assert_eq!(world.last_target().map(|target| target.port), Some(port), "the pool of a login does not wait its turn");
    let mut turns = 1;
    while world.deliver_message() {
        turns += 1;
        let open = world.servers().len();
        assert!(open + (PER_TURN * turns).min(POOLS) >= POOLS, "{open} after {turns} turns");
    }
    assert!(turns >= POOLS / PER_TURN, "{turns}");
    assert_eq!(world.servers().len(), 1, "only the newcomer's is left");
}
