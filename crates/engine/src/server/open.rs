//! A pool opens a server: when its host has room for one more login, and the pools that wait for that.

use std::iter;

use weir_base::{ConnId, Target, Time};
use weir_config::OnServerDown;
use weir_pool::{CloseReason, ConnectFailure};
use weir_session::ServerError;
use weir_session::startup::Replication;

use crate::client::slot::{ClientPhase, ClientSlot};
use crate::common::FollowUp;
use crate::core::Core;
use crate::handles::PoolIx;
use crate::lines;
use crate::link::lost;
use crate::pools::{PoolSlot, create};
use crate::port::{Io, Level};
use crate::primary::view::Primaries;
use crate::server::close;
use crate::server::login_failure::{About, FailedLogin, LoginFailureKind};
use crate::server::login_throttle::{self, LoginThrottle};
use crate::server::slot::{Dedicated, ServerSlot, ServerState};
use crate::timers::Who;

/// Why a server that could not be reached is closed (PgBouncer's words, which operators look for).
pub(crate) const CONNECT_FAILED: &str = "connect failed";

fn most_logins(core: &Core) -> u32 {
    login_throttle::most_logins(core.common.config(), core.common.workers())
}

/// What a pool does while its server is down. While an operator moves it, its clients wait for the new host.
pub(crate) fn policy(primaries: &Primaries, slot: &PoolSlot) -> OnServerDown {
    if primaries.only(&slot.name).is_some() { OnServerDown::Wait } else { slot.config.limits.on_server_down }
}

/// Whether a pool's next login looks for its primary.
fn looks(primaries: &Primaries, slot: &PoolSlot) -> bool {
    slot.config.session_attrs.wants_primary() && !primaries.is_known(&slot.name)
}

/// The properties of a server's one client.
fn dedicated_to(core: &Core, owner: ConnId) -> Dedicated {
    let replication = match core.conns.get::<ClientSlot>(owner).map(|client| &client.phase) {
        Some(ClientPhase::Welcome(phase)) => phase.request().replication,
        _ => Replication::None,
    };
    Dedicated { owner, replication, welcome: None }
}

/// Ensures that a host that is down is tried in time for the pools that wait for it.
fn arm_attempt(core: &mut Core, target: &Target) {
    let due = core.hosts.throttle.attempt_due(target, most_logins(core));
    core.common.arm(Who::DownHosts, due, core.hosts.throttle.armed());
}

fn open_server<I: Io>(core: &mut Core, now: Time, ix: PoolIx, io: &mut I) {
    let granted_at = core.pools.get(ix).quota.granted_at();
    if close::grant_is_void(core, now, ix, granted_at) {
        core.common.follow_up(FollowUp::PollPool(ix));
        return core.pools.get_mut(ix).pool.open_declined(now, now);
    }
    let id = core.common.next_connection_id();
    if let Some(client) = core.pools.get(ix).pool.wants_reserve().and_then(|conn| core.conns.get::<ClientSlot>(conn)) {
        lines::about_client(core, Level::Warning, client, format_args!("taking connection from reserve_pool"), io);
    }
    let slot = core.pools.get_mut(ix);
    let (attempt, target) = slot.hosts.begin(&slot.config, core.common.config().tls.server.mode);
    let conn = io.connect(&target);
    let looks = looks(&core.primaries, slot);
    core.hosts.throttle.begin(&mut slot.login, &target, looks, now);
    let owner = slot.pool.opening(conn, now);
    slot.counts.counters.connects += 1;
    let mut server = Box::new(ServerSlot::new(conn, id, ix, target, attempt, now));
    server.granted(granted_at, owner.map(|owner| dedicated_to(core, owner)));
    expect_timeout(core, &server);
    core.conns.put_server(server);
}

/// What it counts as for the pool if a login takes too long at the step that it is at.
pub(crate) fn expect_timeout(core: &mut Core, server: &ServerSlot) {
    let slot = core.pools.get_mut(server.pool);
    let failed = too_slow(server);
    let kind = failed.kind.under(policy(&core.primaries, slot), &failed.error);
    let stays = stays(&core.primaries, slot, server, failed.about);
    slot.pool.set_timeout_failure(slot.hosts.failure(&slot.config, server.connection.attempt(), kind, stays));
}

