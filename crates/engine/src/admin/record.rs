//! Operators begin and end the record of pools' traffic.

use weir_base::Time;

use crate::core::Core;
use crate::traffic::RecordedPool;

/// The traffic of one database, or of all, is recorded anew until then.
pub(crate) fn start(core: &mut Core, now: Time, database: Option<&str>, until: Time) {
    let pools = &core.pools;
    let pool = |ix| {
        let slot = pools.get(ix);
        RecordedPool { ix, database: &slot.name, user: &slot.user, mode: slot.config.policy.mode }
    };
    let named = pools.named(database).into_iter().map(pool);
    core.sessions.statements.change_traffic(|traffic| traffic.start(database, now, until, named));
}

/// The traffic of one database, or of all, is recorded no more.
pub(crate) fn stop(core: &mut Core, now: Time, database: Option<&str>) {
    core.sessions.statements.change_traffic(|traffic| traffic.stop(database, now));
}
