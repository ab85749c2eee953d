//! The tables of `products`: our figures beside the published ones.

use super::View;
use crate::experiments::products::plan::{BURSTS, LOADS, Tls, Way, What};
use crate::experiments::products::published::{self, Line};
use crate::experiments::products::stage::Run;
use crate::model::{Better, Cell, Column, Row, Table, Value};

/// All, in the order of the articles.
pub(super) fn all(view: &View<'_>) -> Vec<Table> {
    let loads = LOADS.map(|connections| load(view, connections));
    [vec![bursts(view)], loads.into(), vec![tool(view), tls(view), sweep(view)]].concat()
}

/// A figure of a table: its column, its value in a run, and its value in a published line.
struct Figure {
    title: &'static str,
    unit: &'static str,
    better: Option<Better>,
    ours: fn(&Run) -> f64,
    published: Option<fn(&Line) -> f64>,
}

const LOAD: [Figure; 8] = [
    figure("served", "1/s", Some(Better::Higher), |run| run.load.rate(), Some(|line| line.wall_rate())),
    figure("errors", "", Some(Better::Lower), |run| run.load.errors as f64, Some(|line| line.errors)),
    figure("average", "ms", Some(Better::Lower), |run| run.load.average_ms, Some(|line| line.average_ms)),
    figure("p50", "ms", Some(Better::Lower), |run| run.load.p50_ms, None),
    figure("p99", "ms", Some(Better::Lower), |run| run.load.p99_ms, None),
    figure("fastest", "ms", None, |run| run.load.fastest_ms, Some(|line| line.fastest_ms)),
    figure("slowest", "ms", None, |run| run.load.slowest_ms, Some(|line| line.slowest_ms)),
    figure("at server", "", Some(Better::Lower), |run| run.connections as f64, None),
];

const fn figure(
    title: &'static str,
    unit: &'static str,
    better: Option<Better>,
    ours: fn(&Run) -> f64,
    published: Option<fn(&Line) -> f64>,
) -> Figure {
    Figure { title, unit, better, ours, published }
}

fn column(title: &str, unit: &str, better: Option<Better>) -> Column {
    Column { title: title.into(), unit: unit.into(), better }
}

fn bursts(view: &View<'_>) -> Table {
    let row = |connections: usize, way: Way| {
        let what = What::Burst { way, connections };
        // The article's browser: six connections.
        let as_published = connections == BURSTS[0];
        let failed = match way {
            Way::New => Some(Value::text("from before 100 on")),
            Way::Normal | Way::Pooled => Some(Value::number(0.0)),
            Way::Weir => None,
        };
        let average = published::browser_us(way).map(|us| Value::number(us / 1e3));
        let ours = |figure: fn(&Run) -> f64| Some(view.value(what, figure));
        let cells = vec![
            Cell::both(ours(|run| run.load.served as f64), None),
            Cell::both(ours(|run| run.load.errors as f64), failed.filter(|_| as_published)),
            Cell::both(ours(|run| run.load.server_ms), average.filter(|_| as_published)),
            Cell::both(ours(|run| run.load.average_ms), None),
            Cell::both(ours(|run| run.load.slowest_ms), None),
            Cell::both(ours(|run| run.load.wall * 1e3), None),
            Cell::both(ours(|run| run.connections as f64), None),
        ];
        Row { label: format!("{}, {connections} connections", way.name()), cells }
    };
    Table {
        title: "200 requests at once".into(),
        rows_are: "endpoint".into(),
        columns: vec![
            column("served", "", Some(Better::Higher)),
            column("errors", "", Some(Better::Lower)),
            column("average, app's own", "ms", Some(Better::Lower)),
            column("average", "ms", Some(Better::Lower)),
            column("slowest", "ms", Some(Better::Lower)),
            column("all after", "ms", Some(Better::Lower)),
            column("at server", "", Some(Better::Lower)),
        ],
        rows: BURSTS.into_iter().flat_map(|n| Way::ALL.map(|way| row(n, way))).collect(),
        note: "The app's own average is measured in the app, as in the article: without the time of the reply. \
               At server: the most connections that the server had, counted ten times per second; connections that it \
               refuses count, too."
            .into(),
    }
}

fn load(view: &View<'_>, connections: usize) -> Table {
    let row = |way: Way| {
        let what = What::Load { way, connections, tls: Tls::Off };
        let line = published::line(way, connections);
        let cell = |figure: &Figure| {
            let published = figure.published.and_then(|of| line.as_ref().map(of)).map(Value::number);
            Cell::both(Some(view.value(what, figure.ours)), published)
        };
        Row { label: way.name().into(), cells: LOAD.iter().map(cell).collect() }
    };
    Table {
        title: format!("A load of {connections} at once"),
        rows_are: "endpoint".into(),
        columns: LOAD.iter().map(|figure| column(figure.title, figure.unit, figure.better)).collect(),
        rows: Way::ALL.map(row).into(),
        note: format!(
            "Served: successes per second of wall-clock time; published: its requests in its 10 s. Errors are of {} s \
             here. Times are of successful requests.",
            view.plan.duration().as_secs_f64()
        ),
    }
}

