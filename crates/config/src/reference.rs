//! The reference page `docs/settings.md`, printed from the table of settings.

use std::fmt::Write;

use crate::table::{Effect, Kind, Reach, Section, Setting};

const OPENING: &str = "\
# Settings

Weir reads one TOML file: `weir serve weir.toml`. `weir check weir.toml` says what it understood. This page is printed
from the table of settings in `crates/config`.

Times are seconds or text with a unit (`us`, `ms`, `s`, `min`, `h`, `d`), as in `5`, `\"500ms\"`, `\"2min\"`. Sizes are
text with a unit (`kB`, `MB`, `GB`, or `KiB`, `MiB`, `GiB`, all in steps of 1024), or bytes. Names that PgBouncer gives
a setting are listed, and SHOW CONFIG uses them; where they stand under *also*, the file may use them too.

A change takes effect with a reload (HUP, or RELOAD on the console), unless *when* says `restart`; `reconnect`: with the
reload, and the pool's servers are replaced as they become free.
";

/// The reference page of all settings, in Markdown.
pub fn reference_markdown() -> String {
    let mut page = OPENING.to_owned();
    for section in Section::ALL {
        let _ = writeln!(page, "\n## {}\n\n{}\n", section.title(), purpose(section));
        page.push_str("| setting | value | default | when | what |\n|---|---|---|---|---|\n");
        let own = crate::settings::all().filter(|s| s.section == section);
        own.for_each(|setting| page.push_str(&row(setting)));
    }
    page
}

fn purpose(section: Section) -> &'static str {
    match section {
        Section::General => "The process as a whole.",
        Section::Listen => "Where clients come in.",
        Section::Auth => "Who may come in, and how it is proven.",
        Section::Log => "What is logged.",
        Section::Limits => {
            "How much, how many, how long: here for all pools. Each but `statement_memory` may also stand in a pool, \
             for that pool."
        }
        Section::Pool => {
            "One section a pool; clients name the pool as their database. The names `weir` and `pgbouncer` are \
             reserved for the console. Everything in `[limits]` but `statement_memory` may stand here too."
        }
    }
}

fn row(setting: &Setting) -> String {
    let default = match (setting.default, setting.kind) {
        ("", _) => "—".to_owned(),
        (text, Kind::Number { .. } | Kind::Flag) => format!("`{text}`"),
        (text, Kind::Time { .. }) if text == "0" => format!("`{text}`"),
        (text, Kind::Names) => format!("`[\"{text}\"]`"),
        (text, _) => format!("`\"{text}\"`"),
    };
    let when = match setting.effect {
        Effect::Live => "reload",
        Effect::Reconnect => "reconnect",
        Effect::Restart => "restart",
    };
    let doc = setting.doc.replace('|', "\\|");
    format!("| `{}` | {} | {default} | {when} | {doc}{} |\n", setting.name, value(setting.kind), names(setting))
}

fn value(kind: Kind) -> String {
    match kind {
        Kind::Number { min, max } => format!("{min} to {max}"),
        Kind::Time { min } if min.is_zero() => "time".to_owned(),
        Kind::Time { min } => format!("time from {}", crate::units::brief(min)),
        Kind::Size { .. } => "size".to_owned(),
        Kind::Permissions => "octal, as text".to_owned(),
        Kind::Flag => "true, false".to_owned(),
        Kind::Word(words) => words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
        Kind::Text | Kind::Secret => "text".to_owned(),
        Kind::Names => "list of names".to_owned(),
        Kind::Addresses => "address, or list".to_owned(),
        Kind::Users => "section".to_owned(),
    }
}

/// The other names, and PgBouncer's default where it differs.
fn names(setting: &Setting) -> String {
    let mut text = String::new();
    let theirs = setting.ini.or(if setting.reach == Reach::One { setting.ini_database } else { None });
    if let Some(name) = theirs.filter(|name| *name != setting.name) {
        let _ = write!(text, " PgBouncer: `{name}`");
        if let Some(default) = setting.ini_default.filter(|d| !d.is_empty()) {
            let _ = write!(text, ", there by default `{default}`");
        }
        text.push('.');
    }
    if !setting.aliases.is_empty() {
        let list = setting.aliases.iter().map(|alias| format!("`{alias}`")).collect::<Vec<_>>().join(", ");
        let _ = write!(text, " *Also:* {list}.");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_reference_page_is_what_the_table_says() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/settings.md");
        if std::env::var_os("WEIR_BLESS").is_some() {
            std::fs::write(&page, reference_markdown()).expect("the page can be written");
        }
        let committed = std::fs::read_to_string(&page).unwrap_or_default();
        assert!(
            committed == reference_markdown(),
            "docs/settings.md is out of date; print it anew with: WEIR_BLESS=1 cargo test -p weir-config"
        );
    }
}
