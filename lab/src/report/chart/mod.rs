//! A report's charts as inline SVG: twice, for a wide page and for a phone; the style sheet shows one of them.
//!
//! plotters draws the axes, their ticks and logarithms; the marks on them are ours, with classes (the style sheet has
//! the colours of light, dark and paper) and tooltips. Measured lines are solid, published dashed, calculated dotted;
//! a series has a colour and a shape of mark, so that no information depends on colour alone.

use std::collections::BTreeMap;

use maud::{Markup, PreEscaped, html};
use plotters::prelude::*;

use super::{figures, words};
use crate::model::{Chart, ChartKind, Origin, Scale, Series};

mod axis;
mod bars;
mod lines;

/// The number of the style sheet's colours for series.
const HUES: usize = 10;
/// The number of marks' shapes and of bars' patterns.
const SHAPES: usize = 6;
/// Programs that have a colour of their own in the whole report. A series belongs to the first program of which its
/// name contains a word.
const PROGRAMS: [&[&str]; 4] = [&["weir"], &["pgbouncer"], &["pgpool"], &["no pooler", "direct", "postgresql"]];
/// The colours of axes in light mode. The style sheet finds them by these values and replaces them.
const GRID: RGBColor = RGBColor(0xE2, 0xE1, 0xDC);
const AXIS: RGBColor = RGBColor(0x9A, 0x99, 0x94);
const WORDS: RGBColor = RGBColor(0x5F, 0x63, 0x68);
/// A glyph's width, as a share of the text's size; fonts differ, and wide ones must fit.
const GLYPH: f64 = 0.62;

/// The medium of a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    Wide,
    Narrow,
}

impl Frame {
    fn width(self) -> u32 {
        match self {
            Frame::Wide => 736,
            Frame::Narrow => 350,
        }
    }

    /// The text's size.
    fn text(self) -> f64 {
        match self {
            Frame::Wide => 13.0,
            Frame::Narrow => 12.0,
        }
    }

    fn text_width(self, text: &str) -> f64 {
        glyphs(text) * self.text() * GLYPH
    }

    fn class(self) -> &'static str {
        match self {
            Frame::Wide => "wide",
            Frame::Narrow => "narrow",
        }
    }
}

/// The look of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Look {
    hue: usize,
    origin: Origin,
}

impl Look {
    /// Classes for the style sheet.
    fn class(self, part: &str) -> String {
        format!("{part} h{} {}", self.hue, origin(self.origin))
    }
}

/// An experiment's charts, each with its title, legend and note.
pub(super) fn figures(charts: &[Chart], hues: &Hues) -> Markup {
    html! {
        @for chart in charts { (figure(chart, hues)) }
    }
}

/// One chart. A chart without points has a sentence instead.
fn figure(chart: &Chart, hues: &Hues) -> Markup {
    let chart = &clean(chart);
    let looks = looks(&chart.series, hues);
    let empty = chart.series.iter().all(|series| series.points.is_empty());
    html! {
        figure class="chart" {
            figcaption { (chart.title) }
            @if empty {
                p class="nothing" { "Nothing to draw: no figure was measured." }
            } @else {
                (legend(chart, &looks))
                @for frame in [Frame::Wide, Frame::Narrow] { (svg(chart, &looks, frame)) }
            }
            @if !chart.note.is_empty() { p class="note" { (chart.note) } }
        }
    }
}

/// A copy without points that can't be drawn: NaN, and on a logarithm zero and less, which the note then mentions.
fn clean(chart: &Chart) -> Chart {
    let mut chart = chart.clone();
    let lines = chart.kind == ChartKind::Lines;
    let (log_x, log_y) = (lines && chart.x.scale == Scale::Log, chart.y.scale == Scale::Log);
    let mut lost = 0;
    for series in &mut chart.series {
        series.points.retain(|(x, y)| x.is_finite() && y.is_finite());
        let before = series.points.len();
        // A bar of zero is drawn, as its label only.
        series.points.retain(|(x, y)| (!log_x || *x > 0.0) && (!log_y || !lines || *y > 0.0));
        lost += before - series.points.len();
    }
    if lost > 0 {
        let text = format!("{} of zero can't be shown on a logarithmic axis.", figures::count(lost, "point"));
        chart.note = format!("{} {text}", chart.note).trim().to_owned();
    }
    chart
}

