//! PostgreSQL's own tests, directly and through Weir in the modes session and auto: the outputs must be equal.
//!
//! `regress FOLDER [--suite NAME] [--mode NAME] [TEST…]`: the folder is `src/test` of PostgreSQL's sources, prepared by
//! `tests/regress/run.sh`. Each run has a new server. Its output is compared with that of the direct run, not with the
//! files of expected output: where the distribution's server prints something else, it does so in both runs.
//! `tests/regress/differences.txt` has the tests that must differ, in how many lines, and why.

mod listed;
mod run;
mod suite;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use listed::Listed;
use run::{Run, run};
use suite::{Suite, Way};

const USAGE: &str = "\
usage: regress FOLDER [--suite regression|isolation] [--mode session|auto] [TEST…]
  FOLDER is src/test of PostgreSQL's sources; try `make regress`";

fn main() -> ExitCode {
    let Some(asked) = Asked::read(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let mut alike = true;
    for suite in &asked.suites {
        match compare(*suite, &asked) {
            Ok(same) => alike &= same,
            Err(error) => {
                eprintln!("regress: {error}");
                return ExitCode::from(2);
            }
        }
    }
    if alike { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The arguments.
struct Asked {
    sources: PathBuf,
    suites: Vec<Suite>,
    ways: Vec<Way>,
    /// None: all of the suite's schedule.
    tests: Vec<String>,
}

impl Asked {
    fn read(mut arguments: impl Iterator<Item = String>) -> Option<Asked> {
        let sources = PathBuf::from(arguments.next()?);
        let (mut suites, mut ways, mut tests) = (Suite::ALL.to_vec(), Way::POOLED.to_vec(), Vec::new());
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--suite" => suites = vec![Suite::named(&arguments.next()?)?],
                "--mode" => ways = vec![Way::named(&arguments.next()?)?],
                option if option.starts_with('-') => return None,
                test => tests.push(test.to_owned()),
            }
        }
        // Single tests are those of one suite.
        if !tests.is_empty() {
            suites.truncate(1);
        }
        Some(Asked { sources, suites, ways, tests })
    }
}

/// Runs a suite each way, and prints the differences. False: there are some that are not listed.
fn compare(suite: Suite, asked: &Asked) -> Result<bool, String> {
    let direct = run(&asked.sources, suite, &asked.tests, Way::Direct)?;
    let mut same = !direct.outputs.is_empty();
    for way in &asked.ways {
        let pooled = run(&asked.sources, suite, &asked.tests, *way)?;
        same &= judge(suite, *way, &direct, &pooled)?;
    }
    Ok(same)
}

fn judge(suite: Suite, way: Way, direct: &Run, pooled: &Run) -> Result<bool, String> {
    let (mut wrong, mut expected, mut not_run, mut lines) = (0, 0, 0, 0);
    for (test, output) in &direct.outputs {
        lines += output.lines().count();
        let listed = listed::of(suite, way, test);
        let found = match (pooled.outputs.get(test), &listed) {
            (None, Some(Listed { lines: None, why })) => {
                not_run += 1;
                println!("{test} can't be run: {why}");
                continue;
            }
            (found, _) => found.map_or("", String::as_str),
        };
        let difference = difference(output, found)?;
        match (difference.lines, &listed) {
            (0, None) => {}
            (0, Some(_)) => println!("{test} is listed as different, but is the same"),
            (differ, Some(Listed { lines: Some(most), why })) if differ <= *most => {
                expected += 1;
                println!("{test} differs in {differ} lines, as expected: {why}");
            }
            (differ, _) => {
                wrong += 1;
                println!("{test} differs in {differ} lines:\n{}", difference.text);
            }
        }
    }
    println!(
        "{suite}, {way}: {} tests, {lines} lines of output, {wrong} differ, {expected} as listed, {not_run} not run; direct \
         {} in {} s, through Weir {} in {} s",
        direct.outputs.len(),
        direct.summary,
        direct.seconds,
        pooled.summary,
        pooled.seconds,
    );
    Ok(wrong == 0)
}

/// How two outputs differ.
struct Difference {
    /// Lines that only one of them has.
    lines: usize,
    /// As `diff -u` shows it.
    text: String,
}

fn difference(expected: &str, found: &str) -> Result<Difference, String> {
    if expected == found {
        return Ok(Difference { lines: 0, text: String::new() });
    }
    let folder = weir_pglocal::TempFolder::new().map_err(|error| error.to_string())?;
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).map(|()| path).map_err(|error| error.to_string())
    };
    let (direct, pooled) = (write("direct", expected)?, write("pooled", found)?);
    let output = std::process::Command::new("diff").arg("-u").args([&direct, &pooled]).output();
    let output = output.map_err(|error| format!("diff: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let text: String = text.lines().skip(2).map(|line| format!("  {line}\n")).collect();
    Ok(Difference { lines: count_changes(&text), text })
}

fn count_changes(text: &str) -> usize {
    text.lines().filter(|line| line.starts_with("  +") || line.starts_with("  -")).count()
}

/// What reading or writing a file has said.
fn said(path: &Path) -> impl Fn(std::io::Error) -> String + '_ {
    move |error| format!("{}: {error}", path.display())
}
