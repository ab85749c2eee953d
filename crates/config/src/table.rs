//! The shape of a setting: names in both faces, kind, range, default, when a change takes effect, documentation, and
//! the field it fills. The entries stand in `settings`; the readers, SHOW CONFIG, reload and the reference use them.
//!
//! Must not know any file format: a reader turns what it found into a [`Raw`] and gives it to [`Setting::write`].

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use weir_base::{Mode, OnDirty, Span};

use crate::model::{Config, Limits, Method};
use crate::settings;
use crate::units;

/// One setting.
#[derive(Clone, Copy)]
pub(crate) struct Setting {
    /// Where it stands in TOML.
    pub(crate) section: Section,
    /// Its name in TOML.
    pub(crate) name: &'static str,
    /// Other names that TOML accepts: PgBouncer's, where ours is shorter.
    pub(crate) aliases: &'static [&'static str],
    /// Its name in `[pgbouncer]` of an ini; also what SHOW CONFIG calls it.
    pub(crate) ini: Option<&'static str>,
    /// Its name in a connection string of `[databases]` of an ini.
    pub(crate) ini_database: Option<&'static str>,
    /// What values it takes.
    pub(crate) kind: Kind,
    /// Its default as text; empty: none.
    pub(crate) default: &'static str,
    /// Its default in an ini, where PgBouncer's differs.
    pub(crate) ini_default: Option<&'static str>,
    /// When a change takes effect.
    pub(crate) effect: Effect,
    /// Whether a pool may have its own value.
    pub(crate) reach: Reach,
    /// The field it fills.
    pub(crate) place: Place,
    /// What it does, in sentences.
    pub(crate) doc: &'static str,
}

/// The sections of the TOML file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Section {
    General,
    Listen,
    Auth,
    Log,
    Limits,
    Pool,
}

/// What values a setting takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A whole number.
    Number { min: u64, max: u64 },
    /// A time of at least `min` and at most [`Kind::LONGEST`].
    Time { min: Span },
    /// A number of bytes.
    Size { min: u64, max: u64 },
    /// The permission bits of a file, in octal.
    Permissions,
    /// Yes or no.
    Flag,
    /// One of these words.
    Word(&'static [&'static str]),
    /// Free text, not empty.
    Text,
    /// Free text that must never be shown.
    Secret,
    /// A list of names.
    Names,
    /// A list of addresses to listen on.
    Addresses,
    /// A table of users and their secrets.
    Users,
}

/// When a changed setting takes effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Effect {
    /// With the reload.
    Live,
    /// With the reload; the pool's servers are replaced as they become free.
    Reconnect,
    /// When Weir is started again.
    Restart,
}

/// Whether a pool may have its own value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reach {
    /// One value for the whole process, or a setting of a pool anyway.
    One,
    /// A pool's own value wins over the one for all.
    PerPool,
}

/// The field that a setting fills.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    Config(fn(&mut Config) -> Slot<'_>),
    Limits(fn(&mut Limits) -> Slot<'_>),
    Pool(fn(&mut PoolText) -> Slot<'_>),
    /// Read by itself: it is not a single value.
    Apart,
}

/// A pool as it is written, before passwords are fetched and limits resolved. Holds secrets, hence no `Debug`.
#[derive(Clone)]
pub(crate) struct PoolText {
    pub(crate) name: String,
    pub(crate) host: Option<String>,
    pub(crate) port: u16,
    pub(crate) database: Option<String>,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) password_file: Option<String>,
    pub(crate) password_env: Option<String>,
    pub(crate) mode: Mode,
    pub(crate) on_dirty: OnDirty,
    pub(crate) limits: Limits,
}

/// A value as a reader found it.
pub(crate) enum Raw {
    One(String),
    Many(Vec<String>),
}

