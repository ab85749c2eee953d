//! docs/drivers.md, made of the kept results.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::{Outcome, Run, all, kept, names, title};

const HEAD: &str = "\
# Drivers

<!-- Made by `make drivers` of the results kept in tests/drivers; not to be edited. -->

Real drivers through Weir, each with its default settings, in session and in transaction mode. The same program runs
against PostgreSQL itself (*direct*), which proves the checks. A row has the versions as the packages said them at run
time, and the day of the run. What could not be run that day keeps its last result.

`make drivers` runs all of them and writes this page; `make drivers ONLY=pgx SERVER=18` runs one, with one version of
PostgreSQL. [tests/drivers](../tests/drivers/README.md) has the programs, a folder a driver.
";

/// The page.
pub fn page() -> String {
    let drivers: Vec<Driver> = all().iter().map(|name| Driver { title: title(name), runs: kept(name) }).collect();
    let mut text = HEAD.to_owned();
    results(&mut text, &drivers);
    settings(&mut text, &drivers);
    matrix(&mut text, &drivers);
    lacking(&mut text, &drivers);
    text.push_str("\n## What is checked\n\n| check | |\n|---|---|\n");
    names().iter().for_each(|(name, what)| _ = writeln!(text, "| {name} | {what} |"));
    text
}

struct Driver {
    title: String,
    runs: Vec<Run>,
}

fn results(text: &mut String, drivers: &[Driver]) {
    text.push_str("\n## Results\n\n| driver | version | PostgreSQL | direct | session | transaction | run |\n|---|---|---|---|---|---|---|\n");
    for driver in drivers {
        if driver.runs.is_empty() {
            let _ = writeln!(text, "| {} | not run yet | | | | | |", driver.title);
        }
        let majors: BTreeSet<u32> = driver.runs.iter().map(Run::major).collect();
        for major in majors {
            let runs: Vec<&Run> = driver.runs.iter().filter(|run| run.major() == major).collect();
            let cell =
                |mode: &str| runs.iter().find(|run| run.mode == mode).map_or_else(String::new, |run| result(run));
            let latest = runs.iter().max_by_key(|run| &run.date).expect("there is one of this version");
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} | {} |",
                driver.title,
                latest.version,
                latest.server,
                cell("direct"),
                cell("session"),
                cell("transaction"),
                latest.date,
            );
        }
    }
}

fn result(run: &Run) -> String {
    let failed = run.failed();
    if failed.is_empty() {
        return format!("{} passed", run.passed());
    }
    format!("{} passed, **failed: {}**", run.passed(), failed.join(", "))
}

/// What needs something: a setting, or session mode.
fn settings(text: &mut String, drivers: &[Driver]) {
    text.push_str("\n## What needs a setting, or session mode\n\n");
    text.push_str(
        "All else works with the driver's defaults.\n\n| driver | check | where | what |\n|---|---|---|---|\n",
    );
    for driver in drivers {
        let mut rows: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
        for run in &driver.runs {
            for check in &run.checks {
                match &check.outcome {
                    Outcome::WithSetting(note) => rows.entry((&check.name, note)).or_default().insert(&run.mode),
                    Outcome::NotThere(note) if !driver.lacks(&check.name) => {
                        rows.entry((&check.name, note)).or_default().insert(&run.mode)
                    }
                    _ => continue,
                };
            }
        }
        for ((name, note), modes) in rows {
            let modes: Vec<&str> = modes.into_iter().collect();
            let _ = writeln!(text, "| {} | {name} | {} | {note} |", driver.title, modes.join(", "));
        }
    }
}

impl Driver {
    /// Is it the driver, and no mode, that has nothing of the kind?
    fn lacks(&self, name: &str) -> bool {
        let direct = self.runs.iter().find(|run| run.mode == "direct");
        direct.is_some_and(|run| matches!(run.outcome(name), Some(Outcome::NotThere(_))))
    }

    fn cell(&self, name: &str) -> &'static str {
        let of = |mode| self.runs.iter().filter(move |run| run.mode == mode).filter_map(|run| run.outcome(name));
        let fails = |mode| of(mode).any(|outcome| matches!(outcome, Outcome::Failed(_)));
        let passes = |mode| of(mode).any(|outcome| matches!(outcome, Outcome::Passed | Outcome::WithSetting(_)));
        if fails("session") || fails("transaction") {
            return "fails";
        }
        let with_setting = self.runs.iter().filter_map(|run| run.outcome(name));
        match (passes("session"), passes("transaction")) {
            (true, true) if with_setting.into_iter().any(|o| matches!(o, Outcome::WithSetting(_))) => "setting",
            (true, true) => "yes",
            (true, false) => "session",
            _ => "–",
        }
    }
}

fn matrix(text: &mut String, drivers: &[Driver]) {
    text.push_str("\n## Check by check\n\n");
    text.push_str("*yes*: in both modes with the defaults; *session*: in session mode; *setting*: see above; –: the driver has no such thing, see below.\n\n| |");
    let run: Vec<&Driver> = drivers.iter().filter(|driver| !driver.runs.is_empty()).collect();
    run.iter().for_each(|driver| _ = write!(text, " {} |", driver.title));
    text.push_str("\n|---|");
    run.iter().for_each(|_| text.push_str("---|"));
    text.push('\n');
    for (name, _) in names() {
        let _ = write!(text, "| {name} |");
        run.iter().for_each(|driver| _ = write!(text, " {} |", driver.cell(&name)));
        text.push('\n');
    }
}

/// The reasons behind each –, where it is the driver that has nothing of the kind.
fn lacking(text: &mut String, drivers: &[Driver]) {
    text.push_str("\n## What drivers do not have\n\n| driver | check | why |\n|---|---|---|\n");
    for driver in drivers {
        let mut checks: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        // The first such run says it for all, of each mode and version.
        for check in driver.runs.iter().find(|run| run.mode == "direct").map_or(&[][..], |run| &run.checks) {
            if let Outcome::NotThere(why) = &check.outcome {
                checks.entry(why).or_default().push(&check.name);
            }
        }
        for (why, names) in checks {
            let _ = writeln!(text, "| {} | {} | {why} |", driver.title, names.join(", "));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_driver_with_a_folder_stands_on_the_page() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/drivers.md");
        let written = fs::read_to_string(path).expect("docs/drivers.md");
        let missing: Vec<_> = all().into_iter().filter(|name| !written.contains(&title(name))).collect();
        let cure = "cargo run -p weir-tests --bin drivers page > docs/drivers.md";
        assert!(missing.is_empty(), "docs/drivers.md does not tell of {missing:?}: {cure}");
    }
}
