//! Measures: PostgreSQL, one Weir with a pool of each size, and pgbench.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_pglocal::Server;

use super::plan::{CLIENTS, Plan, THREADS, Task, Workload};
use crate::lab::Lab;
use crate::length::Length;
use crate::load::pgbench::{Pgbench, Run, Target};
use crate::load::sample::{Sampler, Samples, Watch};
use crate::model::Ran;
use crate::servers::{FILLED, Mode, Pool, Weir, start_postgres};
use crate::steps::{LabError, Measured, Stage, Step};

const DATABASE: &str = "benchmark";
const EFFECT: &str = "the whole experiment";
/// All pools may be full at the same time, with some connections to spare.
const MAX_CONNECTIONS: u32 = 300;

/// Half of its waiting is the client's, which keeps the transaction open; half is the server's, as for a disk or a
/// lock.
const SLOW: &str = "\\set aid random(1, 100000 * :scale)\nBEGIN;\n\
                    SELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n\\sleep 5 ms\nSELECT pg_sleep(0.005);\n\
                    COMMIT;\n";

/// The result of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct RunData {
    pub(super) run: Run,
    /// Percentiles of the transactions' times in ms, including the wait in the pool's queue.
    pub(super) p50_ms: f64,
    pub(super) p95_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) samples: Samples,
    /// The intended duration.
    pub(super) seconds: u32,
}

/// The servers of the steps.
pub(super) struct Bench<'l> {
    lab: &'l Lab,
    plan: Plan,
    // Dropped before the server.
    weir: Weir,
    server: Server,
    pgbench: Pgbench,
    slow: PathBuf,
    logs: PathBuf,
    /// Commands that ran before the first step, which records them.
    ran: Vec<Ran>,
}

impl<'l> Bench<'l> {
    pub(super) fn open(lab: &'l Lab, plan: &Plan) -> Result<Bench<'l>, LabError> {
        let server = start_postgres(lab, MAX_CONNECTIONS, DATABASE, FILLED)?;
        let pool = |size: &u32| {
            let (name, database) = (pool_name(*size), DATABASE.to_owned());
            Pool { name, database, mode: Mode::Transaction, size: *size }
        };
        let pools: Vec<_> = plan.sizes.iter().map(pool).collect();
        let weir = Weir::start(lab, ([127, 0, 0, 1], server.port()).into(), &pools, EFFECT)?;
        let pgbench = Pgbench::of(server.programs())?;
        lab.note_version("pgbench", server.programs().version());
        let slow = lab.folder().join("size-slow.sql");
        lab.write(&slow, SLOW)?;
        let logs = lab.subfolder("size-logs")?;
        let target = Target::local(server.port(), DATABASE);
        let ran = vec![pgbench.initialize(lab, "size-fill", &target, plan.scale)?];
        if lab.length() != Length::Smoke {
            lab.doing("warming up");
            pgbench.run(lab, "size-warm-up", "warm up", &target, &words("-n -S -c 8 -j 2 -T 2"), 2)?;
        }
        Ok(Bench { lab, plan: plan.clone(), weir, server, pgbench, slow, logs, ran })
    }

    fn args(&self, task: Task) -> Vec<String> {
        let Plan { seconds, scale, .. } = self.plan;
        let mut args = words(&format!("-n -c {CLIENTS} -j {THREADS} -T {seconds} -l"));
        args.push(format!("--log-prefix={}", self.logs.join(task.id()).display()));
        args.push(format!("--sampling-rate={}", task.workload.sampling()));
        match task.workload {
            Workload::ReadOnly => args.push("-S".to_owned()),
            Workload::ReadWrite => {}
            Workload::Slow => {
                args.extend(words(&format!("-D scale={scale} -f")));
                args.push(self.slow.display().to_string());
            }
        }
        args
    }

    fn tidy(&self) -> Result<(), LabError> {
        let mut connection = self.server.superuser_connection(DATABASE)?;
        for sql in ["vacuum pgbench_branches", "vacuum pgbench_tellers", "truncate pgbench_history"] {
            connection.query(sql)?;
        }
        Ok(())
    }
}

impl Stage for Bench<'_> {
    fn take(&mut self, step: &Step) -> Result<Measured, LabError> {
        let task = self.plan.tasks().into_iter().find(|task| task.id() == step.id);
        let task = task.ok_or_else(|| LabError::Failed(format!("no step is called {}", step.id)))?;
        self.tidy()?;
        let target = Target::local(self.weir.port(), &pool_name(task.size));
        let seconds = self.plan.seconds;
        let sampler = Sampler::start(Watch {
            server: self.server.pid(),
            pooler: Some(self.weir.pid()),
            client: "pgbench",
            ask: None,
            every: Duration::from_millis(500),
        });
        let done =
            self.pgbench.run(self.lab, &format!("size-{}", step.id), &step.title, &target, &self.args(task), seconds);
        let samples = sampler.stop();
        let (run, ran) = done?;
        let mut times = times(&self.logs, &task.id())?;
        times.sort_unstable();
        let warning = samples.client_limit(THREADS).map(|warning| format!("{}: {warning}", step.title));
        let [p50_ms, p95_ms, p99_ms] = [0.5, 0.95, 0.99].map(|share| percentile(&times, share));
        let taken = RunData { run, p50_ms, p95_ms, p99_ms, samples, seconds };
        if !taken.run.success {
            return Err(LabError::Failed(format!("pgbench stopped: {}", taken.run.complaint)));
        }
        let headline = format!("{:.0} TPS, p99 {:.1} ms", taken.run.tps, taken.p99_ms);
        let mut measured = Measured::of(headline, &taken).ran(self.ran.drain(..)).ran([ran]);
        measured.warnings.extend(warning);
        Ok(measured)
    }
}

