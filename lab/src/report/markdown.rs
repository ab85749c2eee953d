//! A report as Markdown, for pasting into discussions; and the pages below `docs`, whose figures come from a stored
//! report.
//!
//! Owns the blocks `<!-- lab:ID -->` … `<!-- /lab -->` of such a page: `WEIR_BLESS=1 cargo test -p weir-lab` writes
//! the text between the marks, and the same test without it compares the text, so that no page contains a figure that
//! was not measured.

use std::fmt::Write as _;

use super::{figures, words};
use crate::model::{Cell, Experiment, Report, Table, Value, Verdict};

/// The whole report.
pub(super) fn text(report: &Report) -> String {
    let mut text = format!("# {}\n\n{}", words::title(report), run(report));
    for experiment in &report.experiments {
        let _ = write!(text, "\n## {}\n\n{}\n\n", escape(&experiment.title), escape(&experiment.question));
        experiment.tables.iter().for_each(|table| text += &self::table(table));
        text += &claims(experiment);
        experiment.warnings.iter().for_each(|warning| {
            let _ = writeln!(text, "> {}", escape(warning));
        });
    }
    text
}

/// Begins a block, with what is in it.
#[cfg(test)]
const BEGIN: &str = "<!-- lab:";

/// Ends a block.
#[cfg(test)]
const END: &str = "<!-- /lab -->";

/// The parts of an experiment in a block.
#[cfg(test)]
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
/// A block without an end, or of an experiment that is not in the report.
#[cfg(test)]
fn fill(page: &str, report: &Report) -> Result<String, String> {
    if !page.contains(BEGIN) {
        return Ok(page.to_owned());
    }
    let mut filled = String::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let _ = writeln!(filled, "{line}");
        let Some(name) = line.strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix(" -->")) else { continue };
        if !lines.any(|line| line == END) {
            return Err(format!("the block {name} has no end, {END}"));
        }
        let _ = write!(filled, "\n{}\n{END}\n", block(name, report)?);
    }
    Ok(filled)
}

#[cfg(test)]
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

/// Our figures, with the published ones in brackets.
fn table(table: &Table) -> String {
    let heads = table.columns.iter().map(|column| words::with_unit(&column.title, &column.unit));
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
        let _ = writeln!(text, "\n{}", escape(&figures::in_sentence(&table.note)));
    }
    text + "\n"
}

fn cell(cell: &Cell) -> String {
    match (&cell.ours, &cell.published) {
        (Some(ours), Some(published)) => format!("{} ({})", measured(ours), escape(&figures::published(published))),
        (Some(ours), None) => measured(ours),
        (None, Some(published)) => format!("({})", escape(&figures::published(published))),
        (None, None) => String::new(),
    }
}

fn measured(value: &Value) -> String {
    escape(&figures::ours(value))
}

fn claims(experiment: &Experiment) -> String {
    let mut text = String::new();
    for claim in &experiment.claims {
        let verdict = match claim.verdict {
            Verdict::Held => "**Held.**",
            Verdict::NotHeld => "**Did not hold.**",
            Verdict::Open => "**Open.**",
        };
        let _ = writeln!(
            text,
            "- {verdict} {}: {}",
            escape(claim.text.trim_end_matches('.')),
            escape(&figures::in_sentence(&claim.why))
        );
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
    use crate::report::sample;

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
        let report = crate::report::read(&root().join(KEPT)).unwrap();
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

    #[test]
    fn a_block_is_filled_again_and_again_and_the_rest_of_the_page_is_left_alone() {
        let report = sample::report();
        let id = &report.experiments[0].id;
        let page = format!("# A page\n\n<!-- lab:{id} -->\nold\n<!-- /lab -->\n\nThe end.\n");
        let filled = fill(&page, &report).unwrap();
        assert!(filled.contains(&report.experiments[0].claims[0].why) && !filled.contains("\nold\n"), "{filled}");
        assert!(filled.starts_with("# A page\n\n<!-- lab:") && filled.ends_with("<!-- /lab -->\n\nThe end.\n"));
        assert_eq!(fill(&filled, &report).unwrap(), filled);
        let tables = fill(&page.replace(" -->\nold", ":tables -->\nold"), &report).unwrap();
        assert!(!tables.contains(&report.experiments[0].claims[0].why) && tables.contains("| "), "{tables}");
    }

    #[test]
    fn a_block_that_cannot_be_filled_is_an_error() {
        let report = sample::report();
        for page in
            ["<!-- lab:nothing -->\n<!-- /lab -->\n", "<!-- lab:sample -->\n", "<!-- lab:x:y -->\n<!-- /lab -->"]
        {
            assert!(fill(page, &report).is_err(), "{page}");
        }
    }
}
