//! The evaluation of made-up results.

use std::collections::BTreeMap;

use super::super::burst::Burst;
use super::super::plan::{Task, load_id};
use super::*;
use crate::load::sample::{Samples, Usage};
use crate::model::Verdict;
use crate::steps::{Measured, Outcome};

fn plan() -> Plan {
    Plan {
        scale: 150,
        seconds: 30,
        sweep_seconds: 10,
        repetitions: 2,
        way_ms: 40,
        cores: 2,
        own: false,
        sizes: vec![2, 4, 10, 20, 50],
    }
}

fn run(tps: f64) -> Run {
    Run { transactions: 1000, tps, latency_ms: 282.0, stddev_ms: 80.0, success: true, ..Run::default() }
}

fn refusal() -> Run {
    let complaint = "connection to server at \"127.0.0.1\" failed: FATAL:  sorry, too many clients already".to_owned();
    Run { complaint, ..Run::default() }
}

fn usage(cpu: f64, megabytes: f64, processes: f64) -> Usage {
    let (memory, processes) = (vec![(1.0, megabytes * MB)], vec![(1.0, processes)]);
    Usage { cpu: vec![(1.0, cpu)], cpu_seconds: 0.0, memory, processes }
}

fn taken(run: Run, server: Usage) -> RunData {
    let samples = Samples { server, pooler: usage(45.0, 5.0, 1.0), ..Samples::default() };
    RunData { run, second: None, samples, seconds: 30, usable: USABLE }
}

/// Results with these TPS near: 97 direct and 150 pooled; all else as published.
fn results(direct_near: f64, pooled_near: f64) -> Results {
    let mut outcomes = BTreeMap::new();
    let mut put = |id: String, taken: &RunData| {
        outcomes.insert(id, Outcome::Done(Measured::of("", taken)));
    };
    for distance in [Distance::Far, Distance::Near] {
        for load in LOADS {
            let tps = match (distance, load.route, load.clients) {
                (Distance::Near, Route::Pool, 150) => pooled_near,
                (Distance::Near, Route::Direct | Route::Twice, _) => direct_near,
                (_, Route::Twice, _) => 258.0,
                (_, _, 50) => 172.0,
                _ => 344.0,
            };
            let run = if load == (Load { route: Route::Direct, clients: 150 }) { refusal() } else { run(tps) };
            let mut taken = taken(run, usage(150.0, 400.0, 104.0));
            taken.second = (load.route == Route::Twice).then(refusal);
            for repetition in 1..=2 {
                put(load_id(distance, load, repetition), &taken);
            }
        }
        for size in plan().sizes(distance) {
            let tps = if distance == Distance::Far { f64::from(size) * 3.5 } else { 5000.0 };
            put(Task::Sweep(distance, size).id(), &taken(run(tps), usage(140.0, 300.0, f64::from(size) + 7.0)));
        }
    }
    let direct = Burst { asked: BURST, served: 97, refused: 203, ..Burst::default() };
    let pool = Burst { asked: BURST, served: BURST, slowest_ms: 800.0, ..Burst::default() };
    outcomes.insert("burst-direct".into(), Outcome::Done(Measured::of("", &direct)));
    outcomes.insert("burst-pool".into(), Outcome::Done(Measured::of("", &pool)));
    Results::new(outcomes)
}

fn verdict(evaluation: &Experiment, begins: &str, holds: &str) -> Verdict {
    let found = evaluation.claims.iter().find(|claim| claim.text.starts_with(begins) && claim.text.contains(holds));
    found.unwrap_or_else(|| panic!("no claim begins {begins:?} with {holds:?}: {:#?}", evaluation.claims)).verdict
}

#[test]
fn the_published_shape_holds() {
    let evaluation = evaluate(&plan(), None, &results(5000.0, 5100.0));
    for (begins, holds) in [
        ("150 direct", ""),
        ("Far", "lose no client"),
        ("Far", "no fewer"),
        ("Far", "50 gain nothing"),
        ("Near", "no fewer"),
        ("In a burst", ""),
        ("Near", "twice the cores"),
    ] {
        assert_eq!(verdict(&evaluation, begins, holds), Verdict::Held, "{begins} {holds}");
    }
    assert_eq!(verdict(&evaluation, "Far", "twice the cores"), Verdict::NotHeld);
    let published: Vec<_> = evaluation.tables[0].rows.iter().map(|row| row.cells[0].published.clone()).collect();
    assert_eq!(published.iter().flatten().count(), 4);
    assert!(evaluation.tables[1].rows.iter().all(|row| row.cells[0].published.is_none()));
}

#[test]
fn fewer_transactions_than_direct_are_said_with_their_reason() {
    let evaluation = evaluate(&plan(), None, &results(6000.0, 4500.0));
    assert_eq!(verdict(&evaluation, "Near", "no fewer"), Verdict::NotHeld);
    let claim = evaluation.claims.iter().find(|c| c.text.starts_with("Near") && c.text.contains("no fewer")).unwrap();
    assert!(claim.why.contains("−25.0%") && claim.why.contains("Weir's 0.100 ms a transaction"), "{}", claim.why);
}

#[test]
fn a_refusal_is_a_word_in_the_table_and_no_bar() {
    let evaluation = evaluate(&plan(), None, &results(5000.0, 5100.0));
    let row = evaluation.tables[0].rows.iter().find(|row| row.label == "direct, 150 clients").unwrap();
    assert_eq!(row.cells[0].ours, Some(Value::text("refused")));
    assert_eq!(row.cells[4].ours, Some(Value::text("stopped by a refusal")));
    let twice = evaluation.tables[0].rows.iter().find(|row| row.label == "direct, 2 × 75 clients").unwrap();
    assert_eq!(twice.cells[4].ours, Some(Value::text("the second stopped by a refusal")));
    assert_eq!(evaluation.charts[0].series[0].points.len(), LOADS.len() - 1);
}

#[test]
fn nothing_measured_decides_nothing() {
    let empty = evaluate(&plan(), None, &Results::default());
    assert!(empty.tables.is_empty() && empty.claims.is_empty());
    let failed = Results::new(BTreeMap::from([("burst-pool".to_owned(), Outcome::Failed("broke".into()))]));
    let evaluation = evaluate(&plan(), Some("db.example"), &failed);
    assert!(evaluation.claims.iter().all(|claim| claim.verdict == Verdict::Open), "{:#?}", evaluation.claims);
    assert!(evaluation.charts.iter().all(|chart| !chart.series.is_empty()), "published bars only");
}

#[test]
fn numbers_have_their_commas() {
    assert_eq!(
        (thousands(7), thousands(1000), thousands(15_000_000)),
        ("7".into(), "1,000".into(), "15,000,000".into())
    );
}

#[test]
fn of_a_server_of_the_users_own_only_what_it_reports_is_shown() {
    let plan = Plan { own: true, way_ms: 0, ..plan() };
    let evaluation = evaluate(&plan, Some("db.example"), &results(5000.0, 5100.0));
    assert_eq!(verdict(&evaluation, "Your server", "no fewer"), Verdict::Held);
    assert_eq!(verdict(&evaluation, "Your server", "twice the cores"), Verdict::Open);
    let costs = evaluation.tables.iter().find(|table| table.title.starts_with("What it cost")).unwrap();
    assert_eq!(costs.columns[0].title, "server: connections");
    assert!(evaluation.setup.iter().all(|line| !line.contains("share this machine's")), "{:?}", evaluation.setup);
}
