//! Types that several crates of Weir share: handles of connections, time as a value, addresses, queues in turn by
//! address and stores shared by it, a slab, spare buffers, collections that shrink, printable text, numbers with
//! their nouns, and the calendar.
//!
//! Owns no policy and no protocol. Nothing here does I/O or calls the operating system.

mod addr;
mod calendar;
mod fair_queue;
mod fair_room;
mod ids;
mod origin;
mod plural;
mod policy;
mod printable;
mod shrink;
mod slab;
mod spares;
mod state_kinds;
mod time;

pub use addr::{ClientAddr, Host, Target};
pub use calendar::civil;
pub use fair_queue::FairQueue;
pub use fair_room::FairRoom;
pub use ids::{ConnId, WorkerId};
pub use origin::Origin;
pub use plural::plural;
pub use policy::{OnDirty, PoolMode, UnknownPolicy};
pub use printable::{Printable, is_hidden, prefix};
pub use shrink::{Shrink, shrink};
pub use slab::Slab;
pub use spares::{SMALLEST_SPARE, Spares};
pub use state_kinds::{STATE_KINDS, StateKinds};
pub use time::{Span, Time};
