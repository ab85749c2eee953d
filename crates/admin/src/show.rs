//! The names that SHOW accepts: tables and parameters.
//!
//! Owns the names. Knows neither a table's columns nor the source of its rows; `tables` has an entry for each.

/// The tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // Each is the table of that name.
pub enum Show {
    Pools,
    Stats,
    StatsTotals,
    StatsAverages,
    Totals,
    Clients,
    Servers,
    Databases,
    Users,
    Config,
    Lists,
    Version,
    /// The help, which is [`help_text`](crate::help_text) and no table.
    Help,
    Mem,
    State,
    Fds,
    Sockets,
    ActiveSockets,
    DnsHosts,
    DnsZones,
    Peers,
    PeerPools,
    /// Weir's own: refused clients by cause.
    Refusals,
    /// Weir's own: session state that clients lost, or were refused.
    LostState,
    /// Weir's own: statements by their fingerprints.
    Statements,
    /// Weir's own: which pools' traffic is recorded.
    Records,
    /// Weir's own: what other modes would do with the recorded traffic.
    DryRun,
    /// Weir's own: the nodes that share pools' budgets.
    Cluster,
    /// Weir's own: where pools write, and how they moved.
    Patroni,
    Primaries,
    /// Weir's own: what is wrong with Weir itself.
    Faults,
    /// One session parameter, which drivers query after connecting.
    Parameter(Parameter),
}

/// The two kinds of connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Connections {
    /// From clients.
    Clients,
    /// To servers.
    Servers,
}

/// The session parameters that the console emulates, since drivers query and set them on their own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // Each is PostgreSQL's parameter of that name.
pub enum Parameter {
    ClientEncoding,
    DefaultTransactionIsolation,
    StandardConformingStrings,
    DateStyle,
    TimeZone,
    ExtraFloatDigits,
}

/// Every table, with its name.
pub(crate) const TABLES: [(Show, &str); 31] = [
    (Show::Pools, "pools"),
    (Show::Stats, "stats"),
    (Show::StatsTotals, "stats_totals"),
    (Show::StatsAverages, "stats_averages"),
    (Show::Totals, "totals"),
    (Show::Clients, "clients"),
    (Show::Servers, "servers"),
    (Show::Databases, "databases"),
    (Show::Users, "users"),
    (Show::Config, "config"),
    (Show::Lists, "lists"),
    (Show::Version, "version"),
    (Show::Help, "help"),
    (Show::Mem, "mem"),
    (Show::State, "state"),
    (Show::Fds, "fds"),
    (Show::Sockets, "sockets"),
    (Show::ActiveSockets, "active_sockets"),
    (Show::DnsHosts, "dns_hosts"),
    (Show::DnsZones, "dns_zones"),
    (Show::Peers, "peers"),
    (Show::PeerPools, "peer_pools"),
    (Show::Refusals, "refusals"),
    (Show::LostState, "lost_state"),
    (Show::Statements, "statements"),
    (Show::Records, "records"),
    (Show::DryRun, "dry_run"),
    (Show::Cluster, "cluster"),
    (Show::Patroni, "patroni"),
    (Show::Primaries, "primaries"),
    (Show::Faults, "faults"),
];

impl Show {
    /// The table's name, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Show::Parameter(parameter) => parameter.name(),
            show => {
                let named = const { &TABLES }.iter().find(|(table, _)| *table == show);
                named.expect("every table has a name, which a test proves").1
            }
        }
    }

    /// The connections that the table lists, in this order. Its rows are not part of a [`Report`](crate::Report),
    /// since there may be very many; they come as records in pages.
    pub fn lists(self) -> &'static [Connections] {
        match self {
            Show::Clients => &[Connections::Clients],
            Show::Servers => &[Connections::Servers],
            Show::Sockets | Show::ActiveSockets => &[Connections::Clients, Connections::Servers],
            _ => &[],
        }
    }

    /// The table or parameter of this name, in any case.
    pub(crate) fn named(word: &str) -> Option<Show> {
        let table = TABLES.iter().find(|(_, name)| name.eq_ignore_ascii_case(word));
        table.map(|(show, _)| *show).or_else(|| Parameter::named(word).map(Show::Parameter))
    }
}

impl Parameter {
    /// All parameters.
    pub(crate) const ALL: [Parameter; 6] = [
        Parameter::ClientEncoding,
        Parameter::DefaultTransactionIsolation,
        Parameter::StandardConformingStrings,
        Parameter::DateStyle,
        Parameter::TimeZone,
        Parameter::ExtraFloatDigits,
    ];

    /// The parameter's name, which is also the column's name in the reply to SHOW.
    pub fn name(self) -> &'static str {
        match self {
            Parameter::ClientEncoding => "client_encoding",
            Parameter::DefaultTransactionIsolation => "default_transaction_isolation",
            Parameter::StandardConformingStrings => "standard_conforming_strings",
            Parameter::DateStyle => "datestyle",
            Parameter::TimeZone => "timezone",
            Parameter::ExtraFloatDigits => "extra_float_digits",
        }
    }

    /// The value in the reply to SHOW; SET does not change it.
    pub fn value(self) -> &'static str {
        match self {
            Parameter::ClientEncoding => "UTF-8",
            Parameter::DefaultTransactionIsolation => "read committed",
            Parameter::StandardConformingStrings => "on",
            Parameter::DateStyle => "ISO",
            Parameter::TimeZone => "GMT",
            Parameter::ExtraFloatDigits => "2",
        }
    }

    /// The parameter of this name, in any case.
    pub(crate) fn named(word: &str) -> Option<Parameter> {
        Parameter::ALL.into_iter().find(|parameter| parameter.name().eq_ignore_ascii_case(word))
    }
}
