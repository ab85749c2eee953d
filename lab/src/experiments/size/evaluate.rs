//! Evaluates the sizes: tables, charts with Little's law, claims.
//!
//! A pure function of the results. The law needs two figures, both taken at size 1, where one connection does all the
//! work: `S`, how long a transaction holds its connection, and `C`, its CPU time, of the server, the pooler and the
//! client together, because all three share the machine. It predicts `size / S`, and never more than `cores / C`.

mod charts;
mod claims;

use super::plan::{CLIENTS, Plan, Task, Workload};
use super::stage::RunData;
use crate::load::spread::Spread;
use crate::model::{Better, Cell, Column, Experiment, Row, Table, Value};
use crate::steps::Results;

/// A size is as good as the best within this share of it.
pub(super) const AS_WELL: f64 = 0.10;

/// Evaluates the results.
pub(super) fn evaluate(plan: &Plan, results: &Results) -> Experiment {
    let mut evaluation = Experiment::empty("size", "How large should a pool be?");
    evaluation.question =
        "What does the size of a pool do to throughput and latency: when are as many connections as cores \
                      enough, and when are they not?"
            .to_owned();
    evaluation.setup = setup(plan);
    evaluation.hides = hides();
    if results.outcomes().is_empty() {
        return evaluation;
    }
    let all = Workload::ALL.map(|workload| Sized::new(plan, results, workload));
    evaluation.tables.push(needed(&all));
    evaluation.tables.extend(all.iter().map(|sized| table(sized, results)));
    evaluation.charts = charts::charts(&all);
    evaluation.claims = claims::claims(&all);
    if plan.repetitions == 1 {
        evaluation.warnings.push("one repetition has no spread: a small difference says nothing".to_owned());
    }
    if plan.seconds < 5 {
        evaluation.warnings.push(format!("runs of {} s: the shape shows, the decimals do not", plan.seconds));
    }
    evaluation
}

fn setup(plan: &Plan) -> Vec<String> {
    let Plan { scale, seconds, repetitions, cores, .. } = plan;
    vec![
        format!(
            "PostgreSQL, Weir in transaction mode with a pool of each size, and pgbench with {CLIENTS} clients, all on this \
             machine's {cores} cores; pgbench's tables at scale {scale}, nothing waits for a disk."
        ),
        "Read-only is pgbench -S, one SELECT. Read-write is pgbench's own transaction of seven statements.".to_owned(),
        "Slow waits 10 ms in its transaction, 5 of them for its client (\\sleep) and 5 in the server (pg_sleep), as for \
         another service and for a disk."
            .to_owned(),
        format!("{seconds} s a run, {repetitions} × each, the sizes in another order every time."),
        "Latency includes the wait in the pool's queue: with 64 clients and throughput X its average is 64 / X.".to_owned(),
        "Little's law is drawn from the run with one connection alone: S is the time it is held by a transaction, C the \
         processor time of server, pooler and client for it. size / S is predicted, and at most cores / C."
            .to_owned(),
    ]
}

fn hides() -> Vec<String> {
    [
        "The articles disagree on the size, and each is right for its load: the one on Go finds 4 connections on 4 cores as \
         good as 90, because its queries keep a core busy; DigitalOcean's gains with each of 97 on 2 cores, because its \
         transactions mostly wait.",
        "A load of clients that wait for their answers before they ask again, as here and in all the articles, can't show \
         what happens when more arrive than is served: then the queue grows, whatever the size.",
    ]
    .map(str::to_owned)
    .into()
}

/// One workload's figures by size.
pub(super) struct Sized<'p> {
    pub(super) plan: &'p Plan,
    pub(super) workload: Workload,
    /// Sizes with the results of their repetitions, ascending; sizes without results are left out.
    pub(super) points: Vec<(u32, Vec<RunData>)>,
}

