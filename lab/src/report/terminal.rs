//! A report as text for a terminal, and for `report.txt`.
//!
//! Contains what a reader of the figures needs: tables with the published ones beside, claims, missing programs. The
//! setup, what the originals do not mention and the charts are in the HTML page; the last line has its path.

use std::io::IsTerminal;

use comfy_table::{
    Attribute, Cell as Field, CellAlignment, ColumnConstraint, ContentArrangement, Table as Grid, Width,
};

use super::{figures, words};
use crate::length::Length;
use crate::model::{Cell, Claim, Column, Experiment, Missing, Report, Table, Value, Verdict};

/// The width of a text that is not for a terminal, in columns.
const WIDTH: usize = 100;
/// The columns of a terminal that are used, and needed.
const NARROWEST: usize = 60;
const WIDEST: usize = 140;
/// Light lines, one below the head and none between the rows; the order is that of the library.
const LINES: &str = "││──├─┼┤│    ┬┴┌┐└┘";
/// Light lines with a line between the rows, for rows of several lines.
const RULED: &str = "││──├─┼┤│─┼├┤┬┴┌┐└┘";

/// The medium of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Paper {
    pub(super) width: usize,
    pub(super) colours: Colours,
}

/// Whether a text has colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Colours {
    None,
    Ansi,
}

/// Longer words of a cell may be broken.
const BROKEN: usize = 15;

/// A style, by its meaning.
#[derive(Clone, Copy)]
pub(super) enum Ink {
    Plain,
    Strong,
    Faint,
    Good,
    Bad,
    Caution,
}

impl Paper {
    /// A file: no colours, and a fixed width.
    pub(super) const FILE: Paper = Paper { width: WIDTH, colours: Colours::None };

    /// The standard output: colours if it is a terminal, unless NO_COLOR is set (<https://no-color.org>).
    pub(super) fn stdout() -> Paper {
        if !std::io::stdout().is_terminal() {
            return Paper::FILE;
        }
        let width = Grid::new().width().map_or(WIDTH, usize::from).clamp(NARROWEST, WIDEST);
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Paper { width, colours: if plain { Colours::None } else { Colours::Ansi } }
    }

    /// Words in a style.
    pub(super) fn ink(self, ink: Ink, text: &str) -> String {
        let code = match ink {
            Ink::Strong => "1",
            Ink::Faint => "2",
            Ink::Good => "32",
            Ink::Bad => "31",
            Ink::Caution => "33",
            Ink::Plain => return text.to_owned(),
        };
        match self.colours {
            Colours::None => text.to_owned(),
            Colours::Ansi => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
        }
    }

    /// A paragraph, its first line after `first`, the others with the same indent.
    pub(super) fn paragraph(self, out: &mut String, first: (Ink, &str), ink: Ink, text: &str) {
        let indent = first.1.chars().count();
        for (i, line) in wrapped(text, self.width.saturating_sub(indent)).iter().enumerate() {
            let before = if i == 0 { self.ink(first.0, first.1) } else { " ".repeat(indent) };
            out.push_str(before.as_str());
            out.push_str(&self.ink(ink, line));
            out.push('\n');
        }
    }

    /// An empty grid in our style.
    pub(super) fn grid(self) -> Grid {
        let mut grid = Grid::new();
        grid.load_preset(LINES).force_no_tty();
        grid.set_content_arrangement(ContentArrangement::Dynamic);
        grid.set_width(u16::try_from(self.width).unwrap_or(u16::MAX));
        if self.colours == Colours::Ansi {
            grid.enforce_styling();
        }
        grid
    }
}

/// The whole report as text.
pub(super) fn text(report: &Report, paper: Paper) -> String {
    let mut out = String::new();
    head(&mut out, report, paper);
    for experiment in &report.experiments {
        let alone = report.experiments.len() == 1;
        experiment_section(&mut out, experiment, if alone { "" } else { &experiment.title }, paper);
    }
    out.push('\n');
    let last = "Set-up, charts, what the originals hide and every command are in report.html.";
    paper.paragraph(&mut out, (Ink::Plain, ""), Ink::Faint, last);
    out
}

