//! What is wrong with the settings: a line for each mistake with where, what, and what to do, and all of them together.

use std::fmt;
use std::path::{Path, PathBuf};

/// A mistake in the settings. Never holds a secret.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigError {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1, where one can be named.
    pub line: Option<usize>,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// What it is about, where that is one setting or section: its dotted name, as in `pools.app.size`.
    pub key: Option<String>,
}

impl ConfigError {
    /// A mistake in `file`; line ends in `message` become commas, since the whole is one line.
    pub(crate) fn new(file: &Path, line: Option<usize>, message: &str, hint: Option<String>) -> ConfigError {
        let message = message.lines().map(str::trim).collect::<Vec<_>>().join(", ");
        ConfigError { file: file.to_owned(), line, message, hint, key: None }
    }

    /// The same, about this setting or section.
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

/// How many mistakes are shown.
const SHOWN: usize = 50;
/// How many are looked for: enough that those shown are the first ones of an ordinary file, and no more work than that
/// for a file that is something else altogether.
const SOUGHT: usize = 1_000;

/// All that is wrong with a configuration, in the order of files and lines: one mistake at least, and not beyond
/// number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigErrors {
    shown: Vec<ConfigError>,
    /// How many there are besides.
    more: usize,
}

impl ConfigErrors {
    /// The first one.
    pub fn first(&self) -> &ConfigError {
        &self.shown[0]
    }

    /// Those that are shown.
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
    /// A line for each.
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

/// The mistakes found so far, while reading goes on.
#[derive(Default)]
pub(crate) struct Found {
    errors: Vec<ConfigError>,
    /// Whether parts of a file could not be read at all.
    has_gaps: bool,
}

impl Found {
    /// Notes one mistake, unless it is known, or there are too many already.
    pub(crate) fn note(&mut self, error: ConfigError) {
        if !self.is_full() && !self.errors.contains(&error) {
            self.errors.push(error);
        }
    }

    /// The same, of a line that says nothing because it can't be understood.
    pub(crate) fn note_gap(&mut self, error: ConfigError) {
        self.has_gaps = true;
        self.note(error);
    }

    /// What went well, or `None` and a mistake more.
    pub(crate) fn take<T>(&mut self, result: Result<T, ConfigError>) -> Option<T> {
        result.map_err(|error| self.note(error)).ok()
    }

    /// Whether there is no need to go on.
    pub(crate) fn is_full(&self) -> bool {
        self.errors.len() >= SOUGHT
    }

    /// Whether what is missing in a section may be due to a mistake that is noted already: nobody has to hear of it
    /// twice.
    pub(crate) fn explains(&self, section: &str) -> bool {
        let mut keys = self.errors.iter().filter_map(|error| error.key.as_deref());
        self.has_gaps || keys.any(|key| key.strip_prefix(section).is_some_and(|rest| rest.starts_with('.')))
    }

    /// All of it, if there is any, of a configuration whose first file is `source`.
    pub(crate) fn conclude(mut self, source: &Path) -> Option<ConfigErrors> {
        // What has no line is about the file as a whole, and comes behind what has one.
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
    fn mistakes_stand_in_the_order_of_files_and_lines_and_each_once() {
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
