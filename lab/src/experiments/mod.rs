//! The experiments, each in a folder of its own: its options, its steps, its stage, and its evaluation.

pub(crate) mod node;
pub(crate) mod own;
pub(crate) mod pgbench;
pub(crate) mod products;
pub(crate) mod reconnect;
pub(crate) mod size;

use crate::length::Length;
use crate::steps::Experiment;

/// All published experiments and `size`, with their default options, in the order of a report.
pub(crate) fn all(length: Length) -> Vec<Box<dyn Experiment>> {
    vec![
        products::new(length, &products::Options::default()),
        pgbench::new(length, &pgbench::Options::default()),
        reconnect::new(length, &reconnect::Options::default()),
        node::new(length, &node::Options::default()),
        size::new(length, &size::Options::default()),
    ]
}
