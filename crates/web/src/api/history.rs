//! `GET /api/v1/pools/{name}/history`: a pool's figures of the last hour, day or month. `GET /api/v1/history`: a few
//! figures of all pools in the last minute or hour, as an overview needs them at once.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use weir_http::ApiError;
use weir_monitor::{Past, SERIES, Sample, Scale, Watch, merged, number, place};

use super::params::Name;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HistoryQuery {
    #[serde(default)]
    range: Range,
    until: Option<u64>,
    series: Option<String>,
}

/// The range.
#[derive(Clone, Copy, Default, Deserialize)]
enum Range {
    #[default]
    #[serde(rename = "1h")]
    Hour,
    #[serde(rename = "1d")]
    Day,
    #[serde(rename = "30d")]
    Month,
}

impl Range {
    /// The scale, how many moments, and how many of them are merged into one.
    fn plan(self) -> (Scale, u64, usize) {
        match self {
            Range::Hour => (Scale::Seconds, 3_600, 1),
            Range::Day => (Scale::Minutes, 24 * 60, 1),
            Range::Month => (Scale::Minutes, 30 * 24 * 60, 30),
        }
    }
}

#[derive(Serialize)]
pub(crate) struct History {
    /// Seconds from one moment to the next.
    step: u64,
    /// The moments, in seconds since 1970.
    at: Vec<u64>,
    series: BTreeMap<&'static str, Vec<Value>>,
    /// Whether the history survives a restart.
    persisted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// `GET /api/v1/pools/{name}/history`.
pub(crate) async fn history(
    State(watch): State<Watch>,
    Name(name): Name,
    wanted: Result<Query<HistoryQuery>, QueryRejection>,
) -> Result<Json<History>, ApiError> {
    let Query(wanted) = wanted?;
    let shown = chosen(wanted.series.as_deref())?;
    let (scale, moments, at_a_time) = wanted.range.plan();
    let step = scale.step() * at_a_time as u64;
    let until = wanted.until.unwrap_or(u64::MAX).min(weir_monitor::now().as_secs());
    // The current step is counted, and is shown when it is over.
    let from = (until - until % step + step).saturating_sub(scale.step() * moments);
    let (samples, reason) = watch.history(&name, scale, from, moments).await?;
    let samples = merged(&samples, at_a_time);
    let of = |index: usize| samples.iter().map(|sample| number(sample[index])).collect();
    Ok(Json(History {
        step,
        at: (0..samples.len() as u64).map(|number| from + number * step).collect(),
        series: shown.into_iter().map(|index| (SERIES[index].name, of(index))).collect(),
        persisted: reason.is_none(),
        reason,
    }))
}

/// The indexes of the requested series; all if none is named.
fn chosen(names: Option<&str>) -> Result<Vec<usize>, ApiError> {
    let Some(names) = names else { return Ok((0..SERIES.len()).collect()) };
    let known = |name: &str| place(name).ok_or_else(|| ApiError::Bad(format!("there is no series {name}")));
    names.split(',').map(known).collect()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OverviewQuery {
    #[serde(default)]
    range: OverviewRange,
}

/// The range of an overview.
#[derive(Clone, Copy, Default, Deserialize)]
enum OverviewRange {
    #[serde(rename = "1m")]
    Minute,
    #[default]
    #[serde(rename = "1h")]
    Hour,
}

/// The figures of an overview.
const OVERVIEW: [&str; 9] = [
    "clients_active",
    "clients_idle",
    "clients_waiting",
    "servers_active",
    "servers_idle",
    "oldest_wait_seconds",
    "transactions_per_second",
    "errors_per_second",
    "refusals_per_second",
];
/// Moments of either range.
const MOMENTS: u64 = 60;
/// Sums of figures whose most is wanted for each minute, where a minute has the means of its figures.
const PEAKS: [(&str, &[&str]); 2] = [
    ("clients_peak", &["clients_active", "clients_idle", "clients_waiting"]),
    ("servers_peak", &["servers_active", "servers_idle"]),
];

#[derive(Serialize)]
pub(crate) struct Overview {
    /// Seconds from one moment to the next.
    step: u64,
    /// The moments, in seconds since 1970.
    at: Vec<u64>,
    /// All pools as one; `problems` is the most pools that had one at once.
    all: BTreeMap<&'static str, Vec<Value>>,
    /// The stored pools; `problems` is 1 where the pool had one.
    pools: BTreeMap<String, BTreeMap<&'static str, Vec<Value>>>,
}

/// `GET /api/v1/history`.
pub(crate) async fn overview(
    State(watch): State<Watch>,
    wanted: Result<Query<OverviewQuery>, QueryRejection>,
) -> Result<Json<Overview>, ApiError> {
    let Query(OverviewQuery { range }) = wanted?;
    let scale = match range {
        OverviewRange::Minute => Scale::Seconds,
        OverviewRange::Hour => Scale::Minutes,
    };
    let (now, step) = (weir_monitor::now().as_secs(), scale.step());
    // The current step is counted, and is shown when it is over.
    let from = (now - now % step).saturating_sub(step * MOMENTS);
    let (mut all, mut pools) = (BTreeMap::new(), BTreeMap::new());
    for past in watch.past_of_all(scale, from, MOMENTS).await? {
        let series = overview_of(&past);
        match past.pool {
            Some(pool) => drop(pools.insert(pool, series)),
            None => all = series,
        }
    }
    let seconds = watch.past_of_sum(Scale::Seconds, from, MOMENTS * step).await?;
    all.extend(PEAKS.into_iter().map(|(name, of)| (name, peaks(&seconds, step as usize, of))));
    Ok(Json(Overview { step, at: (0..MOMENTS).map(|number| from + number * step).collect(), all, pools }))
}

/// The most that the sum of some figures was at one second of each moment; null where no second is known.
fn peaks(seconds: &[Sample], step: usize, of: &[&str]) -> Vec<Value> {
    let places: Vec<usize> = of.iter().filter_map(|name| place(name)).collect();
    let sum = |sample: &Sample| places.iter().map(|at| sample[*at]).sum::<f32>();
    let most = |moment: &[Sample]| moment.iter().map(sum).fold(f32::NAN, f32::max);
    seconds.chunks(step).map(|moment| number(most(moment))).collect()
}

fn overview_of(past: &Past) -> BTreeMap<&'static str, Vec<Value>> {
    let of = |name| {
        let values = place(name).map(|at| past.samples.iter().map(|sample| number(sample[at])).collect());
        (name, values.unwrap_or_default())
    };
    let mut series: BTreeMap<_, _> = OVERVIEW.into_iter().map(of).collect();
    series.insert("problems", past.problems.iter().map(|problems| Value::from(*problems)).collect());
    series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_is_of_one_second_and_not_a_sum_of_the_peaks_of_its_parts() {
        let second = |active: f32, idle: f32, waiting: f32| {
            let mut sample: Sample = [f32::NAN; SERIES.len()];
            for (name, value) in [("clients_active", active), ("clients_idle", idle), ("clients_waiting", waiting)] {
                sample[place(name).expect("a figure")] = value;
            }
            sample
        };
        // The same ten clients, of whom more or fewer wait; then nothing is known.
        let mut seconds = vec![second(2.0, 8.0, 0.0), second(2.0, 0.0, 8.0), second(2.0, 4.0, 4.0)];
        seconds.extend([second(f32::NAN, f32::NAN, f32::NAN); 3]);
        assert_eq!(peaks(&seconds, 3, PEAKS[0].1), [number(10.0), Value::Null]);
    }
}
