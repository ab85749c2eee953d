//! What a pooler uses: CPU time and memory of its process, with its threads and all its children.
//!
//! The time is counted in nanoseconds where the kernel does so; its ticks only tell the program's part from the
//! kernel's.

use weir_pglocal::proc::{self, Cpu, Snapshot};

/// A pooler's CPU time up to one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meter {
    seconds: f64,
    ticks: Cpu,
}

/// CPU time within a span, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Used {
    pub(crate) user: f64,
    pub(crate) system: f64,
}

impl Used {
    pub(crate) fn total(self) -> f64 {
        self.user + self.system
    }
}

impl Meter {
    /// Looks; `None` when the process is gone.
    pub(crate) fn of(pid: u32) -> Option<Meter> {
        let snapshot = Snapshot::now();
        let family = snapshot.family(pid);
        (!family.pids.is_empty()).then(|| Meter { seconds: family.seconds, ticks: snapshot.ticks(pid) })
    }

    /// What was used since an earlier look. Where no tick has passed, all of it counts as the program's.
    pub(crate) fn since(&self, earlier: &Meter) -> Used {
        let seconds = (self.seconds - earlier.seconds).max(0.0);
        let ticks = self.ticks.since(earlier.ticks);
        #[allow(clippy::cast_precision_loss)]
        let system = if ticks.total() == 0 { 0.0 } else { seconds * ticks.system as f64 / ticks.total() as f64 };
        Used { user: seconds - system, system }
    }
}

/// How many processes one is with its children; 0 when it is gone.
pub(crate) fn members(pid: u32) -> usize {
    Snapshot::now().family(pid).pids.len()
}

/// Memory in bytes: of one process what is resident, of a family the sum of their fair shares, which counts once what
/// they share. `None` when the process is gone or not ours to look into.
pub(crate) fn memory(pid: u32) -> Option<u64> {
    match Snapshot::now().family(pid).pids.as_slice() {
        [] => None,
        [one] => proc::rss(*one),
        several => several.iter().map(|pid| proc::pss(*pid)).sum(),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn nanoseconds_are_shared_out_by_ticks() {
        let before = Meter { seconds: 1.0, ticks: Cpu { user: 50, system: 50 } };
        let after = Meter { seconds: 1.8, ticks: Cpu { user: 70, system: 110 } };
        let used = after.since(&before);
        assert!((used.user - 0.2).abs() < 1e-9 && (used.system - 0.6).abs() < 1e-9, "{used:?}");
        let tiny = Meter { seconds: 1.004, ticks: before.ticks }.since(&before);
        assert!(tiny.system == 0.0 && (tiny.user - 0.004).abs() < 1e-9, "{tiny:?}");
    }

    #[test]
    fn what_a_child_used_is_its_parents_also_when_it_has_ended() {
        // The shell waits for a child that works, then sleeps.
        let work = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("sh -c '{work}'; echo; sleep 60")]).stdout(std::process::Stdio::piped());
        let mut child = shell.spawn().unwrap();
        let mut byte = [0];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut byte).unwrap();
        let used = Meter::of(child.id()).unwrap();
        assert!(used.seconds > 0.0 && memory(child.id()).is_none_or(|bytes| bytes > 10_000), "{used:?}");
        assert!(used.ticks.total() > 0, "the worker's ticks went to its parent: {used:?}");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(Meter::of(u32::MAX).is_none() && memory(u32::MAX).is_none());
    }
}
