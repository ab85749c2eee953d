//! One run of a driver's program in one mode: parsing its output, keeping it, and the table at the end of a run.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::{MODES, folder, names};

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Passed, with the driver's defaults.
    Passed,
    /// Failed, with the reason.
    Failed(String),
    /// There is nothing to check, because the driver or the mode lacks the feature, with the reason.
    NotThere(String),
    /// Passed, but only with this setting.
    WithSetting(String),
}

/// A check and its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The check's name, one of [`names`] or the driver's own.
    pub name: String,
    /// The check's result.
    pub outcome: Outcome,
}

impl Check {
    fn parse(line: &str) -> Option<Check> {
        let (word, rest) = line.split_once(' ')?;
        let (name, note) = rest.trim_start().split_once(": ").unwrap_or((rest.trim_start(), ""));
        let note = note.trim().replace('\t', " ");
        let outcome = match word {
            // Text after a colon would be a reason, and a success has none.
            "ok" if note.is_empty() => Outcome::Passed,
            "FAIL" => Outcome::Failed(note),
            "none" => Outcome::NotThere(note),
            "set" => Outcome::WithSetting(note),
            _ => return None,
        };
        Some(Check { name: name.trim().to_owned(), outcome })
    }

    fn line(&self) -> String {
        match &self.outcome {
            Outcome::Passed => format!("ok {}", self.name),
            Outcome::Failed(note) => format!("FAIL {}: {note}", self.name),
            Outcome::NotThere(note) => format!("none {}: {note}", self.name),
            Outcome::WithSetting(note) => format!("set {}: {note}", self.name),
        }
    }
}

/// The output of one program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The server's version; empty if unknown.
    pub server: String,
    /// One of [`MODES`].
    pub mode: String,
    /// The day, `2026-11-22`.
    pub date: String,
    /// The version as the driver reports it: `psycopg 3.3.9`.
    pub version: String,
    /// The checks, in their order.
    pub checks: Vec<Check>,
}

impl Run {
    /// How many passed, with or without a setting.
    pub fn passed(&self) -> usize {
        self.count(|outcome| matches!(outcome, Outcome::Passed | Outcome::WithSetting(_)))
    }

    /// The names of those that failed.
    pub fn failed(&self) -> Vec<&str> {
        let failed = self.checks.iter().filter(|check| matches!(check.outcome, Outcome::Failed(_)));
        failed.map(|check| check.name.as_str()).collect()
    }

    /// How many have nothing to check.
    pub fn not_there(&self) -> usize {
        self.count(|outcome| matches!(outcome, Outcome::NotThere(_)))
    }

    /// The outcome of a check.
    pub fn outcome(&self, name: &str) -> Option<&Outcome> {
        self.checks.iter().find(|check| check.name == name).map(|check| &check.outcome)
    }

    /// The server's major version.
    pub fn major(&self) -> u32 {
        self.server.split(|c: char| !c.is_ascii_digit()).next().and_then(|digits| digits.parse().ok()).unwrap_or(0)
    }

    fn count(&self, fits: impl Fn(&Outcome) -> bool) -> usize {
        self.checks.iter().filter(|check| fits(&check.outcome)).count()
    }

    fn line(&self) -> String {
        let head = [&self.server, &self.mode, &self.date, &self.version].map(String::as_str).join("\t");
        self.checks.iter().fold(head, |line, check| line + "\t" + &check.line())
    }

    fn parse(line: &str) -> Option<Run> {
        let mut fields = line.split('\t').map(str::to_owned);
        let mut next = || fields.next();
        let (server, mode, date, version) = (next()?, next()?, next()?, next()?);
        Some(Run { server, mode, date, version, checks: fields.filter_map(|field| Check::parse(&field)).collect() })
    }
}

/// Parses the output of a program. A common check that is missing or occurs twice has failed.
pub fn read_run(output: &str, mode: &str) -> Run {
    let mut checks: Vec<Check> = output.lines().filter_map(Check::parse).collect();
    for (name, _) in names() {
        let times = checks.iter().filter(|check| check.name == name).count();
        if times != 1 {
            checks.retain(|check| check.name != name);
            let outcome = Outcome::Failed(format!("reported {times} times"));
            checks.push(Check { name, outcome });
        }
    }
    let last = output.lines().rev().find(|line| line.ends_with(" failed") && line.contains(" checks, "));
    let version = last.and_then(|line| line.rsplit_once(": ")).map_or("", |(version, _)| version).to_owned();
    Run { server: String::new(), mode: mode.to_owned(), date: String::new(), version, checks }
}