/// Whether a login that has failed says nothing about its host, which is the one that its pool writes to.
pub(crate) fn stays(primaries: &Primaries, slot: &PoolSlot, server: &ServerSlot, about: About) -> bool {
    about == About::Login
        && slot.config.session_attrs.wants_primary()
        && primaries.first(&slot.name) == Some(server.connection.target())
}

/// Whether a pool may open a server now, at the first of its hosts that has room for one more login. Hosts before that
/// one that are down count as tried, and failed. Where no host has room, the pool waits for one.
fn admit(core: &mut Core, now: Time, ix: PoolIx) -> bool {
    let (most, mode) = (most_logins(core), core.common.config().tls.server.mode);
    let throttle = &core.hosts.throttle;
    let slot = core.pools.get_mut(ix);
    let (policy, looks) = (policy(&core.primaries, slot), looks(&core.primaries, slot));
    let (config, hosts) = (slot.config.clone(), &mut slot.hosts);
    let waits = policy == OnServerDown::Wait;
    let how = (policy, looks);
    let only = core.primaries.only(&slot.name);
    let hinted = core.primaries.hints.fit(&config);
    if config.session_attrs.wants_primary() {
        hosts.begin_at(&config, core.primaries.first(&slot.name).or(hinted.first().copied()), only.is_some());
    } else {
        hosts.prefer(&config, &hinted);
    }
    let shut = |target: &Target| throttle.shut(target, looks, now).filter(|_| waits);
    let at = if let Some(only) = only {
        if throttle.has_room(only, how, most, now) {
            return true;
        }
        only
    } else if config.targets.iter().all(|target| shut(target).is_some()) {
        hosts.peek(&config)
    } else {
        for _ in 0..config.targets.len() {
            let target = hosts.peek(&config);
            if throttle.has_room(target, how, most, now) {
                return true;
            }
            let Some(known) = shut(target) else {
                // It may be the primary: without room there it is waited for.
                if config.session_attrs.wants_primary() {
                    break;
                }
                hosts.pass(&config);
                continue;
            };
            let (failure, error) = hosts.skip(&config, mode, (known.error, known.kind));
            if failure != ConnectFailure::Elsewhere {
                slot.failures.add(error, known.too_slow, now);
                slot.pool.unreachable(failure, now);
                core.common.follow_up(FollowUp::PollPool(ix));
                return false;
            }
        }
        // Where a second attempt is due at a host, the pool waits there. One that was skipped took the turn of a host.
        let next = hosts.peek(&config);
        if throttle.has_room(next, how, most, now) {
            return true;
        }
        iter::once(next).chain(&config.targets).find(|target| shut(target).is_none()).unwrap_or(next)
    };
    let at = at.clone();
    if let Some(known) = throttle.failure(&at, looks).filter(|known| known.kind == LoginFailureKind::NotReady) {
        // Whoever waits learns why.
        slot.failures.add(known.error.clone(), false, now);
    }
    core.hosts.throttle.wait(ix, &mut slot.login, &at, looks);
    arm_attempt(core, &at);
    false
}

fn end_login<I: Io>(core: &mut Core, now: Time, ix: PoolIx, io: &mut I) {
    if let Some(target) = core.hosts.throttle.end(&mut core.pools.get_mut(ix).login) {
        call_waiting(core, now, &target, io);
    }
}

/// Opens a server for a pool: now, or when one of its hosts has room for one more login.
pub(crate) fn open_when_admitted<I: Io>(core: &mut Core, now: Time, ix: PoolIx, io: &mut I) {
    end_login(core, now, ix, io);
    if admit(core, now, ix) {
        open_server(core, now, ix, io);
    }
}

