//! The charts: throughput beside the published figures, its cost, the same over time, and the sizes.

use crate::model::{Axis, Chart, ChartKind, Origin, Scale, Series};

use super::super::plan::{Distance, LOADS, Load, MANY, Route, USABLE};
use super::super::published;
use super::super::stage::RunData;
use super::view::View;
use super::{MB, clients, figures, pooler_ms_each, server_mb, server_ms_each};

/// The loads that are drawn over time: as many direct clients as fit, and all through the pool.
const RIVALS: [Load; 2] = [Load { route: Route::Direct, clients: USABLE }, Load { route: Route::Pool, clients: MANY }];

pub(super) fn charts(view: &View) -> Vec<Chart> {
    let distances = view.plan.distances();
    let mut charts = Vec::new();
    for (at, distance) in distances.iter().enumerate() {
        charts.push(throughput(view, *distance, at == 0));
    }
    charts.push(sweep(view, Distance::Near));
    if distances.contains(&Distance::Far) {
        charts.push(sweep(view, Distance::Far));
    }
    for distance in distances {
        charts.push(over_time(view, distance, "Throughput", "TPS", |taken| {
            taken.run.progress.iter().map(|(at, tps, _)| (*at, *tps)).collect()
        }));
        charts.push(over_time(view, distance, "The server's CPU", "% of a core", |taken| {
            taken.samples.server.cpu.clone()
        }));
    }
    charts.push(cost_each(view));
    charts.push(over_time(view, Distance::Near, "The server's memory", "MB", |taken| {
        taken.samples.server.memory.iter().map(|(at, bytes)| (*at, bytes / MB)).collect()
    }));
    charts.push(memory(view));
    charts.push(processes(view));
    charts.retain(|chart| chart.series.iter().any(|series| !series.points.is_empty()));
    charts
}

fn axis(title: &str, unit: &str) -> Axis {
    Axis { title: title.into(), unit: unit.into(), scale: Scale::Linear }
}

fn measured(name: impl Into<String>, points: Vec<(f64, f64)>) -> Series {
    Series { name: name.into(), origin: Origin::Measured, points }
}

#[allow(clippy::cast_precision_loss)]
fn place(at: usize) -> f64 {
    at as f64
}

/// A bar for each load that has the figure.
fn bars(view: &View, distance: Distance, f: impl Fn(&RunData) -> Option<f64>) -> Vec<(f64, f64)> {
    let spread = |load: Load| view.spread(distance, load, &f);
    let points = LOADS.into_iter().enumerate().filter_map(|(at, load)| Some((place(at), spread(load)?.median)));
    points.collect()
}

fn bar_chart(title: String, unit: &str, y: &str, series: Vec<Series>, note: &str) -> Chart {
    Chart {
        title,
        kind: ChartKind::Bars,
        x: axis("", ""),
        y: axis(y, unit),
        groups: LOADS.map(Load::name).into(),
        series,
        note: note.to_owned(),
    }
}

fn throughput(view: &View, distance: Distance, beside: bool) -> Chart {
    let mut series = vec![measured("measured here", bars(view, distance, |taken| Some(taken.run.tps)))];
    if beside {
        let line = |(at, load): (usize, Load)| Some((place(at), published::line(load)?.tps));
        let points = LOADS.into_iter().enumerate().filter_map(line).collect();
        series.push(Series { name: "published".into(), origin: Origin::Published, points });
    }
    let note = "150 direct clients have no bar: they are refused, and pgbench stops. Of 2 × 75 the first program's work \
                is shown.";
    bar_chart(format!("Throughput, {}", clients(view.plan, distance)), "TPS", "throughput", series, note)
}

fn sweep(view: &View, distance: Distance) -> Chart {
    let mut sizes = view.plan.sizes(distance);
    sizes.push(USABLE);
    let point = |size: u32| {
        let tps = figures(&view.sized(distance, size), |taken| Some(taken.run.tps));
        Some((f64::from(size), crate::load::spread::Spread::of(&tps)?.median))
    };
    let points = sizes.into_iter().filter_map(point).collect();
    Chart {
        title: format!("Throughput against the pool's size, {MANY} {}", clients(view.plan, distance)),
        kind: ChartKind::Lines,
        x: Axis { scale: Scale::Log, ..axis("pool size", "connections") },
        y: axis("throughput", "TPS"),
        groups: Vec::new(),
        series: vec![measured(format!("{MANY} clients through Weir"), points)],
        note: String::new(),
    }
}

fn over_time(
    view: &View,
    distance: Distance,
    what: &str,
    unit: &str,
    f: impl Fn(&RunData) -> Vec<(f64, f64)>,
) -> Chart {
    // A chart calls the pool by its program, which has one colour in all charts.
    let name = |load: Load| load.name().replace("pool,", "Weir,");
    let line = |load: Load| Some(measured(name(load), f(&view.first(distance, load)?)));
    Chart {
        title: format!("{what} over time, {}", clients(view.plan, distance)),
        kind: ChartKind::Lines,
        x: axis("time", "s"),
        y: axis(what, unit),
        groups: Vec::new(),
        series: RIVALS.into_iter().filter_map(line).collect(),
        note: "The first repetition.".to_owned(),
    }
}

fn cost_each(view: &View) -> Chart {
    let server = measured("PostgreSQL", bars(view, Distance::Near, server_ms_each));
    let pooler = measured("Weir", bars(view, Distance::Near, pooler_ms_each));
    bar_chart(
        format!("CPU for each transaction, {}", clients(view.plan, Distance::Near)),
        "ms",
        "CPU time",
        vec![server, pooler],
        "",
    )
}

fn memory(view: &View) -> Chart {
    let server = measured("PostgreSQL", bars(view, Distance::Near, server_mb));
    let pooler = bars(view, Distance::Near, |taken| taken.samples.pooler.peak_memory().map(|bytes| bytes / MB));
    let series = vec![server, measured("Weir", pooler)];
    bar_chart(
        format!("Memory, {}", clients(view.plan, Distance::Near)),
        "MB",
        "memory",
        series,
        "Shared memory counts once; page tables count too.",
    )
}

fn processes(view: &View) -> Chart {
    let server = bars(view, Distance::Near, |taken| taken.samples.server.peak_processes());
    let series = vec![measured("PostgreSQL", server)];
    bar_chart(format!("The server's processes, {}", clients(view.plan, Distance::Near)), "", "processes", series, "")
}
