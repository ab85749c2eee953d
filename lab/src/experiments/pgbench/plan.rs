//! The order of the runs: loads near and far, the sweeps of sizes, the bursts.
//!
//! Owns the ids of steps and their lengths. Repetitions are interleaved, each in another order, which is always the
//! same, so that a run can be resumed and a machine that becomes slower or faster favours no load.

use crate::length::Length;
use crate::load::spread::shuffled;
use crate::steps::Step;

/// The article's pool.
pub(super) const POOL: &str = "test-pool";
/// The connections of such a server for ordinary users.
pub(super) const USABLE: u32 = 97;
/// Clients of a sweep.
pub(super) const MANY: u32 = 150;
/// Connections of a burst.
pub(super) const BURST: u32 = 300;
/// pgbench's threads, as in the article.
pub(super) const THREADS: u32 = 2;
/// Smaller sizes are not tried with far clients: 150 of them would wait for half a minute.
const LEAST_FAR: u32 = 10;
/// Connecting, cleaning up and Weir's start in a step, in seconds.
const OVERHEAD: f64 = 0.8;

/// The distance of the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Distance {
    /// Each statement has a latency of some milliseconds.
    Far,
    /// On the server's machine.
    Near,
}

/// The path of clients to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    Direct,
    /// Two programs with half of the clients each; the second begins when the first has connected.
    Twice,
    Pool,
}

/// A number of clients on one route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) route: Route,
    pub(super) clients: u32,
}

/// The loads, in the order of a report.
pub(super) const LOADS: [Load; 6] = [
    Load { route: Route::Direct, clients: 50 },
    Load { route: Route::Pool, clients: 50 },
    Load { route: Route::Direct, clients: 150 },
    Load { route: Route::Twice, clients: 150 },
    Load { route: Route::Direct, clients: USABLE },
    Load { route: Route::Pool, clients: 150 },
];

impl Load {
    /// The load's name in tables: `direct, 50 clients`.
    pub(super) fn name(self) -> String {
        match self.route {
            Route::Direct => format!("direct, {} clients", self.clients),
            Route::Twice => format!("direct, 2 × {} clients", self.clients / 2),
            Route::Pool => format!("pool, {} clients", self.clients),
        }
    }

    fn id(self) -> String {
        let route = match self.route {
            Route::Direct => "direct",
            Route::Twice => "twice",
            Route::Pool => "pool",
        };
        format!("{route}-{}", self.clients)
    }
}

/// The work of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    Load(Distance, Load, u32),
    /// 150 clients through a pool of this size.
    Sweep(Distance, u32),
    Burst(Route),
}

impl Task {
    pub(super) fn id(self) -> String {
        match self {
            Task::Load(distance, load, repetition) => load_id(distance, load, repetition),
            Task::Sweep(distance, size) => format!("{}-size-{size}", word(distance)),
            Task::Burst(Route::Pool) => "burst-pool".to_owned(),
            Task::Burst(_) => "burst-direct".to_owned(),
        }
    }

    pub(super) fn title(self) -> String {
        match self {
            Task::Load(distance, load, repetition) => {
                format!("{}, {} (repetition {repetition})", word(distance), load.name())
            }
            Task::Sweep(distance, size) => format!("{}, {MANY} clients through a pool of {size}", word(distance)),
            Task::Burst(Route::Pool) => format!("a burst of {BURST} connections through the pool"),
            Task::Burst(_) => format!("a burst of {BURST} connections, direct"),
        }
    }
}

/// The id of a load's step; repetitions count from 1.
pub(super) fn load_id(distance: Distance, load: Load, repetition: u32) -> String {
    format!("{}-{}-{repetition}", word(distance), load.id())
}

fn word(distance: Distance) -> &'static str {
    match distance {
        Distance::Far => "far",
        Distance::Near => "near",
    }
}

/// The values that depend on the length and the options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) scale: u32,
    /// Seconds of a load, and of a point of a sweep.
    pub(super) seconds: u32,
    pub(super) sweep_seconds: u32,
    pub(super) repetitions: u32,
    /// The latency of a statement in the far runs, in milliseconds; 0 leaves them out.
    pub(super) way_ms: u32,
    /// The machine's cores.
    pub(super) cores: u32,
    /// Whether the server is the user's own: near and far do not apply, and its processes are not observed.
    pub(super) own: bool,
    /// The sizes of the sweeps, ascending, all below the article's size.
    pub(super) sizes: Vec<u32>,
}

