//! The size of a run, and its figures, which go to the terminal and to the folder that `make incidents` reads.

use std::fmt::Display;
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::thread;
use std::time::Instant;

/// The folder in which `make incidents` collects one line per test.
const FOLDER: &str = "WEIR_INCIDENTS_OUT";

/// Whether the run uses the incidents' own sizes.
pub(crate) fn full() -> bool {
    std::env::var_os("WEIR_INCIDENTS_FULL").is_some_and(|value| !value.is_empty() && value != "0")
}

/// A size: a small one by default, or the incident's own.
pub(crate) fn size<T>(quick: T, incident: T) -> T {
    if full() { incident } else { quick }
}

/// One incident's report, written when it is dropped.
#[derive(Debug)]
pub(crate) struct Report {
    test: String,
    began: Instant,
    figures: Mutex<Vec<String>>,
}

impl Report {
    /// Begins a report for the running test.
    pub(crate) fn begin() -> Report {
        let thread = thread::current();
        let path = thread.name().unwrap_or("a thread").to_owned();
        let test = path.rsplit("::").next().unwrap_or(&path).to_owned();
        Report { test, began: Instant::now(), figures: Mutex::default() }
    }

    /// A measured figure: its name, number and unit.
    pub(crate) fn figure(&self, what: impl Display) {
        println!("figure: {what}");
        self.figures.lock().unwrap_or_else(PoisonError::into_inner).push(what.to_string());
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        let Some(folder) = std::env::var_os(FOLDER) else { return };
        let outcome = if thread::panicking() { "FAILED" } else { "ok" };
        let figures = self.figures.lock().unwrap_or_else(PoisonError::into_inner).join("; ");
        let line = format!("{}\t{outcome}\t{:.1}\t{figures}\n", self.test, self.began.elapsed().as_secs_f64());
        if let Err(error) = fs::write(Path::new(&folder).join(&self.test), line) {
            println!("the report of {} could not be written: {error}", self.test);
        }
    }
}
