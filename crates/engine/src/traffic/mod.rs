//! Traffic between clients and servers, and their links.
//!
//! - `relay`: bytes in both directions, and what is counted of them. `links`: when a link is made and ended, and the
//!   server's next state. `wire`: the port as a link sees it. `reading`: why a server is not read from. `stream`: links
//!   whose bytes are forwarded unchanged.
//! - `holding`: how long a client holds its server. `link_clock`: when things happened on a link. `deadlines`: until
//!   when a client or server must have acted.
//! - `statements`: what is counted of each statement.
//! - `cancel_key`, `cancel_pids`, `cancel_state`: what cancel requests name, and their progress.

pub(crate) mod cancel_key;
pub(crate) mod cancel_pids;
pub(crate) mod cancel_state;
pub(crate) mod deadlines;
pub(crate) mod holding;
pub(crate) mod link_clock;
pub(crate) mod links;
pub(crate) mod reading;
pub(crate) mod relay;
pub(crate) mod statements;
pub(crate) mod stream;
pub(crate) mod wire;
