//! PostgreSQL on this machine: find its programs, and run a temporary server with them.
//!
//! Used by the demo, the tests, the benchmarks and the lab, not by the pooler. Must not know Weir's pools or
//! configuration. What it starts, it ends: a [`Reaper`] outlives even a killed parent and clears up after it.

pub mod proc;

mod account;
mod apt;
mod consent;
mod error;
mod fetch;
mod find;
mod folder;
mod inherited;
mod installed;
mod limits;
mod package;
mod process;
mod reaper;
mod server;

pub use account::Account;
pub use consent::Consent;
pub use error::Error;
pub use fetch::{HOW_TO_INSTALL, Offer, cache_folder};
pub use find::{find, find_here, find_major, find_with};
pub use folder::TempFolder;
pub use inherited::{is_ignored, restore_signals_for_children};
pub use installed::{Origin, Programs, find_installed};
pub use limits::raise_descriptors;
pub use process::{Signal, send_signal};
pub use reaper::Reaper;
pub use server::{Auth, Options, Server, free_port};
