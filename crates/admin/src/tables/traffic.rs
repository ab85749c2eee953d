//! SHOW RECORDS and SHOW DRY_RUN, which PgBouncer does not have: what was recorded of pools' traffic, and what other
//! modes would do with it.

use super::table::{Column, Row, Snapshot, int8, numeric, text, text_column};
use crate::clock::timestamp;
use crate::traffic::{DryRun, ModeOutcome, TrafficLine, TrafficRecord, UseLevel};

pub(super) const RECORDS: &[Column] = &[
    text_column("database"),
    text_column("user"),
    text_column("state"),
    text_column("since"),
    text_column("until"),
    int8("lines"),
    int8("bytes"),
    numeric("missed"),
    numeric("unfollowed"),
    int8("sessions"),
    int8("transactions"),
    int8("transactions_p99"),
    int8("holders"),
    int8("holders_p99"),
    int8("either"),
    int8("either_p99"),
];

pub(super) const DRY_RUN: &[Column] = &[
    text_column("database"),
    text_column("application_name"),
    text_column("does"),
    text_column("kind"),
    text_column("in_transaction"),
    text_column("in_auto"),
    numeric("times"),
    numeric("clients"),
    text_column("first"),
    text_column("last"),
    text_column("statement"),
];

/// One row for each pool that was recorded.
pub(super) fn records(snapshot: &Snapshot<'_>) -> Vec<Row> {
    let row = |record: &TrafficRecord| {
        let levels = &record.levels;
        let mut row = vec![
            text(&record.database),
            text(&record.user),
            text(if record.active { "recording" } else { "ended" }),
            text(timestamp(record.since)),
            text(timestamp(record.until)),
            text(record.lines.len()),
            text(record.bytes),
            text(record.missed),
            text(record.unfollowed),
            text(levels.sessions.peak),
        ];
        row.extend([levels.transactions, levels.holders, levels.either].iter().flat_map(both));
        row
    };
    snapshot.report.traffic.iter().map(row).collect()
}

fn both(level: &UseLevel) -> Row {
    vec![text(level.peak), text(level.p99)]
}

/// One row for each database, application, statement and use; what breaks comes first.
pub(super) fn dry_run(snapshot: &Snapshot<'_>) -> Vec<Row> {
    let rows = |run: &DryRun| {
        let lines = run.record.lines.iter().zip(&run.outcomes);
        lines.map(|(line, both)| row(&run.record.database, line, *both)).collect::<Vec<_>>()
    };
    DryRun::all(&snapshot.report.traffic, snapshot.config).iter().flat_map(rows).collect()
}

fn row(database: &str, line: &TrafficLine, (transaction, auto): (ModeOutcome, ModeOutcome)) -> Row {
    vec![
        text(database),
        text(line.application()),
        text(line.does.verb()),
        text(line.does.kind()),
        text(transaction.word()),
        text(auto.word()),
        text(line.times),
        text(line.clients),
        text(timestamp(line.first)),
        text(timestamp(line.last)),
        text(&line.text),
    ]
}
