//! The behaviour of a pool, one rule per test.

use weir_base::{ConnId, Span, Time};

use crate::{Acquire, CloseReason, ConnectFailure, Effect, Pool, RefuseReason, Release, ServerState, Settings};

const START: Time = Time::from_micros(1_000_000_000);

fn after(secs: u64) -> Time {
    START + Span::from_secs(secs)
}

fn client(slot: u32) -> ConnId {
    ConnId::new(1000 + slot, 1)
}

fn server(slot: u32) -> ConnId {
    ConnId::new(slot, 1)
}

/// PgBouncer's defaults, with a pool of two.
fn defaults() -> Settings {
    Settings {
        size: 2,
        min_size: 0,
        reserve_size: 0,
        reserve_timeout: Span::from_secs(5),
        query_wait_timeout: Span::from_secs(120),
        query_wait_notify: Span::from_secs(5),
        server_lifetime: Span::from_secs(3600),
        server_idle_timeout: Span::from_secs(600),
        server_connect_timeout: Span::from_secs(15),
        server_login_retry: Span::from_secs(15),
        server_check_delay: Span::from_secs(30),
        checks: true,
        round_robin: false,
        connects_per_second: 0,
        max_waiting: 0,
    }
}

fn pool(settings: Settings) -> Pool<()> {
    Pool::new(settings, 1, START)
}

/// A pool with this many servers, idle since [`START`].
fn filled(settings: Settings, servers: u32) -> Pool<()> {
    let mut pool = pool(Settings { min_size: servers, ..settings.clone() });
    pool.set_demand(true);
    for slot in 0..servers {
        assert_eq!(pool.poll(START), Some(Effect::Open));
        pool.opening(server(slot), START);
        assert_eq!(pool.connected(server(slot), (), START), Release::Idle);
    }
    pool.resize(settings, START);
    assert_eq!(effects(&mut pool, START), []);
    pool
}

#[test]
fn a_client_takes_an_idle_server_of_its_choice_and_no_other_one() {
    let mut pool = filled(defaults(), 2);
    assert!(pool.idle().eq([server(1), server(0)]));
    assert_eq!(pool.acquire(client(1), after(1)), Acquire::Granted { server: server(1), check: false });
    assert_eq!(pool.take(server(1), client(1), after(1)), None, "it is in use");
    assert_eq!(pool.take(server(7), client(1), after(1)), None);
    assert_eq!(pool.take(server(0), client(1), after(100)), Some(true), "it was unused for long");
    assert_eq!(pool.release_unused(server(1), (), after(100)), Release::Idle);
    assert!(pool.idle().eq([server(1)]));
    pool.suspend();
    assert_eq!(pool.take(server(1), client(2), after(100)), None);
}

fn effects(pool: &mut Pool<()>, now: Time) -> Vec<Effect> {
    std::iter::from_fn(|| pool.poll(now)).collect()
}

/// Lets time pass, as an engine does, and returns what the pool requested and when (in whole seconds after [`START`]).
fn run(pool: &mut Pool<()>, until: Time) -> Vec<(u64, Effect)> {
    let mut said = Vec::new();
    while pool.next_deadline() <= until {
        let now = pool.next_deadline().max(START);
        said.extend(effects(pool, now).into_iter().map(|effect| (now.since(START).micros() / 1_000_000, effect)));
    }
    said
}

fn take(pool: &mut Pool<()>, slot: u32, now: Time) -> ConnId {
    match pool.acquire(client(slot), now) {
        Acquire::Granted { server, .. } => server,
        other => panic!("{other:?}"),
    }
}

fn queue(pool: &mut Pool<()>, slot: u32, now: Time) {
    assert_eq!(pool.acquire(client(slot), now), Acquire::Queued);
}

fn refused(client: ConnId, why: RefuseReason, secs: u64) -> Effect {
    Effect::Refuse { client, why, waited: Span::from_secs(secs) }
}

#[test]
fn the_first_client_waits_for_the_first_connect() {
    let mut pool = pool(defaults());
    queue(&mut pool, 1, START);
    assert_eq!(effects(&mut pool, START), [Effect::Open]);
    pool.opening(server(1), START);
    assert_eq!(effects(&mut pool, START), []);
    let answer = pool.connected(server(1), (), after(1));
    assert_eq!(answer, Release::Next { client: client(1), waited: Span::from_secs(1), check: false });
    assert_eq!(pool.release(server(1), (), after(2)), Release::Idle);
    assert_eq!(pool.servers().collect::<Vec<_>>(), [(server(1), ServerState::Idle { since: after(2) }, after(1))]);
}

