//! Runs with the pooler: draws its settings, its clients and the faults.

use std::sync::Arc;

use weir_auth::RequireAuth;
use weir_base::{Host, OnDirty, PoolMode, Span, Target, Time};
use weir_config::{
    Balance, Config, Limits, ListenBy, Method, PasswordCommand, Policy, PoolConfig, PoolShare, ServerRules,
    SessionAttrs, Spread, SslMode, Users,
};

use crate::client::{Kind, Topic};
use crate::context::Rules;
use crate::network::Address;
use crate::postgres::login::{UNLISTED, password_of, verifier_of};
use crate::postgres::{Behaviour, Encryption, Server, State};
use crate::rng::Rng;
use crate::scenario::{Act, Pooling, Scenario};

/// All users.
const USERS: [&str; 3] = ["ann", "bob", "eve"];

/// The user who may use the console.
const ADMIN: &str = "ann";

/// How long faults of the network and of servers may delay a client, beyond its wait for a server, in microseconds.
const FAULT_ALLOWANCE: u64 = 120_000_000;

/// Draws a run of clients, a pooler and servers.
pub(crate) fn draw(rng: &mut Rng) -> Scenario {
    let mode = *rng.pick(&[
        PoolMode::Transaction,
        PoolMode::Transaction,
        PoolMode::Auto,
        PoolMode::Session,
        PoolMode::Statement,
    ]);
    let on_dirty = *rng.pick(&[OnDirty::Reset, OnDirty::Keep, OnDirty::Close]);
    let faulty = rng.chance(500);
    let method = *rng.pick(&[Method::Trust, Method::Plain, Method::Md5, Method::ScramSha256]);
    let targets: Vec<Target> = (0..rng.between(1, 2)).map(target).collect();
    let mut behaviour = Behaviour::draw(rng);
    let clients = rng.skewed(1, 40) as u32;
    let mut config = settings(rng, mode, on_dirty, method, faulty);
    if faulty {
        draw_client_limits(rng, &mut config);
    }
    draw_shared_limits(rng, &mut config);
    config.max_logins_per_host = *rng.pick(&[0, 1, 1, 2, 64]);
    config.max_clients = if faulty { rng.between(1, 100) as u32 } else { 1_000 };
    let pools = rng.between(1, 3);
    for number in 0..pools {
        let pool_targets = draw_targets(rng, &targets, number);
        let pool = pool(rng, number, &config, pool_targets);
        config.pools.insert(pool.name.clone(), Arc::new(pool));
    }
    // Of a stream of its own: other draws stay as they were.
    draw_shares(rng.fork("shares", 0), &mut config);
    let on_demand = rng.chance(200);
    if on_demand {
        draw_fallback(rng, &mut config, &targets);
    }
    let lookups = rng.chance(250);
    if lookups {
        draw_lookups(rng, &mut config, pools);
    }
    draw_encryption(rng, &mut config, &mut behaviour);
    if faulty {
        behaviour.hostile = *rng.pick(&[0, 0, 0, 100, 400]);
    }
    // A pooler that has only a verifier can't log in to a server that requests the password itself.
    if (lookups || method != Method::Plain)
        && config.pools.values().chain(&config.fallback).any(|pool| pool.user.is_none())
    {
        behaviour.method = crate::postgres::login::Method::Trust;
    }
    let rules = Rules {
        pooled: true,
        mode,
        on_dirty,
        listens: config.pools.values().all(|pool| pool.shares_listening()),
        faulty,
        answer_timeout: if faulty {
            Span::from_micros(config.limits.query_wait_timeout.micros() + FAULT_ALLOWANCE)
        } else {
            Span::from_secs(3_000)
        },
        max_clients: config.max_clients as usize,
        primaries: (0..pools).filter(|number| wants_primary(&config, *number)).fold(0, |all, number| all | 1 << number),
    };
    let max_connections = if faulty && rng.chance(300) { rng.between(1, 20) as usize } else { 1_000 };
    let server = |target: &Target| Server { target: target.clone(), state: State::Up, max_connections };
    let servers = targets.iter().map(server).collect();
    let mut scenario = Scenario::new(rng, rules, servers, behaviour);
    for number in 1..=clients {
        let user = if lookups && rng.chance(500) { *rng.pick(&UNLISTED) } else { *rng.pick(&USERS) };
        let database = match rng.below(pools + u64::from(on_demand)) {
            // A database without a configured pool.
            number if number == pools => format!("any{}", rng.below(3)),
            number => format!("pool{number}"),
        };
        add_client(rng, &mut scenario, number, method, (user, &database));
    }
    let reloads: Vec<Arc<Config>> = (0..rng.below(3))
        .map(|number| {
            let mut config = resized(rng, &config);
            redraw_shares(rng.fork("other shares", number), &mut config);
            if faulty {
                redraw_statement_limits(rng.fork("statement limits", number), &mut config);
            }
            Arc::new(if faulty && rng.chance(400) { remade(rng, config, &targets) } else { config })
        })
        .collect();
    add_operator(rng, &mut scenario);
    if rng.chance(250) {
        scenario.make_cancel_run();
    }
    let mut workers = rng.between(1, 4) as u16;
    if rng.fork("loans", 0).chance(60) {
        workers = 4;
        make_loan_run(rng.fork("loans", 1), &mut scenario, &mut config);
    }
    let mut moves = rng.fork("moves", 0);
    let is_about_moves = faulty && targets.len() > 1 && moves.chance(150);
    if is_about_moves {
        make_move_run(moves, &targets, &mut scenario, &mut config);
    }
    let reloads = if is_about_moves { Vec::new() } else { reloads };
    draw_drain(rng.fork("drain", 0), &mut scenario, &mut config);
    scenario.pooling = Some(Pooling { workers, config: Arc::new(config), reloads });
    scenario
}

