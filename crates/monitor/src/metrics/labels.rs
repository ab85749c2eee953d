//! Values of labels, and counters with labels.

use std::fmt;

use prometheus_client::encoding::{EncodeLabelSet, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::exemplar::Exemplar;

/// The label of the sum of all that have no label of their own.
pub(super) const OTHERS: &str = "(others)";

/// A label's value, escaped (OpenMetrics, "ABNF"): the name of a database must not add lines to the output.
pub(super) fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

/// One counter of a family.
pub(super) fn count_of(family: &mut MetricEncoder<'_>, labels: &impl EncodeLabelSet, count: u64) -> fmt::Result {
    let none: Option<&Exemplar<NoLabelSet, f64>> = None;
    family.encode_family(labels)?.encode_counter(&count, none)
}
