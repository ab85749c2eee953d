//! The tables that the console, the HTTP API and the metrics show.
//!
//! Owns the table of tables: each entry has a name, columns, and a function from facts to rows. A new table is one
//! entry (and its name in [`Show`] and in the help). Must not know how rows are sent. The columns are PgBouncer 1.25's,
//! by name, order and type; deviations are said beside the column.
//!
//! Invariant: every row has as many values as the table has columns.

mod connections;
mod lost;
mod pools;
mod process;
mod refusals;
mod settings;
mod statistics;

use weir_config::Config;

use crate::command::{Connections, Parameter, Show};
use crate::records::{Report, SocketRecord};

/// What tables are made of.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// What the workers report, merged.
    pub report: &'a Report,
    /// The configuration in force.
    pub config: &'a Config,
    /// The answer to SHOW VERSION, such as `Weir 0.1.0`.
    pub version: &'a str,
    /// Now: microseconds since 1970.
    pub now_wall: u64,
}

/// The type of a column, as drivers see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// `text`
    Text,
    /// `int4`
    Int4,
    /// `int8`
    Int8,
    /// `numeric`
    Numeric,
    /// `bytea`
    Bytea,
}

impl Kind {
    /// PostgreSQL's object id of the type (`pg_type.dat`).
    pub const fn oid(self) -> u32 {
        match self {
            Kind::Text => 25,
            Kind::Int4 => 23,
            Kind::Int8 => 20,
            Kind::Numeric => 1700,
            Kind::Bytea => 17,
        }
    }

    /// The bytes of a value in PostgreSQL's own form; -1 if they vary.
    pub const fn size(self) -> i16 {
        match self {
            Kind::Int4 => 4,
            Kind::Int8 => 8,
            Kind::Text | Kind::Numeric | Kind::Bytea => -1,
        }
    }
}

/// One column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
}

/// One line of a table: a value a column, as text; `None` is NULL.
pub type Row = Vec<Option<String>>;

/// A table to show.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    /// The columns.
    pub columns: &'static [Column],
    /// The rows, each with a value a column; `None` is NULL.
    pub rows: Vec<Row>,
}

/// One entry of the table of tables.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) show: Show,
    pub(crate) name: &'static str,
    columns: &'static [Column],
    rows: fn(&Snapshot<'_>) -> Vec<Row>,
}

/// Every table.
pub(crate) const TABLES: [Entry; 24] = [
    Entry { show: Show::Pools, name: "pools", columns: pools::POOLS, rows: pools::pools },
    Entry { show: Show::Stats, name: "stats", columns: statistics::STATS, rows: statistics::stats },
    Entry { show: Show::StatsTotals, name: "stats_totals", columns: statistics::SUMS, rows: statistics::stats_totals },
    Entry {
        show: Show::StatsAverages,
        name: "stats_averages",
        columns: statistics::AVERAGES,
        rows: statistics::stats_averages,
    },
    Entry { show: Show::Totals, name: "totals", columns: statistics::TOTALS, rows: statistics::totals },
    Entry { show: Show::Clients, name: "clients", columns: connections::CONNECTIONS, rows: none },
    Entry { show: Show::Servers, name: "servers", columns: connections::CONNECTIONS, rows: none },
    Entry { show: Show::Databases, name: "databases", columns: pools::DATABASES, rows: pools::databases },
    Entry { show: Show::Users, name: "users", columns: pools::USERS, rows: pools::users },
    Entry { show: Show::Config, name: "config", columns: settings::CONFIG, rows: settings::config },
    Entry { show: Show::Lists, name: "lists", columns: process::LISTS, rows: process::lists },
    Entry { show: Show::Version, name: "version", columns: process::VERSION, rows: process::version },
    Entry { show: Show::Help, name: "help", columns: process::HELP, rows: process::help },
    Entry { show: Show::Mem, name: "mem", columns: process::MEM, rows: process::mem },
    Entry { show: Show::State, name: "state", columns: process::STATE, rows: process::state },
    Entry { show: Show::Fds, name: "fds", columns: process::FDS, rows: none },
    Entry { show: Show::Sockets, name: "sockets", columns: connections::SOCKETS, rows: none },
    Entry { show: Show::ActiveSockets, name: "active_sockets", columns: connections::SOCKETS, rows: none },
    Entry { show: Show::DnsHosts, name: "dns_hosts", columns: process::DNS_HOSTS, rows: process::dns_hosts },
    Entry { show: Show::DnsZones, name: "dns_zones", columns: process::DNS_ZONES, rows: none },
    Entry { show: Show::Peers, name: "peers", columns: process::PEERS, rows: none },
    Entry { show: Show::PeerPools, name: "peer_pools", columns: process::PEER_POOLS, rows: none },
    Entry { show: Show::Refusals, name: "refusals", columns: refusals::REFUSALS, rows: refusals::refusals },
    Entry { show: Show::LostState, name: "lost_state", columns: lost::LOST_STATE, rows: lost::lost_state },
];

/// The rows of a table about what a process without peers, without zones and without a takeover does not have; and of one
/// whose rows are made of [`connection_row`].
fn none(_: &Snapshot<'_>) -> Vec<Row> {
    Vec::new()
}

/// The row of a connection in a table that lists connections; `None` if it is not shown there.
pub fn connection_row(what: Show, of: Connections, record: &SocketRecord) -> Option<Row> {
    connections::row_of(what, of, record)
}

/// The table that `what` asks for; without rows if it lists connections.
pub fn show(what: Show, facts: &Snapshot<'_>) -> Table {
    match what {
        Show::Parameter(parameter) => Table { columns: columns(what), rows: vec![vec![text(parameter.value())]] },
        what => Table { columns: columns(what), rows: (entry(what).rows)(facts) },
    }
}

/// The columns of the table that `what` asks for, which do not depend on any facts.
pub fn columns(what: Show) -> &'static [Column] {
    match what {
        Show::Parameter(parameter) => parameter_column(parameter),
        what => entry(what).columns,
    }
}

/// The entry of a table; a parameter has none.
pub(crate) fn entry(show: Show) -> &'static Entry {
    const { &TABLES }.iter().find(|entry| entry.show == show).expect("every table has its entry, which a test proves")
}

fn parameter_column(parameter: Parameter) -> &'static [Column] {
    match parameter {
        Parameter::ClientEncoding => const { &[text_column("client_encoding")] },
        Parameter::DefaultTransactionIsolation => const { &[text_column("default_transaction_isolation")] },
        Parameter::StandardConformingStrings => const { &[text_column("standard_conforming_strings")] },
        Parameter::DateStyle => const { &[text_column("datestyle")] },
        Parameter::TimeZone => const { &[text_column("timezone")] },
        Parameter::ExtraFloatDigits => const { &[text_column("extra_float_digits")] },
    }
}

const fn text_column(name: &'static str) -> Column {
    Column { name, kind: Kind::Text }
}

const fn int4(name: &'static str) -> Column {
    Column { name, kind: Kind::Int4 }
}

const fn int8(name: &'static str) -> Column {
    Column { name, kind: Kind::Int8 }
}

const fn numeric(name: &'static str) -> Column {
    Column { name, kind: Kind::Numeric }
}

const fn bytea(name: &'static str) -> Column {
    Column { name, kind: Kind::Bytea }
}

/// A value, as text.
fn text(value: impl ToString) -> Option<String> {
    Some(value.to_string())
}

/// A yes or no as the number that PgBouncer prints for it.
fn flag(value: bool) -> Option<String> {
    text(u8::from(value))
}

#[cfg(test)]
mod tests;
