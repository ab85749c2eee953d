//! The history of the busiest pools: which pools these are, and where their figures are stored.
//!
//! Owns the bound: [`MOST_POOLS`] pools, and all pools as one, each in a `ring` of fixed size. Without a folder the
//! rings are in memory, and end with the process. In a folder they are one file, open from the start and locked by one
//! process at a time; a process that finds it locked, as in a restart that overlaps, keeps its figures in memory until
//! the folder is free. Every function may block on a disk: callers use a thread for blocking work.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use rustix::fs::{FlockOperation, flock};

use super::ring::{IN_FILE, Ring, Scale};
use super::series::{Merged, PoolState, PoolStates, SERIES, Sample, sample};

/// Pools whose figures are stored.
const MOST_POOLS: usize = 50;
/// Names of pools with a problem that are stored for a minute, and the minutes.
const MOST_PROBLEMS: usize = 50;
const MINUTES_OF_PROBLEMS: usize = 61;
/// The factor of a pool's measured traffic for each minute: traffic of an hour ago counts for a third.
const FADES: f64 = 0.98;
/// The file in the folder.
const FILE: &str = "pools.history";

/// The figures of the busiest pools.
pub(crate) struct History {
    kept: BTreeMap<String, PoolHistory>,
    /// All pools as one.
    all: PoolHistory,
    /// The pools that had a problem, for each minute of the last hour; in memory only.
    problems: VecDeque<Problems>,
    /// How busy each pool is, stored or not.
    busy: HashMap<String, Busy>,
    /// The current minute.
    minute: u64,
    folder: Option<Folder>,
}

struct PoolHistory {
    ring: Ring,
    /// The pool's index in the file; none if the ring is in memory.
    place: Option<usize>,
    /// The pool's state at the start of the current minute.
    start: Option<(Instant, PoolState)>,
    merged: Merged,
}

/// The pools that had a problem in a minute.
struct Problems {
    minute: u64,
    /// At most [`MOST_PROBLEMS`] names.
    pools: BTreeSet<String>,
    /// The most at once.
    most: usize,
}

#[derive(Default)]
struct Busy {
    transactions: u64,
    a_minute: f64,
}

/// A disk with less free space, in bytes, is full.
const ROOM: u64 = 16 << 10;

struct Folder {
    path: PathBuf,
    /// The file in the folder, locked while it is ours.
    file: Option<Arc<File>>,
    /// The last error.
    last_error: Option<String>,
}

impl History {
    /// With the figures of an earlier process in the folder.
    ///
    /// # Errors
    /// The folder is not available. That another process has locked it is not an error.
    pub(crate) fn new(folder: Option<&Path>) -> io::Result<History> {
        let folder = folder.map(|path| Folder { path: path.to_owned(), file: None, last_error: None });
        let mut history = History {
            kept: BTreeMap::new(),
            all: PoolHistory::new(Ring::in_memory(), None),
            problems: VecDeque::new(),
            busy: HashMap::new(),
            minute: 0,
            folder,
        };
        if let Some(folder) = &history.folder {
            fs::create_dir_all(&folder.path)?;
            folder.open()?;
        }
        history.take_folder();
        Ok(history)
    }

    /// Why figures will not survive a restart; none if they will.
    pub(crate) fn why_not_persisted(&self) -> Option<String> {
        match &self.folder {
            None => Some("there is no [web] history; the minutes of a day are kept in memory".to_owned()),
            Some(folder) if folder.last_error.is_some() => folder.last_error.clone(),
            Some(folder) if folder.file.is_none() => {
                Some(format!("another process keeps its history in {}", folder.path.display()))
            }
            Some(_) => None,
        }
    }

    /// Why the disk refuses figures, or is about to: the last error, or that it is full. Blocks on the disk.
    pub(crate) fn write_error(&self) -> Option<String> {
        let folder = self.folder.as_ref()?;
        let full = || folder.is_full().then(|| format!("{}: no space is left", folder.path.display()));
        folder.last_error.clone().or_else(full)
    }

