//! Evaluates the runs: tables, charts, claims, and what the article does not mention.
//!
//! A pure function of the results. The far runs are beside the published figures if there are any, because only they
//! have what the article's clients had: network latency.

mod charts;
mod claims;
mod view;

use crate::load::pgbench::Run;
use crate::load::sample::Usage;
use crate::machine;
use crate::model::{Better, Cell, Column, Experiment, Row, Table, Value};
use crate::steps::Results;

use super::plan::{BURST, Distance, LOADS, Load, MANY, POOL, Plan, Route, THREADS, USABLE};
use super::published;
use super::stage::RunData;
use view::{View, figures, flawless, refused, words, worked};

const MB: f64 = 1024.0 * 1024.0;

/// Evaluates the results.
pub(super) fn evaluate(plan: &Plan, host: Option<&str>, results: &Results) -> Experiment {
    let view = View::new(plan, results);
    let mut evaluation = Experiment::empty("pgbench", "A pool in front of a server with 100 connections");
    evaluation.question =
        "Can a pool serve more clients than the server has connections, at no fewer transactions, and what \
                      does it cost or save?"
            .to_owned();
    published::SOURCE.clone_into(&mut evaluation.source);
    evaluation.setup = setup(plan, host);
    evaluation.hides = hides();
    if results.outcomes().is_empty() {
        return evaluation;
    }
    for (at, distance) in plan.distances().into_iter().enumerate() {
        evaluation.tables.push(loads(&view, distance, at == 0));
    }
    evaluation.tables.extend(plan.distances().into_iter().map(|distance| costs(&view, distance)));
    evaluation.tables.push(sizes(&view));
    evaluation.tables.push(bursts(&view));
    evaluation.charts = charts::charts(&view);
    evaluation.claims = claims::claims(&view);
    evaluation.warnings = warnings(plan, host);
    evaluation
}

fn setup(plan: &Plan, host: Option<&str>) -> Vec<String> {
    let Plan { scale, seconds, repetitions, way_ms, .. } = plan;
    let mut setup = Vec::new();
    match host {
        Some(host) => setup.push(format!("A PostgreSQL of your own at {host}; its processes were not watched.")),
        None => setup.push(format!(
            "PostgreSQL takes 100 connections, of which 3 are reserved: {USABLE} are usable. pgbench -i -s {scale} made \
             {} accounts. Nothing waits for a disk (fsync and synchronous_commit are off), and vacuum runs between the \
             runs only.",
            thousands(u64::from(*scale) * 100_000)
        )),
    }
    setup.push(format!(
        "The pool {POOL} is found by its name: clients connect to the database {POOL} on Weir's port. It is in \
         transaction mode and has {USABLE} connections. Each run through it has a Weir of its own, because the \
         connections that a pool keeps would be missing from the direct runs."
    ));
    if *way_ms > 0 {
        setup.push(format!(
            "Far: the client of each run waits {way_ms} ms after each of the transaction's seven statements, as one does \
             whose server is {way_ms} ms away; the article's 282 ms a transaction are seven times 40 ms. The waiting is \
             pgbench's (\\sleep), the rest is real."
        ));
    }
    if plan.own {
        setup.push("pgbench's own transaction, over the way that there is to your server.".to_owned());
    } else {
        setup.push(format!(
            "Near: pgbench's own transaction, with nothing to wait for. Client, pooler and server share this machine's \
             {} cores, so what one takes the others lack: the hardest case for a pooler.",
            plan.cores
        ));
    }
    setup.push(format!("pgbench -c N -j {THREADS} -T {seconds}, {repetitions} × each, every time in another order."));
    setup.push("The article's clients used TLS (sslmode=require); no run here does.".to_owned());
    setup.push(rule());
    setup
}

/// The rule by which hosted servers limit connections, for this machine.
fn rule() -> String {
    #[allow(clippy::cast_precision_loss)]
    let gigabytes = machine::here().memory_bytes as f64 / 1024.0 / MB;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let connections = (gigabytes.round().max(1.0) as u64) * 25;
    format!(
        "Hosted servers allow 25 connections for each GB of memory, less 3: 97 for the article's 4 GB; for this \
         machine's {gigabytes:.0} GB it would be {}.",
        connections - 3
    )
}

fn hides() -> Vec<String> {
    [
        "Its \"150 direct\" had about 73 clients at work (258.0 TPS × 281.4 ms): the pgbench of then went on without the \
         thread whose clients were refused. Today's stops at the first refusal, so two programs of 75 stand in for it here.",
        "Its +33% is 97 connections against 73. In all four runs each connection did 3.5 transactions a second (175.3 / 50, \
         258.0 / 73, 344.2 / 97, 171.5 / 50), so 97 clients going direct should have done the same 344. They were not \
         tried; here they are.",
        "Its server was not busy: a transaction took 282 ms whether 50, 73 or 97 ran at once. Where a processor or a disk \
         is the limit, latency grows with the clients. It waited, most likely for the way between client and server; more \
         connections help in just that case.",
        "Through the pool a client waited 140 ms longer (421.7 against 281.8): that is the queue in front of 97 connections, \
         which the article does not name.",
        "It says that pooling saves the server memory and CPU, but a pool of 97 keeps as many processes busy as 97 clients do. \
         The saving comes with a pool that is smaller than the number of clients, at the size where the throughput is \
         the same: see the sizes.",
    ]
    .map(str::to_owned)
    .into()
}

