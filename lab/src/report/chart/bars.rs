//! Bars side by side, a group for each name. They are horizontal, so that names and figures have room on any page.

use maud::{Markup, html};
use plotters::prelude::*;

use super::axis::Extent;
use super::{AXIS, Drawing, Frame, GRID, Look, SHAPES, WORDS, inside, named, px, quantity};
use crate::model::{Chart, Origin};
use crate::report::{figures, words};

/// A bar's thickness, the gap to the next, and the gap between groups.
const BAR: f64 = 16.0;
const GAP: f64 = 3.0;
const APART: f64 = 16.0;
/// The line of a group's name above its bars.
const NAME: f64 = 19.0;
/// Room below for ticks and the axis' title.
const TICKS: u32 = 24;
const BELOW: u32 = 20;
/// The largest share of the width for a column of names; longer names are above their bars.
const NAMES: f64 = 0.26;
/// The radius of a bar's rounded end.
const ROUND: f64 = 2.0;

/// One bar.
struct Bar<'a> {
    series: usize,
    /// The bar's value; `None` if it was not measured.
    value: Option<f64>,
    figure: String,
    name: &'a str,
}

/// The positions of the groups' names.
#[derive(Clone, Copy, PartialEq)]
enum Names {
    Left(f64),
    Above,
}

/// Draws a prepared chart.
pub(super) fn draw(chart: &Chart, looks: &[Look], frame: Frame) -> Drawing {
    let groups = groups(chart);
    let values = chart.series.iter().flat_map(|series| series.points.iter().map(|point| point.1));
    let value = Extent::of_figures(chart.y.scale, values, if frame == Frame::Wide { 7 } else { 4 });
    let names: Vec<_> = chart.series.iter().map(named).collect();
    let groups: Vec<_> = groups.iter().map(|(x, group)| (group, bars(chart, &names, *x, frame))).collect();

    let names = place(groups.iter().map(|group| group.0.as_str()), frame);
    let left = if let Names::Left(width) = names { width } else { 6.0 };
    let right = margin(groups.iter().flat_map(|group| &group.1), &value, frame, f64::from(frame.width()) - left);
    let rows: f64 = groups.iter().map(|(_, bars)| height(bars.len(), names)).sum();
    let caption = if chart.x.title.is_empty() { 4.0 } else { 24.0 };
    let (top, plot) = (caption, rows);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let total = (top + plot).ceil() as u32 + TICKS + BELOW;

    let span = (left, f64::from(frame.width()) - right);
    let length = span.1 - span.0;
    let value = value.thinned(|tick| (frame.text_width(&figures::tick(tick)) + 12.0) / length);
    let mut axes = String::new();
    axes_of(&mut axes, (frame, total), (top, span), &value);
    let title = words::with_unit(&chart.y.title, &chart.y.unit);
    let tops = groups.iter().scan(top, |next, (_, bars)| {
        let top = *next;
        *next += height(bars.len(), names);
        Some(top)
    });
    let marks = html! {
        @if !chart.x.title.is_empty() {
            text class="axis-title" x="2" y="14" { (words::with_unit(&chart.x.title, &chart.x.unit)) }
        }
        text class="axis-title end" x=(px(span.1)) y=(total - 5) { (title) }
        @for ((group, bars), top) in groups.iter().zip(tops) {
            (drawn(chart, looks, (group, bars), (names, span, top), &value))
        }
    };
    Drawing { height: total, axes: inside(&axes), marks }
}

/// The sample of a legend.
pub(super) fn key(look: Look) -> Markup {
    html! { (block(look, (3.0, 1.0), (24.0, 12.0))) }
}

/// The groups, by their x: named ones, and those of further points.
fn groups(chart: &Chart) -> Vec<(f64, String)> {
    #[allow(clippy::cast_precision_loss)]
    let mut groups: Vec<_> = chart.groups.iter().enumerate().map(|(i, name)| (i as f64, name.clone())).collect();
    for &(x, _) in chart.series.iter().flat_map(|series| &series.points) {
        if !groups.iter().any(|group| group.0 == x) {
            groups.push((x, figures::tick(x)));
        }
    }
    groups
}

fn bars<'a>(chart: &Chart, names: &'a [String], x: f64, frame: Frame) -> Vec<Bar<'a>> {
    let one = |(i, name): (usize, &'a String)| {
        let series = &chart.series[i];
        let value = series.points.iter().find(|point| point.0 == x).map(|point| point.1);
        let write = if series.origin == Origin::Published { figures::printed } else { figures::measured };
        let figure = value.map_or("–".to_owned(), write);
        // On a phone, the legend has the names.
        let shown = chart.series.len() > 1 && frame == Frame::Wide;
        Bar { series: i, value, figure, name: if shown { name } else { "" } }
    };
    let drawn = names.iter().enumerate().filter(|(i, _)| !chart.series[*i].points.is_empty());
    drawn.map(one).collect()
}

