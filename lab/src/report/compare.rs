//! Compares two runs: which figures changed by more than their spread, in which direction, and which verdicts changed.
//!
//! Two figures are the same one if their experiment, table, row and column have the same names. It changed if the
//! ranges of the repetitions are apart; for a single repetition [`ALONE`] replaces its range.

use std::collections::BTreeMap;

use comfy_table::{Cell as Field, CellAlignment};

use super::terminal::{Ink, Paper};
use super::{figures, words};
use crate::length::Length;
use crate::model::{Better, Claim, Column, Experiment, Report, Value};

/// The relative difference up to which figures without repetitions count as equal.
const ALONE: f64 = 0.05;

/// How the figures changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Better,
    Worse,
    /// Changed, without a better direction.
    Other,
    Same,
}

impl Change {
    fn word(self) -> &'static str {
        match self {
            Change::Better => "better",
            Change::Worse => "worse",
            Change::Other => "differs",
            Change::Same => "same",
        }
    }
}

/// A figure of one of the runs.
#[derive(Clone, Copy)]
struct Figure<'a> {
    table: &'a str,
    row: &'a str,
    column: &'a Column,
    value: &'a Value,
}

/// Two runs as text; B is better or worse than A.
pub(super) fn text(a: &Report, b: &Report, paper: Paper) -> String {
    let mut out = String::new();
    paper.paragraph(&mut out, (Ink::Strong, "A  "), Ink::Plain, &name(a));
    paper.paragraph(&mut out, (Ink::Strong, "B  "), Ink::Plain, &name(b));
    out.push('\n');
    for difference in conditions(a, b) {
        paper.paragraph(&mut out, (Ink::Caution, "! "), Ink::Caution, &difference);
    }
    let mut totals = Totals::default();
    let mut body = String::new();
    for (id, pair) in pairs(a, b) {
        compared(&mut body, id, pair, &mut totals, paper);
    }
    paper.paragraph(&mut out, (Ink::Plain, ""), Ink::Strong, &totals.sentence());
    let rule = "Better and worse are said of B. A figure changed if the ranges of its repetitions in A and B are \
                apart; one without repetitions counts as within 5%.";
    paper.paragraph(&mut out, (Ink::Plain, ""), Ink::Faint, rule);
    out.push_str(&body);
    out
}

fn name(report: &Report) -> String {
    format!("{} ({}; {})", report.command, report.length, words::when(report))
}

/// Differences in the conditions of the two runs.
fn conditions(a: &Report, b: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    for (what, a, b) in [
        ("The machines", words::hardware(&a.machine), words::hardware(&b.machine)),
        ("The systems", words::system(&a.machine), words::system(&b.machine)),
        ("The lengths", a.length.to_string(), b.length.to_string()),
    ] {
        if a != b {
            notes.push(format!("{what} differ: A {a}; B {b}."));
        }
    }
    if a.length != b.length {
        notes.push(
            "Runs of another length have other durations and sizes: their figures are not to be compared.".to_owned(),
        );
    }
    if [a, b].iter().any(|report| report.length == Length::Smoke) {
        notes.push("A smoke test's figures mean nothing.".to_owned());
    }
    let programs: BTreeMap<_, _> = a.versions.keys().chain(b.versions.keys()).map(|name| (name, ())).collect();
    for program in programs.into_keys() {
        let version = |report: &Report| report.versions.get(program).map_or("none", String::as_str).to_owned();
        let (a, b) = (version(a), version(b));
        if a != b {
            notes.push(format!("{program} differs: A {a}; B {b}."));
        }
    }
    notes
}

type Pair<'a> = (Option<&'a Experiment>, Option<&'a Experiment>);

/// The experiments of both, in A's order, then those of B alone.
fn pairs<'a>(a: &'a Report, b: &'a Report) -> Vec<(&'a str, Pair<'a>)> {
    let find = |report: &'a Report, id: &str| report.experiments.iter().find(|experiment| experiment.id == id);
    let alone = b.experiments.iter().filter(|experiment| find(a, &experiment.id).is_none());
    let ids = a.experiments.iter().chain(alone).map(|experiment| experiment.id.as_str());
    ids.map(|id| (id, (find(a, id), find(b, id)))).collect()
}

#[derive(Default)]
struct Totals {
    better: usize,
    worse: usize,
    other: usize,
    same: usize,
    verdicts: usize,
}

impl Totals {
    fn note(&mut self, change: Change) {
        match change {
            Change::Better => self.better += 1,
            Change::Worse => self.worse += 1,
            Change::Other => self.other += 1,
            Change::Same => self.same += 1,
        }
    }

