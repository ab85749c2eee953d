//! A report as one self-contained HTML file: no script, no font, no picture from elsewhere.
//!
//! Everything is escaped by construction. The policy in its head forbids a browser to fetch anything. Links lead to
//! anchors within the page, and to the raw outputs beside it.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{chart, figures, words};
use crate::length::Length;
use crate::model::{Better, Cell, Claim, Column, Experiment, Missing, Ran, Report, Table, Value, Verdict};

const STYLE: &str = include_str!("style.css");
/// Nothing is fetched; only the page's own style applies.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// A cell's words up to this length are not broken.
const LONG: usize = 14;

/// A longer label of a row gets more room.
const SHORT: usize = 8;

/// Whether an experiment is alone on the page: then the page's title is its own, and is not repeated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Company {
    Alone,
    Others,
}

/// The whole page.
pub(super) fn page(report: &Report) -> Markup {
    let company = if report.experiments.len() == 1 { Company::Alone } else { Company::Others };
    let title = words::title(report);
    let hues = chart::Hues::of_all(report.experiments.iter().flat_map(|experiment| &experiment.charts));
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                title { (title) " · weir lab" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                (weaves())
                main {
                    (head(report, &title))
                    (verdicts(report, company))
                    @for experiment in &report.experiments { (experiment_section(experiment, company, &hues)) }
                    (foot())
                }
            }
        }
    }
}

fn head(report: &Report, title: &str) -> Markup {
    html! {
        header class="top" {
            p class="brand" { "weir lab" span { (report.length) " run" } }
            h1 { (title) }
            @if report.length == Length::Smoke {
                p class="banner" role="note" {
                    strong { "These figures mean nothing." } " This was a smoke test: every step ran for a moment only."
                }
            }
            dl class="facts" {
                (fact("When", &words::when(report)))
                (fact("Machine", &words::hardware(&report.machine)))
                (fact("System", &words::system(&report.machine)))
                (fact("Length", &words::length(report.length)))
                div { dt { "Command" } dd { code { (report.command) } } }
                @if !report.versions.is_empty() {
                    div {
                        dt { "Versions" }
                        dd class="versions" {
                            @for (program, version) in &report.versions { span { (program) " " b { (version) } } " " }
                        }
                    }
                }
            }
        }
    }
}

fn fact(name: &str, text: &str) -> Markup {
    html! { @if !text.is_empty() { div { dt { (name) } dd { (text) } } } }
}

/// The results and their sections: the summary is the table of contents.
fn verdicts(report: &Report, company: Company) -> Markup {
    let tally = words::Tally::of_report(report);
    let share = |n: usize, class: &str, words: &str| {
        html! { p class={ "share " (if n > 0 { class } else { "none" }) } { b { (n) } " " (words) } }
    };
    html! {
        section class="verdicts" aria-labelledby="verdicts" {
            h2 id="verdicts" { "What held" }
            div class="tally" {
                (share(tally.held, "held", if tally.held == 1 { "claim held" } else { "claims held" }))
                (share(tally.not, "not", "did not hold"))
                (share(tally.open, "open", if tally.open == 1 { "is open" } else { "are open" }))
            }
            nav aria-label="Contents" {
                ol class="contents" {
                    @for experiment in &report.experiments { li { (entry(experiment, company)) } }
                }
            }
        }
    }
}

fn entry(experiment: &Experiment, company: Company) -> Markup {
    let id = anchor(&experiment.id);
    html! {
        @if company == Company::Others { a class="to" href={ "#" (id) } { (experiment.title) } }
        @if experiment.claims.is_empty() { p class="quiet" { "No claim to check." } }
        ul {
            @for (i, claim) in experiment.claims.iter().enumerate() {
                li class=(class(claim.verdict)) {
                    (sign(claim.verdict))
                    a href={ "#" (id) "-claim-" (i + 1) } { (prose(&claim.text)) }
                }
            }
        }
    }
}

