//! The lengths of a run: from a few minutes for a first look to the articles' own durations.
//!
//! Owns the lengths and their names. Each experiment decides what a length means for its own steps.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How long a run is, and so how reliable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Length {
    /// Each step for a moment, as a test that everything works. Its figures mean nothing.
    Smoke,
    /// All experiments in a few minutes: trends are visible, decimals mean nothing.
    Quick,
    /// All experiments in under an hour.
    Standard,
    /// The durations of the articles: hours.
    Article,
    /// As configured in the file of a custom experiment.
    File,
}

impl Length {
    /// Selects the value of this length; the last one for a custom experiment.
    pub(crate) fn pick<T>(self, smoke: T, quick: T, standard: T, article: T) -> T {
        match self {
            Length::Smoke => smoke,
            Length::Quick => quick,
            Length::Standard => standard,
            Length::Article | Length::File => article,
        }
    }
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Length::Smoke => "smoke",
            Length::Quick => "quick",
            Length::Standard => "standard",
            Length::Article => "article",
            Length::File => "file",
        })
    }
}
