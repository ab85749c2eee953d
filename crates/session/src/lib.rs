//! One client, one server, and the relay between them, without I/O.
//!
//! - [`startup`], [`login`]: how a client logs in to us. [`server_login`]: how we log in to a server.
//! - [`Client`], [`Server`]: what each side owns. [`from_client`], [`from_server`]: what the messages of each direction
//!   mean for the link. A session does not know pools: it says that it needs a server ([`StopReason::NeedServer`]),
//!   that a server is clean ([`Server::prove_clean`]), that it can't be trusted ([`ProtocolViolation`]).
//! - `pending`: which request each reply of a server answers. `expected`: the kinds of request. `undo_log`, `skip`:
//!   what a server skips after an error has not happened. `stop`: why the reading of a client's input stops.
//! - `statements`: what a prepared statement is. `names`: what a client calls it; `prepared`: what a server has of it.
//!   `naming`: what a server is sent in place of a message; `prepare`: what is sent before it; `unlinked`: what needs
//!   no server; `pass_through`: pools without renaming. `sql_names`: statements that SQL names. `shape`, `same_shape`,
//!   `repeat`: a definition has changed. `budget`: their memory. `text`, `judged`: a text is read once.
//! - `params`: tracked parameters. [`param_sync`]: a server is given its client's. `untracked`, `unlisted`: others.
//!   `start_values`, `sql_resets`: RESET returns to what the client asked for.
//! - `session_state`: what clients leave on a server. [`left_state`], `asking`, `hidden_effects`, [`sequences`],
//!   [`channels`]: the same in `mode = "auto"`, where the server is asked.
//! - [`auth_query`]: a user's secret is queried from a server. [`listener`]: a pool's connection that listens.
//! - [`Refusal`]: everything a client is refused with.
//!
//! A session is a value without pointers into a worker: [`frozen`] turns a client into bytes and back,
//! [`frozen_server`] a server.

mod budget;
mod cancelled;
mod cause;
mod client;
mod closes;
mod context;
mod custom_names;
mod descriptions;
mod drawn_values;
mod drop_all;
mod dropping;
mod edit;
mod error_names;
mod expected;
mod frame_reader;
mod function_bodies;
mod judged;
mod kept_request;
mod leaving_functions;
mod link;
mod names;
mod naming;
mod out;
mod own_commands;
mod own_context;
mod own_exchange;
mod parameter_types;
mod params;
mod pass_through;
mod pending;
mod prepare;
mod prepared;
mod refusal;
mod repeat;
mod replaced;
mod resets;
mod same_shape;
mod server;
mod server_error;
mod session_defaults;
mod session_state;
mod shape;
mod shifts;
mod skip;
mod spelling;
mod sql_names;
mod sql_resets;
mod start_values;
mod state_messages;
mod statements;
mod stop;
mod streamed;
mod suspects;
#[cfg(test)]
mod tests;
mod text;
mod undo_log;
mod unlinked;
mod unlisted;
mod untracked;
mod watched;
mod watching;

mod asking;
pub mod auth_query;
pub mod channels;
pub mod from_client;
pub mod from_server;
pub mod frozen;
pub mod frozen_server;
mod hidden_effects;
mod key_hasher;
pub mod left_state;
pub mod listener;
pub mod login;
mod long_text;
pub mod param_sync;
pub mod sequences;
pub mod server_login;
pub mod startup;

pub use asking::Left;
pub use budget::StatementMemory;
pub use cause::{Cause, Class};
pub use client::Client;
pub use context::{
    Context, MessagePolicy, PoolRules, SimpleQueries, SpareTexts, StatePolicy, StatementMessageCounts, WithoutCache,
};
pub use kept_request::Repeat;
pub use naming::{MAX_HELD_PARSE, MAX_HELD_UNNAMED};
pub use out::Out;
pub use own_context::OwnContext;
pub use params::{BadParam, ParamTable, Params};
pub use refusal::{Refusal, SqlStates};
pub use server::{CancelKey, Clean, ProtocolViolation, ReplicationRole, Server};
pub use server_error::ServerError;
pub use state_messages::name as state_name;
pub use statements::{Interner, NAME_LEN, NAME_PREFIX, PoolShared, PoolStatements};
pub use stop::{ReplyWait, StopReason};
pub use watched::{Executed, StatementId, StatementWatch};
