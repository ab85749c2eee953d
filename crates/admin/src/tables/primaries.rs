//! SHOW PRIMARIES, which PgBouncer does not have: where pools with `target_session_attrs` write, and how they moved.

use super::table::{Column, Row, Snapshot, int4, int8, text, text_column};
use crate::primaries::PrimaryState;

pub(super) const PRIMARIES: &[Column] = &[
    text_column("database"),
    text_column("primary"),
    text_column("state"),
    text_column("moves_to"),
    text_column("moved_from"),
    int8("seconds_ago"),
    int4("clients_waited"),
    int8("longest_wait_us"),
    int8("moves"),
    text_column("said"),
];

/// One row for each pool that wants a primary and has had one.
pub(super) fn primaries(snapshot: &Snapshot<'_>) -> Vec<Row> {
    let row = |record: &crate::PrimaryRecord| {
        let ago = record.moved_at.map(|at| snapshot.now_wall.saturating_sub(at) / 1_000_000);
        let moved = record.moved_at.is_some();
        let to = if let PrimaryState::Moving(to) = &record.state { Some(to.clone()) } else { None };
        vec![
            text(&record.database),
            record.host.clone(),
            text(record.state.name()),
            to,
            record.from.clone(),
            ago.and_then(text),
            text(record.waits.clients).filter(|_| moved),
            text(record.waits.longest.micros()).filter(|_| moved),
            text(record.moves),
            record.words(snapshot.now_wall),
        ]
    };
    snapshot.report.primaries.iter().map(row).collect()
}

pub(super) const PATRONI: &[Column] = &[
    text_column("database"),
    text_column("host"),
    text_column("url"),
    int4("status"),
    text_column("error"),
    int8("seconds_ago"),
];

/// One row for each host of a pool with `patroni_api`: what Patroni has said of it last.
pub(super) fn patroni(snapshot: &Snapshot<'_>) -> Vec<Row> {
    let row = |record: &crate::PatroniRecord| {
        let answer = record.answer.as_ref();
        let ago = record.answered_at.map(|at| snapshot.now_wall.saturating_sub(at) / 1_000_000);
        vec![
            text(&record.database),
            text(&record.host),
            text(&record.url),
            answer.and_then(|answer| answer.as_ref().ok()).and_then(text),
            answer.and_then(|answer| answer.as_ref().err()).cloned(),
            ago.and_then(text),
        ]
    };
    snapshot.report.patroni.iter().map(row).collect()
}
