//! Runs with the pooler: its settings, its clients and its troubles, drawn at random.

use std::sync::Arc;

use weir_base::{Host, Mode, OnDirty, Span, Target, Time};
use weir_config::{Config, Limits, Method, Pool, Users};

use crate::client::Kind;
use crate::context::Rules;
use crate::network::Address;
use crate::postgres::login::{password_of, verifier_of};
use crate::postgres::{Flavour, Server, State};
use crate::rng::Rng;
use crate::scenario::{Act, Pooling, Scenario};

/// The users there are.
const USERS: [&str; 3] = ["ann", "bob", "eve"];

/// The one of them who may use the console.
const ADMIN: &str = "ann";

/// What a client must bear beyond the time it may have to wait for a server: faults of the network and of servers,
/// in microseconds.
const PATIENCE: u64 = 120_000_000;

/// Draws a run of clients, a pooler and servers.
pub(crate) fn draw(rng: &mut Rng) -> Scenario {
    let mode = *rng.pick(&[Mode::Transaction, Mode::Transaction, Mode::Transaction, Mode::Session, Mode::Statement]);
    let on_dirty = *rng.pick(&[OnDirty::Reset, OnDirty::Keep, OnDirty::Close]);
    let faulty = rng.chance(500);
    let method = *rng.pick(&[Method::Trust, Method::Plain, Method::Md5, Method::ScramSha256]);
    let targets: Vec<Target> = (0..rng.between(1, 2)).map(target).collect();
    let mut flavour = Flavour::draw(rng);
    let clients = rng.skewed(1, 40) as u32;
    let mut config = settings(rng, mode, on_dirty, method, faulty);
    config.max_clients = if faulty { rng.between(1, 100) as u32 } else { 1_000 };
    let pools = rng.between(1, 3);
    for number in 0..pools {
        let pool = pool(rng, number, &config, rng_target(&targets, number));
        config.pools.insert(pool.name.clone(), Arc::new(pool));
    }
    // A pooler that knows only a verifier can't answer a server that wants the password itself.
    if method != Method::Plain && config.pools.values().any(|pool| pool.user.is_none()) {
        flavour.method = crate::postgres::login::Method::Trust;
    }
    let rules = Rules {
        pooled: true,
        mode,
        on_dirty,
        faulty,
        patience: if faulty {
            Span::from_micros(config.limits.query_wait_timeout.micros() + PATIENCE)
        } else {
            Span::from_secs(3_000)
        },
        max_clients: config.max_clients as usize,
    };
    let max_connections = if faulty && rng.chance(300) { rng.between(1, 20) as usize } else { 1_000 };
    let server = |target: &Target| Server { target: target.clone(), state: State::Up, max_connections };
    let servers = targets.iter().map(server).collect();
    let mut scenario = Scenario::new(rng, rules, servers, flavour);
    for number in 1..=clients {
        let user = *rng.pick(&USERS);
        let database = format!("pool{}", rng.below(pools));
        match rng.below(100) {
            0..=2 if method != Method::Trust => {
                scenario.add_client(number, Address::Pooler, user, &database, Kind::Impostor);
            }
            3..=7 => scenario.add_client(number, Address::Pooler, user, &database, Kind::Hostile),
            8..=12 => {
                let console = *rng.pick(&["pgbouncer", "weir"]);
                scenario.add_client(number, Address::Pooler, ADMIN, console, Kind::Operator);
            }
            _ => scenario.add_client(number, Address::Pooler, user, &database, Kind::User),
        }
    }
    let reloads = (0..rng.below(3)).map(|_| Arc::new(resized(rng, &config))).collect();
    add_operator(rng, &mut scenario);
    scenario.pooling = Some(Pooling { workers: rng.between(1, 4) as u16, config: Arc::new(config), reloads });
    scenario
}

fn target(number: u64) -> Target {
    Target { host: Host::parse(&format!("10.0.0.{}", number + 1)), port: 5432 }
}

fn rng_target(targets: &[Target], number: u64) -> Target {
    targets[number as usize % targets.len()].clone()
}

