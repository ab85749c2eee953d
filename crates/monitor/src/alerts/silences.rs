//! Silences: for how long no messages are sent about a pool, a rule, or anything.
//!
//! Kept in the folder of `[web] history`, so that a restart does not wake anybody up; without one, in memory.

use std::path::Path;

use serde::{Deserialize, Serialize};
use weir_admin::AlertKey;

use crate::clock;
use crate::error::MonitorError;
use crate::journal::{Journal, JournalBounds};

const BOUNDS: JournalBounds = JournalBounds { records: 500, bytes: 256 << 10 };
/// The most silences that are in force.
const MOST: usize = 100;
const FILE: &str = "alerts.silences";

/// A silence.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Silence {
    pub(crate) id: u64,
    /// Only alerts about this pool.
    pub(crate) pool: Option<String>,
    /// Only alerts of this rule.
    pub(crate) rule: Option<String>,
    pub(crate) comment: String,
    pub(crate) by: Option<String>,
    /// Seconds since 1970.
    pub(crate) from: f64,
    pub(crate) until: f64,
}

/// A silence that is to be made.
pub struct NewSilence {
    /// The pool; `None` for all.
    pub pool: Option<String>,
    /// The rule; `None` for all.
    pub rule: Option<String>,
    /// The reason.
    pub comment: String,
    /// Who makes it; `None` where no login is needed.
    pub by: Option<String>,
    /// How long it lasts.
    pub seconds: f64,
}

/// All silences: of the records of one number the last one counts.
pub(super) struct Silences(Journal<Silence>);

impl Silence {
    pub(super) fn covers(&self, key: &AlertKey) -> bool {
        let of_pool = self.pool.is_none() || self.pool == key.pool;
        of_pool && self.rule.as_ref().is_none_or(|rule| *rule == key.rule)
    }
}

impl Silences {
    pub(super) fn open(folder: Option<&Path>) -> Silences {
        Silences(Journal::open(folder, FILE, BOUNDS))
    }

    /// The silences in force at this time, the newest first.
    pub(super) fn now(&self, now: f64) -> Vec<Silence> {
        let mut silences = self.0.newest_of_each(|silence| silence.id);
        silences.retain(|silence| silence.until > now);
        silences
    }

    /// Adds a silence. Blocks on the disk, like [`end`](Silences::end).
    pub(super) fn add(&self, new: NewSilence) -> Result<Silence, MonitorError> {
        let now = clock::now();
        if self.now(now.as_secs_f64()).len() >= MOST {
            return Err(MonitorError::TooManySilences(MOST));
        }
        let NewSilence { pool, rule, comment, by, seconds } = new;
        let newest = self.0.newest_first(|all| all.map(|silence| silence.id).max());
        let (from, id) = (now.as_secs_f64(), (now.as_millis() as u64).max(newest.map_or(0, |id| id + 1)));
        let silence = Silence { id, pool, rule, comment, by, from, until: from + seconds };
        self.put(silence.clone());
        Ok(silence)
    }

    /// Ends a silence; returns whether it was in force.
    pub(super) fn end(&self, id: u64) -> bool {
        let now = clock::now().as_secs_f64();
        let Some(silence) = self.now(now).into_iter().find(|silence| silence.id == id) else { return false };
        self.put(Silence { until: now, ..silence });
        true
    }

    fn put(&self, silence: Silence) {
        self.0.push(silence);
        // Where it can't be written, it is in force all the same.
        drop(self.0.write_out());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silence_covers_its_pool_and_its_rule_until_it_ends() {
        let silences = Silences::open(None);
        let new = |pool: Option<&str>, rule: Option<&str>| NewSilence {
            pool: pool.map(str::to_owned),
            rule: rule.map(str::to_owned),
            comment: String::new(),
            by: None,
            seconds: 60.0,
        };
        let key = AlertKey { rule: "stalled".to_owned(), pool: Some("app".to_owned()) };
        let covers = |pool, rule| silences.add(new(pool, rule)).is_ok_and(|silence| silence.covers(&key));
        assert!(covers(None, None) && covers(Some("app"), None) && covers(Some("app"), Some("stalled")));
        assert!(
            covers(None, Some("stalled")) && !covers(Some("shop"), None) && !covers(Some("app"), Some("saturated"))
        );
        let now = clock::now().as_secs_f64();
        let first = silences.now(now)[0].id;
        assert!(silences.end(first) && !silences.end(first));
        assert!(silences.now(now + 3600.0).is_empty());
    }
}
