//! What the kernel's process table says: CPU time, memory, descriptors, and how much the rest of the machine was busy.
//!
//! Source: proc(5), `/proc/PID/stat`, `/proc/PID/status`, `/proc/stat`. Linux only, as the benchmarks and the lab are.

use std::collections::HashMap;
use std::fs;

/// Clock ticks a second in `/proc`: USER_HZ, which is 100 on every architecture that we run on.
pub const TICKS_PER_SECOND: f64 = 100.0;

/// CPU time in clock ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    /// In the program itself.
    pub user: u64,
    /// In the kernel, for the program.
    pub system: u64,
}

impl Cpu {
    /// Both together.
    pub fn total(self) -> u64 {
        self.user + self.system
    }

    /// The sum of two.
    fn plus(self, other: Cpu) -> Cpu {
        Cpu { user: self.user + other.user, system: self.system + other.system }
    }

    /// What was used since an earlier look.
    pub fn since(self, earlier: Cpu) -> Cpu {
        Cpu { user: self.user.saturating_sub(earlier.user), system: self.system.saturating_sub(earlier.system) }
    }
}

/// One line of the process table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    parent: u32,
    own: Cpu,
    /// Of children that ended and were waited for.
    reaped: Cpu,
}

/// CPU time of a process, all its threads (those that ended too); `None` when it is gone.
pub fn cpu(pid: u32) -> Option<Cpu> {
    entry(pid).map(|entry| entry.own)
}

/// CPU time in clock ticks of a process and all that descends from it, the dead included; `None` when it is gone.
///
/// Where a program forks a child a connection, as PostgreSQL and Pgpool-II do, this is what the program costs.
pub fn family(pid: u32) -> Option<u64> {
    let table = table();
    table.contains_key(&pid).then(|| family_time(&table, pid))
}

/// Resident memory in bytes; `None` when the process is gone.
pub fn rss(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// A process's fair share of memory in bytes: what it has for itself, its part of what it shares, and its page tables.
///
/// The sum over a family counts shared memory once. Reading it walks the page tables: some milliseconds for a process
/// with a large shared buffer. `None` when the process is gone, not ours to look into, or the kernel older than 4.14.
pub fn pss(pid: u32) -> Option<u64> {
    let field = |file: &str, name: &str| -> Option<u64> {
        let text = fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
    };
    Some(field("smaps_rollup", "Pss:")? + field("status", "VmPTE:")?)
}

/// The name of a process's program, at most 15 characters of it; `None` when the process is gone.
pub fn name(pid: u32) -> Option<String> {
    Some(fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim_end().to_owned())
}

/// How many descriptors a process has open; `None` when it is gone or not ours to look into.
pub fn descriptors(pid: u32) -> Option<usize> {
    Some(fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count())
}

/// The machine's busy time and our own share of it, at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    busy: u64,
    stolen: u64,
    all: u64,
    ours: u64,
}

impl Machine {
    /// Looks. Ours is this process with all that descends from it: PostgreSQL, poolers and pgbench are its children.
    pub fn now() -> Option<Machine> {
        let (busy, stolen, all) = machine(&fs::read_to_string("/proc/stat").ok()?)?;
        Some(Machine { busy, stolen, all, ours: family_time(&table(), std::process::id()) })
    }

    /// The share of the machine's time since `earlier` that other programs and the host took.
    pub fn foreign_since(&self, earlier: &Machine) -> f64 {
        let all = self.all.saturating_sub(earlier.all);
        let busy = self.busy.saturating_sub(earlier.busy) + self.stolen.saturating_sub(earlier.stolen);
        let foreign = busy.saturating_sub(self.ours.saturating_sub(earlier.ours));
        #[allow(clippy::cast_precision_loss)]
        if all == 0 { 0.0 } else { foreign as f64 / all as f64 }
    }
}

/// All processes at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot(HashMap<u32, Entry>);

