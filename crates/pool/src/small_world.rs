//! Every order of events in small worlds: two or three servers, three clients, and all that can happen to them.
//!
//! A [`World`] is a pool beside a model that is too simple to be wrong: a list of servers, a list of waiting clients.
//! From a fresh pool every possible event is tried, and every event after that, to a given depth; states that look
//! alike are visited once. Clients are interchangeable, so only the first free one acts. After each event:
//!
//! - the pool's answers and effects must be what the model allows (one owner a server, first come first served, limits,
//!   the right moment for each refusal, notice, closing and opening), and both must agree on who is where;
//! - when from here on all goes well, every client that waits must be served, or refused in time, and the next be
//!   served.

mod checks;
mod world;

use std::collections::HashSet;

use weir_base::{Span, Time};

use self::world::{Event, Rules, Server, World};
use crate::Settings;
use crate::pool::Mode;

impl World {
    /// From here on all goes well: everybody who waits is served or refused in time, and then the next client is
    /// served.
    fn calm_down(&mut self) {
        if self.mode == Mode::Shut {
            return;
        }
        self.apply(Event::Resume);
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
                // A server that is down is tried again when somebody asks.
                let deadline = self.pool.next_deadline();
                let gate = self.pool.gate.opens();
                assert!(deadline != Time::NEVER || gate > self.now, "nothing will ever happen again");
                if deadline == Time::NEVER {
                    self.now = gate;
                    return self.settle();
                }
                Event::Tick
            }
        };
        self.apply(event);
    }
}

/// Tries everything to `depth` events; returns how many different states there were.
fn explore(rules: &Rules, depth: usize) -> usize {
    let mut seen = HashSet::new();
    let mut front = vec![World::new(rules.clone())];
    for _ in 0..depth {
        let mut next = Vec::new();
        for world in &front {
            for event in world.events() {
                let mut after = world.clone();
                after.apply(event);
                if seen.insert(after.looks()) {
                    after.clone().calm_down();
                    next.push(after);
                }
            }
        }
        front = next;
    }
    seen.len()
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
            | Event::Demand
            | Event::Shut
            | Event::Begin
            | Event::Decline
    )
}

fn commands_too(event: Event) -> bool {
    !matches!(event, Event::Begin | Event::Decline)
}

fn without_shut(event: Event) -> bool {
    commands_too(event) && event != Event::Shut
}

fn everything(_: Event) -> bool {
    true
}

#[test]
fn traffic_and_failures_on_two_servers() {
    let settings = settings();
    let rules = Rules { other: settings.clone(), settings, events: any_but_commands };
    let states = explore(&rules, 13);
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
    let events = |event| !matches!(event, Event::Begin | Event::Decline | Event::Reconnect | Event::CloseIdle);
    let states = explore(&Rules { settings, other, events }, 10);
    assert!(states > 10_000, "{states}");
}

#[test]
fn the_reserve_opens_for_those_who_waited() {
    let settings =
        Settings { size: 1, reserve_size: 1, reserve_timeout: Span::from_secs(1), round_robin: true, ..settings() };
    let other = Settings { reserve_size: 0, max_waiting: 1, ..settings.clone() };
    let states = explore(&Rules { settings, other, events: without_shut }, 10);
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
    let states = explore(&Rules { settings, other, events: without_shut }, 10);
    assert!(states > 10_000, "{states}");
}

#[test]
fn the_operator_interferes_with_everything() {
    let settings = Settings { min_size: 1, connects_per_second: 1, ..settings() };
    let other = Settings { size: 1, min_size: 0, ..settings.clone() };
    let states = explore(&Rules { settings, other, events: everything }, 10);
    assert!(states > 10_000, "{states}");
}

#[test]
fn three_servers_shrink_to_one() {
    let settings = Settings { size: 3, query_wait_timeout: Span::from_secs(2), ..settings() };
    let other = Settings { size: 1, ..settings.clone() };
    let states = explore(&Rules { settings, other, events: commands_too }, 10);
    assert!(states > 5_000, "{states}");
}
