//! Values of settings that may stand elsewhere: in a variable of the environment (`env:NAME`) or a file (`file:/PATH`).

use std::path::Path;

use crate::files::read_regular;

/// The longest value, in bytes.
const LONGEST: usize = 4096;
/// The longest file with one, in bytes.
const LONGEST_FILE: u64 = 64 << 10;

/// The value of a setting: itself, or the content of a variable or a file.
///
/// # Errors
/// There is no such variable or file, or it is empty or too long.
pub fn resolve(reference: &str) -> Result<String, String> {
    let found = if let Some(name) = reference.strip_prefix("env:") {
        std::env::var(name).map_err(|_| format!("the environment has no variable {name}"))?
    } else if let Some(path) = reference.strip_prefix("file:") {
        read_file(path)?
    } else {
        reference.to_owned()
    };
    let found = found.trim();
    match found.len() {
        0 => Err("what it refers to is empty".to_owned()),
        1..=LONGEST => Ok(found.to_owned()),
        _ => Err(format!("what it refers to is longer than {LONGEST} bytes: it must be one address")),
    }
}

/// The text of a file with a value.
fn read_file(path: &str) -> Result<String, String> {
    let bytes = read_regular(Path::new(path), LONGEST_FILE + 1).map_err(|error| format!("{path}: {error}"))?;
    if bytes.len() as u64 > LONGEST_FILE {
        return Err(format!("{path}: longer than {LONGEST_FILE} bytes: it must have one address"));
    }
    String::from_utf8(bytes).map_err(|_| format!("{path}: no text in UTF-8"))
}