fn warnings(plan: &Plan, host: Option<&str>) -> Vec<String> {
    let mut warnings = Vec::new();
    if host.is_none() && plan.scale < MANY {
        warnings.push(format!(
            "scale {} is less than {MANY} clients: they queue for the rows of the branches, pool or not",
            plan.scale
        ));
    }
    if plan.repetitions == 1 {
        warnings.push("one repetition has no spread: a small difference says nothing".to_owned());
    }
    if plan.seconds < 10 {
        warnings.push(format!("runs of {} s: the shape shows, the decimals do not", plan.seconds));
    }
    warnings
}

/// The clients in titles.
fn clients(plan: &Plan, distance: Distance) -> &'static str {
    match distance {
        Distance::Far => "far clients",
        Distance::Near if plan.own => "clients of your server",
        Distance::Near => "near clients",
    }
}

fn column(title: &str, unit: &str, better: Option<Better>) -> Column {
    Column { title: title.into(), unit: unit.into(), better }
}

/// The article's table; the published figures are beside those of the first distance.
fn loads(view: &View, distance: Distance, beside: bool) -> Table {
    let columns = vec![
        column("throughput", "TPS", Some(Better::Higher)),
        column("transactions", "", None),
        column("latency", "ms", Some(Better::Lower)),
        column("stddev", "ms", Some(Better::Lower)),
        column("errors", "", None),
    ];
    let row = |load: Load| {
        let published = if beside { published::line(load) } else { None };
        let figure = |f: fn(&RunData) -> f64, theirs: Option<f64>| {
            Cell::both(Some(view.value(distance, load, |taken| Some(f(taken)))), theirs.map(Value::number))
        };
        #[allow(clippy::cast_precision_loss)]
        let transactions = |taken: &RunData| taken.run.transactions as f64;
        let cells = vec![
            figure(|taken| taken.run.tps, published.map(|line| line.tps)),
            figure(transactions, published.map(|line| f64::from(line.transactions))),
            figure(|taken| taken.run.latency_ms, published.map(|line| line.latency_ms)),
            figure(|taken| taken.run.stddev_ms, published.map(|line| line.stddev_ms)),
            Cell::both(errors(&view.taken(distance, load)), published.map(|line| Value::text(line.errors))),
        ];
        Row { label: load.name(), cells }
    };
    let note = if beside {
        format!("The published runs took 600 s, these {} s: compare the TPS, not the transactions.", view.plan.seconds)
    } else {
        "Nothing was published for clients on the server's machine.".to_owned()
    };
    let (title, rows_are) = (format!("Throughput, {}", clients(view.plan, distance)), "run".to_owned());
    Table { title, rows_are, columns, rows: LOADS.into_iter().map(row).collect(), note }
}

/// The errors in the repetitions of a load, in a few words.
fn errors(taken: &[RunData]) -> Option<Value> {
    let of = |run: &Run| {
        if flawless(run) {
            String::new()
        } else if refused(run) {
            "stopped by a refusal".to_owned()
        } else {
            let (failed, aborted) = (run.failed, run.aborted);
            format!("{failed} transactions failed, {aborted} clients aborted: {}", words(&run.complaint))
        }
    };
    let each = taken.iter().map(|taken| match &taken.second {
        Some(second) if !flawless(second) => format!("{} the second {}", of(&taken.run), of(second)).trim().to_owned(),
        _ => of(&taken.run),
    });
    let all: Vec<_> = each.collect();
    let worst = all.iter().find(|text| !text.is_empty()).or(all.first())?;
    Some(if worst.is_empty() { Value::text("none") } else { Value::text(worst.clone()) })
}

/// A column of the costs: title, unit, better, and its figure.
type Cost = (&'static str, &'static str, Option<Better>, fn(&RunData) -> Option<f64>);

/// For a server whose processes can be observed.
const WATCHED: [Cost; 4] = [
    ("server: CPU", "% of a core", None, |taken| taken.samples.server.mean_cpu()),
    ("CPU each", "ms", Some(Better::Lower), server_ms_each),
    ("memory", "MB", Some(Better::Lower), server_mb),
    ("processes", "", Some(Better::Lower), |taken| taken.samples.server.peak_processes()),
];

/// For a server that can only be queried.
const ASKED: [Cost; 2] = [
    ("server: connections", "", Some(Better::Lower), |taken| {
        taken.samples.connections.iter().map(|(_, all, _)| *all).reduce(f64::max)
    }),
    ("at work", "", None, |taken| taken.samples.connections.iter().map(|(_, _, busy)| *busy).reduce(f64::max)),
];