fn wants_primary(config: &Config, number: u64) -> bool {
    config.pools.get(&format!("pool{number}")).is_some_and(|pool| pool.session_attrs.wants_primary())
}

/// Draws a drain, in some runs without an operator: what is paused when it begins stays so.
fn draw_drain(mut rng: Rng, scenario: &mut Scenario, config: &mut Config) {
    let operated = scenario.clients.iter().any(|client| client.kind == Kind::Operator);
    let paused = scenario.acts.iter().any(|(_, act)| *act == Act::Pause);
    if operated || paused || !rng.chance(250) {
        return;
    }
    let times = [Span::ZERO, Span::ZERO, Span::from_millis(100), Span::from_secs(1), Span::from_secs(10)];
    config.drain_time = *rng.pick(&times);
    config.shutdown_delay = *rng.pick(&[Span::ZERO, Span::from_millis(500)]);
    if scenario.rules.faulty {
        config.shutdown_timeout = *rng.pick(&[Span::ZERO, Span::from_secs(1)]);
    }
    scenario.acts.push((Time::from_micros(rng.between(10_000, 3_000_000)), Act::Drain));
    scenario.acts.sort_by_key(|(at, _)| *at);
}

/// Adds a client of a kind that is drawn.
fn add_client(rng: &mut Rng, scenario: &mut Scenario, number: u32, method: Method, (user, database): (&str, &str)) {
    match rng.below(100) {
        0..=2 if method != Method::Trust => {
            // A refusal must not show whether the user exists.
            let user = if rng.chance(300) { "gil" } else { user };
            scenario.add_client(number, Address::Pooler, user, database, Kind::WrongPassword);
        }
        3..=7 => scenario.add_client(number, Address::Pooler, user, database, Kind::Hostile),
        8..=12 => {
            let console = *rng.pick(&["pgbouncer", "weir"]);
            scenario.add_client(number, Address::Pooler, ADMIN, console, Kind::Operator);
        }
        _ => scenario.add_client(number, Address::Pooler, user, database, Kind::User),
    }
}

/// Makes this a run about servers that workers lend each other.
fn make_loan_run(mut rng: Rng, scenario: &mut Scenario, config: &mut Config) {
    config.spread = Spread::Always;
    for pool in config.pools.values_mut() {
        Arc::make_mut(pool).limits.size = rng.between(1, 3) as u32;
    }
    let operator = scenario.clients.len() as u32 + 1;
    scenario.add_client(operator, Address::Pooler, ADMIN, "weir", Kind::Operator);
    // The clients and the operators meet.
    scenario.arrival = scenario.arrival.min(50_000);
    scenario.make_about(Topic::Loans);
}

/// Makes this a run about pools that move to another primary: hosts let nobody in now and then, and their sessions go on.
fn make_move_run(mut rng: Rng, targets: &[Target], scenario: &mut Scenario, config: &mut Config) {
    for pool in config.pools.values_mut() {
        let pool = Arc::make_mut(pool);
        (pool.targets, pool.session_attrs) = (targets.to_vec(), SessionAttrs::ReadWrite);
        pool.limits.size = rng.between(2, 6) as u32;
    }
    scenario.rules.primaries = (1 << config.pools.len()) - 1;
    // The clients and the faults meet.
    scenario.arrival = scenario.arrival.min(50_000);
    for _ in 0..rng.between(4, 20) {
        let at = Time::from_micros(rng.between(1_000, 500_000));
        scenario.acts.push((at, Act::ShutOut(rng.below(targets.len() as u64) as usize)));
    }
    scenario.acts.sort_by_key(|(at, _)| *at);
}