#[test]
fn one_login_at_a_time_however_many_wait() {
    let mut pool = pool(defaults());
    (1..=5).for_each(|slot| queue(&mut pool, slot, START));
    assert_eq!(effects(&mut pool, START), [Effect::Open]);
    assert_eq!(effects(&mut pool, START), []);
    pool.opening(server(1), START);
    assert_eq!(effects(&mut pool, START), []);
    pool.connected(server(1), (), START);
    assert_eq!(effects(&mut pool, START), [Effect::Open]);
}

#[test]
fn clients_are_served_in_order_and_none_overtakes() {
    let mut pool = filled(defaults(), 1);
    pool.resize(Settings { size: 1, ..defaults() }, START);
    assert_eq!(take(&mut pool, 1, START), server(0));
    queue(&mut pool, 2, START);
    queue(&mut pool, 3, after(1));
    queue(&mut pool, 4, after(2));
    pool.leave(client(3), after(3));
    let answer = pool.release(server(0), (), after(4));
    assert_eq!(answer, Release::Next { client: client(2), waited: Span::from_secs(4), check: false });
    let answer = pool.release(server(0), (), after(5));
    assert_eq!(answer, Release::Next { client: client(4), waited: Span::from_secs(3), check: false });
    assert_eq!(pool.release(server(0), (), after(5)), Release::Idle);
}

#[test]
fn the_server_used_last_is_handed_out_first() {
    let mut pool = filled(defaults(), 2);
    assert_eq!(take(&mut pool, 1, START), server(1));
    assert_eq!(take(&mut pool, 2, START), server(0));
    pool.release(server(1), (), after(1));
    pool.release(server(0), (), after(2));
    assert_eq!(take(&mut pool, 3, after(3)), server(0));
}

#[test]
fn round_robin_hands_out_the_server_idle_longest() {
    let mut pool = filled(Settings { round_robin: true, ..defaults() }, 2);
    assert_eq!(take(&mut pool, 1, START), server(0));
    pool.release(server(0), (), after(1));
    assert_eq!(take(&mut pool, 1, after(2)), server(1));
}

#[test]
fn a_server_is_checked_when_it_was_unused_for_the_delay() {
    let check = |settings: Settings, now: Time| match filled(settings, 1).acquire(client(1), now) {
        Acquire::Granted { check, .. } => check,
        other => panic!("{other:?}"),
    };
    assert!(!check(defaults(), after(29)));
    assert!(check(defaults(), after(30)));
    assert!(check(Settings { server_check_delay: Span::ZERO, ..defaults() }, START));
    assert!(!check(Settings { checks: false, ..defaults() }, after(60)));
}

#[test]
fn a_delay_of_zero_checks_at_every_hand_out() {
    let mut pool = filled(Settings { size: 1, server_check_delay: Span::ZERO, ..defaults() }, 1);
    take(&mut pool, 1, START);
    queue(&mut pool, 2, START);
    let answer = pool.release(server(0), (), START);
    assert_eq!(answer, Release::Next { client: client(2), waited: Span::ZERO, check: true });
}

#[test]
fn a_client_whose_server_was_lost_unused_is_first_again() {
    let mut pool = filled(defaults(), 2);
    take(&mut pool, 1, START);
    take(&mut pool, 2, after(1));
    queue(&mut pool, 3, after(2));
    pool.lost(server(0), after(3));
    assert_eq!(pool.requeue(client(2), after(1), after(3)), Acquire::Queued);
    pool.lost(server(1), after(3));
    assert_eq!(pool.requeue(client(1), START, after(3)), Acquire::Queued);
    let order: Vec<ConnId> = pool.waiting().map(|(client, _)| client).collect();
    assert_eq!(order, [client(1), client(2), client(3)]);
}

