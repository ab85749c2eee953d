//! Hints for keys that do not exist: the key that was probably meant, or where the existing keys are listed.
//!
//! The order is the same in both file formats: the key's own section if it is in the wrong one, the nearest key of this
//! section, the nearest key of another one, the list.

use crate::settings;
use crate::suggest::nearest;
use crate::table::{Section, Setting};
use crate::wording::toml_name_of;

/// A place for keys in an ini, other than `[pgbouncer]` a part of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum IniPlace {
    Main,
    Database,
    User,
    Peer,
}

/// The hint for an unknown key in a section of a TOML file.
pub(crate) fn hint_toml(key: &str, section: Section) -> String {
    wrong_section(key, Some(section))
        .or_else(|| nearest(key, section.settings().flat_map(toml_names)).map(did_you_mean))
        .or_else(|| near_other_section(key))
        .unwrap_or_else(|| listed(&format!("the keys of {}", section.title()), &anchor(section)))
}

/// Where a key of a TOML file belongs that is in no section, or in the wrong one (`here`), or has PgBouncer's name.
pub(crate) fn wrong_section(key: &str, here: Option<Section>) -> Option<String> {
    let same = || {
        settings::all()
            .filter(|s| Some(s.section) != here && !s.is_inert() && (s.name == key || s.aliases.contains(&key)))
    };
    // Of the two sides of TLS a pool's is that to servers; else a key with several places is most often a pool's.
    let is_of_servers = |s: &&Setting| here == Some(Section::Pool) && s.section == Section::TlsServer;
    let is_of_pools = |s: &&Setting| s.section == Section::Pool;
    let found = same().find(is_of_servers).or_else(|| same().find(is_of_pools)).or_else(|| same().next());
    let Some(setting) = found else { return toml_name_of(key) };
    let here = if setting.name == key { "" } else { &format!(" is \"{}\" here, which", setting.name) };
    Some(format!("\"{key}\"{here} belongs in {}", setting.section.title()))
}

/// The sections that have a key of a TOML file which is in none.
pub(crate) fn sections_of(key: &str) -> Option<String> {
    let titles: Vec<String> = Section::ALL
        .into_iter()
        .filter(|section| section.find(key).is_some_and(|setting| setting.name == key && !setting.is_inert()))
        .map(Section::title)
        .collect();
    match titles.split_last() {
        Some((last, others)) if !others.is_empty() => {
            Some(format!("write it below its section: \"{key}\" belongs in {} or {last}", others.join(", ")))
        }
        _ => wrong_section(key, None),
    }
}

/// The hint for a mistyped key: the nearest key of another section, and where that key belongs.
fn near_other_section(key: &str) -> Option<String> {
    let own = settings::all().filter(|setting| !setting.is_inert());
    let near = nearest(key, own.flat_map(|setting| toml_names(setting).chain(setting.ini)))?;
    let place = wrong_section(near, None)?;
    Some(format!("did you mean \"{near}\"? {place}"))
}

/// The hint for an unknown key of an ini: `None` if there is no key like it.
pub(crate) fn hint_ini(key: &str, place: IniPlace) -> Option<String> {
    ini_place_of(key)
        .map(|place| format!("\"{key}\" belongs in {}", place.title()))
        .or_else(|| near_ini(key, place).map(did_you_mean))
        .or_else(|| {
            let near = nearest(key, IniPlace::ALL.into_iter().flat_map(IniPlace::names))?;
            Some(format!("did you mean \"{near}\"? \"{near}\" belongs in {}", ini_place_of(near)?.title()))
        })
}

/// The nearest key of the same place of an ini.
pub(crate) fn near_ini(key: &str, place: IniPlace) -> Option<&'static str> {
    nearest(key, place.names())
}

/// Where the keys of `[pgbouncer]` are listed.
pub(crate) fn listed_ini() -> String {
    listed("all parameters", "")
}

