//! Looks at the health of pools, and an operator's command to try their servers now.

use weir_admin::{Command, Report, Show};
use weir_base::{Time, WorkerId};
use weir_config::FileFormat;

use crate::admin::gather::Caller;
use crate::cluster::messages::{Message, Payload, WorkerCommand};
use crate::common::{FollowUp, cx};
use crate::engine::Engine;
use crate::handles::PoolIx;
use crate::log::log;
use crate::port::{Io, Level};

impl Engine {
    /// A pool has changed: if it is in trouble, worker 0 receives a message, once until its next look.
    #[inline]
    pub(crate) fn check_trouble<I: Io>(&mut self, ix: PoolIx, io: &mut I) {
        let slot = self.pools.get(ix);
        let trouble = slot.pool.oldest_wait().is_some() || slot.failures.last().is_some();
        if trouble && self.admin.health.must_report(self.common.config()) {
            io.post(WorkerId(0), Message(Payload::Trouble), None);
        }
    }

    /// Worker 0: a pool of a worker may be in trouble.
    pub(crate) fn trouble_reported<I: Io>(&mut self, now: Time, io: &mut I) {
        self.admin.health.look_soon(cx!(self, now, io));
    }

    /// Worker 0: looks at all pools.
    pub(crate) fn health_due<I: Io>(&mut self, now: Time, io: &mut I) {
        self.admin.health.is_due();
        self.scatter(now, Caller::Engine, Command::Show(Show::Pools), &WorkerCommand::Health, io);
    }

    /// This worker's part of a look.
    pub(crate) fn health_report(&mut self) -> Report {
        self.admin.health.looked_at();
        let halt = &self.admin.halt;
        let report = Report {
            serving: halt.state(),
            paused: halt.paused().clone(),
            disabled: halt.disabled().clone(),
            findings: self.admin.findings.clone(),
            silent: self.backends.silence.report(|at| self.common.wall(at)),
            ..Report::default()
        };
        self.with_tables(|tables| Report { pools: tables.pools(), ..report })
    }

    /// Completes a report of all workers with the pools' health; logs what has changed.
    pub(crate) fn observe_health<I: Io>(&mut self, now: Time, report: &mut Report, io: &mut I) {
        let wall = self.common.wall(now);
        let (changes, alert) = self.admin.health.observe(report, self.common.config(), wall);
        for change in changes {
            let level = if change.is_problem() { Level::Warning } else { Level::Info };
            log(level, format_args!("{change}"), io);
        }
        if alert {
            self.admin.health.look_soon(cx!(self, now, io));
        }
    }

    /// RETRY: the pools that `name` selects try to open a server now, whatever failed before.
    pub(crate) fn retry_pools<I: Io>(&mut self, now: Time, name: Option<&str>, io: &mut I) {
        for ix in self.pools.named(name) {
            let slot = self.pools.get_mut(ix);
            // The owner tries for a borrower.
            if slot.lending.is_borrower() {
                slot.pool.retry_now();
            } else {
                slot.pool.try_now(now);
            }
            for target in &slot.config.clone().targets {
                self.try_host_now(now, target, io);
            }
            self.common.follow_up(FollowUp::PollPool(ix));
        }
    }

    /// A server was lost, or could not be reached: with a `weir.toml` its pool tries until it is back, even if no client waits,
    /// so that its health is known. With a `pgbouncer.ini` only clients and min_pool_size open servers, as in PgBouncer.
    pub(crate) fn keep_trying(&mut self, now: Time, ix: PoolIx) {
        let slot = self.pools.get_mut(ix);
        if self.common.config().format == FileFormat::Toml && slot.pool.is_empty() && !slot.lending.is_borrower() {
            slot.pool.keep_trying(now);
        }
    }
}
