//! `GET /api/v1/statements`: statements by their fingerprints, without values; and their reset.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use weir_admin::{Command, Report, StatementRecord};
use weir_http::ApiError;
use weir_monitor::Workers;

use super::page::page_limit;

#[derive(Serialize)]
pub(crate) struct All {
    /// Whether statements are counted (`track_statements`).
    tracking: bool,
    tracked: u64,
    capacity: u64,
    evicted: u64,
    /// The run time of all statements of the requested pools.
    run_ms: f64,
    statements: Vec<Statement>,
}

#[derive(Serialize)]
struct Statement {
    pool: String,
    user: String,
    fingerprint: String,
    statement: String,
    calls: u64,
    errors: u64,
    rows: u64,
    bytes: u64,
    run_ms: f64,
    wait_ms: f64,
    mean_ms: f64,
    p50_ms: f64,
    p95_ms: f64,
    p99_ms: f64,
    /// The statement's part of the time of all statements of its pool, from 0 to 1.
    share: f64,
    /// Time that may not have been counted.
    missed_ms: f64,
    /// Seconds since 1970.
    since: f64,
    applications: Vec<Application>,
}

#[derive(Serialize)]
struct Application {
    /// None for several.
    name: Option<String>,
    calls: u64,
    run_ms: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StatementsQuery {
    #[serde(default)]
    sort: Sort,
    limit: Option<usize>,
    pool: Option<String>,
}

/// What is largest comes first.
#[derive(Clone, Copy, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
enum Sort {
    #[default]
    Run,
    Wait,
    Calls,
    Errors,
    Rows,
    Bytes,
    Mean,
    P95,
    P99,
}

/// `GET /api/v1/statements`.
pub(crate) async fn list(
    State(workers): State<Workers>,
    wanted: Result<Query<StatementsQuery>, QueryRejection>,
) -> Result<Json<All>, ApiError> {
    let Query(StatementsQuery { sort, limit, pool }) = wanted?;
    let limit = page_limit(limit)?;
    let report = workers.statements().await?;
    Ok(Json(all(&report, sort, limit, pool.as_deref())))
}

/// `POST /api/v1/statements/reset`.
pub(crate) async fn reset(State(workers): State<Workers>) -> Result<StatusCode, ApiError> {
    workers.run(Command::ResetStatements).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn all(report: &Report, sort: Sort, limit: usize, pool: Option<&str>) -> All {
    let wanted = |database: &str| pool.is_none_or(|pool| pool == database);
    let mut records: Vec<&StatementRecord> =
        report.statements.iter().filter(|record| wanted(&record.database)).collect();
    records.sort_by(|a, b| sort.key(b).total_cmp(&sort.key(a)));
    let shares = report.statement_shares();
    let share = |record: &StatementRecord| {
        let run = shares.get(&(&*record.database, &*record.user)).copied().unwrap_or_default();
        if run == 0 { 0.0 } else { (record.counts.run as f64 / run as f64).min(1.0) }
    };
    let totals = &report.statement_totals;
    All {
        tracking: totals.capacity > 0,
        tracked: totals.tracked,
        capacity: totals.capacity,
        evicted: totals.evicted,
        run_ms: ms(shares.iter().filter(|((database, _), _)| wanted(database)).map(|(_, run)| run).sum()),
        statements: records.into_iter().take(limit).map(|record| Statement::of(record, share(record))).collect(),
    }
}

impl Sort {
    fn key(self, record: &StatementRecord) -> f64 {
        let counts = &record.counts;
        match self {
            Sort::Run => counts.run as f64,
            Sort::Wait => counts.wait as f64,
            Sort::Calls => counts.calls as f64,
            Sort::Errors => counts.errors as f64,
            Sort::Rows => counts.rows as f64,
            Sort::Bytes => counts.bytes as f64,
            Sort::Mean => mean(record),
            Sort::P95 => record.quantile(0.95) as f64,
            Sort::P99 => record.quantile(0.99) as f64,
        }
    }
}

impl Statement {
    fn of(record: &StatementRecord, share: f64) -> Statement {
        let counts = &record.counts;
        Statement {
            pool: record.database.clone(),
            user: record.user.clone(),
            fingerprint: format!("{:016x}", record.id),
            statement: record.text.clone(),
            calls: counts.calls,
            errors: counts.errors,
            rows: counts.rows,
            bytes: counts.bytes,
            run_ms: ms(counts.run),
            wait_ms: ms(counts.wait),
            mean_ms: mean(record) / 1e3,
            p50_ms: ms(record.quantile(0.5)),
            p95_ms: ms(record.quantile(0.95)),
            p99_ms: ms(record.quantile(0.99)),
            share,
            missed_ms: ms(record.missed),
            since: record.since as f64 / 1e6,
            applications: record
                .applications
                .iter()
                .map(|used| Application { name: used.name.clone(), calls: used.calls, run_ms: ms(used.run) })
                .collect(),
        }
    }
}

fn mean(record: &StatementRecord) -> f64 {
    record.counts.run as f64 / record.counts.calls.max(1) as f64
}

fn ms(micros: u64) -> f64 {
    micros as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use weir_admin::{StatementCounts, StatementTotals};

    use super::*;

    #[test]
    fn statements_are_sorted_cut_and_filtered_and_their_shares_are_of_their_pool() {
        let record = |database: &str, id: u64, run: u64, calls: u64| StatementRecord {
            database: database.into(),
            user: "joe".into(),
            id,
            counts: StatementCounts { run, calls, ..StatementCounts::default() },
            ..StatementRecord::default()
        };
        let report = Report {
            statements: vec![record("app", 1, 3_000, 1), record("app", 2, 1_000, 9), record("other", 3, 500, 5)],
            statement_time: [(("app".into(), "joe".into()), 5_000), (("other".into(), "joe".into()), 500)].into(),
            statement_totals: StatementTotals { capacity: 10, tracked: 3, ..StatementTotals::default() },
            ..Report::default()
        };
        let shown = |sort, limit, pool| {
            let all = all(&report, sort, limit, pool);
            assert!(all.tracking);
            let of = |statement: Statement| (statement.fingerprint[15..].to_owned(), statement.share);
            (all.run_ms, all.statements.into_iter().map(of).collect::<Vec<_>>())
        };
        let (one, two, three) = (("1".to_owned(), 0.6), ("2".to_owned(), 0.2), ("3".to_owned(), 1.0));
        assert_eq!(shown(Sort::Run, 2, None), (5.5, vec![one.clone(), two.clone()]));
        assert_eq!(shown(Sort::Calls, 9, None), (5.5, vec![two.clone(), three.clone(), one.clone()]));
        assert_eq!(shown(Sort::Mean, 9, Some("app")), (5.0, vec![one, two]));
        assert_eq!(shown(Sort::P95, 9, Some("none")), (0.0, vec![]));
    }
}
