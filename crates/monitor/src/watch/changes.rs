//! What changed before an incident, but for the configuration, which is in its history: Weir itself was started or
//! upgraded, an application or a new version of one came, the load rose.
//!
//! Owns which applications of which pools are known, and when Weir was started with which version: bounded lists, in
//! the folder of `[web] history` where there is one. Names come from the logins of clients, which the workers note; the
//! load from the figures that are stored.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};
use weir_admin::{PoolRecord, identifier, stem};

use super::changed::{Changed, Kind};
use super::deployments::{Came, deployments};
use super::history::History;
use super::known_names::KnownNames;
use super::ring::Scale;
use super::series::place;
use crate::clock;
use crate::journal::{Journal, JournalBounds};
use crate::lock::lock;

/// How long before an incident a change may be why, in seconds.
const BEFORE: f64 = 3600.0;
/// Without what an earlier process has known, applications are only learned for so long, in seconds.
const LEARNING: f64 = 60.0;
/// What is seen so soon after it, in seconds, was there before.
const SAME: f64 = 1.0;
/// The most changes of a kind that are named.
const NAMED: usize = 3;
/// What a worker has seen so long before the last look, in microseconds, was there at that look.
const SLACK: u64 = 5_000_000;
/// The load of these last minutes is compared with that of a day before.
const RECENT: u64 = 10;
const DAY: u64 = 24 * 60;
/// As many minutes have to be known of a pool, and it has to do as many transactions a second.
const KNOWN: usize = 30;
const LEAST: f32 = 5.0;
/// From this many times the usual on, the load is another one.
const TIMES: f32 = 2.0;
const BOUNDS: JournalBounds = JournalBounds { records: 5_000, bytes: 1 << 20 };
const FILE: &str = "changes";

/// What is remembered.
#[derive(Clone, Serialize, Deserialize)]
enum Record {
    /// Weir of this version was started.
    Start { at: f64, version: String },
    /// An application of a pool was first seen; none of a process that has just begun to learn them is new. `stem`: what
    /// its versions have in common.
    Application {
        at: f64,
        pool: String,
        name: String,
        is_new: bool,
        #[serde(default)]
        stem: String,
    },
}

/// Who shares the list: each program of each pool.
fn share(of: &Record) -> (&str, &str) {
    match of {
        Record::Start { .. } => ("", ""),
        Record::Application { pool, stem, .. } => (pool, stem),
    }
}

pub(super) struct Changes {
    journal: Journal<Record>,
    known: Mutex<Known>,
    /// Until when applications are only learned, in seconds since 1970.
    learning: f64,
}

struct Known {
    names: KnownNames,
    /// When this process began, and when it last looked: microseconds since 1970.
    began: u64,
    looked: u64,
}

impl Changes {
    /// With what earlier processes have seen in a folder, if there is one. Weir of this version starts now.
    pub(super) fn open(folder: Option<&Path>, version: &str) -> Changes {
        let journal: Journal<Record> = Journal::open_shared(folder, FILE, BOUNDS, share);
        let mut names = KnownNames::default();
        journal.newest_first(|all| {
            let mut seen: Vec<&Record> = all.collect();
            seen.reverse();
            for record in seen {
                if let Record::Application { pool, name, .. } = record {
                    names.add(pool, name);
                }
            }
        });
        let at = clock::now().as_secs_f64();
        let learning = if names.is_empty() { at + LEARNING } else { 0.0 };
        journal.push(Record::Start { at, version: version.to_owned() });
        let known = Known { names, began: (at * 1e6) as u64, looked: 0 };
        Changes { journal, known: Mutex::new(known), learning }
    }

