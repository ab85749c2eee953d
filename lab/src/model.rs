//! The content of a report, as values: the source of the terminal's tables, the JSON file and the HTML page.
//!
//! Owns the parts of a report, and their JSON form, which `compare` reads: a field that changes its meaning needs
//! another [`FORMAT`]. Must not know how anything was measured, nor how it is rendered.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::length::Length;

/// The version of the JSON form.
pub(crate) const FORMAT: u32 = 1;

/// A whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Report {
    /// The [`FORMAT`] of the program that wrote it.
    pub(crate) format: u32,
    /// The command line that made the report.
    pub(crate) command: String,
    pub(crate) length: Length,
    /// When the run began and ended, as RFC 3339 in UTC.
    pub(crate) began: String,
    pub(crate) ended: String,
    pub(crate) machine: Machine,
    /// Programs and their versions, as each prints it: `pgbench` → `15.18`.
    pub(crate) versions: BTreeMap<String, String>,
    pub(crate) experiments: Vec<Experiment>,
}

/// The machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) cores: usize,
    /// The processor's name, if the kernel reports it.
    pub(crate) processor: String,
    pub(crate) memory_bytes: u64,
    /// Name and release, as of `uname -sr`.
    pub(crate) kernel: String,
    /// The distribution's name.
    pub(crate) system: String,
}

/// One experiment: question, setup, results and verdicts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Experiment {
    /// Short and permanent: `pgbench`.
    pub(crate) id: String,
    pub(crate) title: String,
    /// The experiment's question, in a sentence or two.
    pub(crate) question: String,
    /// The repeated article: title, author, place. Empty for our own experiments.
    pub(crate) source: String,
    /// The setup: one sentence an entry.
    pub(crate) setup: Vec<String>,
    pub(crate) tables: Vec<Table>,
    pub(crate) charts: Vec<Chart>,
    pub(crate) claims: Vec<Claim>,
    /// What the original does not mention, and a reader needs to know.
    pub(crate) hides: Vec<String>,
    /// Why some figures here are unreliable.
    pub(crate) warnings: Vec<String>,
    pub(crate) missing: Vec<Missing>,
    pub(crate) commands: Vec<Ran>,
}

/// A table, rows by columns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Table {
    pub(crate) title: String,
    /// What the rows are: `clients`.
    pub(crate) rows_are: String,
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Row>,
    /// A sentence below the table, or nothing.
    pub(crate) note: String,
}

/// The head of a column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Column {
    pub(crate) title: String,
    /// `ms`, `1/s`, `%`; empty for none.
    pub(crate) unit: String,
    /// The better direction; `None` if there is none. `compare` uses it.
    pub(crate) better: Option<Better>,
}

/// The better direction of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Better {
    Higher,
    Lower,
}

/// A row: its name, and a cell for each column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) label: String,
    pub(crate) cells: Vec<Cell>,
}

/// A measured value, beside a published one. Both may be absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cell {
    pub(crate) ours: Option<Value>,
    pub(crate) published: Option<Value>,
}

/// A figure, or words where there is none (`refused`, `not installed`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Value {
    Number {
        value: f64,
        /// The minimum and maximum of the repetitions whose median is `value`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        spread: Option<(f64, f64)>,
    },
    Text(String),
}

/// A chart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) kind: ChartKind,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    /// For a bar chart: the name of the group at x = 0, 1, 2 …
    pub(crate) groups: Vec<String>,
    pub(crate) series: Vec<Series>,
    /// A sentence below the chart, or nothing.
    pub(crate) note: String,
}

/// The kind of a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ChartKind {
    /// Points joined by lines.
    Lines,
    /// Bars side by side, a group for each x.
    Bars,
}

/// An axis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Axis {
    pub(crate) title: String,
    pub(crate) unit: String,
    pub(crate) scale: Scale,
}

/// The scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Scale {
    Linear,
    Log,
}

/// One line, or one colour of bars.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) origin: Origin,
    /// x and y; a point without a measurement is left out.
    pub(crate) points: Vec<(f64, f64)>,
}