/// A typed field, to fill or to show.
pub(crate) enum Slot<'a> {
    U8(&'a mut u8),
    U16(&'a mut u16),
    U32(&'a mut u32),
    U64(&'a mut u64),
    Span(&'a mut Span),
    Flag(&'a mut bool),
    Text(&'a mut Option<String>),
    Path(&'a mut Option<PathBuf>),
    Names(&'a mut Vec<String>),
    Addresses(&'a mut Vec<IpAddr>),
    Method(&'a mut Method),
    Mode(&'a mut Mode),
    OnDirty(&'a mut OnDirty),
}

impl Section {
    pub(crate) const ALL: [Section; 6] =
        [Section::General, Section::Listen, Section::Auth, Section::Log, Section::Limits, Section::Pool];

    /// Its name in the file.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Section::General => "general",
            Section::Listen => "listen",
            Section::Auth => "auth",
            Section::Log => "log",
            Section::Limits => "limits",
            Section::Pool => "pools",
        }
    }

    /// How a person names it.
    pub(crate) fn title(self) -> String {
        match self {
            Section::Pool => "[pools.NAME]".to_owned(),
            section => format!("[{}]", section.name()),
        }
    }

    /// The settings that may stand in it; for a pool the limits too.
    pub(crate) fn settings(self) -> impl Iterator<Item = &'static Setting> {
        settings::all().filter(move |s| s.section == self || (self == Section::Pool && s.reach == Reach::PerPool))
    }

    /// The setting of this name or alias.
    pub(crate) fn find(self, name: &str) -> Option<&'static Setting> {
        self.settings().find(|s| s.name == name || s.aliases.contains(&name))
    }
}

impl Setting {
    pub(crate) const fn new(
        section: Section,
        name: &'static str,
        kind: Kind,
        default: &'static str,
        place: Place,
        doc: &'static str,
    ) -> Setting {
        let reach = if matches!(section, Section::Limits) { Reach::PerPool } else { Reach::One };
        Setting {
            section,
            name,
            aliases: &[],
            ini: None,
            ini_database: None,
            kind,
            default,
            ini_default: None,
            effect: Effect::Live,
            reach,
            place,
            doc,
        }
    }

    pub(crate) const fn ini(self, name: &'static str) -> Setting {
        Setting { ini: Some(name), ..self }
    }

    pub(crate) const fn database(self, name: &'static str) -> Setting {
        Setting { ini_database: Some(name), ..self }
    }

    pub(crate) const fn ini_default(self, default: &'static str) -> Setting {
        Setting { ini_default: Some(default), ..self }
    }

    pub(crate) const fn aliases(self, aliases: &'static [&'static str]) -> Setting {
        Setting { aliases, ..self }
    }

    pub(crate) const fn effect(self, effect: Effect) -> Setting {
        Setting { effect, ..self }
    }

    pub(crate) const fn reach(self, reach: Reach) -> Setting {
        Setting { reach, ..self }
    }

    /// The name that SHOW CONFIG gives it: PgBouncer's where there is one, so that what reads it there reads it here.
    pub(crate) fn shown_name(&self) -> &'static str {
        self.ini.unwrap_or(self.name)
    }

    /// The field that this setting fills in `config`, if it is one for all.
    pub(crate) fn slot<'a>(&self, config: &'a mut Config) -> Option<Slot<'a>> {
        match self.place {
            Place::Config(field) => Some(field(config)),
            Place::Limits(field) => Some(field(&mut config.limits)),
            Place::Pool(_) | Place::Apart => None,
        }
    }

    /// The field that this setting fills in a pool, if a pool may have it.
    pub(crate) fn pool_slot<'a>(&self, pool: &'a mut PoolText) -> Option<Slot<'a>> {
        match self.place {
            Place::Pool(field) => Some(field(pool)),
            Place::Limits(field) => Some(field(&mut pool.limits)),
            Place::Config(_) | Place::Apart => None,
        }
    }

    /// Reads `raw` into `slot`; the error completes the sentence "`name` …".
    pub(crate) fn write(&self, slot: Slot<'_>, raw: &Raw) -> Result<(), String> {
        let text = match raw {
            Raw::One(text) => text.as_str(),
            Raw::Many(items) => return self.write_list(slot, items),
        };
        match slot {
            Slot::U8(v) => *v = self.number(text)?,
            Slot::U16(v) => *v = self.number(text)?,
            Slot::U32(v) => *v = self.number(text)?,
            Slot::U64(v) => *v = self.number(text)?,
            Slot::Span(v) => *v = self.time(text)?,
            Slot::Flag(v) => *v = flag(text)?,
            Slot::Text(v) => *v = Some(self.text(text)?),
            Slot::Path(v) => *v = Some(PathBuf::from(self.text(text)?)),
            Slot::Method(v) => *v = text.parse()?,
            Slot::Mode(v) => *v = text.parse().map_err(|e: weir_base::UnknownPolicy| e.to_string())?,
            Slot::OnDirty(v) => *v = text.parse().map_err(|e: weir_base::UnknownPolicy| e.to_string())?,
            list @ (Slot::Names(_) | Slot::Addresses(_)) => {
                let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
                return self.write_list(list, &items.map(str::to_owned).collect::<Vec<_>>());
            }
        }
        Ok(())
    }

    fn write_list(&self, slot: Slot<'_>, items: &[String]) -> Result<(), String> {
        if items.iter().any(|item| item.trim().is_empty()) {
            return Err("must not list an empty name".to_owned());
        }
        match slot {
            Slot::Names(v) => *v = items.to_vec(),
            Slot::Addresses(v) => *v = addresses(items)?,
            _ => return Err(format!("must be {}", self.kind.describe())),
        }
        Ok(())
    }

    fn number<T: TryFrom<u64>>(&self, text: &str) -> Result<T, String> {
        let (value, min, max) = match self.kind {
            Kind::Permissions => (u64::from_str_radix(text, 8).ok(), 0, 0o777),
            Kind::Size { min, max } => (units::size(text), min, max),
            Kind::Number { min, max } => (text.trim().parse().ok(), min, max),
            _ => (None, 0, 0),
        };
        let value = value.filter(|v| (min..=max).contains(v)).and_then(|v| T::try_from(v).ok());
        value.ok_or_else(|| format!("must be {}", self.kind.describe()))
    }

    fn text(&self, text: &str) -> Result<String, String> {
        if text.is_empty() {
            return Err("must not be empty".to_owned());
        }
        // Names end up in messages of one line; passwords only in messages to the server, which end at a zero byte.
        let refused = |c: char| c == '\0' || (self.kind != Kind::Secret && c.is_control());
        if text.contains(refused) {
            return Err("must not contain control characters".to_owned());
        }
        Ok(text.to_owned())
    }

    fn time(&self, text: &str) -> Result<Span, String> {
        let Kind::Time { min } = self.kind else {
            return Err(format!("must be {}", self.kind.describe()));
        };
        let value = units::span(text).filter(|span| (min..=Kind::LONGEST).contains(span));
        value.ok_or_else(|| format!("must be {}", self.kind.describe()))
    }
}

impl Kind {
    /// A time, where zero means that there is no limit.
    pub(crate) const ANY_TIME: Kind = Kind::Time { min: Span::ZERO };
    /// The longest time a setting takes: ten years.
    pub(crate) const LONGEST: Span = Span::from_secs(3_650 * 86_400);

    /// Says what is expected, as the end of the sentence "must be …".
    pub(crate) fn describe(&self) -> String {
        match *self {
            Kind::Number { min, max } => format!("a whole number from {min} to {max}"),
            Kind::Time { min } => {
                format!("a time from {} to {}, as in 5, \"500ms\" or \"2min\"", units::brief(min), "3650d")
            }
            Kind::Size { min, max } => {
                format!("a size from {} to {}, as in \"256MiB\"", units::brief_size(min), units::brief_size(max))
            }
            Kind::Permissions => "permission bits from \"0000\" to \"0777\", in octal".to_owned(),
            Kind::Flag => "true or false".to_owned(),
            Kind::Word(words) => format!("one of {}", words.join(", ")),
            Kind::Text | Kind::Secret => "text in quotes".to_owned(),
            Kind::Names => "a list of names, as in [\"one\", \"two\"]".to_owned(),
            Kind::Addresses => "an address or a list of addresses, as in [\"127.0.0.1\", \"::1\"] or \"*\"".to_owned(),
            Kind::Users => "a table of users and secrets, as in { app = \"secret\" }".to_owned(),
        }
    }
}

impl Slot<'_> {
    /// The value as SHOW CONFIG prints it: seconds, 0 and 1, lists with commas, as PgBouncer does.
    pub(crate) fn show(&self) -> String {
        match self {
            Slot::U8(v) => v.to_string(),
            Slot::U16(v) => v.to_string(),
            Slot::U32(v) => v.to_string(),
            Slot::U64(v) => v.to_string(),
            Slot::Span(v) => units::seconds(**v),
            Slot::Flag(v) => u8::from(**v).to_string(),
            Slot::Text(v) => v.as_deref().unwrap_or_default().to_owned(),
            Slot::Path(v) => v.as_ref().map(|path| path.display().to_string()).unwrap_or_default(),
            Slot::Names(v) => v.join(","),
            Slot::Addresses(v) => v.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(","),
            Slot::Method(v) => v.to_string(),
            Slot::Mode(v) => v.to_string(),
            Slot::OnDirty(v) => v.to_string(),
        }
    }
}

fn flag(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Ok(true),
        "0" | "false" | "no" | "off" => Ok(false),
        _ => Err("must be true or false".to_owned()),
    }
}

/// `*` is every address; `localhost` is 127.0.0.1, since it can be bound on every machine.
fn addresses(items: &[String]) -> Result<Vec<IpAddr>, String> {
    let mut found = Vec::new();
    for item in items {
        match item.trim() {
            "*" => found.extend([IpAddr::from(Ipv4Addr::UNSPECIFIED), IpAddr::from(Ipv6Addr::UNSPECIFIED)]),
            "localhost" => found.push(IpAddr::from(Ipv4Addr::LOCALHOST)),
            text => found.push(text.parse().map_err(|_| format!("must be {}", Kind::Addresses.describe()))?),
        }
    }
    // Listening twice on one address would fail at start.
    let mut seen = Vec::new();
    found.retain(|ip| {
        !seen.contains(ip) && {
            seen.push(*ip);
            true
        }
    });
    Ok(found)
}
