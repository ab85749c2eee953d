//! Why a pool gives a client no server, or none yet.

use weir_base::{ConnId, Time};
use weir_session::{Cause, Refusal};

use crate::admin::wait_diagnosis;
use crate::admin::wait_diagnosis::Diagnosis;
use crate::client::slot::{ClientPhase, ClientSlot};
use crate::core::Core;
use crate::handles::PoolIx;
use crate::lending::messages;
use crate::link::deadlines;
use crate::port::Io;
use crate::server::login_steps;
use crate::server::login_steps::own_error;

/// The error for a client that a pool refuses.
pub(crate) fn refusal(core: &Core, ix: PoolIx, why: weir_pool::RefuseReason) -> Refusal {
    let slot = core.pools.get(ix);
    match why {
        weir_pool::RefuseReason::WaitTimeout => {
            Refusal::QueryWaitTimeout { cause: Cause::PoolFull, detail: String::new() }
        }
        weir_pool::RefuseReason::ServerDown => match slot.failures.last() {
            Some((error, true)) => Refusal::ServerSlow { message: error.message.clone() },
            Some((error, false)) => login_steps::refusal(slot, error.clone()),
            None => login_steps::refusal(slot, own_error("server login failed".into())),
        },
        weir_pool::RefuseReason::TooManyWaiting => Refusal::TooManyClients,
        weir_pool::RefuseReason::ShuttingDown if slot.removed => Refusal::PoolGone,
        weir_pool::RefuseReason::ShuttingDown => Refusal::ShuttingDown,
    }
}

/// Calls `make` with the input of a pool's diagnosis.
pub(crate) fn diagnose<R>(core: &Core, now: Time, ix: PoolIx, make: impl FnOnce(&Diagnosis<'_>) -> R) -> R {
    let is_shared = core.common.config().shared_budget(&core.pools.get(ix).name).is_some();
    make(&Diagnosis {
        now,
        config: core.common.config(),
        conns: &core.conns,
        pool: core.pools.get(ix),
        down: core.pools.get(ix).login.waits_at().and_then(|target| core.hosts.throttle.down(target)),
        obstacle: core.lease.obstacle().filter(|_| is_shared),
        is_lent: &|server| messages::is_lent(core, server),
    })
}

/// Why a wait in a pool's queue does not end, with names and figures.
pub(crate) fn cause_of_wait(core: &Core, now: Time, ix: PoolIx) -> (Cause, String) {
    diagnose(core, now, ix, |diagnosis| diagnosis.cause())
}

/// The error for a client, or a query of ours, that has waited too long.
pub(crate) fn wait_timed_out<I: Io>(core: &mut Core, now: Time, ix: PoolIx, io: &mut I) -> Refusal {
    let why = cause_of_wait(core, now, ix);
    wait_diagnosis::timed_out(now, core.common.config(), core.pools.get_mut(ix), why, io)
}

/// The error for a client that logs in, has waited long enough for the first server of its pool, and would wait on: all
/// attempts to reach one fail. A server that starts up is waited for.
pub(crate) fn never_reached(core: &Core, now: Time, client: &ClientSlot) -> Option<Refusal> {
    let waits =
        matches!(client.phase, ClientPhase::Welcome(_)) && now >= deadlines::first_server_due(&core.pools, client);
    waits.then(|| unreached(core, client.pool))?
}

/// The error where no server of a pool can be reached.
pub(crate) fn unreached(core: &Core, ix: PoolIx) -> Option<Refusal> {
    let slot = core.pools.get(ix);
    let down = slot.login.waits_at().and_then(|target| core.hosts.throttle.down(target)).map(|down| &down.error);
    let error = down.or_else(|| slot.failures.last().map(|(error, _)| error))?;
    let refusal = || Refusal::NeverReached { message: error.message.clone(), detail: login_steps::failed_for(slot) };
    error.sqlstate.starts_with("08").then(refusal)
}

/// A client has waited long enough for a notice.
pub(crate) fn notify_waiting<I: Io>(core: &mut Core, now: Time, ix: PoolIx, client: ConnId, io: &mut I) {
    let (_, why) = cause_of_wait(core, now, ix);
    wait_diagnosis::notify(&core.conns, core.pools.get(ix), client, &why, io);
}
