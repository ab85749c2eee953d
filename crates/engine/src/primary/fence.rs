//! A worker leaves a pool's host, and goes on at another one.
//!
//! Idle servers of the host are closed, those in use when their transactions end; a client that holds one between
//! transactions is disconnected then. Servers with a client's replication are the client's own, and stay.

use std::sync::Arc;

use weir_admin::{PrimaryWaits, ServiceState};
use weir_base::{ConnId, Target, Time, WorkerId};
use weir_session::Refusal;

use crate::client::slot::{ClientPhase, ClientSlot};
use crate::common::{Demotion, FollowUp};
use crate::core::Core;
use crate::handles::{PoolIx, Waiter};
use crate::link::{leave, lost};
use crate::pools::create;
use crate::port::Io;
use crate::primary::PrimaryStep;
use crate::primary::fenced::holdouts;
use crate::primary::view::View;
use crate::server::slot::{ServerPhase, ServerSlot};
use crate::server::{close, login, open};
use crate::workers::messages::{Drain, Message, Payload};

/// Why the server of a host is closed that its pool has left.
pub(crate) const LEFT: &str = "primary moved";

/// Carries out a step that worker 0 has ordered. Returns who waited where it ends a move.
pub(crate) fn carry_out<I: Io>(
    core: &mut Core,
    now: Time,
    pool: &Arc<str>,
    step: PrimaryStep,
    io: &mut I,
) -> PrimaryWaits {
    let pools = pools_of(core, pool);
    let mut waits = PrimaryWaits { pools: pools.len() as u32, ..PrimaryWaits::default() };
    if pools.is_empty() && !core.common.config().pool(pool).is_some_and(|pool| pool.session_attrs.wants_primary()) {
        // A configuration came in between.
        return waits;
    }
    match step {
        PrimaryStep::Leave { to, holds } => {
            core.primaries.set(pool.clone(), View::Leaving { to, holds });
            pools.iter().for_each(|ix| create::apply_pause(core, now, *ix));
            leave_others(core, now, pool, &pools, io);
            let holdouts = holdouts(&core.conns, &core.pools, &core.primaries, pool);
            core.primaries.hold_out(pool, holdouts);
        }
        // The worker that has seen it has done so.
        PrimaryStep::Abandon(_) if core.primaries.of(pool) == Some(&View::Unknown) => {}
        PrimaryStep::Abandon(host) => abandon(core, now, pool, &pools, (&host, None), io),
        PrimaryStep::Look(at) => {
            core.primaries.set(pool.clone(), View::Looking(at));
            // A pool that is paused opens nothing: it finds its host when it goes on.
            waits.pools = pools.iter().filter(|ix| is_active(core, **ix)).count() as u32;
            for ix in pools {
                open::stop_waiting_for_host(core, now, ix);
                create::apply_pause(core, now, ix);
                try_now(core, now, ix);
            }
        }
        PrimaryStep::Settle(at) => {
            pools.iter().for_each(|ix| count_waiting(core, now, *ix, &mut waits));
            core.primaries.set(pool.clone(), at.map_or(View::Unknown, View::At));
            for ix in &pools {
                create::apply_pause(core, now, *ix);
                core.pools.get_mut(*ix).pool.retry_now();
            }
            stay(core, pool, &pools);
            pools.iter().for_each(|ix| open::wait_anew(core, now, *ix, io));
            go_on(core, now, &pools, io);
            if core.primaries.first(pool).is_some() {
                leave_others(core, now, pool, &pools, io);
            }
        }
        PrimaryStep::Cut => cut(core, now, pool, io),
    }
    waits
}

/// A server of a pool shows that its host takes no writes: the pool leaves the host, here at once and at the other
/// workers, and looks for another one. Once: what else shows that has been left already.
pub(crate) fn demoted<I: Io>(core: &mut Core, now: Time, demotion: Demotion, io: &mut I) {
    let Demotion { pool: ix, at: host, why, at_login } = demotion;
    let Some(slot) = core.pools.find_mut(ix).filter(|slot| slot.config.session_attrs.wants_primary()) else { return };
    let name = slot.name.clone();
    if core.primaries.of(&name) != Some(&View::At(host.clone())) {
        return;
    }
    let pools = pools_of(core, &name);
    abandon(core, now, &name, &pools, (&host, at_login.then_some(ix)), io);
    io.post(WorkerId(0), Message(Payload::PrimaryLost { pool: name, at: host, why }), None);
}

/// A configuration is in force: the pools go on that are gone there, or want no primary any more, and were moving.
pub(crate) fn configured<I: Io>(core: &mut Core, now: Time, io: &mut I) {
    for name in core.primaries.apply_config(core.common.config()) {
        let pools = core.pools.named(Some(&name));
        pools.iter().for_each(|ix| create::apply_pause(core, now, *ix));
        stay(core, &name, &pools);
        go_on(core, now, &pools, io);
    }
    // The pools of a database may be new.
    for ix in core.pools.indices() {
        if core.primaries.only(&core.pools.get(ix).name).is_some() {
            try_now(core, now, ix);
        }
    }
}

fn pools_of(core: &Core, pool: &str) -> Vec<PoolIx> {
    let mut pools = core.pools.named(Some(pool));
    pools.retain(|ix| core.pools.get(*ix).config.session_attrs.wants_primary());
    pools
}

