//! Whether queries are far slower than their own past: those of a pool, or of one of its statements. Pure.
//!
//! Owns the last half hour of windows of some seconds. One limit divides fast calls from slow ones: [`TIMES`] times the usual
//! median. Queries are slow if the fast ones are gone, and slow ones are there that were not there before. So a report, a
//! batch beside other work, and a mix that changes are not: the fast calls go on, or nobody makes them, or the slow ones
//! are as many as before. What came again and again in the last half hour is usual.

use std::collections::VecDeque;

use weir_admin::Histogram;

/// Calls of so many times the usual median are slow, if that is at least [`MORE`] longer, in microseconds, and longer than
/// nearly all windows before by [`BEYOND`].
const TIMES: f64 = 5.0;
const MORE: f64 = 10_000.0;
const BEYOND: f64 = 1.5;
/// Windows that are remembered, and that have to be known.
const KEPT: usize = 360;
const KNOWN: usize = 12;
/// From so many windows on it is known what nearly all of them are like.
const LONG_PAST: usize = 60;
/// Windows whose fast calls are the usual number.
const RECENT: usize = 12;
/// Requests without an answer have lasted longer than this, in microseconds.
const UNANSWERED: f64 = 1e6;
/// The fewest calls of a window: fast ones before, slow ones now, and any to know their median.
const LEAST: u64 = 5;
/// If no more than this share of the usual number of fast calls is left, they are gone.
const GONE: f64 = 0.25;
/// As many slow windows after each other begin it, and as many others end it.
const BEGINS: u32 = 2;
const ENDS: u32 = 4;
/// A shorter time is remembered as a part of the past, a longer one becomes usual after this time, in seconds.
const SHORT: f64 = 120.0;
const LONG: f64 = 3600.0;
/// The most windows of such a time.
const HELD: usize = 24;

/// The calls of some seconds.
pub(super) struct Window {
    pub(super) times: Histogram,
    /// Requests at its end that have had no answer for [`UNANSWERED`].
    pub(super) unanswered: u32,
    /// Seconds since 1970.
    pub(super) from: f64,
    pub(super) to: f64,
}

/// By how much calls are slower, and since when.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Slower {
    /// Seconds since 1970.
    pub(super) since: f64,
    /// Microseconds: the median now, at least, and the usual one.
    pub(super) now: f64,
    pub(super) usual: f64,
}

/// What is remembered of some calls.
#[derive(Default)]
pub(super) struct Past {
    windows: VecDeque<Kept>,
    episode: Option<Episode>,
}

#[derive(Clone, Copy)]
struct Kept {
    /// Microseconds; NaN of a window with few calls.
    median: f32,
    fast: u32,
    slow: u32,
}

/// What is usual.
#[derive(Clone, Copy)]
struct Usual {
    median: f64,
    /// What is slow, in microseconds.
    limit: f64,
    /// Calls of a window.
    fast: f64,
    slow: f64,
}

struct Episode {
    since: f64,
    usual: Usual,
    /// Slow windows after each other until it began.
    slow: u32,
    begun: bool,
    /// Other windows after each other.
    others: u32,
    /// The median of the last slow window.
    now: f64,
    held: Vec<Kept>,
}

impl Past {
    /// Takes in the next window; whether its calls are slow, and had been in the one before. `learns`: what is not slow may be
    /// usual later.
    pub(super) fn take(&mut self, window: &Window, learns: bool) -> Option<Slower> {
        let usual = self.episode.as_ref().map(|episode| episode.usual).or_else(|| self.usual());
        let Some(usual) = usual else {
            if learns {
                self.learn(kept(window, f64::INFINITY));
            }
            return None;
        };
        let seen = kept(window, usual.limit);
        let is_slow = usual.is_left_by(seen);
        let Some(episode) = &mut self.episode else {
            if is_slow {
                self.episode = Some(Episode::new(window, usual, seen));
            } else if learns {
                self.learn(seen);
            }
            return None;
        };
        let now = episode.add(window, seen, is_slow);
        if episode.is_over(window.to) {
            self.end(window.to);
        }
        now
    }

    /// Whether calls may be slow now.
    pub(super) fn is_suspected(&self) -> bool {
        self.episode.is_some()
    }

