//! Values of settings that may stand elsewhere: in a variable of the environment (`env:NAME`) or a file (`file:/PATH`).

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::OFlags;

/// The longest value, in bytes.
const LONGEST: usize = 4096;
/// The longest file with one, in bytes.
const LONGEST_FILE: u64 = 64 << 10;

/// The value of a setting: itself, or the content of a variable or a file.
///
/// # Errors
/// There is no such variable or file, or it is empty or too long.
pub(crate) fn resolve(reference: &str) -> Result<String, String> {
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

/// The text of a file with a value. It may be anything: a device without an end, or a pipe without a writer, is refused.
fn read_file(path: &str) -> Result<String, String> {
    let failed = |error: io::Error| format!("{path}: {error}");
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(format!("{path}: not a regular file"));
    }
    let mut text = String::new();
    file.take(LONGEST_FILE + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > LONGEST_FILE {
        return Err(format!("{path}: longer than {LONGEST_FILE} bytes: it must have one address"));
    }
    Ok(text)
}
