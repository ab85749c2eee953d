//! Clients of a pool listen through one of its servers (`listen = "shared"`).
//!
//! - `state`: which clients listen on which channels, and which server listens for them. `clients`: they come, wait and go.
//!   `follow`: a client's channels change. `server`: the server that listens begins, speaks and ends. `deliver`: what clients get.
//!
//! A client's LISTEN runs on its own server, in its own transaction. Behind it that server is asked on which channels it
//! listens (`link::pin`): these are the client's from then on. If no server of the pool listens for clients yet, this one
//! becomes it, as it is, so that nothing is missed; otherwise the one that does listens on the new channels, too, before
//! the client gets its ReadyForQuery. While a client has another server, that listens on its channels as well, which shows
//! the client's own notifications ([`weir_session::channels`]).

pub(crate) mod clients;
pub(crate) mod deliver;
pub(crate) mod follow;
pub(crate) mod server;
pub(crate) mod state;
