//! What several crates of Weir need, and no more: the handle of a peer, time as a value, addresses, a slab, and text that may
//! be shown.
//!
//! Owns no policy and no protocol. Nothing here does I/O or asks the operating system anything.

mod addr;
mod ids;
mod policy;
mod printable;
mod slab;
mod time;

pub use addr::{ClientAddr, Host, Target};
pub use ids::{Peer, WorkerId};
pub use policy::{OnDirty, PoolMode, UnknownPolicy};
pub use printable::{Printable, is_hidden};
pub use slab::Slab;
pub use time::{Span, Time};
