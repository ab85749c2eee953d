//! `weir check`: what a configuration means, and its errors and warnings.
//!
//! Prints the configuration as understood to standard output. Changes nothing; connects to servers only with `--connect`.

use std::path::Path;

use weir_config::{Config, ConfigErrors, Finding, HostLimits, Severity, SslMode};
use weir_runtime::TlsFinding;

use crate::failure::Failure;
use crate::load;
use crate::probe;
use crate::readable_secrets;
use crate::web_tls::web_tls;
use weir_terminal::{Term, columns, print_line};

/// The scope of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Only the file.
    File,
    /// The servers too.
    Servers,
}

/// Checks a file. Fails if Weir could not serve it.
pub(crate) fn run(file: &Path, scope: Scope) -> Result<(), Failure> {
    let (config, mistakes) = load::load_as_far(file);
    if let Some(mistakes) = mistakes {
        return Err(mistaken(config, &mistakes));
    }
    let term = Term::stdout();
    let mut findings = weir_config::review(&config, &load::facts());
    // The table has the content of the notes on pools.
    findings.retain(|finding| !is_note_on_pool(finding, &config));
    let (notes, mut problems): (Vec<_>, Vec<_>) =
        findings.into_iter().partition(|finding| finding.severity == Severity::Note);
    for note in &notes {
        print_line(&note.text);
    }
    if !config.pools.is_empty() {
        print_line("");
        print_table(term, pools_table(&config), &[5, 6, 7]);
    }
    if let Err(error) = web_tls(&config) {
        problems.push(about_tls(file, TlsFinding::Error(error.to_string())));
    }
    let secrets = readable_secrets::warnings(&config).into_iter();
    problems.extend(secrets.map(|text| Finding {
        severity: Severity::Warning,
        file: file.to_owned(),
        line: None,
        text,
    }));
    problems.extend(weir_runtime::check_tls(&config).into_iter().map(|found| about_tls(file, found)));
    if scope == Scope::Servers {
        let report = probe::probe(&config);
        print_line("");
        print_table(term, report.table, &[4, 5]);
        problems.extend(report.findings);
    }
    conclude(term, file, &mut problems)
}

/// Why a file with mistakes can't be served: the mistakes, and further errors in the part that could be read.
pub(crate) fn mistaken(mut config: Config, mistakes: &ConfigErrors) -> Failure {
    let mut lines: Vec<String> = mistakes.to_string().lines().map(str::to_owned).collect();
    // A setting with a mistake is not checked again.
    let is_about =
        |side: &str| mistakes.iter().any(|mistake| mistake.key.as_ref().is_some_and(|k| k.starts_with(side)));
    if is_about("tls.client") {
        config.tls.client.mode = SslMode::Disable;
    }
    if is_about("tls.server") {
        config.tls.server.mode = SslMode::Disable;
    }
    lines.extend(errors(&config, &load::facts()));
    Failure::Messages(lines)
}

/// The errors of a configuration that could be read, one line each.
pub(crate) fn errors(config: &Config, facts: &HostLimits) -> Vec<String> {
    let findings = weir_config::review(config, facts);
    let errors = findings.iter().filter(|finding| finding.severity == Severity::Error);
    let web = web_tls(config).err().map(|error| error.to_string());
    let tls = weir_runtime::check_tls(config).into_iter().filter_map(|found| match found {
        TlsFinding::Error(text) => Some(text),
        TlsFinding::Warning(_) => None,
    });
    errors.map(place_and_text).chain(web).chain(tls).collect()
}

/// A finding in the format of an error.
pub(crate) fn place_and_text(finding: &Finding) -> String {
    let line = finding.line.map(|line| format!("{line}:")).unwrap_or_default();
    format!("{}:{line} {}", finding.file.display(), finding.text)
}

/// A finding about keys and certificates; its text contains their file.
fn about_tls(file: &Path, found: TlsFinding) -> Finding {
    let (severity, text) = match found {
        TlsFinding::Error(text) => (Severity::Error, text),
        TlsFinding::Warning(text) => (Severity::Warning, text),
    };
    Finding { severity, file: file.to_owned(), line: None, text }
}

/// Prints the problems, sorted by severity with the worst last, and one line with the result.
fn conclude(term: Term, file: &Path, problems: &mut [Finding]) -> Result<(), Failure> {
    problems.sort_by_key(|finding| (finding.severity, finding.file.clone(), finding.line));
    if !problems.is_empty() {
        print_line("");
    }
    for finding in problems.iter() {
        print_line(describe(term, finding));
    }
    let count = |severity| problems.iter().filter(|finding| finding.severity == severity).count();
    let (warnings, errors) = (count(Severity::Warning), count(Severity::Error));
    print_line("");
    if errors > 0 {
        let noun = if errors == 1 { "error" } else { "errors" };
        print_line(term.red(&format!("{}: {errors} {noun}; it can't be served like this", file.display())));
        return Err(Failure::Reported);
    }
    let remark = match warnings {
        0 => String::new(),
        1 => ", with a warning".to_owned(),
        n => format!(", with {n} warnings"),
    };
    print_line(term.green(&format!("{}: can be served{remark}", file.display())));
    Ok(())
}

fn describe(term: Term, finding: &Finding) -> String {
    let severity = match finding.severity {
        Severity::Note => "note".to_owned(),
        Severity::Warning => term.yellow("warning"),
        Severity::Error => term.red("error"),
    };
    format!("{severity}: {}", place_and_text(finding))
}

fn is_note_on_pool(finding: &Finding, config: &Config) -> bool {
    let Some(named) = finding.text.strip_prefix("pool ").filter(|_| finding.severity == Severity::Note) else {
        return false;
    };
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
            pool.mode.to_string(),
            if pool.limits.size == 0 { "any".to_owned() } else { pool.limits.size.to_string() },
            pool.limits.min_size.to_string(),
            pool.limits.reserve_size.to_string(),
        ]);
    }
    rows
}

fn print_table(term: Term, rows: Vec<Vec<String>>, right: &[usize]) {
    for (number, line) in columns(&rows, right).iter().enumerate() {
        print_line(if number == 0 { term.bold(line) } else { line.clone() });
    }
}