    /// Takes in which applications clients have been; `now` in seconds since 1970.
    pub(super) fn observe(&self, pools: &[PoolRecord], now: f64) {
        let mut known = lock(&self.known);
        let at = (now * 1e6) as u64;
        let before = std::mem::replace(&mut known.looked, at).saturating_sub(SLACK);
        // What came with an earlier process is reported once, and a list that is full here has room for it no more.
        let is_begun = at.saturating_sub(known.began) > LEARNING as u64 * 1_000_000;
        for pool in pools {
            let is_due = |first: u64| if first == 0 { !is_begun } else { first >= before };
            for seen in pool.applications.list().iter().filter(|seen| is_due(seen.first)) {
                let (name, pool) = (seen.name.clone(), pool.database.clone());
                if known.names.of(&pool).contains(&name) {
                    continue;
                }
                let is_new = seen.first > 0 && now >= self.learning;
                let names = &mut known.names;
                let is_worth = if is_new { names.note_new(&pool, &name, now) } else { names.has_room(&pool) };
                known.names.add(&pool, &name);
                if is_worth {
                    let stem = stem(&name);
                    self.journal.push(Record::Application { at: now, pool, name, is_new, stem });
                }
            }
        }
    }

    /// Writes what is not on the disk yet. Blocks on the disk, whose error is one of the history's.
    pub(super) fn write_out(&self) {
        self.journal.write_out();
    }

    /// What changed of these pools, or of all if there are none, in the hour before a moment: upgrades, deployments, and
    /// load, at most [`NAMED`] of each.
    pub(super) fn before(&self, history: &History, pools: &[String], at: f64) -> Vec<Changed> {
        let mut found: Vec<Changed> = self.upgrades(at).into_iter().collect();
        found.extend(self.deployments(pools, at));
        let mut loads: Vec<(f32, Changed)> = pools.iter().filter_map(|pool| load(history, pool, at as u64)).collect();
        loads.sort_by(|a, b| b.0.total_cmp(&a.0));
        found.extend(loads.into_iter().map(|(_, change)| change).take(NAMED));
        found
    }

    /// The last start, and how many there were.
    fn upgrades(&self, until: f64) -> Option<Changed> {
        let starts: Vec<(f64, String)> = self.journal.newest_first(|all| {
            let start = |record: &Record| match record {
                Record::Start { at, version } => Some((*at, version.clone())),
                Record::Application { .. } => None,
            };
            all.filter_map(start).filter(|(at, _)| *at <= until + SAME).collect()
        });
        let (at, version) = starts.first().filter(|(at, _)| is_before(*at, until))?;
        let mut text = match starts.get(1) {
            Some((_, before)) if before != version => format!("Weir {version} was started; before, it was {before}"),
            Some(_) => format!("Weir {version} was restarted"),
            None => format!("Weir {version} was started"),
        };
        let count = starts.iter().filter(|(at, _)| is_before(*at, until)).count();
        if count > 2 {
            text += &format!(", after {} other starts in that hour", count - 1);
        }
        Some(Changed { kind: Kind::Upgrade, at: *at, text })
    }

    fn deployments(&self, pools: &[String], until: f64) -> Vec<Changed> {
        // What was recorded long before is not new, though it was forgotten meanwhile.
        let mut first: BTreeMap<(String, String), (f64, bool)> = BTreeMap::new();
        self.journal.newest_first(|all| {
            for record in all {
                if let Record::Application { at, pool, name, is_new, .. } = record
                    && (pools.is_empty() || pools.contains(pool))
                {
                    first.insert((pool.clone(), name.clone()), (*at, *is_new));
                }
            }
        });
        let came = first
            .into_iter()
            .filter(|(_, (at, _))| *at <= until + SAME)
            .map(|((pool, name), (at, is_new))| Came { pool, name, at, is_recent: is_new && is_before(at, until) });
        deployments(&came.collect::<Vec<_>>(), NAMED)
    }
}

/// What was started just now may have begun the incident that is seen at the same time.
fn is_before(at: f64, until: f64) -> bool {
    at >= until - BEFORE && at <= until + SAME
}

