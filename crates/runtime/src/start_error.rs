//! Why the runtime could not start.

use std::error::Error;
use std::fmt;

/// Why the runtime could not start: one line, with what to do about it.
#[derive(Debug)]
pub struct StartError(String);

impl StartError {
    /// An error with this line.
    pub fn new(text: String) -> Self {
        StartError(text)
    }

    pub(crate) fn because(what: &str) -> impl Fn(std::io::Error) -> StartError {
        move |error| StartError(format!("{what}: {error}"))
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for StartError {}
