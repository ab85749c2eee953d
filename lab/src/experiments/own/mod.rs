//! A lab of one's own: targets, a workload and repetitions from a file.

use std::path::PathBuf;

use clap::Args;

use crate::lab::Lab;
use crate::length::Length;
use crate::model;
use crate::steps::{Experiment, Results, Stage, Step, Trouble};

/// Shown by `weir lab run --help`: a file to begin with.
pub(crate) const HELP: &str = "";

/// What `weir lab run` understands besides what all do.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// What to measure: targets, workload, repetitions
    #[arg(value_name = "FILE.toml")]
    file: PathBuf,
}

/// The experiment that the file describes.
///
/// # Errors
/// What is wrong with the file, and in which line.
pub(crate) fn new(length: Length, options: &Options) -> Result<Box<dyn Experiment>, Trouble> {
    let _ = &options.file;
    Ok(Box::new(Own { length }))
}

struct Own {
    length: Length,
}

impl Experiment for Own {
    fn id(&self) -> &'static str {
        "own"
    }

    fn steps(&self) -> Vec<Step> {
        let _ = self.length;
        Vec::new()
    }

    fn open<'l>(&self, _lab: &'l Lab) -> Result<Box<dyn Stage + 'l>, Trouble> {
        Err(Trouble::Failed("not built yet".into()))
    }

    fn tell(&self, _results: &Results) -> model::Experiment {
        model::Experiment::empty("own", "own")
    }
}