/// A process with all that descend from it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Family {
    /// The family's living members.
    pub pids: Vec<u32>,
    /// CPU time of all its members in seconds, those that ended included. The living are counted in nanoseconds where
    /// the kernel does so: in ticks, a hundred processes that used 9 ms each would have used nothing.
    pub seconds: f64,
}

impl Snapshot {
    /// Looks.
    pub fn now() -> Snapshot {
        Snapshot(table())
    }

    /// The family of `root`; empty when it is gone.
    pub fn family(&self, root: u32) -> Family {
        let pids: Vec<u32> = self.0.keys().copied().filter(|pid| descends(&self.0, *pid, root)).collect();
        let seconds = pids.iter().filter_map(|pid| Some(seconds(*pid, self.0.get(pid)?))).sum();
        Family { pids, seconds }
    }

    /// CPU time of the family of `root` in ticks, which tell the program's time from the kernel's.
    pub fn ticks(&self, root: u32) -> Cpu {
        let members = self.0.iter().filter(|(pid, _)| descends(&self.0, **pid, root));
        members.flat_map(|(_, entry)| [entry.own, entry.reaped]).fold(Cpu::default(), Cpu::plus)
    }

    /// The children of `parent`.
    pub fn children(&self, parent: u32) -> Vec<u32> {
        self.0.iter().filter(|(_, entry)| entry.parent == parent).map(|(pid, _)| *pid).collect()
    }
}

/// CPU time of a process and of its children that ended. A thread that ended is missing from the nanoseconds, but not
/// from the ticks.
#[allow(clippy::cast_precision_loss)]
fn seconds(pid: u32, entry: &Entry) -> f64 {
    let ticks = |cpu: Cpu| cpu.total() as f64 / TICKS_PER_SECOND;
    let exact = nanoseconds(pid).map_or(0.0, |ns| ns as f64 / 1e9);
    exact.max(ticks(entry.own)) + ticks(entry.reaped)
}

/// Time on a processor of all threads: the first field of `/proc/PID/task/TID/schedstat`; `None` where there is none.
fn nanoseconds(pid: u32) -> Option<u64> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let times = threads.flatten().filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    times.reduce(|a, b| a + b)
}