    /// Whether the median of these calls would be slow.
    pub(super) fn is_beyond(&self, times: &Histogram) -> bool {
        let usual = self.episode.as_ref().map(|episode| episode.usual).or_else(|| self.usual());
        let median = times.quantile(0.5).filter(|_| times.total() >= LEAST);
        usual.zip(median).is_some_and(|(usual, median)| median >= usual.limit)
    }

    fn end(&mut self, now: f64) {
        let Some(episode) = self.episode.take() else { return };
        let lasted = now - episode.since;
        if lasted >= LONG {
            self.windows.clear();
        }
        if !(SHORT..LONG).contains(&lasted) {
            episode.held.into_iter().for_each(|kept| self.learn(kept));
        }
    }

    fn learn(&mut self, kept: Kept) {
        if self.windows.len() >= KEPT {
            self.windows.pop_front();
        }
        self.windows.push_back(kept);
    }

    fn usual(&self) -> Option<Usual> {
        let mut medians: Vec<f32> = self.windows.iter().map(|it| it.median).filter(|it| !it.is_nan()).collect();
        if medians.len() < KNOWN {
            return None;
        }
        medians.sort_by(f32::total_cmp);
        let at = |share: usize| f64::from(medians[(medians.len() * share / 100).min(medians.len() - 1)]);
        let median = at(50);
        // A slow start is no rule.
        let most = at(if medians.len() >= LONG_PAST { 95 } else { 75 });
        let limit = (median * TIMES).max(median + MORE).max(most * BEYOND);
        let recent = || self.windows.iter().rev().take(RECENT);
        Some(Usual {
            median,
            limit,
            fast: middle(recent().map(|it| it.fast).collect()),
            slow: middle(recent().map(|it| it.slow).collect()),
        })
    }
}

impl Usual {
    fn is_left_by(self, seen: Kept) -> bool {
        let (fast, slow) = (f64::from(seen.fast), f64::from(seen.slow));
        self.fast >= LEAST as f64 && fast <= self.fast * GONE && slow >= 2.0 * self.slow + LEAST as f64 && slow > fast
    }
}

impl Episode {
    fn new(window: &Window, usual: Usual, seen: Kept) -> Episode {
        let now = median(window, usual.limit);
        Episode { since: window.from, usual, slow: 1, begun: false, others: 0, now, held: vec![seen] }
    }

    /// Whether it is slow now.
    fn add(&mut self, window: &Window, seen: Kept, is_slow: bool) -> Option<Slower> {
        if self.held.len() < HELD {
            self.held.push(seen);
        }
        if is_slow {
            (self.slow, self.others) = (self.slow + 1, 0);
            self.now = median(window, self.usual.limit);
            self.begun |= self.slow >= BEGINS;
        } else if !self.begun || self.is_fast(window) {
            self.others += 1;
        }
        let Episode { since, now, usual, .. } = *self;
        (self.begun && self.others == 0).then_some(Slower { since, now, usual: usual.median })
    }

    /// Whether most calls of a window are well below the limit, or there are none.
    fn is_fast(&self, window: &Window) -> bool {
        let seen = kept(window, (self.usual.limit / 2.0).max(2.0 * self.usual.median));
        seen.fast >= seen.slow
    }

    fn is_over(&self, now: f64) -> bool {
        let ends = if self.begun { ENDS } else { 1 };
        self.others >= ends || now - self.since >= LONG
    }
}

/// A window's calls, told apart by a limit in microseconds.
fn kept(window: &Window, limit: f64) -> Kept {
    let (total, fast) = (window.times.total(), window.times.below(limit as u64));
    let median = if total >= LEAST { window.times.quantile(0.5).unwrap_or(f64::NAN) } else { f64::NAN };
    let count = |calls: u64| u32::try_from(calls).unwrap_or(u32::MAX);
    let unanswered = if limit <= UNANSWERED { window.unanswered } else { 0 };
    let slow = count(total - fast).saturating_add(unanswered);
    Kept { median: median as f32, fast: count(fast), slow }
}

/// The median of a window of slow calls. Of those without an answer it is only known that they are slow.
fn median(window: &Window, limit: f64) -> f64 {
    let answered = window.times.total() > u64::from(window.unanswered);
    window.times.quantile(0.5).filter(|_| answered).unwrap_or(limit).max(limit)
}

fn middle(mut of: Vec<u32>) -> f64 {
    of.sort_unstable();
    of.get(of.len() / 2).copied().unwrap_or_default().into()
}

#[cfg(test)]
#[path = "past_tests.rs"]
mod tests;
