//! What a report says, as values: the one source of the terminal's tables, the JSON file and the HTML page.
//!
//! Owns the words and shapes of a report, and their JSON form, which `compare` reads again: a field that changes its
//! meaning needs another [`FORMAT`]. Must not know how anything was measured, nor how it is drawn.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::length::Length;

/// The version of the JSON form.
pub(crate) const FORMAT: u32 = 1;

/// A whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Report {
    /// [`FORMAT`] of the program that wrote it.
    pub(crate) format: u32,
    /// The command line that made it.
    pub(crate) command: String,
    pub(crate) length: Length,
    /// When it began and ended, as RFC 3339 in UTC.
    pub(crate) began: String,
    pub(crate) ended: String,
    pub(crate) machine: Machine,
    /// Programs and their versions, in the words of each: `pgbench` → `15.18`.
    pub(crate) versions: BTreeMap<String, String>,
    pub(crate) experiments: Vec<Experiment>,
}

/// Where it ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) cores: usize,
    /// The processor's own name, where the kernel tells it.
    pub(crate) processor: String,
    pub(crate) memory_bytes: u64,
    /// Name and release, as of `uname -sr`.
    pub(crate) kernel: String,
    /// The distribution's name.
    pub(crate) system: String,
}

/// One experiment: what was asked, what came out, and what follows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Experiment {
    /// Short and stable: `pgbench`.
    pub(crate) id: String,
    pub(crate) title: String,
    /// What it asks, in a sentence or two.
    pub(crate) question: String,
    /// The article that it reruns: title, author, place. Empty for those of our own.
    pub(crate) source: String,
    /// How it was set up: one sentence an entry.
    pub(crate) setup: Vec<String>,
    pub(crate) tables: Vec<Table>,
    pub(crate) charts: Vec<Chart>,
    pub(crate) claims: Vec<Claim>,
    /// What the original does not say, and one should know to read its figures.
    pub(crate) hides: Vec<String>,
    /// Why some figure here is not to be trusted.
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
    /// A sentence below it, or nothing.
    pub(crate) note: String,
}

/// The head of a column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Column {
    pub(crate) title: String,
    /// `ms`, `1/s`, `%`; empty for none.
    pub(crate) unit: String,
    /// Which is better; `None` where neither is. `compare` says by it who won.
    pub(crate) better: Option<Better>,
}

/// Which direction of a figure is the better one.
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

/// What was measured here, beside what was published. Both may be absent.
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
        /// The least and the most of the repetitions whose median `value` is.
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
    /// Of a bar chart: the name of the group at x = 0, 1, 2 …
    pub(crate) groups: Vec<String>,
    pub(crate) series: Vec<Series>,
    /// A sentence below it, or nothing.
    pub(crate) note: String,
}

/// How a chart is drawn.
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

/// How an axis counts.
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

/// Where a series' figures come from; drawn differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Origin {
    /// Measured in this run.
    Measured,
    /// Printed in the article.
    Published,
    /// Follows from a law, not from a clock.
    Calculated,
}

/// A claim of the article, or of ours, and what this run says to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claim {
    pub(crate) text: String,
    pub(crate) verdict: Verdict,
    /// With the figures that decided it.
    pub(crate) why: String,
}

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    Held,
    NotHeld,
    /// What it would take to decide was not measured.
    Open,
}

/// A program that was not there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Missing {
    pub(crate) what: String,
    /// What was left out for it.
    pub(crate) effect: String,
    /// The command that gets it.
    pub(crate) get: String,
}

/// A command that was run, and where its output is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ran {
    pub(crate) what: String,
    pub(crate) line: String,
    /// Relative to the report's folder: `raw/pgbench-direct-50.txt`.
    pub(crate) raw: String,
}

impl Experiment {
    /// One with nothing to tell yet.
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
    /// One measured figure. A division by nothing is no figure, and JSON has no word for it.
    pub(crate) fn number(value: f64) -> Value {
        if value.is_finite() { Value::Number { value, spread: None } } else { Value::text("no figure") }
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
    /// Measured, with nothing published to set beside it.
    pub(crate) fn ours(value: Value) -> Cell {
        Cell { ours: Some(value), published: None }
    }

    /// Measured and published; either may be absent.
    pub(crate) fn both(ours: Option<Value>, published: Option<Value>) -> Cell {
        Cell { ours, published }
    }
}

impl Claim {
    /// Decided by a condition; `None` where what decides it was not measured.
    pub(crate) fn decided(text: impl Into<String>, held: Option<bool>, why: impl Into<String>) -> Claim {
        let verdict = match held {
            Some(true) => Verdict::Held,
            Some(false) => Verdict::NotHeld,
            None => Verdict::Open,
        };
        Claim { text: text.into(), verdict, why: why.into() }
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
    fn a_value_reads_back_as_it_was_written() {
        for value in
            [Value::number(1.5), Value::number(f64::NAN), Value::median(&[1.0, 2.0]).unwrap(), Value::text("refused")]
        {
            let json = serde_json::to_string(&value).unwrap();
            assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), value);
        }
    }
}
