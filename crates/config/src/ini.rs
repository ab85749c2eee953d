//! PgBouncer's format: parses sections, keys and included files, and passes their values to the table of settings.
//!
//! The grammar is PgBouncer's own: `;` and `#` begin comments only at the start of a line, values reach to its end and
//! have no quotes, `%include` names a file relative to the working directory, the last of several equal keys counts,
//! and each `[pgbouncer]` begins with the defaults again.
//!
//! A mistake is reported with its file and line. Messages contain a value only if it can't be secret.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::ciphers;
use crate::connstr;
use crate::error::{ConfigError, Found};
use crate::field::FieldMut;
use crate::kind::Kind;
use crate::model::{Config, MAX_PEER_ID, PeerRules, UserRules};
use crate::origin::ReadFile;
use crate::origin::{ConfigWarning, FileFormat, Location};
use crate::pool_text::PoolText;
use crate::settings;
use crate::suggest::{nearest, nearest_or_longer};
use crate::table::{Section, Setting};
use crate::toml::Draft;
use crate::unknown_key::{IniPlace, hint_ini, listed_ini, near_ini};
use crate::wording::{error_at, example, may_be_shown, plain, short};
use crate::write::c_number;

/// How deep includes may be nested, as in PgBouncer.
const MAX_DEPTH: usize = 10;
/// How many files may be included in all, so that a circle of includes ends.
const MAX_FILES: usize = 1_000;
/// How many bytes may be included in all.
const MAX_BYTES: usize = 64 << 20;
const SECTIONS: [&str; 4] = ["pgbouncer", "databases", "users", "peers"];
/// A section that is none of them.
const UNKNOWN: &str = "";
/// Settings that a further `[pgbouncer]` leaves as they are, because PgBouncer has no default for them.
const KEPT: [&str; 10] = [
    "auth_dbname",
    "auth_file",
    "auth_ident_file",
    "auth_ldap_options",
    "auth_user",
    "client_tls13_ciphers",
    "conffile",
    "server_tls13_ciphers",
    "user",
    "verbose",
];

/// Reads an ini and, through `read`, the files that it includes; continues after mistakes.
pub(crate) fn read(file: &Path, text: &str, read: ReadFile<'_>, found: &mut Found) -> Draft {
    let mut scan = Scan::new(file, read, found);
    scan.file(None, text, 0);
    if !scan.main && !scan.found.explains("pgbouncer") {
        let hint = "write [pgbouncer] and the settings below it".to_owned();
        scan.found.note(error_at(file, None, "there is no section [pgbouncer]", Some(hint)));
    }
    let Scan { entries, overridden, remarks, .. } = scan;
    let mut reader = Reader { source: file, found };
    reader.check(&overridden);
    reader.draft(entries, remarks)
}

/// A value as it is written.
struct Entry {
    text: String,
    location: Location,
}

/// The last value of each key, section by section.
#[derive(Default)]
struct Entries {
    settings: BTreeMap<String, Entry>,
    databases: BTreeMap<String, Entry>,
    users: BTreeMap<String, Entry>,
    peers: BTreeMap<String, Entry>,
}

/// A value that a later one of the same key replaces, or that a further `[pgbouncer]` sets back: its section and key.
struct Overridden {
    section: &'static str,
    key: String,
    entry: Entry,
}

struct Scan<'a> {
    source: &'a Path,
    read: ReadFile<'a>,
    /// The section of the current line; an included file can change it for the lines after the include.
    section: Option<&'static str>,
    /// Whether there was a `[pgbouncer]`.
    main: bool,
    files_left: usize,
    bytes_left: usize,
    entries: Entries,
    overridden: Vec<Overridden>,
    remarks: Vec<ConfigWarning>,
    found: &'a mut Found,
}

