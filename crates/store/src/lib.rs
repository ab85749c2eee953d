//! The configuration of a process: its file, who writes it, and the part that the nodes of a cluster share.
//!
//! Owns the file and those that it names, the order of a change, and which text is in force. Must not know how the result
//! reaches the workers, HTTP, or etcd's protocol: shared settings come from a [`SettingsSource`].
//!
//! Invariants: nothing is written before the whole was checked as at a start; a reader of the file finds the old text or
//! the new one; no stored secret goes to a new host.
//!
//! - `config_store`: reloads and changes. `load`: files and the environment for the reader of settings. `replace`: one file
//!   as a whole.
//! - `error`: why something can't be read, put in force, or shared.
//! - `shared_config`, `shared_secrets`: what nodes share. `watch`, `file_marks`, `readable_secrets`: the files' states and modes.

mod config_store;
mod error;
mod file_marks;
pub mod load;
pub mod readable_secrets;
mod replace;
mod shared_config;
mod shared_secrets;
mod watch;

pub use config_store::ConfigStore;
pub use error::StoreError;
pub use shared_config::{AdoptionStatus, Revised, SettingsSource, SharedConfig, SharedSettings, write_settings};
pub use shared_secrets::{SharedSecrets, new_key, write_key};
pub use watch::Watcher;
