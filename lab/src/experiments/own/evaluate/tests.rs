//! The evaluation of made-up results.

use std::collections::BTreeMap;

use super::*;
use crate::load::pgbench::Run;
use crate::model::Verdict;
use crate::steps::{Measured, Outcome};

fn plan() -> Plan {
    let example = include_str!("../../../../examples/my-load.toml");
    super::super::file::parse(example, &|_| Err("none".into())).unwrap()
}

fn taken(tps: f64) -> RunData {
    let run = Run { tps, latency_ms: 1000.0 / tps, transactions: 1000, success: true, ..Run::default() };
    RunData {
        run,
        cores: 2,
        client_cpu: Some(20.0),
        server_cpu: Some(80.0),
        server_ms: Some(0.5),
        ..RunData::default()
    }
}

/// Results by target, clients and repetition; `None` for a run that was refused.
fn results(plan: &Plan, tps: impl Fn(usize, u32, u32) -> Option<f64>) -> Results {
    let one = |case: Case| {
        let taken = match tps(case.target, case.clients, case.repetition) {
            Some(tps) => taken(tps),
            None => RunData { trouble: Some("refused: too many clients".into()), ..RunData::default() },
        };
        (plan.id(case), Outcome::Done(Measured::of("", &taken)))
    };
    Results::new(plan.cases().into_iter().map(one).collect::<BTreeMap<_, _>>())
}

fn verdicts(found: &Experiment) -> Vec<Verdict> {
    found.claims.iter().map(|claim| claim.verdict).collect()
}

#[test]
fn a_pooler_that_serves_where_the_server_refuses_does_something() {
    let plan = plan();
    let found = evaluate(
        &plan,
        &results(&plan, |target, clients, repetition| match (target, clients) {
            (0, 150) => None,
            _ => Some(1000.0 + f64::from(repetition)),
        }),
    );
    assert_eq!(verdicts(&found), [Verdict::Held, Verdict::Held]);
    let why = &found.claims[0].why;
    assert_eq!(why, "weir at 150 clients: serves all, where the other does not; nowhere a loss beyond the spread");
    assert!(found.claims[1].why.contains("50 clients: 1002 (1001–1003) against 1002"), "{}", found.claims[1].why);
    assert_eq!(found.tables[0].rows[2].cells[0].ours, Some(Value::text("refused: too many clients")));
    assert_eq!(found.charts[0].series[0].points.len(), 2);
}

#[test]
fn what_lies_within_the_spread_is_no_difference() {
    let plan = plan();
    let found = evaluate(
        &plan,
        &results(&plan, |target, _, repetition| {
            Some(if target == 0 { 1000.0 } else { 1050.0 } + 60.0 * f64::from(repetition))
        }),
    );
    assert_eq!(verdicts(&found), [Verdict::NotHeld, Verdict::NotHeld]);
    assert!(found.claims[0].why.contains("within what runs differ by"), "{}", found.claims[0].why);
}

#[test]
fn a_gain_here_and_a_loss_there_are_both_named() {
    let plan = plan();
    let found = evaluate(
        &plan,
        &results(&plan, |target, clients, _| match (target, clients) {
            (1, 10) => Some(900.0),
            (1, 150) => Some(2000.0),
            _ => Some(1000.0),
        }),
    );
    assert_eq!(verdicts(&found), [Verdict::Held, Verdict::NotHeld]);
    let why = &found.claims[0].why;
    assert!(why.contains("weir at 150 clients: 100% more. And what it costs: weir at 10 clients: 10% less"), "{why}");
}

#[test]
fn with_a_rate_the_latency_decides() {
    let mut plan = plan();
    plan.workload.rate = Some(500);
    let found = evaluate(&plan, &results(&plan, |target, _, _| Some(if target == 0 { 100.0 } else { 200.0 })));
    assert_eq!(found.claims[1].text, "“weir” answers sooner than “direct”");
    assert_eq!(found.claims[1].verdict, Verdict::Held);
    assert!(
        found.claims[1].why.starts_with("10 clients: 5.00 ms (5.00–5.00) against 10.0 ms"),
        "{}",
        found.claims[1].why
    );
}

#[test]
fn without_results_all_is_open_and_nothing_is_claimed_of_one_target() {
    let mut plan = plan();
    let found = evaluate(&plan, &Results::default());
    assert_eq!(verdicts(&found), [Verdict::Open, Verdict::Open]);
    assert_eq!(found.tables[0].rows[0].cells[0].ours, Some(Value::text("not run")));
    plan.targets.truncate(1);
    assert!(evaluate(&plan, &Results::default()).claims.is_empty());
}

#[test]
fn one_number_of_clients_makes_bars() {
    let mut plan = plan();
    plan.workload.clients = vec![20];
    let found = evaluate(&plan, &results(&plan, |_, _, _| Some(1000.0)));
    assert_eq!(found.charts[0].kind, ChartKind::Bars);
    assert_eq!(found.charts[0].series[1].points, [(0.0, 1000.0)]);
}

#[test]
fn what_makes_figures_doubtful_is_said() {
    let mut plan = plan();
    (plan.workload.duration, plan.repetitions) = (5, 2);
    let mut outcomes = BTreeMap::new();
    for case in plan.cases() {
        let mut one = taken(if case.repetition == 1 { 1000.0 } else { 1300.0 });
        one.run.failed = 3;
        one.client_limit = Some("the client was the limit".into());
        (one.client_cpu, one.server_cpu) = (Some(90.0), Some(100.0));
        outcomes.insert(plan.id(case), Outcome::Done(Measured::of("", &one)));
    }
    let found = evaluate(&plan, &Results::new(outcomes));
    let all = found.warnings.join("\n");
    for text in [
        "runs of 5 s are too short",
        "with 2 repetitions the spread is unknown",
        "150 clients share 10 branches",
        "direct, 10 clients: 6 transactions failed",
        "weir, 150 clients: TPS differ by 26% between repetitions",
        "the client was the limit",
        "pgbench takes 45% of it",
    ] {
        assert!(all.contains(text), "{text}: {all}");
    }
}

#[test]
fn good_figures_are_not_doubted() {
    let mut plan = plan();
    plan.workload.scale = Some(200);
    let found = evaluate(&plan, &results(&plan, |_, _, repetition| Some(1000.0 + f64::from(repetition))));
    assert_eq!(found.warnings, Vec::<String>::new());
}