impl<'p> Sized<'p> {
    fn new(plan: &'p Plan, results: &Results, workload: Workload) -> Sized<'p> {
        let taken = |size: u32| {
            let tasks = (1..=plan.repetitions).map(|repetition| Task { workload, size, repetition });
            let taken: Vec<RunData> = tasks.filter_map(|task| results.get(&task.id())).collect();
            (size, taken)
        };
        let points = plan.sizes.iter().map(|size| taken(*size)).filter(|(_, taken)| !taken.is_empty()).collect();
        Sized { plan, workload, points }
    }

    /// A figure at a size.
    pub(super) fn at(&self, size: u32, f: impl Fn(&RunData) -> Option<f64>) -> Option<Spread> {
        let (_, taken) = self.points.iter().find(|(at, _)| *at == size)?;
        Spread::of(&taken.iter().filter_map(f).collect::<Vec<_>>())
    }

    pub(super) fn tps(&self, size: u32) -> Option<Spread> {
        self.at(size, |taken| (taken.run.tps > 0.0).then_some(taken.run.tps))
    }

    /// All sizes with their throughput.
    pub(super) fn throughput(&self) -> Vec<(u32, Spread)> {
        self.points.iter().filter_map(|(size, _)| Some((*size, self.tps(*size)?))).collect()
    }

    /// The size with the highest throughput.
    pub(super) fn best(&self) -> Option<(u32, Spread)> {
        self.throughput().into_iter().max_by(|a, b| a.1.median.total_cmp(&b.1.median))
    }

    /// The smallest size that is as good as the best.
    pub(super) fn enough(&self) -> Option<(u32, Spread)> {
        let (_, best) = self.best()?;
        self.throughput().into_iter().find(|(_, tps)| tps.median >= best.median * (1.0 - AS_WELL))
    }

    /// `S` in seconds: how long a transaction holds its connection.
    pub(super) fn held(&self) -> Option<f64> {
        Some(1.0 / self.tps(1)?.median)
    }

    /// `cores / C`: the throughput that the cores allow, at the CPU time of a transaction at size 1.
    pub(super) fn ceiling(&self) -> Option<f64> {
        let seconds_each = self.at(1, cpu_each)?.median / 1000.0;
        (seconds_each > 0.0).then(|| f64::from(self.plan.cores) / seconds_each)
    }

    /// The connections in use when the cores are saturated, by Little's law.
    pub(super) fn needed(&self) -> Option<f64> {
        Some(self.ceiling()? * self.held()?)
    }

    /// The law's prediction for a size.
    pub(super) fn predicted(&self, size: u32) -> Option<f64> {
        Some((f64::from(size) / self.held()?).min(self.ceiling()?))
    }
}

/// CPU time of a transaction in ms: of server, pooler and client, while they were at work.
fn cpu_each(taken: &RunData) -> Option<f64> {
    let seconds = f64::from(taken.seconds);
    let steady = |usage: &crate::load::sample::Usage| usage.steady_cpu((seconds * 0.25).min(2.0), seconds);
    let percent = steady(&taken.samples.server)?
        + steady(&taken.samples.pooler).unwrap_or(0.0)
        + steady(&taken.samples.client).unwrap_or(0.0);
    (taken.run.tps > 0.0).then(|| percent * 10.0 / taken.run.tps)
}

fn column(title: &str, unit: &str, better: Option<Better>) -> Column {
    Column { title: title.into(), unit: unit.into(), better }
}

fn figure(value: Option<f64>) -> Cell {
    Cell { ours: value.map(Value::number), published: None }
}

/// One line for each workload: the needed size, and where that is reached.
fn needed(all: &[Sized]) -> Table {
    let columns = vec![
        column("S, connection held", "ms", None),
        column("C, processor time", "ms", None),
        column("needed, cores × S / C", "", None),
        column("best throughput", "TPS", Some(Better::Higher)),
        column("with", "", None),
        column("90% with", "", None),
    ];
    let row = |sized: &Sized| {
        let cells = vec![
            figure(sized.held().map(|seconds| seconds * 1000.0)),
            figure(sized.at(1, cpu_each).map(|each| each.median)),
            figure(sized.needed()),
            figure(sized.best().map(|(_, tps)| tps.median)),
            figure(sized.best().map(|(size, _)| f64::from(size))),
            figure(sized.enough().map(|(size, _)| f64::from(size))),
        ];
        Row { label: sized.workload.name().to_owned(), cells }
    };
    Table {
        title: "What each workload needs".to_owned(),
        rows_are: "workload".to_owned(),
        columns,
        rows: all.iter().map(row).collect(),
        note: "S and C are of one transaction, measured with a pool of 1. The need fills the cores, by Little's law; a workload that \
               needs more than there are clients never does. Best: of all sizes, with the size, and the smallest size that \
               does 90% of it."
            .to_owned(),
    }
}

fn table(sized: &Sized, results: &Results) -> Table {
    let columns = vec![
        column("throughput", "TPS", Some(Better::Higher)),
        column("predicted", "TPS", None),
        column("latency", "ms", Some(Better::Lower)),
        column("p50", "ms", Some(Better::Lower)),
        column("p95", "ms", Some(Better::Lower)),
        column("p99", "ms", Some(Better::Lower)),
        column("in use, X × S", "", None),
        column("server's CPU", "% of a core", None),
    ];
    let row = |size: u32| {
        let lack = || {
            let task = Task { workload: sized.workload, size, repetition: 1 };
            Value::text(results.lack(&task.id()).unwrap_or("–"))
        };
        let cell = |f: &dyn Fn(&RunData) -> Option<f64>| {
            let point = sized.points.iter().find(|(at, _)| *at == size);
            let figures: Vec<f64> = point.map(|(_, taken)| taken.iter().filter_map(f).collect()).unwrap_or_default();
            Cell::ours(Value::median(&figures).unwrap_or_else(lack))
        };
        let in_use = sized.tps(size).zip(sized.held()).map(|(tps, held)| tps.median * held);
        let cells = vec![
            cell(&|taken| Some(taken.run.tps)),
            figure(sized.predicted(size)),
            cell(&|taken| Some(taken.run.latency_ms)),
            cell(&|taken| Some(taken.p50_ms)),
            cell(&|taken| Some(taken.p95_ms)),
            cell(&|taken| Some(taken.p99_ms)),
            figure(in_use),
            cell(&|taken| taken.samples.server.mean_cpu()),
        ];
        Row { label: size.to_string(), cells }
    };
    Table {
        title: format!("{}: {CLIENTS} clients through pools of growing size", sized.workload.name()),
        rows_are: "pool size".to_owned(),
        columns,
        rows: sized.plan.sizes.iter().map(|size| row(*size)).collect(),
        note: String::new(),
    }
}

#[cfg(test)]
mod tests;
