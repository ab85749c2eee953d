//! Something may have become idle: commands and shutdowns that wait for it.

use weir_base::WorkerId;

use crate::admin::report::is_outdated;
use crate::client::slot::ClientSlot;
use crate::common::UnderWay;
use crate::core::Core;
use crate::pause::waiting_command::{Condition, WaitingCommand};
use crate::port::Io;
use crate::primary::fenced;
use crate::workers::messages::{Drain, Message, Payload, WorkerAnswer};
use crate::workers::send::answer;

/// If this worker has nothing left that a shutdown waits for: informs worker 0.
pub(crate) fn check_drained<I: Io>(core: &mut Core, io: &mut I) {
    let done = match core.shutdown.draining() {
        Some(Drain::Clients | Drain::Transactions) => !core.conns.all::<ClientSlot>().any(|c| c.is_waited_for()),
        Some(Drain::Servers) if core.shutdown.is_dismissing() => return,
        Some(Drain::Servers) => core.pools.iter().all(|slot| slot.pool.is_quiescent()),
        None => return,
    };
    if done && let Some(drain) = core.shutdown.finished_here() {
        io.post(WorkerId(0), Message(Payload::Drained(drain)), None);
    }
}

/// Something may have become idle: answers the commands that wait for it, and ends a shutdown that waits for
/// nothing more.
pub(crate) fn check_watches<I: Io>(core: &mut Core, io: &mut I) {
    if core.common.is_under_way(UnderWay::WATCH) {
        let (conns, pools, primaries) = (&core.conns, &core.pools, &mut core.primaries);
        let over = core.pause.take_finished(&mut core.common, |halt, watch| {
            let mut named = pools.named(watch.name.as_deref()).into_iter().map(|ix| &pools.get(ix).pool);
            match watch.until {
                Condition::Quiet => named.all(|pool| pool.is_quiescent()),
                Condition::Fenced => {
                    let pool = watch.name.as_deref().unwrap_or_default();
                    primaries.is_fenced(pool, |server| fenced::holds_out(conns, server))
                }
                Condition::Flushed => !halt.is_flushing(),
                // Only the pool knows which servers are lent.
                Condition::Closed => !named.any(|pool| {
                    let outdated = |server| pool.is_outdated(server) || is_outdated(conns, pools, server);
                    pool.servers().any(|(server, ..)| outdated(server))
                }),
            }
        });
        for WaitingCommand { from, id, .. } in over {
            answer(from, id, WorkerAnswer::Done, io);
        }
    }
    check_drained(core, io);
}
