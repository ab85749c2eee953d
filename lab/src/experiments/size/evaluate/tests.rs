//! The evaluation of results that follow the law exactly.

use std::collections::BTreeMap;

use super::*;
use crate::length::Length;
use crate::load::pgbench::Run;
use crate::load::sample::{Samples, Usage};
use crate::model::{Origin, Verdict};
use crate::steps::{Measured, Outcome};

/// Results of a machine with 2 cores: each workload's transaction holds its connection for some ms, and costs some.
fn results(each: [(f64, f64); 3], disturb: impl Fn(Workload, u32, f64) -> f64) -> (Plan, Results) {
    let plan = Plan::new(Length::Standard, None, 2);
    let mut outcomes = BTreeMap::new();
    for task in plan.tasks() {
        let at = Workload::ALL.iter().position(|workload| *workload == task.workload).unwrap();
        let (held_ms, cost_ms) = each[at];
        let tps = (f64::from(task.size) * 1000.0 / held_ms).min(2000.0 / cost_ms);
        let tps = disturb(task.workload, task.size, tps);
        let server = Usage { cpu: vec![(3.0, tps * cost_ms / 10.0)], ..Usage::default() };
        let run = Run { tps, latency_ms: 64_000.0 / tps, success: true, ..Run::default() };
        let samples = Samples { server, ..Samples::default() };
        let taken = RunData { run, p50_ms: 1.0, p95_ms: 2.0, p99_ms: 3.0, samples, seconds: 5 };
        outcomes.insert(task.id(), Outcome::Done(Measured::of("", &taken)));
    }
    (plan, Results::new(outcomes))
}

fn verdicts(evaluation: &Experiment) -> Vec<Verdict> {
    evaluation.claims.iter().map(|claim| claim.verdict).collect()
}

/// Plausible values: read-only never waits, read-write half of its time, slow nearly always.
const EXPECTED: [(f64, f64); 3] = [(0.1, 0.1), (1.0, 0.5), (20.0, 0.4)];

#[test]
fn a_machine_that_follows_the_law_holds_all_claims() {
    let (plan, results) = results(EXPECTED, |_, _, tps| tps);
    let evaluation = evaluate(&plan, &results);
    let [first @ .., last] = verdicts(&evaluation).try_into().unwrap_or([Verdict::NotHeld; 7]);
    assert_eq!(first, [Verdict::Held; 6], "{:#?}", evaluation.claims);
    // The slow one needs 100 connections, and the largest pool has 64.
    assert_eq!(last, Verdict::Open);
    let needed: Vec<f64> =
        evaluation.tables[0].rows.iter().map(|row| row.cells[2].ours.as_ref().unwrap().as_number().unwrap()).collect();
    assert!((needed[0] - 2.0).abs() < 0.01 && (needed[1] - 4.0).abs() < 0.01 && (needed[2] - 100.0).abs() < 0.1);
    assert!(evaluation.charts[0].series.iter().any(|series| series.origin == Origin::Calculated));
}

#[test]
fn a_server_that_breaks_down_under_load_is_found_out() {
    let slower = |workload, size, tps| if workload == Workload::Slow && size == 32 { tps / 2.0 } else { tps };
    let (plan, results) = results(EXPECTED, slower);
    let evaluation = evaluate(&plan, &results);
    let law = evaluation.claims.iter().find(|claim| claim.text.starts_with("Little")).unwrap();
    assert_eq!(law.verdict, Verdict::NotHeld);
    assert!(law.why.contains("slow with a pool of 32, −50.0%"), "{}", law.why);
}

#[test]
fn a_workload_that_keeps_growing_does_not_hold_what_is_said_of_cores() {
    let (plan, results) = results([(1.0, 0.1), (1.0, 0.5), (20.0, 0.4)], |_, _, tps| tps);
    assert_eq!(verdicts(&evaluate(&plan, &results))[0], Verdict::NotHeld);
}

#[test]
fn without_the_run_with_one_connection_nothing_is_predicted() {
    let (plan, results) = results(EXPECTED, |_, _, tps| tps);
    let mut outcomes = results.outcomes().clone();
    outcomes.retain(|id, _| !id.contains("-1-"));
    let evaluation = evaluate(&plan, &Results::new(outcomes));
    assert_eq!(verdicts(&evaluation)[3..], [Verdict::Open; 4]);
    assert!(evaluate(&plan, &Results::default()).claims.is_empty());
}