    /// Stores the figures of this second since 1970: the states and their sum, and the samples made of them.
    pub(super) fn record<'a>(
        &mut self,
        second: u64,
        at: Instant,
        (states, sum): (&PoolStates, &PoolState),
        all: &Sample,
        sample_of: impl Fn(&str) -> Option<&'a Sample>,
    ) {
        if second / 60 != self.minute {
            self.end_minute(at, states, sum);
            self.minute = second / 60;
        }
        self.fill(states);
        self.note_problems(states);
        let mut failed = self.all.put(second, at, sum, all).err();
        for (name, kept) in &mut self.kept {
            let (Some(sample), Some(state)) = (sample_of(name), states.0.get(name)) else { continue };
            failed = kept.put(second, at, state, sample).err().or(failed);
        }
        self.set_error(failed);
    }

    /// A pool's figures at each moment of a range; none if the pool is not stored.
    pub(crate) fn get(&self, name: &str, scale: Scale, from: u64, moments: u64) -> io::Result<Option<Vec<Sample>>> {
        self.kept.get(name).map(|kept| kept.ring.get(scale, from, moments)).transpose()
    }

    /// The figures of all pools as one at each moment of a range.
    pub(crate) fn all(&self, scale: Scale, from: u64, moments: u64) -> io::Result<Vec<Sample>> {
        self.all.ring.get(scale, from, moments)
    }

    /// The most pools that had a problem at once in the minute of this second; with a name, whether that pool had one.
    /// None if this process did not watch that minute.
    pub(crate) fn problems(&self, second: u64, pool: Option<&str>) -> Option<usize> {
        let problems = self.problems.iter().find(|problems| problems.minute == second / 60)?;
        Some(pool.map_or(problems.most, |pool| usize::from(problems.pools.contains(pool))))
    }

    /// The stored pools.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.kept.keys().map(String::as_str)
    }

    /// Ends the current minute: merges its figures into one, and chooses anew which pools are stored.
    fn end_minute(&mut self, at: Instant, states: &PoolStates, sum: &PoolState) {
        let mut failed = self.all.end_minute(self.minute, at, Some(sum)).err();
        for (name, kept) in &mut self.kept {
            failed = kept.end_minute(self.minute, at, states.0.get(name)).err().or(failed);
        }
        self.set_error(failed);
        self.take_folder();
        self.weigh(states);
        self.replace();
    }

    fn note_problems(&mut self, states: &PoolStates) {
        if self.problems.back().is_none_or(|last| last.minute != self.minute) {
            self.problems.push_back(Problems { minute: self.minute, pools: BTreeSet::new(), most: 0 });
            if self.problems.len() > MINUTES_OF_PROBLEMS {
                self.problems.pop_front();
            }
        }
        let Some(now) = self.problems.back_mut() else { return };
        let broken = states.0.iter().filter(|(_, state)| state.record.health.is_problem());
        let mut count = 0;
        for (name, _) in broken {
            count += 1;
            if now.pools.len() < MOST_PROBLEMS && !now.pools.contains(name) {
                now.pools.insert(name.clone());
            }
        }
        now.most = now.most.max(count);
    }

    fn weigh(&mut self, states: &PoolStates) {
        self.busy.retain(|name, _| states.0.contains_key(name));
        for (name, state) in &states.0 {
            let transactions = state.stats.xact_count;
            let Some(busy) = self.busy.get_mut(name) else {
                self.busy.insert(name.clone(), Busy { transactions, a_minute: 0.0 });
                continue;
            };
            let done = transactions.saturating_sub(busy.transactions) as f64;
            busy.a_minute = busy.a_minute * FADES + done * (1.0 - FADES);
            busy.transactions = transactions;
        }
    }

    fn busy(&self, name: &str) -> f64 {
        self.busy.get(name).map_or(0.0, |busy| busy.a_minute)
    }

    /// As long as there is room, every used pool is stored.
    fn fill(&mut self, states: &PoolStates) {
        for (name, state) in &states.0 {
            if self.kept.len() >= MOST_POOLS {
                return;
            }
            let used = state.record.clients() + state.record.servers() > 0;
            if used && !self.kept.contains_key(name) {
                self.keep(name.clone());
            }
        }
    }

    /// A pool that is not stored replaces one that is less than half as busy.
    fn replace(&mut self) {
        let by_load = |a: &&str, b: &&str| self.busy(a).total_cmp(&self.busy(b));
        let outside = self.busy.keys().map(String::as_str).filter(|name| !self.kept.contains_key(*name));
        let (Some(new), Some(old)) = (outside.max_by(by_load), self.names().min_by(by_load)) else { return };
        if self.kept.len() < MOST_POOLS || self.busy(new) <= 2.0 * self.busy(old) {
            return;
        }
        let (new, old) = (new.to_owned(), old.to_owned());
        self.kept.remove(&old);
        self.keep(new);
    }

    fn keep(&mut self, name: String) {
        let free = (0..MOST_POOLS).find(|place| self.kept.values().all(|kept| kept.place != Some(*place)));
        let file = self.folder.as_ref().and_then(|folder| folder.file.as_ref());
        let made = file.zip(free).map(|(file, place)| Ring::create(file, place, &name));
        let (ring, place, failed) = match made {
            Some(Ok(ring)) => (ring, free, None),
            Some(Err(error)) => (Ring::in_memory(), None, Some(error)),
            None => (Ring::in_memory(), None, None),
        };
        self.set_error(failed);
        self.kept.insert(name, PoolHistory::new(ring, place));
    }

    /// Locks the folder, if it is free and not ours yet, and reads it.
    fn take_folder(&mut self) {
        let Some(folder) = self.folder.as_mut().filter(|folder| folder.file.is_none()) else { return };
        match folder.take() {
            Ok(Some((found, all))) => {
                self.kept = found;
                self.all = all;
            }
            Ok(None) => {}
            Err(error) => self.set_error(Some(error)),
        }
    }

    fn set_error(&mut self, failed: Option<io::Error>) {
        if let Some(folder) = &mut self.folder {
            folder.last_error = failed.map(|error| format!("{}: {error}", folder.path.display()));
        }
    }
}