fn target(number: u64) -> Target {
    Target { host: Host::parse(&format!("10.0.0.{}", number + 1)), port: 5432 }
}

/// A pool's targets: a name whose address changes, one server, or several, one of which may always be down.
fn draw_targets(rng: &mut Rng, targets: &[Target], number: u64) -> Vec<Target> {
    let mut drawn = vec![targets[number as usize % targets.len()].clone()];
    if rng.chance(200) {
        drawn = vec![Target { host: Host::Name(format!("db{number}.test")), port: 5432 }];
    } else if rng.chance(300) {
        drawn = targets.to_vec();
        if rng.chance(500) {
            drawn.insert(rng.below(drawn.len() as u64 + 1) as usize, target(99));
        }
    }
    drawn
}

fn has_name(targets: &[Target]) -> bool {
    targets.iter().any(|target| matches!(target.host, Host::Name(_)))
}

fn settings(rng: &mut Rng, mode: PoolMode, on_dirty: OnDirty, method: Method, faulty: bool) -> Config {
    let secrets: Vec<(String, String)> = USERS
        .iter()
        .map(|user| {
            // A SCRAM login against a password costs thousands of rounds, so only a few runs have passwords.
            let verifier = matches!(method, Method::ScramSha256 | Method::Md5) && rng.chance(900);
            let secret = if verifier { verifier_of(user).to_string() } else { password_of(user) };
            ((*user).to_owned(), secret)
        })
        .collect();
    let secrets = [secrets, vec![("auth".to_owned(), password_of("auth"))]].concat();
    let users: Users = secrets.iter().map(|(user, secret)| (user.as_str(), secret.as_str())).collect();
    let limits = limits(rng, faulty);
    let policy = Policy { mode, on_dirty, ..Policy::default() };
    let mut config = Config { policy, limits, ..Config::default() };
    config.auth.method = method;
    config.auth.users = Arc::new(users);
    config.admin_users = vec![ADMIN.to_owned()];
    config.client_login_timeout =
        if faulty { *rng.pick(&[Span::ZERO, Span::from_secs(2), Span::from_secs(60)]) } else { Span::ZERO };
    // `server_fast_close` takes servers away from clients, which then get an error.
    config.server_fast_close = faulty && rng.chance(300);
    config.spread = *rng.fork("spread", 0).pick(&[Spread::Busy, Spread::Always, Spread::Always, Spread::Never]);
    config.stats_period = Span::from_secs(*rng.pick(&[1, 60]));
    config.track_statements = *rng.fork("statements", 0).pick(&[0, 3, 100]);
    config.pool_idle_timeout = *rng.pick(&[Span::ZERO, Span::from_secs(1), Span::from_secs(20)]);
    config.autodb_idle_timeout = *rng.pick(&[Span::ZERO, Span::from_secs(1), Span::from_secs(3600)]);
    if rng.chance(100) {
        config.login_notify_message = "a notice of the operator".to_owned();
    }
    config.tls.client.mode = *rng.pick(&[SslMode::Disable, SslMode::Allow, SslMode::Prefer]);
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
        max_pinned: 0,
        pin_refuse: weir_base::StateKinds::NONE,
        listen: *rng.pick(&[ListenBy::Auto, ListenBy::Auto, ListenBy::Shared]),
        server_lifetime: seconds(rng, 1_000, 600_000),
        server_idle_timeout: seconds(rng, 1_000, 600_000),
        server_check_delay: seconds(rng, 1, 30_000),
        server_login_retry: seconds(rng, 10, 3_000),
        server_round_robin: rng.chance(300),
        connects_per_second: *rng.pick(&[1_000, 100, 20]),
        query_wait_timeout: Span::ZERO,
        // `first_server_timeout` ends waits that a checker expects to go on.
        first_server_timeout: Span::ZERO,
        query_wait_notify: *rng.pick(&[Span::ZERO, Span::from_millis(1), Span::from_secs(5)]),
        // A hostile server may swallow a cancel.
        cancel_wait_timeout: *rng.pick(&[Span::from_millis(200), Span::from_secs(1), Span::from_secs(10)]),
        ..Limits::default()
    };
    if faulty {
        limits.server_connect_timeout = *rng.pick(&[Span::from_millis(300), Span::from_secs(15)]);
        draw_statement_limits(rng, &mut limits);
        limits.query_wait_timeout = seconds(rng, 100, 120_000);
        limits.query_timeout = *rng.pick(&[Span::ZERO, Span::from_secs(20)]);
        limits.idle_transaction_timeout = *rng.pick(&[Span::ZERO, Span::from_secs(5)]);
        limits.transaction_timeout = *rng.pick(&[Span::ZERO, Span::from_secs(30)]);
        limits.client_idle_timeout = *rng.pick(&[Span::ZERO, Span::from_secs(20)]);
    }
    limits
}

