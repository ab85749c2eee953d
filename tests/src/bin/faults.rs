//! Measures the faults: `faults [--list] [--quick] [--weir-only] [--page] [NAME…]`; `make faults` runs it.
//!
//! Each fault is applied to Weir and, where possible and if PgBouncer is installed, to PgBouncer with the same file.
//! `--page` writes the table and the timelines into docs/faults.md; that needs a run of all faults.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use weir_tests::faults::{ALL, Fault, Form, Kind, Report};

const USAGE: &str = "usage: faults [--list] [--quick] [--weir-only] [--page] [NAME…]
  --list       say which faults there are
  --quick      in the form of the tests: less load, shorter
  --weir-only  leave PgBouncer out
  --page       put the figures into docs/faults.md (all faults only)
A fault drawn from a seed prints it; WEIR_SEED=… draws it again.";

/// A run writes its figures between these lines of the page.
const BEGIN: &str = "<!-- figures: make faults -->";
const END: &str = "<!-- end of figures -->";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let known = ["--list", "--quick", "--weir-only", "--page", "--help"];
    let names: Vec<&String> = arguments.iter().filter(|argument| !known.contains(&argument.as_str())).collect();
    if has("--list") {
        ALL.iter().for_each(|fault| println!("{:<18} {}", fault.name, fault.description));
        return ExitCode::SUCCESS;
    }
    if let Some(unknown) = names.iter().find(|name| Fault::named(name).is_none()) {
        eprintln!("faults: there is no fault {unknown}; `make faults ARGS=--list` lists them\n{USAGE}");
        return ExitCode::from(2);
    }
    if has("--help") || has("--page") && !names.is_empty() {
        println!("{USAGE}");
        return ExitCode::from(if has("--help") { 0 } else { 2 });
    }
    let chosen = ALL.iter().filter(|fault| names.is_empty() || names.iter().any(|name| *name == fault.name));
    let form = if has("--quick") { Form::Quick } else { Form::Full };
    let begin = Instant::now();
    let (mut reports, mut failed) = (Vec::new(), Vec::new());
    for fault in chosen {
        println!("\n{}: {}", fault.name, fault.description);
        for kind in [Kind::Weir, Kind::PgBouncer] {
            if kind == Kind::PgBouncer && (!fault.rival || has("--weir-only") || !kind.is_there()) {
                continue;
            }
            match catch_unwind(AssertUnwindSafe(|| fault.run(kind, form))) {
                Ok(report) => {
                    print!("{}\n{}\n{}", Report::head(), report.row(), report.timeline());
                    reports.push(report);
                }
                // The panic's message has been printed already.
                Err(_) => failed.push(format!("{} ({})", fault.name, kind.name())),
            }
        }
    }
    let block = block(&reports);
    if has("--page") && form == Form::Full && failed.is_empty() {
        write_page(&block);
    } else {
        println!("\n{block}");
    }
    let seconds = begin.elapsed().as_secs();
    if failed.is_empty() {
        println!("faults: {} runs, all passed, {seconds} s", reports.len());
        return ExitCode::SUCCESS;
    }
    println!("faults: failed: {}; {seconds} s. Again: make faults ONLY=NAME", failed.join(", "));
    ExitCode::FAILURE
}

/// Table and timelines, as the page shows them.
fn block(reports: &[Report]) -> String {
    let rows: String = reports.iter().map(|report| format!("{}\n", report.row())).collect();
    let lines: String = reports.iter().map(Report::timeline).collect();
    format!("{}\n{rows}\n```text\n{lines}```\n", Report::head())
}

fn write_page(block: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/faults.md");
    let page = fs::read_to_string(&path).expect("docs/faults.md exists");
    let (before, rest) = page.split_once(BEGIN).expect("docs/faults.md has the line where figures begin");
    let (_, after) = rest.split_once(END).expect("docs/faults.md has the line where figures end");
    fs::write(&path, format!("{before}{BEGIN}\n\n{block}\n{END}{after}")).expect("docs/faults.md can be written");
    println!("\ndocs/faults.md is updated");
}