impl PoolHistory {
    fn new(ring: Ring, place: Option<usize>) -> PoolHistory {
        PoolHistory { ring, place, start: None, merged: Merged::default() }
    }

    fn put(&mut self, second: u64, at: Instant, state: &PoolState, sample: &Sample) -> io::Result<()> {
        self.merged.add(sample);
        self.start.get_or_insert_with(|| (at, state.clone()));
        self.ring.put(Scale::Seconds, second, sample)
    }

    /// Stores the minute that ends in this state, and begins the next one; none if the pool is gone.
    fn end_minute(&mut self, minute: u64, at: Instant, state: Option<&PoolState>) -> io::Result<()> {
        let merged = std::mem::take(&mut self.merged).sample();
        let start = std::mem::replace(&mut self.start, state.map(|state| (at, state.clone())));
        let (Some((start, before)), Some(now)) = (start, state) else { return Ok(()) };
        let flows = sample(Some((&before, (at - start).as_secs_f64())), now);
        let of_minute = std::array::from_fn(|i| if SERIES[i].flows { flows[i] } else { merged[i] });
        self.ring.put(Scale::Minutes, minute * 60, &of_minute)
    }
}

impl Folder {
    /// Whether less than [`ROOM`] is free. Figures are written once a minute, which is late to learn of it.
    fn is_full(&self) -> bool {
        rustix::fs::statvfs(&self.path).is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) < ROOM)
    }

    fn open(&self) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(self.path.join(FILE))
    }

    /// The rings in the file, and that of all pools as one, if no other process has locked it.
    fn take(&mut self) -> io::Result<Option<(BTreeMap<String, PoolHistory>, PoolHistory)>> {
        let file = self.open()?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Ok(None);
        }
        // Parts that are never written take no room on the disk.
        file.set_len((MOST_POOLS as u64 + 1) * IN_FILE)?;
        let file = self.file.insert(Arc::new(file));
        let mut found = BTreeMap::new();
        for place in 0..MOST_POOLS {
            if let Some((name, ring)) = Ring::open(file, place)? {
                found.insert(name, PoolHistory::new(ring, Some(place)));
            }
        }
        // Behind the pools, so that its name is no pool's.
        let all = match Ring::open(file, MOST_POOLS)? {
            Some((_, ring)) => ring,
            None => Ring::create(file, MOST_POOLS, "")?,
        };
        Ok(Some((found, PoolHistory::new(all, Some(MOST_POOLS)))))
    }
}