impl<'a> Scan<'a> {
    fn new(source: &'a Path, read: ReadFile<'a>, found: &'a mut Found) -> Scan<'a> {
        Scan {
            source,
            read,
            section: None,
            main: false,
            files_left: MAX_FILES,
            bytes_left: MAX_BYTES,
            entries: Entries::default(),
            overridden: Vec::new(),
            remarks: Vec::new(),
            found,
        }
    }

    fn file(&mut self, file: Option<&Arc<Path>>, text: &str, depth: usize) {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (index, line) in text.lines().enumerate() {
            if self.found.is_full() {
                return;
            }
            let location = Location { file: file.cloned(), line: index + 1 };
            if let Err(error) = self.line(line, &location, depth) {
                self.found.note_gap(error);
            }
        }
    }

    fn line(&mut self, line: &str, location: &Location, depth: usize) -> Result<(), ConfigError> {
        let mut rest = line.trim();
        // A section's name may have a key behind it.
        while let Some(behind) = rest.strip_prefix('[') {
            let Some((name, behind)) = behind.split_once(']') else {
                // What follows is read all the same, or ignored.
                let name = behind.trim();
                self.section = Some(UNKNOWN);
                if SECTIONS.contains(&name) {
                    self.begin(name, location)?;
                }
                let hint = "write it as in [pgbouncer]".to_owned();
                return Err(self.error(location, "the section's ] is missing", Some(hint)));
            };
            self.begin(name, location)?;
            rest = behind.trim_start();
        }
        if rest.is_empty() || rest.starts_with(['#', ';']) {
            return Ok(());
        }
        match rest.strip_prefix("%include") {
            Some(name) if name.starts_with([' ', '\t']) => self.include(name.trim(), location, depth),
            _ => self.key(rest, location),
        }
    }

    fn begin(&mut self, name: &str, location: &Location) -> Result<(), ConfigError> {
        let Some(section) = SECTIONS.into_iter().find(|section| *section == name) else {
            // Keys of an unknown section are ignored.
            self.section = Some(UNKNOWN);
            let near = || nearest(name, SECTIONS).map(|near| format!("did you mean [{near}]?"));
            let is_toml =
                || Section::ALL.iter().any(|section| name.split('.').next() == section.name().split('.').next());
            let of_toml = || "that is one of a weir.toml: the name of such a file ends in .toml".to_owned();
            let listed = || "there are [pgbouncer], [databases], [users] and [peers]".to_owned();
            let hint = near().or_else(|| is_toml().then(of_toml)).unwrap_or_else(listed);
            return Err(self.error(location, &format!("unknown section [{}]", plain(name)), Some(hint)));
        };
        self.section = Some(section);
        if section != SECTIONS[0] {
            return Ok(());
        }
        let settings = &mut self.entries.settings;
        let before = settings.len();
        for (key, entry) in std::mem::take(settings) {
            if KEPT.contains(&key.as_str()) {
                settings.insert(key, entry);
            } else {
                self.overridden.push(Overridden { section, key, entry });
            }
        }
        if settings.len() < before {
            let text = format!(
                "[pgbouncer] begins again in line {}, so what stood in it before is back at its defaults, as in \
                 PgBouncer",
                location.line
            );
            self.remarks.push(ConfigWarning { key: "pgbouncer".to_owned(), text });
        }
        self.main = true;
        Ok(())
    }

    fn include(&mut self, name: &str, location: &Location, depth: usize) -> Result<(), ConfigError> {
        if depth >= MAX_DEPTH {
            let hint = format!("files may be nested {MAX_DEPTH} deep");
            return Err(self.error(location, "include nesting level too deep", Some(hint)));
        }
        self.files_left = self.files_left.checked_sub(1).ok_or_else(|| {
            self.error(location, "too many files are included", Some(format!("at most {MAX_FILES} may be")))
        })?;
        let path: Arc<Path> = Path::new(name).into();
        let text = (self.read)(&path).map_err(|e| {
            let hint = "its path is relative to the folder that Weir is started in".to_owned();
            self.error(location, &format!("the included file {} can't be read: {e}", plain(name)), Some(hint))
        })?;
        self.bytes_left = self.bytes_left.checked_sub(text.len()).ok_or_else(|| {
            let hint = format!("at most {} MiB may be", MAX_BYTES >> 20);
            self.error(location, "the included files are too large", Some(hint))
        })?;
        self.file(Some(&path), &text, depth + 1);
        Ok(())
    }

    fn key(&mut self, line: &str, location: &Location) -> Result<(), ConfigError> {
        let parts = key_and_rest(line).and_then(|(key, rest)| Some((key, rest.trim_start().strip_prefix('=')?)));
        let Some((key, value)) = parts else {
            let hint =
                "each line reads KEY = VALUE; names with other characters than letters, digits, _ . - need quotes";
            return Err(self.error(location, "syntax error", Some(hint.to_owned())));
        };
        let (section, entries) = match self.section {
            Some(section @ "databases") => (section, &mut self.entries.databases),
            Some(section @ "users") => (section, &mut self.entries.users),
            Some(section @ "peers") => (section, &mut self.entries.peers),
            Some(UNKNOWN) => return Ok(()),
            Some(section) => (section, &mut self.entries.settings),
            None => {
                let hint = "settings belong in [pgbouncer], databases in [databases]".to_owned();
                return Err(self.error(
                    location,
                    &format!("\"{}\" is outside of all sections", plain(&key)),
                    Some(hint),
                ));
            }
        };
        let again = entries.get(&key).filter(|before| before.location.file == location.file).map(|b| b.location.line);
        if let Some((line, place)) = again.zip(place_of(section, &key)) {
            let text = format!("\"{}\" is in line {line}, too, and the last one counts, as in PgBouncer", plain(&key));
            self.remarks.push(ConfigWarning { key: place, text });
        }
        let before = entries.insert(key.clone(), Entry { text: value.trim().to_owned(), location: location.clone() });
        self.overridden.extend(before.map(|entry| Overridden { section, key, entry }));
        Ok(())
    }

    fn error(&self, location: &Location, message: &str, hint: Option<String>) -> ConfigError {
        error_at(self.source, Some(location), message, hint)
    }
}

/// The dotted name of a key's location.
fn place_of(section: &str, key: &str) -> Option<String> {
    match section {
        "databases" => Some(format!("pools.{key}")),
        "users" => Some(format!("users.{key}")),
        "peers" => None,
        _ => settings::all().find(|setting| setting.ini == Some(key)).map(Setting::key),
    }
}

/// Splits the key off the front of a line: bare, or in single or double quotes; a doubled double quote stands for one.
fn key_and_rest(line: &str) -> Option<(String, &str)> {
    if let Some(quoted) = line.strip_prefix('\'') {
        let (key, rest) = quoted.split_once('\'')?;
        return (!key.is_empty()).then(|| (key.to_owned(), rest));
    }
    if let Some(mut rest) = line.strip_prefix('"') {
        let mut key = String::new();
        loop {
            let (part, behind) = rest.split_once('"')?;
            key.push_str(part);
            let Some(doubled) = behind.strip_prefix('"') else {
                return (!key.is_empty()).then_some((key, behind));
            };
            key.push('"');
            rest = doubled;
        }
    }
    let end = line.find(|c: char| !c.is_alphanumeric() && !"_.-*".contains(c)).unwrap_or(line.len());
    let (key, rest) = line.split_at(end);
    (!key.is_empty()).then(|| (key.to_owned(), rest))
}

struct Reader<'a> {
    source: &'a Path,
    found: &'a mut Found,
}

