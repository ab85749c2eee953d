//! One client, one server, and the relay between them, without I/O.
//!
//! - [`startup`], [`login`]: how a client comes in. [`server_login`]: how we come in at a server.
//! - [`Client`], [`Server`]: what each side owns. [`from_client`], [`from_server`]: what the messages of each direction mean for the
//!   link. A session does not know pools: it says that it needs a server ([`from_client::StopReason::NeedServer`]), that a server is
//!   clean ([`Server::prove_clean`]), that it can't be trusted ([`from_server::ProtocolViolation`]).
//! - [`Refusal`]: everything a client is refused with.
//!
//! A session is a value without pointers into a worker: [`frozen`] turns a client into bytes and back.

mod budget;
mod cause;
mod client;
mod closes;
mod frame_reader;
mod names;
mod naming;
mod out;
mod params;
mod pending;
mod prepared;
mod refusal;
mod server;
mod state;
mod statements;
#[cfg(test)]
mod tests;
mod undo_log;

pub mod auth_query;
pub mod from_client;
pub mod from_server;
pub mod frozen;
pub mod login;
pub mod param_sync;
pub mod server_login;
pub mod startup;

pub use budget::StatementMemory;
pub use cause::{Cause, Class};
pub use client::Client;
pub use out::Out;
pub use params::{BadParam, ParamTable, Params};
pub use refusal::Refusal;
pub use server::{CancelKey, Clean, Role, Server, ServerError};
pub use state::StatePolicy;
pub use statements::{Interner, NAME_LEN, NAME_PREFIX, PoolStatements, SchemaVersion};
