//! Each state of health, and which one wins where several apply.

use weir_base::PoolMode;

use super::*;
use crate::health::{LoginFailure, PoolHealth};
use crate::one_line::MAX_MESSAGE;

fn pool(change: impl FnOnce(&mut PoolRecord)) -> PoolRecord {
    let mut pool = PoolRecord::new("app", "owner", PoolMode::Transaction);
    change(&mut pool);
    pool
}

fn state(change: impl FnOnce(&mut PoolRecord)) -> Health {
    Health::of(&pool(change), false, false)
}

fn fails(pool: &mut PoolRecord, sqlstate: &str) {
    pool.symptoms.failure = Some(LoginFailure::new(1, 1, sqlstate, "no"));
}

/// Two servers in use, three clients that have waited this long.
fn full(pool: &mut PoolRecord, seconds: u64) {
    (pool.sv_active, pool.cl_waiting, pool.maxwait) = (2, 3, Span::from_secs(seconds));
}

#[test]
fn a_pool_whose_clients_do_not_wait_is_healthy() {
    assert_eq!(state(|pool| pool.symptoms.logged_in = true), Health::Healthy, "its servers were closed as idle");
    assert_eq!(state(|pool| (pool.sv_active, pool.cl_active) = (20, 500)), Health::Healthy);
    // A transaction that idles hurts no one while no client waits.
    assert_eq!(state(|pool| (pool.sv_active, pool.symptoms.awaiting_client) = (1, 1)), Health::Healthy);
}

#[test]
fn a_pool_without_a_login_so_far_is_not_tried_yet_and_one_that_has_clients_too_is_what_they_show() {
    assert_eq!(state(|_| {}), Health::Untried);
    assert_eq!(state(|pool| pool.cl_active = 5), Health::Untried, "clients that have asked for nothing");
    assert_eq!(state(|pool| pool.cl_waiting = 1), Health::Waiting);
    assert_eq!(state(|pool| fails(pool, "28P01")), Health::LoginRejected);
    assert_eq!(Health::of(&pool(|_| {}), false, true), Health::Disabled);
    let both = |one: Health, other| {
        let mut sum = PoolHealth { state: one, ..PoolHealth::default() };
        sum.add(&PoolHealth { state: other, ..PoolHealth::default() });
        sum.state
    };
    assert_eq!(both(Health::Untried, Health::Healthy), Health::Healthy, "another user of it has logged in");
}

#[test]
fn short_waits_and_waits_for_a_login_are_waits() {
    assert_eq!(state(|pool| full(pool, 1)), Health::Waiting);
    let opening = |pool: &mut PoolRecord| {
        full(pool, 60);
        pool.symptoms.opening = true;
    };
    assert_eq!(state(opening), Health::Waiting);
    let free = |pool: &mut PoolRecord| {
        full(pool, 60);
        pool.sv_idle = 1;
    };
    assert_eq!(state(free), Health::Waiting);
}

#[test]
fn a_pool_is_saturated_when_all_servers_are_busy_and_a_client_has_waited_for_long() {
    assert_eq!(state(|pool| full(pool, 2)), Health::Saturated);
    // A limit that it shares with other pools leaves it no server at all.
    assert_eq!(state(|pool| (pool.cl_waiting, pool.maxwait) = (1, LONG_WAIT)), Health::Saturated);
    // Slow queries alone are no stall.
    let slow = |pool: &mut PoolRecord| {
        full(pool, 9);
        pool.symptoms.stuck = 2;
    };
    assert_eq!(state(slow), Health::Saturated);
}

#[test]
fn a_pool_is_stalled_when_clients_wait_for_servers_that_idle_in_transactions() {
    let held = |awaiting_client, stuck| {
        move |pool: &mut PoolRecord| {
            full(pool, 4);
            (pool.symptoms.awaiting_client, pool.symptoms.stuck) = (awaiting_client, stuck);
        }
    };
    assert_eq!(state(held(2, 0)), Health::Stalled);
    assert_eq!(state(held(1, 1)), Health::Stalled, "a query behind a lock");
    assert_eq!(state(held(1, 0)), Health::Saturated, "the other server moves");
}

#[test]
fn a_pool_without_servers_whose_login_failed_cannot_connect_or_is_rejected() {
    for sqlstate in ["08006", "08001", "57P03", "57P01", "53300", "XX000"] {
        assert_eq!(state(|pool| fails(pool, sqlstate)), Health::CannotConnect, "{sqlstate}");
    }
    for sqlstate in ["28P01", "28000", "3D000", "42501"] {
        assert_eq!(state(|pool| fails(pool, sqlstate)), Health::LoginRejected, "{sqlstate}");
    }
}

