//! SHOW STATS and its variants: the counters of each database, as totals and as averages.

use super::table::{Column, Row, Snapshot, numeric, text, text_column};
use crate::console::CONSOLE_DATABASE;
use crate::stats::{DatabaseStats, Stats};

pub(super) const STATS: &[Column] = &[
    text_column("database"),
    numeric("total_server_assignment_count"),
    numeric("total_xact_count"),
    numeric("total_query_count"),
    numeric("total_received"),
    numeric("total_sent"),
    numeric("total_xact_time"),
    numeric("total_query_time"),
    numeric("total_wait_time"),
    numeric("total_client_parse_count"),
    numeric("total_server_parse_count"),
    numeric("total_bind_count"),
    numeric("avg_server_assignment_count"),
    numeric("avg_xact_count"),
    numeric("avg_query_count"),
    numeric("avg_recv"),
    numeric("avg_sent"),
    numeric("avg_xact_time"),
    numeric("avg_query_time"),
    numeric("avg_wait_time"),
    numeric("avg_client_parse_count"),
    numeric("avg_server_parse_count"),
    numeric("avg_bind_count"),
    // Not in PgBouncer, whose columns keep their places.
    numeric("total_client_login_count"),
    numeric("avg_client_login_count"),
];

pub(super) const SUMS: &[Column] = &[
    text_column("database"),
    numeric("server_assignment_count"),
    numeric("xact_count"),
    numeric("query_count"),
    numeric("bytes_received"),
    numeric("bytes_sent"),
    numeric("xact_time"),
    numeric("query_time"),
    numeric("wait_time"),
    numeric("client_parse_count"),
    numeric("server_parse_count"),
    numeric("bind_count"),
    numeric("client_login_count"),
];

pub(super) const AVERAGES: &[Column] = &[
    text_column("database"),
    numeric("server_assignment_count"),
    numeric("xact_count"),
    numeric("query_count"),
    numeric("bytes_received"),
    numeric("bytes_sent"),
    numeric("xact_time"),
    numeric("query_time"),
    numeric("wait_time"),
    numeric("avg_client_parse_count"),
    numeric("avg_server_parse_count"),
    numeric("avg_bind_count"),
    numeric("avg_client_login_count"),
];

pub(super) const TOTALS: &[Column] = &[text_column("name"), numeric("value")];

/// The names of the counters in SHOW TOTALS, in their order.
const TOTAL_NAMES: [&str; crate::stats::COUNT] = [
    "server_assignment_count",
    "xact_count",
    "query_count",
    "client_bytes",
    "server_bytes",
    "xact_time",
    "query_time",
    "wait_time",
    "ps_client_parse_count",
    "ps_server_parse_count",
    "ps_bind_count",
    "client_login_count",
];

pub(super) fn stats(snapshot: &Snapshot<'_>) -> Vec<Row> {
    rows(snapshot, |of| {
        let [total @ .., logins] = of.total.to_array();
        let [average @ .., logins_a_second] = of.averages().to_array();
        total.into_iter().chain(average).chain([logins, logins_a_second]).collect()
    })
}

pub(super) fn stats_totals(snapshot: &Snapshot<'_>) -> Vec<Row> {
    rows(snapshot, |of| of.total.to_array().to_vec())
}

pub(super) fn stats_averages(snapshot: &Snapshot<'_>) -> Vec<Row> {
    rows(snapshot, |of| of.averages().to_array().to_vec())
}

pub(super) fn totals(snapshot: &Snapshot<'_>) -> Vec<Row> {
    let mut all = DatabaseStats::sum(&snapshot.report.stats);
    all.merge(&snapshot.report.console_stats);
    let rows = |half: &'static str, stats: Stats| {
        let named = TOTAL_NAMES.into_iter().zip(stats.to_array());
        named.map(move |(name, value)| vec![text(format_args!("{half}_{name}")), text(value)])
    };
    rows("total", all.total).chain(rows("avg", all.averages())).collect()
}

/// A row a database, by name. The console has a row, as PgBouncer's has.
fn rows(snapshot: &Snapshot<'_>, values: fn(&DatabaseStats) -> Vec<u64>) -> Vec<Row> {
    let console = DatabaseStats { database: CONSOLE_DATABASE.to_owned(), ..snapshot.report.console_stats.clone() };
    let mut all: Vec<&DatabaseStats> = snapshot.report.stats.iter().chain([&console]).collect();
    all.sort_by(|a, b| a.database.cmp(&b.database));
    let row = |of: &DatabaseStats| {
        let values = values(of).into_iter().map(text);
        std::iter::once(text(&of.database)).chain(values).collect()
    };
    all.into_iter().map(row).collect()
}