fn entry(pid: u32) -> Option<Entry> {
    parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn table() -> HashMap<u32, Entry> {
    let Ok(folder) = fs::read_dir("/proc") else { return HashMap::new() };
    let pids = folder.flatten().filter_map(|item| item.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| Some((pid, entry(pid)?))).collect()
}

/// Time of a process and all that descend from it. One that ends passes its time to its parent, so the sum only grows.
fn family_time(table: &HashMap<u32, Entry>, root: u32) -> u64 {
    let members = table.iter().filter(|(pid, _)| descends(table, **pid, root));
    members.map(|(_, entry)| entry.own.total() + entry.reaped.total()).sum()
}

/// Whether `pid` is `root` or descends from it.
fn descends(table: &HashMap<u32, Entry>, pid: u32, root: u32) -> bool {
    let mut at = pid;
    // No process is deeper than the table is long.
    (0..table.len()).any(|_| {
        let found = at == root;
        at = table.get(&at).map_or(0, |entry| entry.parent);
        found
    })
}

/// Reads `/proc/PID/stat`. The second field, a name in brackets, may hold spaces and brackets itself.
fn parse(text: &str) -> Option<Entry> {
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let parent = fields.nth(1)?.parse().ok()?;
    let mut times = fields.skip(9).map_while(|field| field.parse::<i64>().ok()).map(i64::unsigned_abs);
    let own = Cpu { user: times.next()?, system: times.next()? };
    let reaped = Cpu { user: times.next()?, system: times.next()? };
    Some(Entry { parent, own, reaped })
}

/// Reads the first line of `/proc/stat`: busy, stolen and all ticks of all processors.
fn machine(text: &str) -> Option<(u64, u64, u64)> {
    let fields = text.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = fields.split_whitespace().map_while(|field| field.parse().ok()).collect();
    let &[user, nice, system, idle, waiting, hard, soft, stolen, ..] = ticks.as_slice() else { return None };
    let busy = user + nice + system + hard + soft;
    Some((busy, stolen, busy + idle + waiting + stolen))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "4711 (a (b) c) S 77 4711 4711 0 -1 4194560 9 8 0 0 120 30 7 3 20 0 4 0 100 1 2";

    #[test]
    fn times_are_read_behind_a_name_with_brackets() {
        let entry = parse(LINE).unwrap();
        assert_eq!(entry.parent, 77);
        assert_eq!(entry.own, Cpu { user: 120, system: 30 });
        assert_eq!(entry.reaped, Cpu { user: 7, system: 3 });
        assert_eq!(parse("4711 (x) S"), None);
    }

    #[test]
    fn the_time_of_a_family_includes_its_dead_and_no_stranger() {
        let one = |parent, user, reaped| Entry {
            parent,
            own: Cpu { user, system: 0 },
            reaped: Cpu { user: reaped, system: 0 },
        };
        let table = HashMap::from([(1, one(0, 1000, 0)), (10, one(1, 5, 2)), (11, one(10, 3, 0)), (20, one(1, 50, 0))]);
        assert_eq!(family_time(&table, 10), 10);
        assert_eq!(family_time(&table, 20), 50);
        assert_eq!(family_time(&table, 99), 0);
    }

    #[test]
    fn the_ticks_of_a_family_tell_the_program_from_the_kernel() {
        let one = |parent, user, system, reaped| Entry {
            parent,
            own: Cpu { user, system },
            reaped: Cpu { user: 0, system: reaped },
        };
        // No process has such a number, so the kernel has no nanoseconds to add.
        let (root, child) = (u32::MAX - 1, u32::MAX - 2);
        let snapshot = Snapshot(HashMap::from([(root, one(1, 100, 30, 5)), (child, one(root, 7, 40, 0))]));
        assert_eq!(snapshot.ticks(root), Cpu { user: 107, system: 75 });
        assert!((snapshot.family(root).seconds - 1.82).abs() < 1e-9);
    }

    #[test]
    fn foreign_time_is_what_was_busy_and_not_ours() {
        let before = Machine { busy: 100, stolen: 0, all: 1000, ours: 50 };
        let after = Machine { busy: 250, stolen: 10, all: 1200, ours: 150 };
        assert!((after.foreign_since(&before) - 60.0 / 200.0).abs() < 1e-9);
    }

    #[test]
    fn the_first_line_counts_all_processors() {
        let text = "cpu  10 1 5 80 4 0 0 2 0 0\ncpu0 10 1 5 80 4 0 0 2 0 0\n";
        assert_eq!(machine(text), Some((16, 2, 102)));
    }

    #[test]
    fn our_own_process_has_memory_descriptors_and_time() {
        let pid = std::process::id();
        assert!(rss(pid).unwrap() > 100_000);
        assert!(descriptors(pid).unwrap() >= 3);
        assert!(cpu(pid).is_some() && Machine::now().is_some());
        assert_eq!((cpu(u32::MAX), family(u32::MAX)), (None, None));
        // Read first: the process runs on meanwhile.
        let own = cpu(pid).unwrap().total();
        assert!(family(pid).unwrap() >= own);
    }

    #[test]
    fn a_family_is_found_with_its_memory_and_names() {
        let us = std::process::id();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let snapshot = Snapshot::now();
        let family = snapshot.family(us);
        assert!(family.pids.contains(&child.id()) && family.pids.contains(&us));
        assert!(snapshot.children(us).contains(&child.id()));
        assert!(pss(us).is_none_or(|bytes| bytes > 100_000));
        // Between fork and exec it bears our name.
        assert!(name(child.id()).is_some_and(|name| !name.is_empty()));
        assert!(family.seconds > 0.0, "{family:?}");
        assert_eq!(snapshot.family(u32::MAX), Family::default());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
