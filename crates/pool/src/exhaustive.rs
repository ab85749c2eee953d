//! Every order of events in small worlds: two or three servers, three or four clients, and all possible events.
//!
//! A [`World`] is a pool beside a simple model: a list of servers, a list of waiting clients. From a fresh pool every
//! possible event is tried, and every event after that, to a given depth. States that look alike are visited once; a
//! test proves that this loses nothing by walking one world without it. Clients are interchangeable, so only the first
//! free one acts. After each event:
//!
//! - the pool's answers and effects must be what the model allows (one owner a server, first come first served, limits,
//!   the right moment for each refusal, notice, closing and opening), and both must agree on who is where;
//! - if from here on nothing fails, every waiting client must be served, or refused in time, and the next one served.

mod checks;
mod world;

use std::collections::{HashMap, HashSet};

use weir_base::{Span, Time};

use self::world::{Event, Rules, Server, World};
use crate::Settings;
use crate::state::RunState;

impl World {
    /// From here on nothing fails: every waiting client is served or refused in time, and then the next client is
    /// served.
    fn calm_down(&mut self) {
        if self.run_state == RunState::Shut {
            return;
        }
        self.apply(Event::Resume);
        if self.pool.ceiling.is_some() {
            self.apply(Event::Ceiling);
        }
        let mut steps = 0;
        while !self.queue.is_empty() {
            self.go_well();
            steps += 1;
            assert!(steps < 60, "a client waits for ever");
        }
        while let Some(server) = self.linked() {
            self.apply(Event::Release(server));
        }
        self.apply(Event::Acquire);
        while self.linked().is_none() {
            self.go_well();
            if self.queue.is_empty() && self.linked().is_none() {
                self.apply(Event::Acquire);
            }
            steps += 1;
            assert!(steps < 100, "the next client is never served");
        }
    }

    fn go_well(&mut self) {
        let login = self.servers.iter().find(|(_, server)| matches!(server, Server::Login { .. }));
        let linked = self.linked();
        let event = match (self.asked, login, linked) {
            (true, ..) => Event::Begin,
            (_, Some((server, _)), _) => Event::Connected(*server),
            (_, _, Some(server)) => Event::Release(server),
            _ => {
                // A server that is down is tried again when a client needs one.
                let deadline = self.pool.next_deadline();
                let backoff = self.pool.backoff.opens(false);
                assert!(deadline != Time::NEVER || backoff > self.now, "nothing will ever happen again");
                if deadline == Time::NEVER {
                    self.now = backoff;
                    return self.settle();
                }
                Event::Tick
            }
        };
        self.apply(event);
    }
}

/// What was walked: how many different states, and how many orders of events led through them.
struct Explored {
    states: usize,
    orders: u128,
}

/// Tries everything to `depth` events.
fn explore(rules: &Rules, depth: usize) -> Explored {
    let root = World::new(rules.clone());
    let start = root.looks();
    let mut seen = HashSet::from([start]);
    let mut front = vec![(start, root)];
    // Where the events of each state lead.
    let mut graph: HashMap<u64, Vec<u64>> = HashMap::new();
    for _ in 0..depth {
        let mut next = Vec::new();
        for (from, world) in &front {
            let mut leads = Vec::new();
            for event in world.events() {
                let mut after = world.clone();
                after.apply(event);
                let looks = after.looks();
                leads.push(looks);
                if seen.insert(looks) {
                    after.clone().calm_down();
                    next.push((looks, after));
                }
            }
            graph.insert(*from, leads);
        }
        front = next;
    }
    Explored { states: seen.len(), orders: orders(&graph, start, depth) }
}

/// How many ways of this many steps a graph has.
fn orders(graph: &HashMap<u64, Vec<u64>>, start: u64, depth: usize) -> u128 {
    let mut ways = HashMap::from([(start, 1u128)]);
    for _ in 0..depth {
        let mut next: HashMap<u64, u128> = HashMap::new();
        for (from, count) in ways {
            graph[&from].iter().for_each(|to| *next.entry(*to).or_default() += count);
        }
        ways = next;
    }
    ways.values().sum()
}

/// Explores order by order, without merging equal states. Collects the states; returns the number of orders.
fn explore_every_order(world: &World, depth: usize, seen: &mut HashSet<u64>) -> u128 {
    seen.insert(world.looks());
    if depth == 0 {
        world.clone().calm_down();
        return 1;
    }
    let walk = |event| {
        let mut after = world.clone();
        after.apply(event);
        explore_every_order(&after, depth - 1, seen)
    };
    world.events().into_iter().map(walk).sum()
}

/// Explores, and reports what was seen.
fn walk(what: &str, rules: &Rules, depth: usize) -> usize {
    let Explored { states, orders } = explore(rules, depth);
    let clients = rules.clients;
    println!("{what}: {clients} clients, {depth} events: {states} states, {orders} orders");
    states
}

fn settings() -> Settings {
    Settings {
        size: 2,
        min_size: 0,
        reserve_size: 0,
        reserve_timeout: Span::ZERO,
        query_wait_timeout: Span::ZERO,
        query_wait_notify: Span::ZERO,
        server_lifetime: Span::from_secs(3600),
        server_idle_timeout: Span::ZERO,
        server_connect_timeout: Span::from_secs(3),
        server_login_retry: Span::from_secs(2),
        server_check_delay: Span::from_secs(1),
        checks: true,
        round_robin: false,
        connects_per_second: 0,
        max_waiting: 0,
    }
}

