//! The floors of a node on disk: what it may use at a start without etcd.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::Path;

use crate::error::NodeError;

/// A longer file, in bytes, has no floors.
const MAX_FILE: u64 = 64 << 20;

/// Reads the floors; none if there is no file yet.
pub(crate) fn read(file: Option<&Path>) -> Result<BTreeMap<String, u32>, NodeError> {
    let Some(file) = file else { return Ok(BTreeMap::new()) };
    match weir_runtime::read_ordinary(file, MAX_FILE) {
        Ok(text) => serde_json::from_slice(&text).map_err(|error| NodeError::file(file, error)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(error) => Err(NodeError::file(file, error)),
    }
}

/// Replaces the floors.
pub(crate) fn write(file: Option<&Path>, floors: &BTreeMap<String, u32>) -> Result<(), NodeError> {
    let Some(file) = file else { return Ok(()) };
    let beside = file.with_extension("new");
    let write = || {
        let mut to = fs::File::create(&beside)?;
        to.write_all(&serde_json::to_vec(floors)?)?;
        to.sync_all()?;
        fs::rename(&beside, file)
    };
    write().map_err(|error| NodeError::file(file, error))
}
