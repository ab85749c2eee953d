//! The same sessions directly and through Weir, compared byte for byte: drawn from seeds, and kept as transcripts.
//!
//! `make differential` runs many seeds; a failure prints its seed, both sides, and the shortest script that still fails,
//! to be kept under `tests/transcripts`. `scripts/differential.sh --help` says more.

mod author;
mod catalog;
mod compare;
mod message;
mod minimise;
mod owed;
mod play;
mod promises;
mod run;
mod scenes;
mod script;
mod show;
mod token;
mod transcripts;
