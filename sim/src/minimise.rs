//! Minimises a failing run: leaves out what the failure does not need.
//!
//! Clients and acts are left out by halves, quarters and so on, down to single ones (delta debugging, after Zeller and
//! Hildebrandt, 2002). Then workers, sessions, bursts and network disturbances are reduced. A smaller run counts if the
//! same checker fails. Leaving something out may shift the decisive moment, so each smaller run is tried with a few
//! timings of the network.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::check::{Checker, Violation};
use crate::run::{Baseline, run_shortly, shape};
use crate::subset::Subset;
use crate::world::Outcome;

/// With how many timings of the network each smaller run is tried.
const TIMINGS: u64 = 4;

/// A small subset of a failed seed's run that breaks the same rule, found within `limit`.
pub fn minimise(baseline: Baseline, outcome: &Outcome, limit: Duration) -> Subset {
    let Some(violation) = &outcome.violation else { return Subset::default() };
    let mut shrinker = Shrinker {
        baseline,
        seed: outcome.seed,
        rule: Rule::of(violation),
        most_events: outcome.counts.events.saturating_mul(LONGER).max(FEW_EVENTS),
        until: Instant::now() + limit,
        best: Subset::default(),
    };
    let seed = outcome.seed;
    let (mut clients, mut acts) = shape(baseline, seed);
    loop {
        let before = shrinker.best.clone();
        shrinker.leave_out(&mut acts, 0, |subset, acts| subset.acts = Some(acts));
        shrinker.leave_out(&mut clients, 1, |subset, clients| subset.clients = Some(clients));
        shrinker.cut_down();
        if shrinker.best == before || shrinker.is_late() {
            return shrinker.best;
        }
    }
}

/// A subset with more than this many times the events of the whole run is not smaller.
const LONGER: u64 = 2;
/// A subset may always have this many events.
const FEW_EVENTS: u64 = 50_000;

/// The rule that a smaller run must break, too.
#[derive(PartialEq, Eq)]
struct Rule {
    checker: Checker,
    /// The source location of the assertion; empty for any other checker.
    place: String,
}

impl Rule {
    fn of(violation: &Violation) -> Rule {
        let place = if violation.checker == Checker::Invariant { violation.what.lines().next() } else { None };
        Rule { checker: violation.checker, place: place.unwrap_or_default().to_owned() }
    }
}

struct Shrinker {
    baseline: Baseline,
    seed: u64,
    rule: Rule,
    most_events: u64,
    until: Instant,
    best: Subset,
}

impl Shrinker {
    fn is_late(&self) -> bool {
        Instant::now() >= self.until
    }

    /// Keeps a smaller subset if the run fails in the same way with one of the timings.
    fn keeps(&mut self, change: impl FnOnce(&mut Subset)) -> bool {
        let mut subset = self.best.clone();
        change(&mut subset);
        let mut timings = vec![self.best.timing];
        timings.extend((0..TIMINGS).filter(|timing| *timing != self.best.timing));
        for timing in timings {
            if self.is_late() {
                return false;
            }
            subset.timing = timing;
            let outcome = run_shortly(self.baseline, self.seed, &subset, self.most_events);
            if outcome.violation.is_some_and(|violation| Rule::of(&violation) == self.rule) {
                self.best = subset;
                return true;
            }
        }
        false
    }

    /// Leaves out as many of `all` as possible, down to `least`.
    fn leave_out(&mut self, all: &mut Vec<u32>, least: usize, set: impl Fn(&mut Subset, BTreeSet<u32>)) {
        let mut size = all.len();
        while size > 0 && !self.is_late() {
            let mut at = 0;
            while at < all.len() {
                let end = (at + size).min(all.len());
                let fewer: Vec<u32> = [&all[..at], &all[end..]].concat();
                if fewer.len() >= least && self.keeps(|subset| set(subset, fewer.iter().copied().collect())) {
                    *all = fewer;
                } else {
                    at = end;
                }
            }
            size /= 2;
        }
    }

    fn cut_down(&mut self) {
        if !self.best.calm {
            self.keeps(|subset| subset.calm = true);
        }
        let workers = self.best.workers.map(u64::from);
        self.least(&[1, 2, 3], workers, |subset, most| subset.workers = Some(most as u16));
        let sessions = self.best.sessions;
        self.least(&[1, 2, 3], sessions, |subset, most| subset.sessions = Some(most));
        let bursts = self.best.bursts;
        self.least(&[1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64], bursts, |subset, most| subset.bursts = Some(most));
    }

    /// Keeps the least of these numbers with which the run still fails, if it is below the present one.
    fn least(&mut self, numbers: &[u64], now: Option<u64>, set: impl Fn(&mut Subset, u64)) {
        let less = numbers.iter().take_while(|number| now.is_none_or(|now| **number < now));
        for number in less {
            if self.keeps(|subset| set(subset, *number)) {
                return;
            }
        }
    }
}
