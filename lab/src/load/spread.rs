//! Repetitions of one figure: their order, their median and spread, and whether two sets differ.
//!
//! Two sets differ only if their spreads do not overlap. One repetition has no spread, and then any difference counts,
//! which is why a single repetition proves little.

use std::fmt;

use crate::model::{NO_CHANGE, NO_DIFFERENCE, Value};

/// The median of repetitions between their minimum and maximum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

/// The relation of two sets of repetitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compared {
    More,
    Less,
    /// Their spreads overlap.
    Alike,
}

impl Spread {
    /// The spread of these values; `None` without any.
    pub(crate) fn of(values: &[f64]) -> Option<Spread> {
        let median = Value::median(values)?.as_number()?;
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Some(Spread { median, least, most })
    }

    /// Whether this is more or less than the other.
    pub(crate) fn against(self, other: Spread) -> Compared {
        if self.least <= other.most && other.least <= self.most {
            Compared::Alike
        } else if self.median > other.median {
            Compared::More
        } else {
            Compared::Less
        }
    }

    /// The relative difference to the other: 0.33, or -0.1 for a tenth less.
    pub(crate) fn gain_on(self, other: Spread) -> f64 {
        if other.median == 0.0 { 0.0 } else { self.median / other.median - 1.0 }
    }
}

impl fmt::Display for Spread {
    /// `344.2`, or with repetitions `344.2 (340.0–347.1)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = usize::from(self.median < 1000.0) + usize::from(self.median < 1.0) * 2;
        write!(f, "{:.digits$}", self.median)?;
        if self.most > self.least { write!(f, " ({:.digits$}–{:.digits$})", self.least, self.most) } else { Ok(()) }
    }
}

/// Another order for each repetition, the same in every run, so that a run can be resumed and drift favours none.
pub(crate) fn shuffled<T: Copy>(items: &[T], repetition: u32) -> Vec<T> {
    let mut items = items.to_vec();
    shuffle(&mut items, &mut u64::from(repetition));
    items
}

/// Fisher and Yates's shuffle, with the numbers of splitmix64: `dice` is its state, at first a seed.
pub(crate) fn shuffle<T>(items: &mut [T], dice: &mut u64) {
    for last in (1..items.len()).rev() {
        *dice = dice.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut number = *dice;
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        number ^= number >> 31;
        let place = number % (last as u64 + 1);
        items.swap(last, usize::try_from(place).unwrap_or(last));
    }
}

/// `+33.4%`, `−8.5%`, `no difference`.
pub(crate) fn percent(share: f64) -> String {
    if (share * 100.0).abs() < NO_CHANGE {
        return NO_DIFFERENCE.to_owned();
    }
    let sign = if share < 0.0 { '−' } else { '+' };
    format!("{sign}{:.1}%", (share * 100.0).abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads_that_meet_do_not_differ() {
        let spread = |values: &[f64]| Spread::of(values).unwrap();
        let (low, high) = (spread(&[90.0, 100.0, 105.0]), spread(&[104.0, 110.0, 120.0]));
        assert_eq!(low.against(high), Compared::Alike);
        assert_eq!(low.against(spread(&[106.0])), Compared::Less);
        assert_eq!(spread(&[7.0]).against(spread(&[6.0])), Compared::More);
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn each_repetition_has_an_order_of_its_own_and_always_the_same() {
        let items = [1, 2, 3, 4, 5, 6, 7];
        let orders: Vec<_> = (1..=3).map(|repetition| shuffled(&items, repetition)).collect();
        assert!(orders[0] != orders[1] && orders[1] != orders[2] && orders[0] != orders[2], "{orders:?}");
        assert_eq!(orders[1], shuffled(&items, 2));
        for mut order in orders {
            order.sort_unstable();
            assert_eq!(order, items);
        }
    }

    #[test]
    fn spreads_and_shares_in_words() {
        assert_eq!(Spread::of(&[344.24]).unwrap().to_string(), "344.2");
        assert_eq!(Spread::of(&[5010.0, 5000.4, 5020.2]).unwrap().to_string(), "5010 (5000–5020)");
        assert_eq!([0.334, -0.085, -0.0005].map(percent), ["+33.4%", "−8.5%", "no difference"]);
    }
}