/// The pool's load before a moment, in times of the usual one, if that is twice as high: the busiest of the last
/// [`RECENT`] minutes compared with the median of the day before.
fn load(history: &History, pool: &str, at: u64) -> Option<(f32, Changed)> {
    let rate = place("transactions_per_second")?;
    let end = at - at % 60;
    let samples = history.get(pool, Scale::Minutes, end.checked_sub(DAY * 60)?, DAY).ok()??;
    let (before, last) = samples.split_at((DAY - RECENT) as usize);
    let known = |sample: &super::series::Sample| Some(sample[rate]).filter(|value| !value.is_nan());
    let mut usual: Vec<f32> = before.iter().filter_map(known).collect();
    // The minute that has not ended is known by its seconds.
    let seconds =
        history.get(pool, Scale::Seconds, end.saturating_sub(60), 60 + at % 60).ok().flatten().unwrap_or_default();
    let mean = |values: Vec<f32>| (values.len() >= 20).then(|| values.iter().sum::<f32>() / values.len() as f32);
    let present = mean(seconds.iter().filter_map(known).collect());
    let most = last.iter().filter_map(known).chain(present).fold(0.0, f32::max);
    if usual.len() < KNOWN {
        return None;
    }
    let middle = usual.len() / 2;
    let (_, usual, _) = usual.select_nth_unstable_by(middle, f32::total_cmp);
    let times = most / usual.max(0.1);
    let name = identifier(pool);
    let text = format!("{name} had {most:.0} transactions a second, {times:.1} times as many as usual ({usual:.0})");
    let change = Changed { kind: Kind::Load, at: at as f64, text };
    (most >= LEAST && times >= TIMES).then_some((times, change))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weir_base::PoolMode;

    use super::super::series::{PoolState, PoolStates, sample};
    use super::*;

    fn pool(name: &str, applications: &[(&str, u64)]) -> PoolRecord {
        let mut pool = PoolRecord::new(name, "u", PoolMode::Transaction);
        let seen = Arc::make_mut(&mut pool.applications);
        applications.iter().for_each(|(name, first)| seen.add(name, *first));
        pool
    }

    fn texts(changes: &Changes, pools: &[&str], at: f64) -> Vec<String> {
        let pools: Vec<String> = pools.iter().map(|name| (*name).to_owned()).collect();
        let found = changes.before(&History::new(None).expect("memory"), &pools, at);
        found.into_iter().map(|change| change.text).collect()
    }

    #[test]
    fn a_start_is_an_upgrade_where_the_version_is_another_and_is_named_for_an_hour() {
        let folder = std::env::temp_dir().join(format!("weir-changes-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let now = clock::now().as_secs_f64();
        for (version, expected) in [
            ("1.0", "was started"),
            ("1.0", "was restarted"),
            ("1.1", "was started; before, it was 1.0, after 2 other starts in that hour"),
        ] {
            let changes = Changes::open(Some(&folder), version);
            let found = texts(&changes, &["shop"], now + 10.0);
            assert_eq!(found[0], format!("Weir {version} {expected}"));
            assert!(texts(&changes, &["shop"], now + 3700.0).is_empty() && texts(&changes, &[], now - 60.0).is_empty());
            changes.write_out();
        }
        std::fs::remove_dir_all(&folder).expect("it is removed");
    }

    #[test]
    fn an_application_is_a_deployment_if_it_was_not_there_when_weir_began_to_learn() {
        let changes = Changes::open(None, "1.0");
        let now = clock::now().as_secs_f64();
        changes.observe(&[pool("shop", &[("web/1.3", 1), ("jobs", 1)]), pool("blog", &[("cms", 1)])], now);
        let later = now + 4000.0;
        let first = (later * 1e6) as u64;
        let seen = [("web/1.3", 1), ("jobs", 1), ("web/1.4", first), ("mail", first), ("moved", 0), ("forgotten", 1)];
        changes.observe(&[pool("shop", &seen), pool("blog", &[("cms", 1)])], later);
        let found = texts(&changes, &["shop"], later + 5.0);
        let version = "\"web/1.4\" came to shop, a version that was not seen before (\"web/1.3\" was)".to_owned();
        let other = "\"mail\" came to shop, an application that was not seen before".to_owned();
        assert!(found.len() == 2 && found.contains(&version) && found.contains(&other), "{found:?}");
        assert!(texts(&changes, &["blog"], later + 5.0).is_empty());
        assert_eq!(texts(&changes, &[], later + 5.0).len(), 2, "a fault is of no pool");
        assert!(texts(&changes, &["shop"], later + 3700.0).is_empty(), "that was long before");
    }

    #[test]
    fn names_that_change_all_the_time_are_none_and_are_bounded() {
        let changes = Changes::open(None, "1.0");
        let later = clock::now().as_secs_f64() + 4000.0;
        for round in 0..500 {
            let names: Vec<String> = (0..50).map(|n| format!("worker-{round}-{n}")).collect();
            let seen: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), (later * 1e6) as u64)).collect();
            changes.observe(&[pool("shop", &seen)], later);
        }
        assert!(texts(&changes, &["shop"], later + 5.0).is_empty());
        let records = || changes.journal.newest_first(|all| all.count());
        assert!(records() < 20, "{} records of names that say nothing", records());
        // Those of others are seen, and are named after a restart too.
        let at = later + 10.0;
        let first = (at * 1e6) as u64;
        changes.observe(&[pool("blog", &[("cms/2", first)]), pool("shop", &[("worker-7", first)])], at);
        assert_eq!(texts(&changes, &["blog"], at), ["\"cms/2\" came to blog, an application that was not seen before"]);
    }

    #[test]
    fn a_name_that_was_forgotten_and_comes_again_is_not_new() {
        let changes = Changes::open(None, "1.0");
        let later = clock::now().as_secs_f64() + 4000.0;
        let micros = |at: f64| (at * 1e6) as u64;
        changes.observe(&[pool("shop", &[("web/1.3", micros(later))])], later);
        let long = later + 9000.0;
        lock(&changes.known).names = KnownNames::default();
        changes.observe(&[pool("shop", &[("web/1.3", micros(long))])], long);
        assert!(texts(&changes, &["shop"], long + 1.0).is_empty());
    }

    #[test]
    fn a_load_that_is_twice_the_usual_one_is_a_change_and_comes_last() {
        const START: u64 = 1_700_000_040;
        let mut history = History::new(None).expect("memory");
        let begun = std::time::Instant::now();
        let mut state = PoolState::new();
        (state.record.cl_active, state.stats.xact_count) = (1, 0);
        let mut play = |seconds: std::ops::Range<u64>, rate: u64| {
            for second in seconds {
                let before = state.clone();
                state.stats.xact_count += rate;
                let of_pool = sample(Some((&before, 1.0)), &state);
                let states = PoolStates([("shop".to_owned(), state.clone())].into());
                let at = begun + std::time::Duration::from_secs(second);
                history.record(START + second, at, (&states, &states.sum()), &of_pool, |_| Some(&of_pool));
            }
        };
        play(0..45 * 60, 10);
        play(45 * 60..46 * 60, 15);
        play(46 * 60..47 * 60, 34);
        assert!(load(&history, "shop", START + 46 * 60).is_none(), "half as much again");
        let (times, change) = load(&history, "shop", START + 47 * 60).expect("it is high");
        let words = "shop had 34 transactions a second, 3.4 times as many as usual (10)";
        assert!(times > 3.0 && change.text == words, "{change:?}");
        assert!(load(&history, "shop", START + 20 * 60).is_none(), "too little is known before");
        assert!(load(&history, "blog", START + 47 * 60).is_none());
        let changes = Changes::open(None, "1.0");
        let at = (START + 47 * 60) as f64;
        let (pool, name, stem) = ("shop".into(), "new".into(), "new".into());
        changes.journal.push(Record::Application { at, pool, name, is_new: true, stem });
        changes.journal.push(Record::Start { at, version: "1.1".into() });
        let kinds: Vec<_> = changes.before(&history, &["shop".to_owned()], at).iter().map(|of| of.kind).collect();
        assert_eq!(kinds, [Kind::Upgrade, Kind::Deployment, Kind::Load]);
    }
}
