//! Runs without the pooler: they test the model itself.

use weir_base::{Host, Target};

use crate::client::Kind;
use crate::context::Rules;
use crate::network::Address;
use crate::postgres::{Behaviour, Server, State, login::Method};
use crate::rng::Rng;
use crate::scenario::Scenario;

/// Draws a run of clients that connect to a server directly.
pub(crate) fn draw(rng: &mut Rng) -> Scenario {
    let target = Target { host: Host::parse("10.0.0.1"), port: 5432 };
    let behaviour = Behaviour::draw(rng);
    let rules = Rules { faulty: rng.chance(300), ..Rules::default() };
    let servers = vec![Server { target: target.clone(), state: State::Up, max_connections: 1_000 }];
    let mut scenario = Scenario::new(rng, rules, servers, behaviour);
    let may_be_refused = scenario.behaviour.method != Method::Trust;
    for number in 1..=rng.skewed(1, 20) as u32 {
        let kind = match rng.below(100) {
            0..=4 if may_be_refused => Kind::WrongPassword,
            5..=9 => Kind::Hostile,
            _ => Kind::User,
        };
        scenario.add_client(number, Address::Server(target.clone()), "ann", "app", kind);
    }
    scenario
}
