//! Values of labels.

/// The label of the sum of all that have no label of their own.
pub(super) const OTHERS: &str = "(others)";

/// A label's value, escaped (OpenMetrics, "ABNF"): the name of a database must not add lines to the output.
pub(super) fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}
