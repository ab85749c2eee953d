//! SHOW STATEMENTS, which PgBouncer does not have: statements by their fingerprints.

use std::collections::HashMap;

use super::table::{Column, Row, Snapshot, numeric, text, text_column};
use crate::statements::{ApplicationUse, StatementRecord};

pub(super) const STATEMENTS: &[Column] = &[
    text_column("database"),
    text_column("user"),
    text_column("fingerprint"),
    numeric("calls"),
    numeric("errors"),
    numeric("rows"),
    numeric("bytes"),
    numeric("run_time"),
    numeric("wait_time"),
    numeric("p50"),
    numeric("p95"),
    numeric("p99"),
    numeric("share"),
    numeric("missed_time"),
    text_column("applications"),
    text_column("statement"),
];

/// One row for each pool and statement, those with the most time first. Times are microseconds.
pub(super) fn statements(snapshot: &Snapshot<'_>) -> Vec<Row> {
    let records = &snapshot.report.statements;
    let shares = snapshot.report.statement_shares();
    records.iter().map(|record| row(record, &shares)).collect()
}

fn row(record: &StatementRecord, pools: &HashMap<(&str, &str), u64>) -> Row {
    let counts = &record.counts;
    let pool = pools.get(&(&*record.database, &*record.user)).copied().unwrap_or_default().max(1);
    let applications: Vec<String> = record.applications.iter().map(application).collect();
    vec![
        text(&record.database),
        text(&record.user),
        text(format_args!("{:016x}", record.id)),
        text(counts.calls),
        text(counts.errors),
        text(counts.rows),
        text(counts.bytes),
        text(counts.run),
        text(counts.wait),
        text(record.quantile(0.5)),
        text(record.quantile(0.95)),
        text(record.quantile(0.99)),
        text(format_args!("{:.1}", 100.0 * counts.run as f64 / pool as f64)),
        text(record.missed),
        text(applications.join(", ")),
        text(&record.text),
    ]
}

fn application(used: &ApplicationUse) -> String {
    match &used.name {
        Some(name) if name.is_empty() => format!("(none): {}", used.calls),
        Some(name) => format!("{name}: {}", used.calls),
        None => format!("(others): {}", used.calls),
    }
}