fn draw_statement_limits(rng: &mut Rng, limits: &mut Limits) {
    limits.client_statements = *rng.pick(&[1, 3, 1_000]);
    limits.client_statement_memory = *rng.pick(&[0, 4_000, 100_000]);
    limits.pool_statement_memory = *rng.pick(&[0, 0, 20_000]);
    limits.statement_memory = *rng.pick(&[256 << 20, 1 << 20, 40_000]);
}

/// Draws other limits on statements. What clients hold may be more.
fn redraw_statement_limits(mut rng: Rng, config: &mut Config) {
    draw_statement_limits(&mut rng, &mut config.limits);
    if rng.chance(500) {
        config.limits.statement_memory = 1_000;
    }
    for pool in config.pools.values_mut().chain(&mut config.fallback) {
        let limits = &mut Arc::make_mut(pool).limits;
        limits.client_statements = config.limits.client_statements;
        limits.client_statement_memory = config.limits.client_statement_memory;
        limits.pool_statement_memory = config.limits.pool_statement_memory;
        limits.statement_memory = config.limits.statement_memory;
    }
}

/// Draws the fallback pool, from which pools are created when a client names their database.
fn draw_fallback(rng: &mut Rng, config: &mut Config, targets: &[Target]) {
    let pool_targets = draw_targets(rng, targets, 0);
    let mut pattern = pool(rng, 0, config, pool_targets);
    pattern.name = "*".to_owned();
    pattern.database = String::new();
    config.fallback = Some(Arc::new(pattern));
}

/// The given settings with pools removed, moved to other targets, or with another user.
fn remade(rng: &mut Rng, mut config: Config, targets: &[Target]) -> Config {
    let names: Vec<String> = config.pools.keys().cloned().collect();
    for (number, name) in names.iter().enumerate() {
        let Some(pool) = config.pools.get_mut(name) else { continue };
        let pool = Arc::make_mut(pool);
        match rng.below(6) {
            0 => {
                config.pools.remove(name);
            }
            1 => {
                let drawn = draw_targets(rng, targets, number as u64 + 1);
                if !(pool.session_attrs.wants_primary() && has_name(&drawn)) {
                    pool.targets = drawn;
                }
            }
            2 => {
                pool.user = if pool.user.is_some() { None } else { Some("app".to_owned()) };
                pool.password = pool.user.as_deref().map(|user| password_of(user).into());
            }
            3 => pool.database = format!("moved{number}"),
            4 => {
                pool.limits.max_db_connections = rng.below(4) as u32;
                pool.limits.reserve_size = rng.below(3) as u32;
            }
            _ => {}
        }
    }
    if rng.chance(300) {
        config.max_user_connections = rng.below(4) as u32;
    }
    config
}

/// Draws auth_query: a server is asked as `auth` for the secrets of unlisted users, in each client's database or in
/// one.
fn draw_lookups(rng: &mut Rng, config: &mut Config, pools: u64) {
    config.auth.query = "LOOKUP $1".to_owned();
    config.auth.query_user = Some("auth".to_owned());
    config.auth.query_database = rng.chance(500).then(|| format!("pool{}", rng.below(pools)));
    config.auth.query_cache = *rng.pick(&[Span::ZERO, Span::from_millis(100), Span::from_secs(10)]);
    config.auth.scram_iterations = 2;
}

/// Draws TLS on the servers and a `server_tls_sslmode` with which the pooler can connect.
fn draw_encryption(rng: &mut Rng, config: &mut Config, behaviour: &mut Behaviour) {
    use SslMode::{Allow, Disable, Prefer, Require, VerifyFull};
    let choices: [(Encryption, &[SslMode]); 3] = [
        (Encryption::Never, &[Disable, Allow, Prefer]),
        (Encryption::Offered, &[Disable, Allow, Prefer, Require, VerifyFull]),
        (Encryption::Required, &[Allow, Prefer, Require]),
    ];
    let (encryption, modes) = *rng.pick(&choices);
    behaviour.encryption = encryption;
    config.tls.server.mode = *rng.pick(modes);
}

