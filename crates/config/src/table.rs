//! The shape of a setting: names in both faces, kind, range, defaults, when a change takes effect, documentation, and
//! the field it fills. The entries stand in `settings`; the readers, SHOW CONFIG, SET, reload, `weir convert` and the
//! reference use them.
//!
//! Must not know any file format: a reader turns what it found into a [`Raw`] or a text, and [`Setting::write`] or
//! [`Setting::write_ini`] into a value.

use weir_base::Span;

use crate::model::{Config, Limits, UserRules};
use crate::origin::FileFormat;
use crate::pool_text::PoolText;
use crate::settings;
use crate::slot::Slot;
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
    /// Its names in a connection string of `[databases]` of an ini.
    pub(crate) ini_database: &'static [&'static str],
    /// Its name in a line of `[users]` of an ini.
    pub(crate) ini_user: Option<&'static str>,
    /// Whether PgBouncer has it.
    pub(crate) origin: Origin,
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
    /// What it does, in sentences; of a setting that does nothing, why.
    pub(crate) doc: &'static str,
}

/// The sections of the TOML file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Section {
    General,
    Listen,
    Auth,
    TlsClient,
    TlsServer,
    Dns,
    Process,
    Web,
    Log,
    Limits,
    User,
    Pool,
    /// None: only an ini has it, and it does nothing.
    Foreign,
}

/// Whether PgBouncer has a setting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    PgBouncer,
    Weir,
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
    /// Free text of one line.
    Text,
    /// An SQL query.
    Query,
    /// Free text that must never be shown.
    Secret,
    /// A list of names.
    Names,
    /// A host, or a list of hosts.
    Hosts,
    /// A port, or a list of ports.
    Ports,
    /// A list of addresses to listen on.
    Addresses,
    /// A list of networks.
    Networks,
    /// Versions of TLS.
    Protocols,
    /// A table of users and their secrets.
    Users,
    /// A table of accounts of the control plane.
    Accounts,
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
    /// One for all, and one in each pool.
    Shared(fn(&mut Config) -> Slot<'_>, fn(&mut PoolText) -> Slot<'_>),
    User(fn(&mut UserRules) -> Slot<'_>),
    /// Kept under its name in the ini, and only shown.
    Inert,
    /// Read by itself: it is not a single value.
    Apart,
}

/// A value as a reader found it.
pub(crate) enum Raw {
    One(String),
    Many(Vec<String>),
}

impl Section {
    /// The sections that TOML has, in the order of the reference.
    pub(crate) const ALL: [Section; 12] = [
        Section::General,
        Section::Listen,
        Section::Auth,
        Section::TlsClient,
        Section::TlsServer,
        Section::Dns,
        Section::Process,
        Section::Web,
        Section::Log,
        Section::Limits,
        Section::User,
        Section::Pool,
    ];

