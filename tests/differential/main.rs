//! Sessions that run directly and through Weir, compared byte for byte: drawn from seeds, and stored as transcripts.
//!
//! `reshapes` draws sessions of several clients whose tables change meanwhile. `make differential` runs many seeds; a
//! failure prints its seed, both sides, and the shortest script that still fails, for a file in `tests/transcripts`.
//! `scripts/differential.sh --help` says more.

mod author;
mod catalog;
mod compare;
mod guarantees;
mod message;
mod minimise;
mod pending;
mod play;
mod reshapes;
mod run;
mod scenes;
mod script;
mod show;
mod state;
mod token;
mod transcripts;
