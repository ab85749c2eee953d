//! How long things took, as counts in buckets: the wait for a server, a query, a transaction.
//!
//! Owns the buckets and what can be read from them. Four buckets an octave, exact below 4 µs and the last one open
//! beyond two hours: a value is known to a quarter of itself, in 1 KiB whatever is counted. Counting is an addition and
//! never allocates, for it is on the way of each query. Two readings subtract, and those of several workers add up.

/// Buckets an octave, as a power of two.
const FINE: u32 = 2;
/// How many buckets there are: a power of two, so that an index needs no check.
const BUCKETS: usize = 128;
/// The first value, in microseconds, that has no bucket of its own size any more: 2³³ µs, or 2.4 hours.
const END: u64 = 1 << (BUCKETS as u32 / (1 << FINE) - 1 + FINE);

/// Counts of times, in microseconds.
#[derive(Clone, PartialEq, Eq)]
pub struct Histogram([u64; BUCKETS]);

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram([0; BUCKETS])
    }
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let counted = self.0.iter().enumerate().filter(|(_, count)| **count > 0);
        f.debug_map().entries(counted.map(|(index, count)| (start_of(index), count))).finish()
    }
}

impl Histogram {
    /// Counts a time.
    #[inline]
    pub fn count(&mut self, micros: u64) {
        self.count_many(micros, 1);
    }

    /// Counts a time so often.
    #[inline]
    pub fn count_many(&mut self, micros: u64, times: u64) {
        self.0[index_of(micros)] += times;
    }

    /// Adds what another has counted.
    pub fn add(&mut self, other: &Histogram) {
        self.0.iter_mut().zip(&other.0).for_each(|(count, other)| *count = count.saturating_add(*other));
    }

    /// What was counted since an `earlier` reading; never below zero.
    #[must_use]
    pub fn since(&self, earlier: &Histogram) -> Histogram {
        Histogram(std::array::from_fn(|index| self.0[index].saturating_sub(earlier.0[index])))
    }

    /// How many times were counted.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// How many of them were shorter than this, exactly if a bucket ends there: at each power of two of microseconds.
    #[must_use]
    pub fn below(&self, micros: u64) -> u64 {
        self.0[..index_of(micros)].iter().sum()
    }

    /// The time, in microseconds, that this share of all did not exceed, as if the times within a bucket lay evenly.
    /// Nothing if nothing was counted.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let total = self.total();
        if total == 0 {
            return None;
        }
        let wanted = share.clamp(0.0, 1.0) * total as f64;
        let mut before = 0;
        let (index, within) =
            self.0.iter().enumerate().filter(|(_, count)| **count > 0).find_map(|(index, count)| {
                let within = (wanted - before as f64) / *count as f64;
                before += count;
                (before as f64 >= wanted).then_some((index, within.clamp(0.0, 1.0)))
            })?;
        let (start, width) = (start_of(index), start_of(index + 1) - start_of(index));
        // Below 4 µs a bucket is one value.
        Some(if width == 1 { start as f64 } else { start as f64 + width as f64 * within })
    }
}

/// The bucket of a time.
#[inline]
fn index_of(micros: u64) -> usize {
    let micros = micros.min(END - 1);
    if micros < 1 << FINE {
        return micros as usize;
    }
    let octave = micros.ilog2() - FINE;
    // The leading bit and the next ones; the leading bit moves the index on by an octave.
    (((octave << FINE) as usize) + (micros >> octave) as usize) & (BUCKETS - 1)
}

/// The first time of a bucket, in microseconds.
fn start_of(index: usize) -> u64 {
    let (octave, steps) = ((index >> FINE) as u32, (index & ((1 << FINE) - 1)) as u64);
    if octave == 0 { steps } else { ((1 << FINE) + steps) << (octave - 1) }
}

/// The three times of a pool.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Times {
    /// How long clients waited for a server, from their request to the grant or the refusal; nothing counts as 0.
    pub wait: Histogram,
    /// How long queries took, from the request to ReadyForQuery.
    pub query: Histogram,
    /// How long transactions took, idle times in them too.
    pub transaction: Histogram,
}

impl Times {
    /// Adds what others have counted.
    pub fn add(&mut self, other: &Times) {
        self.wait.add(&other.wait);
        self.query.add(&other.query);
        self.transaction.add(&other.transaction);
    }

    /// What was counted since an `earlier` reading.
    #[must_use]
    pub fn since(&self, earlier: &Times) -> Times {
        Times {
            wait: self.wait.since(&earlier.wait),
            query: self.query.since(&earlier.query),
            transaction: self.transaction.since(&earlier.transaction),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_without_a_gap_and_none_is_wider_than_a_quarter_of_its_times() {
        for index in 0..BUCKETS {
            let (start, end) = (start_of(index), start_of(index + 1));
            assert!(start < end && (end - start == 1 || (end - start) * 4 <= start), "{index}: {start} to {end}");
            assert_eq!((index_of(start), index_of(end - 1)), (index, index));
        }
        assert_eq!(start_of(BUCKETS), END);
        assert_eq!(index_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn a_quantile_is_within_its_bucket_and_nothing_has_none() {
        let mut times = Histogram::default();
        assert_eq!(times.quantile(0.5), None);
        times.count_many(0, 90);
        times.count_many(1_000, 9);
        times.count(60_000_000);
        assert_eq!(times.total(), 100);
        assert_eq!(times.quantile(0.5), Some(0.0));
        let p95 = times.quantile(0.95).expect("counted");
        assert!((896.0..=1024.0).contains(&p95), "{p95}");
        let most = times.quantile(1.0).expect("counted");
        assert!((58_000_000.0..=68_000_000.0).contains(&most), "{most}");
    }

    #[test]
    fn readings_subtract_and_workers_add_up() {
        let (mut one, mut other) = (Histogram::default(), Histogram::default());
        one.count(5);
        other.count_many(5, 2);
        other.count(70_000);
        let mut both = one.clone();
        both.add(&other);
        assert_eq!(both.since(&one), other);
        assert_eq!(one.since(&both), Histogram::default(), "never below zero");
        assert_eq!((both.below(4), both.below(8), both.below(1 << 17), both.total()), (0, 3, 4, 4));
    }
}