#[test]
fn a_full_pool_times_its_clients_out_after_one_notice() {
    let mut pool = filled(Settings { size: 1, ..defaults() }, 1);
    take(&mut pool, 1, START);
    queue(&mut pool, 2, START);
    queue(&mut pool, 3, after(10));
    let said = run(&mut pool, after(500));
    let notice = |slot| Effect::Notice { client: client(slot), waited: Span::from_secs(5) };
    let timeout = |slot| refused(client(slot), RefuseReason::WaitTimeout, 120);
    assert_eq!(said, [(5, notice(2)), (15, notice(3)), (120, timeout(2)), (130, timeout(3))]);
}

#[test]
fn more_waiting_clients_than_allowed_are_refused_as_such() {
    let mut pool = filled(Settings { size: 1, max_waiting: 1, ..defaults() }, 1);
    take(&mut pool, 1, START);
    queue(&mut pool, 2, START);
    assert_eq!(pool.acquire(client(3), START), Acquire::Refused(RefuseReason::TooManyWaiting));
    // A client that is queued already keeps its place.
    pool.lost(server(0), START);
    assert_eq!(pool.requeue(client(1), START, START), Acquire::Queued);
}

#[test]
fn the_reserve_opens_only_after_a_wait_and_up_to_its_size() {
    let mut pool = filled(Settings { size: 1, reserve_size: 1, ..defaults() }, 1);
    take(&mut pool, 1, START);
    queue(&mut pool, 2, START);
    queue(&mut pool, 3, START);
    let opens = |said: &[(u64, Effect)]| said.iter().filter(|(_, what)| *what == Effect::Open).count();
    assert_eq!(opens(&run(&mut pool, after(4))), 0);
    assert_eq!(opens(&run(&mut pool, after(5))), 1);
    pool.opening(server(7), after(5));
    assert!(matches!(pool.connected(server(7), (), after(6)), Release::Next { client: c, .. } if c == client(2)));
    assert_eq!(opens(&run(&mut pool, after(100))), 0);
}

#[test]
fn a_size_of_zero_is_unlimited() {
    let mut pool = pool(Settings { size: 0, ..defaults() });
    for slot in 0..100 {
        queue(&mut pool, slot, START);
        assert_eq!(effects(&mut pool, START), [Effect::Open]);
        pool.opening(server(slot), START);
        assert!(matches!(pool.connected(server(slot), (), START), Release::Next { .. }));
    }
    assert_eq!(pool.snapshot(START).active, 100);
}

#[test]
fn with_no_server_left_a_failed_login_refuses_all_at_once() {
    let mut pool = pool(defaults());
    queue(&mut pool, 1, START);
    queue(&mut pool, 2, START);
    effects(&mut pool, START);
    pool.opening(server(1), START);
    pool.connect_failed(server(1), ConnectFailure::Refused, after(1));
    let said = effects(&mut pool, after(1));
    assert_eq!(
        said,
        [refused(client(1), RefuseReason::ServerDown, 1), refused(client(2), RefuseReason::ServerDown, 1)]
    );
    assert_eq!(pool.acquire(client(3), after(1)), Acquire::Refused(RefuseReason::ServerDown));
    // Once the pause is over, the next client causes the next try.
    queue(&mut pool, 3, after(2));
    assert_eq!(effects(&mut pool, after(2)), [Effect::Open]);
}

#[test]
fn a_failure_that_leaves_another_way_open_is_followed_by_it_at_once() {
    let mut pool = pool(defaults());
    queue(&mut pool, 1, START);
    assert_eq!(effects(&mut pool, START), [Effect::Open]);
    pool.opening(server(1), START);
    pool.connect_failed(server(1), ConnectFailure::Elsewhere, after(1));
    assert_eq!(effects(&mut pool, after(1)), [Effect::Open], "no client is refused, and there is no pause");
    pool.opening(server(2), after(1));
    pool.set_timeout_failure(ConnectFailure::Elsewhere);
    let timeout = pool.settings().server_connect_timeout;
    let late = after(1) + timeout;
    let closed = Effect::Close { server: server(2), reason: CloseReason::ConnectTimeout };
    let said = effects(&mut pool, late);
    assert!(said.first() == Some(&closed) && said.last() == Some(&Effect::Open), "{said:?}");
    pool.opening(server(3), late);
    pool.set_timeout_failure(ConnectFailure::Refused);
    let later = late + timeout;
    let said = effects(&mut pool, later);
    assert!(matches!(said[..], [_, Effect::Refuse { why: RefuseReason::ServerDown, .. }]), "{said:?}");
}