/// The colours of names, one for each in the whole report.
#[derive(Default)]
pub(super) struct Hues(BTreeMap<String, usize>);

impl Hues {
    /// The colours of these charts' series: a program's own, and for other names those of no program, in turn. Two
    /// series of one chart have two colours, if there are enough.
    pub(super) fn of_all<'c>(charts: impl Iterator<Item = &'c Chart> + Clone) -> Hues {
        let mut hues = Hues::default();
        for name in charts.clone().flat_map(names) {
            if hues.0.contains_key(&name) {
                continue;
            }
            let beside = charts.clone().map(names).filter(|names| names.contains(&name)).flatten();
            let taken: Vec<usize> = beside.filter_map(|name| hues.0.get(&name).copied()).collect();
            let program = PROGRAMS.iter().position(|words| words.iter().any(|word| name.contains(word)));
            let uses = |hue: &usize| hues.0.values().filter(|used| *used == hue).count();
            let free = (PROGRAMS.len()..HUES).min_by_key(|hue| (taken.contains(hue), uses(hue)));
            let hue = program.filter(|hue| !taken.contains(hue)).or(free).unwrap_or_default();
            hues.0.insert(name, hue);
        }
        hues
    }

    fn of(&self, name: &str) -> usize {
        self.0.get(&bare(name)).copied().unwrap_or_default()
    }
}

fn names(chart: &Chart) -> Vec<String> {
    chart.series.iter().map(|series| bare(&series.name)).collect()
}

/// A look for each series; those of one name, measured and published, have the same colour.
fn looks(series: &[Series], hues: &Hues) -> Vec<Look> {
    series.iter().map(|series| Look { hue: hues.of(&series.name), origin: series.origin }).collect()
}

/// A series' name without its origin.
fn bare(name: &str) -> String {
    let name = name.to_lowercase();
    let words = name.split(|c: char| !c.is_alphanumeric());
    let about = ["published", "measured", "calculated", "article", "the", "here", "ours", "as", "in", "s"];
    words.filter(|word| !word.is_empty() && !about.contains(word)).collect::<Vec<_>>().join(" ")
}

fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::Measured => "measured",
        Origin::Published => "published",
        Origin::Calculated => "calculated",
    }
}

/// The series' name, with its origin where the name does not contain it.
fn named(series: &Series) -> String {
    let (word, name) = (origin(series.origin), series.name.to_lowercase());
    let said = name.contains(word) || (series.origin == Origin::Published && name.contains("article"));
    if series.origin == Origin::Measured || said { series.name.clone() } else { format!("{} ({word})", series.name) }
}

fn legend(chart: &Chart, looks: &[Look]) -> Markup {
    let alone = matches!(chart.series.as_slice(), [only] if only.origin == Origin::Measured);
    html! {
        @if !alone {
            ul class="legend" {
                @for (series, look) in chart.series.iter().zip(looks) {
                    @if !series.points.is_empty() {
                        li {
                            svg class="key" viewBox="0 0 30 14" width="30" height="14" aria-hidden="true" {
                                @match chart.kind {
                                    ChartKind::Lines => (lines::key(*look)),
                                    ChartKind::Bars => (bars::key(*look)),
                                }
                            }
                            (named(series))
                        }
                    }
                }
            }
        }
    }
}

fn svg(chart: &Chart, looks: &[Look], frame: Frame) -> Markup {
    let drawn = match chart.kind {
        ChartKind::Lines => lines::draw(chart, looks, frame),
        ChartKind::Bars => bars::draw(chart, looks, frame),
    };
    let Drawing { height, axes, marks } = drawn;
    let view = format!("0 0 {} {height}", frame.width());
    let label = spoken(chart);
    html! {
        svg class={ "plot " (frame.class()) } viewBox=(view) width=(frame.width()) height=(height)
            role="img" aria-label=(label) {
            (PreEscaped(axes))
            (marks)
        }
    }
}

/// The description for readers that do not see the chart.
fn spoken(chart: &Chart) -> String {
    let (y, x) = (words::with_unit(&chart.y.title, &chart.y.unit), words::with_unit(&chart.x.title, &chart.x.unit));
    let names: Vec<_> = chart.series.iter().map(named).collect();
    format!("{}: {y} by {x}, for {}", chart.title, names.join(", "))
}