fn tool(view: &View<'_>) -> Table {
    let row = |connections: usize, way: Way| {
        let what = What::Load { way, connections, tls: Tls::Off };
        let line = published::line(way, connections);
        let published = |of: fn(&Line) -> f64| line.as_ref().map(of).map(Value::number);
        let ours = |figure: fn(&Run) -> f64| Some(view.value(what, figure));
        let cells = vec![
            Cell::both(ours(|run| run.load.served as f64), published(|line| line.served)),
            Cell::both(ours(|run| run.load.tool_rate()), published(|line| line.rate)),
            Cell::both(ours(|run| run.load.rate()), published(Line::wall_rate)),
            Cell::both(ours(|run| run.load.tool_megabytes()), published(|line| line.megabytes)),
            Cell::both(ours(|run| run.load.megabytes()), None),
        ];
        Row { label: format!("{} at {connections}", way.name()), cells }
    };
    Table {
        title: "As the articles' tool counts".into(),
        rows_are: "endpoint, at once".into(),
        columns: vec![
            column("done", "", None),
            column("requests, the tool's", "1/s", None),
            column("served, by the clock", "1/s", Some(Better::Higher)),
            column("transfer, the tool's", "MB/s", None),
            column("transfer, by the clock", "MB/s", Some(Better::Higher)),
        ],
        rows: LOADS.into_iter().flat_map(|n| Way::ALL.map(|way| row(n, way))).collect(),
        note: format!(
            "The tool divides by the time spent in successful requests: where requests fail its figure is meaningless. \
             Its MB have 2^20 bytes. Done: requests in {} s here, in 10 s there.",
            view.plan.duration().as_secs_f64()
        ),
    }
}

fn tls(view: &View<'_>) -> Table {
    let cells = |way: Way, connections: usize| {
        let [plain, encrypted] = [Tls::Off, Tls::On].map(|tls| What::Load { way, connections, tls });
        let rate = |run: &Run| run.load.rate();
        let errors = |run: &Run| run.load.errors as f64;
        if way == Way::Weir {
            return [view.value(plain, rate), not_run(), not_run(), not_run()].map(Cell::ours);
        }
        let change = match (view.number(plain, rate), view.number(encrypted, rate)) {
            (Some(plain), Some(encrypted)) if plain > 0.0 => Value::change((encrypted / plain - 1.0) * 100.0),
            _ => Value::text("–"),
        };
        [view.value(plain, rate), view.value(encrypted, rate), change, view.value(encrypted, errors)].map(Cell::ours)
    };
    let row = |way: Way| Row { label: way.name().into(), cells: LOADS.map(|n| cells(way, n)).concat() };
    let columns = |connections: usize| {
        [
            column(&format!("{connections}: no TLS"), "1/s", Some(Better::Higher)),
            column(&format!("{connections}: TLS"), "1/s", Some(Better::Higher)),
            column(&format!("{connections}: change"), "%", Some(Better::Higher)),
            column(&format!("{connections}: errors, TLS"), "", Some(Better::Lower)),
        ]
    };
    Table {
        title: "Served with TLS to the server".into(),
        rows_are: "endpoint".into(),
        columns: LOADS.map(columns).concat(),
        rows: Way::ALL.map(row).into(),
        note: "Weir is not run with TLS here. `new` serves no more than the server's limit either way, so its change \
               is meaningless."
            .into(),
    }
}

fn not_run() -> Value {
    Value::text("not run")
}

fn sweep(view: &View<'_>) -> Table {
    let loads = swept(view);
    let cells = |size: u32, connections: usize| {
        let what = What::Sweep { size, connections };
        let ours = |figure: fn(&Run) -> f64| Cell::ours(view.value(what, figure));
        [ours(|run| run.load.rate()), ours(|run| run.load.p99_ms), ours(|run| run.load.errors as f64)]
    };
    let row = |&size: &u32| {
        let cores = if size == view.plan.cores { " (the cores)" } else { "" };
        Row { label: format!("{size}{cores}"), cells: loads.iter().flat_map(|&n| cells(size, n)).collect() }
    };
    let columns = |&connections: &usize| {
        [
            column(&format!("{connections}: served"), "1/s", Some(Better::Higher)),
            column(&format!("{connections}: p99"), "ms", Some(Better::Lower)),
            column(&format!("{connections}: errors"), "", Some(Better::Lower)),
        ]
    };
    Table {
        title: "The size of the app's pool".into(),
        rows_are: "connections in the pool".into(),
        columns: loads.iter().flat_map(columns).collect(),
        rows: view.plan.sizes.iter().map(row).collect(),
        note: "The articles' machine had 4 cores, and its pool of 4 did about as well as that of 90.".into(),
    }
}

/// The loads of the sweep: a smoke run leaves one out.
pub(super) fn swept(view: &View<'_>) -> Vec<usize> {
    let whats = view.plan.whats();
    let has =
        |&n: &usize| whats.iter().any(|what| matches!(what, What::Sweep { connections, .. } if *connections == n));
    LOADS.into_iter().filter(has).collect()
}
