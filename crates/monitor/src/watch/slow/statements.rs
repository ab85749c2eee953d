//! Statements that take far longer than before, where statements are counted.
//!
//! Owns what is remembered of each. A statement speaks for its pool if it takes a good part of the pool's calls or of its
//! time.

use std::collections::{BTreeMap, HashMap};

use weir_admin::{ApplicationUse, Histogram, StatementRecord, quoted};
use weir_base::prefix;

use super::past::{Past, Slower, Window};

/// The most statements that are remembered: those with the most time are first in a report.
const STATEMENTS: usize = 1_000;
/// A statement with so much of its pool's calls, or of its time, speaks for it.
const OF_CALLS: f64 = 0.1;
const OF_TIME: f64 = 0.25;
/// The most bytes of a statement that are shown.
const SHOWN: usize = 120;
/// A statement without a call for so long is forgotten, in seconds.
const FORGOTTEN: f64 = 3600.0;

type Key = (String, String, u64);

#[derive(Default)]
pub(super) struct Statements(HashMap<Key, Known>);

struct Known {
    past: Past,
    times: Histogram,
    text: String,
    applications: Vec<ApplicationUse>,
    run: u64,
    /// Its time in the last window, in microseconds.
    lately: u64,
    /// When it was last called, in seconds since 1970.
    called: f64,
    slow: Option<SlowStatement>,
}

/// A statement that takes longer.
#[derive(Clone)]
pub(super) struct SlowStatement {
    pub(super) slower: Slower,
    pub(super) text: String,
    /// The application with most of its calls, quoted.
    pub(super) application: Option<String>,
    /// What it takes more than usual, in microseconds.
    more: f64,
}

/// What the statements of a pool did in a window.
#[derive(Default)]
struct Sum {
    calls: u64,
    run: u64,
}

impl Statements {
    /// Takes in what was counted until now, the window's end.
    pub(super) fn take(&mut self, counted: &[StatementRecord], (from, to): (f64, f64)) {
        self.0.retain(|_, known| to - known.called < FORGOTTEN);
        let mut sums: BTreeMap<&str, Sum> = BTreeMap::new();
        self.0.values_mut().for_each(|known| known.lately = 0);
        let (mut passed, mut new) = (Vec::new(), Vec::new());
        for record in counted {
            let key = (record.database.clone(), record.user.clone(), record.id);
            match self.0.get_mut(&key) {
                Some(known) => {
                    let window = known.window(record, (from, to));
                    let sum = sums.entry(&record.database).or_default();
                    sum.calls += window.1;
                    sum.run += window.2;
                    passed.push((key, record, window));
                }
                None => new.push((key, record)),
            }
        }
        for (key, record) in new {
            if self.0.len() < STATEMENTS {
                self.0.insert(key, Known::new(record, to));
            }
        }
        for (key, record, (window, calls, run)) in passed {
            let Some(known) = self.0.get_mut(&key) else { continue };
            let slower = known.past.take(&window, true);
            known.lately = run;
            let Some(sum) = sums.get(record.database.as_str()) else { continue };
            let speaks = calls as f64 >= sum.calls as f64 * OF_CALLS || run as f64 >= sum.run as f64 * OF_TIME;
            let application = most_calls(&record.applications, &known.applications);
            known.slow = slower.filter(|_| speaks).map(|slower| SlowStatement {
                slower,
                text: shown(&known.text),
                application,
                more: (slower.now - slower.usual) * calls as f64,
            });
            known.applications.clone_from(&record.applications);
        }
    }

    /// For each pool the statement that takes the most time more than usual.
    pub(super) fn slow(&self) -> BTreeMap<String, SlowStatement> {
        let mut slow: BTreeMap<String, SlowStatement> = BTreeMap::new();
        for ((database, _, _), known) in &self.0 {
            let Some(found) = &known.slow else { continue };
            if slow.get(database).is_none_or(|other| other.more < found.more) {
                slow.insert(database.clone(), found.clone());
            }
        }
        slow
    }
}

