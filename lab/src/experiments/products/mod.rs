//! The experiment `products`.

use clap::Args;

use crate::lab::Lab;
use crate::length::Length;
use crate::model;
use crate::steps::{Experiment, Results, Stage, Step, Trouble};

/// What `weir lab products` understands besides what all do.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Options {
    /// Measure nothing: leave the app and its servers running to play with
    #[arg(long)]
    pub(crate) serve: bool,
}

/// Starts everything and says where the page is; returns when told to stop.
pub(crate) fn serve(_lab: &Lab, _options: &Options) -> Result<(), Trouble> {
    Err(Trouble::Failed("not built yet".into()))
}

/// The experiment at this length.
pub(crate) fn new(length: Length, _options: &Options) -> Box<dyn Experiment> {
    Box::new(Products { length })
}

struct Products {
    length: Length,
}

impl Experiment for Products {
    fn id(&self) -> &'static str {
        "products"
    }

    fn steps(&self) -> Vec<Step> {
        let _ = self.length;
        Vec::new()
    }

    fn open<'l>(&self, _lab: &'l Lab) -> Result<Box<dyn Stage + 'l>, Trouble> {
        Err(Trouble::Failed("not built yet".into()))
    }

    fn tell(&self, _results: &Results) -> model::Experiment {
        model::Experiment::empty("products", "products")
    }
}
