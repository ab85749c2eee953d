//! Looks at the health of pools.

use weir_admin::{Command, Report, Show};
use weir_base::Time;

use crate::admin::Admin;
use crate::admin::broadcasts::Caller;
use crate::common::cx;
use crate::core::Core;
use crate::log::log;
use crate::port::{Io, Level};
use crate::workers::messages::WorkerCommand;

impl Admin {
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
