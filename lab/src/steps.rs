//! The interface of an experiment to the runner: steps that are run one by one, and an evaluation of their results.
//!
//! Owns the two halves that must not mix. *Measuring* (a [`Stage`]) does I/O and returns plain data; *evaluating*
//! ([`Experiment::evaluate`]) is a pure function of that data, so that a report can be made again without measuring,
//! an interrupted run resumes, and claims are tested without servers.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::lab::Lab;
use crate::model::{self, Missing, Ran};

/// One measurement, the unit of progress and of resuming.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Step {
    /// Unique in its experiment, and the same in every run of the same plan: `direct-50`.
    pub(crate) id: String,
    /// For the progress: `direct, 50 clients`.
    pub(crate) title: String,
    /// The estimated duration; only used for the time left.
    pub(crate) seconds: f64,
}

/// An experiment: its steps, and the evaluation of their results.
pub(crate) trait Experiment {
    /// Short and permanent: `pgbench`.
    fn id(&self) -> &'static str;

    /// The options beyond the length: `scale=20`. A run with other options can't be resumed.
    fn options(&self) -> String {
        String::new()
    }

    /// All steps, in order.
    fn steps(&self) -> Vec<Step>;

    /// The estimated duration of [`Experiment::open`], in seconds.
    fn opening_seconds(&self) -> f64 {
        5.0
    }

    /// Starts what the steps need: servers, data, programs. Called only if there are steps to run.
    ///
    /// Fails only for what every step needs; what some steps need is their own [`LabError::Missing`].
    fn open<'l>(&self, lab: &'l Lab) -> Result<Box<dyn Stage + 'l>, LabError>;

    /// Evaluates the results, complete or not. The runner adds the steps' commands, warnings and missing programs, and
    /// failed steps.
    fn evaluate(&self, results: &Results) -> model::Experiment;
}

/// An experiment's servers and programs, which end when it is dropped.
pub(crate) trait Stage {
    /// Runs one step.
    fn take(&mut self, step: &Step) -> Result<Measured, LabError>;
}

/// The result of a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// For the progress, in one line: `344.2 TPS, 421 ms`.
    pub(crate) headline: String,
    /// The experiment's own type, by [`Measured::of`].
    pub(crate) data: serde_json::Value,
    pub(crate) ran: Vec<Ran>,
    pub(crate) warnings: Vec<String>,
    /// The share of the machine's time that other programs used during the step, 0 to 1; set by the runner.
    #[serde(default)]
    pub(crate) foreign: f64,
}

impl Measured {
    /// Wraps an experiment's own data.
    pub(crate) fn of(headline: impl Into<String>, data: &impl Serialize) -> Measured {
        let data = serde_json::to_value(data).expect("plain data with string keys becomes JSON");
        Measured { headline: headline.into(), data, ran: Vec::new(), warnings: Vec::new(), foreign: 0.0 }
    }

    /// With the commands that were run for it.
    pub(crate) fn ran(mut self, ran: impl IntoIterator<Item = Ran>) -> Measured {
        self.ran.extend(ran);
        self
    }

    /// With a reason why it is unreliable.
    pub(crate) fn warn(mut self, warning: impl Into<String>) -> Measured {
        self.warnings.push(warning.into());
        self
    }
}

/// Why a step has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LabError {
    /// A program is not installed. The run continues.
    Missing(Missing),
    /// Another error, in words for a reader. The run continues.
    Failed(String),
}

impl LabError {
    /// An error while doing `what`.
    pub(crate) fn at(what: impl std::fmt::Display, error: impl std::fmt::Display) -> LabError {
        LabError::Failed(format!("{what}: {error}"))
    }
}

impl From<weir_pglocal::Error> for LabError {
    fn from(error: weir_pglocal::Error) -> LabError {
        LabError::Failed(error.to_string())
    }
}

impl From<weir_pgclient::Error> for LabError {
    fn from(error: weir_pgclient::Error) -> LabError {
        LabError::Failed(error.to_string())
    }
}

impl std::fmt::Display for LabError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LabError::Missing(missing) => write!(f, "{} is not here; to get it: {}", missing.what, missing.get),
            LabError::Failed(text) => f.write_str(text),
        }
    }
}

/// The outcome of a step in the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Outcome {
    Done(Measured),
    Missing(Missing),
    Failed(String),
}

/// The outcomes of one experiment's steps so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Results {
    outcomes: BTreeMap<String, Outcome>,
}

impl Results {
    pub(crate) fn new(outcomes: BTreeMap<String, Outcome>) -> Results {
        Results { outcomes }
    }

    /// A step's data; `None` if it was not run or has no result.
    ///
    /// # Panics
    /// If the data is not a `T`: the journal's key includes the program's version, so that is a bug.
    pub(crate) fn get<T: DeserializeOwned>(&self, step: &str) -> Option<T> {
        match self.outcomes.get(step)? {
            Outcome::Done(measured) => {
                Some(serde_json::from_value(measured.data.clone()).unwrap_or_else(|e| panic!("step {step}: {e}")))
            }
            Outcome::Missing(_) | Outcome::Failed(_) => None,
        }
    }

    /// In a word or two why a step has no figure: `not installed`, `failed`, `not run`; `None` if it has one.
    pub(crate) fn lack(&self, step: &str) -> Option<&'static str> {
        match self.outcomes.get(step) {
            Some(Outcome::Done(_)) => None,
            Some(Outcome::Missing(_)) => Some("not installed"),
            Some(Outcome::Failed(_)) => Some("failed"),
            None => Some("not run"),
        }
    }

    /// A table's cell: `f` of a step's data, or the word for the reason why there is none.
    pub(crate) fn value<T: DeserializeOwned>(&self, step: &str, f: impl FnOnce(T) -> model::Value) -> model::Value {
        match (self.get(step), self.lack(step)) {
            (Some(data), _) => f(data),
            (None, lack) => model::Value::text(lack.unwrap_or("not run")),
        }
    }

    /// All outcomes, by step id.
    pub(crate) fn outcomes(&self) -> &BTreeMap<String, Outcome> {
        &self.outcomes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_reads_back_as_what_it_was_and_a_lack_has_a_word() {
        let missing = Missing { what: "Go".into(), effect: String::new(), get: "apt-get install golang".into() };
        let results = Results::new(BTreeMap::from([
            ("a".to_owned(), Outcome::Done(Measured::of("", &(7, "x")))),
            ("b".to_owned(), Outcome::Missing(missing)),
        ]));
        assert_eq!(results.get::<(u32, String)>("a"), Some((7, "x".to_owned())));
        assert_eq!(
            (results.lack("a"), results.lack("b"), results.lack("c")),
            (None, Some("not installed"), Some("not run"))
        );
        assert_eq!(results.value::<u32>("b", |_| model::Value::number(1.0)), model::Value::text("not installed"));
    }
}
