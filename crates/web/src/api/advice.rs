//! `GET /api/v1/advice`: what is wrong now, and what the measured figures of the busiest pools say about their sizes.
//!
//! A pool with an incident gets no advice about its size: its figures are those of the incident.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use weir_config::Config;
use weir_http::ApiError;
use weir_monitor::{
    ActivityProbe, Advice, Incident, IncidentCause, Measured, Scale, Watch, Workers, advise, current, whole_or_none,
};

use super::applied_advice::{AppliedAdvice, AppliedChange};
use super::moments::moments;
use super::params::{Changer, Name, within};
use crate::pool_tests::PoolTests;

/// Seconds that count as the present.
const RECENT: u64 = 300;
/// Minutes of the past that are used: three days.
const PAST: u64 = 3 * 24 * 60;
/// How long a change is watched, by default, at most and at least, in seconds. The figures of a second are stored for
/// an hour.
const WATCHED: u64 = 300;
const LONGEST_WATCH: u64 = 1800;
const SHORTEST_WATCH: u64 = 10;

#[derive(Serialize)]
pub(crate) struct All {
    /// What is wrong now.
    live: Vec<Live>,
    /// What sizes finished work needs.
    advice: Vec<Advice>,
    /// Changes that advice made.
    applied: Vec<AppliedChange>,
}

/// An incident, in short.
#[derive(Serialize)]
struct Live {
    pool: String,
    cause: IncidentCause,
    title: &'static str,
    text: String,
    advice: &'static str,
    seconds: f64,
    clients_waiting: usize,
}

/// `GET /api/v1/advice`.
pub(crate) async fn advice(
    State(workers): State<Workers>,
    State(watch): State<Watch>,
    State(pool_tests): State<PoolTests>,
    State(activity_probe): State<ActivityProbe>,
    State(applied): State<AppliedAdvice>,
) -> Result<Json<All>, ApiError> {
    let (report, config) = workers.report().await?;
    let live = current(&workers, &activity_probe, &report, &config, |_| true).await?;
    let mut advice = Vec::new();
    for name in watch.kept().await? {
        if !live.iter().any(|incident| incident.pool == name) && !applied.watches(&name) {
            advice.extend(sizing(&watch, &pool_tests, &config, name).await?);
        }
    }
    Ok(Json(All { live: live.into_iter().map(Live::of).collect(), advice, applied: applied.list() }))
}

/// What finished work says about a pool's size.
async fn sizing(
    watch: &Watch,
    pool_tests: &PoolTests,
    config: &Config,
    name: String,
) -> Result<Option<Advice>, ApiError> {
    let now = weir_monitor::now().as_secs();
    let Some(pool) = config.pools.get(&name).or(config.fallback.as_ref()) else { return Ok(None) };
    let mut measured = Measured {
        size: pool.limits.size,
        mode: pool.policy.mode,
        recent: moments(watch, &name, Scale::Seconds, now.saturating_sub(RECENT), RECENT).await?,
        past: moments(watch, &name, Scale::Minutes, now.saturating_sub(PAST * 60), PAST).await?,
        pool: name,
        room: None,
    };
    let mut said = advise(&measured);
    if said.as_ref().is_some_and(Advice::grows) {
        measured.room = pool_tests.room(&measured.pool).await;
        said = advise(&measured);
    }
    Ok(said)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    /// How long the change is watched, in seconds.
    #[serde(default, deserialize_with = "whole_or_none")]
    watch_seconds: Option<u64>,
}

/// `POST /api/v1/advice/{name}/apply`.
pub(crate) async fn apply(
    changer: Changer,
    State(watch): State<Watch>,
    State((pool_tests, activity_probe)): State<(PoolTests, ActivityProbe)>,
    State(applied): State<AppliedAdvice>,
    Name(name): Name,
    wanted: Result<Json<Wanted>, JsonRejection>,
) -> Result<Json<AppliedChange>, ApiError> {
    let Json(Wanted { watch_seconds }) = wanted.map_err(ApiError::BadBody)?;
    let watched = within("watch_seconds", watch_seconds.unwrap_or(WATCHED), LONGEST_WATCH)?.max(SHORTEST_WATCH);
    let (report, config) = changer.workers.report().await?;
    let live = current(&changer.workers, &activity_probe, &report, &config, |pool| pool == name).await?;
    let said = match live.is_empty() && !applied.watches(&name) {
        true => sizing(&watch, &pool_tests, &config, name.clone()).await?,
        false => None,
    };
    let change = said.and_then(Advice::into_change).ok_or(ApiError::NoAdvice)?;
    applied.apply(&name, change, Duration::from_secs(watched), changer.author).await.map(Json)
}

/// `POST /api/v1/advice/{name}/undo`.
pub(crate) async fn undo(
    changer: Changer,
    State(applied): State<AppliedAdvice>,
    Name(name): Name,
) -> Result<StatusCode, ApiError> {
    applied.undo(&name, changer.author).await.map(|()| StatusCode::NO_CONTENT)
}

/// `POST /api/v1/advice/{name}/keep`.
pub(crate) async fn keep(State(applied): State<AppliedAdvice>, Name(name): Name) -> Result<StatusCode, ApiError> {
    applied.keep(&name).map(|()| StatusCode::NO_CONTENT)
}

impl Live {
    fn of(incident: Incident) -> Live {
        let Incident { pool, cause, title, text, advice, seconds, clients_waiting, .. } = incident;
        Live { pool, cause, title, text, advice, seconds, clients_waiting }
    }
}