/// Draws limits that span pools and workers, in some runs: per database (several users), per user (several databases).
fn draw_shared_limits(rng: &mut Rng, config: &mut Config) {
    if rng.chance(300) {
        config.limits.max_db_connections = rng.skewed(1, 8) as u32;
    }
    if rng.chance(300) {
        config.max_user_connections = rng.skewed(1, 8) as u32;
    }
    if rng.chance(100) {
        let user = *rng.pick(&["app", "ann", "bob"]);
        let rules = config.users.entry(user.to_owned()).or_default();
        rules.max_connections = Some(rng.below(4) as u32);
        rules.pool_size = rng.chance(300).then(|| rng.between(1, 4) as u32);
        rules.reserve_size = rng.chance(300).then(|| rng.below(3) as u32);
    }
}

/// Draws shares of the connections of one database server, in some runs. Guarantees leave at least one to all: what idles
/// within a guarantee stays.
fn draw_shares(mut rng: Rng, config: &mut Config) {
    if !rng.chance(250) {
        return;
    }
    let most = rng.skewed(1, 8) as u32;
    let mut left = most - 1;
    for pool in config.pools.values_mut() {
        if rng.chance(100) {
            continue;
        }
        let guaranteed = rng.below(u64::from(left.min(3)) + 1) as u32;
        left -= guaranteed;
        let weight = rng.between(1, 4) as u32;
        Arc::make_mut(pool).share = PoolShare { server: Some("s".into()), guaranteed, weight };
    }
    config.servers.insert("s".to_owned(), ServerRules { max_connections: most, guaranteed: 0 });
    config.sum_guarantees();
}

/// Other shares after a reload: the limit, and who is guaranteed what.
fn redraw_shares(mut rng: Rng, config: &mut Config) {
    let Some(server) = config.servers.get_mut("s") else { return };
    if rng.chance(500) {
        server.max_connections = rng.skewed(1, 8) as u32;
    }
    let mut left = server.max_connections - 1;
    for pool in config.pools.values_mut() {
        let share = &mut Arc::make_mut(pool).share;
        share.guaranteed = share.guaranteed.min(left);
        left -= share.guaranteed;
        if rng.chance(100) {
            share.server = if share.server.is_some() { None } else { Some("s".into()) };
        }
    }
    config.sum_guarantees();
}

fn pool(rng: &mut Rng, number: u64, config: &Config, targets: Vec<Target>) -> PoolConfig {
    let user = rng.chance(700).then(|| "app".to_owned());
    // Of a stream of its own: other draws stay as they were.
    let printed = user.is_some() && rng.fork("printed", number).chance(150);
    let mut primary = rng.fork("primary", number);
    // A name is one host for the pooler, though it may stand for several.
    let may_want = primary.chance(400) && !has_name(&targets);
    let session_attrs = if may_want { SessionAttrs::ReadWrite } else { SessionAttrs::Any };
    let old_primary_timeout =
        *primary.pick(&[Span::ZERO, Span::from_millis(50), Span::from_secs(1), Span::from_secs(60)]);
    PoolConfig {
        name: format!("pool{number}"),
        targets,
        balance: *rng.pick(&[Balance::RoundRobin, Balance::Disable]),
        database: format!("db{number}"),
        password: user.as_deref().filter(|_| !printed).map(|user| password_of(user).into()),
        password_command: Arc::new(PasswordCommand {
            argv: user.iter().filter(|_| printed).cloned().collect(),
            ..PasswordCommand::default()
        }),
        user,
        policy: Policy {
            // The modelled servers have every password method, and no certificates.
            require_auth: RequireAuth::Any,
            reset_always: rng.chance(200),
            check_query: [Some(String::new()), Some("SELECT 1".to_owned()), None][rng.below(3) as usize].clone(),
            ..config.policy.clone()
        },
        connect_query: rng.chance(200).then(|| "SELECT 1".to_owned()),
        session_attrs,
        limits: Limits { size: rng.skewed(1, 10) as u32, old_primary_timeout, ..config.limits.clone() },
        ..PoolConfig::default()
    }
}

/// Limits that refuse clients, and how late a wrong password is answered.
fn draw_client_limits(rng: &mut Rng, config: &mut Config) {
    let few = |rng: &mut Rng| if rng.chance(300) { rng.between(1, 20) as u32 } else { 0 };
    config.max_user_client_connections = few(rng);
    config.max_address_connections = few(rng);
    config.limits.max_db_client_connections = few(rng);
    config.auth.failure_delay = *rng.pick(&[Span::ZERO, Span::from_millis(100), Span::from_secs(2)]);
}

/// The given settings with other sizes.
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

/// Draws the operator's signals and their times.
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