fn head(out: &mut String, report: &Report, paper: Paper) {
    paper.paragraph(out, (Ink::Plain, ""), Ink::Strong, &words::title(report));
    let versions: Vec<_> = report.versions.iter().map(|(program, version)| format!("{program} {version}")).collect();
    for (name, text) in [
        ("command   ", report.command.clone()),
        ("run       ", words::when(report)),
        ("length    ", words::length(report.length)),
        ("machine   ", words::hardware(&report.machine)),
        ("system    ", words::system(&report.machine)),
        ("versions  ", versions.join(", ")),
    ] {
        if !text.is_empty() {
            paper.paragraph(out, (Ink::Faint, name), Ink::Plain, &text);
        }
    }
    out.push('\n');
    if report.length == Length::Smoke {
        let text = "The figures below mean nothing: this was a smoke test.";
        paper.paragraph(out, (Ink::Caution, "! "), Ink::Caution, text);
    }
    paper.paragraph(out, (Ink::Plain, ""), Ink::Strong, &words::Tally::of_report(report).sentence());
    let beside = report.experiments.iter().flat_map(|e| &e.tables).any(has_published);
    if beside {
        let text = "In tables, figures in brackets are the published ones, from other machines; ± is the distance of \
                    the repetition farthest from the median; + and − where the two sides differ much.";
        paper.paragraph(out, (Ink::Plain, ""), Ink::Faint, text);
    }
}

/// An experiment; its title, if the report has not printed it yet.
fn experiment_section(out: &mut String, experiment: &Experiment, title: &str, paper: Paper) {
    let name = format!("━━ {} ", experiment.id);
    let line = "━".repeat(paper.width.saturating_sub(name.chars().count()));
    out.push_str(&format!("\n{}\n", paper.ink(Ink::Strong, &format!("{name}{line}"))));
    paper.paragraph(out, (Ink::Plain, ""), Ink::Strong, title);
    paper.paragraph(out, (Ink::Plain, ""), Ink::Plain, &experiment.question);
    if !experiment.source.is_empty() {
        paper.paragraph(out, (Ink::Faint, "After: "), Ink::Faint, &experiment.source);
    }
    for one in &experiment.tables {
        out.push('\n');
        table(out, one, paper);
    }
    out.push('\n');
    for one in &experiment.claims {
        claim(out, one, paper);
    }
    for one in &experiment.missing {
        missing(out, one, paper);
    }
    for warning in &experiment.warnings {
        paper.paragraph(out, (Ink::Caution, "! "), Ink::Caution, warning);
    }
}

fn claim(out: &mut String, claim: &Claim, paper: Paper) {
    let ink = match claim.verdict {
        Verdict::Held => Ink::Good,
        Verdict::NotHeld => Ink::Bad,
        Verdict::Open => Ink::Caution,
    };
    let sign = format!("{} {:<14}", words::sign(claim.verdict), words::verdict(claim.verdict));
    paper.paragraph(out, (ink, &sign), Ink::Plain, &claim.text);
    let indent = " ".repeat(sign.chars().count());
    paper.paragraph(out, (Ink::Plain, &indent), Ink::Faint, &figures::in_sentence(&claim.why));
}

fn missing(out: &mut String, missing: &Missing, paper: Paper) {
    let text = format!("{}: {}", missing.what, missing.effect);
    paper.paragraph(out, (Ink::Caution, "– missing "), Ink::Plain, &text);
    if !missing.get.is_empty() {
        paper.paragraph(out, (Ink::Faint, "  get it:  "), Ink::Plain, &missing.get);
    }
}

/// How a cell combines published and measured values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Setting {
    Beside,
    Below,
}

