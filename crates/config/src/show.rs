//! The settings as SHOW CONFIG lists them.

use crate::field::FieldMut;
use crate::kind::Kind;
use crate::model::Config;
use crate::settings;
use crate::table::Effect;

/// One row of SHOW CONFIG.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShowRow {
    /// The name: PgBouncer's where it has the setting, so that its tools find it.
    pub key: &'static str,
    /// The value in force, or of encryption the one that was set last; times in seconds, yes and no as 1 and 0, lists
    /// with commas.
    pub value: String,
    /// The value if nobody had set the setting, in the same form; `None` for the few settings that PgBouncer shows with
    /// NULL.
    pub default: Option<String>,
    /// Whether a reload can change the setting.
    pub changeable: bool,
}

/// The global settings, by key. Settings of single pools and secrets are left out.
pub fn show(config: &Config) -> Vec<ShowRow> {
    let (mut config, mut default) = (config.clone(), Config::of_format(config.format));
    let source = config.source.display().to_string();
    config.inert.insert("conffile", source);
    if let Some(tls) = config.pending_tls.take() {
        config.tls = *tls;
    }
    let mut rows: Vec<ShowRow> = settings::all()
        .filter_map(|setting| {
            let key = setting.shown_name();
            let value = setting.field_mut(&mut config)?.show();
            let default = shown_default(setting.kind, &setting.field_mut(&mut default)?);
            let default = if WITHOUT_DEFAULT.contains(&key) { None } else { Some(default) };
            Some(ShowRow { key, value, default, changeable: setting.effect != Effect::Restart })
        })
        .collect();
    rows.sort_by_key(|row| row.key);
    rows
}

/// The settings whose default PgBouncer shows as NULL; for others an unset default is an empty text.
const WITHOUT_DEFAULT: [&str; 5] = ["auth_dbname", "auth_file", "auth_user", "conffile", "user"];

/// A default as PgBouncer shows it: permissions in octal as in the file, though their value is shown as a decimal
/// number.
fn shown_default(kind: Kind, field: &FieldMut<'_>) -> String {
    match (kind, field) {
        (Kind::Permissions, FieldMut::U32(bits)) => format!("{bits:04o}"),
        (_, field) => field.show(),
    }
}

#[cfg(test)]
mod tests {
    use weir_base::Span;

    use super::*;

    fn row<'a>(rows: &'a [ShowRow], key: &str) -> (&'a str, &'a str, bool) {
        let row = rows.iter().find(|row| row.key == key).unwrap_or_else(|| panic!("no row {key}"));
        (&row.value, row.default.as_deref().unwrap_or("NULL"), row.changeable)
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
        assert_eq!(row(&rows, "pool_mode"), ("auto", "auto", true));
        assert_eq!(row(&rows, "auth_type"), ("scram-sha-256", "scram-sha-256", true));
        assert_eq!(row(&rows, "default_pool_size"), ("20", "20", true));
        assert_eq!(row(&rows, "auth_file"), ("", "NULL", true));
        assert_eq!(row(&rows, "unix_socket_mode"), ("511", "0777", false));
    }

    #[test]
    fn each_key_comes_once_and_in_order() {
        let rows = show(&Config::default());
        assert!(rows.windows(2).all(|pair| pair[0].key < pair[1].key));
    }
}
