//! The type of a setting: names in both file formats, kind, range, defaults, when a change takes effect,
//! documentation, and the field that it fills. The entries are in `settings`; the readers, SHOW CONFIG, SET, reload,
//! `weir convert` and the reference use them.
//!
//! Must not know any file format: a reader turns its input into a [`Raw`] or a text, and [`Setting::write`] or
//! [`Setting::write_ini`] into a value.

use crate::field::FieldMut;
use crate::kind::Kind;
use crate::model::{Config, Limits, PeerRules, Policy, ServerRules, UserRules};
use crate::origin::FileFormat;
use crate::pool_text::PoolText;

/// One setting.
#[derive(Clone, Copy)]
pub(crate) struct Setting {
    /// The setting's section in TOML.
    pub(crate) section: Section,
    /// The setting's name in TOML.
    pub(crate) name: &'static str,
    /// Other names that TOML accepts: PgBouncer's, where ours is shorter.
    pub(crate) aliases: &'static [&'static str],
    /// The setting's name in `[pgbouncer]` of an ini, and in SHOW CONFIG.
    pub(crate) ini: Option<&'static str>,
    /// The setting's names in a connection string of `[databases]` of an ini.
    pub(crate) ini_database: &'static [&'static str],
    /// The setting's name in a line of `[users]` of an ini.
    pub(crate) ini_user: Option<&'static str>,
    /// Whether PgBouncer has the setting.
    pub(crate) origin: Origin,
    /// The values that the setting accepts.
    pub(crate) kind: Kind,
    /// The setting's default as text; empty: no default.
    pub(crate) default: &'static str,
    /// The setting's default in an ini, where PgBouncer's differs.
    pub(crate) ini_default: Option<&'static str>,
    /// When a change of the setting takes effect.
    pub(crate) effect: Effect,
    /// Whether a pool may have its own value.
    pub(crate) reach: Reach,
    /// Each node of a cluster has its own value, though the section is shared.
    pub(crate) of_node: bool,
    /// The field that the setting fills.
    pub(crate) field: Field,
    /// What the setting does, in sentences; for a setting without effect, why it has none.
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
    WebOidc,
    Cluster,
    Alerts,
    Telemetry,
    Log,
    Limits,
    User,
    Peer,
    Server,
    Pool,
    /// No section of TOML: only an ini has these settings, and they do nothing.
    Foreign,
}

/// Whether PgBouncer has a setting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    PgBouncer,
    Weir,
}

/// When a changed setting takes effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Effect {
    /// The change takes effect with the reload.
    Live,
    /// The change takes effect with the reload; the pool's servers are replaced as they become free.
    Reconnect,
    /// The change takes effect after a restart.
    Restart,
}

/// Whether a pool may have its own value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reach {
    /// One value for the whole process, or a setting that only pools have.
    One,
    /// A pool's own value overrides the global one.
    PerPool,
}

