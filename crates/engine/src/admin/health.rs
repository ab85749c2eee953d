//! The health of pools: when it is computed without being asked.
//!
//! Owns the process's [`HealthWatch`] (worker 0). Must not compute a
//! state: `weir_admin::Health` does. While all pools are healthy nothing here runs. A worker whose pool has a waiting
//! client or a failed login reports that to worker 0, which then looks at all pools once a second until all are healthy
//! again.

use weir_admin::{HealthChange, HealthWatch, Report};
use weir_base::{Span, Time};
use weir_config::{Config, FileFormat};

use crate::common::Cx;
use crate::port::Io;
use crate::timers::Who;

/// The interval of looks while a pool is not healthy.
const LOOK_EVERY: Span = Span::from_secs(1);

/// The state of this worker.
pub(crate) struct PoolsHealth {
    watch: HealthWatch,
    /// The next look; worker 0.
    look_at: Time,
}

impl Default for PoolsHealth {
    fn default() -> Self {
        PoolsHealth { watch: HealthWatch::default(), look_at: Time::NEVER }
    }
}

impl PoolsHealth {
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
