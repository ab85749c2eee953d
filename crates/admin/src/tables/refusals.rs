//! SHOW REFUSALS, which PgBouncer does not have: refused clients by cause.

use super::table::{Column, Row, Snapshot, numeric, text, text_column};
use crate::refusals::{CLASSES, RefusalRecord};

pub(super) const REFUSALS: &[Column] = &[
    text_column("database"),
    text_column("user"),
    numeric(CLASSES[0]),
    numeric(CLASSES[1]),
    numeric(CLASSES[2]),
    numeric(CLASSES[3]),
    numeric(CLASSES[4]),
];

/// One row for each pool, by database and user, and one for clients without.
pub(super) fn refusals(snapshot: &Snapshot<'_>) -> Vec<Row> {
    snapshot.report.refusals.iter().map(row).collect()
}

fn row(record: &RefusalRecord) -> Row {
    let (database, user) = record.pool.clone().unzip();
    [database, user].into_iter().chain(record.refusals.named().map(|(_, count)| text(count))).collect()
}