fn place<'a>(names: impl Iterator<Item = &'a str>, frame: Frame) -> Names {
    let width = names.map(|name| frame.text_width(name)).fold(0.0, f64::max) + 14.0;
    if width <= NAMES * f64::from(frame.width()) { Names::Left(width) } else { Names::Above }
}

/// A group's height.
fn height(bars: usize, names: Names) -> f64 {
    #[allow(clippy::cast_precision_loss)]
    let bars = bars as f64 * (BAR + GAP);
    bars + APART + if names == Names::Above { NAME } else { 0.0 }
}

/// Room to the right of the axis, so that the label after the longest bar fits.
fn margin<'a>(bars: impl Iterator<Item = &'a Bar<'a>> + Clone, value: &Extent, frame: Frame, width: f64) -> f64 {
    let label = |bar: &Bar<'_>| {
        let name = if bar.name.is_empty() { 0.0 } else { frame.text_width(bar.name) + 8.0 };
        frame.text_width(&bar.figure) + name + 12.0
    };
    let mut right: f64 = 20.0;
    for _ in 0..6 {
        let length = width - right;
        let beyond = |bar: &Bar<'_>| label(bar) - (1.0 - end(bar, value)) * length;
        right = bars.clone().map(beyond).fold(right, f64::max).min(width * 0.6);
    }
    right
}

/// The right end of a bar, as a share of the axis.
fn end(bar: &Bar<'_>, value: &Extent) -> f64 {
    bar.value.map_or(value.base(), |figure| value.share(figure)).max(value.base())
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn axes_of(out: &mut String, (frame, height): (Frame, u32), (top, span): (f64, (f64, f64)), value: &Extent) {
    let root = SVGBackend::with_string(out, (frame.width(), height)).into_drawing_area();
    let mut builder = ChartBuilder::on(&root);
    builder.margin_top(top as u32).margin_left(span.0 as u32).margin_bottom(BELOW);
    builder.margin_right((f64::from(frame.width()) - span.1) as u32).x_label_area_size(TICKS);
    let mut plot = builder.build_cartesian_2d(value.clone(), Extent::blank()).expect("a string takes any drawing");
    let style = ("sans-serif", frame.text()).into_font().color(&WORDS);
    let mut mesh = plot.configure_mesh();
    mesh.axis_style(AXIS).bold_line_style(GRID).light_line_style(TRANSPARENT).label_style(style);
    mesh.disable_y_mesh().set_all_tick_mark_size(3).draw().expect("a string takes any drawing");
    root.present().expect("a string takes any drawing");
}

type Group<'a> = (&'a String, &'a Vec<Bar<'a>>);

fn drawn(
    chart: &Chart,
    looks: &[Look],
    (group, bars): Group<'_>,
    (names, span, top): (Names, (f64, f64), f64),
    value: &Extent,
) -> Markup {
    let x = |share: f64| span.0 + (span.1 - span.0) * share;
    let first = top + APART / 2.0 + if names == Names::Above { NAME } else { 0.0 };
    let middle = f64::midpoint(first, top + height(bars.len(), names) - APART / 2.0) - GAP / 2.0;
    let base = x(value.base());
    html! {
        @match names {
            Names::Left(_) => text class="group end" x=(px(span.0 - 8.0)) y=(px(middle + 4.5)) { (group) },
            Names::Above => text class="group" x="2" y=(px(first - 6.0)) { (group) },
        }
        @for (i, bar) in bars.iter().enumerate() {
            @let y = first + row(i);
            @let to = bar.value.map_or(base, |figure| x(value.share(figure)));
            g {
                @if let Some(figure) = bar.value {
                    title {
                        (group) ", " (named(&chart.series[bar.series])) ": " (quantity(figure, &chart.y.unit))
                    }
                    (block(looks[bar.series], (base.min(to), y), ((to - base).abs().max(1.0), BAR)))
                }
                text class="value" x=(px(base.max(to) + 6.0)) y=(px(y + BAR / 2.0 + 4.5)) {
                    (bar.figure)
                    @if !bar.name.is_empty() { tspan class="who" dx="7" { (bar.name) } }
                }
            }
        }
    }
}

#[allow(clippy::cast_precision_loss)]
fn row(i: usize) -> f64 {
    i as f64 * (BAR + GAP)
}

/// A bar: its colour, and above it the pattern that distinguishes it on paper.
fn block(look: Look, (x, y): (f64, f64), (width, height): (f64, f64)) -> Markup {
    let rect = |class: &str| {
        html! {
            rect class=(class) x=(px(x)) y=(px(y)) width=(px(width)) height=(px(height)) rx=(px(ROUND)) {}
        }
    };
    html! {
        (rect(&look.class("bar")))
        @let weave = look.hue % SHAPES;
        @if look.origin == Origin::Measured && weave > 0 {
            (rect(&format!("weave w{weave}")))
        }
    }
}
