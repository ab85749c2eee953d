//! Types that several crates of Weir share: handles of peers, time as a value, addresses, a slab, and printable text.
//!
//! Owns no policy and no protocol. Nothing here does I/O or calls the operating system.

mod addr;
mod ids;
mod policy;
mod printable;
mod slab;
mod time;

pub use addr::{ClientAddr, Host, Target};
pub use ids::{Peer, WorkerId};
pub use policy::{OnDirty, PoolMode, UnknownPolicy};
pub use printable::{Printable, is_hidden, prefix};
pub use slab::Slab;
pub use time::{Span, Time};