/// The field that a setting fills.
#[derive(Clone, Copy)]
pub(crate) enum Field {
    Config(fn(&mut Config) -> FieldMut<'_>),
    Limits(fn(&mut Limits) -> FieldMut<'_>),
    Pool(fn(&mut PoolText) -> FieldMut<'_>),
    /// A global field, and one in each pool.
    Policy(fn(&mut Policy) -> FieldMut<'_>),
    User(fn(&mut UserRules) -> FieldMut<'_>),
    Peer(fn(&mut PeerRules) -> FieldMut<'_>),
    Server(fn(&mut ServerRules) -> FieldMut<'_>),
    /// The value is kept under the setting's name in the ini, and only shown.
    Inert,
    /// Read by code of its own: the setting is not a single value.
    Apart,
}

/// A value as a reader parsed it.
pub(crate) enum Raw {
    One(String),
    Many(Vec<String>),
}

impl Section {
    /// The sections that TOML has, in the order of the reference.
    pub(crate) const ALL: [Section; 18] = [
        Section::General,
        Section::Listen,
        Section::Auth,
        Section::TlsClient,
        Section::TlsServer,
        Section::Dns,
        Section::Process,
        Section::Web,
        Section::WebOidc,
        Section::Cluster,
        Section::Alerts,
        Section::Telemetry,
        Section::Log,
        Section::Limits,
        Section::User,
        Section::Peer,
        Section::Server,
        Section::Pool,
    ];

    /// The section's name in the file.
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
            Section::WebOidc => "web.oidc",
            Section::Cluster => "cluster",
            Section::Alerts => "alerts",
            Section::Telemetry => "telemetry",
            Section::Log => "log",
            Section::Limits => "limits",
            Section::User => "users",
            Section::Peer => "peers",
            Section::Server => "servers",
            Section::Pool => "pools",
            Section::Foreign => "pgbouncer",
        }
    }

    /// Whether the nodes of a cluster share the section's settings, but for those that are
    /// [`of_node`](Setting::of_node). A setting that depends on the machine, or says who may use a node's control
    /// plane, is each node's own.
    pub(crate) fn is_shared(self) -> bool {
        match self {
            Section::General | Section::Auth | Section::Limits | Section::User | Section::Server | Section::Pool => {
                true
            }
            Section::Listen
            | Section::TlsClient
            | Section::TlsServer
            | Section::Dns
            | Section::Process
            | Section::Web
            | Section::WebOidc
            | Section::Cluster
            | Section::Alerts
            | Section::Telemetry
            | Section::Log
            | Section::Peer
            | Section::Foreign => false,
        }
    }

    /// The section's name in messages.
    pub(crate) fn title(self) -> String {
        match self {
            Section::Pool | Section::User | Section::Server => format!("[{}.NAME]", self.name()),
            Section::Peer => format!("[{}.NUMBER]", self.name()),
            section => format!("[{}]", section.name()),
        }
    }
}

impl Setting {
    pub(crate) const fn new(
        section: Section,
        name: &'static str,
        kind: Kind,
        default: &'static str,
        field: Field,
        doc: &'static str,
    ) -> Setting {
        let reach = match (section, field) {
            (Section::Limits, _) | (_, Field::Policy(_)) => Reach::PerPool,
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
            of_node: false,
            field,
            doc,
        }
    }

    /// A setting of PgBouncer without effect here, with the reason.
    pub(crate) const fn inert(name: &'static str, kind: Kind, default: &'static str, why: &'static str) -> Setting {
        Setting::new(Section::Foreign, name, kind, default, Field::Inert, why).ini(name)
    }

    /// PgBouncer's name of the setting.
    pub(crate) const fn ini(self, name: &'static str) -> Setting {
        Setting { ini: Some(name), origin: Origin::PgBouncer, ..self }
    }

    /// The name in an ini of a setting that only Weir has.
    pub(crate) const fn ini_own(self, name: &'static str) -> Setting {
        Setting { ini: Some(name), origin: Origin::Weir, ..self }
    }

    pub(crate) const fn database(self, names: &'static [&'static str]) -> Setting {
        Setting { ini_database: names, origin: Origin::PgBouncer, ..self }
    }

    /// The name in a connection string of a setting that only Weir has.
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

    /// Each node of a cluster has its own value.
    pub(crate) const fn of_node(self) -> Setting {
        Setting { of_node: true, ..self }
    }

    /// Whether the nodes of a cluster share the setting, once they have a shared configuration.
    pub(crate) fn is_shared(&self) -> bool {
        self.section.is_shared() && !self.of_node
    }

    /// The setting's name in SHOW CONFIG: PgBouncer's name where there is one, so that PgBouncer's tools find it.
    pub(crate) fn shown_name(&self) -> &'static str {
        self.ini.unwrap_or(self.name)
    }

    /// The setting's name with its section, as in `listen.port`: the setting's key in `Locations`.
    pub(crate) fn key(&self) -> String {
        format!("{}.{}", self.section.name(), self.name)
    }

    /// The setting's default in a file format, as text.
    pub(crate) fn default_in(&self, format: FileFormat) -> &'static str {
        match format {
            FileFormat::Toml => self.default,
            FileFormat::Ini => self.ini_default.unwrap_or(self.default),
        }
    }

    /// Whether the value is never shown, and may be a reference that is read where it is used.
    pub(crate) fn is_concealed(&self) -> bool {
        matches!(self.field_mut(&mut Config::default()), Some(FieldMut::Concealed(_)))
    }

    /// Whether the setting has no effect.
    pub(crate) fn is_inert(&self) -> bool {
        matches!(self.field, Field::Inert)
    }

    /// The field that this setting fills in `config`, if it is a global one.
    pub(crate) fn field_mut<'a>(&self, config: &'a mut Config) -> Option<FieldMut<'a>> {
        match self.field {
            Field::Config(field) => Some(field(config)),
            Field::Policy(field) => Some(field(&mut config.policy)),
            Field::Limits(field) => Some(field(&mut config.limits)),
            Field::Inert => Some(FieldMut::Inert(config.inert.entry(self.name).or_default())),
            Field::Pool(_) | Field::User(_) | Field::Peer(_) | Field::Server(_) | Field::Apart => None,
        }
    }

    /// The field that this setting fills in a pool, if a pool may have it.
    pub(crate) fn pool_field_mut<'a>(&self, pool: &'a mut PoolText) -> Option<FieldMut<'a>> {
        match self.field {
            Field::Pool(field) => Some(field(pool)),
            Field::Policy(field) => Some(field(&mut pool.policy)),
            Field::Limits(field) => Some(field(&mut pool.limits)),
            Field::Config(_) | Field::User(_) | Field::Peer(_) | Field::Server(_) | Field::Inert | Field::Apart => None,
        }
    }

    /// The field that this setting fills in the rules of a user.
    pub(crate) fn user_field_mut<'a>(&self, rules: &'a mut UserRules) -> Option<FieldMut<'a>> {
        match self.field {
            Field::User(field) => Some(field(rules)),
            _ => None,
        }
    }

    /// The field that this setting fills in the rules of a database server.
    pub(crate) fn server_field_mut<'a>(&self, server: &'a mut ServerRules) -> Option<FieldMut<'a>> {
        match self.field {
            Field::Server(field) => Some(field(server)),
            _ => None,
        }
    }

    /// The field that this setting fills in the rules of a peer.
    pub(crate) fn peer_field_mut<'a>(&self, peer: &'a mut PeerRules) -> Option<FieldMut<'a>> {
        match self.field {
            Field::Peer(field) => Some(field(peer)),
            _ => None,
        }
    }
}
