//! Idle servers that worker 0 searches for, to close one where a limit leaves no room for another pool.

use weir_base::Time;

use crate::core::Core;
use crate::handles::PoolIx;
use crate::pools::PoolSlot;
use crate::port::Io;
use crate::workers::quota::servers::Spared;
use crate::workers::quota::{Key, PoolId, QuotaRequest};
use crate::workers::send::request;

/// A server of a pool has become idle: reports it to worker 0, which searches for one.
#[cold]
pub(crate) fn report_idle<I: Io>(core: &mut Core, ix: PoolIx, io: &mut I) {
    let slot = core.pools.get(ix);
    let Some(since) = slot.pool.longest_idle() else { return };
    for key in core.idle_search.report(core.common.config(), &slot.name, &slot.user) {
        request(QuotaRequest::Idle { key, round: None, longest: Some((since, slot.id())) }, io);
    }
}

/// The pool under a limit whose server is idle for longest, and since when.
pub(crate) fn longest_idle(core: &Core, key: &Key, spared: &Spared) -> Option<(Time, PoolId)> {
    let config = core.common.config();
    let covers = |slot: &&PoolSlot| !spared.contains(&*slot.name) && key.covers(config, &slot.name, &slot.user);
    let slots = core.pools.iter().filter(covers);
    let idle = slots.filter_map(|slot| Some((slot.pool.longest_idle()?, slot)));
    idle.min_by_key(|(since, _)| *since).map(|(since, slot)| (since, slot.id()))
}
