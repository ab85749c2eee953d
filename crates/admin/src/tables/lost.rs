//! SHOW LOST_STATE, which PgBouncer does not have: session state that clients lost at the end of their
//! transactions, or were refused, or that was found late.

use super::table::{Column, Row, Snapshot, numeric, text, text_column};

pub(super) const LOST_STATE: &[Column] =
    &[text_column("database"), text_column("kind"), numeric("lost"), numeric("refused"), numeric("found_late")];

/// One row for each database and kind.
pub(super) fn lost_state(snapshot: &Snapshot<'_>) -> Vec<Row> {
    let row = |database: &str, (kind, count): (&str, crate::LostCounts)| {
        vec![text(database), text(kind), text(count.lost), text(count.refused), text(count.late)]
    };
    snapshot.report.stats.iter().flat_map(|of| of.counters.lost.named().map(|kind| row(&of.database, kind))).collect()
}
