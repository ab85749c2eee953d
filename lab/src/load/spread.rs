//! Repetitions of one figure: their median and spread, and whether two sets of them differ.
//!
//! Owns when a difference counts: only between spreads that do not meet. One repetition has no spread, and then any
//! difference counts, which is why a single repetition proves little.

use std::fmt;

use crate::model::Value;

/// The median of repetitions between the least and the most of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

/// How two sets of repetitions lie to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compared {
    More,
    Less,
    /// Their spreads meet.
    Alike,
}

impl Spread {
    /// Of these repetitions; `None` without any.
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

    /// How much more than the other, as a share of it: 0.33, or -0.1 for a tenth less.
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

/// `+33.4%`, `−8.5%`.
pub(crate) fn percent(share: f64) -> String {
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
    fn spreads_and_shares_in_words() {
        assert_eq!(Spread::of(&[344.24]).unwrap().to_string(), "344.2");
        assert_eq!(Spread::of(&[5010.0, 5000.4, 5020.2]).unwrap().to_string(), "5010 (5000–5020)");
        assert_eq!((percent(0.334), percent(-0.085)), ("+33.4%".to_owned(), "−8.5%".to_owned()));
    }
}
