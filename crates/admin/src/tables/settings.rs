//! SHOW CONFIG: the global settings, with their values and defaults.

use super::table::{Column, Row, Snapshot, text, text_column};

pub(super) const CONFIG: &[Column] =
    &[text_column("key"), text_column("value"), text_column("default"), text_column("changeable")];

/// One row for each setting, by key. The configuration's own list leaves secrets out.
pub(super) fn config(snapshot: &Snapshot<'_>) -> Vec<Row> {
    let changeable = |yes: bool| if yes { "yes" } else { "no" };
    let mut rows = weir_config::show(snapshot.config);
    if snapshot.hides_queries {
        rows.iter_mut().for_each(weir_config::ShowRow::hide_query);
    }
    let rows = rows.into_iter();
    rows.map(|row| vec![text(row.key), text(row.value), row.default, text(changeable(row.changeable))]).collect()
}