#[test]
fn with_a_server_left_clients_wait_for_it() {
    let mut pool = filled(defaults(), 1);
    take(&mut pool, 1, START);
    queue(&mut pool, 2, START);
    assert_eq!(effects(&mut pool, START), [Effect::Open]);
    pool.opening(server(1), START);
    pool.connect_failed(server(1), ConnectFailure::Refused, START);
    assert_eq!(effects(&mut pool, START), []);
    queue(&mut pool, 3, START);
    // When the last one goes, nothing is left to wait for.
    pool.lost(server(0), START);
    let down = |slot| refused(client(slot), RefuseReason::ServerDown, 0);
    assert_eq!(effects(&mut pool, START), [down(2), down(3)]);
}

#[test]
fn no_client_waits_for_a_server_that_a_reconnect_will_close() {
    let mut pool = filled(defaults(), 1);
    take(&mut pool, 1, START);
    queue(&mut pool, 2, START);
    assert_eq!(effects(&mut pool, START), [Effect::Open]);
    pool.reconnect(START);
    pool.opening(server(1), START);
    pool.connect_failed(server(1), ConnectFailure::Refused, START);
    assert_eq!(effects(&mut pool, START), [refused(client(2), RefuseReason::ServerDown, 0)]);
    assert_eq!(pool.acquire(client(3), START), Acquire::Refused(RefuseReason::ServerDown));
}

/// When a pool whose logins all fail tries again, for a client that waits all the time.
fn retries(failure: ConnectFailure, count: u32) -> Vec<u64> {
    let mut pool = pool(defaults());
    queue(&mut pool, 1, START);
    let mut opened = Vec::new();
    let mut now = START;
    for slot in 0..count {
        while pool.poll(now) != Some(Effect::Open) {
            now = pool.next_deadline().max(now);
        }
        opened.push(now - START);
        pool.opening(server(slot), now);
        pool.connect_failed(server(slot), failure, now);
    }
    assert_eq!(pool.acquire(client(2), now), Acquire::Queued, "and no client is refused");
    opened.windows(2).map(|two| two[1].micros() - two[0].micros()).collect()
}

#[test]
fn a_server_that_is_away_is_waited_for_and_tried_every_twentieth_of_a_second() {
    let gaps = retries(ConnectFailure::Away, 6);
    assert!((17_500..=20_000).contains(&gaps[0]), "{gaps:?}");
    assert!(gaps[2..].iter().all(|gap| (43_750..=50_000).contains(gap)), "{gaps:?}");
}

#[test]
fn a_server_that_is_not_ready_is_waited_for_and_tried_every_second() {
    let gaps = retries(ConnectFailure::NotReady, 7);
    assert!((87_500..=100_000).contains(&gaps[0]), "{gaps:?}");
    assert!(gaps[4..].iter().all(|gap| (875_000..=1_000_000).contains(gap)), "{gaps:?}");
}

#[test]
fn a_server_that_is_away_is_tried_seldom_without_a_waiting_client_and_at_once_for_one() {
    let mut pool = pool(Settings { min_size: 1, ..defaults() });
    pool.set_demand(true);
    assert_eq!(effects(&mut pool, START), [Effect::Open]);
    pool.opening(server(1), START);
    pool.connect_failed(server(1), ConnectFailure::Away, START);
    assert_eq!(effects(&mut pool, START), []);
    assert!(pool.next_deadline() >= START + Span::from_millis(875), "no client waits");
    let soon = START + Span::from_millis(30);
    assert_eq!(pool.acquire(client(1), soon), Acquire::Queued);
    assert_eq!(effects(&mut pool, soon), [Effect::Open]);
}

#[test]
fn a_login_that_hangs_is_closed_and_counts_as_failed() {
    let mut pool = pool(defaults());
    queue(&mut pool, 1, START);
    effects(&mut pool, START);
    pool.opening(server(1), START);
    let said: Vec<_> = run(&mut pool, after(15)).into_iter().filter(|(secs, _)| *secs == 15).collect();
    let close = Effect::Close { server: server(1), reason: CloseReason::ConnectTimeout };
    assert_eq!(said, [(15, close), (15, refused(client(1), RefuseReason::ServerDown, 15))]);
}