    fn sentence(&self) -> String {
        let Totals { better, worse, other, same, verdicts } = *self;
        let changed = if verdicts == 1 { "claim has" } else { "claims have" };
        format!(
            "B is better in {}, worse in {worse}; {other} differ otherwise, {same} are the same. {verdicts} {changed} \
             another verdict.",
            figures::count(better, "figure")
        )
    }
}

fn compared(out: &mut String, id: &str, pair: Pair<'_>, totals: &mut Totals, paper: Paper) {
    out.push_str(&format!("\n{}\n", paper.ink(Ink::Strong, &format!("━━ {id}"))));
    let (a, b) = match pair {
        (Some(a), Some(b)) => (a, b),
        (Some(_), None) => return paper.paragraph(out, (Ink::Plain, ""), Ink::Plain, "Only in A."),
        _ => return paper.paragraph(out, (Ink::Plain, ""), Ink::Plain, "Only in B."),
    };
    let (changed, same, lone) = sorted(a, b);
    changed.iter().for_each(|(_, _, change)| totals.note(*change));
    totals.same += same;
    for same_table in changed.chunk_by(|one, next| one.0.table == next.0.table) {
        paper.paragraph(out, (Ink::Plain, ""), Ink::Strong, same_table[0].0.table);
        out.push_str(&grid(same_table, paper));
        out.push('\n');
    }
    let same = format!("{} the same.", figures::count(same, "figure"));
    paper.paragraph(out, (Ink::Plain, ""), Ink::Faint, &same);
    if lone > 0 {
        let text = format!("{} in one of the two only.", figures::count(lone, "figure"));
        paper.paragraph(out, (Ink::Plain, ""), Ink::Faint, &text);
    }
    for (a, b) in verdicts(a, b) {
        totals.verdicts += 1;
        let sign = format!("{} → {}  ", words::sign(a.verdict), words::sign(b.verdict));
        paper.paragraph(out, (Ink::Caution, &sign), Ink::Plain, &b.text);
        for (name, claim) in [("A", a), ("B", b)] {
            let first = format!("       {name}: {}: ", words::verdict(claim.verdict));
            paper.paragraph(out, (Ink::Faint, &first), Ink::Faint, &claim.why);
        }
    }
}

type Compared<'a> = (Figure<'a>, &'a Value, Change);

/// The figures that changed, how many did not, and how many only one run has.
fn sorted<'a>(a: &'a Experiment, b: &'a Experiment) -> (Vec<Compared<'a>>, usize, usize) {
    let (ours, theirs) = (all(a), all(b));
    let twin = |figure: &Figure<'_>, others: &[Figure<'a>]| {
        let same = |other: &&Figure<'_>| {
            (other.table, other.row, &other.column.title) == (figure.table, figure.row, &figure.column.title)
        };
        others.iter().find(same).map(|other| other.value)
    };
    let both: Vec<_> = ours
        .iter()
        .filter_map(|figure| twin(figure, &theirs).map(|b| (*figure, b, change(figure.value, b, figure.column.better))))
        .collect();
    let lone = ours.len() - both.len() + theirs.iter().filter(|figure| twin(figure, &ours).is_none()).count();
    let same = both.iter().filter(|(_, _, change)| *change == Change::Same).count();
    (both.into_iter().filter(|(_, _, change)| *change != Change::Same).collect(), same, lone)
}

/// Every measured value of an experiment.
fn all(experiment: &Experiment) -> Vec<Figure<'_>> {
    let mut all = Vec::new();
    for table in &experiment.tables {
        for row in &table.rows {
            for (column, cell) in table.columns.iter().zip(&row.cells) {
                let figure = |value| Figure { table: &table.title, row: &row.label, column, value };
                all.extend(cell.ours.as_ref().map(figure));
            }
        }
    }
    all
}

fn change(a: &Value, b: &Value, better: Option<Better>) -> Change {
    let (Some(one), Some(other)) = (a.as_number(), b.as_number()) else {
        // A figure is better than words (`refused`) where a figure has a better direction.
        return match (a.as_number(), b.as_number(), better) {
            (None, None, _) if a == b => Change::Same,
            (None, Some(_), Some(_)) => Change::Better,
            (Some(_), None, Some(_)) => Change::Worse,
            _ => Change::Other,
        };
    };
    let ((a_low, a_high), (b_low, b_high)) = (range(a, one), range(b, other));
    if one.total_cmp(&other).is_eq() || (a_low <= b_high && b_low <= a_high) {
        return Change::Same;
    }
    match (better, other > one) {
        (None, _) => Change::Other,
        (Some(Better::Higher), true) | (Some(Better::Lower), false) => Change::Better,
        (Some(_), _) => Change::Worse,
    }
}

