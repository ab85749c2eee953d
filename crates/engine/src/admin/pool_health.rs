//! Looks at the health of pools.

use weir_admin::{Command, Report, Show};
use weir_base::{Time, WorkerId};

use crate::admin::Admin;
use crate::admin::broadcasts::Caller;
use crate::common::cx;
use crate::core::Core;
use crate::handles::PoolIx;
use crate::log::log;
use crate::port::{Io, Level};
use crate::workers::messages::{Message, Payload, WorkerCommand};

impl Admin {
    /// A pool has changed: if it is in trouble, worker 0 receives a message, once until its next look.
    #[inline]
    pub(crate) fn check_trouble<I: Io>(&mut self, core: &mut Core, ix: PoolIx, io: &mut I) {
        let Some(slot) = core.pools.find_mut(ix) else { return };
        let trouble = slot.pool.oldest_wait().is_some() || slot.failures.last().is_some();
        if trouble && self.health.must_report(core.common.config()) {
            io.post(WorkerId(0), Message(Payload::Trouble), None);
        }
    }

    /// Worker 0: looks at all pools.
    pub(crate) fn health_due<I: Io>(&mut self, core: &mut Core, now: Time, io: &mut I) {
        self.health.is_due();
        self.broadcast(core, now, Caller::Engine, Command::Show(Show::Pools), &WorkerCommand::Health, io);
    }

    /// Completes a report of all workers with the pools' health; logs what has changed.
    pub(crate) fn observe_health<I: Io>(&mut self, core: &mut Core, now: Time, report: &mut Report, io: &mut I) {
        let wall = core.common.wall(now);
        let (changes, alert) = self.health.observe(report, core.common.config(), wall);
        for change in changes {
            let level = if change.is_problem() { Level::Warning } else { Level::Info };
            log(level, format_args!("{change}"), io);
        }
        if alert {
            self.health.look_soon(cx!(core, now, io));
        }
    }

    /// Worker 0: a pool of a worker may be in trouble.
    pub(crate) fn trouble_reported<I: Io>(&mut self, core: &mut Core, now: Time, io: &mut I) {
        self.health.look_soon(cx!(core, now, io));
    }
}