fn pool_name(size: u32) -> String {
    format!("size-{size}")
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

/// The times in µs that pgbench logged under this name, in a file for each thread; removes the files.
fn times(folder: &Path, name: &str) -> Result<Vec<u64>, LabError> {
    let begins = format!("{name}.");
    let mut times = Vec::new();
    let entries = fs::read_dir(folder).map_err(|e| LabError::at(format!("read {}", folder.display()), e))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        if !path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(&begins)) {
            continue;
        }
        let text = fs::read_to_string(&path).map_err(|e| LabError::at(format!("read {}", path.display()), e))?;
        times.extend(text.lines().filter_map(time));
        let _ = fs::remove_file(path);
    }
    Ok(times)
}

/// The third field of a line: client, transaction, time in µs, script, when.
fn time(line: &str) -> Option<u64> {
    line.split(' ').nth(2)?.parse().ok()
}

/// In ms, of sorted times in µs; 0 without any.
fn percentile(times: &[u64], share: f64) -> f64 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    let at = ((times.len() as f64 * share).ceil() as usize).saturating_sub(1);
    #[allow(clippy::cast_precision_loss)]
    times.get(at).map_or(0.0, |time| *time as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use weir_pglocal::TempFolder;

    use super::*;

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let times: Vec<u64> = (1..=100).map(|ms| ms * 1000).collect();
        assert_eq!([0.5, 0.95, 0.99, 1.0].map(|share| percentile(&times, share)), [50.0, 95.0, 99.0, 100.0]);
        assert_eq!((percentile(&[7000], 0.5), percentile(&[], 0.5)), (7.0, 0.0));
    }

    #[test]
    fn the_logs_of_all_threads_are_read_and_removed() {
        let folder = TempFolder::new().unwrap();
        fs::write(folder.path().join("slow-1-1.4711"), "0 199 2241 0 1175850568 995598\n").unwrap();
        fs::write(folder.path().join("slow-1-1.4711.1"), "0 200 2465 0 1175850568 998079\nskipped\n").unwrap();
        fs::write(folder.path().join("slow-1-10.4711"), "0 200 9 0 1 1\n").unwrap();
        let mut found = times(folder.path(), "slow-1-1").unwrap();
        found.sort_unstable();
        assert_eq!(found, [2241, 2465]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
