//! The TOML format: parses sections and keys, and passes their values to the table of settings. Does no I/O.
//!
//! A mistake is reported with its line. Messages contain a value only if it can't be secret.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use toml_edit::{Item, Table, TableLike, Value};

use crate::accounts::Account;
use crate::ciphers;
use crate::elsewhere::{self, Elsewhere};
use crate::error::{ConfigError, Found};
use crate::kind::Kind;
use crate::model::{Config, MAX_PEER_ID, PeerRules, ServerRules, UserRules};
use crate::origin::{FileFormat, Location, Locations};
use crate::pool_text::PoolText;
use crate::suggest::{nearest, nearest_or_longer};
use crate::syntax::{self, Broken};
use crate::table::{Raw, Section, Setting};
use crate::unknown_key::{hint_toml, sections_of, wrong_section};
use crate::users::Users;
use crate::wording::{example, may_be_shown, plain, short};

/// The section that contains sections.
const TLS: &str = "tls";
/// The section in `[web]`.
const OIDC: &str = "oidc";

/// The content of a file, before other files are read.
pub(crate) struct Draft {
    /// The settings of the process; without pools and the users of a file.
    pub(crate) config: Config,
    /// The users, if this file lists them.
    pub(crate) users: Option<Users>,
    /// Secrets that override those of the users, wherever these are listed.
    pub(crate) secrets: Vec<(String, Option<String>)>,
    /// The pools as written, in the file's order.
    pub(crate) pools: Vec<PoolText>,
}

/// Reads a TOML file; continues after mistakes.
pub(crate) fn read(file: &Path, text: &str, elsewhere: &Elsewhere<'_>, found: &mut Found) -> Draft {
    let mut reader =
        Reader { file, line_ends: line_ends(text), locations: Locations::default(), elsewhere: Some(elsewhere), found };
    let mut draft = match syntax::parse(text) {
        Ok(document) => reader.document(document.as_table()),
        Err(Broken { errors, rest }) => {
            for error in errors {
                let line = error.at.map(|offset| reader.line_at(offset));
                let error = reader.error(line, &error.message, Some(error.cause.hint().to_owned()));
                reader.found.note_gap(error);
            }
            rest.map_or_else(Draft::empty, |rest| reader.document(rest.as_table()))
        }
    };
    draft.config.source = file.to_owned();
    draft.config.locations = reader.locations;
    draft
}

/// Sets a pool's keys, as if they were in its section.
pub(crate) fn fill_pool(file: &Path, keys: &Table, pool: &mut PoolText, found: &mut Found) {
    let mut reader = Reader::of_edit(file, found);
    let name = pool.name.clone();
    reader.fill(Section::Pool, &name, keys, |setting, raw| {
        setting.pool_field_mut(pool).map_or(Ok(()), |field| setting.write(field, raw))
    });
}

/// Sets a user's rules, as if they were in its section.
pub(crate) fn fill_user(file: &Path, name: &str, keys: &Table, rules: &mut UserRules, found: &mut Found) {
    let mut reader = Reader::of_edit(file, found);
    reader.user(name, keys, rules);
}

impl Draft {
    /// The content of an empty file.
    fn empty() -> Draft {
        Draft { config: Config::default(), users: None, secrets: Vec::new(), pools: Vec::new() }
    }
}

struct Reader<'a> {
    file: &'a Path,
    /// The offsets of line ends, computed once: a file of many pools has many locations.
    line_ends: Vec<usize>,
    locations: Locations,
    /// Where the values of references are; `None` outside of a file: who may change a pool may not read the environment.
    elsewhere: Option<&'a Elsewhere<'a>>,
    found: &'a mut Found,
}