const BESIDE: [Cost; 3] = [
    ("Weir: CPU each", "ms", Some(Better::Lower), pooler_ms_each),
    ("memory", "MB", Some(Better::Lower), |taken| taken.samples.pooler.peak_memory().map(|bytes| bytes / MB)),
    ("client: CPU", "% of a core", None, |taken| taken.samples.client.mean_cpu()),
];

/// The resources of the server, the pooler and the client.
fn costs(view: &View, distance: Distance) -> Table {
    let server: &[Cost] = if view.plan.own { &ASKED } else { &WATCHED };
    let costs: Vec<Cost> = server.iter().chain(&BESIDE).copied().collect();
    let at_work = LOADS.into_iter().filter(|load| view.taken(distance, *load).iter().any(worked));
    let row = |load: Load| {
        let cells = costs.iter().map(|(_, _, _, figure)| Cell::ours(view.value(distance, load, figure)));
        Row { label: load.name(), cells: cells.collect() }
    };
    Table {
        title: format!("What it cost, {}", clients(view.plan, distance)),
        rows_are: "run".to_owned(),
        columns: costs.iter().map(|(title, unit, better, _)| column(title, unit, *better)).collect(),
        rows: at_work.map(row).collect(),
        note: if view.plan.own {
            "The most connections to the database that were seen. It was not measured where all of them are meant for clients."
                .to_owned()
        } else {
            "CPU each is for a transaction, while the clients ran. Memory counts shared pages once, and page tables, \
             too; memory and processes are the most that were seen."
                .to_owned()
        },
    }
}

fn server_ms_each(taken: &RunData) -> Option<f64> {
    ms_each(taken, &taken.samples.server)
}

fn pooler_ms_each(taken: &RunData) -> Option<f64> {
    ms_each(taken, &taken.samples.pooler)
}

/// CPU time of a transaction while the clients were at work: connections were opened before, and closed after.
fn ms_each(taken: &RunData, usage: &Usage) -> Option<f64> {
    let seconds = f64::from(taken.seconds);
    let percent = usage.steady_cpu((seconds * 0.25).min(3.0), seconds)?;
    (taken.run.tps > 0.0).then(|| percent * 10.0 / taken.run.tps)
}

fn server_mb(taken: &RunData) -> Option<f64> {
    taken.samples.server.peak_memory().map(|bytes| bytes / MB)
}

/// 150 clients through pools of many sizes.
fn sizes(view: &View) -> Table {
    let distances = view.plan.distances();
    let columns = distances.iter().flat_map(|distance| {
        let name = clients(view.plan, *distance);
        [
            column(&format!("{name}: throughput"), "TPS", Some(Better::Higher)),
            column(&format!("{name}: latency"), "ms", Some(Better::Lower)),
            column(&format!("{name}: server's memory"), "MB", Some(Better::Lower)),
        ]
    });
    let mut all = view.plan.sizes(Distance::Near);
    all.push(USABLE);
    let row = |size: u32| {
        let cells = distances.iter().flat_map(|distance| {
            let taken = view.sized(*distance, size);
            let cell = |f: &dyn Fn(&RunData) -> Option<f64>| Cell::both(Value::median(&figures(&taken, f)), None);
            let of_run = |f: fn(&Run) -> f64| cell(&move |taken: &RunData| Some(f(&taken.run)));
            [of_run(|run| run.tps), of_run(|run| run.latency_ms), cell(&server_mb)]
        });
        Row { label: size.to_string(), cells: cells.collect() }
    };
    Table {
        title: format!("{MANY} clients through pools of other sizes"),
        rows_are: "pool size".to_owned(),
        columns: columns.collect(),
        rows: all.into_iter().map(row).collect(),
        note: format!(
            "{} s each, once; {USABLE} is from the runs above. Sizes below 10 are not tried with far clients.",
            view.plan.sweep_seconds
        ),
    }
}

fn bursts(view: &View) -> Table {
    let columns = vec![
        column("served", "", Some(Better::Higher)),
        column("refused", "", Some(Better::Lower)),
        column("lost", "", Some(Better::Lower)),
        column("median", "ms", None),
        column("slowest", "ms", None),
    ];
    let row = |(label, route): (&str, Route)| {
        let burst = view.burst(route);
        let count = |f: fn(&super::burst::Burst) -> f64| Cell::both(burst.as_ref().map(|b| Value::number(f(b))), None);
        let cells = vec![
            count(|burst| f64::from(burst.served)),
            count(|burst| f64::from(burst.refused)),
            count(|burst| f64::from(burst.lost)),
            count(|burst| burst.median_ms),
            count(|burst| burst.slowest_ms),
        ];
        Row { label: label.to_owned(), cells }
    };
    Table {
        title: format!("A burst: {BURST} connections opened at once"),
        rows_are: "route".to_owned(),
        columns,
        rows: [("direct", Route::Direct), ("pool", Route::Pool)].map(row).into(),
        note: "Each connection runs select pg_sleep(0.2) once. Times are from the start of the burst to the \
               result, of successful connections."
            .to_owned(),
    }
}

/// `15,000,000`.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests;
