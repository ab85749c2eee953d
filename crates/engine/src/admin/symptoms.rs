//! What of a worker's tables decides the health of a pool, besides the counts of clients and servers.
//!
//! Pure functions; `weir_admin` has the rule.

use weir_admin::{LoginFailure, MOTIONLESS, Symptoms};
use weir_base::Time;
use weir_pool::ServerState as InPool;

use crate::backends::login_throttle::LoginThrottle;
use crate::common::Common;
use crate::peers::{Peers, ServerPhase, ServerSlot, ServerState};
use crate::pools::PoolSlot;

/// What decides the health of a pool, as far as this worker knows it.
pub(super) fn symptoms(common: &Common, peers: &Peers, throttle: &LoginThrottle, slot: &PoolSlot) -> Symptoms {
    let now = common.now();
    let mut symptoms = Symptoms {
        logged_in: slot.failures.logged_in(),
        failure: failure(slot, throttle, common),
        opening: slot.login.waits(),
        refused: slot.counts.refusals.total() - slot.counts.refusals.other,
        ..Symptoms::default()
    };
    for (server, state, since) in slot.pool.servers() {
        match state {
            InPool::Login => {
                symptoms.opening = true;
                symptoms.login_age = symptoms.login_age.max(now.since(since));
            }
            InPool::Linked(_) => {
                let (silent, stuck) = motionless(peers.get_server(server), now);
                symptoms.silent += u32::from(silent);
                symptoms.stuck += u32::from(stuck);
            }
            InPool::Idle { .. } | InPool::Closing => {}
        }
    }
    symptoms
}

/// How the last login of a pool failed: its own, or that of another pool at the host that it waits for.
fn failure(slot: &PoolSlot, throttle: &LoginThrottle, common: &Common) -> Option<LoginFailure> {
    let wall = |at| common.wall(at);
    let of_host = slot.login.waits_at().and_then(|target| throttle.away(target));
    if let Some(away) = of_host {
        let since = slot.failures.since().min(away.since);
        return Some(LoginFailure::new(wall(since), wall(common.now()), &away.error.sqlstate, &away.error.message));
    }
    let (error, at) = slot.failures.current()?;
    Some(LoginFailure::new(wall(slot.failures.since()), wall(at), &error.sqlstate, &error.message))
}

/// Whether a server's client, or its query, has not moved for long.
fn motionless(server: Option<&ServerSlot>, now: Time) -> (bool, bool) {
    let Some(server) = server else { return (false, false) };
    let ServerState::Up(_, ServerPhase::Linked) = &server.state else { return (false, false) };
    let long = |since: Time| since != Time::NEVER && now.since(since) >= MOTIONLESS;
    let holding = server.clock.holding();
    let silent = long(holding.silence);
    (silent, !silent && long(holding.query) && long(server.clock.received_at()))
}