impl<'a> Reader<'a> {
    /// Of keys that are in no file.
    fn of_edit(file: &'a Path, found: &'a mut Found) -> Reader<'a> {
        Reader { file, line_ends: Vec::new(), locations: Locations::default(), elsewhere: None, found }
    }

    fn document(&mut self, root: &dyn TableLike) -> Draft {
        let mut draft = Draft::empty();
        let Draft { config, users, .. } = &mut draft;
        for (name, item) in root.iter() {
            if name == TLS {
                self.tls(root, item, config);
                continue;
            }
            let section = self.section(root, name);
            let Some(section) = self.found.take(section) else { continue };
            let Some(table) = item.as_table_like() else {
                let error = self.not_a_section(root, name, &section.title());
                self.found.note(error.about(&format!("{name}.")));
                continue;
            };
            match section {
                Section::Pool => {}
                Section::User => config.users = self.user_rules(table),
                Section::Peer => config.peers = self.peers(table),
                Section::Server => config.servers = self.servers(table),
                section => self.section_keys(section, table, config, users),
            }
        }
        // Pools start from the global limits and policies, wherever those are in the file.
        if let Some(table) = root.get(Section::Pool.name()).and_then(Item::as_table_like) {
            draft.pools = self.pools(table, config);
        }
        draft
    }

    fn section(&mut self, root: &dyn TableLike, name: &str) -> Result<Section, ConfigError> {
        let line = self.key_line(root, name);
        if let Some(section) = Section::ALL.into_iter().find(|s| s.name() == name) {
            self.remember(name.to_owned(), line);
            return Ok(section);
        }
        if root.get(name).is_some_and(Item::is_table_like) {
            let known = Section::ALL.map(Section::title).join(", ");
            let near = nearest(name, Section::ALL.map(Section::name));
            let theirs = ini_section(name);
            // As in [pool.app].
            let inner = root.get(name).and_then(Item::as_table_like).and_then(|table| {
                table.iter().find(|(_, item)| item.is_table_like()).map(|(inner, _)| format!(".{}", plain(inner)))
            });
            let inner = inner.unwrap_or_default();
            let near = || near.map(|near| format!("did you mean [{near}{inner}]?"));
            let hint = theirs.map(str::to_owned).or_else(near).unwrap_or_else(|| format!("there are {known}"));
            return Err(self.error(line, &format!("unknown section [{}{inner}]", plain(name)), Some(hint)));
        }
        let hint = sections_of(name).unwrap_or_else(|| "each key belongs in a section, as in [listen]".to_owned());
        Err(self.error(line, &format!("key \"{}\" is outside of all sections", plain(name)), Some(hint)))
    }

    fn not_a_section(&self, table: &dyn TableLike, name: &str, title: &str) -> ConfigError {
        let line = self.key_line(table, name);
        let hint = format!("write {title} on a line of its own, and its keys below it");
        self.error(line, &format!("\"{name}\" must be a section"), Some(hint))
    }

    /// `[tls.client]` and `[tls.server]`, the only sections in a section.
    fn tls(&mut self, root: &dyn TableLike, item: &Item, config: &mut Config) {
        const TITLES: &str = "[tls.client] or [tls.server]";
        let Some(sides) = item.as_table_like() else {
            return self.found.note(self.not_a_section(root, TLS, TITLES));
        };
        for (name, item) in sides.iter() {
            let section = match name {
                "client" => Section::TlsClient,
                "server" => Section::TlsServer,
                _ => {
                    let line = self.key_line(sides, name);
                    let message = format!("unknown key \"{}\" in [tls]", plain(name));
                    let hint = Some(format!("settings belong in {TITLES}"));
                    self.found.note(self.error(line, &message, hint));
                    continue;
                }
            };
            match item.as_table_like() {
                Some(table) => self.section_keys(section, table, config, &mut None),
                None => self.found.note(self.not_a_section(sides, name, &section.title())),
            }
        }
    }

    /// The sections in a section, each with its name and line. What is no section is a mistake, with `hint`'s advice, or none
    /// if that is `None`.
    fn named<'t>(
        &mut self,
        section: Section,
        table: &'t dyn TableLike,
        hint: impl Fn(&str) -> Option<String>,
    ) -> Vec<(&'t str, &'t dyn TableLike, Option<usize>)> {
        let mut all = Vec::new();
        for (name, item) in table.iter() {
            let line = self.key_line(table, name);
            if let Some(keys) = item.as_table_like() {
                self.remember(format!("{}.{name}", section.name()), line);
                all.push((name, keys, line));
            } else if let Some(hint) = hint(name) {
                let message = format!("\"{}\" in [{}] must be a section", plain(name), section.name());
                self.found.note(self.error(line, &message, Some(hint)));
            }
        }
        all
    }

    fn user_rules(&mut self, table: &dyn TableLike) -> BTreeMap<String, UserRules> {
        let hint = |_: &str| {
            Some("write [users.NAME] and the user's rules below it; secrets belong in [auth.users]".to_owned())
        };
        let mut all = BTreeMap::new();
        for (name, keys, _) in self.named(Section::User, table, hint) {
            let mut rules = UserRules::default();
            self.user(name, keys, &mut rules);
            all.insert(name.to_owned(), rules);
        }
        all
    }

    fn peers(&mut self, table: &dyn TableLike) -> BTreeMap<u16, PeerRules> {
        let hint = |_: &str| Some("write [peers.NUMBER], and host and port below it".to_owned());
        let mut all = BTreeMap::new();
        for (name, keys, line) in self.named(Section::Peer, table, hint) {
            let Some(id) = name.parse().ok().filter(|id| (1..=MAX_PEER_ID).contains(id)) else {
                let message = format!("peer {} is no number from 1 to {MAX_PEER_ID}", plain(name));
                self.found.note(self.error(line, &message, None));
                continue;
            };
            let mut peer = PeerRules::blank();
            self.fill(Section::Peer, name, keys, |setting, raw| {
                setting.peer_field_mut(&mut peer).map_or(Ok(()), |field| setting.write(field, raw))
            });
            let hint = "give the folder of its Unix socket, or its address";
            self.require(Section::Peer, name, line, ("host", !peer.host.is_empty()), hint);
            all.insert(id, peer);
        }
        all
    }

    fn servers(&mut self, table: &dyn TableLike) -> BTreeMap<String, ServerRules> {
        let hint = |_: &str| Some("write [servers.NAME], and max_connections below it".to_owned());
        let mut all = BTreeMap::new();
        for (name, keys, line) in self.named(Section::Server, table, hint) {
            let mut server = ServerRules::blank();
            self.fill(Section::Server, name, keys, |setting, raw| {
                setting.server_field_mut(&mut server).map_or(Ok(()), |field| setting.write(field, raw))
            });
            let hint = "write the most connections that the server's pools may have together";
            self.require(Section::Server, name, line, ("max_connections", server.max_connections > 0), hint);
            all.insert(name.to_owned(), server);
        }
        all
    }

    /// A mistake if a named section lacks a key that it needs, and no other mistake explains that.
    fn require(&mut self, section: Section, name: &str, line: Option<usize>, (key, given): (&str, bool), hint: &str) {
        if !given && !self.found.explains(&format!("{}.{name}", section.name())) {
            let message = format!("{key} is missing in [{}.{}]", section.name(), plain(name));
            self.found.note(self.error(line, &message, Some(hint.to_owned())));
        }
    }

    fn user(&mut self, name: &str, keys: &dyn TableLike, rules: &mut UserRules) {
        self.fill(Section::User, name, keys, |setting, raw| {
            setting.user_field_mut(rules).map_or(Ok(()), |field| setting.write(field, raw))
        });
    }

    fn section_keys(
        &mut self,
        section: Section,
        table: &dyn TableLike,
        config: &mut Config,
        users: &mut Option<Users>,
    ) {
        for (key, item) in table.iter() {
            if self.found.is_full() {
                return;
            }
            if let Err(error) = self.section_key(section, (table, key, item), config, users) {
                self.found.note(error.about(&format!("{}.{key}", section.name())));
            }
        }
    }

    fn section_key(
        &mut self,
        section: Section,
        (table, key, item): (&dyn TableLike, &str, &Item),
        config: &mut Config,
        users: &mut Option<Users>,
    ) -> Result<(), ConfigError> {
        if (section, key) == (Section::Web, OIDC) {
            let within = Section::WebOidc;
            let keys = item.as_table_like().ok_or_else(|| self.not_a_section(table, key, &within.title()))?;
            self.section_keys(within, keys, config, users);
            return Ok(());
        }
        let title = section.title();
        let setting = self.setting(section, &title, table, key)?;
        let line = self.key_line(table, key);
        self.remember_once(format!("{}.{}", section.name(), setting.name), &title, setting, line)?;
        if setting.kind == Kind::Users {
            *users = Some(self.users(line, item)?);
        } else if setting.kind == Kind::Accounts {
            let accounts = Arc::make_mut(&mut config.web.accounts);
            let is_users = setting.name == "users";
            let place = if is_users { &mut accounts.users } else { &mut accounts.tokens };
            *place = self.accounts(is_users, line, item)?;
        } else if let Some(field) = setting.field_mut(config) {
            let raw = self.raw(setting, &title, line, item)?;
            setting.write(field, &raw).map_err(|e| self.bad_value(setting, &title, line, &raw, &e))?;
            remark(setting, &raw, config);
        }
        Ok(())
    }

    fn pools(&mut self, table: &dyn TableLike, config: &Config) -> Vec<PoolText> {
        self.pool_without_name(table);
        let hint = |name: &str| {
            let usual = || "write [pools.NAME] on a line of its own, and its keys below it".into();
            // A setting is a mistake already: one for all of them.
            Section::Pool.find(name).is_none().then(|| wrong_section(name, Some(Section::Pool)).unwrap_or_else(usual))
        };
        let mut pools = Vec::new();
        for (name, keys, _) in self.named(Section::Pool, table, hint) {
            if self.found.is_full() {
                break;
            }
            pools.push(self.pool(name, keys, config));
        }
        pools
    }

    /// Settings of a pool directly in `[pools]`: one mistake, however many there are.
    fn pool_without_name(&mut self, table: &dyn TableLike) {
        let is_setting = |(name, item): &(&str, &Item)| !item.is_table_like() && Section::Pool.find(name).is_some();
        let Some((name, _)) = table.iter().find(is_setting) else { return };
        let line = self.key_line(table, name);
        let hint = "write [pools.NAME] in its place, with the name that clients give as their database";
        self.found.note(self.error(line, "the pool in [pools] has no name", Some(hint.to_owned())));
    }

    fn pool(&mut self, name: &str, keys: &dyn TableLike, config: &Config) -> PoolText {
        let mut pool = PoolText::new(name, config);
        self.fill(Section::Pool, name, keys, |setting, raw| {
            setting.pool_field_mut(&mut pool).map_or(Ok(()), |field| setting.write(field, raw))
        });
        pool
    }

    /// Passes each key of a named section to `write`.
    fn fill(
        &mut self,
        section: Section,
        name: &str,
        keys: &dyn TableLike,
        mut write: impl FnMut(&Setting, &Raw) -> Result<(), String>,
    ) {
        let title = format!("[{}.{}]", section.name(), plain(name));
        for (key, item) in keys.iter() {
            if self.found.is_full() {
                return;
            }
            if let Err(error) = self.fill_one(section, name, &title, (keys, key, item), &mut write) {
                self.found.note(error.about(&format!("{}.{name}.{key}", section.name())));
            }
        }
    }

    fn fill_one(
        &mut self,
        section: Section,
        name: &str,
        title: &str,
        (keys, key, item): (&dyn TableLike, &str, &Item),
        write: &mut impl FnMut(&Setting, &Raw) -> Result<(), String>,
    ) -> Result<(), ConfigError> {
        let setting = self.setting(section, title, keys, key)?;
        let line = self.key_line(keys, key);
        self.remember_once(format!("{}.{name}.{}", section.name(), setting.name), title, setting, line)?;
        let raw = self.raw(setting, title, line, item)?;
        write(setting, &raw).map_err(|e| self.bad_value(setting, title, line, &raw, &e))
    }

    fn setting(
        &self,
        section: Section,
        title: &str,
        table: &dyn TableLike,
        key: &str,
    ) -> Result<&'static Setting, ConfigError> {
        section.find(key).ok_or_else(|| {
            let is_dotted = table.get(key).is_some_and(Item::is_table);
            let dotted = || format!("quote a name with a dot, as in [{}.\"a.b\"]", section.name());
            let hint = if is_dotted { dotted() } else { hint_toml(key, section) };
            let line = self.key_line(table, key);
            self.error(line, &format!("unknown key \"{}\" in {title}", plain(key)), Some(hint))
        })
    }

    fn users(&mut self, line: Option<usize>, item: &Item) -> Result<Users, ConfigError> {
        let shape = "must be a table of users and secrets";
        let hint = || Some("write [auth.users] and below it lines of name = \"secret\"".to_owned());
        let Some(table) = item.as_table_like() else {
            return Err(self.error(line, &format!("\"users\" in [auth] {shape}"), hint()));
        };
        let mut users = Users::default();
        for (name, item) in table.iter() {
            let line = self.key_line(table, name).or(line);
            let about = format!("auth.users.{name}");
            match item.as_str() {
                None => {
                    let message = format!("the secret of \"{}\" in [auth.users] must be text in quotes", plain(name));
                    self.found.note(self.error(line, &message, hint()).about(&about));
                }
                Some(_) if name.is_empty() => {
                    let message = "a user in [auth.users] has an empty name";
                    self.found.note(self.error(line, message, hint()).about(&about));
                }
                Some(secret) => users.insert(name.to_owned(), secret.to_owned(), line.unwrap_or(0)),
            }
        }
        Ok(users)
    }

    /// `[web.users]` or `[web.tokens]`.
    fn accounts(
        &mut self,
        is_users: bool,
        line: Option<usize>,
        item: &Item,
    ) -> Result<BTreeMap<String, Account>, ConfigError> {
        let (title, option) = if is_users { ("[web.users]", "") } else { ("[web.tokens]", " --token") };
        let hint = || Some(format!("\"weir account NAME --role admin{option}\" prints the line to put below {title}"));
        let Some(table) = item.as_table_like() else {
            return Err(self.error(line, &format!("{title} must be a section"), hint()));
        };
        let mut accounts = BTreeMap::new();
        for (name, item) in table.iter() {
            let line = self.key_line(table, name).or(line);
            let account = item.as_str().and_then(if is_users { Account::user } else { Account::token });
            let Some(account) = account.filter(|_| !name.is_empty()) else {
                let message = format!("\"{}\" in {title} must be text of a role and a hash", plain(name));
                self.found.note(self.error(line, &message, hint()));
                continue;
            };
            accounts.insert(name.to_owned(), account);
        }
        Ok(accounts)
    }

    /// Converts a value to text, if TOML's type fits the setting.
    fn raw(&self, setting: &Setting, title: &str, line: Option<usize>, item: &Item) -> Result<Raw, ConfigError> {
        if let Some(text) = item.as_str().filter(|text| elsewhere::is_reference(text) && elsewhere::may_refer(setting))
        {
            let outside = || ("can refer to another value in the settings file only".to_owned(), "write the value");
            let value = self.elsewhere.ok_or_else(outside).and_then(|elsewhere| elsewhere.value(text));
            return value.map(Raw::One).map_err(|(message, hint)| {
                self.error(line, &format!("\"{}\" in {title} {message}", setting.name), Some(hint.to_owned()))
            });
        }
        let items = item.as_array().into_iter().flatten().filter_map(Value::as_str);
        if elsewhere::may_refer(setting) && items.into_iter().any(elsewhere::is_reference) {
            let message = format!("\"{}\" in {title} has a reference within a list, which is not read", setting.name);
            let hint = "refer to the whole list, as \"env:NAME\", whose value is written with commas";
            return Err(self.error(line, &message, Some(hint.to_owned())));
        }
        item.as_value().and_then(|value| raw(setting.kind, value)).ok_or_else(|| {
            let found = match item.type_name() {
                "string" => "text",
                "boolean" => "true or false",
                "integer" => "a whole number",
                "float" => "a number with a fraction",
                "array" => "a list",
                "datetime" => "a date",
                _ => "a section",
            };
            let message = format!("\"{}\" in {title} must be {}, not {found}", setting.name, setting.kind.describe());
            self.error(line, &message, example(setting, setting.name, FileFormat::Toml))
        })
    }

    fn bad_value(&self, setting: &Setting, title: &str, line: Option<usize>, raw: &Raw, expected: &str) -> ConfigError {
        let mut hint = example(setting, setting.name, FileFormat::Toml);
        let mut found = String::new();
        if let (Raw::One(text), true) = (raw, may_be_shown(setting.kind) && expected.starts_with("must")) {
            found = format!(", not {}", short(text));
            if let Kind::Word(words) = setting.kind {
                hint = nearest_or_longer(text, words).map(|near| format!("did you mean \"{near}\"?")).or(hint);
            }
        }
        self.error(line, &format!("\"{}\" in {title} {expected}{found}", setting.name), hint)
    }

    fn remember_once(
        &mut self,
        name: String,
        title: &str,
        setting: &Setting,
        line: Option<usize>,
    ) -> Result<(), ConfigError> {
        if let Some(first) = self.locations.line(&name) {
            let others = match setting.aliases {
                [one] => format!("{one} is another name for it"),
                many => format!("{} are other names for it", many.join(", ")),
            };
            let hint = format!("line {first} has it already; {others}");
            return Err(self.error(line, &format!("\"{}\" in {title} is given twice", setting.name), Some(hint)));
        }
        self.remember(name, line);
        Ok(())
    }

    fn remember(&mut self, name: String, line: Option<usize>) {
        if let Some(line) = line {
            self.locations.insert(name, Location { file: None, line });
        }
    }

    fn key_line(&self, table: &dyn TableLike, key: &str) -> Option<usize> {
        let (key, item) = table.get_key_value(key)?;
        // The key of an implicit table has no span of its own; its first key has.
        let span = key.span().or_else(|| item.span())?;
        Some(self.line_at(span.start))
    }

    fn line_at(&self, offset: usize) -> usize {
        1 + self.line_ends.partition_point(|end| *end < offset)
    }

    fn error(&self, line: Option<usize>, message: &str, hint: Option<String>) -> ConfigError {
        ConfigError::new(self.file, line, message, hint)
    }
}

