//! The settings as SHOW CONFIG lists them.

use crate::model::Config;
use crate::settings;
use crate::table::Effect;

/// One row of SHOW CONFIG.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShowRow {
    /// The name: PgBouncer's where it has the setting, so that its tools find it.
    pub key: &'static str,
    /// The value in force; times in seconds, yes and no as 1 and 0, lists with commas.
    pub value: String,
    /// What it would be if nobody had set it, in the same form.
    pub default: String,
    /// Whether a reload can change it.
    pub changeable: bool,
}

/// The settings that are one for all, by key. Settings of single pools and secrets are not among them.
pub fn show(config: &Config) -> Vec<ShowRow> {
    let (mut config, mut default) = (config.clone(), Config::default());
    let mut rows: Vec<ShowRow> = settings::all()
        .filter_map(|setting| {
            let value = setting.slot(&mut config)?.show();
            let default = setting.slot(&mut default)?.show();
            Some(ShowRow { key: setting.shown_name(), value, default, changeable: setting.effect != Effect::Restart })
        })
        .collect();
    rows.sort_by_key(|row| row.key);
    rows
}

#[cfg(test)]
mod tests {
    use weir_base::Span;

    use super::*;

    fn row<'a>(rows: &'a [ShowRow], key: &str) -> (&'a str, &'a str, bool) {
        let row = rows.iter().find(|row| row.key == key).unwrap_or_else(|| panic!("no row {key}"));
        (&row.value, &row.default, row.changeable)
    }

    #[test]
    fn keys_and_values_are_those_that_tools_for_pgbouncer_read() {
        let mut config = Config { max_clients: 500, ..Config::default() };
        config.limits.query_wait_timeout = Span::from_millis(1_500);
        config.listen.addresses.push("::1".parse().unwrap());
        let rows = show(&config);
        assert_eq!(row(&rows, "max_client_conn"), ("500", "10000", true));
        assert_eq!(row(&rows, "query_wait_timeout"), ("1.5", "120", true));
        assert_eq!(row(&rows, "listen_addr"), ("127.0.0.1,::1", "127.0.0.1", false));
        assert_eq!(row(&rows, "listen_port"), ("6432", "6432", false));
        assert_eq!(row(&rows, "log_connections"), ("1", "1", true));
        assert_eq!(row(&rows, "pool_mode"), ("transaction", "transaction", true));
        assert_eq!(row(&rows, "auth_type"), ("scram-sha-256", "scram-sha-256", true));
        assert_eq!(row(&rows, "default_pool_size"), ("20", "20", true));
        assert_eq!(row(&rows, "auth_file"), ("", "", true));
    }

    #[test]
    fn each_key_comes_once_and_in_order() {
        let rows = show(&Config::default());
        assert!(rows.windows(2).all(|pair| pair[0].key < pair[1].key));
    }
}
