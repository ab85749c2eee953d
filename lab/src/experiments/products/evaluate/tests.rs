//! Claims and tables on made-up results.

use std::collections::BTreeMap;

use super::*;
use crate::experiments::products::plan::{Tls, Way};
use crate::length::Length;
use crate::load::http::Load;
use crate::model::{Missing, Value, Verdict};
use crate::steps::{Measured, Outcome};

/// Results in which each load and burst has `served` and `errors`.
fn results(of: impl Fn(What) -> Option<(u64, u64)>) -> (Plan, Results) {
    let plan = Plan::new(Length::Quick, 2);
    let outcome = |what: What| {
        let (served, errors) = of(what)?;
        let complaints = if errors > 0 { vec![("too many".to_owned(), errors)] } else { Vec::new() };
        let load = Load { connections: 20, served, errors, wall: 10.0, average_ms: 9.0, complaints, ..Load::default() };
        let run = Run { load, connections: 20, waits: 7, waited_ms: 14.0 };
        let taken = RunData { program: "Go 1.26".into(), runs: vec![run] };
        Some((what.id(), Outcome::Done(Measured::of("", &taken))))
    };
    let outcomes = plan.whats().into_iter().filter_map(outcome).collect();
    (plan, Results::new(outcomes))
}

/// The articles' own figures, with TLS twice as expensive for `normal`, and Weir a little below the pool.
fn as_published(what: What) -> Option<(u64, u64)> {
    Some(match what {
        What::App => return None,
        What::Burst { way: Way::New, .. } => (97, 103),
        What::Burst { .. } => (200, 0),
        What::Load { way: Way::New, .. } => (100, 24_624),
        What::Load { way: Way::Normal, connections: 20, tls: Tls::Off } => (9_358, 0),
        What::Load { way: Way::Normal, connections: 20, tls: Tls::On } => (4_500, 0),
        What::Load { way: Way::Normal, .. } => (8_206, 3_171),
        What::Load { way: Way::Pooled, connections: 20, .. } => (17_010, 0),
        What::Load { way: Way::Pooled, .. } => (16_792, 15),
        What::Load { way: Way::Weir, .. } => (14_000, 0),
        What::Sweep { size: 1, .. } => (9_000, 0),
        What::Sweep { .. } => (16_500, 0),
    })
}

fn verdicts(evaluation: &model::Experiment) -> Vec<Verdict> {
    evaluation.claims.iter().map(|claim| claim.verdict).collect()
}

#[test]
fn the_articles_own_figures_hold_their_claims() {
    let (plan, results) = results(as_published);
    let evaluation = evaluate(&plan, &results);
    let lost: Vec<_> = evaluation.claims.iter().filter(|claim| claim.verdict != Verdict::Held).collect();
    assert!(lost.is_empty(), "{lost:#?}");
    assert!(evaluation.claims[0].why.contains("too many"), "{}", evaluation.claims[0].why);
}

#[test]
fn figures_of_the_contrary_do_not() {
    // `new` is never refused, all others are equal, Weir loses some, and a small pool is slow.
    let (plan, results) = results(|what| match what {
        What::App => None,
        What::Burst { way: Way::Weir, .. } => Some((190, 10)),
        What::Load { way: Way::Weir, .. } => Some((1_000, 3)),
        What::Load { way: Way::Pooled, .. } => Some((1_000, 9)),
        What::Sweep { size: 1 | 2, .. } => Some((100, 0)),
        _ => Some((1_000, 0)),
    });
    let evaluation = evaluate(&plan, &results);
    let mut verdicts = verdicts(&evaluation);
    // Only the claim that requests wait holds here, too.
    assert_eq!(verdicts.remove(3), Verdict::Held);
    assert!(verdicts.iter().all(|verdict| *verdict == Verdict::NotHeld), "{:#?}", evaluation.claims);
}

#[test]
fn without_results_claims_are_open_and_cells_say_why() {
    let plan = Plan::new(Length::Quick, 2);
    let evaluation = evaluate(&plan, &Results::default());
    assert!(verdicts(&evaluation).iter().all(|verdict| *verdict == Verdict::Open), "{:#?}", evaluation.claims);
    let missing = Missing { what: "Weir".into(), effect: String::new(), get: String::new() };
    let what = What::Load { way: Way::Weir, connections: 20, tls: Tls::Off };
    let results = Results::new(BTreeMap::from([(what.id(), Outcome::Missing(missing))]));
    let evaluation = evaluate(&plan, &results);
    assert_eq!(evaluation.tables[1].rows[3].cells[0].ours, Some(Value::text("not installed")));
    assert_eq!(evaluation.tables[1].rows[0].cells[0].ours, Some(Value::text("not run")));
}

#[test]
fn each_row_has_a_cell_for_each_column_and_each_chart_has_points() {
    let (plan, results) = results(as_published);
    let evaluation = evaluate(&plan, &results);
    for table in &evaluation.tables {
        assert!(table.rows.iter().all(|row| row.cells.len() == table.columns.len()), "{}", table.title);
    }
    assert_eq!(evaluation.tables[4].rows[3].cells[1].ours, Some(Value::text("not run")));
    for chart in &evaluation.charts {
        let points: usize = chart.series.iter().map(|series| series.points.len()).sum();
        assert!(points > 3, "{}", chart.title);
    }
}

#[test]
fn the_published_figures_stand_beside_ours() {
    let (plan, results) = results(as_published);
    let evaluation = evaluate(&plan, &results);
    let pooled = &evaluation.tables[1].rows[2].cells;
    assert_eq!(pooled[0].published, Some(Value::number(1701.0)));
    assert_eq!(
        (pooled[1].published.as_ref(), pooled[1].ours.as_ref()),
        (Some(&Value::number(0.0)), Some(&Value::number(0.0)))
    );
    let tool = &evaluation.tables[3].rows[4].cells;
    assert_eq!(tool[0].published, Some(Value::number(100.0)));
    assert_eq!(tool[1].published, Some(Value::number(1923.55)));
}