/// The hint for a section that a pgbouncer.ini has.
fn ini_section(name: &str) -> Option<&'static str> {
    match name {
        "databases" => Some("PgBouncer's [databases] is [pools.NAME] here"),
        "pgbouncer" => Some("its settings are in several sections here: `weir convert FILE.ini` translates a file"),
        _ => None,
    }
}

fn line_ends(text: &str) -> Vec<usize> {
    text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect()
}

/// A value as text, if its type fits `kind`.
fn raw(kind: Kind, value: &Value) -> Option<Raw> {
    let text = match (kind, value) {
        (Kind::Permissions, Value::Integer(v)) => format!("{:o}", v.value()),
        (Kind::Number { .. } | Kind::CountOrAuto { .. } | Kind::Time { .. } | Kind::Size { .. }, Value::Integer(v)) => {
            v.value().to_string()
        }
        (Kind::Time { .. }, Value::Float(v)) => v.value().to_string(),
        (Kind::Flag, Value::Boolean(v)) => v.value().to_string(),
        (Kind::Ports, Value::Integer(v)) => v.value().to_string(),
        (Kind::Ports, Value::Array(items)) => {
            return items
                .iter()
                .map(|v| v.as_integer().map(|port| port.to_string()))
                .collect::<Option<_>>()
                .map(Raw::Many);
        }
        (
            Kind::Names | Kind::Words(_) | Kind::Origins | Kind::Hosts | Kind::Addresses | Kind::Networks,
            Value::Array(items),
        ) => {
            return items.iter().map(|v| v.as_str().map(str::to_owned)).collect::<Option<_>>().map(Raw::Many);
        }
        (Kind::Number { .. } | Kind::Flag | Kind::Ports | Kind::Users | Kind::Accounts, _) => return None,
        (_, Value::String(v)) => v.value().clone(),
        _ => return None,
    };
    Some(Raw::One(text))
}

/// Warns of TLS versions that are not supported.
fn remark(setting: &Setting, raw: &Raw, config: &mut Config) {
    if let (Kind::Protocols, Raw::One(text)) = (setting.kind, raw) {
        config.remarks.extend(ciphers::remark_on_protocols(&setting.key(), text));
    }
}
