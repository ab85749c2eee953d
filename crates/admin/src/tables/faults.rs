//! SHOW FAULTS, which PgBouncer does not have: what is wrong with Weir itself.

use crate::clock::timestamp;

use super::table::{Column, Row, Snapshot, text, text_column};

pub(super) const FAULTS: &[Column] =
    &[text_column("kind"), text_column("state"), text_column("since"), text_column("summary"), text_column("advice")];

/// One row for each fault, the worst first.
pub(super) fn faults(snapshot: &Snapshot<'_>) -> Vec<Row> {
    let state = |problem| if problem { "now" } else { "ahead" };
    let faults = snapshot.report.faults.iter();
    faults
        .map(|fault| {
            let since = timestamp(fault.since);
            vec![text(fault.kind), text(state(fault.problem)), text(since), text(&fault.summary), text(&fault.advice)]
        })
        .collect()
}
