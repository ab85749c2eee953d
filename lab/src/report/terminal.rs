//! A report as text for a terminal.

use crate::model::Report;

/// The whole report as text.
pub(crate) fn text(report: &Report) -> String {
    format!("{}\n", report.command)
}
