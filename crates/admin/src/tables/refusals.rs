//! SHOW REFUSALS, which PgBouncer does not have: who was refused, by what lay behind it.

use super::{Column, Facts, Row, numeric, text, text_column};
use crate::refusals::RefusalRecord;

pub(super) const REFUSALS: &[Column] = &[
    text_column("database"),
    text_column("user"),
    numeric("pool_full"),
    numeric("server_slow"),
    numeric("server_down"),
    numeric("limit_reached"),
    numeric("other"),
];

/// A row a pool, by database and user, and one for clients without.
pub(super) fn refusals(facts: &Facts<'_>) -> Vec<Row> {
    facts.report.refusals.iter().map(row).collect()
}

fn row(record: &RefusalRecord) -> Row {
    let (database, user) = record.pool.clone().unzip();
    [database, user].into_iter().chain(record.refusals.to_array().map(text)).collect()
}
