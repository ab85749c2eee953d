//! An axis: its range, its ticks, and the position of a value.
//!
//! One type for both scales, so that a chart has one type whatever its axes are. plotters computes both scales. Every
//! extent is valid: finite, not empty, and above zero if logarithmic.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::{IntoLogRange, LogCoord};

use super::super::figures;
use crate::model::Scale;

/// The steps of a whole axis for the position of a mark.
const FINE: i32 = 1_000_000;
/// A logarithmic axis spans at most this many powers of ten; a double has 300, and no chart shows them.
const DECADES: i32 = 12;

/// An axis' range, and its ticks.
#[derive(Clone, Debug)]
pub(super) struct Extent {
    scale: Scale,
    from: f64,
    to: f64,
    ticks: Vec<f64>,
}

impl Extent {
    /// An axis of figures: from zero if linear; from a round figure below the minimum if logarithmic.
    pub(super) fn of_figures(scale: Scale, values: impl Iterator<Item = f64>, ticks: usize) -> Extent {
        let (least, most) = bounds(values.filter(|value| scale == Scale::Linear || *value > 0.0));
        match scale {
            Scale::Log if most > 0.0 => {
                let (from, to) = (round(least.max(most * 10f64.powi(-DECADES)), -1), round(most, 1));
                Extent { scale, from, to, ticks: log_ticks(from, to, ticks) }
            }
            Scale::Linear | Scale::Log => {
                let (from, to) = (least.min(0.0), most.max(0.0));
                let to = if to > from { to } else { from + 1.0 };
                Extent::linear(from, to, ticks).stretched()
            }
        }
    }

    /// An axis of the varied quantity: as wide as the data, and from zero where that is near.
    pub(super) fn of_inputs(scale: Scale, values: impl Iterator<Item = f64>, ticks: usize) -> Extent {
        let (least, most) = bounds(values);
        if scale == Scale::Log && least > 0.0 {
            let (from, to) = if most > least { (least, most) } else { (least / 2.0, most * 2.0) };
            return Extent { scale, from, to, ticks: log_ticks(from, to, ticks) };
        }
        let from = if least > 0.0 && least < 0.3 * most { 0.0 } else { least };
        let half = 1f64.max(least.abs() / 100.0);
        let (from, to) = if most > from { (from, most) } else { (least - half, least + half) };
        Extent::linear(from, to, ticks)
    }

    /// An axis without figures.
    pub(super) fn blank() -> Extent {
        Extent { scale: Scale::Linear, from: 0.0, to: 1.0, ticks: Vec::new() }
    }

    fn linear(from: f64, to: f64, ticks: usize) -> Extent {
        let ticks = RangedCoordf64::from(from..to).key_points(ticks);
        Extent { scale: Scale::Linear, from, to, ticks }
    }

    /// Extends the range to a tick, so that no line leaves the grid.
    fn stretched(mut self) -> Extent {
        if let [.., before, last] = self.ticks[..] {
            let next = last + (last - before);
            if last < self.to && next.is_finite() {
                self.to = next;
                self.ticks.push(next);
            }
        }
        self
    }

    /// With ticks at these values, except those closer than `apart` (a share of the axis) to the one before.
    pub(super) fn with_ticks(mut self, ticks: &[f64], apart: impl Fn(f64) -> f64) -> Extent {
        let mut kept: Vec<f64> = Vec::new();
        for &tick in ticks {
            let near = |&last: &f64| self.share(tick) - self.share(last) < (apart(tick) + apart(last)) / 2.0;
            if !kept.last().is_some_and(near) {
                kept.push(tick);
            }
        }
        self.ticks = kept;
        self
    }

    /// Without ticks that would overlap.
    pub(super) fn thinned(self, apart: impl Fn(f64) -> f64) -> Extent {
        let ticks = self.ticks.clone();
        self.with_ticks(&ticks, apart)
    }

    pub(super) fn ticks(&self) -> &[f64] {
        &self.ticks
    }

    /// The position of a value, as a share of the axis' length from its beginning.
    pub(super) fn share(&self, value: f64) -> f64 {
        let value = value.clamp(self.from, self.to);
        f64::from(self.map(&value, (0, FINE))) / f64::from(FINE)
    }