/// The kept results of a driver.
pub fn kept(driver: &str) -> Vec<Run> {
    let text = fs::read_to_string(folder().join(driver).join("results.tsv")).unwrap_or_default();
    text.lines().filter_map(Run::parse).collect()
}

/// Keeps the results of `results`, replacing earlier ones of the same mode and the same major version of the server.
///
/// # Panics
///
/// When a file can't be written.
pub fn keep(results: &Path, server: &str, date: &str, drivers: &[String]) {
    for driver in drivers {
        let mut runs = kept(driver);
        for mut run in runs_in(results, driver) {
            (run.server, run.date) = (server.to_owned(), date.to_owned());
            runs.retain(|old| (old.major(), &old.mode) != (run.major(), &run.mode));
            runs.push(run);
        }
        let place = |mode: &str| MODES.iter().position(|known| *known == mode);
        runs.sort_by_key(|run| (run.major(), place(&run.mode)));
        let text: String = runs.iter().map(|run| run.line() + "\n").collect();
        if !text.is_empty() {
            fs::write(folder().join(driver).join("results.tsv"), text).expect("results.tsv is written");
        }
    }
}

/// The table at the end of a run, and whether nothing has failed.
pub fn table(results: &Path, drivers: &[String]) -> (String, bool) {
    let mut text = format!("{:<16}", "driver");
    MODES.iter().for_each(|mode| _ = write!(text, " {mode:<22}"));
    let mut all_well = true;
    for driver in drivers {
        let _ = write!(text, "\n{driver:<16}");
        if let Ok(reason) = fs::read_to_string(results.join(format!("{driver}.skipped"))) {
            let _ = write!(text, " skipped: {}", reason.trim());
            continue;
        }
        let runs = runs_in(results, driver);
        for mode in MODES {
            let cell = runs.iter().find(|run| run.mode == mode).map_or_else(String::new, |run| {
                let failed = run.failed().len();
                all_well &= failed == 0;
                let failures = if failed == 0 { String::new() } else { format!(", {failed} FAILED") };
                format!("{} passed{failures}", run.passed())
            });
            let _ = write!(text, " {cell:<22}");
        }
        for run in &runs {
            run.failed().iter().for_each(|name| _ = write!(text, "\n    {}: {name}", run.mode));
        }
    }
    (text, all_well)
}

fn runs_in(results: &Path, driver: &str) -> Vec<Run> {
    let read = |mode: &&str| fs::read(results.join(format!("{driver}.{mode}"))).ok();
    let run = |mode: &'static str| read(&mode).map(|bytes| read_run(&String::from_utf8_lossy(&bytes), mode));
    MODES.into_iter().filter_map(run).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_a_program_is_parsed_and_missing_checks_have_failed() {
        let output = "ok   login\nsome noise\nnone notify: LISTEN needs session mode\nFAIL tls: no: such\nset  pool: x=1\n\
                      ok   one of its own\npsycopg 3.3.9: 5 checks, 1 failed\n";
        let run = read_run(output, "session");
        assert_eq!(run.version, "psycopg 3.3.9");
        assert_eq!(run.outcome("login"), Some(&Outcome::Passed));
        assert_eq!(run.outcome("notify"), Some(&Outcome::NotThere("LISTEN needs session mode".to_owned())));
        assert_eq!(run.outcome("tls"), Some(&Outcome::Failed("no: such".to_owned())));
        assert_eq!(run.outcome("pool"), Some(&Outcome::WithSetting("x=1".to_owned())));
        assert_eq!(run.outcome("one of its own"), Some(&Outcome::Passed));
        assert_eq!(run.outcome("crud"), Some(&Outcome::Failed("reported 0 times".to_owned())));
        assert_eq!(run.passed(), 3);
        assert_eq!(run.failed().len(), names().len() - 3);
    }

    #[test]
    fn a_kept_run_is_read_back_as_it_was() {
        let mut run = read_run("ok   login\nnone notify: needs session mode\nx 1: 2 checks, 0 failed\n", "transaction");
        (run.server, run.date) = ("18.4".to_owned(), "2026-11-22".to_owned());
        assert_eq!(Run::parse(&run.line()), Some(run));
    }
}
