//! How busy each worker is: the CPU time of its thread, from the kernel (proc(5), `/proc/pid/task/tid/schedstat`).
//!
//! This costs the workers nothing. Without such a file the figures are unknown.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The prefix of the name of a worker's thread; its number follows.
const NAME: &str = "weir-";

/// The CPU seconds of each worker's thread so far, by its number.
#[derive(Debug)]
pub(crate) struct Cpu(BTreeMap<u16, f64>);

impl Cpu {
    pub(crate) fn now() -> Cpu {
        let Ok(threads) = fs::read_dir("/proc/self/task") else { return Cpu(BTreeMap::new()) };
        Cpu(threads.flatten().filter_map(|thread| of(&thread.path())).collect())
    }

    /// By the worker's number.
    pub(crate) fn seconds(&self) -> impl Iterator<Item = (u16, f64)> {
        self.0.iter().map(|(worker, seconds)| (*worker, *seconds))
    }

    #[cfg(test)]
    pub(crate) fn of(seconds: impl Into<BTreeMap<u16, f64>>) -> Cpu {
        Cpu(seconds.into())
    }

    /// The share of these seconds in which each worker was busy, from 0 to 1.
    pub(crate) fn shares_since(&self, before: &Cpu, seconds: f64) -> BTreeMap<u16, f64> {
        let share = |(worker, now): (&u16, &f64)| {
            let ran = now - before.0.get(worker)?;
            Some((*worker, (ran / seconds).clamp(0.0, 1.0)))
        };
        self.0.iter().filter_map(share).collect()
    }
}

fn of(thread: &Path) -> Option<(u16, f64)> {
    let name = fs::read_to_string(thread.join("comm")).ok()?;
    let worker = name.trim_end().strip_prefix(NAME)?.parse().ok()?;
    let ran = fs::read_to_string(thread.join("schedstat")).ok()?;
    let nanoseconds: u64 = ran.split(' ').next()?.parse().ok()?;
    Some((worker, nanoseconds as f64 / 1e9))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn a_thread_named_like_a_worker_is_found_and_others_are_not() {
        if !Path::new("/proc/self/task").exists() {
            return;
        }
        let (end, ended) = mpsc::channel::<()>();
        let work = move || while ended.try_recv() == Err(mpsc::TryRecvError::Empty) {};
        let worker = thread::Builder::new().name("weir-977".into()).spawn(work).expect("a thread");
        let before = Cpu::now();
        let ran = |cpu: &Cpu| cpu.0.get(&977).copied();
        let later = loop {
            let now = Cpu::now();
            if ran(&now).is_some_and(|seconds| seconds > ran(&before).unwrap_or(0.0)) {
                break now;
            }
            thread::yield_now();
        };
        drop(end);
        worker.join().expect("it ends");
        assert!(later.0.keys().all(|worker| *worker == 977));
    }

    #[test]
    fn a_share_is_of_the_time_that_passed_and_new_threads_have_none_yet() {
        let (before, now) = (Cpu([(0, 1.0)].into()), Cpu([(0, 1.5), (1, 9.0)].into()));
        assert_eq!(now.shares_since(&before, 2.0), [(0, 0.25)].into());
    }
}
