//! `GET /api/v1/advice`: what the measured figures of the busiest pools say about their sizes.

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use crate::advice::{Advice, Measured, Moment, advise};
use crate::ask::Workers;
use crate::clock;
use crate::error::ApiError;
use crate::pool_tests::PoolTests;
use crate::watch::{Sample, Scale, Watch, place};

/// Seconds that count as the present.
const RECENT: u64 = 300;
/// Minutes of the past that are used: three days.
const PAST: u64 = 3 * 24 * 60;

#[derive(Serialize)]
pub(crate) struct All {
    advice: Vec<Advice>,
}

/// `GET /api/v1/advice`.
pub(crate) async fn advice(
    State(workers): State<Workers>,
    State(watch): State<Watch>,
    State(pool_tests): State<PoolTests>,
) -> Result<Json<All>, ApiError> {
    let (_, config) = workers.report().await?;
    let mut advice = Vec::new();
    let now = clock::now().as_secs();
    for name in watch.kept().await? {
        let Some(pool) = config.pools.get(&name).or(config.fallback.as_ref()) else { continue };
        let (recent, _) = watch.history(&name, Scale::Seconds, now.saturating_sub(RECENT), RECENT).await?;
        let (past, _) = watch.history(&name, Scale::Minutes, now.saturating_sub(PAST * 60), PAST).await?;
        let mut measured = Measured {
            size: pool.limits.size,
            mode: pool.mode,
            recent: moments(&recent),
            past: moments(&past),
            pool: name,
            room: None,
        };
        let mut said = advise(&measured);
        if said.as_ref().is_some_and(Advice::grows) {
            measured.room = pool_tests.room(&measured.pool).await;
            said = advise(&measured);
        }
        advice.extend(said);
    }
    Ok(Json(All { advice }))
}

/// Converts samples to moments; leaves out those of which nothing is known.
fn moments(samples: &[Sample]) -> Vec<Moment> {
    // Looked up once, not for each of thousands of samples.
    let [waiting, active, idle, in_transaction, rate, mean, wait, share] = [
        "clients_waiting",
        "servers_active",
        "servers_idle",
        "servers_idle_in_transaction",
        "transactions_per_second",
        "transaction_ms_mean",
        "wait_ms_p95",
        "idle_in_transaction_share",
    ]
    .map(place);
    let moment = |sample: &Sample| {
        let known = |place: Option<usize>| Some(f64::from(sample[place?])).filter(|value| !value.is_nan());
        Some(Moment {
            clients_waiting: known(waiting)?,
            servers_active: known(active)?,
            servers_idle: known(idle)?,
            servers_idle_in_transaction: known(in_transaction)?,
            transactions_per_second: known(rate),
            transaction_ms_mean: known(mean),
            wait_ms_p95: known(wait),
            idle_in_transaction_share: known(share),
        })
    };
    samples.iter().filter_map(moment).collect()
}
