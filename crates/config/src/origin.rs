//! Where settings come from: their file format, the file and line of each, and the readers' warnings.
//!
//! Names are the dotted ones of TOML in either file format (`pools.app.size`, `limits.size`), so a lookup does not
//! depend on the file format.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Reads a file as text.
pub(crate) type ReadFile<'a> = &'a dyn Fn(&Path) -> io::Result<String>;
/// Reads an environment variable.
pub(crate) type ReadEnv<'a> = &'a dyn Fn(&str) -> Option<String>;

/// How a value begins that is a variable of the environment, or the content of a file.
pub(crate) const ENV: &str = "env:";
pub(crate) const FILE: &str = "file:";

/// Whether a text refers to a value.
pub(crate) fn is_reference(text: &str) -> bool {
    text.starts_with(ENV) || text.starts_with(FILE)
}

/// The format of a settings file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum FileFormat {
    /// Weir's own format, TOML.
    #[default]
    Toml,
    /// PgBouncer's format, an ini.
    Ini,
}

/// The file and line of a setting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Location {
    /// The file, if it is not the main file (`%include`).
    pub file: Option<Arc<Path>>,
    /// The line, from 1.
    pub line: usize,
}

/// The location of each setting, by its dotted name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Locations(BTreeMap<String, Option<Location>>);

/// A warning about a valid setting. Holds no secret.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigWarning {
    /// The dotted name of its setting, or of a section.
    pub key: String,
    /// The text, on one line.
    pub text: String,
}

impl Locations {
    /// The line (from 1) of a dotted name, if a file has it.
    pub fn line(&self, name: &str) -> Option<usize> {
        self.get(name).map(|location| location.line)
    }

    /// The location of a dotted name, if a file has it.
    pub fn get(&self, name: &str) -> Option<&Location> {
        self.0.get(name)?.as_ref()
    }

    /// Whether a dotted name is set, in a file or by a change that is in no file.
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The location of a dotted name, or else of the nearest section around it.
    pub fn nearest(&self, name: &str) -> Option<&Location> {
        let outer = || name.rsplit_once('.').and_then(|(outer, _)| self.get(outer));
        self.get(name).or_else(outer)
    }

    /// The file and line of a dotted name, or of the nearest section around it, in a configuration read from `source`.
    pub fn file_and_line(&self, name: &str, source: &Path) -> (PathBuf, Option<usize>) {
        let location = self.nearest(name);
        let file = location.and_then(|location| location.file.as_deref()).unwrap_or(source);
        (file.to_owned(), location.map(|location| location.line))
    }

    pub(crate) fn insert(&mut self, name: String, location: Location) {
        self.0.insert(name, Some(location));
    }

    /// Records a dotted name that was set by a change that is in no file.
    pub(crate) fn insert_nowhere(&mut self, name: String) {
        self.0.insert(name, None);
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }
}
