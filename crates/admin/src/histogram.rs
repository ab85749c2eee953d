//! Histograms of durations: the wait for a server, a query, a transaction.
//!
//! Owns the buckets and what is computed from them. Four buckets an octave, exact below 4 µs, the last one open beyond
//! two hours: a value is known to within a quarter, in 1 KiB however many are counted. Counting is an addition and
//! never allocates, since each query counts. Readings can be subtracted, and those of several workers added.

/// Buckets an octave, as a power of two.
const FINE: u32 = 2;
/// The number of buckets: a power of two, so that an index needs no bounds check.
const BUCKETS: usize = 128;
/// The first value, in microseconds, that belongs to the open last bucket: 2³³ µs, or 2.4 hours.
const END: u64 = 1 << (BUCKETS as u32 / (1 << FINE) - 1 + FINE);

/// Counts of durations, in microseconds.
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
    /// Counts one duration. Called for each query: an addition.
    #[inline]
    pub fn count(&mut self, micros: u64) {
        self.count_many(micros, 1);
    }

    /// Counts a duration several times.
    #[inline]
    pub fn count_many(&mut self, micros: u64, times: u64) {
        self.0[index_of(micros)] += times;
    }

    /// Counts durations that ended together, each with an equal share of the time.
    #[inline]
    pub fn count_shares(&mut self, micros: u64, ended: u64) {
        // A division costs more than all else here.
        self.count_many(if ended == 1 { micros } else { micros / ended }, ended);
    }

    /// Adds the counts of another histogram.
    pub fn add(&mut self, other: &Histogram) {
        self.0.iter_mut().zip(&other.0).for_each(|(count, other)| *count = count.saturating_add(*other));
    }

    /// The counts since an `earlier` reading; never below zero.
    #[must_use]
    pub fn since(&self, earlier: &Histogram) -> Histogram {
        Histogram(std::array::from_fn(|index| self.0[index].saturating_sub(earlier.0[index])))
    }

    /// The number of durations.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The number of durations below this one; exact at each power of two of microseconds, where a bucket ends.
    #[must_use]
    pub fn below(&self, micros: u64) -> u64 {
        self.0[..index_of(micros)].iter().sum()
    }

    /// The quantile of this share, in microseconds, assuming that values within a bucket are evenly spread. None if
    /// nothing was counted.
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
    // The octave selects four buckets, the bits after the leading one select among them.
    (((octave << FINE) as usize) + (micros >> octave) as usize) & (BUCKETS - 1)
}

/// The lower bound of a bucket, in microseconds.
fn start_of(index: usize) -> u64 {
    let (octave, steps) = ((index >> FINE) as u32, (index & ((1 << FINE) - 1)) as u64);
    if octave == 0 { steps } else { ((1 << FINE) + steps) << (octave - 1) }
}

/// The histograms of a pool.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Times {
    /// Waits of clients for a server, from their request to the grant or the refusal; a request that did not wait
    /// counts as 0.
    pub wait: Histogram,
    /// Queries, from the request to ReadyForQuery.
    pub query: Histogram,
    /// Transactions, including idle time.
    pub transaction: Histogram,
}

impl Times {
    /// Adds the counts of others.
    pub fn add(&mut self, other: &Times) {
        self.wait.add(&other.wait);
        self.query.add(&other.query);
        self.transaction.add(&other.transaction);
    }

    /// The counts since an `earlier` reading.
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
