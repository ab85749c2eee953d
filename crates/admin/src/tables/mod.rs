//! The tables that the console, the HTTP API and the metrics show.
//!
//! Owns the table of tables: each entry has columns and a function from a snapshot to rows. A new table is one entry
//! here, and its name in [`Show`] and in the help. Must not know how rows are sent. The columns are PgBouncer 1.25's,
//! by name, order and type; comments beside the columns list the deviations.
//!
//! Invariant: every row has as many values as the table has columns.

mod cluster;
mod connections;
mod faults;
mod lost;
mod pools;
mod primaries;
mod process;
mod refusals;
mod settings;
mod statements;
mod statistics;
mod table;
mod traffic;

use weir_config::{Config, FileFormat};

use crate::records::SocketRecord;
use crate::show::{Connections, Parameter, Show};

pub use table::{Column, ColumnType, Row, Snapshot, Table};
use table::{text, text_column};

/// One entry of the table of tables.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) show: Show,
    columns: &'static [Column],
    rows: fn(&Snapshot<'_>) -> Vec<Row>,
}

/// Every table.
pub(crate) const TABLES: [Entry; 31] = [
    Entry { show: Show::Pools, columns: pools::POOLS, rows: pools::pools },
    Entry { show: Show::Stats, columns: statistics::STATS, rows: statistics::stats },
    Entry { show: Show::StatsTotals, columns: statistics::SUMS, rows: statistics::stats_totals },
    Entry { show: Show::StatsAverages, columns: statistics::AVERAGES, rows: statistics::stats_averages },
    Entry { show: Show::Totals, columns: statistics::TOTALS, rows: statistics::totals },
    Entry { show: Show::Clients, columns: connections::CONNECTIONS, rows: none },
    Entry { show: Show::Servers, columns: connections::CONNECTIONS, rows: none },
    Entry { show: Show::Databases, columns: pools::DATABASES, rows: pools::databases },
    Entry { show: Show::Users, columns: pools::USERS, rows: pools::users },
    Entry { show: Show::Config, columns: settings::CONFIG, rows: settings::config },
    Entry { show: Show::Lists, columns: process::LISTS, rows: process::lists },
    Entry { show: Show::Version, columns: process::VERSION, rows: process::version },
    Entry { show: Show::Help, columns: process::HELP, rows: process::help },
    Entry { show: Show::Mem, columns: process::MEM, rows: process::mem },
    Entry { show: Show::State, columns: process::STATE, rows: process::state },
    Entry { show: Show::Fds, columns: process::FDS, rows: none },
    Entry { show: Show::Sockets, columns: connections::SOCKETS, rows: none },
    Entry { show: Show::ActiveSockets, columns: connections::SOCKETS, rows: none },
    Entry { show: Show::DnsHosts, columns: process::DNS_HOSTS, rows: process::dns_hosts },
    Entry { show: Show::DnsZones, columns: process::DNS_ZONES, rows: none },
    Entry { show: Show::Peers, columns: process::PEERS, rows: process::peers },
    Entry { show: Show::PeerPools, columns: process::PEER_POOLS, rows: process::peer_pools },
    Entry { show: Show::Refusals, columns: refusals::REFUSALS, rows: refusals::refusals },
    Entry { show: Show::LostState, columns: lost::LOST_STATE, rows: lost::lost_state },
    Entry { show: Show::Statements, columns: statements::STATEMENTS, rows: statements::statements },
    Entry { show: Show::Records, columns: traffic::RECORDS, rows: traffic::records },
    Entry { show: Show::DryRun, columns: traffic::DRY_RUN, rows: traffic::dry_run },
    Entry { show: Show::Cluster, columns: cluster::CLUSTER, rows: cluster::cluster },
    Entry { show: Show::Patroni, columns: primaries::PATRONI, rows: primaries::patroni },
    Entry { show: Show::Primaries, columns: primaries::PRIMARIES, rows: primaries::primaries },
    Entry { show: Show::Faults, columns: faults::FAULTS, rows: faults::faults },
];

/// No rows: of a table about something that Weir does not have, and of a table whose rows [`connection_row`] makes.
fn none(_: &Snapshot<'_>) -> Vec<Row> {
    Vec::new()
}

/// The row of a connection in a table that lists connections; `None` if the table leaves it out.
pub fn connection_row(what: Show, of: Connections, record: &SocketRecord) -> Option<Row> {
    connections::row_of(what, of, record)
}

/// The table `what`; without rows if it lists connections.
pub fn show(what: Show, snapshot: &Snapshot<'_>) -> Table {
    match what {
        Show::Parameter(parameter) => Table { columns: columns(what), rows: vec![vec![text(parameter.value())]] },
        what => cut(what, Table { columns: columns(what), rows: (entry(what).rows)(snapshot) }, snapshot.config),
    }
}

/// The table, with the columns that it has here.
fn cut(what: Show, mut table: Table, config: &Config) -> Table {
    table.columns = columns_with(what, config.format);
    table.rows.iter_mut().for_each(|row| row.truncate(table.columns.len()));
    table
}

/// The columns of the table `what` with a configuration of this format: with an ini, PgBouncer's tables have its
/// columns only, as scripts for PgBouncer read columns by position.
pub fn columns_with(what: Show, format: FileFormat) -> &'static [Column] {
    let all = columns(what);
    match (what, format) {
        (Show::Pools, FileFormat::Ini) => &all[..pools::PGBOUNCERS_POOLS],
        (Show::Databases, FileFormat::Ini) => &all[..pools::PGBOUNCERS_DATABASES],
        (Show::Clients | Show::Servers, FileFormat::Ini) => &all[..connections::PGBOUNCERS_CONNECTIONS],
        _ => all,
    }
}

/// The columns of the table `what`, all of them.
pub fn columns(what: Show) -> &'static [Column] {
    match what {
        Show::Parameter(parameter) => parameter_column(parameter),
        what => entry(what).columns,
    }
}

/// The entry of a table. Must not be called for a parameter, which has none.
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

#[cfg(test)]
mod tests;