/// The pools that wait for a host go on as far as there is room.
fn call_waiting<I: Io>(core: &mut Core, now: Time, target: &Target, io: &mut I) {
    let most = most_logins(core);
    let mut called = 0;
    while let Some(ix) = core.hosts.throttle.next(target, most, now) {
        called += 1;
        debug_assert!(called <= core.pools.iter().count(), "a pool that was called waits at {target} again");
        let slot = core.pools.get_mut(ix);
        slot.login.called();
        if !slot.pool.wants_server() {
            slot.pool.open_declined(now, now);
        } else if slot.hosts.turn_to(&slot.config, target) {
            // Opened at this host: if the pool requested room again, it could wait here again, and this would never
            // end.
            open_server(core, now, ix, io);
        } else {
            // A reload has changed the pool's host.
            open_when_admitted(core, now, ix, io);
        }
        core.common.follow_up(FollowUp::PollPool(ix));
    }
    arm_attempt(core, target);
}

/// A host takes writes: if it was known as one that does not, the pools that wait to look there continue.
pub(crate) fn host_is_fit<I: Io>(core: &mut Core, now: Time, target: &Target, io: &mut I) {
    if core.hosts.throttle.is_fit(target) {
        call_waiting(core, now, target, io);
    }
}

/// It is known where a pool's primary is, or that it is elsewhere: a pool that waits for a host goes on there.
pub(crate) fn wait_anew<I: Io>(core: &mut Core, now: Time, ix: PoolIx, io: &mut I) {
    if core.hosts.throttle.leave(ix, &mut core.pools.get_mut(ix).login) {
        open_when_admitted(core, now, ix, io);
        core.common.follow_up(FollowUp::PollPool(ix));
    }
}

/// A pool stops waiting for a host.
pub(crate) fn stop_waiting_for_host(core: &mut Core, now: Time, ix: PoolIx) {
    let slot = core.pools.get_mut(ix);
    if core.hosts.throttle.leave(ix, &mut slot.login) {
        slot.pool.open_declined(now, now);
    }
}

/// Counts a pool's login only while it is under way, and lets the pool wait for one only while it needs one.
pub(crate) fn check_login<I: Io>(core: &mut Core, now: Time, ix: PoolIx, io: &mut I) {
    if !core.pools.get(ix).pool.wants_server() {
        stop_waiting_for_host(core, now, ix);
    }
    if !core.pools.get(ix).pool.is_logging_in() {
        end_login(core, now, ix, io);
    }
}

/// Hosts that are down may have to be tried.
pub(crate) fn down_hosts_due<I: Io>(core: &mut Core, now: Time, io: &mut I) {
    let most = most_logins(core);
    for target in core.hosts.throttle.due(most, now) {
        call_waiting(core, now, &target, io);
    }
    let next = core.hosts.throttle.next_due(most);
    core.common.arm(Who::DownHosts, next, core.hosts.throttle.armed());
}

/// A host has answered: if it was down, the pools that wait for it continue.
pub(crate) fn host_answers<I: Io>(core: &mut Core, now: Time, target: &Target, io: &mut I) {
    if !core.hosts.throttle.is_back(target) {
        return;
    }
    call_waiting(core, now, target, io);
    for ix in core.pools.indices() {
        let slot = core.pools.get_mut(ix);
        if slot.config.targets.contains(target) {
            slot.failures.host_answers();
        }
        let elsewhere = slot.login.waits_at().is_some_and(|at| at != target);
        if elsewhere && slot.config.targets.contains(target) {
            wait_anew(core, now, ix, io);
        }
    }
}

/// A host is to be tried now, whatever failed before: an operator requests it, or Patroni says that it is a primary.
pub(crate) fn try_host_now<I: Io>(core: &mut Core, now: Time, target: &Target, io: &mut I) {
    core.hosts.throttle.open(target, now);
    call_waiting(core, now, target, io);
}

/// A new configuration may leave more room, and have moved waiting pools to other hosts.
pub(crate) fn recheck_logins<I: Io>(core: &mut Core, now: Time, io: &mut I) {
    core.hosts.throttle.forget_down();
    for ix in core.pools.indices() {
        let slot = core.pools.get_mut(ix);
        let Some(target) = slot.login.waits_at().cloned() else { continue };
        if slot.hosts.peek(&slot.config) == &target {
            call_waiting(core, now, &target, io);
        } else {
            wait_anew(core, now, ix, io);
        }
    }
}

