//! Points joined by lines.

use maud::{Markup, html};
use plotters::prelude::*;

use super::axis::Extent;
use super::{AXIS, Drawing, Frame, GRID, Look, WORDS, inside, named, px, quantity};
use crate::model::{Chart, Origin, Series};
use crate::report::{figures, words};

/// Above this many points, only some have marks; above more, there are no tooltips either.
const MARKED: usize = 40;
const SOME: usize = 9;
const MOST_LABELS: usize = 400;
/// Up to this many varied values have a tick each, if there is room.
const EACH: usize = 12;
/// Room above for the title of y, below for ticks and the title of x, and to the right for half a tick's label.
const ABOVE: u32 = 30;
const TICKS: u32 = 24;
const BELOW: u32 = 20;
const RIGHT: u32 = 18;

/// Draws a prepared chart.
pub(super) fn draw(chart: &Chart, looks: &[Look], frame: Frame) -> Drawing {
    let points = || chart.series.iter().flat_map(|series| series.points.iter().copied());
    let (height, y_ticks, x_ticks) = match frame {
        Frame::Wide => (340, 6, 9),
        Frame::Narrow => (280, 5, 5),
    };
    let y = Extent::of_figures(chart.y.scale, points().map(|(_, y)| y), y_ticks);
    let gutter = y.ticks().iter().map(|tick| frame.text_width(&figures::tick(*tick))).fold(0.0, f64::max) + 12.0;
    let length = f64::from(frame.width() - RIGHT) - gutter;
    let x = inputs(chart, x_ticks, |tick| (frame.text_width(&figures::tick(tick)) + 10.0) / length);

    let mut axes = String::new();
    let area = axes_of(&mut axes, (frame, height, gutter), &x, &y);
    let at = |(px, py): (f64, f64)| (area.x(x.share(px)), area.y(y.share(py)));
    let (title_y, title_x) =
        (words::with_unit(&chart.y.title, &chart.y.unit), words::with_unit(&chart.x.title, &chart.x.unit));
    let marks = html! {
        text class="axis-title" x="2" y="14" { (title_y) }
        text class="axis-title end" x=(px(area.right)) y=(height - 5) { (title_x) }
        @for last in [false, true] {
            @for (series, look) in chart.series.iter().zip(looks) {
                @if (look.origin == Origin::Calculated) == last { (line(series, *look, &at)) }
            }
        }
        @for (series, look) in chart.series.iter().zip(looks) { (marks(chart, series, *look, &at)) }
    };
    Drawing { height, axes: inside(&axes), marks }
}

/// The sample of a legend.
pub(super) fn key(look: Look) -> Markup {
    html! {
        path class=(look.class("line")) d="M1 7H29" {}
        @if look.origin != Origin::Calculated { path class=(look.class("mark")) d=(shape(look.hue, (15.0, 7.0))) {} }
    }
}

/// The axis of the varied quantity, with a tick for each value if these are few.
fn inputs(chart: &Chart, ticks: usize, apart: impl Fn(f64) -> f64) -> Extent {
    let mut values: Vec<_> = chart.series.iter().flat_map(|series| series.points.iter().map(|point| point.0)).collect();
    let extent = Extent::of_inputs(chart.x.scale, values.iter().copied(), ticks);
    values.sort_by(f64::total_cmp);
    values.dedup();
    if values.len() <= EACH { extent.with_ticks(&values, apart) } else { extent.thinned(apart) }
}

/// The plot's area within the drawing.
struct Area {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Area {
    fn x(&self, share: f64) -> f64 {
        self.left + (self.right - self.left) * share
    }

    fn y(&self, share: f64) -> f64 {
        self.bottom - (self.bottom - self.top) * share
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn axes_of(out: &mut String, (frame, height, gutter): (Frame, u32, f64), x: &Extent, y: &Extent) -> Area {
    let root = SVGBackend::with_string(out, (frame.width(), height)).into_drawing_area();
    let mut builder = ChartBuilder::on(&root);
    builder.margin_top(ABOVE).margin_right(RIGHT).margin_bottom(BELOW);
    builder.x_label_area_size(TICKS).y_label_area_size(gutter as u32);
    let mut plot = builder.build_cartesian_2d(x.clone(), y.clone()).expect("a string takes any drawing");
    let style = ("sans-serif", frame.text()).into_font().color(&WORDS);
    let mut mesh = plot.configure_mesh();
    mesh.axis_style(AXIS).bold_line_style(GRID).light_line_style(TRANSPARENT).label_style(style);
    mesh.set_all_tick_mark_size(3).draw().expect("a string takes any drawing");
    let (across, down) = plot.plotting_area().get_pixel_range();
    root.present().expect("a string takes any drawing");
    Area {
        left: f64::from(across.start),
        right: f64::from(across.end),
        top: f64::from(down.start),
        bottom: f64::from(down.end),
    }
}

fn line(series: &Series, look: Look, at: &dyn Fn((f64, f64)) -> (f64, f64)) -> Markup {
    let mut points = series.points.clone();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut path = String::new();
    for (i, point) in points.into_iter().enumerate() {
        let (x, y) = at(point);
        path.push(if i == 0 { 'M' } else { 'L' });
        path.push_str(&format!("{} {}", px(x), px(y)));
    }
    html! { @if series.points.len() > 1 { path class=(look.class("line")) d=(path) {} } }
}

fn marks(chart: &Chart, series: &Series, look: Look, at: &dyn Fn((f64, f64)) -> (f64, f64)) -> Markup {
    // Marks of lines that run side by side are beside each other.
    let every = if series.points.len() <= MARKED { 1 } else { series.points.len() / SOME };
    let marked = |i: usize| look.origin != Origin::Calculated && i % every == look.hue % every;
    let part = |i| if marked(i) { "mark" } else { "spot" };
    let labelled = if series.points.len() <= MOST_LABELS { series.points.as_slice() } else { &[] };
    html! {
        @for (i, &(x, y)) in labelled.iter().enumerate() {
            path class=(look.class(part(i))) d=(shape(look.hue, at((x, y)))) {
                title {
                    (named(series)) ": " (quantity(y, &chart.y.unit)) " at " (words::with_unit(&chart.x.title, ""))
                    " " (quantity(x, &chart.x.unit))
                }
            }
        }
    }
}

/// The outline of a mark: each series has its own shape.
fn shape(hue: usize, (x, y): (f64, f64)) -> String {
    let from = format!("M{} {}", px(x), px(y));
    let rest = match hue % super::SHAPES {
        0 => "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
        1 => "m-3.6 -3.6h7.2v7.2h-7.2z",
        2 => "m0 -4.8l4.6 8h-9.2z",
        3 => "m0 -5l5 5l-5 5l-5 -5z",
        4 => "m0 4.8l4.6 -8h-9.2z",
        _ => "m-1.6 -4.6h3.2v3h3v3.2h-3v3h-3.2v-3h-3v-3.2h3z",
    };
    format!("{from}{rest}")
}