/// The range of a figure's repetitions.
fn range(value: &Value, number: f64) -> (f64, f64) {
    match value {
        Value::Number { spread: Some(spread), .. } => *spread,
        _ => (number - number.abs() * ALONE / 2.0, number + number.abs() * ALONE / 2.0),
    }
}

fn grid(changed: &[Compared<'_>], paper: Paper) -> String {
    let mut grid = paper.grid();
    grid.set_header(["row", "column", "A", "B", "change", "B is"]);
    let right = |text: String| Field::new(text).set_alignment(CellAlignment::Right);
    for (figure, b, change) in changed {
        let change_of = match (figure.value.as_number(), b.as_number()) {
            (Some(a), Some(b)) if a != 0.0 => figures::percent((b - a) / a.abs() * 100.0),
            _ => String::new(),
        };
        let ink = match change {
            Change::Better => comfy_table::Color::Green,
            Change::Worse => comfy_table::Color::Red,
            Change::Other | Change::Same => comfy_table::Color::Reset,
        };
        grid.add_row([
            Field::new(figure.row),
            Field::new(words::with_unit(&figure.column.title, &figure.column.unit)),
            right(figures::ours(figure.value)),
            right(figures::ours(b)),
            right(change_of),
            Field::new(change.word()).fg(ink),
        ]);
    }
    grid.to_string()
}

/// Claims of the same text with different verdicts.
fn verdicts<'a>(a: &'a Experiment, b: &'a Experiment) -> Vec<(&'a Claim, &'a Claim)> {
    let twin = |claim: &'a Claim| b.claims.iter().find(|other| other.text == claim.text).map(|other| (claim, other));
    a.claims.iter().filter_map(twin).filter(|(a, b)| a.verdict != b.verdict).collect()
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use crate::model::Verdict;

    fn median(value: f64, least: f64, most: f64) -> Value {
        Value::Number { value, spread: Some((least, most)) }
    }

    #[test]
    fn a_change_within_the_spread_is_none() {
        let a = median(100.0, 90.0, 110.0);
        assert_eq!(change(&a, &median(115.0, 109.0, 120.0), Some(Better::Higher)), Change::Same);
        assert_eq!(change(&a, &median(125.0, 111.0, 130.0), Some(Better::Higher)), Change::Better);
        assert_eq!(change(&a, &median(125.0, 111.0, 130.0), Some(Better::Lower)), Change::Worse);
        assert_eq!(change(&a, &median(80.0, 70.0, 85.0), Some(Better::Lower)), Change::Better);
        assert_eq!(change(&a, &median(80.0, 70.0, 85.0), None), Change::Other);
    }

    #[test]
    fn a_figure_without_repetitions_is_given_five_per_cent() {
        let number = Value::number;
        assert_eq!(change(&number(100.0), &number(104.0), Some(Better::Higher)), Change::Same);
        assert_eq!(change(&number(100.0), &number(106.0), Some(Better::Higher)), Change::Better);
        assert_eq!(change(&number(0.0), &number(0.0), Some(Better::Lower)), Change::Same);
        assert_eq!(change(&number(0.0), &number(3.0), Some(Better::Lower)), Change::Worse);
        assert_eq!(change(&Value::text("refused"), &number(3.0), Some(Better::Lower)), Change::Better);
        assert_eq!(change(&Value::text("refused"), &Value::text("refused"), None), Change::Same);
    }

    #[test]
    fn a_run_is_the_same_as_itself() {
        let report = sample::report();
        let text = text(&report, &report, Paper::FILE);
        assert!(text.contains("better in 0 figures, worse in 0; 0 differ"), "{text}");
        assert!(!text.contains("! "), "{text}");
    }

    #[test]
    fn what_differs_between_two_runs_is_said() {
        let a = sample::report();
        let mut b = a.clone();
        b.length = Length::Standard;
        b.machine.cores = 64;
        b.versions.insert("Weir".to_owned(), "0.2.0".to_owned());
        b.versions.remove("pgbench");
        b.experiments[0].tables[0].rows[0].cells[0].ours = Some(median(9000.0, 8900.0, 9100.0));
        b.experiments[0].claims[0].verdict = Verdict::Open;
        b.experiments.remove(1);
        let text = text(&a, &b, Paper::FILE);
        for said in [
            "machines differ",
            "64 cores",
            "lengths differ: A quick; B standard",
            "Weir differs: A 0.1.0; B 0.2.0",
            "pgbench differs: A 15.18; B none",
            "Only in A",
            "✔ → ?",
            "better in 1 figure, worse in 0",
            "1 claim has another verdict",
        ] {
            assert!(text.replace('\n', " ").contains(said), "{said}: {text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }
}
