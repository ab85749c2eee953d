//! Alerts: what fires and fired, the targets and how they do, silences, and a test message.

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Extension, Query, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use weir_admin::{AlertState, Author, ListedAlert};
use weir_http::ApiError;
use weir_monitor::{
    AlertWatch, NewSilence, PastAlert, Silence, TargetReport, TestResult, Watch, Workers, seconds_of, whole,
};

use super::page::page_limit;
use super::params::{Number, within};

/// The longest silence, in minutes: thirty days.
const LONGEST: u64 = 30 * 24 * 60;
const LONGEST_TEXT: usize = 500;

#[derive(Serialize)]
pub(crate) struct Page {
    alerts: Vec<Alert>,
    targets: Vec<TargetReport>,
    silences: Vec<Silence>,
    rules: Rules,
}

#[derive(Serialize)]
struct Alert {
    rule: String,
    pool: Option<String>,
    state: &'static str,
    severity: &'static str,
    summary: String,
    advice: String,
    clients: u64,
    since: f64,
    sent: Option<f64>,
    /// The incident that it belongs to.
    incident: Option<u64>,
}

/// The settings of the rules.
#[derive(Serialize)]
struct Rules {
    states: Vec<String>,
    for_seconds: f64,
    repeat_seconds: f64,
    clients_waiting: u32,
    wait_p95_seconds: f64,
    errors_per_second: u32,
    clients_percent: u32,
}

impl From<ListedAlert> for Alert {
    fn from(of: ListedAlert) -> Alert {
        let condition = of.condition;
        Alert {
            rule: condition.key.rule,
            pool: condition.key.pool,
            state: match of.state {
                AlertState::Pending => "pending",
                AlertState::Firing => "firing",
                AlertState::Silenced => "silenced",
            },
            severity: if condition.critical { "critical" } else { "warning" },
            summary: condition.summary,
            advice: condition.advice,
            clients: condition.clients,
            since: seconds_of(of.started),
            sent: of.sent.map(seconds_of),
            incident: None,
        }
    }
}

/// `GET /api/v1/alerts`.
pub(crate) async fn list(
    State(alerts): State<AlertWatch>,
    State(workers): State<Workers>,
    State(watch): State<Watch>,
) -> Result<Json<Page>, ApiError> {
    let (_, config) = workers.report().await?;
    let rules = &config.alerts;
    let (of_alert, now) = (watch.incidents().of_alert(), weir_monitor::now().as_secs_f64());
    let alert = |of: ListedAlert| {
        let of = Alert::from(of);
        Alert { incident: of_alert(&of.rule, of.pool.as_deref(), of.since, now), ..of }
    };
    Ok(Json(Page {
        alerts: alerts.list().into_iter().map(alert).collect(),
        targets: alerts.targets(),
        silences: alerts.silences(),
        rules: Rules {
            states: rules.states.clone(),
            for_seconds: rules.hold.micros() as f64 / 1e6,
            repeat_seconds: rules.repeat.micros() as f64 / 1e6,
            clients_waiting: rules.clients_waiting,
            wait_p95_seconds: rules.wait_p95.micros() as f64 / 1e6,
            errors_per_second: rules.errors_per_second,
            clients_percent: rules.clients_percent,
        },
    }))
}

/// How many past alerts are listed, unless fewer are wanted.
const LISTED: usize = 200;

#[derive(Serialize)]
pub(crate) struct PastAlerts {
    alerts: Vec<PastOfIncident>,
}

#[derive(Serialize)]
struct PastOfIncident {
    #[serde(flatten)]
    alert: PastAlert,
    /// The incident that it belongs to.
    incident: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PastQuery {
    pool: Option<String>,
    limit: Option<usize>,
}

/// `GET /api/v1/alerts/past`.
pub(crate) async fn past(
    State(alerts): State<AlertWatch>,
    State(watch): State<Watch>,
    wanted: Result<Query<PastQuery>, QueryRejection>,
) -> Result<Json<PastAlerts>, ApiError> {
    let Query(PastQuery { pool, limit }) = wanted?;
    let most = page_limit(limit.or(Some(LISTED)))?;
    let (of_alert, now) = (watch.incidents().of_alert(), weir_monitor::now().as_secs_f64());
    let past = |alert: PastAlert| {
        let until = if alert.lasts { now } else { alert.until.unwrap_or(alert.fired) };
        let incident = of_alert(&alert.rule, alert.pool.as_deref(), alert.since, until);
        PastOfIncident { alert, incident }
    };
    Ok(Json(PastAlerts { alerts: alerts.past(pool.as_deref(), most).into_iter().map(past).collect() }))
}

/// `POST /api/v1/alerts/test`.
pub(crate) async fn test(
    State(alerts): State<AlertWatch>,
    State(workers): State<Workers>,
) -> Result<Json<Vec<TestResult>>, ApiError> {
    let (_, config) = workers.report().await?;
    Ok(Json(alerts.test(&config).await))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    pool: Option<String>,
    rule: Option<String>,
    #[serde(deserialize_with = "whole")]
    minutes: u64,
    #[serde(default)]
    comment: String,
}

/// `POST /api/v1/silences`.
pub(crate) async fn silence(
    State(alerts): State<AlertWatch>,
    Extension(author): Extension<Author>,
    body: Result<Json<Wanted>, JsonRejection>,
) -> Result<(StatusCode, Json<Silence>), ApiError> {
    let Json(Wanted { pool, rule, minutes, comment }) = body.map_err(ApiError::BadBody)?;
    let minutes = within("minutes", minutes, LONGEST)?;
    let short = |text: String| text.chars().filter(|c| !c.is_control()).take(LONGEST_TEXT).collect::<String>();
    let (pool, rule, comment) = (pool.map(short), rule.map(short), short(comment));
    let new = NewSilence { pool, rule, comment, by: author.user, seconds: minutes as f64 * 60.0 };
    Ok((StatusCode::CREATED, Json(alerts.silence(new).await?)))
}

/// `DELETE /api/v1/silences/{id}`.
pub(crate) async fn end_silence(State(alerts): State<AlertWatch>, Number(id): Number) -> Result<StatusCode, ApiError> {
    match alerts.end_silence(id).await {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(ApiError::Unknown("silence", id.to_string())),
    }
}
