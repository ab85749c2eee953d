//! What the programs in `tests/drivers` print, as values: read, kept beside each driver, and made into docs/drivers.md.
//!
//! `tests/drivers/README.md` has the contract. The kept results (`results.tsv` of each driver) are what the page is made
//! of, so that a driver that could not be run today keeps its last real result, with its date.

mod page;
mod results;

pub use page::page;
pub use results::{Check, Outcome, Run, keep, kept, read_run, table};

use std::fs;
use std::path::{Path, PathBuf};

/// The modes, in the order in which they are shown.
pub const MODES: [&str; 3] = ["direct", "session", "transaction"];

/// `tests/drivers`.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("drivers")
}

/// The drivers: folders with a `driver.sh`, by name.
///
/// # Panics
///
/// When the folder can't be read; so do all here.
pub fn all() -> Vec<String> {
    let entries = folder().read_dir().expect("tests/drivers").flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| entry.path().join("driver.sh").is_file())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// The checks that every driver has, and what each stands for, as `tests/drivers/checks` lists them.
pub fn names() -> Vec<(String, String)> {
    let text = fs::read_to_string(folder().join("checks")).expect("tests/drivers/checks");
    let pair = |line: &str| line.split_once("  ").map(|(name, what)| (name.to_owned(), what.trim().to_owned()));
    text.lines().filter_map(pair).collect()
}

/// How the page calls a driver: `title` in its `driver.sh`.
pub fn title(driver: &str) -> String {
    let text = fs::read_to_string(folder().join(driver).join("driver.sh")).expect("a driver.sh");
    let title = text.lines().find_map(|line| line.strip_prefix("title="));
    title.map_or_else(|| driver.to_owned(), |title| title.trim_matches(['\'', '"']).to_owned())
}
