//! Requests to cancel: each cancels the right query or none.
//!
//! - `request`: a request for a client of this process. `forward`: a request for a client of another process. `finish`:
//!   the end of both for the client that sent the request;
//!   `overdue`: that client has waited for too long.
//! - `key`, `pids`, `peering`, `moved_keys`: what a request names. `away`, `home`: clients that have moved to another
//!   worker. `state`: requests under way.

pub(crate) mod away;
pub(crate) mod finish;
pub(crate) mod forward;
pub(crate) mod home;
pub(crate) mod key;
pub(crate) mod moved_keys;
pub(crate) mod overdue;
pub(crate) mod peering;
pub(crate) mod pids;
pub(crate) mod request;
pub(crate) mod state;
