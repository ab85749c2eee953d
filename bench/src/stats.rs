//! Small statistics: what a handful of noisy rounds says.
//!
//! Medians, because one disturbed round must not move a figure; the whole spread beside them, because a figure without
//! it can't be judged. Invariant: nothing here invents a number for an empty set.

use hdrhistogram::Histogram;

/// A figure over several rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// `None` when there are no values.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        Some(Spread { median: median_of_sorted(&values), min, max })
    }
}

fn median_of_sorted(values: &[f64]) -> f64 {
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { f64::midpoint(values[middle - 1], values[middle]) }
}

/// The ratio of two medians, as all published figures are, with the spread of the ratios within each round.
///
/// Two runs of one round are neighbours in time, so a slow phase of the machine slows both: the ratios of the rounds
/// spread less than the figures themselves, and say how far the ratio can be trusted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ratio {
    pub(crate) of_medians: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Ratio {
    /// `None` without a median on both sides, or when the base is zero. Rounds are paired by their place.
    pub(crate) fn of(values: &[f64], base: &[f64]) -> Option<Ratio> {
        let (over, under) = (Spread::of(values.iter().copied())?, Spread::of(base.iter().copied())?);
        let pairs = values.iter().zip(base).map(|(value, base)| value / base);
        let rounds = Spread::of(pairs)?;
        (under.median > 0.0).then(|| Ratio { of_medians: over.median / under.median, min: rounds.min, max: rounds.max })
    }
}

/// Significant decimal digits of what a [`histogram`] tells.
const DIGITS: u8 = 4;

/// The distribution of these values; `None` when there are none.
pub(crate) fn histogram(values: impl IntoIterator<Item = u32>) -> Option<Histogram<u64>> {
    // `Histogram::new` fails for more than five digits only.
    let mut histogram = Histogram::new(DIGITS).ok()?;
    // The histogram grows with its values, so none is refused.
    values.into_iter().for_each(|value| histogram += u64::from(value));
    (!histogram.is_empty()).then_some(histogram)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_odd_number_is_the_middle_and_of_an_even_one_the_mean_of_two() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Some(Spread { median: 2.0, min: 1.0, max: 3.0 }));
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 3.0]).unwrap().median, 2.5);
        assert_eq!(Spread::of([7.0]), Some(Spread { median: 7.0, min: 7.0, max: 7.0 }));
    }

    #[test]
    fn nothing_is_said_about_nothing() {
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([f64::NAN]), None);
        assert_eq!(Ratio::of(&[], &[1.0]), None);
        assert_eq!(histogram([]), None);
    }

    #[test]
    fn one_disturbed_round_moves_neither_the_median_nor_the_ratio() {
        let calm = [10.0, 10.0, 10.0, 10.0, 10.0];
        let disturbed = [8.0, 8.0, 80.0, 8.0, 8.0];
        let ratio = Ratio::of(&disturbed, &calm).unwrap();
        assert_eq!((ratio.of_medians, ratio.min, ratio.max), (0.8, 0.8, 8.0));
    }

    #[test]
    fn a_slow_phase_of_the_machine_slows_both_sides_of_a_round() {
        let ratio = Ratio::of(&[8.0, 16.0, 8.0], &[10.0, 20.0, 10.0]).unwrap();
        assert_eq!((ratio.min, ratio.max), (0.8, 0.8));
    }

    #[test]
    fn a_base_of_zero_has_no_ratio() {
        assert_eq!(Ratio::of(&[1.0], &[0.0]), None);
    }

    #[test]
    fn quantiles_stay_within_the_values() {
        let values = histogram(1..=1000).unwrap();
        let at = |q| values.value_at_quantile(q);
        assert_eq!((at(0.0), at(0.5), at(0.99), at(1.0)), (1, 500, 990, 1000));
        assert_eq!(histogram([5]).unwrap().value_at_quantile(0.99), 5);
    }
}
