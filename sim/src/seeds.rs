//! Many seeds, several at a time.
//!
//! Owns the threads and their clocks. Each seed is run by one thread from its beginning to its end, so how many there
//! are changes nothing about a run, only the order in which runs are heard of.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use weir_sim::{Outcome, run_part};

use crate::options::Options;

/// The CPU time that something took.
pub(crate) type Cost = Duration;

/// A seed that has been run.
pub(crate) struct Done {
    pub(crate) outcome: Outcome,
    pub(crate) cost: Cost,
}

/// Runs all seeds, and tells `heard` of each, until it says that this is enough.
pub(crate) fn all(options: &Options, mut heard: impl FnMut(Done) -> bool) {
    let (next, enough) = (AtomicU64::new(0), AtomicBool::new(false));
    let began = Instant::now();
    thread::scope(|scope| {
        // A few may wait to be heard: a failure takes its time to be reported.
        let (tell, told) = mpsc::sync_channel(1_000);
        for _ in 0..options.jobs {
            let (tell, next, enough) = (tell.clone(), &next, &enough);
            scope.spawn(move || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let late = options.until.is_some_and(|limit| began.elapsed() >= limit);
                    if number >= options.count || late || enough.load(Ordering::Relaxed) {
                        return;
                    }
                    if tell.send(one(options, options.seed.wrapping_add(number))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(tell);
        for done in &told {
            if !heard(done) {
                enough.store(true, Ordering::Relaxed);
                return;
            }
        }
    });
}

fn one(options: &Options, seed: u64) -> Done {
    let before = cpu_time();
    let began = Instant::now();
    let outcome = run_part(options.baseline, seed, &options.part, options.detail);
    let cost = before.zip(cpu_time()).map_or_else(|| began.elapsed(), |(before, after)| after.saturating_sub(before));
    Done { outcome, cost }
}

/// The CPU time of this thread, where the kernel tells it.
fn cpu_time() -> Option<Duration> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(text.split(' ').next()?.parse().ok()?))
}
