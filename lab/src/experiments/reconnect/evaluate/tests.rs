//! The evaluation of made-up results.

use std::collections::BTreeMap;

use super::super::Options;
use super::*;
use crate::length::Length;
use crate::load::pgbench::Run;
use crate::model::{Missing, Verdict};
use crate::steps::{Measured, Outcome};

fn plan() -> Plan {
    Plan::new(Length::Quick, &Options::default())
}

fn served(clients: u32, tps: f64) -> RunData {
    let run = Run { tps, transactions: 1000, connect_ms: 2.0, success: true, ..Run::default() };
    RunData { fate: Fate::Served, clients, run, server_cpu: 1.0, pooler_cpu: Some(0.1) }
}

fn failed(fate: Fate, clients: u32, aborted: u32) -> RunData {
    let complaint = "connection to server failed: FATAL:  sorry, too many clients already".to_owned();
    let run = Run { aborted, complaint, tps: 77.0, ..Run::default() };
    RunData { fate, run, ..served(clients, 0.0) }
}

/// Results in which each column has these TPS at every number of clients up to 100, and at 200 those of the article.
fn results(tps: [f64; 4]) -> BTreeMap<String, Outcome> {
    let mut outcomes = BTreeMap::new();
    let mut put = |case: Case, taken: &RunData| {
        outcomes.insert(case.id(), Outcome::Done(Measured::of("", taken)));
    };
    for case in plan().cases() {
        let Case { column, setting, clients } = case;
        let place = Column::ALL.iter().position(|other| *other == column).unwrap();
        let taken = match (column, setting, clients) {
            (_, Setting::DefaultChildren, _) => failed(Fate::Hung, clients, 0),
            (Column::None, _, 200) => failed(Fate::Refused, clients, 100),
            (Column::Pgpool, _, 200) => failed(Fate::Dropped, clients, 200),
            _ => served(clients, tps[place]),
        };
        put(case, &taken);
    }
    outcomes
}

fn verdicts(outcomes: BTreeMap<String, Outcome>) -> Vec<Verdict> {
    evaluate(&plan(), &Results::new(outcomes)).claims.iter().map(|claim| claim.verdict).collect()
}

use Verdict::{Held, NotHeld, Open};

#[test]
fn the_articles_own_figures_hold_all_claims() {
    assert_eq!(verdicts(results([16.96, 26.86, 15.52, 26.5])), [Held; 6]);
}

#[test]
fn a_larger_gain_keeps_the_direction_and_loses_the_size() {
    let outcomes = results([200.0, 2000.0, 1900.0, 1800.0]);
    let evaluation = evaluate(&plan(), &Results::new(outcomes.clone()));
    assert_eq!(verdicts(outcomes), [Held, NotHeld, NotHeld, Held, Held, NotHeld]);
    assert!(
        evaluation.claims[0].why.starts_with("+900% (the median; from +900% to +900%)"),
        "{}",
        evaluation.claims[0].why
    );
    assert!(evaluation.claims[5].why.contains("0.90 of PgBouncer's"), "{}", evaluation.claims[5].why);
    assert!(
        evaluation.claims[5].why.ends_with("one run each at 40 clients: 1800 and 2000 TPS"),
        "{}",
        evaluation.claims[5].why
    );
}

#[test]
fn a_loss_is_no_gain() {
    assert_eq!(verdicts(results([100.0, 90.0, 80.0, 95.0]))[..3], [NotHeld, NotHeld, Held]);
}

#[test]
fn without_results_all_is_open() {
    let found = evaluate(&plan(), &Results::default());
    assert!(found.claims.iter().all(|claim| claim.verdict == Open), "{:?}", found.claims);
    assert_eq!(found.tables[0].rows[0].cells[0].ours, Some(Value::text("not run")));
}

#[test]
fn a_pooler_that_is_not_installed_leaves_its_own_claims_open() {
    let mut outcomes = results([100.0, 160.0, 90.0, 161.0]);
    let missing = || Missing { what: "PgBouncer".into(), effect: String::new(), get: "apt-get".into() };
    for (id, outcome) in &mut outcomes {
        if id.starts_with("pgbouncer") {
            *outcome = Outcome::Missing(missing());
        }
    }
    let found = evaluate(&plan(), &Results::new(outcomes.clone()));
    assert_eq!(verdicts(outcomes), [Open, Open, Held, Open, Held, Open]);
    assert_eq!(found.tables[0].rows[0].cells[1].ours, Some(Value::text("not installed")));
    assert_eq!(found.tables[0].rows[0].cells[1].published, Some(Value::number(26.86)));
}

#[test]
fn who_did_not_serve_all_has_words_in_place_of_a_figure() {
    let found = evaluate(&plan(), &Results::new(results([100.0, 160.0, 90.0, 170.0])));
    let last = found.tables[0].rows.last().unwrap();
    let ours: Vec<_> = last.cells.iter().map(|cell| cell.ours.clone().unwrap()).collect();
    assert_eq!(ours[0], Value::text("refused: too many clients"));
    assert_eq!(ours[2], Value::text("connections dropped"));
    assert_eq!(ours[4], Value::text("not on one machine"));
    assert_eq!(last.cells[0].published, Some(Value::text("connections dropped")));
    let why = &found.claims[3].why;
    assert!(why.contains("no pooler: 100 of 200 refused (sorry, too many clients already)"), "{why}");
    assert!(why.contains("Weir: all 200 served, 170 TPS"), "{why}");
    for table in &found.tables {
        assert!(table.rows.iter().all(|row| row.cells.len() == table.columns.len()), "{}", table.title);
    }
}

#[test]
fn a_gain_is_printed_beside_the_articles() {
    let found = evaluate(&plan(), &Results::new(results([100.0, 160.0, 90.0, 170.0])));
    let row = &found.tables[1].rows[0];
    let ours: Vec<_> = row.cells.iter().filter_map(|cell| cell.ours.as_ref()?.as_number()).collect();
    let theirs: Vec<_> = row.cells.iter().filter_map(|cell| cell.published.as_ref()?.as_number()).collect();
    assert_eq!((ours, theirs), (vec![60.0, -10.0, 70.0], vec![58.4, -8.5, 7.4]));
}

#[test]
fn both_modes_stand_in_the_table_of_settings() {
    let found = evaluate(&plan(), &Results::new(results([100.0, 160.0, 90.0, 170.0])));
    let labels: Vec<_> = found.tables[3].rows.iter().map(|row| row.label.as_str()).collect();
    let others = ["PgBouncer in transaction mode", "Weir in session mode", "Pgpool-II with 32 children"];
    assert_eq!(labels[4..], others);
    assert_eq!(found.tables[3].rows[6].cells[0].ours, Some(Value::text("hangs")));
    let case = Case { column: Column::Weir, setting: Setting::Mode(Mode::Session), clients: 40 };
    assert_eq!(case.id(), "weir-session-40");
}