impl Plan {
    /// The distances, the article's first.
    pub(super) fn distances(&self) -> Vec<Distance> {
        let far = (self.way_ms > 0).then_some(Distance::Far);
        far.into_iter().chain([Distance::Near]).collect()
    }

    /// The sizes of a sweep; the article's size is among the loads.
    pub(super) fn sizes(&self, distance: Distance) -> Vec<u32> {
        let sizes = self.sizes.iter().copied();
        sizes.filter(|size| distance == Distance::Near || *size >= LEAST_FAR).collect()
    }

    /// All tasks in order.
    pub(super) fn tasks(&self) -> Vec<Task> {
        let mut tasks = Vec::new();
        for repetition in 1..=self.repetitions {
            for distance in self.distances() {
                let loads = shuffled(&LOADS, repetition);
                tasks.extend(loads.into_iter().map(|load| Task::Load(distance, load, repetition)));
            }
        }
        tasks.extend([Task::Burst(Route::Direct), Task::Burst(Route::Pool)]);
        for distance in self.distances() {
            tasks.extend(self.sizes(distance).into_iter().map(|size| Task::Sweep(distance, size)));
        }
        tasks
    }

    /// How long a load is measured.
    pub(super) fn seconds_of(&self, task: Task) -> u32 {
        match task {
            Task::Load(..) => self.seconds,
            Task::Sweep(..) => self.sweep_seconds,
            Task::Burst(_) => 0,
        }
    }

    pub(super) fn step(&self, task: Task) -> Step {
        let seconds = match task {
            Task::Load(_, Load { route: Route::Direct, clients }, _) if clients > USABLE => OVERHEAD,
            Task::Sweep(Distance::Far, size) => f64::from(self.sweep_seconds) + self.drain(size) + OVERHEAD,
            Task::Load(..) | Task::Sweep(..) => f64::from(self.seconds_of(task)) + OVERHEAD,
            Task::Burst(_) => 1.5,
        };
        Step { id: task.id(), title: task.title(), seconds }
    }

    /// Seconds until waiting clients are served after the end: pgbench finishes what it began.
    fn drain(&self, size: u32) -> f64 {
        f64::from(MANY) / f64::from(size) * f64::from(self.way_ms) * 6.0 / 1000.0
    }
}

/// The sizes of the sweeps on a machine with this many cores.
pub(super) fn sizes(length: Length, cores: u32) -> Vec<u32> {
    let few = length == Length::Smoke;
    let mut sizes = if few { vec![2 * cores, 50] } else { vec![cores, 2 * cores, 10, 20, 50] };
    sizes.retain(|size| *size < USABLE);
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// Scale, seconds of a load and of a sweep's point, repetitions.
pub(super) fn defaults(length: Length) -> (u32, u32, u32, u32) {
    length.pick((10, 1, 1, 1), (150, 4, 2, 1), (150, 20, 10, 3), (150, 600, 60, 1))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn plan(length: Length, way_ms: u32) -> Plan {
        let (scale, seconds, sweep_seconds, repetitions) = defaults(length);
        Plan { scale, seconds, sweep_seconds, repetitions, way_ms, cores: 2, own: false, sizes: sizes(length, 2) }
    }

    #[test]
    fn every_task_has_an_id_of_its_own_and_each_repetition_another_order() {
        let tasks = plan(Length::Standard, 40).tasks();
        let ids: BTreeSet<_> = tasks.iter().map(|task| task.id()).collect();
        assert_eq!(ids.len(), tasks.len());
        assert!(ids.contains("far-pool-150-3") && ids.contains("near-direct-97-1") && ids.contains("burst-pool"));
        let orders: BTreeSet<_> = (1..=3).map(|r| format!("{:?}", shuffled(&LOADS, r))).collect();
        assert_eq!(orders.len(), 3);
        assert_eq!(shuffled(&LOADS, 2), shuffled(&LOADS, 2));
    }

    #[test]
    fn without_a_way_no_client_is_far() {
        assert!(plan(Length::Quick, 0).tasks().iter().all(|task| !task.id().starts_with("far")));
        assert!(plan(Length::Quick, 40).sizes(Distance::Far).iter().all(|size| *size >= LEAST_FAR));
    }

    #[test]
    fn the_lengths_keep_to_their_time() {
        let seconds = |length| {
            let plan = plan(length, 40);
            plan.tasks().into_iter().map(|task| plan.step(task).seconds).sum::<f64>()
        };
        assert!(seconds(Length::Quick) < 100.0, "{}", seconds(Length::Quick));
        assert!(seconds(Length::Standard) < 14.0 * 60.0, "{}", seconds(Length::Standard));
    }
}