#[test]
fn a_declined_connect_is_requested_again_and_refuses_no_client() {
    let mut pool = pool(defaults());
    queue(&mut pool, 1, START);
    assert_eq!(effects(&mut pool, START), [Effect::Open]);
    pool.open_declined(after(2), START);
    assert_eq!(run(&mut pool, after(1)), []);
    assert_eq!(run(&mut pool, after(2)), [(2, Effect::Open)]);
}

#[test]
fn a_client_that_comes_to_wait_makes_a_declined_connect_worth_another_try() {
    let mut pool = pool(Settings { min_size: 1, ..defaults() });
    pool.set_demand(true);
    assert_eq!(effects(&mut pool, START), [Effect::Open]);
    pool.open_declined(after(60), START);
    assert_eq!(run(&mut pool, after(5)), []);
    queue(&mut pool, 1, after(5));
    assert!(pool.wants_server());
    assert_eq!(effects(&mut pool, after(5)), [Effect::Open]);
    pool.leave(client(1), after(5));
    assert!(pool.wants_server(), "to be kept filled");
    pool.set_demand(false);
    assert!(!pool.wants_server());
}

#[test]
fn connects_keep_to_their_rate() {
    let mut pool = pool(Settings { size: 0, connects_per_second: 2, query_wait_notify: Span::ZERO, ..defaults() });
    (0..20).for_each(|slot| queue(&mut pool, slot, START));
    let mut opened = 0;
    while pool.next_deadline() <= after(4) {
        let now = pool.next_deadline().max(START);
        for effect in effects(&mut pool, now) {
            assert_eq!(effect, Effect::Open);
            opened += 1;
            pool.opening(server(opened), now);
            pool.connected(server(opened), (), now);
        }
    }
    // Two at once, and two a second in four seconds.
    assert_eq!(opened, 10);
}

#[test]
fn a_linked_server_is_never_closed_for_its_age() {
    let mut pool = filled(defaults(), 2);
    take(&mut pool, 1, START);
    take(&mut pool, 2, START);
    assert_eq!(run(&mut pool, after(10_000)), []);
    assert_eq!(pool.release(server(0), (), after(10_000)), Release::Close(CloseReason::Lifetime));
    // The next one a tenth of the lifetime later, so that the pool is not emptied at once.
    assert_eq!(pool.release(server(1), (), after(10_001)), Release::Idle);
    let close = Effect::Close { server: server(1), reason: CloseReason::Idle };
    assert_eq!(run(&mut pool, after(11_000)), [(10_601, close)]);
}

#[test]
fn a_pool_that_was_filled_at_once_grows_old_one_by_one() {
    let mut pool = filled(Settings { size: 10, server_idle_timeout: Span::ZERO, ..defaults() }, 10);
    let closed: Vec<u64> = run(&mut pool, after(100_000)).into_iter().map(|(secs, _)| secs).collect();
    assert_eq!(closed.len(), 10);
    assert!(closed[0] >= 3600 && closed[0] <= 3960, "{closed:?}");
    assert!(closed.windows(2).all(|two| two[1] - two[0] >= 360), "{closed:?}");
}

#[test]
fn an_old_server_whose_turn_to_close_has_not_come_is_still_handed_out() {
    let mut pool = filled(Settings { server_idle_timeout: Span::ZERO, ..defaults() }, 2);
    assert_eq!(run(&mut pool, after(4000)).len(), 1);
    take(&mut pool, 1, after(4000));
}

#[test]
fn a_lifetime_of_zero_means_to_use_a_server_once() {
    let mut pool = filled(Settings { server_lifetime: Span::ZERO, ..defaults() }, 1);
    assert_eq!(run(&mut pool, after(500)), []);
    take(&mut pool, 1, after(500));
    assert_eq!(pool.release(server(0), (), after(501)), Release::Close(CloseReason::Lifetime));
}

#[test]
fn idle_servers_are_closed_down_to_the_least_number() {
    let mut pool = filled(Settings { size: 4, min_size: 1, ..defaults() }, 3);
    take(&mut pool, 1, after(100));
    pool.release(server(2), (), after(200));
    let close = |slot| Effect::Close { server: server(slot), reason: CloseReason::Idle };
    assert_eq!(run(&mut pool, after(3000)), [(600, close(0)), (600, close(1))]);
}

