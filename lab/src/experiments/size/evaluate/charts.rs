//! The charts: throughput with Little's law over it, and latency, for each workload.

use super::super::plan::CLIENTS;
use super::super::stage::RunData;
use super::Sized;
use crate::model::{Axis, Chart, ChartKind, Origin, Scale, Series};

pub(super) fn charts(all: &[Sized]) -> Vec<Chart> {
    let mut charts: Vec<Chart> = all.iter().flat_map(|sized| [throughput(sized), latency(sized)]).collect();
    charts.retain(|chart| chart.series.iter().any(|series| !series.points.is_empty()));
    charts
}

fn axis(title: &str, unit: &str, scale: Scale) -> Axis {
    Axis { title: title.into(), unit: unit.into(), scale }
}

fn throughput(sized: &Sized) -> Chart {
    let measured = sized.throughput().into_iter().map(|(size, tps)| (f64::from(size), tps.median)).collect();
    let sizes = sized.points.iter().map(|(size, _)| *size);
    let law = sizes.filter_map(|size| Some((f64::from(size), sized.predicted(size)?))).collect();
    let (held, ceiling) = (sized.held(), sized.ceiling());
    let note = held.zip(ceiling).map_or_else(String::new, |(held, ceiling)| {
        let needed = sized.needed().unwrap_or_default();
        format!(
            "A transaction holds its connection for {:.2} ms; the cores allow {ceiling:.0} TPS, for which {needed:.1} \
             connections are needed.",
            held * 1000.0
        )
    });
    Chart {
        title: format!("{}: throughput against the pool's size, {CLIENTS} clients", sized.workload.name()),
        kind: ChartKind::Lines,
        x: axis("pool size", "connections", Scale::Log),
        y: axis("throughput", "TPS", Scale::Linear),
        groups: Vec::new(),
        series: vec![
            Series { name: "measured".into(), origin: Origin::Measured, points: measured },
            Series { name: "Little's law".into(), origin: Origin::Calculated, points: law },
        ],
        note,
    }
}

fn latency(sized: &Sized) -> Chart {
    let series = |name: &str, f: fn(&RunData) -> f64| {
        let point =
            |(size, _): &(u32, Vec<RunData>)| Some((f64::from(*size), sized.at(*size, |taken| Some(f(taken)))?.median));
        let points = sized.points.iter().filter_map(point).collect();
        Series { name: name.into(), origin: Origin::Measured, points }
    };
    Chart {
        title: format!("{}: latency against the pool's size, {CLIENTS} clients", sized.workload.name()),
        kind: ChartKind::Lines,
        x: axis("pool size", "connections", Scale::Log),
        y: axis("latency", "ms", Scale::Log),
        groups: Vec::new(),
        series: vec![
            series("p50", |taken| taken.p50_ms),
            series("p95", |taken| taken.p95_ms),
            series("p99", |taken| taken.p99_ms),
        ],
        note: "With the wait in the pool's queue.".to_owned(),
    }
}