/// A login has shown that a host is down; returns whether to log it. Pools that refuse their clients then, and wait
/// for room at the host, have failed as well, if the host was not even `reached`; the others keep waiting.
pub(crate) fn host_is_down(
    core: &mut Core,
    now: Time,
    target: &Target,
    reached: bool,
    failed: (&ServerError, bool),
) -> bool {
    let (error, too_slow) = failed;
    let logs = core.hosts.throttle.is_down(target, error, too_slow, now);
    if reached {
        return logs;
    }
    let pools = &core.pools;
    let refuses = |ix| policy(&core.primaries, pools.get(ix)) == OnServerDown::Refuse;
    for ix in core.hosts.throttle.take_waiting(target, refuses) {
        let slot = core.pools.get_mut(ix);
        slot.login.called();
        if slot.hosts.peek(&slot.config) == target {
            let mode = core.common.config().tls.server.mode;
            let (failure, error) = slot.hosts.skip(&slot.config, mode, (error, LoginFailureKind::Down));
            slot.failures.add(error, too_slow, now);
            slot.pool.unreachable(failure, now);
        } else {
            slot.pool.open_declined(now, now);
        }
        core.common.follow_up(FollowUp::PollPool(ix));
    }
    logs
}

/// The pool closes a server.
pub(crate) fn pool_closes<I: Io>(core: &mut Core, now: Time, server: ConnId, reason: CloseReason, io: &mut I) {
    let Some(server) = core.conns.take::<ServerSlot>(server) else { return };
    if reason != CloseReason::ConnectTimeout {
        let client = server.link;
        close::disconnect(core, server, reason.text(), io);
        // Only a server of one client is closed while a client has it.
        return client.into_iter().for_each(|client| lost::end_stream(core, now, client, reason.text(), io));
    }
    let reached = !matches!(server.state, ServerState::Connecting);
    let FailedLogin { error, kind, about, .. } = too_slow(&server);
    if about == About::Host {
        host_is_down(core, now, server.connection.target(), reached, (&error, true));
    }
    let slot = core.pools.get_mut(server.pool);
    let kind = kind.under(policy(&core.primaries, slot), &error);
    let stays = stays(&core.primaries, slot, &server, about);
    // The pool has decided already, when this step began.
    let (failure, all) = slot.hosts.failed(&slot.config, server.connection.attempt(), error, (kind, stays), None);
    slot.failures.add(all, true, now);
    create::login_failed(core, now, server.pool, failure);
    close::disconnect(core, server, if reached { reason.text() } else { CONNECT_FAILED }, io);
}

/// Asserts that logins and pools agree. Walks over all pools.
pub(crate) fn check_logins(core: &Core) {
    core.hosts.throttle.check(most_logins(core), core.pools.iter().map(|slot| &slot.login));
    for slot in core.pools.iter() {
        let counted = LoginThrottle::has_begun(&slot.login) || !slot.pool.is_logging_in();
        assert!(counted, "{}: a login that is not counted", slot.name);
    }
}

/// RETRY: the pools that `name` selects try to open a server now, whatever failed before.
pub(crate) fn retry_pools<I: Io>(core: &mut Core, now: Time, name: Option<&str>, io: &mut I) {
    for ix in core.pools.named(name) {
        let slot = core.pools.get_mut(ix);
        // The owner tries for a borrower.
        if slot.lending.is_borrower() {
            slot.pool.retry_now();
        } else {
            slot.pool.try_now(now);
        }
        for target in &slot.config.clone().targets {
            try_host_now(core, now, target, io);
        }
        core.common.follow_up(FollowUp::PollPool(ix));
    }
}

/// The failure of a login that was not finished in time.
fn too_slow(server: &ServerSlot) -> FailedLogin {
    let error = |message| ServerError { sqlstate: "08001".into(), message };
    if matches!(server.state, ServerState::AwaitingPassword) {
        let message = "password_command or password_source did not finish within server_connect_timeout";
        return FailedLogin::lasting(error(message.to_owned()), About::Login);
    }
    let target = server.connection.target();
    FailedLogin::down(error(format!("server {target} did not finish the login within server_connect_timeout")))
}