#[test]
fn the_least_number_is_kept_only_while_there_is_demand() {
    let mut pool = pool(Settings { min_size: 1, ..defaults() });
    assert_eq!(effects(&mut pool, START), []);
    pool.set_demand(true);
    assert_eq!(effects(&mut pool, START), [Effect::Open]);
    pool.opening(server(1), START);
    assert_eq!(pool.connected(server(1), (), START), Release::Idle);
    assert_eq!(effects(&mut pool, START), []);
    pool.set_demand(false);
    pool.lost(server(1), START);
    assert_eq!(effects(&mut pool, START), []);
}

#[test]
fn a_pause_lets_the_linked_finish_and_the_others_wait() {
    let mut pool = filled(defaults(), 2);
    take(&mut pool, 1, START);
    pool.pause();
    assert!(!pool.is_quiescent());
    assert_eq!(effects(&mut pool, START), [Effect::Close { server: server(0), reason: CloseReason::Pause }]);
    queue(&mut pool, 2, START);
    queue(&mut pool, 3, after(1));
    assert_eq!(pool.release(server(1), (), after(2)), Release::Close(CloseReason::Pause));
    assert!(pool.is_quiescent());
    assert_eq!(run(&mut pool, after(100)), []);
    pool.resume(after(100));
    assert!(!pool.is_paused());
    assert!(effects(&mut pool, after(100)).contains(&Effect::Open));
    pool.opening(server(5), after(100));
    let answer = pool.connected(server(5), (), after(100));
    assert_eq!(answer, Release::Next { client: client(2), waited: Span::from_secs(100), check: false });
}

#[test]
fn a_wait_ends_during_a_pause_too() {
    let mut pool = pool(defaults());
    pool.pause();
    queue(&mut pool, 1, START);
    assert_eq!(run(&mut pool, after(200)), [(120, refused(client(1), RefuseReason::WaitTimeout, 120))]);
}

#[test]
fn a_login_that_a_pause_ends_is_no_failure() {
    let mut pool = pool(defaults());
    queue(&mut pool, 1, START);
    effects(&mut pool, START);
    pool.opening(server(1), START);
    pool.pause();
    assert_eq!(effects(&mut pool, START), [Effect::Close { server: server(1), reason: CloseReason::Pause }]);
    pool.connect_failed(server(1), ConnectFailure::Refused, START);
    pool.resume(START);
    assert_eq!(effects(&mut pool, START), [Effect::Open]);
}

#[test]
fn after_a_suspension_waiting_clients_are_served_in_order() {
    let mut pool = filled(defaults(), 2);
    pool.suspend();
    queue(&mut pool, 1, START);
    queue(&mut pool, 2, START);
    assert_eq!(effects(&mut pool, START), []);
    assert!(pool.is_quiescent());
    pool.resume(START);
    let grant = |c, s| Effect::Grant { client: client(c), server: server(s), waited: Span::ZERO, check: false };
    assert_eq!(effects(&mut pool, START), [grant(1, 1), grant(2, 0)]);
}

#[test]
fn no_client_overtakes_between_a_resume_and_the_grants() {
    let mut pool = filled(defaults(), 1);
    pool.suspend();
    queue(&mut pool, 1, START);
    pool.resume(START);
    assert_eq!(pool.acquire(client(2), START), Acquire::Queued);
}

#[test]
fn a_login_that_fails_while_it_is_being_closed_is_no_failure() {
    let mut pool = pool(defaults());
    queue(&mut pool, 1, START);
    effects(&mut pool, START);
    pool.opening(server(1), START);
    pool.pause();
    pool.connect_failed(server(1), ConnectFailure::Refused, START);
    pool.resume(START);
    assert_eq!(effects(&mut pool, START), [Effect::Open]);
}

#[test]
fn a_reconnect_closes_every_server_that_is_present() {
    let mut pool = filled(defaults(), 2);
    take(&mut pool, 1, START);
    pool.reconnect(START);
    assert_eq!(effects(&mut pool, START), [Effect::Close { server: server(0), reason: CloseReason::Reconnect }]);
    assert_eq!(pool.release(server(1), (), START), Release::Close(CloseReason::Reconnect));
    queue(&mut pool, 1, START);
    effects(&mut pool, START);
    pool.opening(server(2), START);
    pool.connected(server(2), (), START);
    assert_eq!(pool.release(server(2), (), START), Release::Idle);
}

