//! The results by load and size, over all repetitions.

use crate::load::pgbench::Run;
use crate::load::spread::Spread;
use crate::model::Value;
use crate::steps::Results;

use super::super::burst::Burst;
use super::super::plan::{Distance, Load, Plan, Route, Task, USABLE, load_id};
use super::super::stage::RunData;

/// Messages of a server that has no free connection.
const REFUSALS: [&str; 3] = ["too many clients", "remaining connection slots", "too many connections"];

/// The results of a plan.
pub(super) struct View<'r> {
    pub(super) plan: &'r Plan,
    results: &'r Results,
}

impl<'r> View<'r> {
    pub(super) fn new(plan: &'r Plan, results: &'r Results) -> View<'r> {
        View { plan, results }
    }

    /// All repetitions of a load that have a result.
    pub(super) fn taken(&self, distance: Distance, load: Load) -> Vec<RunData> {
        let ids = (1..=self.plan.repetitions).map(|repetition| load_id(distance, load, repetition));
        ids.filter_map(|id| self.results.get(&id)).collect()
    }

    /// The first repetition of a load, for charts over time.
    pub(super) fn first(&self, distance: Distance, load: Load) -> Option<RunData> {
        self.results.get(&load_id(distance, load, 1))
    }

    /// 150 clients through a pool of this size; the article's size is one of the loads.
    pub(super) fn sized(&self, distance: Distance, size: u32) -> Vec<RunData> {
        if size == USABLE {
            return self.taken(distance, Load { route: Route::Pool, clients: 150 });
        }
        self.results.get(&Task::Sweep(distance, size).id()).into_iter().collect()
    }

    pub(super) fn burst(&self, route: Route) -> Option<Burst> {
        self.results.get(&Task::Burst(route).id())
    }

    /// A figure of a load over its repetitions; runs without transactions have none.
    pub(super) fn spread(&self, distance: Distance, load: Load, f: impl Fn(&RunData) -> Option<f64>) -> Option<Spread> {
        Spread::of(&figures(&self.taken(distance, load), f))
    }

    /// Transactions a second.
    pub(super) fn tps(&self, distance: Distance, load: Load) -> Option<Spread> {
        self.spread(distance, load, |taken| Some(taken.run.tps))
    }

    /// A table's cell for a load: its figure, or why there is none.
    pub(super) fn value(&self, distance: Distance, load: Load, f: impl Fn(&RunData) -> Option<f64>) -> Value {
        let taken = self.taken(distance, load);
        if let Some(value) = Value::median(&figures(&taken, f)) {
            return value;
        }
        match taken.first() {
            Some(taken) if refused(&taken.run) => Value::text("refused"),
            Some(taken) if !worked(taken) => Value::text("failed"),
            Some(_) => Value::text("–"),
            None => Value::text(self.results.lack(&load_id(distance, load, 1)).unwrap_or("not run")),
        }
    }
}

/// A figure of all runs with transactions.
pub(super) fn figures(taken: &[RunData], f: impl Fn(&RunData) -> Option<f64>) -> Vec<f64> {
    taken.iter().filter(|taken| worked(taken)).filter_map(f).collect()
}

/// Whether a run has transactions.
pub(super) fn worked(taken: &RunData) -> bool {
    taken.run.transactions > 0 && taken.run.tps > 0.0
}

/// Whether a run was stopped because the server had no free connection.
pub(super) fn refused(run: &Run) -> bool {
    !run.success && REFUSALS.iter().any(|words| run.complaint.contains(words))
}

/// Whether a run ended without errors, with every client at work to the end.
pub(super) fn flawless(run: &Run) -> bool {
    run.success && run.failed == 0 && run.aborted == 0
}

/// The server's message without the address before it.
pub(super) fn words(complaint: &str) -> &str {
    complaint.find("FATAL:").map_or(complaint, |at| complaint[at..].trim_start_matches("FATAL:").trim())
}