/// Merges each `at_a_time` neighbours into one.
pub fn merged(samples: &[Sample], at_a_time: usize) -> Vec<Sample> {
    let merge = |some: &[Sample]| {
        let mut merged = Merged::default();
        some.iter().for_each(|sample| merged.add(sample));
        merged.sample()
    };
    samples.chunks(at_a_time).map(merge).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const START: u64 = 1_700_000_040;

    /// This many pools: the first has done nothing, the next one transaction a second, and so on.
    fn states(pools: usize, second: u64) -> PoolStates {
        let state = |n: usize| {
            let mut state = PoolState::new();
            state.record.cl_active = 1;
            state.stats.xact_count = n as u64 * second;
            (format!("app{n:02}"), state)
        };
        PoolStates((0..pools).map(state).collect())
    }

    fn play(history: &mut History, pools: usize, seconds: std::ops::Range<u64>) {
        let start = Instant::now();
        for second in seconds {
            let (now, before) = (states(pools, second), states(pools, second.saturating_sub(1)));
            let of = |(name, now): (&String, &PoolState)| (name.clone(), sample(Some((&before.0[name], 1.0)), now));
            let samples: BTreeMap<String, Sample> = now.0.iter().map(of).collect();
            let (sum, earlier) = (now.sum(), before.sum());
            let all = sample(Some((&earlier, 1.0)), &sum);
            let at = start + Duration::from_secs(second);
            history.record(START + second, at, (&now, &sum), &all, |name| samples.get(name));
        }
    }

    fn rates(history: &History, name: &str, scale: Scale, moments: u64) -> Vec<f32> {
        let samples = history.get(name, scale, START, moments).expect("it is read").expect("it is kept");
        let rate = crate::watch::series::place("transactions_per_second").expect("a figure");
        samples.iter().map(|sample| sample[rate]).collect()
    }

    #[test]
    fn seconds_and_minutes_are_kept_and_outlast_the_process_that_has_a_folder() {
        let folder = std::env::temp_dir().join(format!("weir-history-{}", std::process::id()));
        let mut history = History::new(Some(&folder)).expect("a folder");
        assert_eq!(history.why_not_persisted(), None);
        play(&mut history, 3, 1..130);
        let second = History::new(Some(&folder)).expect("it waits");
        assert!(second.why_not_persisted().expect("it is taken").contains("another process"));
        drop(history);
        let history = History::new(Some(&folder)).expect("it is free");
        assert_eq!(rates(&history, "app02", Scale::Seconds, 4)[1..], [2.0, 2.0, 2.0]);
        let all = history.all(Scale::Minutes, START, 1).expect("it is read");
        assert_eq!(all[0][crate::watch::series::place("transactions_per_second").expect("a figure")], 3.0, "0 + 1 + 2");
        let minutes = rates(&history, "app02", Scale::Minutes, 3);
        assert_eq!((minutes[0], minutes[1], minutes[2].is_nan()), (2.0, 2.0, true), "the third continues");
        fs::remove_dir_all(&folder).expect("it goes");
    }

    #[test]
    fn the_minutes_of_the_last_hour_have_the_pools_with_a_problem() {
        let mut history = History::new(None).expect("memory");
        let mut now = states(3, 1);
        let (unknown, sum, start) = (crate::watch::series::UNKNOWN, now.sum(), Instant::now());
        let record = |history: &mut History, second: u64, now: &PoolStates| {
            history.record(START + second, start + Duration::from_secs(second), (now, &sum), &unknown, |_| None);
        };
        record(&mut history, 0, &now);
        now.0.get_mut("app01").expect("a pool").record.health.state = weir_admin::Health::CannotConnect;
        record(&mut history, 61, &now);
        assert_eq!((history.problems(START, None), history.problems(START + 70, None)), (Some(0), Some(1)));
        assert_eq!(history.problems(START + 60, Some("app01")), Some(1));
        assert_eq!(history.problems(START + 60, Some("app02")), Some(0));
        assert_eq!(history.problems(START + 120, None), None, "that minute has not come");
        (2..200).for_each(|minute| record(&mut history, 60 * minute, &now));
        assert_eq!((history.problems(START, None), history.problems.len()), (None, MINUTES_OF_PROBLEMS));
    }

    #[test]
    fn the_busiest_are_kept_and_their_number_is_bounded() {
        let mut history = History::new(None).expect("memory");
        assert!(history.why_not_persisted().is_some());
        play(&mut history, MOST_POOLS, 1..130);
        assert!(history.kept.contains_key("app00"));
        play(&mut history, MOST_POOLS + 5, 130..900);
        assert_eq!(history.kept.len(), MOST_POOLS);
        assert!(!history.kept.contains_key("app00") && history.kept.contains_key("app54"), "{:?}", history.kept.keys());
    }
}
