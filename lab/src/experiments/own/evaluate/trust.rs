//! Warnings about the figures of a custom experiment.

use super::super::Case;
use super::super::file::{Plan, Script, Workload};
use super::super::stage::RunData;
use crate::model::Value;
use crate::steps::Results;

/// Shorter runs, in seconds, mean little: caches fill, and a checkpoint happens in some of them.
const SHORT: u32 = 10;

/// From this spread on, as a share of the median, repetitions do not agree.
const SPREAD: f64 = 0.10;

/// From this share of its processors' time on the machine is saturated.
const FULL: f64 = 0.90;

/// From this share on the client's load disturbs the measurement.
const TAKEN_BY_CLIENT: f64 = 0.33;

/// All warnings, those about the plan first.
pub(super) fn warnings(plan: &Plan, results: &Results) -> Vec<String> {
    let mut warnings = about_the_plan(plan);
    for (target, described) in plan.targets.iter().enumerate() {
        for clients in &plan.workload.clients {
            let cases = (1..=plan.repetitions).map(|repetition| Case { target, clients: *clients, repetition });
            let taken: Vec<RunData> = cases.filter_map(|case| results.get(&plan.id(case))).collect();
            let about = about_the_runs(plan, &taken);
            warnings.extend(about.into_iter().map(|text| format!("{}, {clients} clients: {text}", described.name)));
        }
    }
    warnings
}

fn about_the_plan(plan: &Plan) -> Vec<String> {
    let Workload { duration, clients, scale, script, .. } = &plan.workload;
    let mut warnings = Vec::new();
    if *duration < SHORT {
        warnings.push(format!("runs of {duration} s are too short to be trusted: {SHORT} or more"));
    }
    if plan.repetitions < 3 {
        let count = plan.repetitions;
        warnings.push(format!(
            "with {count} repetition{} the spread is unknown: 3 or more",
            if count == 1 { "" } else { "s" }
        ));
    }
    let most = clients.iter().copied().max().unwrap_or(0);
    if let (Script::Builtin("tpcb-like"), Some(scale)) = (script, scale)
        && *scale < most
    {
        warnings.push(format!(
            "{most} clients share {scale} branches: with the scale below the number of clients they wait for each \
             other's rows, and no pooler changes that"
        ));
    }
    warnings
}

fn about_the_runs(plan: &Plan, taken: &[RunData]) -> Vec<String> {
    let served: Vec<_> = taken.iter().filter(|taken| taken.trouble.is_none()).collect();
    let mut warnings = Vec::new();
    if !served.is_empty() && served.len() < taken.len() {
        warnings.push(format!("all clients were served in {} of {} repetitions only", served.len(), taken.len()));
    }
    let failed: u64 = served.iter().map(|taken| taken.run.failed).sum();
    if failed > 0 {
        warnings.push(format!("{failed} transactions failed"));
    }
    warnings.extend(served.iter().find_map(|taken| taken.client_limit.clone()));
    warnings.extend(served.iter().find_map(|taken| machine_is_full(taken)));
    let tps: Vec<_> = served.iter().map(|taken| taken.run.tps).collect();
    warnings.extend(spread(&tps).map(|percent| format!("TPS differ by {percent:.0}% between repetitions")));
    let latency: Vec<_> = served.iter().map(|taken| taken.latency_ms(plan.workload.think_time_ms)).collect();
    let offered = plan.workload.rate.is_some() || plan.workload.think_time_ms > 0;
    if offered {
        warnings
            .extend(spread(&latency).map(|percent| format!("latencies differ by {percent:.0}% between repetitions")));
    }
    warnings
}

/// The spread in per cent of the median, if it is too large.
fn spread(values: &[f64]) -> Option<f64> {
    let Some(Value::Number { value, spread: Some((least, most)) }) = Value::median(values) else { return None };
    let share = (most - least) / value;
    (value > 0.0 && share > SPREAD).then_some(share * 100.0)
}

/// The warning that the machine is saturated, and that the client uses much of it.
fn machine_is_full(taken: &RunData) -> Option<String> {
    let (client, server) = (taken.client_cpu?, taken.server_cpu?);
    let all = 100.0 * f64::from(taken.cores.max(1));
    let sum = client + server + taken.pooler_cpu.unwrap_or(0.0);
    (sum >= FULL * all && client >= TAKEN_BY_CLIENT * all).then(|| {
        format!(
            "the machine is full, and pgbench takes {:.0}% of it from what it measures: let it run on another machine, \
             against addresses",
            client / all * 100.0
        )
    })
}
