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
    use crate::kind::Kind;
    use crate::model::{Config, PeerRules, ServerRules, UserRules};
    use crate::pool_text::PoolText;

    /// Values that a kind of lists, words or addresses must refuse: mistyped, or with a port that there can't be.
    fn refused(kind: Kind) -> &'static [&'static str] {
        match kind {
            Kind::Word(_) | Kind::Words(_) => &["slwo", "slow?", "x,y"],
            Kind::Url => &["h", "http://h:99999/", "http://h:x", "ftp://h", "http://h x", "http://"],
            Kind::Origins => &["h", "http://h:99999", "http://h/x", "http://a@h", "http://h,h"],
            Kind::Host => &["h:1", "h:99999", "[::1]:1", "./x", "h x"],
            Kind::Addresses => &["127.0.0.1:6432", "127.0.0.1:99999", "10.0.0.300", "h", "127.0.0.1,x"],
            Kind::Networks => &["10.0.0.0/33", "h/8", "10.0.0.0/8,x"],
            Kind::Ports => &["0", "65536", "x", "5432,65536"],
            _ => &[],
        }
    }

    fn write(setting: &Setting, text: &str) -> Result<(), String> {
        let mut config = Config::default();
        let (mut user, mut peer, mut server) = (UserRules::default(), PeerRules::blank(), ServerRules::blank());
        let mut pool = PoolText::new("x", &config);
        let field = setting
            .field_mut(&mut config)
            .or_else(|| setting.pool_field_mut(&mut pool))
            .or_else(|| setting.user_field_mut(&mut user))
            .or_else(|| setting.peer_field_mut(&mut peer))
            .or_else(|| setting.server_field_mut(&mut server));
        setting.write_ini(field.expect("a field"), text)
    }

    #[test]
    fn no_list_of_words_and_no_address_takes_a_word_or_a_port_that_there_is_not() {
        let mut tried = 0;
        for setting in all().filter(|setting| !setting.is_inert()) {
            for text in refused(setting.kind) {
                // Of PgBouncer's facility of syslog `weir check` says that it is none.
                if setting.key() == "log.syslog_facility" {
                    continue;
                }
                tried += 1;
                assert!(write(setting, text).is_err(), "{} = {text}", setting.key());
            }
        }
        assert!(tried > 100, "{tried}");
        let states = Section::Alerts.find("states").expect("a setting");
        let error = write(states, "paused, slwo").unwrap_err();
        assert!(error.starts_with("must list words of not tried yet, healthy, "), "{error}");
        assert!(error.ends_with("\"slwo\" is none; did you mean \"slow\"?"), "{error}");
    }

    #[test]
    fn a_setting_that_takes_any_name_or_text_is_listed_here() {
        const NAMES: [&str; 13] = [
            "general.admin_users",
            "general.stats_users",
            "general.ignore_startup_parameters",
            "general.track_extra_parameters",
            "web.oidc.scopes",
            "web.oidc.viewer_groups",
            "web.oidc.operator_groups",
            "web.oidc.admin_groups",
            "telemetry.otlp_headers",
            "telemetry.resource",
            "users.pools",
            "pools.password_command",
            "pools.password_source",
        ];
        let free = all().filter(|setting| setting.kind == Kind::Names && !setting.is_inert()).map(Setting::key);
        let free: Vec<String> = free.collect();
        let unlisted: Vec<&String> = free.iter().filter(|key| !NAMES.contains(&key.as_str())).collect();
        assert!(unlisted.is_empty(), "is it a list of words (Kind::Words), or of addresses? {unlisted:?}");
    }

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
