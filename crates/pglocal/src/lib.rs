//! PostgreSQL on this machine: find its programs, run a throw-away server with them, and speak to it.
//!
//! The demo, the tests and the benchmarks stand on this crate; the pooler itself does not. It must not know Weir's pools
//! or configuration. What it starts, it ends: a [`Caretaker`] outlives even a killed parent and clears up after it.

pub mod client;

mod account;
mod caretaker;
mod error;
mod fetch;
mod find;
mod folder;
mod process;
mod server;

pub use caretaker::Caretaker;
pub use error::Error;
pub use find::{Origin, Programs, find, find_installed, find_with};
pub use folder::TempFolder;
pub use process::{Signal, send_signal};
pub use server::{Auth, Options, Server, free_port};
