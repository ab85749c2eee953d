//! The one table of settings. A new setting is one entry here and the field that it fills.

mod limits;
mod pool;
mod process;

use crate::table::Setting;

/// All settings, in the order of the reference page.
pub(crate) fn all() -> impl Iterator<Item = &'static Setting> {
    process::SETTINGS.iter().chain(limits::SETTINGS).chain(pool::SETTINGS)
}