    /// The start of bars.
    pub(super) fn base(&self) -> f64 {
        match self.scale {
            Scale::Linear => self.share(0.0),
            Scale::Log => 0.0,
        }
    }
}

impl Ranged for Extent {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        match self.scale {
            Scale::Linear => RangedCoordf64::from(self.range()).map(value, limit),
            Scale::Log => LogCoord::from(self.range().log_scale()).map(value, limit),
        }
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.from..self.to
    }
}

impl ValueFormatter<f64> for Extent {
    fn format(value: &f64) -> String {
        figures::tick(*value)
    }
}

/// Minimum and maximum; zero and one without values.
fn bounds(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (least, most) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)));
    if least.is_finite() && most.is_finite() { (least, most) } else { (0.0, 1.0) }
}

/// The next of 1, 2, 5, 10 … strictly below (−1) or above (1) a figure above zero.
fn round(value: f64, direction: i32) -> f64 {
    #[allow(clippy::cast_possible_truncation)]
    let exponent = value.log10().floor() as i32;
    let near = (exponent - 1..=exponent + 1).flat_map(|e| [1.0, 2.0, 5.0].map(|step| step * 10f64.powi(e)));
    let (slack, mut near) = (1e-9, near.collect::<Vec<_>>());
    if direction < 0 {
        near.reverse();
    }
    let beyond = |step: &&f64| {
        if direction < 0 { **step < value * (1.0 - slack) } else { **step > value * (1.0 + slack) }
    };
    let round = near.iter().find(beyond).copied().unwrap_or(value);
    if round.is_finite() && round > 0.0 { round } else { value }
}

/// Ticks at 1, 2, 5 if there is room, else at powers of ten, else at some of these.
fn log_ticks(from: f64, to: f64, most: usize) -> Vec<f64> {
    #[allow(clippy::cast_possible_truncation)]
    let (low, high) = (from.log10().floor() as i32, to.log10().ceil() as i32);
    let within = |steps: &[f64], every: usize| -> Vec<f64> {
        let all = (low..=high).step_by(every).flat_map(|e| steps.iter().map(move |step| step * 10f64.powi(e)));
        all.filter(|tick| (from * 0.999_999..=to * 1.000_001).contains(tick)).collect()
    };
    let choices = [within(&[1.0, 2.0, 5.0], 1), within(&[1.0, 3.0], 1), within(&[1.0], 1), within(&[1.0], 2)];
    choices.into_iter().find(|ticks| ticks.len() <= most.max(2)).unwrap_or_else(|| within(&[1.0], 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_begin_at_zero_on_a_line_and_at_a_round_figure_on_a_logarithm() {
        let linear = Extent::of_figures(Scale::Linear, [120.0, 344.2].into_iter(), 6);
        assert_eq!(linear.ticks(), [0.0, 100.0, 200.0, 300.0, 400.0]);
        assert!((linear.share(200.0) - 0.5).abs() < 1e-3);
        let log = Extent::of_figures(Scale::Log, [12.0, 1800.0, 0.0].into_iter(), 8);
        assert_eq!(log.ticks(), [10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0]);
        assert!(log.share(0.0).abs() < 1e-3 && log.share(2000.0) > 0.999);
    }

    #[test]
    fn ticks_at_the_data_give_way_to_each_other() {
        let extent = Extent::of_inputs(Scale::Linear, [1.0, 2.0, 100.0].into_iter(), 5);
        assert_eq!(extent.with_ticks(&[1.0, 2.0, 50.0, 100.0], |_| 0.05).ticks(), [1.0, 50.0, 100.0]);
    }

    #[test]
    fn an_axis_of_one_value_or_none_still_spans_something() {
        for scale in [Scale::Linear, Scale::Log] {
            for values in [vec![], vec![0.0], vec![7.0], vec![-2.0], vec![1e-300], vec![1e300]] {
                for extent in [
                    Extent::of_figures(scale, values.iter().copied(), 5),
                    Extent::of_inputs(scale, values.iter().copied(), 5),
                ] {
                    assert!(extent.from < extent.to, "{scale:?} {values:?} {extent:?}");
                    assert!(values.iter().all(|v| (0.0..=1.0).contains(&extent.share(*v))), "{extent:?}");
                }
            }
        }
    }
}
