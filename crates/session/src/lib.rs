//! One client, one server, and the relay between them, without I/O.
//!
//! - [`hello`], [`login`]: how a client comes in. [`server_login`]: how we come in at a server.
//! - [`Client`], [`Server`]: what each side owns. [`front`], [`back`]: what the messages of each direction mean for the
//!   link. A session does not know pools: it says that it needs a server ([`front::Then::NeedServer`]), that a server is
//!   clean ([`Server::prove_clean`]), that it can't be trusted ([`back::Unexpected`]).
//! - [`Refusal`]: everything a client is refused with.
//!
//! A session is a value without pointers into a worker: [`frozen`] turns a client into bytes and back.

mod assembly;
mod budget;
mod cause;
mod client;
mod closes;
mod names;
mod naming;
mod notes;
mod out;
mod outstanding;
mod params;
mod prepared;
mod refusal;
mod server;
mod state;
mod statements;
#[cfg(test)]
mod tests;

pub mod back;
pub mod front;
pub mod frozen;
pub mod hello;
pub mod login;
pub mod lookup;
pub mod server_login;

pub use budget::StatementMemory;
pub use cause::{Cause, Class};
pub use client::Client;
pub use out::Out;
pub use params::{BadParam, ParamTable, Params};
pub use refusal::Refusal;
pub use server::{CancelKey, Clean, OwnError, Role, Server};
pub use state::StatePolicy;
pub use statements::{Accepted, Definitions, Interner, NAME_LEN, NAME_PREFIX};
