//! What is counted of a pool, or of the console, for SHOW, the log and the control plane.

use std::sync::Arc;

use weir_admin::{Applications, DatabaseStats, PoolCounters, Refusals, RefusedClients, Stats};
use weir_base::{Span, Time};
use weir_pgwire::Dirty;

/// The counters of one pool.
pub(crate) struct PoolCounts {
    pub(crate) stats: Stats,
    pub(crate) counters: PoolCounters,
    /// The pool's clients that were refused.
    pub(crate) refusals: Refusals,
    /// The setting whose limit refused a client last.
    pub(crate) limit: Option<&'static str>,
    /// Who the refused clients were, but for those that the pool's health does not count.
    pub(crate) refused_by: RefusedClients,
    /// Which applications the clients have been.
    pub(crate) applications: Arc<Applications>,
    /// The kinds of lost session state that the log has mentioned.
    pub(crate) lost_logged: Dirty,
    /// The kinds of state found late that the log has mentioned.
    pub(crate) late_logged: Dirty,
    /// When the log last mentioned the pool's waits.
    pub(crate) wait_logged: Option<Time>,
    /// The counters at the start of the last complete period, and at its end.
    previous: (Stats, Time),
    latest: (Stats, Time),
}

impl PoolCounts {
    pub(crate) fn new(now: Time) -> PoolCounts {
        PoolCounts {
            stats: Stats::default(),
            counters: PoolCounters::default(),
            refusals: Refusals::default(),
            limit: None,
            refused_by: RefusedClients::default(),
            applications: Arc::default(),
            lost_logged: Dirty::NONE,
            late_logged: Dirty::NONE,
            wait_logged: None,
            previous: (Stats::default(), now),
            latest: (Stats::default(), now),
        }
    }

    /// A client of this application has logged in; `at`: microseconds since 1970.
    pub(crate) fn note_application(&mut self, name: &str, at: u64) {
        if self.applications.is_new(name) {
            Arc::make_mut(&mut self.applications).add(name, at);
        }
    }

    /// Counts a wait for a server.
    #[inline]
    pub(crate) fn waited(&mut self, waited: Span) {
        self.stats.wait_time += waited.micros();
        self.counters.times().wait.count(waited.micros());
    }

    /// Ends a statistics period.
    pub(crate) fn end_period(&mut self, now: Time) {
        self.previous = self.latest;
        self.latest = (self.stats, now);
    }

    /// Adds the counters to those of a database.
    pub(crate) fn add_to(&self, stats: &mut DatabaseStats, now: Time) {
        stats.total.add(&self.stats);
        stats.counters.add(&self.counters);
        stats.previous.add(&self.previous.0);
        stats.period = stats.period.max(now.since(self.previous.1));
    }
}