/// The origin of a series' figures; each is drawn differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Origin {
    /// Measured in this run.
    Measured,
    /// Printed in the article.
    Published,
    /// Calculated from a law.
    Calculated,
}

/// From this change on, in per cent, there is one.
pub(crate) const NO_CHANGE: f64 = 0.1;
/// What is said of a smaller one.
pub(crate) const NO_DIFFERENCE: &str = "no difference";

/// A claim of the article, or of ours, and this run's verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claim {
    pub(crate) text: String,
    pub(crate) verdict: Verdict,
    /// The reason, with the figures that decided the claim.
    pub(crate) why: String,
    /// How near the deciding ratio was to its limit, in thousandths, where the verdict rests on a comparison.
    #[serde(skip)]
    nearness: Option<u32>,
}

/// A ratio of figures from seconds of load, without repetitions, decides nothing nearer to its limit than this, in
/// thousandths: two such runs of the same program differ by as much.
const UNDECIDED: u32 = 250;

/// The verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    Held,
    NotHeld,
    /// The figures that decide it were not measured, or can't decide it.
    Open,
}

/// A program that was not found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Missing {
    pub(crate) what: String,
    /// What was left out without the program.
    pub(crate) effect: String,
    /// The command that installs the program.
    pub(crate) get: String,
}

/// A command that was run, and the file of its output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ran {
    pub(crate) what: String,
    pub(crate) line: String,
    /// Relative to the report's folder: `raw/pgbench-direct-50.txt`.
    pub(crate) raw: String,
}

impl Experiment {
    /// An experiment without content yet.
    pub(crate) fn empty(id: &str, title: &str) -> Experiment {
        let (id, title) = (id.to_owned(), title.to_owned());
        Experiment {
            id,
            title,
            question: String::new(),
            source: String::new(),
            setup: Vec::new(),
            tables: Vec::new(),
            charts: Vec::new(),
            claims: Vec::new(),
            hides: Vec::new(),
            warnings: Vec::new(),
            missing: Vec::new(),
            commands: Vec::new(),
        }
    }
}

impl Value {
    /// One measured figure. A division by zero is no figure, and JSON has no form for it.
    pub(crate) fn number(value: f64) -> Value {
        if value.is_finite() { Value::Number { value, spread: None } } else { Value::text("no figure") }
    }

    /// A change in per cent; none is said in words.
    pub(crate) fn change(percent: f64) -> Value {
        if percent.abs() < NO_CHANGE { Value::text(NO_DIFFERENCE) } else { Value::number(percent) }
    }

    /// Words in place of a figure.
    pub(crate) fn text(text: impl Into<String>) -> Value {
        Value::Text(text.into())
    }

    /// The median of repetitions with their spread; `None` without any.
    pub(crate) fn median(values: &[f64]) -> Option<Value> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (first, last) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let value =
            if sorted.len() % 2 == 1 { sorted[middle] } else { f64::midpoint(sorted[middle - 1], sorted[middle]) };
        Some(Value::Number { value, spread: (sorted.len() > 1).then_some((first, last)) })
    }

    /// The figure, if it is one.
    pub(crate) fn as_number(&self) -> Option<f64> {
        match self {
            Value::Number { value, .. } => Some(*value),
            Value::Text(_) => None,
        }
    }
}

impl Cell {
    /// A measured value without a published one.
    pub(crate) fn ours(value: Value) -> Cell {
        Cell { ours: Some(value), published: None }
    }

    /// A measured and a published value; either may be absent.
    pub(crate) fn both(ours: Option<Value>, published: Option<Value>) -> Cell {
        Cell { ours, published }
    }
}

impl Claim {
    /// A claim decided by a condition; `None` where the deciding figures were not measured.
    pub(crate) fn decided(text: impl Into<String>, held: Option<bool>, why: impl Into<String>) -> Claim {
        let verdict = match held {
            Some(true) => Verdict::Held,
            Some(false) => Verdict::NotHeld,
            None => Verdict::Open,
        };
        Claim { text: text.into(), verdict, why: why.into(), nearness: None }
    }

