//! Runs many seeds on several threads.
//!
//! Owns the threads and their CPU clocks. One thread runs a seed from beginning to end, so the number of threads
//! changes only the order in which runs are reported.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use weir_sim::{Outcome, run_subset};

use crate::options::Options;

/// The CPU time that something took.
pub(crate) type Cost = Duration;

/// A seed that has been run.
pub(crate) struct Done {
    pub(crate) outcome: Outcome,
    pub(crate) cost: Cost,
}

/// Runs all seeds and passes each to `on_done`, until `on_done` returns `false`.
pub(crate) fn all(options: &Options, mut on_done: impl FnMut(Done) -> bool) {
    let (next, enough) = (AtomicU64::new(0), AtomicBool::new(false));
    let began = Instant::now();
    thread::scope(|scope| {
        // Reporting a failure takes a while; finished runs wait here meanwhile.
        let (sender, receiver) = mpsc::sync_channel(1_000);
        for _ in 0..options.jobs {
            let (sender, next, enough) = (sender.clone(), &next, &enough);
            scope.spawn(move || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let late = options.until.is_some_and(|limit| began.elapsed() >= limit);
                    if number >= options.count || late || enough.load(Ordering::Relaxed) {
                        return;
                    }
                    if sender.send(one(options, options.seed.wrapping_add(number))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for done in &receiver {
            if !on_done(done) {
                enough.store(true, Ordering::Relaxed);
                return;
            }
        }
    });
}

fn one(options: &Options, seed: u64) -> Done {
    let before = cpu_time();
    let began = Instant::now();
    let outcome = run_subset(options.baseline, seed, &options.subset, options.detail);
    let cost = before.zip(cpu_time()).map_or_else(|| began.elapsed(), |(before, after)| after.saturating_sub(before));
    Done { outcome, cost }
}

/// The CPU time of this thread, where the kernel provides it.
fn cpu_time() -> Option<Duration> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(text.split(' ').next()?.parse().ok()?))
}
