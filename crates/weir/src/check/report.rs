//! The result of `weir check`: for a person on standard output, or as JSON for a program.
//!
//! The shape of the JSON is public: keys may be added, and none changes its name or meaning.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use weir_config::{Config, ConfigFinding, Severity};
use weir_terminal::{Term, columns, print_line};

use crate::failure::Failure;

/// What was found out about a file.
pub(super) struct Report {
    pub(super) file: PathBuf,
    pub(super) findings: Vec<ConfigFinding>,
    /// How many further mistakes there are.
    pub(super) omitted: usize,
    /// What the servers answered, if they were asked: a header, and one row for each pool.
    pub(super) servers: Option<Vec<Vec<String>>>,
}

impl Report {
    pub(super) fn of(file: &Path) -> Report {
        Report { file: file.to_owned(), findings: Vec::new(), omitted: 0, servers: None }
    }

    fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }

    /// Prints an object. Fails if the file can't be served.
    pub(super) fn print_json(&self) -> Result<(), Failure> {
        let errors = self.count(Severity::Error);
        let object = json!({
            "file": self.file.display().to_string(),
            "servable": errors == 0,
            "errors": errors,
            "warnings": self.count(Severity::Warning),
            "omitted": self.omitted,
            "findings": self.findings.iter().map(as_json).collect::<Vec<_>>(),
        });
        print_line(format_args!("{object:#}"));
        if errors == 0 { Ok(()) } else { Err(Failure::Reported) }
    }

    /// Prints what was understood, the problems, sorted by severity with the worst last, and one line with the result.
    /// Fails if the file can't be served.
    pub(super) fn print(mut self, term: Term, config: &Config) -> Result<(), Failure> {
        self.print_understood(term, config);
        if let Some(servers) = self.servers.take() {
            print_line("");
            print_table(term, &servers, &[4, 5]);
        }
        let mut problems: Vec<_> = self.findings.iter().filter(|finding| finding.severity != Severity::Note).collect();
        problems.sort_by_key(|finding| (finding.severity, finding.file.clone(), finding.line));
        if !problems.is_empty() {
            print_line("");
        }
        problems.iter().for_each(|finding| print_line(describe(term, finding)));
        self.conclude(term)
    }

    fn print_understood(&self, term: Term, config: &Config) {
        let notes = self.findings.iter().filter(|finding| finding.severity == Severity::Note);
        // The table has the content of the notes on pools.
        notes.filter(|note| !is_note_on_pool(note, config)).for_each(|note| print_line(note.message()));
        if !config.pools.is_empty() {
            print_line("");
            print_table(term, &pools_table(config), &[5, 6, 7]);
        }
    }

    fn conclude(&self, term: Term) -> Result<(), Failure> {
        let (warnings, errors) = (self.count(Severity::Warning), self.count(Severity::Error));
        let file = self.file.display();
        print_line("");
        if errors > 0 {
            let noun = if errors == 1 { "error" } else { "errors" };
            print_line(term.red(&format!("{file}: {errors} {noun}; it can't be served like this")));
            return Err(Failure::Reported);
        }
        let remark = match warnings {
            0 => String::new(),
            1 => ", with a warning".to_owned(),
            n => format!(", with {n} warnings"),
        };
        print_line(term.green(&format!("{file}: can be served{remark}")));
        Ok(())
    }
}

fn as_json(finding: &ConfigFinding) -> Value {
    json!({
        "level": finding.severity.to_string(),
        "file": finding.file.display().to_string(),
        "line": finding.line,
        "key": finding.key,
        "message": finding.text,
        "help": finding.help,
    })
}

fn describe(term: Term, finding: &ConfigFinding) -> String {
    let severity = match finding.severity {
        Severity::Note => "note".to_owned(),
        Severity::Warning => term.yellow("warning"),
        Severity::Error => term.red("error"),
    };
    format!("{severity}: {finding}")
}

fn is_note_on_pool(finding: &ConfigFinding, config: &Config) -> bool {
    let Some(named) = finding.text.strip_prefix("pool ") else { return false };
    named.match_indices(": ").any(|(end, _)| config.pools.contains_key(&named[..end]))
}

fn pools_table(config: &Config) -> Vec<Vec<String>> {
    let header = ["pool", "server", "database", "user", "mode", "size", "min", "reserve"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for pool in config.pools.values() {
        let user = pool.user.clone().unwrap_or_else(|| "(each client's)".to_owned());
        rows.push(vec![
            pool.name.clone(),
            pool.places(),
            pool.database.clone(),
            user,
            pool.policy.mode.to_string(),
            if pool.limits.size == 0 { "any".to_owned() } else { pool.limits.size.to_string() },
            pool.limits.min_size.to_string(),
            pool.limits.reserve_size.to_string(),
        ]);
    }
    rows
}

fn print_table(term: Term, rows: &[Vec<String>], right: &[usize]) {
    for (number, line) in columns(rows, right).iter().enumerate() {
        print_line(if number == 0 { term.bold(line) } else { line.clone() });
    }
}