/// The place that has a key. A connection string is the last of them: several of its keys are words of every day.
fn ini_place_of(key: &str) -> Option<IniPlace> {
    IniPlace::ALL.into_iter().find(|place| place.names().any(|name| name == key))
}

impl IniPlace {
    const ALL: [IniPlace; 3] = [IniPlace::Main, IniPlace::Database, IniPlace::User];

    fn title(self) -> &'static str {
        match self {
            IniPlace::Main => "[pgbouncer]",
            IniPlace::Database => "the connection string of a database",
            IniPlace::User => "a line of [users]",
            IniPlace::Peer => "a line of [peers]",
        }
    }

    fn names(self) -> Box<dyn Iterator<Item = &'static str>> {
        match self {
            IniPlace::Main => Box::new(settings::all().filter_map(|setting| setting.ini)),
            IniPlace::Database => Box::new(settings::all().flat_map(|setting| setting.ini_database).copied()),
            IniPlace::User => Box::new(settings::all().filter_map(|setting| setting.ini_user)),
            IniPlace::Peer => Box::new(Section::Peer.settings().map(|setting| setting.name)),
        }
    }
}

fn toml_names(setting: &'static Setting) -> impl Iterator<Item = &'static str> {
    setting.aliases.iter().copied().chain([setting.name])
}

fn did_you_mean(near: &str) -> String {
    format!("did you mean \"{near}\"?")
}

/// The part of the reference page about a section, as a link has it: GitHub's form of its heading.
fn anchor(section: Section) -> String {
    let kept = section.title().to_lowercase();
    format!("#{}", kept.chars().filter(|c| c.is_alphanumeric() || *c == '_').collect::<String>())
}

fn listed(what: &str, anchor: &str) -> String {
    format!("{what} are listed by `weir man weir.toml`, and in docs/settings.md{anchor}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_section_has_a_heading_on_the_page_that_a_hint_names() {
        let page = crate::reference::reference_markdown();
        for section in Section::ALL {
            let heading =
                page.lines().filter_map(|line| line.strip_prefix("## ")).find(|line| *line == section.title());
            assert!(heading.is_some(), "{section:?}");
            assert!(anchor(section).starts_with('#') && !anchor(section).contains(['[', '.']), "{}", anchor(section));
        }
    }

    #[test]
    fn a_key_that_is_mistyped_and_in_the_wrong_section_is_found() {
        let hint = hint_toml("max_client", Section::Listen);
        assert_eq!(hint, "did you mean \"max_clients\"? \"max_clients\" belongs in [general]");
        assert_eq!(
            sections_of("port").unwrap(),
            "write it below its section: \"port\" belongs in [listen], [web], [peers.NUMBER] or [pools.NAME]"
        );
        assert_eq!(sections_of("max_clients").unwrap(), "\"max_clients\" belongs in [general]");
        assert_eq!(hint_toml("pool_szie", Section::Pool), "did you mean \"pool_size\"?");
        let hint = hint_toml("listen_prot", Section::Listen);
        assert_eq!(hint, "did you mean \"listen_port\"? PgBouncer's \"listen_port\" is \"port\" in [listen] here");
    }

    #[test]
    fn a_key_of_another_place_of_an_ini_is_not_taken_for_a_mistyped_one() {
        for (key, place) in [("pool_size", IniPlace::Main), ("dbname", IniPlace::User), ("host", IniPlace::Main)] {
            let hint = hint_ini(key, place).unwrap();
            assert_eq!(hint, format!("\"{key}\" belongs in the connection string of a database"));
        }
        assert_eq!(hint_ini("listen_port", IniPlace::Database).unwrap(), "\"listen_port\" belongs in [pgbouncer]");
        let hint = hint_ini("dbnaem", IniPlace::Main).unwrap();
        assert_eq!(hint, "did you mean \"dbname\"? \"dbname\" belongs in the connection string of a database");
        assert_eq!(hint_ini("colour", IniPlace::Main), None);
    }
}
