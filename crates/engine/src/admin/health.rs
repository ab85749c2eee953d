//! The health of pools: when it is computed without being asked, and what of it only this worker's tables show.
//!
//! Owns the process's [`HealthWatch`] (worker 0) and whether this worker has reported trouble. Must not compute a state:
//! `weir_admin::Health` does. While all pools are healthy nothing here runs. A worker whose pool has a waiting client or a
//! failed login reports that to worker 0, which then looks at all pools once a second until all are healthy again.

use weir_admin::{HealthChange, HealthWatch, LoginFailure, MOTIONLESS, Report, Symptoms};
use weir_base::{Span, Time};
use weir_config::{Config, FileFormat};
use weir_pool::ServerState as InPool;

use crate::admin::report::Tables;
use crate::backends::login_throttle::LoginThrottle;
use crate::common::Cx;
use crate::handles::PoolIx;
use crate::peers::{ServerPhase, ServerSlot, ServerState};
use crate::pools::PoolSlot;
use crate::port::Io;
use crate::timers::Who;

/// The interval of looks while a pool is not healthy.
const LOOK_EVERY: Span = Span::from_secs(1);

/// The state of this worker.
pub(crate) struct PoolsHealth {
    watch: HealthWatch,
    /// The next look; worker 0.
    look_at: Time,
    /// Trouble was reported to worker 0 since the last look.
    reported: bool,
}

impl Default for PoolsHealth {
    fn default() -> Self {
        PoolsHealth { watch: HealthWatch::default(), look_at: Time::NEVER, reported: false }
    }
}

impl PoolsHealth {
    /// A pool may be in trouble: whether worker 0 is to be notified. The log of a `pgbouncer.ini` has no such lines.
    #[inline]
    pub(crate) fn must_report(&mut self, config: &Config) -> bool {
        !self.reported && {
            self.reported = true;
            config.format == FileFormat::Toml
        }
    }

    /// Worker 0 looks: trouble from now on is reported anew.
    pub(crate) fn looked_at(&mut self) {
        self.reported = false;
    }

    /// Worker 0: a look is due soon.
    pub(crate) fn look_soon<I: Io>(&mut self, cx: &mut Cx<'_, I>) {
        cx.common.arm(Who::Health, cx.now + LOOK_EVERY, &mut self.look_at);
    }

    /// Worker 0: the timer has fired.
    pub(crate) fn is_due(&mut self) {
        self.look_at = Time::NEVER;
    }

    /// Completes a report of all workers; returns the changes for the log, and whether to look again soon.
    pub(crate) fn observe(&mut self, report: &mut Report, config: &Config, now_wall: u64) -> (Vec<HealthChange>, bool) {
        let changes = self.watch.observe(report, config, now_wall);
        match config.format {
            FileFormat::Toml => (changes, self.watch.is_alert()),
            FileFormat::Ini => (Vec::new(), false),
        }
    }
}

/// What decides the health of a pool, as far as this worker knows it.
pub(super) fn symptoms(tables: &Tables<'_>, ix: PoolIx) -> Symptoms {
    let (slot, now) = (tables.pools.get(ix), tables.common.now());
    let mut symptoms = Symptoms {
        failure: failure(slot, tables.throttle, |at| tables.common.wall(at), now),
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
                let (silent, stuck) = motionless(tables.peers.get_server(server), now);
                symptoms.silent += u32::from(silent);
                symptoms.stuck += u32::from(stuck);
            }
            InPool::Idle { .. } | InPool::Closing => {}
        }
    }
    symptoms
}

/// How the last login of a pool failed: its own, or that of another pool at the host that it waits for.
fn failure(slot: &PoolSlot, throttle: &LoginThrottle, wall: impl Fn(Time) -> u64, now: Time) -> Option<LoginFailure> {
    let of_host = slot.login.waits_at().and_then(|target| throttle.away(target));
    if let Some(away) = of_host {
        let since = slot.failures.since().min(away.since);
        return Some(LoginFailure::new(wall(since), wall(now), &away.error.sqlstate, &away.error.message));
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
    (silent, !silent && long(holding.query) && long(server.clock.heard_at()))
}
