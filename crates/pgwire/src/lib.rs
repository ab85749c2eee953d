//! PostgreSQL's frontend/backend protocol, version 3, as values.
//!
//! Owns the shape of every message: reading (borrowed views of the caller's bytes) and writing (appending to a
//! `Vec<u8>`), and the recognition of statements that leave session state behind. Must not know sockets, time,
//! pools or the meaning of a message for a session.
//!
//! Invariants:
//!
//! - Reading never panics on any bytes, and never allocates (except [`startup::options`], once per login, and a quoted
//!   or upper-case name in [`sql::head`]).
//! - The result of an incremental reader does not depend on how its input was split: `None` until it has enough, then
//!   one result.
//! - Writing always yields whole messages: a string is cut at its first NUL, and a length beyond the
//!   protocol's range is written as one that every peer refuses.
//!
//! Source of all layouts: PostgreSQL's documentation, chapter "Frontend/Backend Protocol", sections "Message Flow" and
//! "Message Formats".

pub mod backend;
pub mod frame;
pub mod frontend;
#[cfg(test)]
mod properties;
pub mod proxy;
mod put;
pub mod put_back;
pub mod put_front;
mod read;
pub mod sql;
pub mod startup;
pub mod tag;

pub use backend::{AuthRequest, ErrorView, TxStatus};
pub use frame::{HEAD, Head, MAX_BODY, Malformed};
pub use frontend::Of;
pub use proxy::Proxied;
pub use put_back::{ErrorFields, ResultColumn, ResultColumnType};
pub use sql::{Dealloc, Dirty, Effects, Scope, SqlHead};
pub use startup::{First, Startup};