fn table(out: &mut String, table: &Table, paper: Paper) {
    paper.paragraph(out, (Ink::Plain, ""), Ink::Strong, &table.title);
    if table.rows.is_empty() {
        out.push_str("Nothing was measured.\n");
        return;
    }
    let bare;
    let (table, spread_lost) = if natural_width(table) > paper.width && has_spread(table) {
        bare = without_spread(table);
        (&bare, true)
    } else {
        (table, false)
    };
    let columns: Vec<_> = (0..table.columns.len()).map(|i| Fit::of(table, i)).collect();
    let natural = natural_width(table);
    let setting = if natural <= paper.width { Setting::Beside } else { Setting::Below };

    let mut grid = paper.grid();
    if natural > paper.width {
        grid.load_preset(RULED);
    }
    let bold = |text: &str| Field::new(text).add_attribute(Attribute::Bold);
    let mut header = vec![bold(&table.rows_are)];
    header.extend(
        table
            .columns
            .iter()
            .map(|column| bold(&words::with_unit(&column.title, &column.unit)).set_alignment(CellAlignment::Right)),
    );
    grid.set_header(header);
    for row in &table.rows {
        let mut fields = vec![Field::new(&row.label)];
        for (i, fit) in columns.iter().enumerate() {
            let text = row.cells.get(i).map(|cell| fit.field(cell, setting)).unwrap_or_default();
            fields.push(Field::new(text).set_alignment(CellAlignment::Right));
        }
        grid.add_row(fields);
    }
    if setting == Setting::Beside {
        let widths = columns.iter().map(|fit| u16::try_from(fit.width() + 2).unwrap_or(u16::MAX));
        let least = widths.map(|width| ColumnConstraint::LowerBoundary(Width::Fixed(width)));
        grid.set_constraints([ColumnConstraint::LowerBoundary(Width::Fixed(3))].into_iter().chain(least));
    }
    out.push_str(&grid.to_string());
    out.push('\n');
    let more = if spread_lost { "Too wide for spreads: report.html has them." } else { "" };
    let note = [table.note.as_str(), more].join(" ");
    if !note.trim().is_empty() {
        paper.paragraph(out, (Ink::Plain, ""), Ink::Faint, &figures::in_sentence(note.trim()));
    }
}

/// The table's width if no line is broken.
fn natural_width(table: &Table) -> usize {
    let labels = table.rows.iter().map(|row| wide(&row.label)).chain([wide(&table.rows_are)]).max().unwrap_or(0);
    (0..table.columns.len()).map(|i| Fit::of(table, i).width() + 3).sum::<usize>() + labels + 4
}

fn has_spread(table: &Table) -> bool {
    let cells = table.rows.iter().flat_map(|row| &row.cells);
    cells.filter_map(|cell| cell.ours.as_ref()).any(|value| matches!(value, Value::Number { spread: Some(_), .. }))
}

fn without_spread(table: &Table) -> Table {
    let mut bare = table.clone();
    for cell in bare.rows.iter_mut().flat_map(|row| &mut row.cells) {
        if let Some(Value::Number { spread, .. }) = &mut cell.ours {
            *spread = None;
        }
    }
    bare
}

/// The widths of a column's two parts, so that figures are aligned, and of the longest word in its head.
struct Fit {
    ours: usize,
    published: usize,
    head: usize,
}

impl Fit {
    fn of(table: &Table, column: usize) -> Fit {
        let cells = || table.rows.iter().filter_map(move |row| row.cells.get(column));
        // Words may be broken, figures not.
        let need = |text: String| if wide(&text) > BROKEN && text.contains(' ') { BROKEN } else { wide(&text) };
        let ours = cells().map(|cell| need(ours(cell))).max().unwrap_or(0);
        let published = cells().map(|cell| need(published(cell))).max().unwrap_or(0);
        let Column { title, unit, .. } = &table.columns[column];
        let head = words::with_unit(title, unit).split(' ').map(wide).max().unwrap_or(0);
        Fit { ours, published, head }
    }