#[test]
fn a_failed_login_counts_beside_servers_only_where_a_client_waits_for_one_more() {
    let beside = |seconds| {
        move |pool: &mut PoolRecord| {
            full(pool, seconds);
            fails(pool, "53300");
        }
    };
    assert_eq!(state(beside(2)), Health::CannotConnect);
    assert_eq!(state(beside(1)), Health::Waiting);
    let idle = |pool: &mut PoolRecord| {
        pool.sv_idle = 3;
        fails(pool, "53300");
    };
    assert_eq!(state(idle), Health::Healthy);
}

#[test]
fn a_pool_that_can_open_no_more_servers_cannot_grow_unless_something_is_worse() {
    let barred = |pool: &mut PoolRecord| {
        (pool.sv_active, pool.sv_idle) = (1, 1);
        pool.symptoms.barred = Some(LoginFailure::new(1, 9, "53300", "sorry, too many clients already"));
    };
    assert_eq!(state(barred), Health::CannotGrow);
    let waits = |seconds| {
        move |pool: &mut PoolRecord| {
            barred(pool);
            full(pool, seconds);
            pool.sv_idle = 0;
            fails(pool, "53300");
        }
    };
    assert_eq!((state(waits(1)), state(waits(2))), (Health::CannotGrow, Health::CannotConnect));
    assert_eq!(Health::of(&pool(barred), true, true), Health::Paused);
    assert_eq!(Health::of(&pool(barred), false, true), Health::CannotGrow);
}

#[test]
fn a_server_that_gives_no_answer_cannot_be_connected_to() {
    let tries = |seconds| {
        move |pool: &mut PoolRecord| {
            (pool.cl_waiting, pool.sv_login, pool.symptoms.opening) = (1, 1, true);
            pool.symptoms.login_age = Span::from_secs(seconds);
        }
    };
    assert_eq!(state(tries(2)), Health::Waiting);
    assert_eq!(state(tries(3)), Health::CannotConnect);
    // A login that hangs is no reason to be calm, with or without a client, and also beside servers that are busy.
    let alone = |pool: &mut PoolRecord| (pool.symptoms.opening, pool.symptoms.login_age) = (true, MOTIONLESS);
    assert_eq!(state(alone), Health::CannotConnect);
    let beside = |pool: &mut PoolRecord| {
        full(pool, 3);
        alone(pool);
    };
    assert_eq!(state(beside), Health::CannotConnect);
    let enough = |pool: &mut PoolRecord| {
        beside(pool);
        pool.sv_idle = 1;
    };
    assert_eq!(state(enough), Health::Waiting);
}

#[test]
fn what_an_operator_did_comes_before_what_follows_from_it_and_a_fault_before_disabled() {
    let broken = pool(|pool| {
        full(pool, 9);
        pool.symptoms.awaiting_client = 2;
        fails(pool, "28P01");
    });
    assert_eq!(Health::of(&broken, true, true), Health::Paused);
    assert_eq!(Health::of(&broken, false, true), Health::LoginRejected);
    let stalled = pool(|pool| {
        full(pool, 9);
        pool.symptoms.awaiting_client = 2;
    });
    assert_eq!(Health::of(&stalled, false, true), Health::Stalled);
    assert_eq!(Health::of(&pool(|pool| full(pool, 1)), false, true), Health::Disabled);
}

#[test]
fn of_several_pools_the_worse_speaks_and_clients_add_up() {
    let of = |state, since, waiting| PoolHealth { state, since, waiting, ..PoolHealth::default() };
    let mut sum = of(Health::Waiting, 5, 1);
    sum.add(&of(Health::Stalled, 9, 2));
    sum.add(&of(Health::Stalled, 7, 4));
    sum.add(&of(Health::Healthy, 1, 0));
    assert_eq!(sum, of(Health::Stalled, 7, 7));
}

#[test]
fn states_are_listed_from_the_best_to_the_worst_and_each_problem_has_its_advice() {
    assert!(Health::ALL.is_sorted());
    for state in Health::ALL {
        assert_eq!(state.advice().is_empty(), state == Health::Healthy, "{state}");
    }
    let problems: Vec<&str> = Health::ALL.iter().filter(|state| state.is_problem()).map(|state| state.name()).collect();
    assert_eq!(
        problems,
        [
            "slow",
            "cannot grow",
            "saturated",
            "stalled",
            "blocked",
            "failing",
            "not answering",
            "cannot connect",
            "login rejected"
        ]
    );
}

