//! Which settings are queries: their texts may hold secrets, so only those who may change them may read them.

use crate::kind::Kind;
use crate::settings;
use crate::show::ShowRow;

/// The text that is shown in place of a query.
pub const HIDDEN_QUERY: &str = "(a query, which only admins see)";

/// Whether a key is a query: a setting's or a pool's, by any of its names, with its section or without.
pub fn is_query(key: &str) -> bool {
    let name = key.rsplit('.').next().unwrap_or(key);
    settings::all().filter(|setting| setting.kind == Kind::Query).any(|setting| {
        let others = setting.aliases.iter().chain(setting.ini_database);
        [Some(setting.name), setting.ini].into_iter().flatten().chain(others.copied()).any(|it| it == name)
    })
}

impl ShowRow {
    /// Hides a query, unless it is the default.
    pub fn hide_query(&mut self) {
        if is_query(self.key) && !self.value.is_empty() && self.default.as_ref() != Some(&self.value) {
            HIDDEN_QUERY.clone_into(&mut self.value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Config;

    #[test]
    fn queries_are_known_by_all_their_names() {
        for key in ["connect_query", "auth_query", "auth.query", "server_check_query", "general.server_reset_query"] {
            assert!(is_query(key), "{key}");
        }
        for key in ["auth_user", "auth.query_user", "query_wait_timeout", "host", ""] {
            assert!(!is_query(key), "{key}");
        }
    }

    #[test]
    fn a_default_is_no_secret() {
        let mut config = Config::default();
        "select secret".clone_into(&mut config.auth.query);
        let mut rows = crate::show(&config);
        rows.iter_mut().for_each(ShowRow::hide_query);
        let value = |key: &str| rows.iter().find(|row| row.key == key).map(|row| row.value.clone());
        assert_eq!(value("auth_query").as_deref(), Some(HIDDEN_QUERY));
        assert_ne!(value("server_check_query").as_deref(), Some(HIDDEN_QUERY));
    }
}
