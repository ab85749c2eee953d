//! When alerts fired: those that are over, and those that fire.
//!
//! Owns the alerts that fire; the others are in a journal in the folder of `[web] history`, which also has the
//! beginnings of those that fire. An alert that goes on after a restart keeps its number.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use weir_admin::{AlertKey, FiredAlert};

use crate::clock;
use crate::figures::seconds_of;
use crate::journal::{Journal, JournalBounds};
use crate::lock::lock;

const BOUNDS: JournalBounds = JournalBounds { records: 2_000, bytes: 2 << 20 };
const FILE: &str = "alerts.past";

/// An alert that fired, or fires.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PastAlert {
    /// The number of the alert, also after a restart: later ones have greater numbers.
    pub(crate) id: u64,
    /// The rule.
    pub rule: String,
    /// None for an alert about the process.
    pub pool: Option<String>,
    /// `critical` or `warning`.
    pub(crate) severity: String,
    /// What was wrong, in a sentence, as last seen.
    pub(crate) summary: String,
    /// The most affected clients at a moment.
    pub(crate) clients: u64,
    /// When the condition began, in seconds since 1970.
    pub since: f64,
    /// When the condition became an alert.
    pub fired: f64,
    /// When the condition was last seen; none while it fires, and where the process ended before it did.
    pub until: Option<f64>,
    /// Whether it fires.
    pub lasts: bool,
}

pub(super) struct AlertLog {
    /// Of the records of one number the last one counts.
    over: Journal<PastAlert>,
    /// Those that fire, with the moment at which they were last seen, in seconds since 1970.
    firing: Mutex<BTreeMap<AlertKey, (PastAlert, f64)>>,
    next: AtomicU64,
}

impl AlertLog {
    /// With those of earlier processes in a folder, if there is one.
    pub(super) fn open(folder: Option<&Path>) -> AlertLog {
        let next = AtomicU64::new(clock::now().as_micros() as u64);
        AlertLog { over: Journal::open(folder, FILE, BOUNDS), firing: Mutex::default(), next }
    }

    /// Takes in what fires at a moment; returns whether something is to be written out.
    pub(super) fn take(&self, fired: &[FiredAlert], now: f64) -> bool {
        let mut firing = lock(&self.firing);
        let mut ended = std::mem::take(&mut *firing);
        let mut to_write = false;
        for of in fired {
            let key = &of.condition.key;
            let known = ended.remove(key).filter(|(known, _)| known.fired == seconds_of(of.fired));
            let (mut alert, is_new) = match known {
                Some((alert, _)) => (alert, false),
                None => (self.begin(of), true),
            };
            alert.summary.clone_from(&of.condition.summary);
            alert.clients = alert.clients.max(of.condition.clients);
            to_write |= is_new && self.over.push(alert.clone());
            firing.insert(key.clone(), (alert, seconds_of(of.seen).min(now)));
        }
        for (mut alert, seen) in ended.into_values() {
            alert.until = Some(seen);
            to_write |= self.over.push(alert);
        }
        to_write
    }

    /// One that begins, or that an earlier process has seen begin.
    fn begin(&self, of: &FiredAlert) -> PastAlert {
        let (condition, fired) = (&of.condition, seconds_of(of.fired));
        let AlertKey { rule, pool } = &condition.key;
        let same = |alert: &&PastAlert| alert.fired == fired && alert.rule == *rule && alert.pool == *pool;
        let known = self.over.newest_first(|all| all.filter(same).map(|alert| alert.id).next());
        PastAlert {
            id: known.unwrap_or_else(|| self.next.fetch_add(1, Ordering::Relaxed)),
            rule: rule.clone(),
            pool: pool.clone(),
            severity: if condition.critical { "critical" } else { "warning" }.to_owned(),
            summary: String::new(),
            clients: 0,
            since: seconds_of(of.started),
            fired,
            until: None,
            lasts: false,
        }
    }

