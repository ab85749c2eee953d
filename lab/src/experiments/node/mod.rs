//! The experiment `node`.

use clap::Args;

use crate::lab::Lab;
use crate::length::Length;
use crate::model;
use crate::steps::{Experiment, Results, Stage, Step, Trouble};

/// What `weir lab node` understands besides what all do.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Options {}

/// The experiment at this length.
pub(crate) fn new(length: Length, _options: &Options) -> Box<dyn Experiment> {
    Box::new(Node { length })
}

struct Node {
    length: Length,
}

impl Experiment for Node {
    fn id(&self) -> &'static str {
        "node"
    }

    fn steps(&self) -> Vec<Step> {
        let _ = self.length;
        Vec::new()
    }

    fn open<'l>(&self, _lab: &'l Lab) -> Result<Box<dyn Stage + 'l>, Trouble> {
        Err(Trouble::Failed("not built yet".into()))
    }

    fn tell(&self, _results: &Results) -> model::Experiment {
        model::Experiment::empty("node", "node")
    }
}
