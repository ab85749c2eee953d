//! The one table of settings. A new setting is one entry here and the field that it fills.

mod alerts;
mod auth;
mod cluster;
mod general;
mod inert;
mod limits;
mod listen;
mod log;
mod oidc;
mod peers;
mod pool;
mod process;
mod servers;
mod telemetry;
mod tls;
mod users;
mod web;

use crate::table::{Reach, Section, Setting};

/// All settings, in the order of the reference page.
pub(crate) fn all() -> impl Iterator<Item = &'static Setting> {
    let parts = [
        general::SETTINGS,
        listen::SETTINGS,
        auth::SETTINGS,
        tls::SETTINGS,
        process::SETTINGS,
        web::SETTINGS,
        oidc::SETTINGS,
        alerts::SETTINGS,
        telemetry::SETTINGS,
        log::SETTINGS,
        limits::SETTINGS,
        users::SETTINGS,
        peers::SETTINGS,
        cluster::SETTINGS,
        servers::SETTINGS,
        pool::SETTINGS,
        inert::SETTINGS,
    ];
    parts.into_iter().flatten()
}

/// The setting of a pool that has PgBouncer's name `key` in a connection string.
pub(crate) fn find_ini_database(key: &str) -> Option<&'static Setting> {
    all().find(|setting| setting.ini_database.contains(&key))
}

impl Section {
    /// The settings of the section; for a pool also those that have a global value.
    pub(crate) fn settings(self) -> impl Iterator<Item = &'static Setting> {
        all().filter(move |s| s.section == self || (self == Section::Pool && s.reach == Reach::PerPool))
    }

    /// The setting of this name or alias.
    pub(crate) fn find(self, name: &str) -> Option<&'static Setting> {
        self.settings().find(|s| s.name == name || s.aliases.contains(&name))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_name_is_given_twice() {
        let mut seen = BTreeSet::new();
        for setting in all() {
            for name in setting.aliases.iter().chain([&setting.name]) {
                assert!(seen.insert(format!("{}.{name}", setting.section.name())), "{name}");
            }
            if let Some(name) = setting.ini.filter(|_| !setting.is_inert()) {
                assert!(seen.insert(format!("[pgbouncer] {name}")), "{name}");
            }
            for name in setting.ini_database {
                assert!(seen.insert(format!("[databases] {name}")), "{name}");
            }
            if let Some(name) = setting.ini_user {
                assert!(seen.insert(format!("[users] {name}")), "{name}");
            }
        }
    }
}