#[test]
fn a_smaller_pool_closes_what_is_too_many() {
    let mut pool = filled(Settings { size: 3, ..defaults() }, 3);
    take(&mut pool, 1, START);
    take(&mut pool, 2, START);
    pool.resize(Settings { size: 1, ..defaults() }, START);
    assert_eq!(effects(&mut pool, START), [Effect::Close { server: server(0), reason: CloseReason::TooMany }]);
    assert_eq!(pool.release(server(1), (), START), Release::Close(CloseReason::TooMany));
    assert_eq!(pool.release(server(2), (), START), Release::Idle);
}

#[test]
fn a_shut_pool_refuses_waiting_and_new_clients() {
    let mut pool = filled(Settings { size: 1, ..defaults() }, 1);
    take(&mut pool, 1, START);
    queue(&mut pool, 2, START);
    pool.shut_down();
    assert_eq!(effects(&mut pool, START), [refused(client(2), RefuseReason::ShuttingDown, 0)]);
    assert_eq!(pool.acquire(client(3), START), Acquire::Refused(RefuseReason::ShuttingDown));
    assert_eq!(pool.release(server(0), (), START), Release::Close(CloseReason::Shutdown));
    pool.resume(START);
    assert_eq!(pool.acquire(client(3), START), Acquire::Refused(RefuseReason::ShuttingDown));
    assert!(pool.is_quiescent() && pool.is_empty());
}

#[test]
fn the_server_idle_longest_makes_room_for_another_pool() {
    let mut pool = filled(defaults(), 2);
    take(&mut pool, 1, START);
    pool.release(server(1), (), after(1));
    assert_eq!(pool.longest_idle(), Some(START));
    assert!(pool.evict());
    assert_eq!(effects(&mut pool, after(1)), [Effect::Close { server: server(0), reason: CloseReason::Evicted }]);
    assert!(pool.evict());
    assert!(!pool.evict());
}

#[test]
fn a_snapshot_counts_what_is_there() {
    let mut pool = filled(defaults(), 1);
    take(&mut pool, 1, START);
    queue(&mut pool, 2, after(1));
    effects(&mut pool, after(1));
    pool.opening(server(7), after(1));
    let figures = pool.snapshot(after(3));
    assert_eq!((figures.active, figures.idle, figures.login, figures.waiting), (1, 0, 1, 1));
    assert_eq!((figures.oldest_wait, figures.retry_at), (Span::from_secs(2), None));
    pool.connect_failed(server(7), ConnectFailure::Refused, after(3));
    assert!(pool.snapshot(after(3)).retry_at.is_some_and(|at| at > after(3)));
}

#[test]
fn a_saturated_pool_needs_no_new_memory() {
    let mut pool = filled(defaults(), 2);
    let mut busy = vec![take(&mut pool, 0, START), take(&mut pool, 1, START)];
    (2..42).for_each(|slot| queue(&mut pool, slot, START));
    // A hash map counts the places it may yet fill, which varies with what was removed; its largest count does not.
    let mut largest = [((0, 0), (0, 0)); 2];
    for round in 0..100_000 {
        let at = busy.remove(0);
        assert!(matches!(pool.release(at, (), START), Release::Next { .. }));
        busy.push(at);
        queue(&mut pool, 42 + round, START);
        assert_eq!(pool.poll(START), None);
        let half = &mut largest[round as usize / 50_000];
        *half = (*half).max((pool.servers.places(), pool.queue.places()));
    }
    assert_eq!(largest[0], largest[1]);
}

#[test]
#[should_panic(expected = "is released but not linked")]
fn a_server_is_not_released_twice() {
    let mut pool = filled(defaults(), 1);
    take(&mut pool, 1, START);
    pool.release(server(0), (), START);
    pool.release(server(0), (), START);
}

#[test]
fn a_server_that_is_known_to_be_out_of_reach_is_a_failed_login_without_a_try() {
    let mut pool = pool(defaults());
    queue(&mut pool, 1, START);
    assert_eq!(effects(&mut pool, START), [Effect::Open]);
    pool.unreachable(ConnectFailure::Refused, START);
    assert_eq!(effects(&mut pool, START), [refused(client(1), RefuseReason::ServerDown, 0)]);
    assert!(pool.snapshot(START).retry_at.is_some_and(|next| next > START), "the next try waits");
}