    /// The newest first, at most so many: of this pool, or of all.
    pub(super) fn newest(&self, pool: Option<&str>, most: usize) -> Vec<PastAlert> {
        let firing = lock(&self.firing);
        let mut found: Vec<_> = firing.values().map(|(alert, _)| PastAlert { lasts: true, ..alert.clone() }).collect();
        drop(firing);
        let lasting: Vec<u64> = found.iter().map(|alert| alert.id).collect();
        let mut recorded = self.over.newest_of_each(|alert| alert.id);
        recorded.retain(|alert| !lasting.contains(&alert.id));
        found.extend(recorded);
        found.retain(|alert| pool.is_none_or(|pool| alert.pool.as_deref() == Some(pool)));
        found.sort_by_key(|alert| std::cmp::Reverse(alert.id));
        found.truncate(most);
        found
    }

    /// Writes what is not on the disk yet. Blocks on the disk; its error is that of [`retry`](AlertLog::retry).
    pub(super) fn write_out(&self) {
        self.over.write_out();
    }

    /// The error of the disk, if the last alerts could not be written, after another try.
    pub(super) fn retry(&self) -> Option<String> {
        self.over.retry()
    }
}

#[cfg(test)]
mod tests {
    use weir_admin::Condition;

    use super::*;

    fn fires(pool: &str, fired: u64, seen: u64, clients: u64) -> FiredAlert {
        let key = AlertKey { rule: "stalled".to_owned(), pool: Some(pool.to_owned()) };
        let (summary, advice) = (format!("{clients} wait."), String::new());
        let condition = Condition { key, critical: true, summary, advice, clients, since: 0, server: None };
        let second = |at: u64| at * 1_000_000;
        FiredAlert { condition, started: second(fired - 30), fired: second(fired), sent: None, seen: second(seen) }
    }

    #[test]
    fn an_alert_has_its_start_its_end_and_its_peak_and_a_second_one_of_its_kind_is_another() {
        let log = AlertLog::open(None);
        log.take(&[fires("a", 100, 100, 3)], 100.0);
        log.take(&[fires("a", 100, 101, 9), fires("b", 101, 101, 1)], 101.0);
        log.take(&[fires("a", 100, 102, 2)], 117.0);
        assert_eq!(log.newest(None, 10).iter().filter(|alert| alert.lasts).count(), 1);
        log.take(&[], 118.0);
        let found = log.newest(Some("a"), 10);
        assert_eq!((found.len(), found[0].clients, found[0].since, found[0].fired), (1, 9, 70.0, 100.0));
        assert_eq!((found[0].until, found[0].lasts, found[0].summary.as_str()), (Some(102.0), false, "2 wait."));
        log.take(&[fires("a", 200, 200, 1)], 200.0);
        let found = log.newest(Some("a"), 10);
        assert!(found.len() == 2 && found[0].id > found[1].id && found[0].lasts, "{found:?}");
        assert_eq!(log.newest(None, 2).len(), 2);
    }

    #[test]
    fn alerts_survive_the_process_and_one_that_goes_on_is_the_same_one() {
        let folder = std::env::temp_dir().join(format!("weir-alerts-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let log = AlertLog::open(Some(&folder));
        assert!(log.take(&[fires("a", 100, 100, 3), fires("b", 100, 100, 3)], 100.0));
        assert!(!log.take(&[fires("a", 100, 101, 3), fires("b", 100, 101, 3)], 101.0), "nothing is new");
        assert!(log.take(&[fires("b", 100, 116, 3)], 116.0));
        log.write_out();
        let before = log.newest(None, 10);
        let log = AlertLog::open(Some(&folder));
        assert_eq!(log.newest(Some("b"), 10)[0].until, None, "its end was not seen");
        log.take(&[fires("b", 100, 200, 3)], 200.0);
        let after = log.newest(None, 10);
        assert_eq!(after, before, "with the same numbers");
        std::fs::remove_dir_all(&folder).expect("it is removed");
    }
}