#[test]
fn what_to_do_follows_from_the_error_where_that_says_more() {
    let advice = |state, sqlstate, message| {
        let error = Some(LoginFailure::new(1, 1, sqlstate, message));
        PoolHealth { state, error, ..PoolHealth::default() }.advice()
    };
    let plain = advice(Health::CannotConnect, "08006", "Connection refused");
    assert_eq!(plain, Health::CannotConnect.advice());
    for (sqlstate, message, word) in [
        ("08006", "TLS handshake with server db:5432 failed: certificate expired", "certificate"),
        ("08006", "could not connect to server db:5432: could not look up db", "host"),
        ("57P03", "the database system is starting up", "started"),
        ("53300", "sorry, too many clients already", "max_connections"),
    ] {
        let advice = advice(Health::CannotConnect, sqlstate, message);
        assert!(advice.contains(word) && advice.ends_with('.'), "{sqlstate} {message}: {advice}");
    }
    assert_eq!(advice(Health::LoginRejected, "28000", "no"), Health::LoginRejected.advice());
    // PostgreSQL's own texts.
    for (sqlstate, message, word) in [
        ("3D000", "database \"shop\" does not exist", "Create the database"),
        ("42501", "permission denied for database \"shop\"", "Grant CONNECT"),
        ("28P01", "password authentication failed for user \"shop\"", "VALID UNTIL"),
        ("28000", "role \"shop\" is not permitted to log in", "ALTER ROLE"),
        ("28000", "pg_hba.conf rejects connection for host \"10.0.0.1\", user \"shop\"", "pg_hba.conf"),
        ("28000", "no pg_hba.conf entry for host \"10.0.0.1\", user \"shop\"", "pg_hba.conf"),
        ("53300", "too many connections for role \"shop\"", "ALTER ROLE"),
        ("53300", "too many connections for database \"shop\"", "ALTER DATABASE"),
        ("55000", "database \"shop\" is not currently accepting connections", "ALLOW_CONNECTIONS"),
    ] {
        let advice = advice(Health::LoginRejected, sqlstate, message);
        assert!(advice.contains(word) && advice.ends_with('.'), "{sqlstate} {message}: {advice}");
    }
}

#[test]
fn a_pool_whose_queries_fail_is_failing_and_says_in_what_and_whose() {
    let mut by = crate::ClientNames::default();
    by.count("ann", "orders", 2);
    let errors = |code: &[u8; 5]| crate::FailingQueries {
        of: crate::FailingOf::Pool,
        since: 1,
        last: 2,
        sqlstate: *code,
        errors: 7,
        queries: 9,
        clients: 2,
        by: by.clone(),
    };
    let failing = |pool: &mut PoolRecord| {
        full(pool, 60);
        pool.symptoms.failing = Some(errors(b"53100"));
    };
    assert_eq!(state(failing), Health::Failing, "and not saturated");
    let rejected = |pool: &mut PoolRecord| {
        failing(pool);
        fails(pool, "28P01");
    };
    assert_eq!(state(rejected), Health::LoginRejected);
    let mut sum = errors(b"42P01");
    sum.add(&crate::FailingQueries { errors: 8, ..errors(b"58030") });
    assert_eq!((sum.sqlstate, sum.errors, sum.queries, sum.clients), (*b"58030", 15, 18, 4));
}

#[test]
fn an_error_is_one_line_of_bounded_length() {
    let failure = LoginFailure::new(1, 2, "08006", &"é\n".repeat(1000));
    assert!(failure.message.len() <= MAX_MESSAGE && !failure.message.contains('\n'));
}

#[test]
fn the_page_lists_every_state_with_its_advice() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/health.md");
    let page = std::fs::read_to_string(path).expect("the page about health");
    for state in Health::ALL {
        let row = page.lines().find(|line| line.starts_with(&format!("| *{state}* |")));
        let row = row.unwrap_or_else(|| panic!("docs/health.md lists {state}"));
        assert!(row.contains(state.advice()), "{state}: {row}");
    }
    for span in [LONG_WAIT, MOTIONLESS] {
        assert!(page.contains(&format!("{} s", span.micros() / 1_000_000)), "{span:?}");
    }
}
