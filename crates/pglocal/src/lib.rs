//! PostgreSQL on this machine: find its programs, run a throw-away server with them, and speak to it.
//!
//! The demo, the tests, the benchmarks and the lab stand on this crate; the pooler itself does not. It must not know Weir's pools
//! or configuration. What it starts, it ends: a [`Caretaker`] outlives even a killed parent and clears up after it.

pub mod proc;

mod account;
mod caretaker;
mod error;
mod fetch;
mod find;
mod folder;
mod inherited;
mod limits;
mod process;
mod server;

pub use account::Account;
pub use caretaker::Caretaker;
pub use error::Error;
pub use find::{Origin, Programs, find, find_installed, find_major, find_with};
pub use folder::TempFolder;
pub use inherited::{is_ignored, restore_signals_for_children};
pub use limits::raise_descriptors;
pub use process::{Signal, send_signal};
pub use server::{Auth, Options, Server, free_port};
