//! The plan: three workloads, each on pools of growing size.

use crate::length::Length;
use crate::load::spread::shuffled;
use crate::steps::Step;

/// Clients of every run: as many as the largest pool has connections, so that none of its connections is idle.
pub(super) const CLIENTS: u32 = 64;
/// pgbench's threads.
pub(super) const THREADS: u32 = 2;
/// Cleaning up and connecting in a step, in seconds.
const OVERHEAD: f64 = 0.4;

/// The workload of the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Workload {
    /// pgbench -S: one SELECT.
    ReadOnly,
    /// pgbench's own transaction, seven statements.
    ReadWrite,
    /// A transaction that waits: half of it for its client, half in the server.
    Slow,
}

impl Workload {
    pub(super) const ALL: [Workload; 3] = [Workload::ReadOnly, Workload::ReadWrite, Workload::Slow];

    pub(super) fn id(self) -> &'static str {
        match self {
            Workload::ReadOnly => "read-only",
            Workload::ReadWrite => "read-write",
            Workload::Slow => "slow",
        }
    }

    /// The name, capitalised.
    pub(super) fn name(self) -> &'static str {
        match self {
            Workload::ReadOnly => "Read-only",
            Workload::ReadWrite => "Read-write",
            Workload::Slow => "Slow",
        }
    }

    /// The share of transactions whose times are logged: enough for a p99, too few to slow pgbench down.
    pub(super) fn sampling(self) -> &'static str {
        match self {
            Workload::ReadOnly => "0.05",
            Workload::ReadWrite => "0.2",
            Workload::Slow => "1",
        }
    }
}

/// One run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Task {
    pub(super) workload: Workload,
    pub(super) size: u32,
    /// Counted from 1.
    pub(super) repetition: u32,
}

impl Task {
    pub(super) fn id(self) -> String {
        format!("{}-{}-{}", self.workload.id(), self.size, self.repetition)
    }

    fn title(self) -> String {
        format!("{}, a pool of {} (repetition {})", self.workload.id(), self.size, self.repetition)
    }
}

/// The values that depend on the length, the options and the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) scale: u32,
    pub(super) seconds: u32,
    pub(super) repetitions: u32,
    pub(super) cores: u32,
    /// Ascending.
    pub(super) sizes: Vec<u32>,
}

impl Plan {
    pub(super) fn new(length: Length, duration: Option<u32>, cores: u32) -> Plan {
        let (scale, seconds, repetitions) = length.pick((10, 1, 1), (CLIENTS, 3, 1), (CLIENTS, 5, 3), (CLIENTS, 60, 3));
        let mut sizes = if length == Length::Smoke {
            vec![1, 2 * cores, 16]
        } else {
            // Powers of two, and the sizes that are often recommended.
            vec![1, 2, 4, 8, 16, 32, 64, cores, 2 * cores]
        };
        sizes.retain(|size| *size <= CLIENTS);
        sizes.sort_unstable();
        sizes.dedup();
        Plan { scale, seconds: duration.unwrap_or(seconds), repetitions, cores, sizes }
    }

    /// All runs in order.
    pub(super) fn tasks(&self) -> Vec<Task> {
        let mut tasks = Vec::new();
        for repetition in 1..=self.repetitions {
            for workload in Workload::ALL {
                let sizes = shuffled(&self.sizes, repetition);
                tasks.extend(sizes.into_iter().map(|size| Task { workload, size, repetition }));
            }
        }
        tasks
    }

    pub(super) fn step(&self, task: Task) -> Step {
        // Waiting clients are served after the end of the time.
        let drain = if task.workload == Workload::Slow { 0.7 / f64::from(task.size) } else { 0.0 };
        Step { id: task.id(), title: task.title(), seconds: f64::from(self.seconds) + OVERHEAD + drain }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_run_has_an_id_of_its_own_within_the_time() {
        for (length, limit) in [(Length::Smoke, 20.0), (Length::Quick, 78.0), (Length::Standard, 400.0)] {
            let plan = Plan::new(length, None, 2);
            let tasks = plan.tasks();
            assert_eq!(tasks.iter().map(|task| task.id()).collect::<BTreeSet<_>>().len(), tasks.len());
            let seconds: f64 = tasks.iter().map(|task| plan.step(*task).seconds).sum();
            assert!(seconds < limit, "{length}: {seconds}");
        }
    }

    #[test]
    fn the_sizes_hold_the_cores_and_twice_as_many() {
        assert_eq!(Plan::new(Length::Quick, None, 6).sizes, [1, 2, 4, 6, 8, 12, 16, 32, 64]);
        assert_eq!(Plan::new(Length::Quick, None, 128).sizes, [1, 2, 4, 8, 16, 32, 64]);
    }
}
