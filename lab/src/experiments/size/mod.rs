//! The experiment `size`: throughput and latency against the pool's size, and the prediction of Little's law.
//!
//! Our own experiment, because the articles disagree. Three workloads, which differ in how much of a transaction is
//! waiting.

mod evaluate;
mod plan;
mod stage;

use clap::Args;

use crate::lab::Lab;
use crate::length::Length;
use crate::machine;
use crate::model;
use crate::steps::{Experiment, LabError, Results, Stage, Step};
use plan::Plan;

/// The options of `weir lab size` beside the common ones.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Options {
    /// Seconds a run [default: 60; with --standard 5, with --quick 3]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    duration: Option<u32>,
}

/// The experiment at this length.
pub(crate) fn new(length: Length, options: &Options) -> Box<dyn Experiment> {
    let cores = u32::try_from(machine::cores()).unwrap_or(1);
    Box::new(Size { plan: Plan::new(length, options.duration, cores) })
}

struct Size {
    plan: Plan,
}

impl Experiment for Size {
    fn id(&self) -> &'static str {
        "size"
    }

    fn options(&self) -> String {
        format!("seconds={}", self.plan.seconds)
    }

    fn steps(&self) -> Vec<Step> {
        self.plan.tasks().into_iter().map(|task| self.plan.step(task)).collect()
    }

    fn opening_seconds(&self) -> f64 {
        4.0 + 0.09 * f64::from(self.plan.scale)
    }

    fn open<'l>(&self, lab: &'l Lab) -> Result<Box<dyn Stage + 'l>, LabError> {
        Ok(Box::new(stage::Bench::open(lab, &self.plan)?))
    }

    fn evaluate(&self, results: &Results) -> model::Experiment {
        evaluate::evaluate(&self.plan, results)
    }
}