fn settings(rng: &mut Rng, mode: Mode, on_dirty: OnDirty, method: Method, faulty: bool) -> Config {
    let secrets: Vec<(String, String)> = USERS
        .iter()
        .map(|user| {
            // A SCRAM login against a password costs thousands of rounds; a few runs can afford them.
            let verifier = matches!(method, Method::ScramSha256 | Method::Md5) && rng.chance(900);
            let secret = if verifier { verifier_of(user).to_string() } else { password_of(user) };
            ((*user).to_owned(), secret)
        })
        .collect();
    let users: Users = secrets.iter().map(|(user, secret)| (user.as_str(), secret.as_str())).collect();
    let mut config = Config { mode, on_dirty, limits: limits(rng, faulty), ..Config::default() };
    config.auth.method = method;
    config.auth.users = Arc::new(users);
    config.admin_users = vec![ADMIN.to_owned()];
    if rng.chance(300) {
        config.ignore_startup_parameters = vec!["extra_float_digits".to_owned()];
    }
    config
}

fn limits(rng: &mut Rng, faulty: bool) -> Limits {
    let seconds = |rng: &mut Rng, low, high| Span::from_millis(rng.skewed(low, high));
    let mut limits = Limits {
        size: rng.skewed(1, 10) as u32,
        min_size: rng.below(3) as u32,
        reserve_size: rng.below(3) as u32,
        reserve_timeout: seconds(rng, 1, 5_000),
        max_prepared_statements: *rng.pick(&[1, 2, 5, 200]),
        server_lifetime: seconds(rng, 1_000, 600_000),
        server_idle_timeout: seconds(rng, 1_000, 600_000),
        server_check_delay: seconds(rng, 1, 30_000),
        server_login_retry: seconds(rng, 10, 3_000),
        server_round_robin: rng.chance(300),
        connects_per_second: *rng.pick(&[1_000, 100, 20]),
        query_wait_timeout: Span::ZERO,
        ..Limits::default()
    };
    if faulty {
        limits.query_wait_timeout = seconds(rng, 100, 120_000);
        limits.query_timeout = *rng.pick(&[Span::ZERO, Span::from_secs(20)]);
        limits.idle_transaction_timeout = *rng.pick(&[Span::ZERO, Span::from_secs(5)]);
        limits.transaction_timeout = *rng.pick(&[Span::ZERO, Span::from_secs(30)]);
        limits.client_idle_timeout = *rng.pick(&[Span::ZERO, Span::from_secs(20)]);
    }
    limits
}

fn pool(rng: &mut Rng, number: u64, config: &Config, target: Target) -> Pool {
    let user = rng.chance(700).then(|| "app".to_owned());
    Pool {
        name: format!("pool{number}"),
        target,
        database: format!("db{number}"),
        password: user.as_deref().map(|user| password_of(user).into()),
        user,
        mode: config.mode,
        on_dirty: config.on_dirty,
        limits: Limits { size: rng.skewed(1, 10) as u32, ..config.limits.clone() },
    }
}

/// The same settings with other sizes.
fn resized(rng: &mut Rng, config: &Config) -> Config {
    let mut config = config.clone();
    for pool in config.pools.values_mut() {
        let mut resized = (**pool).clone();
        resized.limits.size = rng.skewed(1, 10) as u32;
        resized.limits.min_size = rng.below(3) as u32;
        *pool = Arc::new(resized);
    }
    config
}

/// What the operator does, and when.
fn add_operator(rng: &mut Rng, scenario: &mut Scenario) {
    let mut add = |rng: &mut Rng, act| {
        let at = Time::from_micros(rng.below(20_000_000));
        scenario.acts.push((at, act));
        at
    };
    for _ in 0..rng.below(3) {
        add(rng, Act::Reload);
    }
    if rng.chance(200) {
        let at = add(rng, Act::Pause);
        let pause = rng.span(1_000, 5_000_000);
        scenario.acts.push((at + pause, Act::Resume));
    }
    scenario.acts.sort_by_key(|(at, _)| *at);
}
