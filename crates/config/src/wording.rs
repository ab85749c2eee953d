//! Texts of messages that both readers share.

use std::path::Path;

use crate::error::ConfigError;
use crate::field::AUTO;
use crate::kind::Kind;
use crate::origin::{FileFormat, Location};
use crate::settings;
use crate::table::Setting;

/// Text of the file for a message: on one line, without control characters.
pub(crate) fn plain(text: &str) -> String {
    text.chars().take(64).flat_map(char::escape_debug).collect()
}

/// A value of the file for a message, shortened.
pub(crate) fn short(text: &str) -> String {
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'-') && text.len() <= 20 {
        return text.to_owned();
    }
    format!("\"{}\"", plain(text))
}

/// The default of a setting, as a file would have it.
pub(crate) fn example(setting: &Setting, name: &str, format: FileFormat) -> Option<String> {
    let default = setting.default_in(format);
    let shown = match (setting.kind, format) {
        _ if default.is_empty() => return None,
        (Kind::Text | Kind::Secret | Kind::Query | Kind::Url | Kind::Host, _) => return None,
        (Kind::Names | Kind::Words(_) | Kind::Origins | Kind::Hosts | Kind::Addresses, _) => return None,
        (Kind::Networks | Kind::Users | Kind::Accounts, _) => return None,
        (Kind::Flag, FileFormat::Ini) => u8::from(default == "true").to_string(),
        (Kind::Time { .. }, FileFormat::Ini) => crate::units::span(default).map(crate::units::seconds)?,
        (Kind::Number { .. } | Kind::Flag | Kind::Ports, _) | (_, FileFormat::Ini) => default.to_owned(),
        (Kind::CountOrAuto { .. }, _) if default != AUTO => default.to_owned(),
        _ => format!("\"{default}\""),
    };
    Some(format!("the default is {name} = {shown}"))
}

/// Whether a message may contain a value of this kind.
pub(crate) fn may_be_shown(kind: Kind) -> bool {
    !matches!(kind, Kind::Secret | Kind::Text | Kind::Query | Kind::Url | Kind::Words(_))
}

/// A mistake at a location in the file `source`, or in one that it includes.
pub(crate) fn error_at(source: &Path, location: Option<&Location>, message: &str, hint: Option<String>) -> ConfigError {
    let file = location.and_then(|location| location.file.as_deref()).unwrap_or(source);
    ConfigError::new(file, location.map(|location| location.line), message, hint)
}

/// The name in TOML of PgBouncer's setting `key`.
pub(crate) fn toml_name_of(key: &str) -> Option<String> {
    let mut settings = settings::all().filter(|s| !s.is_inert());
    let theirs = settings.find(|s| s.ini == Some(key) || s.ini_database.contains(&key))?;
    Some(format!("PgBouncer's \"{key}\" is \"{}\" in {} here", theirs.name, theirs.section.title()))
}