/// A drawing: plotters' output, and our marks on it.
struct Drawing {
    height: u32,
    axes: String,
    marks: Markup,
}

/// The elements that plotters drew, without its own frame.
fn inside(svg: &str) -> String {
    let inner = svg.split_once('>').map_or("", |(_, rest)| rest);
    inner.rsplit_once("</svg>").map_or(inner, |(inner, _)| inner).trim().to_owned()
}

/// A figure with its unit.
fn quantity(value: f64, unit: &str) -> String {
    let value = figures::measured(value);
    if unit.is_empty() { value } else { format!("{value}\u{202f}{unit}") }
}

#[allow(clippy::cast_precision_loss)]
fn glyphs(text: &str) -> f64 {
    text.chars().count() as f64
}

/// A coordinate, to a tenth of a pixel.
fn px(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use crate::model::Axis;

    fn chart(kind: ChartKind, scale: Scale, series: &[&[(f64, f64)]]) -> Chart {
        let axis = |title: &str| Axis { title: title.to_owned(), unit: "ms".to_owned(), scale };
        let one = |points: &&[(f64, f64)]| Series {
            name: "Weir".to_owned(),
            origin: Origin::Measured,
            points: points.to_vec(),
        };
        Chart {
            title: "A chart".to_owned(),
            kind,
            x: axis("clients"),
            y: axis("latency"),
            groups: vec!["one".to_owned()],
            series: series.iter().map(one).collect(),
            note: String::new(),
        }
    }

    fn drawn(chart: &Chart) -> String {
        figures(std::slice::from_ref(chart), &Hues::of_all(std::iter::once(chart))).into_string()
    }

    #[test]
    fn a_colour_means_one_thing_in_all_charts() {
        let named = |names: &[&str]| {
            let mut all = chart(ChartKind::Lines, Scale::Linear, &vec![&[(1.0, 2.0)][..]; names.len()]);
            all.series.iter_mut().zip(names).for_each(|(series, name)| series.name = (*name).to_owned());
            all
        };
        let charts = [
            named(&["a", "b", "c", "d", "e", "f", "g"]),
            named(&["no pooler", "PgBouncer", "150 clients through Weir"]),
            named(&["Weir, pool", "Weir, a connection a query", "a"]),
            named(&["Weir"]),
        ];
        let hues = Hues::of_all(charts.iter());
        let of = |names: &[&str]| names.iter().map(|name| hues.of(name)).collect::<Vec<_>>();
        assert_eq!(of(&["Weir", "PgBouncer", "150 clients through Weir", "Weir, pool", "no pooler"]), [0, 1, 0, 0, 3]);
        assert!(
            of(&["a", "b", "c", "d", "e", "f", "g", "Weir, a connection a query"])
                .iter()
                .all(|hue| *hue >= PROGRAMS.len())
        );
        assert_ne!(hues.of("Weir, a connection a query"), hues.of("a"), "they are in one chart");
        let text = figures(&charts[3..], &hues).into_string();
        assert!(text.contains("mark h0") && !text.contains("mark h1"), "{text}");
        for hue in 0..HUES {
            let style = include_str!("../style.css");
            assert_eq!(style.matches(&format!("--h{hue}: #")).count(), 3, "in light, dark and on paper");
            assert!(style.contains(&format!(".h{hue} {{ --hue: var(--h{hue}); }}")));
        }
    }

    #[test]
    fn no_chart_is_too_odd_to_be_drawn() {
        let all: [&[(f64, f64)]; 9] = [
            &[],
            &[(1.0, 2.0)],
            &[(0.0, 0.0)],
            &[(0.0, 0.0), (1.0, 0.0), (2.0, 0.0)],
            &[(5.0, 3.0), (5.0, 3.0)],
            &[(f64::NAN, 1.0), (1.0, f64::INFINITY), (2.0, 5.0)],
            &[(-3.0, -5.0), (0.0, -0.0), (4.0, 1e-12)],
            &[(1e-9, 1e300), (1e12, 1e-300)],
            &[(0.5, 1e15), (7.0, 3.0)],
        ];
        for kind in [ChartKind::Lines, ChartKind::Bars] {
            for scale in [Scale::Linear, Scale::Log] {
                for points in all {
                    let text = drawn(&chart(kind, scale, &[points, &[]]));
                    for odd in ["NaN", "inf", "http:", "https:"] {
                        assert!(!text.contains(odd), "{odd} in {kind:?} {scale:?} {points:?}: {text}");
                    }
                }
                let nothing = drawn(&chart(kind, scale, &[]));
                assert!(nothing.contains("Nothing to draw"), "{nothing}");
            }
        }
    }

    #[test]
    fn a_zero_on_a_logarithm_is_left_out_and_named() {
        let text = drawn(&chart(ChartKind::Lines, Scale::Log, &[&[(1.0, 0.0), (2.0, 5.0)]]));
        assert!(text.contains("1 point of zero"), "{text}");
    }

    #[test]
    fn names_are_escaped_and_every_point_has_its_tooltip() {
        let mut odd = chart(ChartKind::Lines, Scale::Linear, &[&[(10.0, 344.2), (20.0, 17.04)]]);
        odd.series[0].name = "<b>".to_owned();
        odd.x.title = "<i>".to_owned();
        let text = drawn(&odd);
        assert!(!text.contains("<b>") && !text.contains("<i>"), "{text}");
        assert!(text.contains("344\u{202f}ms") && text.contains("17.0\u{202f}ms"), "{text}");
    }

    #[test]
    fn measured_and_published_of_one_name_share_a_colour() {
        let series = |name: &str, origin| Series { name: name.to_owned(), origin, points: vec![] };
        let all = [
            series("none", Origin::Measured),
            series("PgBouncer", Origin::Measured),
            series("PgBouncer, published", Origin::Published),
            series("none (article)", Origin::Published),
            series("Weir", Origin::Measured),
        ];
        let mut drawn = chart(ChartKind::Lines, Scale::Linear, &[]);
        drawn.series = all.to_vec();
        let hues: Vec<_> = looks(&all, &Hues::of_all(std::iter::once(&drawn))).iter().map(|look| look.hue).collect();
        assert_eq!(hues, [4, 1, 1, 4, 0]);
    }

    /// The texts of a drawing on one line, from left to right, with their positions.
    fn row_of_ticks(axes: &str) -> Vec<(f64, f64, String)> {
        let texts = axes.split("<text ").skip(1).map(|element| {
            let number = |name: &str| -> f64 {
                let from = element.split_once(&format!("{name}=\"")).unwrap().1;
                from.split_once('"').unwrap().0.parse().unwrap()
            };
            let words = element.split_once('>').unwrap().1.split_once('<').unwrap().0.trim().to_owned();
            (number(" y").max(number("y")), number("x"), words)
        });
        let mut texts: Vec<_> = texts.collect();
        let low = texts.iter().map(|text| text.0).fold(0.0, f64::max);
        texts.retain(|text| (text.0 - low).abs() < 0.5);
        texts.sort_by(|a, b| a.1.total_cmp(&b.1));
        texts
    }

    #[test]
    fn ticks_do_not_overlap() {
        let close_points: Vec<_> = [1.0, 2.0, 4.0, 5.0, 90.0, 95.0, 97.0, 100.0].map(|x| (x, x * 1e6)).to_vec();
        let own = [Scale::Linear, Scale::Log].map(|scale| chart(ChartKind::Lines, scale, &[&close_points]));
        for chart in sample::report().experiments.iter().flat_map(|e| &e.charts).chain(&own).map(clean) {
            for frame in [Frame::Wide, Frame::Narrow] {
                let looks = looks(&chart.series, &Hues::of_all(std::iter::once(&chart)));
                let drawn = [lines::draw(&chart, &looks, frame), bars::draw(&chart, &looks, frame)];
                for ticks in drawn.map(|drawn| row_of_ticks(&drawn.axes)) {
                    assert!(ticks.len() > 1, "{}", chart.title);
                    for two in ticks.windows(2) {
                        let need = (frame.text_width(&two[0].2) + frame.text_width(&two[1].2)) / 2.0;
                        assert!(two[1].1 - two[0].1 >= need, "{} {frame:?}: {ticks:?}", chart.title);
                    }
                }
            }
        }
    }
}