#[test]
fn a_pool_that_keeps_trying_opens_one_server_though_no_client_waits_until_that_is_decided() {
    let mut pool = pool(defaults());
    pool.keep_trying(START);
    assert_eq!(run(&mut pool, after(9)), [(1, Effect::Open)]);
    pool.opening(server(1), after(1));
    pool.connect_failed(server(1), ConnectFailure::Away, after(1));
    let [(again, Effect::Open)] = run(&mut pool, after(9))[..] else { panic!("it tries again") };
    assert!((1..=2).contains(&again), "after {again} s");
    pool.opening(server(2), after(2));
    pool.connect_failed(server(2), ConnectFailure::Refused, after(2));
    assert_eq!(run(&mut pool, after(60)), [], "waiting would not help");
    pool.try_now(after(60));
    assert_eq!(effects(&mut pool, after(60)), [Effect::Open]);
    pool.opening(server(3), after(60));
    assert_eq!(pool.connected(server(3), (), after(60)), Release::Idle);
    assert_eq!(run(&mut pool, after(120)), [], "it is known");
    let mut full = filled(defaults(), 2);
    full.try_now(START);
    assert_eq!(effects(&mut full, START), [], "there is no room for one more");
}

#[test]
fn a_pool_opens_as_many_less_as_are_elsewhere_and_closes_none_for_them() {
    let mut pool = filled(defaults(), 1);
    pool.set_elsewhere(1);
    let first = take(&mut pool, 1, START);
    queue(&mut pool, 2, START);
    assert_eq!(effects(&mut pool, START), [], "the other one of two is elsewhere");
    pool.set_elsewhere(u32::MAX);
    assert_eq!(effects(&mut pool, START), [], "it is not known how many are elsewhere");
    pool.set_elsewhere(0);
    assert_eq!(effects(&mut pool, START), [Effect::Open]);
    pool.opening(server(9), START);
    pool.connected(server(9), (), START);
    pool.set_elsewhere(2);
    let released = pool.release(first, (), START);
    assert_eq!(
        released,
        Release::Close(CloseReason::TooMany),
        "one was opened elsewhere for a client that can't leave"
    );
    pool.set_elsewhere(u32::MAX);
    assert!(!pool.is_unwanted(server(9)), "it is not known");
}

#[test]
fn the_place_of_a_server_that_was_given_to_another_process_goes_with_it() {
    let mut pool = filled(Settings { size: 5, ..defaults() }, 2);
    let (first, _) = (take(&mut pool, 1, START), take(&mut pool, 2, START));
    queue(&mut pool, 3, START);
    assert_eq!(pool.keep_servers(), (2, true));
    pool.given(first, START);
    assert_eq!((pool.keep_servers(), effects(&mut pool, START)), ((1, false), vec![]));
}

#[test]
fn a_pool_that_is_handed_over_opens_servers_only_in_place_of_those_it_had() {
    let mut pool = filled(Settings { size: 5, ..defaults() }, 2);
    assert_eq!(pool.keep_servers(), (2, true));
    assert_eq!(pool.keep_servers(), (2, false));
    let (first, second) = (take(&mut pool, 1, START), take(&mut pool, 2, START));
    queue(&mut pool, 3, START);
    assert_eq!(effects(&mut pool, START), [], "it has two");
    pool.lost(first, START);
    assert_eq!((pool.keep_servers(), effects(&mut pool, START)), ((2, false), vec![Effect::Open]), "a client waits");
    pool.cancel_open();
    pool.leave(client(3), START);
    assert_eq!((pool.keep_servers(), effects(&mut pool, START)), ((1, true), vec![]), "none waits any more");
    pool.lost(second, START);
    queue(&mut pool, 4, START);
    assert_eq!(
        (pool.keep_servers(), effects(&mut pool, START)),
        ((1, false), vec![Effect::Open]),
        "one is for those who wait"
    );
    pool.opening(server(8), START);
    queue(&mut pool, 5, START);
    assert_eq!(effects(&mut pool, START), []);
    pool.keep_no_more();
    pool.connected(server(8), (), START);
    assert_eq!(effects(&mut pool, START), [Effect::Open], "nobody takes over");
}