    /// Its name in the file.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Section::General => "general",
            Section::Listen => "listen",
            Section::Auth => "auth",
            Section::TlsClient => "tls.client",
            Section::TlsServer => "tls.server",
            Section::Dns => "dns",
            Section::Process => "process",
            Section::Web => "web",
            Section::Log => "log",
            Section::Limits => "limits",
            Section::User => "users",
            Section::Pool => "pools",
            Section::Foreign => "pgbouncer",
        }
    }

    /// How a person names it.
    pub(crate) fn title(self) -> String {
        match self {
            Section::Pool | Section::User => format!("[{}.NAME]", self.name()),
            section => format!("[{}]", section.name()),
        }
    }

    /// The settings that may stand in it; for a pool those that have a value for all too.
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
        let reach = match (section, place) {
            (Section::Limits, _) | (_, Place::Shared(..)) => Reach::PerPool,
            _ => Reach::One,
        };
        Setting {
            section,
            name,
            aliases: &[],
            ini: None,
            ini_database: &[],
            ini_user: None,
            origin: Origin::Weir,
            kind,
            default,
            ini_default: None,
            effect: Effect::Live,
            reach,
            place,
            doc,
        }
    }

    /// A setting of PgBouncer's that does nothing here, with the reason.
    pub(crate) const fn inert(name: &'static str, kind: Kind, default: &'static str, why: &'static str) -> Setting {
        Setting::new(Section::Foreign, name, kind, default, Place::Inert, why).ini(name)
    }

    /// PgBouncer's name.
    pub(crate) const fn ini(self, name: &'static str) -> Setting {
        Setting { ini: Some(name), origin: Origin::PgBouncer, ..self }
    }

    /// The name in an ini of a setting that PgBouncer does not have.
    pub(crate) const fn ini_own(self, name: &'static str) -> Setting {
        Setting { ini: Some(name), origin: Origin::Weir, ..self }
    }

    pub(crate) const fn database(self, names: &'static [&'static str]) -> Setting {
        Setting { ini_database: names, origin: Origin::PgBouncer, ..self }
    }

    /// The name in a connection string of a setting that PgBouncer does not have.
    pub(crate) const fn database_own(self, names: &'static [&'static str]) -> Setting {
        Setting { ini_database: names, ..self }
    }

    pub(crate) const fn user(self, name: &'static str) -> Setting {
        Setting { ini_user: Some(name), origin: Origin::PgBouncer, ..self }
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

    /// Its name with its section, as in `listen.port`: what places are remembered by.
    pub(crate) fn key(&self) -> String {
        format!("{}.{}", self.section.name(), self.name)
    }

    /// Its default in a file format, as text.
    pub(crate) fn default_in(&self, format: FileFormat) -> &'static str {
        match format {
            FileFormat::Toml => self.default,
            FileFormat::Ini => self.ini_default.unwrap_or(self.default),
        }
    }

    /// Whether it does nothing.
    pub(crate) fn is_inert(&self) -> bool {
        matches!(self.place, Place::Inert)
    }

    /// The field that this setting fills in `config`, if it is one for all.
    pub(crate) fn slot<'a>(&self, config: &'a mut Config) -> Option<Slot<'a>> {
        match self.place {
            Place::Config(field) | Place::Shared(field, _) => Some(field(config)),
            Place::Limits(field) => Some(field(&mut config.limits)),
            Place::Inert => Some(Slot::Inert(config.inert.entry(self.name).or_default())),
            Place::Pool(_) | Place::User(_) | Place::Apart => None,
        }
    }

    /// The field that this setting fills in a pool, if a pool may have it.
    pub(crate) fn pool_slot<'a>(&self, pool: &'a mut PoolText) -> Option<Slot<'a>> {
        match self.place {
            Place::Pool(field) | Place::Shared(_, field) => Some(field(pool)),
            Place::Limits(field) => Some(field(&mut pool.limits)),
            Place::Config(_) | Place::User(_) | Place::Inert | Place::Apart => None,
        }
    }

    /// The field that this setting fills in the rules of a user.
    pub(crate) fn user_slot<'a>(&self, rules: &'a mut UserRules) -> Option<Slot<'a>> {
        match self.place {
            Place::User(field) => Some(field(rules)),
            _ => None,
        }
    }
}

impl Kind {
    /// A time, where zero means that there is no limit.
    pub(crate) const ANY_TIME: Kind = Kind::Time { min: Span::ZERO };
    /// The longest time a setting takes: a hundred years, because files say 999999999 for ever.
    pub(crate) const LONGEST: Span = Span::from_secs(36_500 * 86_400);

    /// Says what is expected, as the end of the sentence "must be …".
    pub(crate) fn describe(&self) -> String {
        match *self {
            Kind::Number { min, max } => format!("a whole number from {min} to {max}"),
            Kind::Time { min } => {
                format!("a time from {} to {}, as in 5, \"500ms\" or \"2min\"", units::brief(min), "36500d")
            }
            Kind::Size { min, max } => {
                format!("a size from {} to {}, as in \"256MiB\"", units::brief_size(min), units::brief_size(max))
            }
            Kind::Permissions => "permission bits from \"0000\" to \"0777\", in octal".to_owned(),
            Kind::Flag => "true or false".to_owned(),
            Kind::Word(words) => format!("one of {}", words.join(", ")),
            Kind::Text | Kind::Query | Kind::Secret => "text in quotes".to_owned(),
            Kind::Names => "a list of names, as in [\"one\", \"two\"]".to_owned(),
            Kind::Hosts => "a host or a list of hosts, as in \"127.0.0.1\" or [\"one\", \"two\"]".to_owned(),
            Kind::Ports => "a whole number from 1 to 65535, or a list of them".to_owned(),
            Kind::Addresses => "an address or a list of addresses, as in [\"127.0.0.1\", \"::1\"] or \"*\"".to_owned(),
            Kind::Networks => "a list of networks, as in [\"10.0.0.0/8\"]".to_owned(),
            Kind::Protocols => "\"secure\", or versions, as in \"tlsv1.3\"".to_owned(),
            Kind::Accounts => "a table of names, roles and hashes, as \"weir account NAME\" prints it".to_owned(),
            Kind::Users => "a table of users and secrets, as in { app = \"secret\" }".to_owned(),
        }
    }
}
