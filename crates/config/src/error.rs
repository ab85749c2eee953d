//! What is wrong with the settings, in one line: where, what, and what to do.

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