/// The pools leave this host, and try another one now; one whose login has just failed waits as after any other.
fn abandon<I: Io>(
    core: &mut Core,
    now: Time,
    pool: &Arc<str>,
    pools: &[PoolIx],
    (host, failed): (&Target, Option<PoolIx>),
    io: &mut I,
) {
    core.primaries.set(pool.clone(), View::Unknown);
    leave_others(core, now, pool, pools, io);
    for ix in pools {
        let slot = core.pools.get_mut(*ix);
        slot.hosts.leave(&slot.config, host);
        if failed != Some(*ix) {
            slot.pool.retry_now();
        }
    }
}

/// The servers of a pool that are not at its host are closed, now or as they become free.
fn leave_others<I: Io>(core: &mut Core, now: Time, pool: &str, pools: &[PoolIx], io: &mut I) {
    let others = |server: &&ServerSlot| {
        pools.contains(&server.pool)
            && server.dedicated.is_none()
            && core.primaries.of(pool).and_then(View::host) != Some(server.connection.target())
    };
    let servers: Vec<ConnId> = core.conns.all::<ServerSlot>().filter(others).map(|server| server.conn).collect();
    servers.into_iter().for_each(|server| leave_server(core, now, server, io));
    pools.iter().for_each(|ix| core.common.follow_up(FollowUp::PollPool(*ix)));
}

/// The servers that were left are not any more where the pool may be at their hosts again.
fn stay(core: &mut Core, pool: &str, pools: &[PoolIx]) {
    let back = |server: &&ServerSlot| {
        let attrs = |ix| core.pools.get(ix).config.session_attrs;
        server.left
            && pools.contains(&server.pool)
            && core.primaries.may_stay(pool, attrs(server.pool), server.connection.target())
    };
    let servers: Vec<ConnId> = core.conns.all::<ServerSlot>().filter(back).map(|server| server.conn).collect();
    for server in servers {
        core.conns.get_mut::<ServerSlot>(server).into_iter().for_each(ServerSlot::stay);
    }
}

fn leave_server<I: Io>(core: &mut Core, now: Time, conn: ConnId, io: &mut I) {
    let Some(server) = core.conns.get_mut::<ServerSlot>(conn) else { return };
    if server.is_new() {
        return close::close(core, now, conn, LEFT, io);
    }
    match server.phase() {
        Some(ServerPhase::Idle) => close::close(core, now, conn, LEFT, io),
        Some(ServerPhase::Checking | ServerPhase::SyncingParameters) => {
            // Nothing of its client's was sent yet: the client waits for another one.
            let Some(server) = core.conns.take::<ServerSlot>(conn) else { return };
            close::end_connection(core, &server, io);
            lost::server_lost(core, now, server, io);
        }
        // On its way: whoever receives it looks.
        Some(ServerPhase::Lending { .. } | ServerPhase::Returning | ServerPhase::Leaving) => {}
        phase => {
            server.leave();
            // A client that keeps it between transactions may be in none now.
            let client = server.link.filter(|_| phase == Some(ServerPhase::Linked));
            let client = client.and_then(|client| core.conns.get::<ClientSlot>(client));
            if client.is_some_and(|client| matches!(client.phase, ClientPhase::Ready(_))) {
                core.common.follow_up(FollowUp::Release(conn));
            }
        }
    }
}

/// The pool looks whether its host takes writes, though no client may wait for it.
pub(crate) fn try_now(core: &mut Core, now: Time, ix: PoolIx) {
    let slot = core.pools.get_mut(ix);
    if slot.lending.is_borrower() {
        slot.pool.retry_now();
    } else {
        slot.pool.try_now(now);
    }
    core.common.follow_up(FollowUp::PollPool(ix));
}

/// Whether the pool may open servers, as far as operators are concerned.
fn is_active(core: &Core, ix: PoolIx) -> bool {
    let draining = core.shutdown.draining() == Some(Drain::Servers);
    core.pause.of_pool(&core.pools.get(ix).name, draining) == ServiceState::Active
}

fn count_waiting(core: &Core, now: Time, ix: PoolIx, waits: &mut PrimaryWaits) {
    let waiting =
        core.pools.get(ix).pool.waiting().filter(|(waiter, _)| matches!(Waiter::of(*waiter), Waiter::Client(_)));
    for (_, since) in waiting {
        waits.clients += 1;
        waits.longest = waits.longest.max(now.since(since));
    }
}

/// The logins that have waited for the decision go on, or to another host.
fn go_on<I: Io>(core: &mut Core, now: Time, pools: &[PoolIx], io: &mut I) {
    let waits =
        |server: &&ServerSlot| pools.contains(&server.pool) && server.phase() == Some(ServerPhase::AwaitingFence);
    let waiting: Vec<ConnId> = core.conns.all::<ServerSlot>().filter(waits).map(|server| server.conn).collect();
    waiting.into_iter().for_each(|server| login::decided(core, now, server, io));
    pools.iter().for_each(|ix| core.common.follow_up(FollowUp::PollPool(*ix)));
}

fn cut<I: Io>(core: &mut Core, now: Time, pool: &str, io: &mut I) {
    for server in holdouts(&core.conns, &core.pools, &core.primaries, pool) {
        let client = core.conns.get::<ServerSlot>(server).and_then(|server| server.link);
        client.into_iter().for_each(|client| leave::refuse_handle(core, now, client, Refusal::PrimaryMoved, io));
    }
}
