//! Values of labels.

/// The label of what has no label of its own, as one sum.
pub(super) const OTHERS: &str = "(others)";

/// A label's value as the format wants it (OpenMetrics, "ABNF"): whoever names a database may not write our lines.
pub(super) fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}
