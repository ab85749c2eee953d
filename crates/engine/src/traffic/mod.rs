//! What passes between clients and servers, and the links it passes over.
//!
//! - `relay`: bytes in both directions, and who is paused meanwhile. `links`: when a client and a server are linked, and what
//!   becomes of the server after. `wire`: the port as a link sees it.
//! - `holding`: how long a client holds its server. `deadlines`: time-outs of clients and servers.
//! - `cancel`: cancel requests; `cancel_key`, `cancel_state`: what they name, and how far they are.

pub(crate) mod cancel;
pub(crate) mod cancel_key;
pub(crate) mod cancel_state;
pub(crate) mod deadlines;
pub(crate) mod holding;
pub(crate) mod link_clock;
pub(crate) mod links;
pub(crate) mod reading;
pub(crate) mod relay;
pub(crate) mod wire;