impl Reader<'_> {
    /// Reports the mistakes in values that have no effect, as PgBouncer does.
    fn check(&mut self, overridden: &[Overridden]) {
        let mut unused = Config::of_format(FileFormat::Ini);
        for Overridden { section, key, entry } in overridden {
            if self.found.is_full() {
                break;
            }
            match *section {
                "databases" => drop(self.database(&mut unused, key, entry)),
                "users" => drop(self.user(&mut unused, key, entry)),
                "peers" => {
                    let read = self.peer(&mut unused, key, entry);
                    self.found.take(read);
                }
                _ => {
                    let read = self.setting(&mut unused, key, entry);
                    self.found.take(read);
                }
            }
        }
    }

    fn draft(mut self, entries: Entries, remarks: Vec<ConfigWarning>) -> Draft {
        let mut config = Config::of_format(FileFormat::Ini);
        config.source = self.source.to_owned();
        config.remarks = remarks;
        for (key, entry) in &entries.settings {
            if self.found.is_full() {
                break;
            }
            let read = self.setting(&mut config, key, entry);
            self.found.take(read);
        }
        for (name, entry) in &entries.users {
            if self.found.is_full() {
                break;
            }
            let rules = self.user(&mut config, name, entry);
            config.users.insert(name.clone(), rules);
        }
        let mut pools = Vec::new();
        for (name, entry) in &entries.databases {
            if self.found.is_full() {
                break;
            }
            pools.push(self.database(&mut config, name, entry));
        }
        for (id, entry) in &entries.peers {
            if self.found.is_full() {
                break;
            }
            let read = self.peer(&mut config, id, entry);
            self.found.take(read);
        }
        Draft { config, users: None, secrets: Vec::new(), pools }
    }

    fn setting(&self, config: &mut Config, key: &str, entry: &Entry) -> Result<(), ConfigError> {
        let setting = settings::all().find(|setting| setting.ini == Some(key)).ok_or_else(|| {
            let hint = hint_ini(key, IniPlace::Main).unwrap_or_else(listed_ini);
            self.error(entry, &format!("unknown parameter \"{}\" in [pgbouncer]", plain(key)), Some(hint))
        })?;
        config.locations.insert(setting.key(), entry.location.clone());
        if let Some(field) = setting.field_mut(config) {
            let nearest = setting.fitted(&field, &entry.text).into_owned();
            let is_negative = nearest != entry.text && entry.text.starts_with('-');
            let written = self.write(setting, field, (key, "[pgbouncer]"), entry, &entry.text);
            written.map_err(|error| error.about(&setting.key()))?;
            if is_negative {
                let text = format!("{key} = {} counts as {nearest}, the least that it may be", plain(&entry.text));
                config.remarks.push(ConfigWarning { key: setting.key(), text });
            }
        }
        if setting.kind == Kind::Protocols {
            config.remarks.extend(ciphers::remark_on_protocols(&setting.key(), &entry.text));
        }
        Ok(())
    }

    fn database(&mut self, config: &mut Config, name: &str, entry: &Entry) -> PoolText {
        config.locations.insert(format!("pools.{name}"), entry.location.clone());
        let title = format!("database {}", plain(name));
        let mut pool = PoolText::new(name, config);
        let pairs = self.pairs(&title, entry).map_err(|error| error.about(&format!("pools.{name}.host")));
        for (key, value) in self.found.take(pairs).unwrap_or_default() {
            let Some(setting) = settings::find_ini_database(&key) else {
                let error = self.unknown(&title, IniPlace::Database, &key, entry);
                self.found.note(error.about(&format!("pools.{name}.{key}")));
                continue;
            };
            let place = format!("pools.{name}.{}", setting.name);
            config.locations.insert(place.clone(), entry.location.clone());
            if let Some(field) = setting.pool_field_mut(&mut pool) {
                let written = self.write_own(setting, field, (&key, &title), entry, &value);
                self.found.take(written.map_err(|error| error.about(&place)));
            }
        }
        pool
    }

    fn user(&mut self, config: &mut Config, name: &str, entry: &Entry) -> UserRules {
        config.locations.insert(format!("users.{name}"), entry.location.clone());
        let title = format!("user {}", plain(name));
        let mut rules = UserRules::default();
        let pairs = self.pairs(&title, entry);
        for (key, value) in self.found.take(pairs).unwrap_or_default() {
            let Some(setting) = settings::all().find(|setting| setting.ini_user == Some(&key)) else {
                let error = self.unknown(&title, IniPlace::User, &key, entry);
                self.found.note(error);
                continue;
            };
            config.locations.insert(format!("users.{name}.{}", setting.name), entry.location.clone());
            if let Some(field) = setting.user_field_mut(&mut rules) {
                let written = self.write_own(setting, field, (&key, &title), entry, &value);
                self.found.take(written);
            }
        }
        rules
    }

    fn peer(&mut self, config: &mut Config, id: &str, entry: &Entry) -> Result<(), ConfigError> {
        let title = format!("peer {}", plain(id));
        let number = c_number(id).and_then(|id| u16::try_from(id).ok()).filter(|id| (1..=MAX_PEER_ID).contains(id));
        let Some(number) = number else {
            return Err(self.error(entry, &format!("{title} is no number from 1 to {MAX_PEER_ID}"), None));
        };
        let pairs = self.pairs(&title, entry)?;
        let mut peer = PeerRules::blank();
        for (key, value) in &pairs {
            let Some(setting) = Section::Peer.find(key) else {
                let error = self.unknown(&title, IniPlace::Peer, key, entry);
                self.found.note(error);
                continue;
            };
            if let Some(field) = setting.peer_field_mut(&mut peer) {
                let written = self.write_own(setting, field, (key, &title), entry, value);
                self.found.take(written);
            }
        }
        if !pairs.iter().any(|(key, _)| key == "host") {
            let hint = Some("give the folder of its Unix socket, or its address".to_owned());
            return Err(self.error(entry, &format!("host was not provided for {title}"), hint));
        }
        config.locations.insert(format!("peers.{number}"), entry.location.clone());
        config.peers.insert(number, peer);
        Ok(())
    }

    fn pairs(&self, title: &str, entry: &Entry) -> Result<Vec<(String, String)>, ConfigError> {
        connstr::pairs(&entry.text).map_err(|e| {
            let hint = match entry.text.contains("://") {
                true => "a URL is not read: write host=… port=… dbname=… user=… password=…",
                false => "put values with spaces into single quotes, and double a quote within",
            };
            self.error(entry, &format!("{title}: {e}"), Some(hint.to_owned()))
        })
    }

    /// Reads a value of a single pool or user, where PgBouncer treats a negative number as unset.
    fn write_own(
        &self,
        setting: &Setting,
        field: FieldMut<'_>,
        named: (&str, &str),
        entry: &Entry,
        text: &str,
    ) -> Result<(), ConfigError> {
        let unset = matches!(setting.kind, Kind::Number { .. } | Kind::Time { .. })
            && c_number(text).is_some_and(|number| number < 0);
        if unset { Ok(()) } else { self.write(setting, field, named, entry, text) }
    }

    fn write(
        &self,
        setting: &Setting,
        field: FieldMut<'_>,
        (key, title): (&str, &str),
        entry: &Entry,
        text: &str,
    ) -> Result<(), ConfigError> {
        let fitted = setting.fitted(&field, text);
        setting.write_ini(field, &fitted).map_err(|expected| {
            let mut hint = example(setting, key, FileFormat::Ini).filter(|_| title.starts_with('['));
            let mut found = String::new();
            if may_be_shown(setting.kind) && expected.starts_with("must") {
                found = format!(", not {}", short(text));
            }
            if let Kind::Word(words) = setting.kind {
                hint = nearest_or_longer(text, words).map(|near| format!("did you mean \"{near}\"?")).or(hint);
            }
            self.error(entry, &format!("\"{key}\" in {title} {expected}{found}"), hint)
        })
    }

    /// An unknown key may be a part of a password without quotes; then the message contains only the suggestion.
    fn unknown(&self, title: &str, place: IniPlace, key: &str, entry: &Entry) -> ConfigError {
        let may_show = near_ini(key, place).is_some() || !entry.text.contains("password");
        let shown = if may_show { format!(" \"{}\"", plain(key)) } else { String::new() };
        let hint = hint_ini(key, place).filter(|_| may_show);
        let hint = hint.unwrap_or_else(|| "put values with spaces into single quotes".into());
        let what = if place == IniPlace::User { "user" } else { "connection" };
        self.error(entry, &format!("unrecognized {what} parameter{shown} in {title}"), Some(hint))
    }

    fn error(&self, entry: &Entry, message: &str, hint: Option<String>) -> ConfigError {
        error_at(self.source, Some(&entry.location), message, hint)
    }
}