fn experiment_section(experiment: &Experiment, company: Company, hues: &chart::Hues) -> Markup {
    let id = anchor(&experiment.id);
    html! {
        article id=(id) {
            header {
                p class="eyebrow" { a href={ "#" (id) } { (experiment.id) } }
                @match company {
                    Company::Others => h2 { (experiment.title) },
                    Company::Alone => h2 class="small" { "The experiment" },
                }
                @if !experiment.question.is_empty() { p class="question" { (prose(&experiment.question)) } }
                @if !experiment.source.is_empty() { p class="source" { "After: " (experiment.source) } }
            }
            (warnings(&experiment.warnings))
            @for missing in &experiment.missing { (absent(missing)) }
            @if !experiment.claims.is_empty() {
                section class="claims" {
                    h3 { "Claims" }
                    @for (i, one) in experiment.claims.iter().enumerate() { (claim(&id, i + 1, one)) }
                }
            }
            @if !(experiment.tables.is_empty() && experiment.charts.is_empty()) {
                section class="figures" {
                    h3 { "Figures" }
                    @for one in &experiment.tables { (table(one)) }
                    (chart::figures(&experiment.charts, hues))
                }
            }
            (sentences("Set-up", "setup", &experiment.setup))
            (sentences("What the original does not say", "hides", &experiment.hides))
            (commands(&experiment.commands))
        }
    }
}

fn claim(id: &str, number: usize, claim: &Claim) -> Markup {
    html! {
        div class={ "claim " (class(claim.verdict)) } id={ (id) "-claim-" (number) } {
            p class="badge" { (sign(claim.verdict)) (words::verdict(claim.verdict)) }
            div {
                p class="text" { (prose(&claim.text)) }
                @if !claim.why.is_empty() { p class="why" { (prose(&figures::in_sentence(&claim.why))) } }
            }
        }
    }
}