    /// That the verdict rests on a comparison: whether this ratio is beyond the limit. Of several ratios the nearest
    /// counts.
    pub(crate) fn by(self, ratio: f64, limit: f64) -> Claim {
        // A cast from a float saturates; what is no number is as near as can be.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let away = ((ratio / limit - 1.0).abs() * 1000.0) as u32;
        Claim { nearness: Some(self.nearness.map_or(away, |nearness| nearness.min(away))), ..self }
    }

    /// As a run of this length can decide it: a short one leaves close comparisons open, whichever way they went.
    pub(crate) fn settled(self, length: Length) -> Claim {
        let undecided = match length {
            Length::Smoke => u32::MAX,
            Length::Quick => UNDECIDED,
            Length::Standard | Length::Article | Length::File => 0,
        };
        if self.verdict == Verdict::Open || self.nearness.is_none_or(|nearness| nearness >= undecided) {
            return self;
        }
        let why = format!("{} One short run can't decide this: try --standard.", self.why.trim_end());
        Claim { verdict: Verdict::Open, why, ..self }
    }

    /// As a short run can decide it that shared the machine with other programs in most of its steps: no comparison of its
    /// figures is.
    pub(crate) fn disturbed(self) -> Claim {
        if self.verdict == Verdict::Open || self.nearness.is_none() {
            return self;
        }
        let why = format!(
            "{} Other programs used the machine meanwhile, which a short run can't tell apart: try again, or --standard.",
            self.why.trim_end()
        );
        Claim { verdict: Verdict::Open, why, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between_the_two_in_the_middle() {
        assert_eq!(Value::median(&[4.0, 1.0, 3.0, 2.0]), Some(Value::Number { value: 2.5, spread: Some((1.0, 4.0)) }));
        assert_eq!(Value::median(&[7.0]), Some(Value::number(7.0)));
        assert_eq!(Value::median(&[]), None);
    }

    #[test]
    fn a_disturbed_run_decides_what_is_counted_and_no_comparison() {
        let counted = Claim::decided("a", Some(false), "why.");
        assert_eq!(counted.clone().disturbed(), counted);
        for held in [true, false] {
            let claim = Claim::decided("a", Some(held), "why.").by(0.5, 1.0).disturbed();
            assert_eq!(claim.verdict, Verdict::Open);
            assert!(claim.why.starts_with("why. Other programs used"), "{}", claim.why);
        }
    }

    #[test]
    fn a_short_run_leaves_close_comparisons_open_whichever_way_they_went() {
        let claim = |held, ratio| Claim::decided("a", Some(held), "why.").by(ratio, 1.0);
        for (length, held, ratio, verdict) in [
            (Length::Quick, false, 0.97, Verdict::Open),
            (Length::Quick, true, 1.03, Verdict::Open),
            (Length::Quick, true, f64::NAN, Verdict::Open),
            (Length::Quick, false, 0.5, Verdict::NotHeld),
            (Length::Quick, true, 2.0, Verdict::Held),
            (Length::Smoke, true, 9.0, Verdict::Open),
            (Length::Standard, false, 0.97, Verdict::NotHeld),
        ] {
            assert_eq!(claim(held, ratio).settled(length).verdict, verdict, "{length} {held} {ratio}");
        }
        let open = claim(false, 0.97).settled(Length::Quick);
        assert_eq!(open.why, "why. One short run can't decide this: try --standard.");
        assert_eq!(claim(false, 0.5).by(0.9, 1.0).settled(Length::Quick).verdict, Verdict::Open, "the nearest counts");
        let counted = Claim::decided("a", Some(false), "");
        assert_eq!(counted.settled(Length::Quick).verdict, Verdict::NotHeld, "what is counted is decided by one run");
    }

    #[test]
    fn a_change_of_nothing_is_no_difference() {
        assert_eq!(Value::change(-0.05), Value::text("no difference"));
        assert_eq!(Value::change(-0.7), Value::number(-0.7));
    }

    #[test]
    fn a_value_reads_back_as_it_was_written() {
        for value in
            [Value::number(1.5), Value::number(f64::NAN), Value::median(&[1.0, 2.0]).unwrap(), Value::text("refused")]
        {
            let json = serde_json::to_string(&value).unwrap();
            assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), value);
        }
    }
}
