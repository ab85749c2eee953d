//! Where settings come from: the face they were read in, the file and line of each, and what was odd about them.
//!
//! Names are the dotted ones of TOML in either face (`pools.app.size`, `limits.size`), so that what looks a place up need
//! not know the face.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How a file of settings is written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Face {
    /// Weir's own.
    #[default]
    Toml,
    /// PgBouncer's.
    Ini,
}

/// Where something stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spot {
    /// The file, if it is another than the one that was named first (`%include`).
    pub file: Option<Arc<Path>>,
    /// The line, from 1.
    pub line: usize,
}

/// Where each setting stands, by its dotted name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Lines(BTreeMap<String, Option<Spot>>);

/// What is odd about a setting, though it can be lived with. Holds no secret.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Remark {
    /// The dotted name of what it is about, or as much of it as there is.
    pub key: String,
    /// The remark, on one line.
    pub text: String,
}

impl Lines {
    /// The line (from 1) of a dotted name, if a file has it.
    pub fn of(&self, name: &str) -> Option<usize> {
        self.spot(name).map(|spot| spot.line)
    }

    /// Where a dotted name stands, if a file has it.
    pub fn spot(&self, name: &str) -> Option<&Spot> {
        self.0.get(name)?.as_ref()
    }

    /// Whether a dotted name was given, in a file or by a change that no file has.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Where a dotted name stands, or else the nearest section around it.
    pub fn near(&self, name: &str) -> Option<&Spot> {
        let outer = || name.rsplit_once('.').and_then(|(outer, _)| self.spot(outer));
        self.spot(name).or_else(outer)
    }

    /// The file and line of a dotted name, or of the nearest section around it, in a configuration read from `source`.
    pub fn place(&self, name: &str, source: &Path) -> (PathBuf, Option<usize>) {
        let spot = self.near(name);
        let file = spot.and_then(|spot| spot.file.as_deref()).unwrap_or(source);
        (file.to_owned(), spot.map(|spot| spot.line))
    }

    pub(crate) fn insert(&mut self, name: String, spot: Spot) {
        self.0.insert(name, Some(spot));
    }

    /// A dotted name was given by a change that no file has.
    pub(crate) fn insert_nowhere(&mut self, name: String) {
        self.0.insert(name, None);
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }
}