impl Statements {
    /// The statement that took most of a pool's time in the last window, if it took half of it.
    pub(super) fn heaviest(&self, pool: &str) -> Option<String> {
        let of_pool = || self.0.iter().filter(move |((database, _, _), _)| database == pool).map(|(_, known)| known);
        let all: u64 = of_pool().map(|known| known.lately).sum();
        let most = of_pool().max_by_key(|known| known.lately)?;
        (most.lately > 0 && most.lately.saturating_mul(2) >= all).then(|| shown(&most.text))
    }
}

impl Known {
    fn new(record: &StatementRecord, now: f64) -> Known {
        Known {
            past: Past::default(),
            times: record.times.clone(),
            text: record.text.clone(),
            applications: record.applications.clone(),
            run: record.counts.run,
            lately: 0,
            called: now,
            slow: None,
        }
    }

    /// What was counted since the last window: also the calls, and their time in microseconds.
    fn window(&mut self, record: &StatementRecord, (from, to): (f64, f64)) -> (Window, u64, u64) {
        // One that had to make room, and came back, counts from zero.
        let again = record.times.total() < self.times.total();
        let times = if again { record.times.clone() } else { record.times.since(&self.times) };
        let run = if again { record.counts.run } else { record.counts.run.saturating_sub(self.run) };
        self.times.clone_from(&record.times);
        self.run = record.counts.run;
        let calls = times.total();
        if calls > 0 {
            self.called = to;
        }
        (Window { times, unanswered: 0, from, to }, calls, run)
    }
}

/// The application with the most calls since `before`, quoted.
fn most_calls(now: &[ApplicationUse], before: &[ApplicationUse]) -> Option<String> {
    let calls = |of: &ApplicationUse| {
        let known = before.iter().find(|other| other.name == of.name).map_or(0, |other| other.calls);
        of.calls.saturating_sub(known)
    };
    let most = now.iter().max_by_key(|of| calls(of)).filter(|of| calls(of) > 0)?;
    most.name.as_deref().filter(|name| !name.is_empty()).map(quoted)
}

fn shown(text: &str) -> String {
    let kept = prefix(text, SHOWN);
    if kept.len() < text.len() { format!("{kept}…") } else { kept.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(id: u64, text: &str, application: &str) -> StatementRecord {
        let applications = vec![ApplicationUse { name: Some(application.to_owned()), calls: 0, run: 0 }];
        let (database, user, text) = ("shop".to_owned(), "app".to_owned(), text.to_owned());
        StatementRecord { database, user, id, text, applications, ..StatementRecord::default() }
    }

    fn count(record: &mut StatementRecord, calls: u64, micros: u64) {
        record.times.count_many(micros, calls);
        record.counts.run += calls * micros;
        record.applications[0].calls += calls;
    }

    #[test]
    fn the_statement_with_another_plan_is_named_though_it_is_one_of_many_and_one_without_weight_is_not() {
        let mut statements = Statements::default();
        let mut usual = record(1, "SELECT 1", "web");
        let mut planned = record(2, "SELECT * FROM orders WHERE id = $1", "api");
        let mut seldom = record(3, "SELECT now()", "cron");
        for number in 0..40 {
            let later = number >= 30;
            count(&mut usual, 1_000, 900);
            count(&mut planned, if later { 10 } else { 20 }, if later { 300_000 } else { 1_000 });
            count(&mut seldom, 15, if later { 12_500 } else { 300 });
            let from = f64::from(number) * 10.0;
            statements.take(&[usual.clone(), planned.clone(), seldom.clone()], (from, from + 10.0));
            let slow = statements.slow();
            assert_eq!(slow.contains_key("shop"), number > 30, "{number}");
        }
        assert_eq!(statements.heaviest("shop").as_deref(), Some("SELECT * FROM orders WHERE id = $1"));
        assert_eq!(statements.heaviest("another"), None);
        let slow = &statements.slow()["shop"];
        assert_eq!(slow.text, "SELECT * FROM orders WHERE id = $1");
        assert_eq!((slow.application.as_deref(), slow.slower.since), (Some("\"api\""), 300.0));
        assert!(statements.0.values().filter(|known| known.slow.is_some()).count() == 1);
        // Its entry made room for another, and came back.
        let mut again = record(2, "SELECT * FROM orders WHERE id = $1", "api");
        count(&mut again, 20, 1_000);
        statements.take(&[again], (400.0, 410.0));
        assert!(statements.slow().is_empty());
    }
}
