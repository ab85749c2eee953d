//! What a test prints that can't run on this machine.

use std::io::{Write, stderr};

/// Says that a test, or a part of one, can't run here: `what: why`. `make test` lists these lines at its end.
pub fn skipped(what: &str) {
    // Not by eprintln!, which libtest hides as long as the test passes. The line begins behind libtest's dots.
    let _ = writeln!(stderr(), "\nskipped: {what}");
}
