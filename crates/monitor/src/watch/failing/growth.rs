//! Counts that grow, as those of refused clients.
//!
//! Owns the counts of the last look, since when they grow, and by how much for each name: [`NAMES`] at most.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use weir_admin::identifier;

/// The most names that are counted.
const NAMES: usize = 1_000;
/// What grew no longer ago, in seconds, grows now.
const SEEN_NOW: f64 = 3.0;
/// The most names that are named.
const NAMED: usize = 3;

/// Counts by name: a pool, or a kind of refused logins; empty for what has no pool.
pub(super) type Counts = BTreeMap<String, u64>;

/// See the head of the file.
pub(super) struct Growth {
    /// How long it lasts after the last count, in seconds.
    lasts: f64,
    /// Whether what was not counted before counts from zero; otherwise it says nothing yet.
    from_zero: bool,
    /// None before the first look: what was counted until then may be old.
    before: Option<Counts>,
    since: f64,
    last: f64,
    by: Counts,
}

impl Growth {
    pub(super) fn new(lasts: f64, from_zero: bool) -> Growth {
        Growth { lasts, from_zero, before: None, since: 0.0, last: 0.0, by: BTreeMap::new() }
    }

    /// Takes in the counts of a moment, in seconds since 1970.
    pub(super) fn take(&mut self, counted: Counts, now: f64) {
        let Some(before) = self.before.replace(counted.clone()) else { return };
        // Where the clock was set back, it was now.
        self.last = self.last.min(now);
        self.since = self.since.min(now);
        if now - self.last > self.lasts {
            self.by.clear();
        }
        for (name, count) in counted {
            let more =
                count.saturating_sub(before.get(&name).copied().unwrap_or(if self.from_zero { 0 } else { count }));
            let has_room = self.by.len() < NAMES || self.by.contains_key(&name);
            if more > 0 && has_room {
                if self.by.is_empty() {
                    self.since = now;
                }
                *self.by.entry(name).or_default() += more;
                self.last = now;
            }
        }
    }

    /// Since when it grows, in seconds since 1970.
    pub(super) fn since(&self) -> f64 {
        self.since
    }

    /// When it grew last, in seconds since 1970, if that is a while ago.
    pub(super) fn not_seen_since(&self, now: f64) -> Option<f64> {
        (now - self.last > SEEN_NOW).then_some(self.last)
    }

    /// By how much for each name.
    pub(super) fn by(&self) -> &Counts {
        &self.by
    }

    /// How much was counted, while it lasts.
    pub(super) fn total(&self, now: f64) -> Option<u64> {
        (now - self.last <= self.lasts && !self.by.is_empty()).then(|| self.by.values().sum())
    }

    /// The name with the most, which is also the first that is named.
    pub(super) fn most(&self) -> Option<&str> {
        self.by.iter().max_by_key(|(name, count)| (**count, Reverse(*name))).map(|(name, _)| name.as_str())
    }

    /// The pools with the most, and how many more there are; none where no name is known.
    pub(super) fn pools(&self) -> Option<String> {
        self.named(|name, _| identifier(name).into_owned())
    }

    /// The names with the most, as they are, how often where there are several, and how many more there are; none where no
    /// name is known.
    pub(super) fn names(&self) -> Option<String> {
        let several = self.by.len() > 1;
        self.named(|name, count| if several { format!("{count} × {name}") } else { name.to_owned() })
    }

    fn named(&self, words: impl Fn(&str, u64) -> String) -> Option<String> {
        let mut all: Vec<(&String, &u64)> = self.by.iter().filter(|(name, _)| !name.is_empty()).collect();
        all.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
        let more = all.len().saturating_sub(NAMED);
        let names: Vec<String> = all.iter().take(NAMED).map(|(name, count)| words(name, **count)).collect();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        (!names.is_empty()).then(|| format!("{}{more}", names.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_bounded_and_the_most_are_named() {
        let mut growth = Growth::new(10.0, true);
        growth.take(Counts::new(), 1.0);
        growth.take((0..5_000).map(|n| (format!("{n:04}"), n)).collect(), 2.0);
        assert_eq!(growth.by().len(), NAMES);
        let named = growth.names().expect("names");
        assert!(named.starts_with("1000 × 1000, 999 × 0999, 998 × 0998 and "), "{named}");
        assert_eq!((growth.most(), growth.total(13.0)), (Some("1000"), None));
    }
}
