//! The decisions of one worker: its sessions and its pools, without I/O.
//!
//! [`Engine::handle`] gets one [`port::Input`] at a time and answers through [`port::Io`]; it owns no socket, clock or
//! thread. `engine` dispatches each input to a room, which is a folder here:
//!
//! - `client_login`: from accept to the first query. `client`: a client in the table.
//! - `link`: a client and its server. `replication`: a client with a server of its own. `cancel`: requests to cancel.
//!   `listen`: the clients of a pool listen through one of its servers.
//! - `server`: from the connect to the end of a server. `pools`: the pools of this worker, and their configuration.
//! - `primary`: which host of a pool takes its writes. `lending`: pools that span several workers. `workers`: limits
//!   that hold for the process, and for several nodes.
//! - `admin`: what operators ask for. `pause`: what they have stopped. `upgrade`: another process takes over.
//!   `moves`: connected clients move to another worker.
//!   `traffic`: what clients do with session state, recorded while an operator wants it.
//! - `core`: the tables that these share. `conns`: the table of connections. `common`: what everything may use.
//!   `sessions`: what all sessions share. `reading`: why a connection is not read from. `timers`: who is woken when.
//!   `log`, `lines`: the log. `handles`: names for pools and for those who wait. `inspect`: for tests.
//!
//! Two rules, which `crates/weir/tests/arrows.rs` checks:
//!
//! - Calls go one way: no files import each other, or call methods of one type, in a circle. What a room wants of one
//!   that calls it is a `FollowUp` (in `common`), which `engine` dispatches before the next input. So a chain of
//!   waiting clients never nests calls.
//! - A row of a table is read by all rooms and changed by its own: the fields of `ClientSlot`, `ServerSlot` and
//!   `PoolSlot` change only in `client`, `server` and `pools`.
//!
//! What is rare, as a SUSPEND or a shutdown, its room also notes in `UnderWay` (in `common`): the path of a query
//! looks there, and only then at the room.

mod admin;
mod cancel;
mod client;
mod client_login;
mod common;
mod conns;
mod core;
mod engine;
mod handles;
mod inspect;
mod lending;
mod lines;
mod link;
mod listen;
mod log;
mod moves;
mod password_check;
mod pause;
mod pools;
mod primary;
mod printed_password;
mod reading;
mod replication;
mod secured;
mod server;
mod sessions;
mod timers;
mod traffic;
mod upgrade;
mod workers;

#[cfg(test)]
extern crate self as weir_engine;
#[cfg(test)]
mod idle_tests;
#[cfg(test)]
#[path = "../tests/common/mod.rs"]
mod world;

pub use cancel::pids::worker_of as worker_of_cancel_pid;
pub use engine::{Engine, Setup};
pub use inspect::{Inspect, PoolQueue};
pub use upgrade::moved::FORMAT as UPGRADE_FORMAT;
pub use workers::messages::Message;

pub mod port;

pub use weir_session::StatementMemory;
