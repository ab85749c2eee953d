//! A small blocking PostgreSQL client: for `weir check --connect` and trials of a pool's server, for tests and tools.
//!
//! Owns one connection: login (trust, cleartext, md5, SCRAM-SHA-256), simple queries with rows as text, COPY, cancel,
//! and single frames. TLS comes from the caller ([`Connection::encrypt`]). Must not know pools or Weir.
//!
//! Invariants: every read has a time limit; with [`Bounds`], the connection as a whole has a deadline and a limit on
//! bytes, for servers that are not trusted. After [`Error::Server`] within a query the connection can be used again;
//! after any other error it can't.

mod connection;
mod deadline;
mod error;
mod frame;
mod params;
mod stream;

pub use connection::{Answer, Canceller, Connection};
pub use deadline::DeadlineSocket;
pub use error::{Error, ServerErrorFields};
pub use frame::Frame;
pub use params::{Address, Bounds, ConnectParams};
pub use stream::Transport;
pub use weir_auth::{RequireAuth, Trust};
