//! Values of settings that may stand elsewhere: in a variable of the environment (`env:NAME`) or a file (`file:/PATH`).

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};

/// What a file or a variable may have, in bytes.
const LONGEST: usize = 4096;

/// The value of a setting: itself, or the content of a variable or a file.
///
/// # Errors
/// There is no such variable or file, or it is empty or too long.
pub(crate) fn resolve(reference: &str) -> Result<String, String> {
    let found = if let Some(name) = reference.strip_prefix("env:") {
        std::env::var(name).map_err(|_| format!("the environment has no variable {name}"))?
    } else if let Some(path) = reference.strip_prefix("file:") {
        read(path).map_err(|error| format!("{path}: {error}"))?
    } else {
        reference.to_owned()
    };
    let found = found.trim();
    if found.is_empty() || found.len() > LONGEST {
        return Err("what it refers to is empty or too long".to_owned());
    }
    Ok(found.to_owned())
}

/// The content of a small file. A pipe could block for ever, and a device be endless: neither is read.
fn read(path: &str) -> io::Result<String> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidData, "it is no ordinary file"));
    }
    let mut text = String::new();
    // What is longer is refused by the caller.
    File::open(path)?.take(2 * LONGEST as u64).read_to_string(&mut text)?;
    Ok(text)
}
