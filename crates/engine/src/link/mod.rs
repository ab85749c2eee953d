//! Links: a client and its server, from the grant to the release.
//!
//! - `query`: one query's path, to a server and back. `relay`: bytes in both directions, and what is counted of them.
//!   `acquire`: a link is made. `exchange`: with another server. `release`: a link ends, and the server is cleaned. `own_query`: queries of Weir on a
//!   server.
//! - `leave`: a client leaves or is refused. `lost`: a server is lost. `full`: sockets that are full. `timeouts`: a
//!   client or a server has taken too long. `pin`: a client keeps its server for what it has left (`mode = "auto"`).
//! - `wire`: the port as a link sees it. `stream`: links whose bytes are forwarded unchanged.
//! - `link_clock`: when things happened on a link, and how long its client holds the server. `deadlines`: until when a
//!   client or server must have acted.
//! - `statements`: what is counted of each statement. `recorded`: what is recorded of a link's traffic. `lost_state`: session state that clients lost.

pub(crate) mod acquire;
pub(crate) mod deadlines;
pub(crate) mod exchange;
pub(crate) mod full;
pub(crate) mod leave;
pub(crate) mod link_clock;
pub(crate) mod lost;
pub(crate) mod lost_state;
pub(crate) mod own_query;
pub(crate) mod pin;
pub(crate) mod query;
pub(crate) mod recorded;
pub(crate) mod relay;
pub(crate) mod release;
pub(crate) mod statements;
pub(crate) mod stream;
pub(crate) mod timeouts;
pub(crate) mod wire;