/// A sentence; text in backticks is code.
fn prose(text: &str) -> Markup {
    html! {
        @for (i, part) in text.split('`').enumerate() {
            @if i % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

fn warnings(warnings: &[String]) -> Markup {
    html! {
        @if !warnings.is_empty() {
            div class="warnings" role="note" {
                h3 { "Read with care" }
                ul { @for warning in warnings { li { (warning) } } }
            }
        }
    }
}

fn absent(missing: &Missing) -> Markup {
    html! {
        div class="missing" role="note" {
            p { b { (missing.what) } " was not here: " (missing.effect) }
            @if !missing.get.is_empty() { p { "Get it with " code { (missing.get) } } }
        }
    }
}

fn sentences(title: &str, class: &str, sentences: &[String]) -> Markup {
    html! {
        @if !sentences.is_empty() {
            section class={ "sentences " (class) } {
                h3 { (title) }
                ul { @for sentence in sentences { li { (prose(sentence)) } } }
            }
        }
    }
}

fn commands(commands: &[Ran]) -> Markup {
    html! {
        @if !commands.is_empty() {
            details class="commands" {
                summary { "Commands and raw outputs " span class="quiet" { (commands.len()) } }
                ol {
                    @for ran in commands {
                        li {
                            p {
                                (ran.what)
                                @if ran.raw.starts_with("raw/") { " " a href=(ran.raw) { "output" } }
                            }
                            pre { code { (ran.line) } }
                        }
                    }
                }
            }
        }
    }
}

fn table(table: &Table) -> Markup {
    let published: Vec<bool> = (0..table.columns.len()).map(|i| has_published(table, i)).collect();
    let any = published.contains(&true);
    html! {
        figure class="table" {
            figcaption { (table.title) }
            @if table.rows.is_empty() {
                p class="nothing" { "Nothing was measured." }
            } @else {
                div class="scroll" tabindex="0" role="region" aria-label=(table.title) {
                    table {
                        thead {
                            tr {
                                th scope="col" rowspan=[any.then_some("2")] { (table.rows_are) }
                                @for (column, pair) in table.columns.iter().zip(&published) {
                                    th scope="col" class="figure" colspan=[pair.then_some("2")] { (heading(column)) }
                                }
                            }
                            @if any { (halves(&published)) }
                        }
                        tbody { @for row in &table.rows { (line(&row.label, &row.cells, &published)) } }
                    }
                }
            }
            @if !table.note.is_empty() { p class="note" { (prose(&figures::in_sentence(&table.note))) } }
        }
    }
}

/// The second line of a head: which of two columns is measured here.
fn halves(published: &[bool]) -> Markup {
    html! {
        tr class="halves" {
            @for pair in published {
                th scope="col" class="ours" { "here" }
                @if *pair { th scope="col" class="theirs" { "published" } }
            }
        }
    }
}

fn heading(column: &Column) -> Markup {
    let (arrow, better) = match column.better {
        Some(Better::Higher) => (Some("↑"), Some("higher is better")),
        Some(Better::Lower) => (Some("↓"), Some("lower is better")),
        None => (None, None),
    };
    html! {
        (column.title)
        @if !column.unit.is_empty() || column.better.is_some() {
            " "
            span class="unit" title=[better] { (column.unit) @if let Some(arrow) = arrow { " " (arrow) } }
        }
    }
}

fn line(label: &str, cells: &[Cell], published: &[bool]) -> Markup {
    let none = Cell::default();
    html! {
        tr {
            th scope="row" class=[(label.chars().count() > SHORT).then_some("named")] { (label) }
            @for (i, pair) in published.iter().enumerate() {
                @let cell = cells.get(i).unwrap_or(&none);
                td class="ours" { (ours(cell)) }
                @if *pair {
                    td class="theirs" { @if let Some(value) = &cell.published { (theirs(value)) } }
                }
            }
        }
    }
}

fn ours(cell: &Cell) -> Markup {
    html! {
        @match &cell.ours {
            Some(number @ Value::Number { value, spread }) => {
                @let range = spread.map(|(least, most)| {
                    format!("between {} and {}", figures::measured(least), figures::measured(most))
                });
                span title=[range] {
                    (figures::measured(*value))
                    @if let Some(spread) = figures::spread(number) { span class="spread" { " " (spread) } }
                }
            },
            Some(Value::Text(text)) => span class={ "words" (long(text)) } { (text) },
            None => @if cell.published.is_some() { span class="quiet" { "–" } },
        }
    }
}

fn theirs(value: &Value) -> Markup {
    let text = figures::published(value);
    html! { @if long(&text).is_empty() { (text) } @else { span class=(long(&text).trim()) { (text) } } }
}

/// The class of words that may be broken.
fn long(text: &str) -> &'static str {
    if text.chars().count() > LONG { " long" } else { "" }
}

fn foot() -> Markup {
    html! {
        footer {
            p {
                "The same as " a href="report.json" { "JSON" } " and as " a href="report.txt" { "text" }
                "; raw outputs are in " a href="raw/" { "raw/" } ". Two runs are set side by side by "
                code { "weir lab compare A.json B.json" } "."
            }
        }
    }
}

/// The patterns of bars on paper, where colours may be grey.
fn weaves() -> Markup {
    let weave = |n: usize, path: &str| {
        html! {
            pattern id={ "weave" (n) } width="6" height="6" patternUnits="userSpaceOnUse" { path d=(path) {} }
        }
    };
    html! {
        svg class="defs" width="0" height="0" aria-hidden="true" {
            defs {
                (weave(1, "M-1 1l2 -2M0 6l6 -6M5 7l2 -2"))
                (weave(2, "M0 3h6"))
                (weave(3, "M3 0v6"))
                (weave(4, "M0 0l6 6M-1 5l2 2M5 -1l2 2"))
                (weave(5, "M0 3h6M3 0v6"))
            }
        }
    }
}

fn has_published(table: &Table, column: usize) -> bool {
    table.rows.iter().filter_map(|row| row.cells.get(column)).any(|cell| cell.published.is_some())
}

fn sign(verdict: Verdict) -> Markup {
    html! { span class="sign" aria-hidden="true" { (words::sign(verdict)) } }
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Held => "held",
        Verdict::NotHeld => "not",
        Verdict::Open => "open",
    }
}

/// The anchor of an experiment within the page.
fn anchor(id: &str) -> String {
    id.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn nothing_that_a_report_says_becomes_markup() {
        let mut report = sample::report();
        let evil = "<script>alert('x')</script> \" onload=\"x";
        let first = &mut report.experiments[0];
        for text in [&mut first.title, &mut first.question, &mut first.source, &mut first.id] {
            *text = evil.to_owned();
        }
        for text in [&mut first.setup, &mut first.hides, &mut first.warnings] {
            text.push(evil.to_owned());
        }
        first.tables[0].title = evil.to_owned();
        first.tables[0].columns[0].title = evil.to_owned();
        first.tables[0].rows[0].label = evil.to_owned();
        first.tables[0].rows[0].cells[0].ours = Some(Value::text(evil));
        first.charts[0].title = evil.to_owned();
        first.charts[0].series[0].name = evil.to_owned();
        first.claims[0].why = evil.to_owned();
        first.commands[0].line = evil.to_owned();
        first.commands[0].raw = "javascript:alert(1)".to_owned();
        report.machine.processor = evil.to_owned();
        report.versions.insert(evil.to_owned(), evil.to_owned());
        let page = page(&report).into_string();
        assert!(!page.contains("<script") && !page.contains("\" onload") && !page.contains("javascript:"));
        assert!(page.matches("&lt;script&gt;").count() >= 15);
    }

    #[test]
    fn every_figure_and_every_sentence_of_a_report_is_on_its_page() {
        let report = sample::report();
        let page = page(&report).into_string();
        let escaped = |text: &str| html! { (text) }.into_string();
        for experiment in &report.experiments {
            for text in sample::sentences(experiment) {
                assert!(page.contains(&escaped(&text)), "{text}");
            }
            for cell in experiment.tables.iter().flat_map(|table| &table.rows).flat_map(|row| &row.cells) {
                let ours = cell.ours.as_ref().map(|value| match value {
                    Value::Number { value, .. } => figures::measured(*value),
                    Value::Text(text) => text.clone(),
                });
                for figure in [ours, cell.published.as_ref().map(figures::published)].into_iter().flatten() {
                    assert!(page.contains(&escaped(&figure)), "{figure}");
                }
            }
        }
    }

    #[test]
    fn the_page_needs_nothing_from_elsewhere() {
        let page = page(&sample::report()).into_string();
        for fetched in ["src=", "<link", "<script", "@import", "url(http", "url(//", "href=\"http", "xlink", "NaN"] {
            assert!(!page.contains(fetched), "{fetched}");
        }
        let links = page.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
        for link in links {
            assert!(link.starts_with('#') || link.starts_with("raw/") || link.starts_with("report."), "{link}");
            if let Some(place) = link.strip_prefix('#') {
                assert_eq!(page.matches(&format!(" id=\"{place}\"")).count(), 1, "{place}");
            }
        }
    }

    #[test]
    fn a_smoke_test_says_that_its_figures_mean_nothing() {
        let mut report = sample::report();
        assert!(!page(&report).into_string().contains("These figures mean nothing"));
        report.length = Length::Smoke;
        assert!(page(&report).into_string().contains("These figures mean nothing"));
    }

    #[test]
    fn a_report_of_nothing_is_a_page_all_the_same() {
        let mut report = sample::report();
        report.experiments.push(Experiment::empty("none", "Nothing"));
        report.experiments[0].tables[0].rows.clear();
        report.experiments[0].tables[0].columns.clear();
        report.experiments[0].charts[0].series.clear();
        assert!(page(&report).into_string().contains("Nothing was measured."));
        report.experiments.clear();
        report.versions.clear();
        assert!(page(&report).into_string().contains("What held"));
    }
}