    fn width(&self) -> usize {
        let both = self.ours + if self.published > 0 { self.published + 1 } else { 0 };
        both.max(self.head)
    }

    fn field(&self, cell: &Cell, setting: Setting) -> String {
        let (ours, published) = (ours(cell), published(cell));
        match setting {
            _ if self.published == 0 => ours,
            Setting::Below if published.is_empty() => ours,
            Setting::Below => format!("{ours}\n{published}"),
            Setting::Beside => {
                let left = self.ours.saturating_sub(wide(&ours));
                let between = self.published.saturating_sub(wide(&published)) + 1;
                let between = if between > 1 || published.is_empty() { no_break(between) } else { " ".to_owned() };
                format!("{}{ours}{between}{published}", no_break(left))
            }
        }
    }
}

fn ours(cell: &Cell) -> String {
    match (&cell.ours, &cell.published) {
        (Some(value), _) => figures::ours(value),
        (None, Some(_)) => "–".to_owned(),
        (None, None) => String::new(),
    }
}

fn published(cell: &Cell) -> String {
    cell.published.as_ref().map(|value| format!("({})", figures::published(value))).unwrap_or_default()
}

fn has_published(table: &Table) -> bool {
    table.rows.iter().flat_map(|row| &row.cells).any(|cell| cell.published.is_some())
}

/// Spaces that the table does not trim.
fn no_break(n: usize) -> String {
    "\u{a0}".repeat(n)
}

pub(super) fn wide(text: &str) -> usize {
    text.chars().count()
}

/// Lines of at most `width` characters, broken at spaces; a longer word has a line of its own.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split([' ', '\n', '\t']).filter(|word| !word.is_empty()) {
        match lines.last_mut() {
            Some(line) if wide(line) + 1 + wide(word) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use crate::model::Value;

    #[test]
    fn every_figure_and_verdict_is_in_the_text() {
        let report = sample::report();
        let text = text(&report, Paper::FILE);
        assert!(text.contains("5 claims") || text.contains("claims held"), "{text}");
        for cell in report.experiments.iter().flat_map(|e| &e.tables).flat_map(|t| &t.rows).flat_map(|r| &r.cells) {
            if let Some(Value::Number { value, .. }) = &cell.ours {
                assert!(text.contains(&figures::measured(*value)), "{value}: {text}");
            }
            if let Some(Value::Number { value, .. }) = &cell.published {
                assert!(text.contains(&format!("({})", figures::printed(*value))), "{value}: {text}");
            }
        }
        for said in
            ["✔ held", "✘ did not hold", "? open", "missing Pgpool-II", "apt-get install pgpool2", "! pgbench took"]
        {
            assert!(text.contains(said), "{said}: {text}");
        }
    }

    #[test]
    fn colours_are_ansi_where_wanted_and_do_not_change_the_words() {
        let report = sample::report();
        let coloured = text(&report, Paper { colours: Colours::Ansi, ..Paper::FILE });
        assert!(coloured.contains("\u{1b}[32m") && coloured.contains("\u{1b}[31m"));
        assert!(!text(&report, Paper::FILE).contains('\u{1b}'));
    }

    #[test]
    fn any_width_is_kept_to() {
        for width in [60, 80, 100, 140] {
            let text = text(&sample::report(), Paper { width, colours: Colours::None });
            let wide: Vec<_> = text.lines().filter(|line| line.chars().count() > width).collect();
            // A word that is longer than a line is not broken.
            assert!(wide.iter().all(|line| line.contains("https:")), "{width}: {wide:#?}");
        }
    }

    #[test]
    fn text_is_broken_at_spaces() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("seventeen 1", 3), ["seventeen", "1"]);
        assert!(wrapped("  ", 3).is_empty());
    }
}
