//! The output of the programs in `tests/drivers` as values: parsed, kept beside each driver, and written to
//! docs/drivers.md.
//!
//! `tests/drivers/README.md` has the format. The page is generated from the kept results (`results.tsv` of each
//! driver), so that a driver that could not run today keeps its last result, with its date.

mod page;
mod results;
mod suites;

pub use page::page;
pub use results::{Check, Outcome, Run, keep, kept, read_run, table};

use std::fs;
use std::path::{Path, PathBuf};

/// The modes, in the order of the page.
pub const MODES: [&str; 4] = ["direct", "session", "transaction", "auto"];

/// `tests/drivers`.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("drivers")
}

/// The drivers: folders with a `driver.sh`, by name.
///
/// # Panics
///
/// When the folder can't be read; the other functions here panic then too.
pub fn all() -> Vec<String> {
    let entries = folder().read_dir().expect("tests/drivers").flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| entry.path().join("driver.sh").is_file())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// The checks of every driver, and their descriptions, from `tests/drivers/checks`.
pub fn names() -> Vec<(String, String)> {
    let text = fs::read_to_string(folder().join("checks")).expect("tests/drivers/checks");
    let pair = |line: &str| line.split_once("  ").map(|(name, what)| (name.to_owned(), what.trim().to_owned()));
    text.lines().filter_map(pair).collect()
}

/// The name of a driver on the page: `title` in its `driver.sh`.
pub fn title(driver: &str) -> String {
    let text = fs::read_to_string(folder().join(driver).join("driver.sh")).expect("a driver.sh");
    let title = text.lines().find_map(|line| line.strip_prefix("title="));
    title.map_or_else(|| driver.to_owned(), |title| title.trim_matches(['\'', '"']).to_owned())
}
