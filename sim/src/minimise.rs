//! Makes a failing run small: leaves out what it fails without.
//!
//! Clients and acts are left out by halves, quarters and so on, down to single ones (delta debugging, after Zeller and
//! Hildebrandt, 2002), then workers, sessions, bursts and the network's whims are cut down. A smaller run counts if
//! the same checker fails. Since what is left out may shift the moment that matters, each is tried in a few timings of
//! the network.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::check::{Checker, Violation};
use crate::part::Part;
use crate::run::{Baseline, run_shortly, shape};
use crate::world::Outcome;

/// In how many timings of the network a smaller run may fail.
const TIMINGS: u64 = 4;

/// A small part of a failed seed's run that breaks the same rule, found within `limit`.
pub fn minimise(baseline: Baseline, outcome: &Outcome, limit: Duration) -> Part {
    let Some(violation) = &outcome.violation else { return Part::default() };
    let mut shrinker = Shrinker {
        baseline,
        seed: outcome.seed,
        rule: Rule::of(violation),
        most_events: outcome.counts.events.saturating_mul(LONGER).max(FEW_EVENTS),
        until: Instant::now() + limit,
        best: Part::default(),
    };
    let seed = outcome.seed;
    let (mut clients, mut acts) = shape(baseline, seed);
    loop {
        let before = shrinker.best.clone();
        shrinker.leave_out(&mut acts, 0, |part, acts| part.acts = Some(acts));
        shrinker.leave_out(&mut clients, 1, |part, clients| part.clients = Some(clients));
        shrinker.cut_down();
        if shrinker.best == before || shrinker.is_late() {
            return shrinker.best;
        }
    }
}

/// A part of a run that takes so many times as long as the whole is not smaller.
const LONGER: u64 = 2;
/// Below this many events nobody counts.
const FEW_EVENTS: u64 = 50_000;

/// What must fail again.
#[derive(PartialEq, Eq)]
struct Rule {
    checker: Checker,
    /// Where an assertion stands; empty for any other checker.
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
    best: Part,
}

impl Shrinker {
    fn is_late(&self) -> bool {
        Instant::now() >= self.until
    }

    /// Keeps a smaller part of the run if it fails in the same way, in one of the timings.
    fn keeps(&mut self, change: impl FnOnce(&mut Part)) -> bool {
        let mut part = self.best.clone();
        change(&mut part);
        let mut timings = vec![self.best.timing];
        timings.extend((0..TIMINGS).filter(|timing| *timing != self.best.timing));
        for timing in timings {
            if self.is_late() {
                return false;
            }
            part.timing = timing;
            let outcome = run_shortly(self.baseline, self.seed, &part, self.most_events);
            if outcome.violation.is_some_and(|violation| Rule::of(&violation) == self.rule) {
                self.best = part;
                return true;
            }
        }
        false
    }

    /// Leaves out as many of `all` as possible, down to `least`.
    fn leave_out(&mut self, all: &mut Vec<u32>, least: usize, set: impl Fn(&mut Part, BTreeSet<u32>)) {
        let mut size = all.len();
        while size > 0 && !self.is_late() {
            let mut at = 0;
            while at < all.len() {
                let end = (at + size).min(all.len());
                let fewer: Vec<u32> = [&all[..at], &all[end..]].concat();
                if fewer.len() >= least && self.keeps(|part| set(part, fewer.iter().copied().collect())) {
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
            self.keeps(|part| part.calm = true);
        }
        let workers = self.best.workers.map(u64::from);
        self.least(&[1, 2, 3], workers, |part, most| part.workers = Some(most as u16));
        let sessions = self.best.sessions;
        self.least(&[1, 2, 3], sessions, |part, most| part.sessions = Some(most));
        let bursts = self.best.bursts;
        self.least(&[1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64], bursts, |part, most| part.bursts = Some(most));
    }

    /// Finds the least of these numbers that will do, if it is less than what there is.
    fn least(&mut self, numbers: &[u64], now: Option<u64>, set: impl Fn(&mut Part, u64)) {
        let less = numbers.iter().take_while(|number| now.is_none_or(|now| **number < now));
        for number in less {
            if self.keeps(|part| set(part, *number)) {
                return;
            }
        }
    }
}
