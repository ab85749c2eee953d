//! Errors in the settings: one line for each mistake with its location, text and hint, and the list of all of them.

use std::fmt;
use std::path::{Path, PathBuf};

/// A mistake in the settings. Never holds a secret.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigError {
    /// The file of the mistake.
    pub file: PathBuf,
    /// The line, from 1, if known.
    pub line: Option<usize>,
    /// What is wrong.
    pub message: String,
    /// What to do about the mistake.
    pub hint: Option<String>,
    /// The setting or section that the mistake is about, if it is about one: its dotted name, as in `pools.app.size`.
    pub key: Option<String>,
}

impl ConfigError {
    /// A mistake in `file`; newlines in `message` become commas, since an error is one line.
    pub(crate) fn new(file: &Path, line: Option<usize>, message: &str, hint: Option<String>) -> ConfigError {
        let message = message.lines().map(str::trim).collect::<Vec<_>>().join(", ");
        ConfigError { file: file.to_owned(), line, message, hint, key: None }
    }

    /// Returns the mistake, with the setting or section that it is about.
    pub(crate) fn about(self, key: &str) -> ConfigError {
        ConfigError { key: Some(key.to_owned()), ..self }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        write!(f, " {}", self.message)?;
        self.hint.iter().try_for_each(|hint| write!(f, "; {hint}"))
    }
}

impl std::error::Error for ConfigError {}

/// How many mistakes are printed.
const SHOWN: usize = 50;
/// How many mistakes are collected: enough that the printed ones are the first of an ordinary file, and bounded for a
/// file that is no configuration at all.
const SOUGHT: usize = 1_000;

/// The mistakes of a configuration, in the order of files and lines: at least one, and a bounded number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigErrors {
    shown: Vec<ConfigError>,
    /// How many more there are.
    more: usize,
}

impl ConfigErrors {
    /// The first mistake.
    pub fn first(&self) -> &ConfigError {
        &self.shown[0]
    }

    /// How many more mistakes there are than the printed ones.
    pub fn omitted(&self) -> usize {
        self.more
    }

    /// The printed mistakes.
    pub fn iter(&self) -> impl Iterator<Item = &ConfigError> {
        self.shown.iter()
    }
}

impl From<ConfigError> for ConfigErrors {
    fn from(error: ConfigError) -> ConfigErrors {
        ConfigErrors { shown: vec![error], more: 0 }
    }
}

impl fmt::Display for ConfigErrors {
    /// One line for each mistake.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.shown.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            error.fmt(f)?;
        }
        match self.more {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}

impl std::error::Error for ConfigErrors {}

/// The mistakes found so far, while reading continues.
#[derive(Default)]
pub(crate) struct Found {
    errors: Vec<ConfigError>,
    /// Whether parts of a file could not be parsed.
    has_gaps: bool,
}

impl Found {
    /// Notes one mistake, unless it is known, or there are too many already.
    pub(crate) fn note(&mut self, error: ConfigError) {
        if !self.is_full() && !self.errors.contains(&error) {
            self.errors.push(error);
        }
    }

    /// Adds a mistake of a line that could not be parsed.
    pub(crate) fn note_gap(&mut self, error: ConfigError) {
        self.has_gaps = true;
        self.note(error);
    }

    /// Returns the value, or `None` after adding the mistake.
    pub(crate) fn take<T>(&mut self, result: Result<T, ConfigError>) -> Option<T> {
        result.map_err(|error| self.note(error)).ok()
    }

    /// Whether the limit is reached, so that the reader may stop.
    pub(crate) fn is_full(&self) -> bool {
        self.errors.len() >= SOUGHT
    }

    /// Whether a mistake that is already noted may be the cause of something missing in a section, which then is not
    /// reported again.
    pub(crate) fn explains(&self, section: &str) -> bool {
        let mut keys = self.errors.iter().filter_map(|error| error.key.as_deref());
        self.has_gaps || keys.any(|key| key.strip_prefix(section).is_some_and(|rest| rest.starts_with('.')))
    }

    /// The mistakes, if there are any, of a configuration whose first file is `source`.
    pub(crate) fn conclude(mut self, source: &Path) -> Option<ConfigErrors> {
        // Mistakes without a line are about the whole file, and follow those with one.
        let order = |error: &ConfigError| (error.file != source, error.file.clone(), error.line.unwrap_or(usize::MAX));
        self.errors.sort_by_cached_key(order);
        let more = self.errors.len().saturating_sub(SHOWN);
        self.errors.truncate(SHOWN);
        (!self.errors.is_empty()).then_some(ConfigErrors { shown: self.errors, more })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(file: &str, line: Option<usize>, message: &str) -> ConfigError {
        ConfigError::new(Path::new(file), line, message, None)
    }

    #[test]
    fn mistakes_are_in_the_order_of_files_and_lines_and_each_once() {
        let mut found = Found::default();
        for (file, line) in [("b", Some(1)), ("main", None), ("main", Some(9)), ("a", Some(2)), ("main", Some(9))] {
            found.note(error(file, line, "wrong"));
        }
        let all = found.conclude(Path::new("main")).unwrap();
        assert_eq!(all.to_string(), "main:9: wrong\nmain: wrong\na:2: wrong\nb:1: wrong");
        assert_eq!(all.first().line, Some(9));
        assert!(Found::default().conclude(Path::new("main")).is_none());
    }

    #[test]
    fn mistakes_are_bounded_and_counted() {
        let mut found = Found::default();
        (0..3 * SOUGHT).for_each(|line| found.note(error("main", Some(line), "wrong")));
        let text = found.conclude(Path::new("main")).unwrap().to_string();
        assert_eq!(text.lines().count(), SHOWN + 1);
        assert!(text.ends_with(&format!("\nand {} more", SOUGHT - SHOWN)));
    }

    #[test]
    fn what_is_missing_may_be_explained_by_what_is_wrong() {
        let mut found = Found::default();
        assert!(!found.explains("pools.app"));
        found.note(error("main", Some(1), "wrong").about("pools.app.hots"));
        assert!(found.explains("pools.app") && !found.explains("pools.ap") && !found.explains("pools.b"));
        found.note_gap(error("main", Some(2), "no TOML"));
        assert!(found.explains("pools.b"));
    }
}
