//! A global setting in words, from the table of settings, for programs that show it to a person.

use crate::kind::Kind;
use crate::reference::{purpose, when};
use crate::settings;
use crate::table::{Origin, Section, Setting};

/// What a setting is, and where the file has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SettingText {
    /// The setting's section in TOML, as in `tls.client`; `pgbouncer` for a setting without effect, which only an ini
    /// has.
    pub section: &'static str,
    /// What the section is for, in Markdown.
    pub purpose: &'static str,
    /// The setting's name in TOML.
    pub name: &'static str,
    /// Whether PgBouncer has the setting.
    pub of_pgbouncer: bool,
    /// The kind of the setting's values, as in [`PoolKey`](crate::PoolKey).
    pub kind: &'static str,
    /// The accepted words of kind `word`; none for the others.
    pub words: &'static [&'static str],
    /// When a change takes effect: `reload`, `reconnect` or `restart`.
    pub effect: &'static str,
    /// What the setting does, in Markdown; the first sentence says it in short.
    pub description: &'static str,
}

/// The setting that SHOW CONFIG has under this name; none if there is none.
pub fn describe(shown: &str) -> Option<SettingText> {
    settings::all().filter(|setting| is_global(setting)).find(|setting| setting.shown_name() == shown).map(|setting| {
        SettingText {
            section: setting.section.name(),
            purpose: purpose(setting.section),
            name: setting.name,
            of_pgbouncer: setting.origin == Origin::PgBouncer,
            kind: setting.kind.name(),
            words: if let Kind::Word(words) = setting.kind { words } else { &[] },
            effect: when(setting),
            description: setting.doc,
        }
    })
}

fn is_global(setting: &Setting) -> bool {
    !matches!(setting.section, Section::Pool | Section::User | Section::Peer | Section::Server)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Config;

    #[test]
    fn every_row_of_show_config_is_described() {
        for row in crate::show(&Config::default()) {
            let text = describe(row.key).unwrap_or_else(|| panic!("{} has no description", row.key));
            assert!(!text.description.is_empty(), "{}", row.key);
            assert_eq!(row.changeable, text.effect != "restart", "{}", row.key);
        }
        let size = describe("default_pool_size").expect("a setting");
        assert_eq!((size.section, size.name, size.kind, size.of_pgbouncer), ("limits", "size", "number", true));
        assert_eq!(describe("host"), None, "it is a pool's alone");
    }
}
