//! The charts of `products`, one beside each table.

use super::{View, tables};
use crate::experiments::products::plan::{BURSTS, LOADS, Tls, Way, What};
use crate::experiments::products::published;
use crate::experiments::products::stage::Run;
use crate::model::{Axis, Chart, ChartKind, Origin, Scale, Series};

pub(super) fn all(view: &View<'_>) -> Vec<Chart> {
    vec![
        bursts(view),
        served(view),
        failed(view),
        tls(view),
        sweep(view, "Throughput by the size of the app's pool", "served", "1/s", |run| run.load.rate()),
        sweep(view, "The slowest hundredth by the size of the app's pool", "p99", "ms", |run| run.load.p99_ms),
    ]
}

/// Bars: a group for each endpoint.
fn bars(title: &str, y: (&str, &str), series: Vec<Series>, note: &str) -> Chart {
    Chart {
        title: title.into(),
        kind: ChartKind::Bars,
        x: axis("endpoint", "", Scale::Linear),
        y: axis(y.0, y.1, Scale::Linear),
        groups: Way::ALL.map(|way| way.name().to_owned()).into(),
        series: series.into_iter().filter(|series| !series.points.is_empty()).collect(),
        note: note.into(),
    }
}

fn axis(title: &str, unit: &str, scale: Scale) -> Axis {
    Axis { title: title.into(), unit: unit.into(), scale }
}

/// A figure of each endpoint; those without one are left out.
fn by_way(name: String, origin: Origin, of: impl Fn(Way) -> Option<f64>) -> Series {
    let points =
        Way::ALL.into_iter().enumerate().filter_map(|(n, way)| Some((f64::from(u8::try_from(n).ok()?), of(way)?)));
    Series { name, origin, points: points.collect() }
}

fn bursts(view: &View<'_>) -> Chart {
    let ours = |connections: usize| {
        let name = format!("on {connections} connections");
        by_way(name, Origin::Measured, |way| view.number(What::Burst { way, connections }, |run| run.load.server_ms))
    };
    let published =
        by_way("published, browser".into(), Origin::Published, |way| Some(published::browser_us(way)? / 1e3));
    let series = BURSTS.into_iter().map(ours).chain([published]).collect();
    bars("200 requests at once: the app's own time for one", ("average", "ms"), series, "Of successful requests only.")
}

fn served(view: &View<'_>) -> Chart {
    let ours = |connections: usize| {
        let name = format!("{connections} at once");
        let what = |way| What::Load { way, connections, tls: Tls::Off };
        by_way(name, Origin::Measured, |way| view.number(what(way), |run| run.load.rate()))
    };
    let published = |connections: usize| {
        let name = format!("{connections} at once, published");
        by_way(name, Origin::Published, |way| Some(published::line(way, connections)?.wall_rate()))
    };
    let series = LOADS.into_iter().flat_map(|n| [ours(n), published(n)]).collect();
    bars("Served per second of wall-clock time", ("served", "1/s"), series, "Published: its requests by its 10 s.")
}

fn failed(view: &View<'_>) -> Chart {
    let share = |served: f64, errors: f64| if errors > 0.0 { errors / (served + errors) * 100.0 } else { 0.0 };
    let ours = |connections: usize| {
        let what = |way| What::Load { way, connections, tls: Tls::Off };
        let of = |run: &Run| share(run.load.served as f64, run.load.errors as f64);
        by_way(format!("{connections} at once"), Origin::Measured, |way| view.number(what(way), of))
    };
    let published = |connections: usize| {
        let of = |way| published::line(way, connections).map(|line| share(line.served, line.errors));
        by_way(format!("{connections} at once, published"), Origin::Published, of)
    };
    let series = LOADS.into_iter().flat_map(|n| [ours(n), published(n)]).collect();
    bars("Requests that failed", ("failed", "%"), series, "")
}

fn tls(view: &View<'_>) -> Chart {
    let series = |connections: usize, tls: Tls| {
        let name = match tls {
            Tls::Off => format!("{connections} at once, no TLS"),
            Tls::On => format!("{connections} at once, TLS"),
        };
        let of = |way| match (way, tls) {
            (Way::Weir, Tls::On) => None,
            _ => view.number(What::Load { way, connections, tls }, |run| run.load.rate()),
        };
        by_way(name, Origin::Measured, of)
    };
    let all = LOADS.into_iter().flat_map(|n| [series(n, Tls::Off), series(n, Tls::On)]).collect();
    bars("Served with and without TLS to the server", ("served", "1/s"), all, "")
}

fn sweep(view: &View<'_>, title: &str, name: &str, unit: &str, figure: fn(&Run) -> f64) -> Chart {
    let series = |connections: usize| {
        let point = |&size: &u32| Some((f64::from(size), view.number(What::Sweep { size, connections }, figure)?));
        let points = view.plan.sizes.iter().filter_map(point).collect();
        Series { name: format!("{connections} at once"), origin: Origin::Measured, points }
    };
    Chart {
        title: title.into(),
        kind: ChartKind::Lines,
        x: axis("connections in the pool", "", Scale::Log),
        y: axis(name, unit, Scale::Linear),
        groups: Vec::new(),
        series: tables::swept(view).into_iter().map(series).filter(|series| !series.points.is_empty()).collect(),
        note: String::new(),
    }
}
