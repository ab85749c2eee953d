//! How long a run takes: from a few minutes for a first look to the articles' own durations.
//!
//! Owns the lengths and their names. Each experiment decides what a length means for its own steps.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How long, and so how trustworthy, a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Length {
    /// Every step for a moment: whether everything works, for tests. Its figures mean nothing.
    Smoke,
    /// All experiments in a few minutes: the shape shows, the decimals do not.
    Quick,
    /// All experiments in under an hour.
    Standard,
    /// The durations of the articles: hours.
    Article,
    /// As long as the file of a lab of one's own says.
    File,
}

impl Length {
    /// The one of four values that belongs to this length; the last where a file has no say in it.
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