fn any_but_commands(event: Event) -> bool {
    !matches!(
        event,
        Event::Pause
            | Event::Suspend
            | Event::Resume
            | Event::Reconnect
            | Event::Resize
            | Event::CloseIdle
            | Event::Evict
            | Event::Ceiling
            | Event::Demand
            | Event::Shut
            | Event::Begin
            | Event::Decline
    )
}

fn commands_too(event: Event) -> bool {
    !matches!(event, Event::Begin | Event::Decline | Event::Ceiling)
}

fn without_shut(event: Event) -> bool {
    commands_too(event) && event != Event::Shut
}

fn everything(event: Event) -> bool {
    event != Event::Ceiling
}

fn with_another_pool(event: Event) -> bool {
    event == Event::Ceiling || any_but_commands(event)
}

#[test]
fn traffic_and_failures_on_two_servers() {
    let settings = settings();
    let rules = Rules { other: settings.clone(), settings, clients: 3, events: any_but_commands };
    let states = walk("traffic and failures", &rules, 11);
    assert!(states > 10_000, "{states}");
}

#[test]
fn clients_are_noticed_and_time_out() {
    let settings = Settings {
        size: 1,
        query_wait_timeout: Span::from_secs(4),
        query_wait_notify: Span::from_millis(1500),
        ..settings()
    };
    let other = Settings { query_wait_notify: Span::from_millis(3500), size: 2, ..settings.clone() };
    let events =
        |event| !matches!(event, Event::Begin | Event::Decline | Event::Reconnect | Event::CloseIdle | Event::Ceiling);
    let states = walk("notices and time-outs", &Rules { settings, other, clients: 3, events }, 9);
    assert!(states > 10_000, "{states}");
}

#[test]
fn the_reserve_opens_for_those_who_waited() {
    let settings =
        Settings { size: 1, reserve_size: 1, reserve_timeout: Span::from_secs(1), round_robin: true, ..settings() };
    let other = Settings { reserve_size: 0, max_waiting: 1, ..settings.clone() };
    let states = walk("the reserve", &Rules { settings, other, clients: 3, events: without_shut }, 10);
    assert!(states > 10_000, "{states}");
}

#[test]
fn servers_grow_old_and_idle() {
    let settings = Settings {
        min_size: 1,
        server_lifetime: Span::from_secs(6),
        server_idle_timeout: Span::from_secs(4),
        server_check_delay: Span::ZERO,
        ..settings()
    };
    let other = Settings { size: 1, server_lifetime: Span::from_secs(3), ..settings.clone() };
    let states = walk("age and idleness", &Rules { settings, other, clients: 3, events: without_shut }, 9);
    assert!(states > 10_000, "{states}");
}

#[test]
fn the_operator_interferes_with_everything() {
    let settings = Settings { min_size: 1, connects_per_second: 1, ..settings() };
    let other = Settings { size: 1, min_size: 0, ..settings.clone() };
    let states = walk("the operator", &Rules { settings, other, clients: 3, events: everything }, 10);
    assert!(states > 10_000, "{states}");
}

#[test]
fn another_pool_needs_a_server() {
    let settings = Settings { min_size: 1, ..settings() };
    let rules = Rules { other: settings.clone(), settings, clients: 3, events: with_another_pool };
    let states = walk("another pool", &rules, 10);
    assert!(states > 5_000, "{states}");
}

#[test]
fn three_servers_shrink_to_one() {
    let settings = Settings { size: 3, query_wait_timeout: Span::from_secs(2), ..settings() };
    let other = Settings { size: 1, ..settings.clone() };
    let states = walk("three servers shrink to one", &Rules { settings, other, clients: 3, events: commands_too }, 10);
    assert!(states > 5_000, "{states}");
}

#[test]
fn four_clients_share_two_servers() {
    let settings = settings();
    let rules = Rules { other: settings.clone(), settings, clients: 4, events: any_but_commands };
    assert!(walk("traffic and failures", &rules, 10) > 5_000);
}

#[test]
fn four_clients_and_an_operator_share_two_servers_and_a_reserve() {
    let settings = Settings {
        reserve_size: 1,
        reserve_timeout: Span::from_secs(1),
        query_wait_timeout: Span::from_secs(4),
        query_wait_notify: Span::from_millis(1500),
        ..settings()
    };
    let other = Settings { size: 1, reserve_size: 0, ..settings.clone() };
    assert!(walk("all at once", &Rules { settings, other, clients: 4, events: everything }, 8) > 5_000);
}

#[test]
fn states_that_look_alike_have_the_same_future() {
    let settings = settings();
    let rules = Rules { other: settings.clone(), settings, clients: 4, events: any_but_commands };
    let mut seen = HashSet::new();
    let orders = explore_every_order(&World::new(rules.clone()), 7, &mut seen);
    println!("without merging: 4 clients, 7 events: {} states, {orders} orders", seen.len());
    let merged = explore(&rules, 7);
    assert_eq!((merged.states, merged.orders), (seen.len(), orders), "merging has lost a state");
}
