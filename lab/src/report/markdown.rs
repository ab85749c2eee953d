//! An experiment as Markdown, for the pages in `docs/articles`, whose figures come from a kept report.
//!
//! Owns the blocks `<!-- lab:ID -->` … `<!-- /lab -->` of a page: what stands between the marks is written by
//! `WEIR_BLESS=1 cargo test -p weir-lab`, and compared by the same test without it, so that no page tells of a figure that
//! nobody measured.

use std::fmt::Write as _;

use super::number;
use crate::model::{Cell, Experiment, Report, Table, Value, Verdict};

const END: &str = "<!-- /lab -->";

/// What of an experiment a block shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Tables, verdicts, and a line about the run.
    All,
    /// The tables alone, for pages in other languages.
    Tables,
    /// The verdicts alone.
    Claims,
}

/// The page with its blocks filled from the report.
///
/// # Errors
/// A block without an end, or of an experiment that the report does not hold.
pub(crate) fn fill(page: &str, report: &Report) -> Result<String, String> {
    let mut filled = String::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let _ = writeln!(filled, "{line}");
        let Some(name) = line.strip_prefix("<!-- lab:").and_then(|rest| rest.strip_suffix(" -->")) else { continue };
        if !lines.any(|line| line == END) {
            return Err(format!("the block {name} has no end, {END}"));
        }
        let _ = write!(filled, "\n{}\n{END}\n", block(name, report)?);
    }
    Ok(filled)
}

fn block(name: &str, report: &Report) -> Result<String, String> {
    let (id, part) = match name.split_once(':') {
        None => (name, Part::All),
        Some((id, "tables")) => (id, Part::Tables),
        Some((id, "claims")) => (id, Part::Claims),
        Some((_, other)) => return Err(format!("a block shows tables or claims, not {other}")),
    };
    let experiment = report.experiments.iter().find(|experiment| experiment.id == id);
    let experiment = experiment.ok_or_else(|| format!("the report has no experiment {id}"))?;
    let mut text = String::new();
    if part != Part::Claims {
        experiment.tables.iter().for_each(|table| text += &self::table(table));
    }
    if part != Part::Tables {
        text += &claims(experiment);
    }
    if part == Part::All {
        text += &run(report);
    }
    Ok(text)
}

/// Ours, and the published figure in brackets.
fn table(table: &Table) -> String {
    let unit = |unit: &str| if unit.is_empty() { String::new() } else { format!(", {unit}") };
    let heads = table.columns.iter().map(|column| format!("{}{}", column.title, unit(&column.unit)));
    let heads: Vec<_> = std::iter::once(table.rows_are.clone()).chain(heads).map(|head| escape(&head)).collect();
    let both = table.rows.iter().flat_map(|row| &row.cells).any(|cell| cell.published.is_some());
    let legend = if both { " (published figures in brackets)" } else { "" };
    let mut text = format!("**{}**{legend}\n\n| {} |\n|", escape(&table.title), heads.join(" | "));
    text += "---|";
    table.columns.iter().for_each(|_| text += "--:|");
    text += "\n";
    for row in &table.rows {
        let cells: Vec<_> = row.cells.iter().map(cell).collect();
        let _ = writeln!(text, "| {} | {} |", escape(&row.label), cells.join(" | "));
    }
    if !table.note.is_empty() {
        let _ = writeln!(text, "\n{}", escape(&table.note));
    }
    text + "\n"
}

fn cell(cell: &Cell) -> String {
    match (&cell.ours, &cell.published) {
        (Some(ours), Some(published)) => format!("{} ({})", value(ours), value(published)),
        (Some(ours), None) => value(ours),
        (None, Some(published)) => format!("({})", value(published)),
        (None, None) => String::new(),
    }
}

fn value(value: &Value) -> String {
    match value {
        Value::Number { value, .. } => number(*value),
        Value::Text(text) => escape(text),
    }
}

fn claims(experiment: &Experiment) -> String {
    let mut text = String::new();
    for claim in &experiment.claims {
        let verdict = match claim.verdict {
            Verdict::Held => "**Held.**",
            Verdict::NotHeld => "**Did not hold.**",
            Verdict::Open => "**Open.**",
        };
        let _ = writeln!(text, "- {verdict} {}: {}", escape(claim.text.trim_end_matches('.')), escape(&claim.why));
    }
    text + "\n"
}

fn run(report: &Report) -> String {
    let machine = &report.machine;
    let versions: Vec<_> = report.versions.iter().map(|(name, version)| format!("{name} {version}")).collect();
    let day = report.began.split('T').next().unwrap_or_default();
    let gib = machine.memory_bytes >> 30;
    format!(
        "Measured by `{}` on {day}: {} cores, {gib} GiB, {}. {}.\n",
        report.command,
        machine.cores,
        machine.system,
        versions.join(", ")
    )
}

fn escape(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;

    /// The run whose figures the pages show.
    const KEPT: &str = "docs/articles/standard-2-cores.json";

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
    }

    /// All pages below `docs`.
    fn pages(folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let found = entries.flat_map(|path| if path.is_dir() { pages(&path) } else { vec![path] });
        found.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
    }

    #[test]
    fn the_figures_on_the_pages_are_those_of_the_kept_run() {
        let report = super::super::read(&root().join(KEPT)).unwrap();
        let bless = std::env::var_os("WEIR_BLESS").is_some();
        let mut stale = Vec::new();
        for path in pages(&root().join("docs")) {
            let page = fs::read_to_string(&path).unwrap();
            let filled = fill(&page, &report).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            if filled != page && bless {
                fs::write(&path, filled).unwrap();
            } else if filled != page {
                stale.push(path);
            }
        }
        assert!(stale.is_empty(), "WEIR_BLESS=1 cargo test -p weir-lab writes these anew: {stale:?}");
    }
}
