//! To which servers a connection is kept for looks: to those of pools in use, opened while they are well.
//!
//! Owns when that is said next; one call at a time.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use weir_admin::{Health, LoginFailure, LookedAt, Report};

use crate::activity_probe::ActivityProbe;
use crate::lock::lock;

/// Between two calls, but when a pool is in use no more: what waits for the end of its connections waits for this one, too.
const EVERY: Duration = Duration::from_secs(3);

/// Cheap to clone.
#[derive(Clone)]
pub(super) struct KeptLooks {
    activity_probe: ActivityProbe,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    busy: bool,
    last: Option<Instant>,
    /// The pools of the last call.
    pools: BTreeSet<String>,
}

impl KeptLooks {
    pub(super) fn new(activity_probe: ActivityProbe) -> KeptLooks {
        KeptLooks { activity_probe, state: Arc::default() }
    }

    /// Says it if that is due; does not wait for it.
    pub(super) fn follow(&self, report: &Report) {
        let pools = in_use(report);
        {
            let (names, mut state) = (pools.iter().map(|of| of.pool.clone()).collect(), lock(&self.state));
            let is_early = state.last.is_some_and(|last| last.elapsed() < EVERY) && state.pools.is_subset(&names);
            if state.busy || is_early {
                return;
            }
            *state = State { busy: true, last: Some(Instant::now()), pools: names };
        }
        let kept = self.clone();
        tokio::spawn(async move {
            kept.activity_probe.keep(pools).await;
            lock(&kept.state).busy = false;
        });
    }
}

/// The pools with servers, or whose server is away. A pause is often made so that nobody is connected.
fn in_use(report: &Report) -> Vec<LookedAt> {
    let pools = report.pools.iter().filter_map(|pool| {
        let state = pool.health.state;
        let rests = matches!(state, Health::Paused | Health::Disabled);
        let is_used = pool.connected() > 0 || pool.health.is_problem();
        let well = pool.connected() > 0 && !pool.health.is_problem();
        let lacks_room = pool.symptoms.failure.as_ref().is_some_and(is_own_limit);
        (is_used && !rests).then(|| LookedAt { pool: pool.database.clone(), well, lacks_room })
    });
    pools.collect()
}

/// Whether a login failed by the limit of its user or its database. At the server's own limit the kept connection is what
/// a look needs.
fn is_own_limit(failure: &LoginFailure) -> bool {
    let says = |what| failure.message.contains(what);
    failure.sqlstate == "53300" && (says("too many connections for role") || says("too many connections for database"))
}

#[cfg(test)]
mod tests {
    use weir_admin::PoolRecord;
    use weir_base::PoolMode;

    use super::*;

    #[test]
    fn a_connection_is_kept_for_pools_in_use_and_opened_only_while_the_server_is_well() {
        let pool = |name: &str, state, servers| {
            let mut pool = PoolRecord::new(name, "u", PoolMode::Transaction);
            (pool.health.state, pool.sv_idle) = (state, servers);
            pool
        };
        let pools = vec![
            pool("well", Health::Healthy, 1),
            pool("unused", Health::Healthy, 0),
            pool("blocked", Health::Blocked, 2),
            pool("full", Health::CannotConnect, 0),
            pool("paused", Health::Paused, 1),
            pool("disabled", Health::Disabled, 1),
        ];
        let found = in_use(&Report { pools, ..Report::default() });
        let found: Vec<_> = found.iter().map(|of| (of.pool.as_str(), of.well)).collect();
        assert_eq!(found, [("well", true), ("blocked", false), ("full", false)]);
    }
}
