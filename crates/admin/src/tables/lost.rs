//! SHOW LOST_STATE, which PgBouncer does not have: session state that clients lost at the end of their transactions.

use super::table::{Column, Row, Snapshot, numeric, text, text_column};

pub(super) const LOST_STATE: &[Column] =
    &[text_column("database"), text_column("kind"), numeric("lost"), numeric("refused")];

/// One row for each database and kind.
pub(super) fn lost_state(snapshot: &Snapshot<'_>) -> Vec<Row> {
    let row = |database: &str, (kind, count): (&str, crate::LostCounts)| {
        vec![text(database), text(kind), text(count.lost), text(count.refused)]
    };
    snapshot.report.stats.iter().flat_map(|of| of.counters.lost.named().map(|kind| row(&of.database, kind))).collect()
}
