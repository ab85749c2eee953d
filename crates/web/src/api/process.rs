//! The process as a whole: its state and its settings.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Extension, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use weir_admin::{Command, DrainRecord, ServiceState, ShutdownMode};
use weir_base::Span;
use weir_config::{Assignment, Edit};
use weir_http::{ApiError, Reader};
use weir_monitor::{FaultView, Workers};

use super::body::PersistedBody;
use super::params::{Changer, Name};

#[derive(Serialize)]
pub(crate) struct Status {
    version: &'static str,
    /// `active`, `paused` or `suspended`.
    state: &'static str,
    draining: bool,
    /// How far a drain is, which closes clients.
    drain: Option<Drain>,
    workers: u16,
    configuration: String,
    pools: usize,
    clients: u32,
    waiting_clients: u32,
    login_clients: u32,
    console_clients: u32,
    max_clients: u32,
    servers: u32,
    /// The name of this node's cluster; empty: none.
    cluster: String,
    /// What is wrong with Weir itself, the worst first.
    faults: Vec<FaultView>,
}

#[derive(Serialize)]
struct Drain {
    phase: &'static str,
    /// How long the phase takes; none: as long as clients are left.
    seconds_left: Option<f64>,
}

impl From<DrainRecord> for Drain {
    fn from(drain: DrainRecord) -> Drain {
        let seconds = |left: Span| left.micros() as f64 / 1e6;
        Drain { phase: drain.phase.name(), seconds_left: drain.left.map(seconds) }
    }
}

/// `GET /api/v1/status`.
pub(crate) async fn status(
    State(workers): State<Workers>,
    State(version): State<&'static str>,
) -> Result<Json<Status>, ApiError> {
    let (report, config) = workers.report().await?;
    Ok(Json(Status {
        version,
        state: match report.serving {
            ServiceState::Active => "active",
            ServiceState::Paused => "paused",
            ServiceState::Suspended => "suspended",
        },
        draining: report.draining,
        drain: report.drain.map(Drain::from),
        workers: config.workers,
        configuration: config.source.display().to_string(),
        pools: config.pools.len(),
        clients: report.pools.iter().map(|pool| pool.clients()).sum(),
        waiting_clients: report.pools.iter().map(|pool| pool.cl_waiting).sum(),
        login_clients: report.login_clients,
        console_clients: report.console_clients,
        max_clients: config.max_clients,
        servers: report.pools.iter().map(|pool| pool.servers()).sum(),
        cluster: if config.cluster.etcd.is_empty() { String::new() } else { config.cluster.name.clone() },
        faults: report.faults.iter().map(FaultView::from).collect(),
    }))
}

/// `POST /api/v1/drain`.
pub(crate) async fn drain(State(workers): State<Workers>) -> Result<StatusCode, ApiError> {
    workers.run(Command::Shutdown(ShutdownMode::Drain)).await?;
    Ok(StatusCode::ACCEPTED)
}

#[derive(Serialize)]
pub(crate) struct Setting {
    key: &'static str,
    value: String,
    default: Option<String>,
    changeable: bool,
    #[serde(flatten)]
    about: Option<About>,
}

/// What a setting is, from the table of settings.
#[derive(Serialize)]
struct About {
    section: &'static str,
    purpose: &'static str,
    name: &'static str,
    of_pgbouncer: bool,
    kind: &'static str,
    words: &'static [&'static str],
    effect: &'static str,
    description: &'static str,
}

impl About {
    fn of(key: &str) -> Option<About> {
        let weir_config::SettingText { section, purpose, name, of_pgbouncer, kind, words, effect, description } =
            weir_config::describe(key)?;
        Some(About { section, purpose, name, of_pgbouncer, kind, words, effect, description })
    }
}

/// `GET /api/v1/settings`.
pub(crate) async fn settings(
    State(workers): State<Workers>,
    Extension(reader): Extension<Reader>,
) -> Result<Json<Vec<Setting>>, ApiError> {
    let (_, config) = workers.report().await?;
    let mut rows = weir_config::show(&config);
    if !reader.sees_queries() {
        rows.iter_mut().for_each(weir_config::ShowRow::hide_query);
    }
    let setting = |row: weir_config::ShowRow| Setting {
        key: row.key,
        value: row.value,
        default: row.default,
        changeable: weir_config::is_settable(row.key),
        about: About::of(row.key),
    };
    Ok(Json(rows.into_iter().map(setting).collect()))
}

/// A key of a pool's section, from the table of settings.
#[derive(Serialize)]
pub(crate) struct PoolKey {
    key: &'static str,
    kind: &'static str,
    words: &'static [&'static str],
    setting: Option<&'static str>,
    pgbouncer: Option<&'static str>,
    description: &'static str,
}

/// `GET /api/v1/pool-keys`.
pub(crate) async fn pool_keys() -> Json<Vec<PoolKey>> {
    let key = |of: weir_config::PoolKey| {
        let weir_config::PoolKey { key, kind, words, setting, pgbouncer, description } = of;
        PoolKey { key, kind, words, setting, pgbouncer, description }
    };
    Json(weir_config::pool_key_table().map(key).collect())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Value {
    value: String,
}

#[derive(Serialize)]
pub(crate) struct ChangedSetting {
    key: String,
    /// The value as SHOW CONFIG has it now.
    value: String,
    #[serde(flatten)]
    outcome: PersistedBody,
}

/// `PUT /api/v1/settings/{key}`.
pub(crate) async fn set(
    changer: Changer,
    Name(key): Name,
    value: Result<Json<Value>, JsonRejection>,
) -> Result<Json<ChangedSetting>, ApiError> {
    let Json(Value { value }) = value.map_err(ApiError::BadBody)?;
    let about = |error: ApiError| error.about(&key);
    let assign = Assignment::new(&key, &value).map_err(|error| about(ApiError::InvalidSetting(error)))?;
    let kept = changer.change(Edit::Setting(assign)).await.map_err(about)?;
    let (_, config) = changer.workers.report().await?;
    let now = weir_config::show(&config).into_iter().find(|row| row.key == key);
    Ok(Json(ChangedSetting { key, value: now.map_or(value, |row| row.value), outcome: kept }))
}
