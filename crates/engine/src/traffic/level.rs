//! How many there are of something at the same time: the most, and for how long there were how many.

use weir_admin::UseLevel;
use weir_base::Time;

/// From this number on, all count as one level in the shares of time.
const MAX_LEVELS: usize = 1024;

/// See the head of the file.
#[derive(Default)]
pub(super) struct LevelGauge {
    now: u64,
    peak: u64,
    /// Microseconds at each level, from one on.
    at: Vec<u64>,
    since: Time,
}

impl LevelGauge {
    /// The most bytes of one.
    pub(super) const BYTES: usize = MAX_LEVELS * size_of::<u64>() + size_of::<LevelGauge>();

    /// From this time on there is one more or one less.
    pub(super) fn change(&mut self, more: bool, now: Time) {
        self.pass(now);
        self.now = if more { self.now + 1 } else { self.now.saturating_sub(1) };
        self.peak = self.peak.max(self.now);
    }

    /// There are so many more for a moment, which count for the peak.
    pub(super) fn touch(&mut self, more: u64) {
        self.peak = self.peak.max(self.now + more);
    }

    /// There are none from now on.
    pub(super) fn stop(&mut self) {
        self.now = 0;
    }

    /// The time up to now was spent at this level.
    pub(super) fn pass(&mut self, now: Time) {
        let spent = now.since(self.since).micros();
        self.since = now;
        let level = (self.now as usize).min(MAX_LEVELS);
        if level == 0 {
            return;
        }
        if self.at.len() < level {
            self.at.resize(level, 0);
        }
        self.at[level - 1] += spent;
    }

    /// The result, with the time up to now.
    pub(super) fn level(&self, now: Time) -> UseLevel {
        let open = now.since(self.since).micros();
        let level = (self.now as usize).min(MAX_LEVELS);
        let spent = |place: usize| {
            let counted = self.at.get(place).copied().unwrap_or_default();
            if place + 1 == level { counted + open } else { counted }
        };
        let levels = self.at.len().max(level);
        let all: u64 = (0..levels).map(spent).sum();
        let mut left = all / 100;
        let mut p99 = levels;
        while p99 > 1 && spent(p99 - 1) <= left {
            left -= spent(p99 - 1);
            p99 -= 1;
        }
        UseLevel { peak: self.peak, p99: if all == 0 { self.peak } else { p99 as u64 } }
    }
}

#[cfg(test)]
mod tests {
    use weir_base::Span;

    use super::*;

    #[test]
    fn the_peak_is_the_most_and_p99_leaves_a_hundredth_of_the_busy_time_out() {
        let at = |micros: u64| Time::START + Span::from_micros(micros);
        let mut gauge = LevelGauge::default();
        gauge.change(true, at(0));
        gauge.change(true, at(1000));
        gauge.change(true, at(1985));
        gauge.change(false, at(1990));
        assert_eq!(gauge.level(at(2000)), UseLevel { peak: 3, p99: 2 }, "5 of 2000 at three");
        gauge.change(false, at(2000));
        gauge.change(false, at(2000));
        assert_eq!(gauge.level(at(900_000)).p99, 2, "the time without any does not count");
        gauge.touch(9);
        assert_eq!(gauge.level(at(900_000)).peak, 9);
    }

    #[test]
    fn many_levels_take_bounded_memory() {
        let mut gauge = LevelGauge::default();
        (0..5000).for_each(|micros| gauge.change(true, Time::START + Span::from_micros(micros)));
        assert_eq!((gauge.level(Time::START + Span::from_micros(5000)).peak, gauge.at.len()), (5000, MAX_LEVELS));
    }
}
