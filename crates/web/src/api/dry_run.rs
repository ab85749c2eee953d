//! The dry run: what other modes would do with the recorded traffic of a pool; and the record's beginning and end.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use weir_admin::{Command, DryRun, ModeOutcome, RECORD_SECONDS, TrafficLine, UseLevel};
use weir_http::ApiError;
use weir_monitor::Workers;

use super::params::{Name, within};

#[derive(Serialize)]
pub(crate) struct All {
    pools: Vec<Recorded>,
}

/// The result for one pool.
#[derive(Serialize)]
pub(crate) struct Recorded {
    pool: String,
    /// The mode in which it was recorded.
    mode: String,
    recording: bool,
    /// Seconds since 1970.
    since: f64,
    until: f64,
    /// The size that each mode needs.
    sizes: Sizes,
    /// How many clients did what at the same time.
    levels: Levels,
    statements: Vec<Line>,
    /// Executions and clients for which the record had no room.
    missed: u64,
    unfollowed: u64,
    bytes: u64,
    advice: String,
}

#[derive(Serialize)]
struct Sizes {
    session: u64,
    transaction: u64,
    auto: u64,
}

#[derive(Serialize)]
struct Levels {
    sessions: Level,
    transactions: Level,
    holders: Level,
    either: Level,
}

#[derive(Serialize)]
struct Level {
    peak: u64,
    p99: u64,
}

#[derive(Serialize)]
struct Line {
    /// None for several.
    application: Option<String>,
    fingerprint: String,
    statement: String,
    does: &'static str,
    kind: &'static str,
    in_transaction: &'static str,
    in_auto: &'static str,
    times: u64,
    clients: u64,
    /// Seconds since 1970.
    first: f64,
    last: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SecondsQuery {
    seconds: Option<u32>,
}

type SecondsParam = Result<Query<SecondsQuery>, QueryRejection>;
type Done = Result<StatusCode, ApiError>;

/// `GET /api/v1/dry-run`.
pub(crate) async fn all(State(workers): State<Workers>) -> Result<Json<All>, ApiError> {
    Ok(Json(All { pools: runs(&workers).await?.iter().map(Recorded::of).collect() }))
}

/// `GET /api/v1/pools/{name}/dry-run`.
pub(crate) async fn one(State(workers): State<Workers>, Name(name): Name) -> Result<Json<Recorded>, ApiError> {
    let runs = runs(&workers).await?;
    let found = runs.iter().find(|run| run.record.database == name);
    found.map(|run| Json(Recorded::of(run))).ok_or(ApiError::Unknown("recorded pool", name))
}

/// `POST /api/v1/pools/{name}/start-record`.
pub(crate) async fn start(State(workers): State<Workers>, Name(name): Name, seconds: SecondsParam) -> Done {
    begin(&workers, Some(name), seconds).await
}

/// `POST /api/v1/start-record`.
pub(crate) async fn start_all(State(workers): State<Workers>, seconds: SecondsParam) -> Done {
    begin(&workers, None, seconds).await
}

/// `POST /api/v1/pools/{name}/stop-record`.
pub(crate) async fn stop(State(workers): State<Workers>, Name(name): Name) -> Done {
    workers.run(Command::StopRecord(Some(name))).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `POST /api/v1/stop-record`.
pub(crate) async fn stop_all(State(workers): State<Workers>) -> Done {
    workers.run(Command::StopRecord(None)).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn begin(workers: &Workers, name: Option<String>, seconds: SecondsParam) -> Done {
    let Query(SecondsQuery { seconds }) = seconds?;
    let (usual, most) = RECORD_SECONDS;
    let seconds = within("seconds", u64::from(seconds.unwrap_or(usual)), u64::from(most))? as u32;
    workers.run(Command::StartRecord(name, seconds)).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn runs(workers: &Workers) -> Result<Vec<DryRun>, ApiError> {
    let (report, config) = workers.traffic().await?;
    Ok(DryRun::all(&report.traffic, &config))
}

impl Recorded {
    fn of(run: &DryRun) -> Recorded {
        let record = &run.record;
        let levels = &record.levels;
        Recorded {
            pool: record.database.clone(),
            mode: record.mode.to_string(),
            recording: record.active,
            since: record.since as f64 / 1e6,
            until: record.until as f64 / 1e6,
            sizes: Sizes {
                session: levels.sessions.peak.max(1),
                transaction: run.transaction_size(),
                auto: run.auto_size,
            },
            levels: Levels {
                sessions: Level::of(levels.sessions),
                transactions: Level::of(levels.transactions),
                holders: Level::of(levels.holders),
                either: Level::of(levels.either),
            },
            statements: record.lines.iter().zip(&run.outcomes).map(|(line, both)| Line::of(line, *both)).collect(),
            missed: record.missed,
            unfollowed: record.unfollowed,
            bytes: record.bytes,
            advice: run.advice.clone(),
        }
    }
}

impl Level {
    fn of(UseLevel { peak, p99 }: UseLevel) -> Level {
        Level { peak, p99 }
    }
}

impl Line {
    fn of(line: &TrafficLine, (transaction, auto): (ModeOutcome, ModeOutcome)) -> Line {
        Line {
            application: line.application.clone(),
            fingerprint: format!("{:016x}", line.id),
            statement: line.text.clone(),
            does: line.does.verb(),
            kind: line.does.kind(),
            in_transaction: transaction.word(),
            in_auto: auto.word(),
            times: line.times,
            clients: line.clients,
            first: line.first as f64 / 1e6,
            last: line.last as f64 / 1e6,
        }
    }
}
