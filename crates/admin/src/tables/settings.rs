//! SHOW CONFIG.

use super::{Column, Facts, Row, text_column};

pub(super) const CONFIG: &[Column] =
    &[text_column("key"), text_column("value"), text_column("default"), text_column("changeable")];

pub(super) fn config(_: &Facts<'_>) -> Vec<Row> {
    Vec::new()
}
